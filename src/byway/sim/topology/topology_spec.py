"""Topology specs: the table of a scenario file that says which topology to build.

`{kind = "balanced-tree", brokers = 63, fan_out = 2}` becomes a `Topology`. This file checks keys
and kinds of values and names the key at fault; ranges that a constructor checks are left to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec
import numpy as np

from byway.model.errors import TopologyError, shortened
from byway.sim.topology import shapes
from byway.sim.topology.seed_trees import seed_topology
from byway.sim.topology.transit_stub import Placement, TransitStub, place, transit_stub
from byway.sim.topology.tree import (
    COST_DEFAULT,
    LATENCY_US_DEFAULT,
    LinkSpec,
    Role,
    Topology,
)

Spec = Mapping[str, object]


def from_spec(spec: Spec, rng: np.random.Generator | None = None) -> Topology:
    """The network that `spec` describes; its `seed`, if it has one, goes before `rng`.

    Raises `TopologyError` with the key and what was expected there.
    """
    build, keys = _KINDS[_kind(spec)]
    return build(_Reader(spec, keys, rng))


def placement_from_spec(spec: Spec, rng: np.random.Generator | None = None) -> Placement:
    """The brokers on the underlay of a transit-stub spec, below the network of `from_spec`."""
    if _kind(spec) != "transit-stub":
        raise TopologyError(
            "topology key 'kind'", "expected 'transit-stub': others have no underlay"
        )
    reader = _Reader(spec, _KINDS["transit-stub"][1], rng)
    return _placement(reader, reader.rng())


def spec_keys() -> dict[str, tuple[str, ...]]:
    """The keys that each kind knows, besides `kind`."""
    return {kind: keys for kind, (_, keys) in _KINDS.items()}


def _kind(spec: Spec) -> str:
    kind = spec.get("kind")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise _refusal("kind", spec.get("kind", _MISSING), f"one of {', '.join(_KINDS)}")
    return kind


# --- reading keys ---------------------------------------------------------------------------------


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


_MISSING: Final = _Missing()


def _refusal(key: str, found: object, expected: str) -> TopologyError:
    return TopologyError(f"topology key {key!r}", f"expected {expected}, found {_quoted(found)}")


def _any_bool(*values: object) -> bool:
    """Whether a value is a boolean, which Python takes for an integer."""
    return any(isinstance(value, bool) for value in values)


def _quoted(found: object) -> str:
    return shortened(repr(found))


class _Reader:
    """Reads one spec. Every method raises `TopologyError` for a value of the wrong kind; unknown
    keys are refused at once."""

    def __init__(self, spec: Spec, keys: tuple[str, ...], rng: np.random.Generator | None) -> None:
        for key in spec:
            if key != "kind" and key not in keys:
                expected = f"unknown for kind {spec['kind']!r}; expected {', '.join(keys)}"
                raise TopologyError(f"topology key {shortened(str(key))!r}", expected)
        self._spec = spec
        self._rng = rng

    def has(self, key: str) -> bool:
        """Whether the spec has a key."""
        return key in self._spec

    def integer(self, key: str, default: int | None = None) -> int:
        """The integer at a key; without a default the key must be there."""
        value = self._spec.get(key, _MISSING if default is None else default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise _refusal(key, value, "an integer")
        return value

    def optional_integer(self, key: str) -> int | None:
        """The integer at a key; None: the key is not there."""
        return self.integer(key) if self.has(key) else None

    def number(self, key: str, default: float) -> float:
        """The number at a key."""
        value = self._spec.get(key, default)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise _refusal(key, value, "a number")
        return float(value)

    def word(self, key: str, *, among: tuple[str, ...] = (), default: str | None = None) -> str:
        """The string at a key, one of `among` if that is given."""
        value = self._spec.get(key, _MISSING if default is None else default)
        if not isinstance(value, str) or (among and value not in among):
            expected = f"one of {', '.join(among)}" if among else "a string"
            raise _refusal(key, value, expected)
        return value

    def table(self, key: str) -> Mapping[str, object]:
        """The table at a key; without it an empty one."""
        value = self._spec.get(key, {})
        if not isinstance(value, Mapping):
            raise _refusal(key, value, "a table")
        return value

    def items(self, key: str) -> list[object]:
        """The array at a key, which must be there."""
        value = self._spec.get(key, _MISSING)
        if not isinstance(value, list | tuple):
            raise _refusal(key, value, "an array")
        return list(value)

    def span(self, key: str) -> tuple[int, int]:
        """The two integers at a key, which must be there."""
        value = self._spec[key]
        match value:
            case [int(low), int(high)] if not _any_bool(low, high):
                return low, high
        raise _refusal(key, value, "two integers, [low, high]")

    def optional_rng(self) -> np.random.Generator | None:
        """The generator of the spec's seed, else the one that was handed in; None: neither."""
        return shapes.seeded(self.integer("seed")) if self.has("seed") else self._rng

    def rng(self) -> np.random.Generator:
        """The generator for a kind that cannot do without one."""
        found = self.optional_rng()
        if found is None:
            raise _refusal("seed", _MISSING, "an integer: this kind is random")
        return found

    def latency_us(self) -> int:
        """The latency of all links."""
        return self.integer("latency_us", LATENCY_US_DEFAULT)

    def cost(self) -> float:
        """The cost of all links."""
        return self.number("cost", COST_DEFAULT)


# --- kinds ----------------------------------------------------------------------------------------


def _chain(reader: _Reader) -> Topology:
    count = reader.integer("brokers")
    return shapes.chain(count, latency_us=reader.latency_us(), cost=reader.cost())


def _star(reader: _Reader) -> Topology:
    count = reader.integer("brokers")
    return shapes.star(count, latency_us=reader.latency_us(), cost=reader.cost())


def _balanced_tree(reader: _Reader) -> Topology:
    if reader.has("brokers") == reader.has("depth"):
        found = "both" if reader.has("depth") else "neither"
        raise TopologyError("topology key 'brokers'", f"expected it or 'depth', found {found}")
    return shapes.balanced_tree(
        reader.optional_integer("brokers"),
        fan_out=reader.integer("fan_out"),
        depth=reader.optional_integer("depth"),
        latency_us=reader.latency_us(),
        cost=reader.cost(),
    )


def _random_tree(reader: _Reader) -> Topology:
    return shapes.random_tree(
        reader.integer("brokers"),
        rng=reader.rng(),
        degree_max=reader.optional_integer("degree_max"),
        latency_us=reader.latency_us(),
        cost=reader.cost(),
    )


def _links(reader: _Reader) -> Topology:
    """The topology of links that are written out: `["A", "B"]`, with latency and cost where they
    differ from the spec's."""
    latency_us, cost = reader.latency_us(), reader.cost()
    links = [_one_link(entry, latency_us, cost) for entry in reader.items("links")]
    if reader.has("brokers"):
        names = _names("brokers", reader.items("brokers"))
    else:
        names = tuple(dict.fromkeys(name for link in links for name in (link.a, link.b)))
    roles = [
        Role(name, _names(f"roles.{name}", brokers))
        for name, brokers in reader.table("roles").items()
    ]
    return Topology(names, tuple(links), tuple(roles))


def _one_link(entry: object, latency_us: int, cost: float) -> LinkSpec:
    given = list(entry) if isinstance(entry, list | tuple) else []
    match [*given, *(latency_us, cost)[max(0, len(given) - 2) :]]:
        case [str(a), str(b), int(latency), int(price) | float(price)] if not _any_bool(
            latency, price
        ):
            return LinkSpec(a, b, latency, float(price))
    raise _refusal("links", entry, "entries like [a, b], [a, b, latency_us] or with a cost after")


def _names(key: str, found: object) -> tuple[str, ...]:
    if isinstance(found, list | tuple):
        names = [name for name in found if isinstance(name, str)]
        if len(names) == len(found):
            return tuple(names)
    raise _refusal(key, found, "an array of broker names")


def _seed(reader: _Reader) -> Topology:
    tree = seed_topology(reader.word("name"), reader.optional_rng())
    return tree.with_links(reader.latency_us(), reader.cost())


def _transit_stub(reader: _Reader) -> Topology:
    rng = reader.rng()
    ground = _placement(reader, rng)
    cost_min, cost_max = reader.number("cost_min", 0.0), reader.number("cost_max", 10.0)
    if reader.word("overlay", among=("random", "minimum"), default="random") == "minimum":
        if reader.has("degree_max"):
            raise TopologyError("topology key 'degree_max'", "only a random overlay has it")
        return ground.minimum_overlay(cost_min, cost_max)
    return ground.random_overlay(rng, reader.optional_integer("degree_max"), cost_min, cost_max)


def _placement(reader: _Reader, rng: np.random.Generator) -> Placement:
    ranged = {key for key in _UNDERLAY_KEYS if key.endswith("_us")}
    given = [key for key in _UNDERLAY_KEYS if reader.has(key)]
    spans = {key: reader.span(key) for key in given if key in ranged}
    counts = {key: reader.integer(key) for key in given if key not in ranged}
    parameters = msgspec.structs.replace(TransitStub(), **counts, **spans)
    count = reader.integer("brokers")
    return place(transit_stub(parameters, rng=rng), count, rng=rng)


_LINK_KEYS: Final = ("latency_us", "cost")
_UNDERLAY_KEYS: Final = tuple(field.name for field in msgspec.structs.fields(TransitStub))

_KINDS: Final[dict[str, tuple[Callable[[_Reader], Topology], tuple[str, ...]]]] = {
    "chain": (_chain, ("brokers", *_LINK_KEYS)),
    "star": (_star, ("brokers", *_LINK_KEYS)),
    "balanced-tree": (_balanced_tree, ("brokers", "depth", "fan_out", *_LINK_KEYS)),
    "random-tree": (_random_tree, ("brokers", "degree_max", "seed", *_LINK_KEYS)),
    "links": (_links, ("links", "brokers", "roles", *_LINK_KEYS)),
    "seed": (_seed, ("name", "seed", *_LINK_KEYS)),
    "transit-stub": (
        _transit_stub,
        ("brokers", "overlay", "degree_max", "seed", "cost_min", "cost_max", *_UNDERLAY_KEYS),
    ),
}
