"""Options of simulated brokers: those that `core.broker_config` and, for their disks,
`engine.node_storage` declare, in a scenario's units.

A scenario gives times in seconds, and what it does not give is left to the broker. Everything else
about an option, its name and sentence included, comes from its declaration.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, get_type_hints

import msgspec
from msgspec import inspect

from byway.core.broker_config import BrokerConfig
from byway.model.options import Option, kind_of, option, options_of, unit_of, within
from byway.sim.engine.node_storage import StorageOptions
from byway.sim.scenario.value_types import Count, ScenarioTable, Seconds, microseconds

_MICROSECONDS: Final = re.compile(r"_us(_max)?$")
_AT_LEAST_ONE: Final = frozenset(
    ("session_messages_max", "session_bytes_max", "sessions_max", "sessions_bytes_max")
)
"""Bounds that may be 0 in a broker process, but not in a scenario."""


_TABLES: Final = (BrokerConfig, StorageOptions)
_DECLARED: Final = [declared for table in _TABLES for declared in options_of(table)]
_HINTS: Final = {
    name: hint
    for table in _TABLES
    for name, hint in get_type_hints(table, include_extras=True).items()
}
_Options = TypeVar("_Options", BrokerConfig, StorageOptions)


def _in_seconds(name: str) -> str:
    """The name of a field of the core, as a scenario has it."""
    return _MICROSECONDS.sub(r"_s\1", name)


def _field(declared: Option) -> tuple[str, Any, None]:
    """The field of a scenario for an option of the core."""
    about = declared.kind.facts["about"]
    for other in _DECLARED:
        about = about.replace(f"`{other.key}`", f"`{_in_seconds(other.field)}`")
    value_type = _value_type(declared, _HINTS[declared.field])
    return _in_seconds(declared.field), Annotated[value_type | None, option(about)], None


def _value_type(declared: Option, hint: Any) -> Any:
    """The type of an option's value. Counts have the bounds that they have all over a scenario."""
    type_, facts = declared.kind
    if facts.get("is_time"):
        return Seconds
    if isinstance(type_, inspect.TupleType):
        is_count = isinstance(kind_of(type_.item_types[0]).type, inspect.IntType)
        return Annotated[tuple[Count, Count], *hint.__metadata__] if is_count else hint
    if not isinstance(type_, inspect.IntType):
        return hint
    if facts["least"] == 0 and declared.key not in _AT_LEAST_ONE:
        return Count
    return Annotated[int, within(max(1, facts["least"]), unit=unit_of(declared.kind))]


if TYPE_CHECKING:
    _Derived = ScenarioTable  # what its fields are is known at run time
else:
    _Derived = msgspec.defstruct(
        "_Derived",
        [_field(declared) for declared in _DECLARED],
        bases=(ScenarioTable,),
        module=__name__,
        frozen=True,
        kw_only=True,
    )


class BrokerSpec(_Derived, frozen=True, kw_only=True):
    """Options of a broker; what is not given is the broker's own default."""

    def applied_to(self, options: _Options) -> _Options:
        """`options` with what is given here; times there are in microseconds."""
        changed: dict[str, Any] = {}
        for declared in options_of(type(options)):
            given = getattr(self, _in_seconds(declared.field))
            if given is not None:
                is_time = declared.kind.facts.get("is_time")
                changed[declared.field] = microseconds(given) if is_time else given
        return msgspec.structs.replace(options, **changed)
