"""Values: what an attribute may hold, and how two values compare.

Four kinds: booleans, 64-bit integers and floats (one kind: *number*), strings. Kinds never mix: a
boolean is not a number and a number is not a string. This file decides equality and order; it knows
nothing of predicates.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from math import isnan
from typing import Final

from byway.model.errors import InvalidValueError, shortened

Number = int | float
Value = bool | int | float | str
Attributes = Mapping[str, Value]

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
INFINITY: Final = float("inf")
NAME_LENGTH_MAX: Final = 255
STRING_LENGTH_MAX: Final = 65_536
ATTRIBUTES_MAX: Final = 256

_EXACT: Final = 2**53  # every integer up to here is a float


class Kind(IntEnum):
    """The kind of a value. NaN is a number that satisfies nothing but EXISTS."""

    BOOLEAN = 0
    NUMBER = 1
    STRING = 2
    NAN = 3


def kind_of(value: Value) -> Kind:
    """The kind of `value`; anything that is not a value is an error that names it."""
    kind = _KINDS.get(type(value))
    if kind is None:
        kind = _kind_of_subclass(value)
    if kind is Kind.NUMBER and value != value:
        return Kind.NAN
    return kind


_KINDS: Final[dict[type, Kind]] = {
    bool: Kind.BOOLEAN,
    int: Kind.NUMBER,
    float: Kind.NUMBER,
    str: Kind.STRING,
}


def _kind_of_subclass(value: object) -> Kind:
    for base, kind in _KINDS.items():
        if isinstance(value, base):
            return kind
    raise InvalidValueError(
        f"{shortened(repr(value))} ({type(value).__name__}) is not a value: "
        "expected bool, int, float or str"
    )


def number_key(value: Number) -> tuple[float, int]:
    """A pair that orders all 64-bit integers and all floats exactly, as one line of numbers.

    The float nearest to `value`, then what rounding lost. Rounding is monotone, so comparing pairs
    compares values; nothing lies between (f, r) and (f, r + 1), so an open bound is a closed one
    with r moved by one. The kernels compare the same pairs.
    """
    if -_EXACT <= value <= _EXACT or isinstance(value, float):
        return (float(value), 0)
    nearest = float(value)
    return (nearest, value - int(nearest))


def canonical_number(value: Number) -> Number:
    """The one spelling of a number inside filters: integral floats become ints, -0.0 becomes 0."""
    if isinstance(value, float):
        if isnan(value):
            raise InvalidValueError("NaN cannot stand in a filter: nothing compares with it")
        if value.is_integer() and INT_MIN <= value <= INT_MAX:
            return int(value)
        return float(value)
    check_int(value)
    return int(value)


def check_int(value: int) -> None:
    """Raise `InvalidValueError` unless `value` fits into 64 bits."""
    if not INT_MIN <= value <= INT_MAX:  # its digits are not shown: there may be thousands
        raise InvalidValueError(
            f"an integer of {value.bit_length()} bits does not fit into 64 bits"
        )


def check_string(value: str) -> str:
    """`value` itself if it may stand in a filter or publication, else an error."""
    if len(value) > STRING_LENGTH_MAX:
        raise InvalidValueError(
            f"a string may have at most {STRING_LENGTH_MAX} characters, this one has {len(value)}"
        )
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidValueError(
            f"{shortened(repr(value))} is not valid Unicode text: {error.reason}"
        ) from None
    return value


def check_name(name: object) -> str:
    """`name` itself if it may name an attribute, else an error."""
    if not isinstance(name, str) or not 0 < len(name) <= NAME_LENGTH_MAX:
        raise InvalidValueError(
            f"{shortened(repr(name))} is not an attribute name: "
            f"expected 1 to {NAME_LENGTH_MAX} characters"
        )
    return check_string(name)


def check_attributes(attributes: Attributes) -> None:
    """Raise `InvalidValueError`, naming the attribute, unless a publication may carry these."""
    if len(attributes) > ATTRIBUTES_MAX:
        raise InvalidValueError(
            f"a publication may have at most {ATTRIBUTES_MAX} attributes, got {len(attributes)}"
        )
    for name, value in attributes.items():
        # the usual ones, without a call: five times as fast
        if type(name) is str and name.isascii() and 0 < len(name) <= NAME_LENGTH_MAX:
            if type(value) is float or type(value) is bool:
                continue
            if type(value) is str and value.isascii() and len(value) <= STRING_LENGTH_MAX:
                continue
            if type(value) is int and INT_MIN <= value <= INT_MAX:
                continue
        check_name(name)
        try:
            kind = kind_of(value)
            if kind is Kind.STRING:
                check_string(str(value))
            elif kind is Kind.NUMBER and isinstance(value, int):
                check_int(value)
        except InvalidValueError as error:
            raise InvalidValueError(f"attribute {name!r}: {error}") from None


def check_sizes(attributes: Attributes, size: int) -> None:
    """`check_attributes` for those of plain types, with integers that fit, which take `size` bytes
    on the wire: few as these are, hardly anything in them can be too long."""
    if "" in attributes or (
        size > NAME_LENGTH_MAX  # no string has more characters than bytes, and attributes are fewer
        and (
            size > STRING_LENGTH_MAX
            or len(attributes) > ATTRIBUTES_MAX
            or max(map(len, attributes), default=0) > NAME_LENGTH_MAX
        )
    ):
        check_attributes(attributes)
