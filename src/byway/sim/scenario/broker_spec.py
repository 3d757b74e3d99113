"""Options of simulated brokers: those that `core.broker_config` and, for their disks,
`engine.node_storage` declare, in a scenario's units.

A scenario gives times in seconds, and what it does not give is left to the broker. Options of the
mesh, a table of its own in a broker's file, have names that begin with `mesh_`. Everything else
about an option, its name and sentence included, comes from its declaration.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar, get_type_hints

import msgspec
from msgspec import inspect

from byway.core.broker_config import BrokerConfig
from byway.core.mesh.mesh_config import MeshConfig
from byway.model.options import Option, kind_of, option, options_of, unit_of, within
from byway.sim.engine.node_storage import StorageOptions
from byway.sim.scenario.value_types import Count, ScenarioTable, Seconds, microseconds

_MICROSECONDS: Final = re.compile(r"_us(_max)?$")
_AT_LEAST_ONE: Final = frozenset(
    ("session_messages_max", "session_bytes_max", "sessions_max", "sessions_bytes_max")
)
"""Bounds that may be 0 in a broker process, but not in a scenario."""


_Options = TypeVar("_Options", BrokerConfig, MeshConfig, StorageOptions)
_PREFIXES: Final[dict[type, str]] = {BrokerConfig: "", MeshConfig: "mesh_", StorageOptions: ""}
"""By table, what the names of its options begin with in a scenario."""


def scenario_name(table: type, field: str) -> str:
    """The name of a field of a table, as a scenario has it."""
    return _PREFIXES[table] + _MICROSECONDS.sub(r"_s\1", field)


def _fields(table: type) -> Iterator[tuple[str, Any, None]]:
    """The fields of a scenario for the options of a table."""
    hints = get_type_hints(table, include_extras=True)
    declared_options = options_of(table)
    for declared in declared_options:
        about = declared.kind.facts["about"]
        for other in declared_options:
            about = about.replace(f"`{other.key}`", f"`{scenario_name(table, other.field)}`")
        value_type = _value_type(declared, hints[declared.field])
        name = scenario_name(table, declared.field)
        yield name, Annotated[value_type | None, option(about)], None


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
    least, unit = max(1, facts["least"]), unit_of(declared.kind)
    return Annotated[int, within(least, facts["most"], unit=unit)]


if TYPE_CHECKING:
    _Derived = ScenarioTable  # what its fields are is known at run time
else:
    _Derived = msgspec.defstruct(
        "_Derived",
        [field for table in _PREFIXES for field in _fields(table)],
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
            given = getattr(self, scenario_name(type(options), declared.field))
            if given is not None:
                is_time = declared.kind.facts.get("is_time")
                changed[declared.field] = microseconds(given) if is_time else given
        if isinstance(options, BrokerConfig):
            changed["mesh"] = self.applied_to(options.mesh)
        return msgspec.structs.replace(options, **changed)
