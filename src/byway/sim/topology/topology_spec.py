"""Topology specs: what the table `topology` of a scenario file can say, and the network it means.

`{kind = "balanced-tree", brokers = 63, fan_out = 2}` becomes a `BalancedTreeSpec`, and that a
`Topology`. Each kind is a struct whose fields declare its keys; how they are read and refused is in
`model.option_reading`. Keys that do not go together are told by `problems` of a kind; whether links
make a tree is left to `Topology`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Final, Literal

import msgspec
import numpy as np

from byway.model.errors import ConfigError, TopologyError
from byway.model.option_reading import OptionsError, Problem, quoted, read
from byway.model.options import at_least, joined, option, parsed, within
from byway.model.tree_shapes import degree_needed
from byway.sim.topology import shapes
from byway.sim.topology.seed_trees import seed_names, seed_topology
from byway.sim.topology.transit_stub import (
    Placement,
    TransitStub,
    UnderlayOptions,
    error_of,
    place,
    transit_stub,
)
from byway.sim.topology.tree import (
    BROKERS_MAX,
    COST_DEFAULT,
    LATENCY_US_DEFAULT,
    NAME_LENGTH_MAX,
    LatencyUs,
    LinkCost,
    LinkSpec,
    Role,
    Topology,
)

Rng = np.random.Generator

_TABLE: Final = "topology"

# --- values -------------------------------------------------------------------------------------


def _seed_name(text: str, key: str) -> str:
    if text not in seed_names():
        expected = f"expected one of {', '.join(seed_names())}"
        raise ConfigError(key, f"{expected}, found {quoted(text)}")
    return text


_Size = Annotated[int, within(1, BROKERS_MAX)]
_Count = Annotated[_Size, option("The number of brokers.")]
_BrokerName = Annotated[str, within(1, NAME_LENGTH_MAX)]
_Degree = Annotated[
    int | None,
    at_least(1),
    option(
        "The most links that a broker may have; at least 2 if there are more than two brokers.",
        otherwise="any",
    ),
]
_Seed = Annotated[
    int | None,
    at_least(0),
    option("Decides all that is random about the topology.", otherwise="the seed of the run"),
]
_Latency = Annotated[LatencyUs, option("The latency of the links.")]
_Cost = Annotated[LinkCost, option("The cost of the links.")]


class LinkEntry(msgspec.Struct, frozen=True, array_like=True):
    """A link as it is written out, with its latency and cost if they are its own."""

    a: _BrokerName
    b: _BrokerName
    latency_us: LatencyUs | None = None
    cost: LinkCost | None = None


# --- kinds --------------------------------------------------------------------------------------


class TopologyKind(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"
):
    """A kind of topology. Its fields are the keys of its table, besides `kind`."""

    def problems(self) -> Iterator[Problem]:
        """What keys that are well-formed cannot say together, by the names of keys."""
        return iter(())


class ChainSpec(TopologyKind, frozen=True, kw_only=True, tag="chain"):
    """The chain B1-B2-…-Bn."""

    brokers: _Count
    latency_us: _Latency = LATENCY_US_DEFAULT
    cost: _Cost = COST_DEFAULT


class StarSpec(TopologyKind, frozen=True, kw_only=True, tag="star"):
    """The star with B1 in the middle."""

    brokers: _Count
    latency_us: _Latency = LATENCY_US_DEFAULT
    cost: _Cost = COST_DEFAULT


class BalancedTreeSpec(TopologyKind, frozen=True, kw_only=True, tag="balanced-tree"):
    """A tree filled level by level, or a complete one."""

    brokers: Annotated[
        _Size | None,
        option(
            "The number of brokers, if there is no `depth`; levels are filled from the left.",
            otherwise="as `depth` says",
        ),
    ] = None
    depth: Annotated[
        int | None,
        at_least(0),
        option(
            "The number of links from B1 to each leaf of a complete tree, if `brokers` is not "
            "given.",
            otherwise="as `brokers` says",
        ),
    ] = None
    fan_out: Annotated[int, at_least(1), option("The number of children of each inner broker.")]
    latency_us: _Latency = LATENCY_US_DEFAULT
    cost: _Cost = COST_DEFAULT

    def problems(self) -> Iterator[Problem]:
        if self.brokers is None and self.depth is None:
            yield Problem("brokers", "missing; expected it or depth")
        elif self.depth is not None and self.brokers is not None:
            yield Problem("depth", "brokers is there too; expected one of them")
        elif self.depth is not None:
            try:
                shapes.complete_size(self.fan_out, self.depth)
            except TopologyError as error:
                yield Problem("depth", error.reason)


class RandomTreeSpec(TopologyKind, frozen=True, kw_only=True, tag="random-tree"):
    """Each broker is linked to a random earlier one."""

    brokers: _Count
    degree_max: _Degree = None
    seed: _Seed = None
    latency_us: _Latency = LATENCY_US_DEFAULT
    cost: _Cost = COST_DEFAULT

    def problems(self) -> Iterator[Problem]:
        yield from _degree_problems(self.degree_max, self.brokers)


class LinksSpec(TopologyKind, frozen=True, kw_only=True, tag="links"):
    """The links that are listed."""

    links: Annotated[
        tuple[LinkEntry, ...],
        option(
            'The links: two brokers each, `["A", "B"]`, then a latency in µs and a cost where the '
            "link has its own."
        ),
    ]
    brokers: Annotated[
        Annotated[tuple[_BrokerName, ...], within(1, BROKERS_MAX)] | None,
        option("The brokers in order.", otherwise="as `links` names them first"),
    ] = None
    roles: Annotated[
        dict[str, tuple[_BrokerName, ...]],
        option('Brokers by role, for the places of a scenario: `{ core = ["A", "B"] }`.'),
    ] = msgspec.field(default_factory=dict)
    latency_us: _Latency = LATENCY_US_DEFAULT
    cost: _Cost = COST_DEFAULT


class SeedTreeSpec(TopologyKind, frozen=True, kw_only=True, tag="seed"):
    """A network of the papers."""

    name: Annotated[
        str,
        parsed(_seed_name, "the name of one of the papers' networks"),
        option("The name of the network."),
    ]
    seed: _Seed = None
    latency_us: _Latency = LATENCY_US_DEFAULT
    cost: _Cost = COST_DEFAULT


class TransitStubSpec(UnderlayOptions, TopologyKind, frozen=True, kw_only=True, tag="transit-stub"):
    """A tree over brokers that are placed on an underlay."""

    brokers: Annotated[
        _Size, option("The number of brokers, at most that of the nodes of the underlay.")
    ]
    overlay: Annotated[
        Literal["random", "minimum"],
        option("A random tree, which ignores latencies, or the minimum spanning tree by latency."),
    ] = "random"
    degree_max: _Degree = None
    seed: _Seed = None
    cost_min: Annotated[LinkCost, option("The cost of a link between the nearest brokers.")] = 0.0
    cost_max: Annotated[LinkCost, option("The cost of a link between the farthest brokers.")] = 10.0

    def problems(self) -> Iterator[Problem]:
        underlay = list(super().problems())
        yield from underlay
        if not underlay and self.brokers > self.nodes:
            yield Problem("brokers", f"expected 1 to the {self.nodes} nodes of the underlay")
        if self.overlay == "random":
            yield from _degree_problems(self.degree_max, self.brokers)
        elif self.degree_max is not None:
            yield Problem("degree_max", "only a random overlay has it")
        if self.cost_min > self.cost_max:
            yield Problem("cost_min", f"more than cost_max, {self.cost_max:g}")


TopologySpec = (
    ChainSpec
    | StarSpec
    | BalancedTreeSpec
    | RandomTreeSpec
    | LinksSpec
    | SeedTreeSpec
    | TransitStubSpec
)


def _degree_problems(degree_max: int | None, brokers: int) -> Iterator[Problem]:
    needed = degree_needed(brokers)
    if degree_max is not None and degree_max < needed:
        yield Problem("degree_max", f"expected at least {needed} for {brokers} brokers")


# --- building -----------------------------------------------------------------------------------


def build_topology(spec: TopologySpec, rng: Rng | None = None) -> Topology:
    """The network that a spec means; its `seed`, if it has one, goes before `rng`.

    Raises `TopologyError` if it means none.
    """
    match spec:
        case ChainSpec():
            return shapes.chain(spec.brokers, latency_us=spec.latency_us, cost=spec.cost)
        case StarSpec():
            return shapes.star(spec.brokers, latency_us=spec.latency_us, cost=spec.cost)
        case BalancedTreeSpec():
            return shapes.balanced_tree(
                spec.brokers,
                fan_out=spec.fan_out,
                depth=spec.depth,
                latency_us=spec.latency_us,
                cost=spec.cost,
            )
        case RandomTreeSpec():
            return shapes.random_tree(
                spec.brokers,
                rng=_needed_rng(spec.seed, rng),
                degree_max=spec.degree_max,
                latency_us=spec.latency_us,
                cost=spec.cost,
            )
        case LinksSpec():
            return _of_links(spec)
        case SeedTreeSpec():
            tree = seed_topology(spec.name, _rng(spec.seed, rng))
            return tree.with_links(spec.latency_us, spec.cost)
        case TransitStubSpec():
            return _over_underlay(spec, _needed_rng(spec.seed, rng))


def _of_links(spec: LinksSpec) -> Topology:
    links = tuple(
        LinkSpec(
            entry.a,
            entry.b,
            spec.latency_us if entry.latency_us is None else entry.latency_us,
            spec.cost if entry.cost is None else entry.cost,
        )
        for entry in spec.links
    )
    names = spec.brokers
    if names is None:
        names = tuple(dict.fromkeys(name for link in links for name in (link.a, link.b)))
    return Topology(names, links, tuple(Role(*role) for role in spec.roles.items()))


def _over_underlay(spec: TransitStubSpec, rng: Rng) -> Topology:
    ground = _placed(spec, rng)
    if spec.overlay == "minimum":
        return ground.minimum_overlay(spec.cost_min, spec.cost_max)
    return ground.random_overlay(rng, spec.degree_max, spec.cost_min, spec.cost_max)


def _placed(spec: TransitStubSpec, rng: Rng) -> Placement:
    names = UnderlayOptions.__struct_fields__
    parameters = TransitStub(**{name: getattr(spec, name) for name in names})
    return place(transit_stub(parameters, rng=rng), spec.brokers, rng=rng)


def _rng(seed: int | None, rng: Rng | None) -> Rng | None:
    """The generator of a seed, or else the one that was handed in."""
    return rng if seed is None else shapes.seeded(seed)


def _needed_rng(seed: int | None, rng: Rng | None) -> Rng:
    """The generator for a kind that cannot do without one."""
    found = _rng(seed, rng)
    if found is None:
        raise TopologyError(joined(_TABLE, "seed"), "missing; expected it, for this kind is random")
    return found


# --- reading ------------------------------------------------------------------------------------


class _Holder(msgspec.Struct, frozen=True):
    """The table under its own name, so that problems name their whole key."""

    topology: TopologySpec


def from_spec(spec: Mapping[str, object], rng: Rng | None = None) -> Topology:
    """The network that a table describes; its `seed`, if it has one, goes before `rng`.

    Raises `TopologyError` with every key at fault and what was expected there.
    """
    return build_topology(_read(spec), rng)


def placement_from_spec(spec: Mapping[str, object], rng: Rng | None = None) -> Placement:
    """The brokers on the underlay of a transit-stub spec, below the network of `from_spec`."""
    found = _read(spec)
    if not isinstance(found, TransitStubSpec):
        expected = "expected transit-stub: others have no underlay"
        raise TopologyError(joined(_TABLE, "kind"), expected)
    return _placed(found, _needed_rng(found.seed, rng))


def spec_problems(spec: TopologySpec) -> list[Problem]:
    """What keys of a spec cannot say together, each under its whole key."""
    return [Problem(joined(_TABLE, key), reason) for key, reason, _ in spec.problems()]


def _read(spec: Mapping[str, object]) -> TopologySpec:
    try:
        found = read(_Holder, {_TABLE: spec}).topology
    except OptionsError as error:
        raise error_of(error.problems) from None
    if problems := spec_problems(found):
        raise error_of(problems)
    return found
