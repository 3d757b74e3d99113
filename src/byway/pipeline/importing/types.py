"""Types: the type of a column of a user's table (declared, of its frame, or inferred), and the
values of its cells, as expressions of Spark.

It decides which cell becomes which value, and says why one cannot. What is done with values and
reasons is decided elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from byway.model.values import STRING_LENGTH_MAX

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

_INTEGER: Final = re.compile(r"[-+]?(?:0|[1-9]\d*)")
_ANY_INTEGER: Final = re.compile(r"[-+]?[0-9]+")
_NUMBER: Final = re.compile(
    r"[-+]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[-+]?[0-9]+)?|inf(?:inity)?|nan)", re.IGNORECASE
)
_WORDS: Final = ("true", "false")
_MOST: Final = 0.9
_BLANKS: Final = " \t\r\n\x0b\x0c"
_QUOTED_MAX: Final = 40


class Type(StrEnum):
    """The type of the values in a column."""

    INTEGER = "integer"
    NUMBER = "number"
    STRING = "string"
    BOOLEAN = "boolean"
    SKIP = "skip"
    """The column is left out."""


# --- values of cells --------------------------------------------------------------------------


def value_and_reason(cell: Column, of: DataType, type_: Type) -> tuple[Column, Column]:
    """The value of a cell of a frame's type, null if it is empty or none; and why it is none."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import StringType

    if isinstance(of, StringType):
        cell = sql.when(cell != "", cell)  # an empty cell is an absent one
        value, reason = _OF_TEXT[type_](cell)
    else:
        value, reason = _of_value(cell, of, type_)
    return value, sql.when(cell.isNotNull(), reason)


def _integer(cell: Column) -> tuple[Column, Column]:
    from pyspark.sql import functions as sql

    value = cell.try_cast("bigint")
    is_large = sql.trim(cell).rlike(f"^{_ANY_INTEGER.pattern}$")
    why = sql.when(is_large, "does not fit into 64 bits").otherwise("is no integer")
    return value, sql.when(value.isNull(), _told(cell, why))


def _number(cell: Column) -> tuple[Column, Column]:
    from pyspark.sql import functions as sql

    is_number = cell.rlike(rf"(?i)^\s*{_NUMBER.pattern}\s*$")
    value = sql.when(is_number, cell.try_cast("double"))
    is_large = (sql.abs(value) == float("inf")) & cell.rlike("[0-9]")
    too_large = sql.lit("is too large for a floating-point number")
    reason = sql.when(value.isNull(), _told(cell, sql.lit("is no number")))
    return value, reason.when(is_large, _told(cell, too_large))


def _boolean(cell: Column) -> tuple[Column, Column]:
    from pyspark.sql import functions as sql

    word = sql.lower(sql.btrim(cell, sql.lit(_BLANKS)))
    value = sql.when(word == "true", True).when(word == "false", False)
    return value, sql.when(value.isNull(), _told(cell, sql.lit("is neither true nor false")))


def _string(cell: Column) -> tuple[Column, Column]:
    from pyspark.sql import functions as sql

    size = sql.char_length(cell)
    told = f"a string may have at most {STRING_LENGTH_MAX} characters, this one has "
    return cell, sql.when(size > STRING_LENGTH_MAX, sql.concat(sql.lit(told), size.cast("string")))


_OF_TEXT: Final = {
    Type.INTEGER: _integer,
    Type.NUMBER: _number,
    Type.BOOLEAN: _boolean,
    Type.STRING: _string,
}


def _of_value(cell: Column, of: DataType, type_: Type) -> tuple[Column, Column]:
    """As `value_and_reason`, of a cell that is no text."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import BooleanType, NumericType

    shown = cell.cast("string")
    if type_ is Type.STRING:
        return _string(shown)
    is_number = isinstance(of, NumericType)
    nothing = sql.lit(None).cast("string")
    if type_ is Type.NUMBER and is_number:
        return cell.cast("double"), nothing
    if type_ is Type.BOOLEAN and isinstance(of, BooleanType):
        return cell, nothing
    if type_ is Type.INTEGER and is_number:
        whole = cell.try_cast("bigint")
        is_whole = sql.coalesce(whole == cell, sql.lit(False))
        is_large = sql.coalesce(sql.floor(cell.cast("double")) == cell, sql.lit(False))
        why = sql.when(is_large, "does not fit into 64 bits").otherwise("is no integer")
        return sql.when(is_whole, whole), sql.when(~is_whole, _told(shown, why))
    told = {Type.INTEGER: "is no integer", Type.NUMBER: "is no number"}
    why = sql.lit(told.get(type_, "is neither true nor false"))
    return sql.lit(None).cast(_SPARK[type_]), _told(shown, why)


_SPARK: Final = {Type.INTEGER: "bigint", Type.NUMBER: "double", Type.BOOLEAN: "boolean"}


def _told(cell: Column, why: Column) -> Column:
    """A reason, with the beginning of the cell."""
    from pyspark.sql import functions as sql

    cut = sql.concat(sql.substring(cell, 1, _QUOTED_MAX - 1), sql.lit("…"))
    shown = sql.when(sql.char_length(cell) > _QUOTED_MAX, cut).otherwise(cell)
    return sql.concat(sql.lit("'"), shown, sql.lit("' "), why)


# --- what a column holds ----------------------------------------------------------------------


def inferred(columns: Mapping[str, Iterable[str | None]]) -> dict[str, Type]:
    """The type of each column of CSV: booleans or numbers if nine of ten cells are, those that are
    empty apart; else strings. Numbers with leading zeros, such as article numbers, are strings."""
    return {
        name: _fitting([cell.strip() for cell in cells if cell]) for name, cells in columns.items()
    }


def _fitting(cells: list[str]) -> Type:
    if sum(cell.lower() in _WORDS for cell in cells) > _MOST * len(cells):
        return Type.BOOLEAN
    numbers = [cell for cell in cells if _NUMBER.fullmatch(cell)]
    if len(numbers) <= _MOST * len(cells):
        return Type.STRING
    if any(_ANY_INTEGER.fullmatch(cell) and not _INTEGER.fullmatch(cell) for cell in numbers):
        return Type.STRING
    return Type.INTEGER if all(map(_INTEGER.fullmatch, numbers)) else Type.NUMBER


def declared(of: DataType) -> Type | None:
    """The type of a column of a frame; None if no attribute can hold its values as they are."""
    from pyspark.sql import types as t

    is_unsigned = isinstance(of, t.DecimalType) and (of.precision, of.scale) == (20, 0)
    if isinstance(of, t.IntegralType) or is_unsigned:  # 64 bits without a sign are a decimal
        return Type.INTEGER
    if isinstance(of, t.FractionalType) and not isinstance(of, t.DecimalType):
        return Type.NUMBER
    if isinstance(of, t.BooleanType):
        return Type.BOOLEAN
    return Type.STRING if isinstance(of, t.StringType) else None
