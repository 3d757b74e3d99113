"""Seed trees: the broker networks of the papers and of the worked cases, by name.

The papers show most of their networks in drawings, of which only captions and labels are left in
the text. Each builder says what the text tells and what had to be inferred, and
docs/reference/topologies.md repeats it for readers of a report. Names start with the paper's
number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Final

import numpy as np

from byway.model.errors import TopologyError, shortened
from byway.sim.topology.shapes import balanced_tree, random_tree, star
from byway.sim.topology.tree import Role, Topology

Builder = Callable[[], Topology]
RandomBuilder = Callable[[np.random.Generator], Topology]


def seed_names() -> tuple[str, ...]:
    """Every name that `seed_topology` knows, sorted."""
    return tuple(sorted([*_FIXED, *_RANDOM]))


def seed_topology(name: str, rng: np.random.Generator | None = None) -> Topology:
    """The network of this name; `rng` is needed for those that a paper leaves to chance. Raises
    `TopologyError` if there is no such name."""
    if name in _FIXED:
        return _FIXED[name]()
    if name not in _RANDOM:
        known = ", ".join(seed_names())
        raise TopologyError(f"seed topology {shortened(name)!r}", f"expected one of {known}")
    if rng is None:
        raise TopologyError(f"seed topology {name!r}", "is random: expected a seed or an rng")
    return _RANDOM[name](rng)


# --- opportunistic multipath forwarding -----------------------------------------------------------


def _mesh_degree(brokers: int, rng: np.random.Generator) -> Topology:
    """Table 1 tells size and "broker degree" 3, and §4 defines degree as primary links.

    Inferred: 3 is the maximum, and the tree is otherwise random.
    """
    return _with_roles(random_tree(brokers, degree_max=3, rng=rng))


def _mesh_ternary(brokers: int) -> Topology:
    """The other reading of "degree 3", which fits the published yields best: three children.

    Inferred: the whole shape, filled level by level.
    """
    return _with_roles(balanced_tree(brokers, fan_out=3))


# --- publisher placement --------------------------------------------------------------------------


def _placement(brokers: int, fan_out: int) -> Topology:
    """§V tells balanced trees of fan-out 2 or 4, the number of brokers kept while fan-out changes.

    63 and 127 are complete binary trees. No complete tree of fan-out 4 has as many (the sizes are
    21, 85, 341). Inferred: levels are filled from the left, so that the last one holds 42 of 64
    brokers (63 = 1+4+16+42) or 42 of 256 (127 = 1+4+16+64+42).
    """
    return _with_roles(balanced_tree(brokers, fan_out=fan_out))


def _placement_example() -> Topology:
    """Fig. 1. Told: B1's neighbours B2, B4 and B5; B6 beyond B5; B7 and B8 beyond B6.

    Inferred: B3, which no text mentions, beyond B2.
    """
    return _drawn("B1-B2 B2-B3 B1-B4 B1-B5 B5-B6 B6-B7 B6-B8", publishers="B1")


# --- incremental and selective filter aggregation -------------------------------------------------


def _pruning_core(
    inner_counts: Sequence[int], edge_counts: Sequence[int], cluster_size: int | None
) -> Topology:
    """Core brokers A … E in a chain, inner brokers below them, edge brokers below those.

    `inner_counts` and `edge_counts` say how many of each stand at A … E; edge brokers are dealt
    round their core broker's inner ones. P1 … P3 host the publishers, directly at E. Clusters are
    runs of edge brokers at one core broker, as even as can be, of at most `cluster_size`; None:
    there are none.
    """
    core = tuple("ABCDE")
    inner = tuple(f"I{number:02}" for number in range(1, sum(inner_counts) + 1))
    edge = tuple(f"S{number:02}" for number in range(1, sum(edge_counts) + 1))
    publishers = ("P1", "P2", "P3")
    edges = list(pairwise(core))
    edges += [("E", publisher) for publisher in publishers]
    clusters: list[tuple[str, ...]] = []
    inner_left, edge_left = list(inner), list(edge)
    for hub, inner_count, edge_count in zip(core, inner_counts, edge_counts, strict=True):
        own_inner, inner_left = inner_left[:inner_count], inner_left[inner_count:]
        own_edge, edge_left = edge_left[:edge_count], edge_left[edge_count:]
        edges += [(hub, name) for name in own_inner]
        homes = sorted(own_inner[number % inner_count] for number in range(edge_count))
        edges += list(zip(homes, own_edge, strict=True))
        if cluster_size is not None and own_edge:
            clusters += _runs(own_edge, -(-edge_count // cluster_size))
    roles = {
        "core": core,
        "inner": (*core, *inner),
        "edge": (*publishers, *edge),
        "publishers": publishers,
        "subscribers": edge,
        **{f"cluster-{number}": group for number, group in enumerate(clusters, start=1)},
    }
    return Topology.of(edges, brokers=(*core, *inner, *publishers, *edge), roles=roles)


def _incremental_controlled() -> Topology:
    """Incremental filter aggregation, §V-A, fig. 5. Told: 49 brokers, core brokers labelled A B C D
    E in a row, publishers at 3 edge brokers close to E, subscribers at the other edge brokers,
    further inner brokers.

    Inferred: A … E form a chain (triggered messages grow from A to E); the 3 edge brokers stand at
    E itself (as the selective paper says of its network); 17 further inner brokers, 1 at A and 4 at
    each of B … E, and 24 edge brokers, of which 1 is at A, because A saw 700 of E's 20,000
    triggered messages.
    """
    return _pruning_core((1, 4, 4, 4, 4), (1, 5, 6, 6, 6), cluster_size=None)


def _selective_default() -> Topology:
    """Selective filter aggregation, §V-A, fig. 6. Told: 55 brokers, 23 inner without clients and 32
    edge; core brokers A … E are inner ones; publishers at the 3 edge brokers connected to E,
    subscribers at the other 29; clusters of 2 to 4 adjacent brokers.

    Inferred: A … E form a chain; no subscriber is behind E but through D (E saw no triggered
    message under selective pruning); the 18 other inner brokers stand 2, 5, 5 and 6 at A … D, with
    3 edge brokers behind A (A saw 700 of E's 5,900 triggered messages) and 8 or 9 behind the
    others; which edge brokers make a cluster (8 of 3 or 4 each).
    """
    return _pruning_core((2, 5, 5, 6, 0), (3, 8, 9, 9, 0), cluster_size=4)


def _incremental_mobile() -> Topology:
    """Incremental filter aggregation, §V-B, fig. 8. Told: a star of 17. Inferred: nothing of the
    tree; that clients move among the 16 outer brokers.
    """
    return _with_roles(star(17), core=1)


def _incremental_workflow() -> Topology:
    """Incremental filter aggregation, §V-C. Told: four domains of ten brokers in three levels, six
    execution engines in each.

    Inferred: levels of 1, 3 and 6 brokers, so that there is a leaf for each engine; the domains'
    roots, linked in a chain, are the core.
    """
    roots = tuple(f"D{domain}" for domain in range(1, 5))
    edges = list(pairwise(roots))
    engines: list[str] = []
    domains: dict[str, tuple[str, ...]] = {}
    for number, root in enumerate(roots, start=1):
        middle = [f"{root}.{branch}" for branch in range(1, 4)]
        leaves = [f"{name}.{leaf}" for name in middle for leaf in (1, 2)]
        edges += [(root, name) for name in middle]
        edges += [(leaf.rpartition(".")[0], leaf) for leaf in leaves]
        engines += leaves
        domains[f"domain-{number}"] = (root, *middle, *leaves)
    brokers = tuple(broker for domain in domains.values() for broker in domain)
    return Topology.of(
        edges, brokers=brokers, roles={"core": roots, "edge": tuple(engines), **domains}
    )


def _selective_mobile() -> Topology:
    """Selective filter aggregation, §V-F, fig. 11. Told: tiers of brokers, upper ones busier, one
    core broker, four regions.

    Inferred: everything else, even the number of brokers: a core broker, four region heads, two
    brokers below each head and two below each of those, 29 in all. Clients may be at any broker.
    """
    heads = [f"R{region}" for region in range(1, 5)]
    edges = [("core", head) for head in heads]
    regions: dict[str, tuple[str, ...]] = {}
    tiers: list[list[str]] = [["core"], [], [], []]
    for number, head in enumerate(heads, start=1):
        middle = [f"{head}.{branch}" for branch in (1, 2)]
        low = [f"{name}.{leaf}" for name in middle for leaf in (1, 2)]
        edges += [(head, name) for name in middle]
        edges += [(name.rpartition(".")[0], name) for name in low]
        regions[f"region-{number}"] = (head, *middle, *low)
        for tier, names in zip(tiers[1:], ([head], middle, low), strict=True):
            tier += names
    roles = {"core": ("core",), "edge": tuple(tiers[3]), **regions}
    roles |= {f"tier-{number}": tuple(tier) for number, tier in enumerate(tiers, start=1)}
    return Topology.of(edges, roles=roles)


def _incremental_example() -> Topology:
    """Incremental filter aggregation, fig. 4. Told: B1 … B8 in a chain (by the distances at B6 and
    B8), B11 at B3.

    Inferred: B9 at B7, where S2's subscriber is; B11 is S1's. B10 is not mentioned and left out.
    """
    chained = "B1-B2 B2-B3 B3-B4 B4-B5 B5-B6 B6-B7 B7-B8 B7-B9 B3-B11"
    return _drawn(chained, publishers="B1", subscribers="B8 B9 B11")


def _selective_example() -> Topology:
    """Selective filter aggregation, fig. 4. Told: A, B, C in a row, D and J next to C, K two hops
    from C, I two from G.

    Inferred: K behind J; E and F between D and G; H between G and I. The other subscriber that
    makes G count is taken to be local to G.
    """
    edges = "A-B B-C C-D D-E E-F F-G G-H H-I C-J J-K"
    return _drawn(edges, publishers="A", subscribers="G I K")


# --- worked cases ---------------------------------------------------------------------------------


def _case_f() -> Topology:
    return _drawn("A-1 1-2 2-3 2-4 4-5 4-6", publishers="A", subscribers="3 5 6")


def _case_g() -> Topology:
    edges = "A-11 11-12 12-13 A-21 21-22 22-23 22-24"
    return _drawn(edges, publishers="A", subscribers="13 23 24")


def _case_t21() -> Topology:
    """Brokers are in the order of their numbers, not of the edges."""
    edges = (
        "10-9 9-0 0-3 0-12 9-18 18-6 18-15 10-19 19-7 19-16 10-1 1-4 1-13 10-11 11-2 "
        "2-5 2-14 11-20 20-8 20-17"
    )
    brokers = tuple(str(number) for number in range(21))
    return _drawn(edges, brokers=brokers, publishers="3", subscribers="7 12 14 15 17")


# --- tools ----------------------------------------------------------------------------------------


def _drawn(edges: str, *, brokers: Sequence[str] | None = None, **roles: str) -> Topology:
    """A tree written as words like `A-B`; roles as words too."""
    pairs = [(a, b) for a, _, b in (word.partition("-") for word in edges.split())]
    return Topology.of(
        pairs, brokers=brokers, roles={name: words.split() for name, words in roles.items()}
    )


def _with_roles(tree: Topology, core: int = 0) -> Topology:
    """The tree with its leaves as "edge", and its first `core` brokers as "core"."""
    roles = (Role("core", tree.brokers[:core]),) if core else ()
    return Topology(tree.brokers, tree.links, (*roles, Role("edge", tree.leaves)))


def _runs(names: Sequence[str], count: int) -> list[tuple[str, ...]]:
    """The names in `count` consecutive groups whose sizes differ by one at most, larger first."""
    size, longer = divmod(len(names), count)
    ends = [size * number + min(number, longer) for number in range(count + 1)]
    return [tuple(names[start:end]) for start, end in pairwise(ends)]


_MESH_SIZES: Final = {"c1": 120, "c2": 250, "c3": 500, "cpl": 21}

_FIXED: Final[dict[str, Builder]] = {
    **{f"000-{key}-ternary": partial(_mesh_ternary, size) for key, size in _MESH_SIZES.items()},
    **{
        f"001-{size}-fan-out-{fan_out}": partial(_placement, size, fan_out)
        for size in (63, 127)
        for fan_out in (2, 4)
    },
    "001-fig-1": _placement_example,
    "003-controlled": _incremental_controlled,
    "003-fig-4": _incremental_example,
    "003-mobile": _incremental_mobile,
    "003-workflow": _incremental_workflow,
    "004-default": _selective_default,
    "004-fig-4": _selective_example,
    "004-mobile": _selective_mobile,
    "case-f": _case_f,
    "case-g": _case_g,
    "case-t21": _case_t21,
}

_RANDOM: Final[dict[str, RandomBuilder]] = {
    f"000-{key}-degree-3": partial(_mesh_degree, size) for key, size in _MESH_SIZES.items()
}
