"""Options: how the fields of a struct declare what a user may set.

The type of such a field says everything about its option: the kind of value, its bounds and unit,
and what it does in a sentence. Configuration files, environment, command line, scenario files,
error messages and the pages of the reference are derived from that.

The bounds are not msgspec's own (`ge`, `le`), on purpose: they hold where a user gives a value,
which `option_reading` checks, and not where a struct is decoded. State that was kept under other
bounds can still be read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from math import inf
from typing import Annotated, Any, Final, Literal, NamedTuple, TypedDict

from msgspec import NODEFAULT, Meta, inspect

from byway.model.durations import MICROSECONDS, format_duration

LARGEST: Final = 2**53
"""The largest integer of an option that has no bound of its own; every float is exact up to it."""


class Facts(TypedDict, total=False):
    """What the annotations of one type say about it."""

    about: str
    """What the option does, in full sentences."""
    otherwise: str
    """What holds if the option is not given, where its default does not tell."""
    least: float
    above: float
    most: float
    """Bounds of a number, or of the length of a text or an array."""
    unit: str
    """In which a number is given; empty if it has none."""
    is_time: bool
    """Whether people write it as a time with its unit (`5s`), under a key without one."""
    order: Literal["rising", "falling"]
    """How the two numbers of a pair must follow each other; equal ones always may."""
    parse: Callable[[str, str], Any]
    """Makes the value from a text and the key it stands at. Raises `ConfigError`."""
    form: str
    """What such a text looks like."""
    cleared_by_empty: bool
    """An empty text takes back what a weaker source gave."""
    flag: str
    """The flag of `byway broker`, and what its value is called in the help: `--data DIR`."""
    was: str
    """The name of this option in earlier versions, still read with a note."""
    is_elsewhere: bool
    """It is no option of this table: users set it in another one."""


# --- declaring ---------------------------------------------------------------------------------


def option(
    about: str,
    *,
    otherwise: str = "",
    order: Literal["rising", "falling"] | None = None,
    cleared_by_empty: bool = False,
    flag: str = "",
    was: str = "",
) -> Meta:
    """What an option does, and what else holds for it but not for others of its type."""
    facts = Facts(about=about)
    if otherwise:
        facts["otherwise"] = otherwise
    if order is not None:
        facts["order"] = order
    if cleared_by_empty:
        facts["cleared_by_empty"] = True
    if flag:
        facts["flag"] = flag
    if was:
        facts["was"] = was
    return Meta(extra=dict(facts))


def within(least: float, most: float = LARGEST, unit: str = "") -> Meta:
    """A number from `least` to `most`, or a text or an array that is so long."""
    return Meta(extra=dict(Facts(least=least, most=most, unit=unit)))


def at_least(least: float, unit: str = "") -> Meta:
    """A finite number from `least` up, however large; or a text that is at least so long."""
    return Meta(extra=dict(Facts(least=least, unit=unit)))


def above(bound: float, most: float = LARGEST, unit: str = "") -> Meta:
    """A number above `bound`, up to `most`."""
    return Meta(extra=dict(Facts(above=bound, most=most, unit=unit)))


def time_within(least: int, most: int, unit: Literal["µs", "ms"]) -> Meta:
    """A time that people write with its unit, such as `5s`, and that the struct has as an integer.

    The field's name has the unit, as `retry_ms_max` has; the key of the option has not. The name of
    the field is still read as a key: a bare number means its unit there, and seconds elsewhere.
    """
    return Meta(extra=dict(Facts(least=least, most=most, unit=unit, is_time=True)))


def in_order(order: Literal["rising", "falling"]) -> Meta:
    """A pair of numbers that must not be in the opposite order."""
    return Meta(extra=dict(Facts(order=order)))


def parsed(parse: Callable[[str, str], Any], form: str) -> Meta:
    """A value that users write as a text of this form."""
    return Meta(extra=dict(Facts(parse=parse, form=form)))


def elsewhere() -> Meta:
    """A field that users do not set where it is, but in another table."""
    return Meta(extra=dict(Facts(is_elsewhere=True)))


Count = Annotated[int, within(0)]
Quantity = Annotated[int, within(1)]
Bytes = Annotated[int, within(1, unit="bytes")]
Share = Annotated[float, within(0, 1)]
Microseconds = Annotated[int, time_within(0, LARGEST, "µs")]
Duration = Annotated[float, within(0, inf, unit="s")]
"""Seconds that a client waits; infinity means for ever."""
PositiveDuration = Annotated[float, above(0, inf, unit="s")]

# --- looking at what is declared ---------------------------------------------------------------


_RANKS: Final[dict[type, int]] = {
    inspect.FloatType: 1,
    inspect.TupleType: 2,
    inspect.VarTupleType: 2,
}
"""Which member of a union is tried later than others."""


class OptionKind(NamedTuple):
    """A type as msgspec describes it, and what its annotations say."""

    type: inspect.Type
    facts: Facts

    @property
    def given(self) -> OptionKind:
        """The kind of a value that is given: this one without `None`, if one other is left."""
        if isinstance(self.type, inspect.UnionType):
            choices = self.choices
            if len(choices) == 1:
                return OptionKind(choices[0].type, Facts(**{**choices[0].facts, **self.facts}))
        return self

    @property
    def choices(self) -> list[OptionKind]:
        """What a union consists of, but for `None`: integers, then other numbers, then arrays."""
        assert isinstance(self.type, inspect.UnionType)
        kinds = [kind_of(t) for t in self.type.types if not isinstance(t, inspect.NoneType)]
        return sorted(kinds, key=lambda kind: _RANKS.get(type(kind.type), 0))


class Option(NamedTuple):
    """One option: a field of a struct, or of a struct in it."""

    key: str
    """Its name, after those of the tables that it is in, with dots between them."""
    kind: OptionKind
    default: Any
    """`NODEFAULT` if it must be given."""
    field: str
    """The name of its field as it is encoded, after those of the tables; a time has its unit."""

    @property
    def required(self) -> bool:
        """Whether it must be given."""
        return self.default is NODEFAULT


def kind_of(type_: inspect.Type) -> OptionKind:
    """A type without its annotations, and these."""
    if isinstance(type_, inspect.Metadata):
        return OptionKind(type_.type, Facts(**(type_.extra or {})))  # type: ignore[typeddict-item]
    return OptionKind(type_, Facts())


@lru_cache
def struct_info(struct: type) -> inspect.StructType:
    """How msgspec describes a struct."""
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    return info


def options_of(struct: type) -> list[Option]:
    """The options of one table, in the order of their declaration."""
    return list(_options(struct_info(struct), NODEFAULT, ""))


def all_options_of(struct: type) -> list[Option]:
    """The options of a table and, in place of each table in it, the options of that one."""
    return list(_leaves(options_of(struct)))


def _options(info: inspect.StructType, defaults: Any, prefix: str) -> Iterator[Option]:
    """`defaults` is the struct that holds if the table is not given, or `NODEFAULT`."""
    for field in given_fields(info):
        default = field.default if defaults is NODEFAULT else getattr(defaults, field.name)
        if default is NODEFAULT and field.default_factory is not NODEFAULT:
            default = field.default_factory()
        kind = kind_of(field.type)
        yield Option(
            joined(prefix, key_of(field)), kind, default, joined(prefix, field.encode_name)
        )


def given_fields(info: inspect.StructType) -> list[inspect.Field]:
    """The fields of a table that users set there."""
    return [f for f in info.fields if not kind_of(f.type).facts.get("is_elsewhere")]


def key_of(field: inspect.Field) -> str:
    """The key of a field: its name, without the unit of a time that is written with one."""
    facts = kind_of(field.type).given.facts
    return without_unit(field.encode_name) if facts.get("is_time") else field.encode_name


def without_unit(name: str) -> str:
    """The name of a time without its unit: `retry_max` of `retry_ms_max`."""
    return "_".join(part for part in name.split("_") if part not in ("us", "ms"))


def _leaves(options: list[Option]) -> Iterator[Option]:
    for option_ in options:
        info = option_.kind.given.type
        if isinstance(info, inspect.StructType) and "parse" not in option_.kind.given.facts:
            yield from _leaves(list(_options(info, option_.default or NODEFAULT, option_.key)))
        else:
            yield option_


def joined(path: str, key: str | int) -> str:
    """The path of `key` within `path`; members of arrays are counted from 0."""
    return f"{path}.{key}" if path else str(key)


# --- in words ----------------------------------------------------------------------------------


def words(kind: OptionKind) -> str:
    """What a value may be."""
    type_, facts = kind
    if "form" in facts:
        return facts["form"]
    if facts.get("is_time"):
        return _time_words(facts)
    match type_:
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            return "an integer" + _range_words(facts)
        case inspect.FloatType():
            return "a number" + _range_words(facts)
        case inspect.StrType():
            return _text_words(facts)
        case inspect.LiteralType(values=values):
            return "one of " + ", ".join(str(value) for value in values)
        case inspect.TupleType(item_types=members):
            return f"an array of {len(members)}, each {words(kind_of(members[0]))}"
        case inspect.VarTupleType(item_type=member):
            return _array_words(facts, kind_of(member))
        case inspect.StructType(array_like=True, fields=fields):
            return _entry_words(fields)
        case inspect.UnionType():
            return " or ".join(dict.fromkeys(words(choice) for choice in kind.choices))
    return "a table"


def unit_of(kind: OptionKind) -> str:
    """The unit of a value, or of the members of an array; empty if it has none."""
    type_, facts = kind.given
    if isinstance(type_, inspect.TupleType | inspect.VarTupleType):
        member = type_.item_types[0] if isinstance(type_, inspect.TupleType) else type_.item_type
        return unit_of(kind_of(member))
    return facts.get("unit", "")


def _range_words(facts: Facts) -> str:
    most = facts.get("most", inf)
    least, over = facts.get("least"), facts.get("above")
    if least is None and over is None:
        return ""
    if most in (LARGEST, inf):
        return f" of at least {_plain(least)}" if least is not None else f" above {over}"
    start = f"from {_plain(least)}" if least is not None else f"above {over}"
    return f" {start} to {_plain(most)}"


def _time_words(facts: Facts) -> str:
    least, most = (
        format_duration(int(bound) * MICROSECONDS[facts["unit"]])
        for bound in (facts["least"], facts["most"])
    )
    if facts["most"] == LARGEST:
        return f"a time of at least {least}" if facts["least"] else "a time, such as 10s or 250ms"
    return f"a time from {least} to {most}"


def _array_words(facts: Facts, member: OptionKind) -> str:
    array = "a non-empty array" if facts.get("least") else "an array"
    most = facts.get("most", LARGEST)
    bound = f"at most {_plain(most)} " if most < LARGEST else ""
    match member.type:
        case inspect.StrType():
            return f"{array} of {bound}strings"
        case inspect.StructType(array_like=False) | inspect.UnionType() if (
            "form" not in member.facts
        ):
            return f"{array} of {bound}tables"
    length = f" of {bound.rstrip()}" if bound else ""
    return f"{array}{length}, each {words(member)}"


def _entry_words(fields: tuple[inspect.Field, ...]) -> str:
    """The words for an array whose members have a meaning each; the last ones may be left out."""
    names = [field.encode_name for field in fields]
    needed = sum(field.required for field in fields)
    forms = [f"[{', '.join(names[:count])}]" for count in range(needed, len(names) + 1)]
    return " or ".join(forms)


def _text_words(facts: Facts) -> str:
    if "most" not in facts:
        return "a non-empty string" if facts.get("least") else "a string"
    return f"a string of {_plain(facts['least'])} to {_plain(facts['most'])} characters"


def _plain(bound: float) -> str:
    return str(int(bound)) if bound == int(bound) else str(bound)
