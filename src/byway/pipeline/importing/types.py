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


def cell_of(cell: Column, of: DataType) -> Column:
    """A cell of a frame's type; an empty text is null."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import StringType

    return sql.when(cell != "", cell) if isinstance(of, StringType) else cell


def value_of(cell: Column, of: DataType, type_: Type) -> Column:
    """The value of a cell; null if it is null, or has none of this type."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import BooleanType, IntegralType, NumericType, StringType

    if type_ is Type.STRING:
        return cell.cast("string")
    if isinstance(of, StringType):
        if type_ is Type.INTEGER:
            return cell.try_cast("bigint")
        if type_ is Type.NUMBER:
            return sql.when(cell.rlike(rf"(?i)^\s*{_NUMBER.pattern}\s*$"), cell.try_cast("double"))
        word = sql.lower(sql.btrim(cell, sql.lit(_BLANKS)))
        return sql.when(word == "true", True).when(word == "false", False)
    if type_ is Type.BOOLEAN and isinstance(of, BooleanType):
        return cell
    if type_ is Type.NUMBER and isinstance(of, NumericType):
        return cell.cast("double")
    if type_ is Type.INTEGER and isinstance(of, IntegralType):
        return cell.cast("bigint")
    if type_ is Type.INTEGER and isinstance(of, NumericType):
        whole = cell.try_cast("bigint")
        return sql.when(whole == cell, whole)
    return sql.lit(None).cast(_SPARK[type_])


def can_fail(of: DataType, type_: Type) -> bool:
    """Whether a cell of a frame's type may have no value of this type."""
    from pyspark.sql import types as t

    return not (
        (type_ is Type.INTEGER and isinstance(of, t.IntegralType))
        or (type_ is Type.NUMBER and isinstance(of, t.NumericType))
        or (type_ is Type.BOOLEAN and isinstance(of, t.BooleanType))
    )


def reason_of(cell: Column, value: Column, of: DataType, type_: Type) -> Column:
    """Why a cell is rejected that has this value; null: it is not."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import NumericType

    if type_ is Type.STRING:
        size = sql.char_length(value)
        told = f"a string may have at most {STRING_LENGTH_MAX} characters, this one has "
        long = sql.concat(sql.lit(told), size.cast("string"))
        return sql.when(size > STRING_LENGTH_MAX, long)
    text = cell.cast("string")
    why = sql.lit(_WHY[type_])
    if type_ is Type.INTEGER:
        is_large = sql.trim(text).rlike(f"^{_ANY_INTEGER.pattern}$")
        if isinstance(of, NumericType):
            real = cell.cast("double")
            is_large = (sql.rint(real) == real) & ~sql.isnan(real)
        why = sql.when(is_large, "does not fit into 64 bits").otherwise(why)
    reason = sql.when(cell.isNotNull() & value.isNull(), _told(text, why))
    if type_ is Type.NUMBER:
        is_large = (sql.abs(value) == float("inf")) & text.rlike("[0-9]")
        too_large = sql.lit("is too large for a floating-point number")
        reason = reason.when(is_large, _told(text, too_large))
    return reason


_SPARK: Final = {Type.INTEGER: "bigint", Type.NUMBER: "double", Type.BOOLEAN: "boolean"}
_WHY: Final = {
    Type.INTEGER: "is no integer",
    Type.NUMBER: "is no number",
    Type.BOOLEAN: "is neither true nor false",
}


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
