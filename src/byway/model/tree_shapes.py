"""Tree shapes: chains, stars, balanced and random trees of numbered brokers.

The brokers of a tree are numbered from 0, and each but the first is linked to one earlier broker,
its parent. A shape is the parents of brokers 1, 2, …, in this order; `links_of` makes links of it.
Simulator, local overlays, workloads and tests all build their trees here. This file knows nothing
of latencies, roles, addresses or processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise, repeat

from byway.model.errors import TopologyError

Links = list[tuple[str, str]]


def numbered_names(letter: str, count: int, digits: int = 0) -> tuple[str, ...]:
    """`count` names such as B1, B2, …, with as many digits as the last one needs (or `digits`, if
    that is more), so that sorting them keeps their order."""
    width = max(digits, len(str(count)))
    return tuple(f"{letter}{number:0{width}}" for number in range(1, count + 1))


def links_of(names: Sequence[str], parents: Iterable[int]) -> Links:
    """The links (parent, child) of a shape, in the order of the children."""
    return [(names[parent], names[child]) for child, parent in enumerate(parents, start=1)]


def chain_links(names: Sequence[str]) -> Links:
    """The links of a chain of these brokers."""
    return list(pairwise(names))


def chain_parents(count: int) -> Iterable[int]:
    """Every broker is linked to the one before it."""
    return range(count - 1)


def star_parents(count: int) -> Iterable[int]:
    """Every broker is linked to the first one."""
    return repeat(0, max(0, count - 1))


def balanced_parents(count: int, fan_out: int) -> Iterable[int]:
    """A tree filled level by level, each level from the left, with `fan_out` children each."""
    return ((child - 1) // fan_out for child in range(1, count))


def degree_needed(count: int) -> int:
    """The least that `degree_max` can be for `count` brokers."""
    return 2 if count > 2 else 1


def random_parents(
    count: int, draw: Callable[[int], int], degree_max: int | None = None
) -> Iterator[int]:
    """Each broker in turn is linked to a random earlier one of fewer than `degree_max` links.

    `draw(n)` gives a number below n. It is called once for each parent, when that parent is asked
    for. Raises `TopologyError` at once if no tree of `count` brokers has so few links at each.
    """
    bound = max(1, count) if degree_max is None else degree_max
    needed = degree_needed(count)
    if bound < needed:
        expected = f"expected at least {needed} for {count} brokers"
        raise TopologyError(f"degree_max = {bound}", expected)
    return _drawn_parents(count, draw, bound)


def _drawn_parents(count: int, draw: Callable[[int], int], bound: int) -> Iterator[int]:
    free, degrees = [0], [0] * max(1, count)
    for child in range(1, count):
        place = draw(len(free))
        parent = free[place]
        degrees[parent] += 1
        degrees[child] = 1
        if degrees[parent] == bound:
            free[place] = free[-1]
            free.pop()
        if bound > 1:
            free.append(child)
        yield parent
