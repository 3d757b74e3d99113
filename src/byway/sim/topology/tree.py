"""Topology: the brokers of a network and the tree of primary links between them.

It decides what a valid overlay is and answers questions about its paths. It must not know how an
overlay was chosen (`shapes`, `seed_trees`, `transit_stub`), nor anything of messages or time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Final

import msgspec

from byway.model.errors import TopologyError, shortened
from byway.model.options import at_least, within

BROKERS_MAX: Final = 10_000
NAME_LENGTH_MAX: Final = 255
LATENCY_US_MAX: Final = 3_600_000_000  # an hour: more is a mistake of units
LATENCY_US_DEFAULT: Final = 1_000
COST_DEFAULT: Final = 1.0
DRAWN_ROWS_MAX: Final = 200

_ROLES_SHOWN: Final = 5

LatencyUs = Annotated[int, within(0, LATENCY_US_MAX, unit="µs")]
LinkCost = Annotated[float, at_least(0)]


class LinkSpec(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A primary link between two brokers; a copy over it takes `latency_us` and costs `cost`."""

    a: str
    b: str
    latency_us: int = LATENCY_US_DEFAULT
    cost: float = COST_DEFAULT

    def __str__(self) -> str:
        return f"{self.a}-{self.b}"


class Role(msgspec.Struct, frozen=True, array_like=True):
    """A named group of brokers, such as "core" or "publishers"."""

    name: str
    brokers: tuple[str, ...]


class Topology(msgspec.Struct, frozen=True, dict=True):
    """A tree of brokers. Construction raises `TopologyError` on anything else.

    `brokers` keeps the order it is given in; every link is turned so that `a` comes before `b` in
    that order, and links are sorted by it. Two topologies are equal if all three fields are.
    """

    brokers: tuple[str, ...]
    links: tuple[LinkSpec, ...] = ()
    roles: tuple[Role, ...] = ()

    def __post_init__(self) -> None:
        _check_brokers(self.brokers)
        links = _ordered(self.brokers, self.links)
        _check_tree(self.brokers, links)
        _check_roles(self.brokers, self.roles)
        msgspec.structs.force_setattr(self, "links", links)

    @classmethod
    def of(
        cls,
        edges: Iterable[tuple[str, str]],
        *,
        brokers: Sequence[str] | None = None,
        roles: Mapping[str, Iterable[str]] | None = None,
        latency_us: int = LATENCY_US_DEFAULT,
        cost: float = COST_DEFAULT,
    ) -> Topology:
        """The tree of these edges, all alike; brokers in order of first mention unless given."""
        links = tuple(LinkSpec(a, b, latency_us, cost) for a, b in edges)
        if brokers is None:
            brokers = list(dict.fromkeys(name for link in links for name in (link.a, link.b)))
        groups = tuple(Role(name, tuple(group)) for name, group in (roles or {}).items())
        return cls(tuple(brokers), links, groups)

    @staticmethod
    def is_tree(brokers: Sequence[str], links: Iterable[LinkSpec]) -> bool:
        """Whether these brokers and links make a topology. (One that exists is a tree already.)"""
        try:
            _check_brokers(tuple(brokers))
            _check_tree(tuple(brokers), _ordered(tuple(brokers), tuple(links)))
        except TopologyError:
            return False
        return True

    def with_links(self, latency_us: int, cost: float) -> Topology:
        """The same tree with all links alike."""
        links = tuple(LinkSpec(link.a, link.b, latency_us, cost) for link in self.links)
        return Topology(self.brokers, links, self.roles)

    def __len__(self) -> int:
        return len(self.brokers)

    def __contains__(self, broker: object) -> bool:
        return broker in self._adjacent

    def neighbours(self, broker: str) -> tuple[str, ...]:
        """The brokers one link away, in the order of `brokers`."""
        return tuple(self._links_of(broker))

    def degree(self, broker: str) -> int:
        """The number of links of a broker."""
        return len(self._links_of(broker))

    @property
    def degree_max(self) -> int:
        """The most links that a broker of this tree has."""
        return max(len(links) for links in self._adjacent.values())

    @property
    def leaves(self) -> tuple[str, ...]:
        """The brokers with at most one link, in order."""
        return tuple(broker for broker, links in self._adjacent.items() if len(links) <= 1)

    def role(self, name: str) -> tuple[str, ...]:
        """The brokers of a role. Raises `TopologyError` if there is no such role."""
        for role in self.roles:
            if role.name == name:
                return role.brokers
        known = ", ".join(role.name for role in self.roles) or "none"
        raise TopologyError(f"role {shortened(name)!r}", f"not in this topology; it has: {known}")

    def link(self, a: str, b: str) -> LinkSpec:
        """The link between two neighbours, in either order. Raises `TopologyError` if they are not
        neighbours."""
        found = self._links_of(a).get(b)
        if found is None:
            self._links_of(b)
            raise TopologyError(_called(LinkSpec(a, b)), "these brokers are not neighbours")
        return found

    def path(self, a: str, b: str) -> tuple[str, ...]:
        """The brokers from `a` to `b`, both included."""
        for end in (a, b):
            self._links_of(end)  # raises on an unknown broker
        left, right = [a], [b]
        while left[-1] != right[-1]:
            climber = left if self._depth[left[-1]] >= self._depth[right[-1]] else right
            climber.append(self._parent[climber[-1]])
        return (*left, *reversed(right[:-1]))

    def distance(self, a: str, b: str) -> int:
        """The number of links on the path between two brokers."""
        return len(self.path(a, b)) - 1

    def latency_us(self, a: str, b: str) -> int:
        """The sum of the link latencies between two brokers."""
        path = self.path(a, b)
        return sum(self.link(x, y).latency_us for x, y in pairwise(path))

    def within(self, broker: str, hops: int) -> dict[str, int]:
        """The other brokers at most `hops` links away, with their distance, nearest first."""
        self._links_of(broker)
        found = {broker: 0}
        queue = [broker]
        for near in queue:
            if found[near] == hops:
                break
            fresh = [name for name in self._adjacent[near] if name not in found]
            found.update((name, found[near] + 1) for name in fresh)
            queue += fresh
        del found[broker]
        return found

    def draw(self, root: str | None = None, rows_max: int = DRAWN_ROWS_MAX) -> str:
        """The tree in ASCII, a row a broker, from `root` (the first broker unless given).

        Latencies and costs are shown if links differ in them; beyond `rows_max` rows the number of
        brokers left out is.
        """
        root = self.brokers[0] if root is None else root
        self._links_of(root)
        uniform = len({(link.latency_us, link.cost) for link in self.links}) <= 1
        rows: list[str] = []
        stack: list[tuple[str, str | None, str, str]] = [(root, None, "", "")]
        while stack and len(rows) < rows_max:
            broker, parent, lead, indent = stack.pop()
            rows.append(
                lead + broker + ("" if uniform or not parent else self._tag(broker, parent))
            )
            children = [name for name in self._adjacent[broker] if name != parent]
            for child in reversed(children):
                last = child == children[-1]
                mark, below = ("`- ", "   ") if last else ("+- ", "|  ")
                stack.append((child, broker, indent + mark, indent + below))
        if stack:
            rows.append(f"... and {len(self.brokers) - len(rows)} more")
        return "\n".join(rows)

    def __repr__(self) -> str:
        shown = self.roles[:_ROLES_SHOWN]
        roles = "".join(f", {role.name} {len(role.brokers)}" for role in shown)
        roles += ", …" if len(self.roles) > len(shown) else ""
        return f"<Topology of {len(self)} brokers, degree up to {self.degree_max}{roles}>"

    # --- what is derived once ---------------------------------------------------------------------

    @cached_property
    def _adjacent(self) -> dict[str, dict[str, LinkSpec]]:
        """The neighbours of each broker, both in order of `brokers`, with the link to them."""
        adjacent: dict[str, dict[str, LinkSpec]] = {broker: {} for broker in self.brokers}
        for link in self.links:  # sorted by a, then b: a broker's smaller neighbours come first,
            adjacent[link.b][link.a] = link
        for link in self.links:  # then its larger ones
            adjacent[link.a][link.b] = link
        return adjacent

    @cached_property
    def _parent(self) -> dict[str, str]:
        """By broker, the next one on the path to the first broker (for which it is itself)."""
        parent = {self.brokers[0]: self.brokers[0]}
        queue = [self.brokers[0]]
        for broker in queue:
            fresh = [name for name in self._adjacent[broker] if name not in parent]
            parent.update((name, broker) for name in fresh)
            queue += fresh
        return parent

    @cached_property
    def _depth(self) -> dict[str, int]:
        depth = {self.brokers[0]: 0}
        for broker, parent in self._parent.items():  # parents come before their children
            if broker != parent:
                depth[broker] = depth[parent] + 1
        return depth

    def _links_of(self, broker: str) -> dict[str, LinkSpec]:
        links = self._adjacent.get(broker)
        if links is None:
            raise TopologyError(f"broker {shortened(broker)!r}", "not in this topology")
        return links

    def _tag(self, broker: str, parent: str) -> str:
        link = self._adjacent[parent][broker]
        return f"  ({link.latency_us} us, cost {link.cost:g})"


# --- validation -----------------------------------------------------------------------------------


def _check_brokers(brokers: tuple[str, ...]) -> None:
    if not 1 <= len(brokers) <= BROKERS_MAX:
        raise TopologyError(f"{len(brokers)} brokers", f"expected 1 to {BROKERS_MAX}")
    seen = set()
    for name in brokers:
        if not 1 <= len(name) <= NAME_LENGTH_MAX or not name.isprintable() or " " in name:
            expected = f"expected 1 to {NAME_LENGTH_MAX} printable characters without a space"
            raise TopologyError(f"broker name {shortened(name)!r}", expected)
        if name in seen:
            raise TopologyError(f"broker {shortened(name)!r}", "named twice")
        seen.add(name)


def _ordered(brokers: tuple[str, ...], links: tuple[LinkSpec, ...]) -> tuple[LinkSpec, ...]:
    """The links turned and sorted by the order of brokers; each checked by itself."""
    place = {broker: number for number, broker in enumerate(brokers)}
    turned: dict[tuple[int, int], LinkSpec] = {}
    for link in links:
        _check_link(link, place)
        if place[link.a] > place[link.b]:
            link = LinkSpec(link.b, link.a, link.latency_us, link.cost)
        if turned.setdefault((place[link.a], place[link.b]), link) is not link:
            raise TopologyError(_called(link), "given twice")
    return tuple(link for _, link in sorted(turned.items(), key=lambda item: item[0]))


def _called(link: LinkSpec) -> str:
    return f"link {shortened(str(link))}"


def _check_link(link: LinkSpec, place: Mapping[str, int]) -> None:
    for name in (link.a, link.b):
        if name not in place:
            raise TopologyError(_called(link), f"there is no broker {shortened(name)!r}")
    if link.a == link.b:
        raise TopologyError(_called(link), "a broker is not linked with itself")
    if not 0 <= link.latency_us <= LATENCY_US_MAX:
        said = f"latency_us = {link.latency_us}, expected 0 to {LATENCY_US_MAX}"
        raise TopologyError(_called(link), said)
    if not 0 <= link.cost < float("inf"):
        raise TopologyError(_called(link), f"cost = {link.cost}, expected a number from 0 up")


def _check_tree(brokers: tuple[str, ...], links: tuple[LinkSpec, ...]) -> None:
    """Union-find: a link within one group closes a cycle; more than one group left is a gap."""
    leader = {broker: broker for broker in brokers}

    def find(broker: str) -> str:
        while leader[broker] != broker:
            leader[broker] = leader[leader[broker]]
            broker = leader[broker]
        return broker

    for link in links:
        a, b = find(link.a), find(link.b)
        if a == b:
            raise TopologyError(_called(link), "closes a cycle with other links")
        leader[b] = a
    apart = [broker for broker in brokers if find(broker) != find(brokers[0])]
    if apart:
        more = f" (nor to {len(apart) - 1} others)" if len(apart) > 1 else ""
        reason = f"not connected to {shortened(brokers[0])}{more}"
        raise TopologyError(f"broker {shortened(apart[0])!r}", reason)


def _check_roles(brokers: tuple[str, ...], roles: tuple[Role, ...]) -> None:
    known = set(brokers)
    names = set()
    for role in roles:
        subject = f"role {shortened(role.name)!r}"
        if role.name in names:
            raise TopologyError(subject, "given twice")
        names.add(role.name)
        unknown = [broker for broker in role.brokers if broker not in known]
        if unknown:
            raise TopologyError(subject, f"there is no broker {shortened(unknown[0])!r}")
        if len(set(role.brokers)) < len(role.brokers):
            raise TopologyError(subject, "names a broker twice")
