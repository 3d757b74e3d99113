"""Everything that may travel, walked by its types: where bounds are, and values beyond them.

A value is built as plain lists, as they stand in msgpack, from the types alone; so a field that is
added without a bound is found here and not by a stranger.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec import inspect

from byway.model.filters import Filter
from byway.model.messages import AnyFrame

WORD_MAX = 2**64 - 1  # the largest integer there is in msgpack
IN_FRAMES = {"PublishRequest.body", "Status.facts"}
"""Bytes that may be as long as a frame."""
Path = tuple[int, ...]


class Place(NamedTuple):
    """A value somewhere within a frame."""

    frame: type
    name: str
    """The struct and field that it is in."""
    path: Path
    type: inspect.Type
    example: list[Any]
    """A frame that holds one."""

    def holding(self, value: Any) -> list[Any]:
        """The frame with another value there."""
        frame = _copied(self.example)
        at = frame
        for step in self.path[:-1]:
            at = at[step]
        at[self.path[-1]] = value
        return frame


def _copied(value: Any) -> Any:
    return [_copied(member) for member in value] if isinstance(value, list) else value


def _with(value: list[Any], path: Path, member: Any) -> list[Any]:
    copy = _copied(value)
    at = copy
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = member
    return copy


def example(type: inspect.Type) -> Any:
    """The least value of a type, as plain as msgpack has it; unions give their first member."""
    match type:
        case inspect.Metadata(type=inner):
            return example(inner)
        case inspect.StructType(cls=cls) if cls is Filter:
            return [[[]], False]  # TRUE
        case inspect.StructType():
            fields = [example(field.type) for field in type.fields]
            return [type.tag, *fields] if type.tag is not None else fields
        case inspect.UnionType(types=types):
            return example(types[0])
        case inspect.VarTupleType(item_type=item):
            return [example(item)]
        case inspect.TupleType(item_types=items):
            return [example(item) for item in items]
        case inspect.IntType():
            return type.ge or 0
        case inspect.FloatType():
            return type.ge or 0.0
        case inspect.StrType():
            return "broker" if type.max_length == 16 else "x" * (type.min_length or 0)
        case inspect.BytesType():
            return b""
        case inspect.NoneType():
            return None
        case inspect.BoolType():
            return False
        case inspect.EnumType(cls=cls):
            return next(iter(cls)).value
    raise TypeError(f"no example of {type!r}")


def places() -> Iterator[Place]:
    """Every value of every kind of frame, each within a frame that holds it."""
    union = inspect.type_info(AnyFrame)
    assert isinstance(union, inspect.UnionType)
    for kind in union.types:
        assert isinstance(kind, inspect.StructType)
        yield from _within(kind.cls, kind, kind.cls.__name__, (), example(kind))


def _within(
    frame: type, type: inspect.Type, name: str, path: Path, whole: list[Any]
) -> Iterator[Place]:
    if isinstance(type, inspect.Metadata):
        yield from _scalar(frame, type.type, name, path, whole, type.extra or {})
        type = type.type
    else:
        yield from _scalar(frame, type, name, path, whole, {})
    match type:
        case inspect.StructType(cls=cls) if cls is Filter:
            return
        case inspect.StructType():
            first = 0 if type.tag is None else 1
            for at, field in enumerate(type.fields, first):
                place = f"{type.cls.__name__}.{field.name}"
                yield from _within(frame, field.type, place, (*path, at), whole)
        case inspect.UnionType(types=types):
            for member in types:
                other = _with(whole, path, example(member))
                yield from _within(frame, member, name, path, other)
        case inspect.VarTupleType(item_type=item):
            yield from _within(frame, item, name, (*path, 0), whole)
        case inspect.TupleType(item_types=items):
            for at, item in enumerate(items):
                yield from _within(frame, item, name, (*path, at), whole)


_BOUNDED = inspect.IntType | inspect.FloatType | inspect.StrType | inspect.VarTupleType
_COUNTED = inspect.BytesType | inspect.DictType | inspect.ListType | inspect.SetType
_FREE = (
    inspect.StructType
    | inspect.UnionType
    | inspect.TupleType
    | inspect.BoolType
    | inspect.EnumType
    | inspect.NoneType
)


def _scalar(
    frame: type, type: inspect.Type, name: str, path: Path, whole: list[Any], extra: dict[str, Any]
) -> Iterator[Place]:
    if isinstance(type, _BOUNDED | _COUNTED):
        if extra.get("bits") == 64:
            assert isinstance(type, inspect.IntType)
            assert type.ge == 0, name
            type = inspect.IntType(ge=0, le=WORD_MAX)
        yield Place(frame, name, path, type, whole)
    else:
        assert isinstance(type, _FREE), f"{name} is a {type!r}"


def unbounded(place: Place) -> str:
    """What bound a value lacks, if it lacks one."""
    type = place.type
    if isinstance(type, inspect.IntType | inspect.FloatType):
        return "" if type.ge is not None and type.le is not None else "ge and le"
    if isinstance(type, inspect.BytesType) and place.name in IN_FRAMES:
        return ""
    return "" if getattr(type, "max_length", None) is not None else "max_length"
