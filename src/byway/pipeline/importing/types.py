"""Types: the type of a column of a user's table (declared, from its file, or inferred), and the
values of its cells.

It decides which cell becomes which value, and says why one cannot. What is done with values and
reasons is decided elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from enum import StrEnum
from math import isfinite, isinf
from typing import Any, Final

import pyarrow as pa

from byway.model.errors import InvalidValueError, shortened
from byway.model.values import INT_MAX, INT_MIN, Value, check_string

_INTEGER: Final = re.compile(r"[-+]?(?:0|[1-9]\d*)")
_ANY_INTEGER: Final = re.compile(r"[-+]?\d+")
_NUMBER: Final = re.compile(
    r"[-+]?(?:(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?|inf(?:inity)?|nan)", re.IGNORECASE
)
_BOOLEANS: Final = {"true": True, "false": False}
_MOST: Final = 0.9


class Type(StrEnum):
    """The type of the values in a column."""

    INTEGER = "integer"
    NUMBER = "number"
    STRING = "string"
    BOOLEAN = "boolean"
    SKIP = "skip"
    """The column is left out."""


class CellError(ValueError):
    """A cell does not fit the type of its column; the message says why."""


def value_of(cell: Any, type_: Type) -> Value:
    """The value of a cell: a text from CSV, or a value from Parquet. Raises `CellError`."""
    try:
        return _CONVERTERS[type_](cell)
    except InvalidValueError as error:
        raise CellError(str(error)) from None


def _integer(cell: Any) -> int:
    number = cell
    if isinstance(cell, str):
        if not _ANY_INTEGER.fullmatch(text := cell.strip()):
            raise CellError(f"{_quoted(cell)} is no integer")
        number = int(text) if len(text) < 64 else INT_MAX + 1
    elif isinstance(cell, float | Decimal) and isfinite(cell) and cell == int(cell):
        number = int(cell)
    if not isinstance(number, int) or isinstance(number, bool):
        raise CellError(f"{_quoted(cell)} is no integer")
    if not INT_MIN <= number <= INT_MAX:
        raise CellError(f"{_quoted(cell)} does not fit into 64 bits")
    return number


def _number(cell: Any) -> float:
    if isinstance(cell, str) and _NUMBER.fullmatch(cell.strip()):
        number = float(cell)
        if isinf(number) and any(map(str.isdigit, cell)):
            raise CellError(f"{_quoted(cell)} is too large for a floating-point number")
        return number
    if isinstance(cell, int | float | Decimal) and not isinstance(cell, bool):
        return float(cell)
    raise CellError(f"{_quoted(cell)} is no number")


def _boolean(cell: Any) -> bool:
    value = _BOOLEANS.get(cell.strip().lower()) if isinstance(cell, str) else cell
    if not isinstance(value, bool):
        raise CellError(f"{_quoted(cell)} is neither true nor false")
    return value


def _string(cell: Any) -> str:
    return check_string(cell if isinstance(cell, str) else str(cell))


_CONVERTERS: Final[dict[Type, Callable[[Any], Value]]] = {
    Type.INTEGER: _integer,
    Type.NUMBER: _number,
    Type.BOOLEAN: _boolean,
    Type.STRING: _string,
}


def _quoted(cell: Any) -> str:
    return repr(shortened(cell if isinstance(cell, str) else str(cell)))


# --- what a column holds ----------------------------------------------------------------------


def inferred(columns: Mapping[str, Iterable[str]]) -> dict[str, Type]:
    """The type of each column of CSV: booleans or numbers if nine of ten cells are, those that are
    empty apart; else strings. Numbers with leading zeros, such as article numbers, are strings."""
    return {
        name: _fitting([cell.strip() for cell in cells if cell]) for name, cells in columns.items()
    }


def _fitting(cells: list[str]) -> Type:
    if sum(cell.lower() in _BOOLEANS for cell in cells) > _MOST * len(cells):
        return Type.BOOLEAN
    numbers = [cell for cell in cells if _NUMBER.fullmatch(cell)]
    if len(numbers) <= _MOST * len(cells):
        return Type.STRING
    if any(_ANY_INTEGER.fullmatch(cell) and not _INTEGER.fullmatch(cell) for cell in numbers):
        return Type.STRING
    return Type.INTEGER if all(map(_INTEGER.fullmatch, numbers)) else Type.NUMBER


def declared(schema: Any) -> dict[str, Type | None]:
    """The type of each column of Parquet; None where it holds something else."""
    return {field.name: _of_arrow(field.type) for field in schema}


def _of_arrow(kind: Any) -> Type | None:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_integer(kind):
        return Type.INTEGER
    if pa.types.is_floating(kind):
        return Type.NUMBER
    if pa.types.is_boolean(kind):
        return Type.BOOLEAN
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return Type.STRING if is_text or pa.types.is_string_view(kind) else None
