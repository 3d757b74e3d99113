"""Shape: whether plain data has the keys and kinds of values that a struct asks for.

It names the key at fault, what is there and what was expected, and for an unknown key the nearest
one. It walks msgspec's own description of the type, so the structs remain the only schema; what a
scenario means is not known here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Final

from msgspec import inspect

from byway.model.errors import shortened
from byway.sim.scenario.schema import ScenarioError


def check_shape(value: object, type_: Any, path: str = "") -> None:
    """Raise `ScenarioError` at the first key where `value` does not fit the struct `type_`."""
    _check(value, _described(type_), path)


def unknown_key(path: str, key: str, known: Iterable[str]) -> ScenarioError:
    """The refusal of a key that does not exist, with the nearest one that does."""
    names = list(known)
    near = get_close_matches(key, names, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(names)}"
    return ScenarioError(joined(path, key), f"unknown key; {hint}")


def refusal(path: str, expected: str, found: object) -> ScenarioError:
    """The refusal of a value."""
    return ScenarioError(path, f"expected {expected}, found {quoted(found)}")


def joined(path: str, key: str | int) -> str:
    """The path of `key` within `path`; members of arrays are counted from 0."""
    return f"{path}.{key}" if path else str(key)


def quoted(found: object) -> str:
    """What was found, nearly as TOML writes it."""
    match found:
        case bool():
            return "true" if found else "false"
        case Mapping():
            return "a table"
        case list() | tuple():
            return f"an array of {len(found)}"
        case str():
            return repr(shortened(found))
    return shortened(str(found))


@lru_cache
def _described(type_: Any) -> inspect.Type:
    return inspect.type_info(type_)


# --- one function a kind of type --------------------------------------------------------------


def _check(value: object, type_: inspect.Type, path: str) -> None:
    _CHECKS[type(type_)](value, type_, path)


def _check_struct(value: object, type_: inspect.StructType, path: str) -> None:
    if not isinstance(value, Mapping):
        raise refusal(path, "a table", value)
    fields = {field.encode_name: field for field in type_.fields}
    for key, member in value.items():
        if key not in fields:
            raise unknown_key(path, key, fields)
        _check(member, fields[key].type, joined(path, key))
    for key, field in fields.items():
        if field.required and key not in value:
            raise ScenarioError(joined(path, key), f"missing; expected {_words(field.type)}")


def _check_union(value: object, type_: inspect.UnionType, path: str) -> None:
    choices = _choices(type_)
    if isinstance(choices[0], inspect.StructType) and choices[0].tag_field:
        _check_tagged(value, [c for c in choices if isinstance(c, inspect.StructType)], path)
        return
    for choice in choices:
        if len(choices) == 1 or _is_kind(value, choice):
            _check(value, choice, path)
            return
    raise refusal(path, _words(type_), value)


def _check_tagged(value: object, choices: list[inspect.StructType], path: str) -> None:
    if not isinstance(value, Mapping):
        raise refusal(path, "a table", value)
    tag_field = str(choices[0].tag_field)
    tags = "one of " + ", ".join(str(choice.tag) for choice in choices)
    if tag_field not in value:
        raise ScenarioError(joined(path, tag_field), f"missing; expected {tags}")
    for choice in choices:
        if choice.tag == value[tag_field]:
            rest = {key: member for key, member in value.items() if key != tag_field}
            _check_struct(rest, choice, path)
            return
    raise refusal(joined(path, tag_field), tags, value[tag_field])


def _check_table(value: object, type_: inspect.DictType, path: str) -> None:
    if not isinstance(value, Mapping):
        raise refusal(path, "a table", value)
    for key, member in value.items():
        _check(member, type_.value_type, joined(path, key))


def _check_array(value: object, type_: inspect.VarTupleType, path: str) -> None:
    if not isinstance(value, list) or len(value) < (type_.min_length or 0):
        raise refusal(path, _words(type_), value)
    for number, member in enumerate(value):
        _check(member, type_.item_type, joined(path, number))


def _check_fixed_array(value: object, type_: inspect.TupleType, path: str) -> None:
    if not isinstance(value, list) or len(value) != len(type_.item_types):
        raise refusal(path, _words(type_), value)
    for number, (member, member_type) in enumerate(zip(value, type_.item_types, strict=True)):
        _check(member, member_type, joined(path, number))


def _check_number(value: object, type_: inspect.IntType | inspect.FloatType, path: str) -> None:
    if not _is_kind(value, type_) or not _within(value, type_):
        raise refusal(path, _words(type_), value)


def _check_text(value: object, type_: inspect.StrType, path: str) -> None:
    if not isinstance(value, str) or not _fits(len(value), type_):
        raise refusal(path, _words(type_), value)


def _check_literal(value: object, type_: inspect.LiteralType, path: str) -> None:
    if not isinstance(value, str) or value not in type_.values:
        raise refusal(path, _words(type_), value)


def _check_bool(value: object, type_: inspect.BoolType, path: str) -> None:
    if not isinstance(value, bool):
        raise refusal(path, _words(type_), value)


def _check_nothing(value: object, type_: inspect.AnyType, path: str) -> None:
    """Whoever uses this part of a scenario checks it."""


_CHECKS: Final[dict[type, Callable[[object, Any, str], None]]] = {
    inspect.AnyType: _check_nothing,
    inspect.BoolType: _check_bool,
    inspect.DictType: _check_table,
    inspect.FloatType: _check_number,
    inspect.IntType: _check_number,
    inspect.LiteralType: _check_literal,
    inspect.StrType: _check_text,
    inspect.StructType: _check_struct,
    inspect.TupleType: _check_fixed_array,
    inspect.UnionType: _check_union,
    inspect.VarTupleType: _check_array,
}


# --- what is asked for ------------------------------------------------------------------------


def _choices(type_: inspect.UnionType) -> list[inspect.Type]:
    return [choice for choice in type_.types if not isinstance(choice, inspect.NoneType)]


def _is_kind(value: object, type_: inspect.Type) -> bool:
    """Whether a value is of the kind, whatever its bounds. A TOML boolean is no number."""
    match type_:
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.IntType():
            return isinstance(value, int) and not isinstance(value, bool)
        case inspect.FloatType():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            return number and math.isfinite(value)  # type: ignore[arg-type]
        case inspect.StrType() | inspect.LiteralType():
            return isinstance(value, str)
        case inspect.TupleType() | inspect.VarTupleType():
            return isinstance(value, list)
    return isinstance(value, Mapping)


def _within(value: Any, type_: inspect.IntType | inspect.FloatType) -> bool:
    return (
        (type_.ge is None or value >= type_.ge)
        and (type_.gt is None or value > type_.gt)
        and (type_.le is None or value <= type_.le)
    )


def _fits(length: int, type_: inspect.StrType) -> bool:
    least, most = type_.min_length, type_.max_length
    return (least is None or length >= least) and (most is None or length <= most)


def _words(type_: inspect.Type) -> str:
    match type_:
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return "an integer" + _range_words(type_)
        case inspect.FloatType():
            return "a number" + _range_words(type_)
        case inspect.StrType(min_length=1, max_length=most) if most is not None:
            return f"a string of 1 to {most} characters"
        case inspect.StrType():
            return "a string"
        case inspect.LiteralType(values=values):
            return "one of " + ", ".join(str(value) for value in values)
        case inspect.TupleType(item_types=members):
            return f"an array of {len(members)}"
        case inspect.VarTupleType(min_length=least):
            return "an array that is not empty" if least else "an array"
        case inspect.UnionType():
            return " or ".join(_words(choice) for choice in _choices(type_))
    return "a table"


def _range_words(type_: inspect.IntType | inspect.FloatType) -> str:
    if type_.le is None:
        return ""
    least = f"above {_plain(type_.gt)}" if type_.gt is not None else f"from {_plain(type_.ge or 0)}"
    return f" {least} to {_plain(type_.le)}"


def _plain(bound: float) -> str:
    return str(int(bound)) if bound == int(bound) else str(bound)
