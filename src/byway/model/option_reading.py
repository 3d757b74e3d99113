"""Reading options: plain data becomes the struct that declares them, or a list of all problems.

Plain data is what TOML has: tables, arrays, texts, numbers and booleans. Where only texts can be
given (variables, flags), `from_text` makes plain data of them first. Each problem names its key,
what was expected and what was found there, and for an unknown key the nearest one that exists.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import inspect

from byway.model.durations import MICROSECONDS, parse_duration
from byway.model.errors import BywayError, ConfigError, InvalidValueError, shortened
from byway.model.options import (
    Facts,
    OptionKind,
    all_options_of,
    given_fields,
    joined,
    key_of,
    kind_of,
    options_of,
    struct_info,
    words,
)

T = TypeVar("T")
_FLOAT = inspect.FloatType()
_ROUNDING = 0.001
"""How far a time may be from a whole number of its unit, so that floats may be inexact."""


class Problem(NamedTuple):
    """One thing that is wrong, and where it was given, if that is known."""

    key: str
    reason: str
    source: str = ""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.source, self.key, self.reason) if part)


class OptionsError(BywayError, ValueError):
    """Options that cannot be used, with everything that is wrong with them."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(problems)
        self.problems = list(problems)

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


def read(struct: type[T], data: object, path: str = "") -> T:
    """The struct that plain data describes. Raises `OptionsError`; `path` is where the data is."""
    return struct(**_members(struct, data, path))


def read_member(struct: type, key: str, data: object) -> dict[str, Any]:
    """The field of a struct that plain data under one key of its table describes, and its value.
    Raises `OptionsError`; the whole table is read with the same result."""
    reader = _Reader(struct)
    found: dict[str, Any] = {}
    reader.member(found, key, data, struct, "")
    if reader.problems:
        raise OptionsError(reader.problems)
    return found


def check(struct: type, data: object, path: str = "") -> None:
    """Raise `OptionsError` unless plain data describes the struct."""
    _members(struct, data, path)


def _members(struct: type, data: object, path: str) -> dict[str, Any]:
    reader = _Reader(struct)
    found = reader.members(data, struct_info(struct), path)
    if reader.problems:
        raise OptionsError(reader.problems)
    assert found is not None
    return found


def check_bounds(options: msgspec.Struct) -> None:
    """Raise `ConfigError` unless every number, text and choice of a struct is one that is declared.

    For structs that programs build: whether an integer is given as a float is their business.
    """
    for key in _bounded(type(options)):
        check_option(type(options), key, getattr(options, key))


def check_option(struct: type, key: str, value: Any) -> None:
    """Raise `ConfigError` unless a number, text or choice is one that a field of a struct may be.

    For what programs hand in, as `check_bounds` is.
    """
    kind = _bounded(struct)[key]
    match kind.type:
        case inspect.LiteralType(values=values):
            is_declared = value in values
        case inspect.StrType():
            is_declared = isinstance(value, str) and _within(len(value), kind.facts)
        case _:
            is_declared = _within(value, kind.facts)
    if not is_declared:
        raise ConfigError(key, refused(kind, value))


@lru_cache
def _bounded(struct: type) -> dict[str, OptionKind]:
    """The options of a struct that are numbers, texts or choices, by name."""
    kinds = {option.key: option.kind.given for option in options_of(struct)}
    bounded = inspect.IntType | inspect.FloatType | inspect.StrType | inspect.LiteralType
    return {key: kind for key, kind in kinds.items() if isinstance(kind.type, bounded)}


def from_text(text: str, kind: OptionKind) -> Any:
    """What a text means as a value of a kind; the text itself if it means none."""
    kind = kind.given
    match kind.type:
        case inspect.BoolType():
            return {"true": True, "false": False}.get(text.lower(), text)
        case inspect.IntType() if re.fullmatch(r"[+-]?[0-9][0-9_]*", text):
            return int(text)
        case inspect.FloatType() if re.fullmatch(r"[+-]?[0-9]*\.?[0-9]+", text):
            return float(text)
        case inspect.TupleType(item_types=types):
            parts = text.removeprefix("[").removesuffix("]").split(",")
            if len(parts) == len(types):
                pairs = zip(parts, types, strict=True)
                return [from_text(part.strip(), kind_of(type_)) for part, type_ in pairs]
        case inspect.VarTupleType():
            return [part.strip() for part in text.split(",") if part.strip()]
    return text


# --- what is said ------------------------------------------------------------------------------


def refused(kind: OptionKind, found: object) -> str:
    """Why a value is refused."""
    return f"expected {words(kind)}, found {quoted(found)}"


def unknown_key(path: str, key: str, known: Iterable[str], elsewhere: Iterable[str] = ()) -> str:
    """What is said of a key that does not exist, with the nearest one: the same key of another
    table, one of the same table, whose keys are `known`, or else of those whose paths are given."""
    names = list(known)
    last = key.rpartition(".")[2]
    others = {other.rpartition(".")[2]: other for other in reversed(list(elsewhere))}
    if last in others:
        return f"unknown key; did you mean {others[last]!r}?"
    if near := get_close_matches(last, names, n=1):
        return f"unknown key; did you mean {joined(path, near[0])!r}?"
    if near := get_close_matches(last, others, n=1):
        return f"unknown key; did you mean {others[near[0]]!r}?"
    return f"unknown key; expected one of {', '.join(names)}"


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
            return shortened(repr(found))
    return shortened(str(found))


# --- reading -----------------------------------------------------------------------------------


@lru_cache
def _fields_of(struct: type) -> tuple[dict[str, inspect.Field], dict[str, str]]:
    """The fields of a struct that users set there, by their keys; and these by encoded names."""
    fields = {key_of(field): field for field in given_fields(struct_info(struct))}
    return fields, {field.encode_name: key for key, field in fields.items()}


@lru_cache
def _kinds_of(struct: type) -> dict[str, OptionKind]:
    """The kinds of these fields, by their keys."""
    kinds = {key: kind_of(field.type) for key, field in _fields_of(struct)[0].items()}
    return {
        key: kind if kind.facts.get("cleared_by_empty") else kind.given
        for key, kind in kinds.items()
    }


class _Reader:
    """Makes values of plain data and collects what is wrong. A value is None if anything is."""

    def __init__(self, root: type) -> None:
        self.problems: list[Problem] = []
        self._root = root

    def members(self, found: object, info: inspect.StructType, path: str) -> dict[str, Any] | None:
        if info.array_like:
            return self._entry(found, info, path)
        if not isinstance(found, Mapping):
            self._refuse(path, OptionKind(info, Facts()), found)
            return None
        made: dict[str, Any] = {}
        for key, member in found.items():
            self.member(made, key, member, info.cls, path)
        for key, field in _fields_of(info.cls)[0].items():
            if field.required and field.name not in made:
                self._problem(joined(path, key), f"missing; expected {words(kind_of(field.type))}")
        return made

    def member(
        self, made: dict[str, Any], key: str, found: object, struct: type, path: str
    ) -> None:
        """Add the field that stands under a key of the table of a struct."""
        fields, names = _fields_of(struct)
        own = names.get(key) or key
        field = fields.get(own)
        at = joined(path, key)
        if field is None:
            self._problem(at, unknown_key(path, key, fields, self._elsewhere(path)))
        elif field.name in made:
            self._problem(at, f"{joined(path, key_of(field))} is there too")
        else:
            kind = _kinds_of(struct)[own]
            if key not in fields:
                kind = _in_its_unit(kind)
            made[field.name] = self.value(found, kind, at, field.default)

    def _entry(self, found: object, info: inspect.StructType, path: str) -> dict[str, Any] | None:
        """The members of a struct that is written as an array, by the order of its fields."""
        needed = sum(field.required for field in info.fields)
        if not isinstance(found, list | tuple) or not needed <= len(found) <= len(info.fields):
            self._refuse(path, OptionKind(info, Facts()), found)
            return None
        return {
            field.name: self.value(member, kind_of(field.type), joined(path, number))
            for number, (member, field) in enumerate(zip(found, info.fields, strict=False))
        }

    def _elsewhere(self, path: str) -> list[str]:
        """Keys of other tables that may be meant; none in a table that is one of many."""
        keys = [option.key for option in all_options_of(self._root)]
        return keys if not path or any(key.startswith(f"{path}.") for key in keys) else []

    def value(self, found: object, kind: OptionKind, path: str, default: Any = None) -> Any:
        if found == "" and kind.facts.get("cleared_by_empty"):
            return None
        kind = kind.given
        type_, facts = kind
        if "parse" in facts:
            return self._parsed(found, kind, path)
        match type_:
            case inspect.AnyType():
                return found
            case inspect.StructType():
                return self._struct(found, type_, path, default)
            case inspect.UnionType():
                return self._union(found, kind, path)
            case inspect.DictType(value_type=member):
                if isinstance(found, Mapping):
                    each = kind_of(member)
                    return {k: self.value(m, each, joined(path, k)) for k, m in found.items()}
            case inspect.TupleType(item_types=types):
                if isinstance(found, list | tuple) and len(found) == len(types):
                    pair = self._array(found, types, path)
                    return self._in_order(pair, facts, path)
            case inspect.VarTupleType(item_type=member):
                if isinstance(found, list | tuple) and _within(len(found), facts):
                    return self._array(found, [member] * len(found), path)
            case inspect.FloatType():
                number = _number_of(found, kind)
                if _is_kind(number, type_) and _within(number, facts):
                    return float(number)  # type: ignore[arg-type]
            case inspect.IntType():
                number = _number_of(found, kind)
                if _is_kind(number, type_) and _within(number, facts):
                    return number
            case inspect.StrType():
                if isinstance(found, str) and _within(len(found), facts):
                    return found
            case inspect.LiteralType(values=values):
                if isinstance(found, str) and found in values:
                    return found
            case inspect.BoolType():
                if isinstance(found, bool):
                    return found
        return self._refuse(path, kind, found)

    def _struct(self, found: object, info: inspect.StructType, path: str, default: Any) -> Any:
        """A struct; what is not given is as in its default, if the table itself has one."""
        before = len(self.problems)
        made = self.members(found, info, path)
        if made is None or len(self.problems) > before:
            return None
        if isinstance(default, info.cls):
            return msgspec.structs.replace(default, **made)
        return info.cls(**made)

    def _union(self, found: object, kind: OptionKind, path: str) -> Any:
        choices = kind.choices
        if isinstance(choices[0].type, inspect.StructType) and choices[0].type.tag_field:
            return self._tagged(found, [choice.type for choice in choices], path)
        for choice in choices:
            if _is_kind(found, choice.type):
                return self.value(found, choice, path)
        return self._refuse(path, kind, found)

    def _tagged(self, found: object, choices: Sequence[Any], path: str) -> Any:
        if not isinstance(found, Mapping):
            return self._refuse(path, OptionKind(choices[0], Facts()), found)
        tag_field = choices[0].tag_field
        at = joined(path, tag_field)
        tags = "one of " + ", ".join(str(choice.tag) for choice in choices)
        if tag_field not in found:
            return self._problem(at, f"missing; expected {tags}")
        tag = found[tag_field]
        for choice in choices:
            if choice.tag == tag:
                rest = {key: member for key, member in found.items() if key != tag_field}
                return self._struct(rest, choice, path, None)
        return self._problem(at, f"expected {tags}, found {quoted(tag)}")

    def _array(
        self, found: Sequence[object], types: Sequence[inspect.Type], path: str
    ) -> tuple[Any, ...]:
        return tuple(
            self.value(member, kind_of(type_), joined(path, number))
            for number, (member, type_) in enumerate(zip(found, types, strict=True))
        )

    def _in_order(self, pair: tuple[Any, ...], facts: Facts, path: str) -> Any:
        order = facts.get("order")
        if order is None or None in pair:
            return pair
        first, second = pair
        if order == "rising" and first > second:
            return self._problem(path, f"{_number(first)} is more than {_number(second)}")
        if order == "falling" and first < second:
            return self._problem(path, f"{_number(first)} is less than {_number(second)}")
        return pair

    def _parsed(self, found: object, kind: OptionKind, path: str) -> Any:
        if not isinstance(found, str):
            return self._refuse(path, kind, found)
        try:
            return kind.facts["parse"](found, path)
        except ConfigError as error:
            return self._problem(path, error.reason)

    def _refuse(self, path: str, kind: OptionKind, found: object) -> None:
        self._problem(path, refused(kind, found))

    def _problem(self, path: str, reason: str) -> None:
        self.problems.append(Problem(path, reason))


def _in_its_unit(kind: OptionKind) -> OptionKind:
    """The kind of a time under a key that has the unit: a bare number is in that unit there."""
    kind = kind.given
    return OptionKind(kind.type, Facts(**{**kind.facts, "is_time": False}))


def _number_of(found: object, kind: OptionKind) -> object:
    """The number that was found. A time such as `5s` becomes a number in the unit of its option; so
    does a bare number of seconds, where times are written with their unit."""
    type_, facts = kind
    if facts.get("unit") not in MICROSECONDS:
        return found
    if isinstance(found, str):
        try:
            seconds = parse_duration(found)
        except InvalidValueError:
            return found
    elif facts.get("is_time") and _is_kind(found, _FLOAT) and math.isfinite(found):  # type: ignore[arg-type]
        seconds = float(found)  # type: ignore[arg-type]
    else:
        return found
    count = seconds * (1_000_000 // MICROSECONDS[facts["unit"]])
    whole = round(count)
    is_whole = isinstance(type_, inspect.IntType) and abs(count - whole) < _ROUNDING
    return whole if is_whole else count


def _is_kind(value: object, type_: inspect.Type) -> bool:
    """Whether a value is of the kind, whatever its bounds. A boolean is no number, and an integer
    beyond all floats is none that can be a float."""
    match type_:
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.IntType():
            return isinstance(value, int) and not isinstance(value, bool)
        case inspect.FloatType():
            return isinstance(value, float) or (
                isinstance(value, int)
                and not isinstance(value, bool)
                and abs(value) <= sys.float_info.max
            )
        case inspect.StrType() | inspect.LiteralType():
            return isinstance(value, str)
        case inspect.TupleType() | inspect.VarTupleType():
            return isinstance(value, list | tuple)
    return isinstance(value, Mapping)


def _within(value: Any, facts: Facts) -> bool:
    """Whether a number is within its bounds. It must be finite, unless infinity is its bound."""
    most = facts.get("most")
    return (
        (isinstance(value, int) or math.isfinite(value) or (most == math.inf == abs(value)))
        and ("least" not in facts or value >= facts["least"])
        and ("above" not in facts or value > facts["above"])
        and (most is None or value <= most)
    )


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
