"""Every pair of single predicates over a small alphabet, against every value of a small world."""

from collections.abc import Iterator
from itertools import pairwise, product

import pytest

from byway.model import Value, merge, parse
from byway.model.constraint_relations import intersect, overlaps, subset
from byway.model.constraints import Constraint, contains
from byway.model.unions import hull, union

BOUNDS = (-1, 0, 0.5, 2, 2**53, 2**53 + 1)
TEXTS = ("", "a", "b", "ab", "ba", "aba")
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")

NUMBER_WORLD: list[Value] = [
    *(-2, -1, -0.5, 0, 0.25, 0.5, 1, 2, 3, 2**53 - 1, 2**53, 2**53 + 1, 2**53 + 2, 1e300),
    *(float("-inf"), float("inf")),
]
STRING_WORLD: list[Value] = ["".join(t) for n in range(6) for t in product("!abc", repeat=n)]


def number_predicates() -> Iterator[str]:
    yield from (f"x {comparison} {bound}" for comparison in COMPARISONS for bound in BOUNDS)
    yield from (f"x BETWEEN {low} AND {high}" for low, high in pairwise(BOUNDS))
    yield from (f"x > {low} AND x < {high}" for low, high in ((-1, 0), (0, 2), (2, 2**53)))
    yield from ("x IN (0, 2)", "x NOT IN (0, 2)", "x >= 0 AND x <> 2", "x >= -INFINITY")


def string_predicates() -> Iterator[str]:
    yield from (f"x {comparison} '{text}'" for comparison in COMPARISONS for text in TEXTS)
    yield from (
        f"x {word} '{form.format(text)}'"
        for word in ("LIKE", "NOT LIKE")
        for form in ("{}%", "%{}", "%{}%")
        for text in TEXTS
        if text
    )
    yield from ("x IN ('a', 'aba')", "x NOT IN ('a', 'aba')", "x LIKE '%'", "x LIKE 'a%b'")


def constraints_of(predicates: Iterator[str]) -> dict[str, Constraint]:
    filters = {text: parse(text) for text in predicates}
    return {text: f.conjunctions[0].terms[0][1] for text, f in filters.items() if f.conjunctions}


WORLDS = {
    "numbers": (constraints_of(number_predicates()), NUMBER_WORLD),
    "strings": (constraints_of(string_predicates()), STRING_WORLD),
}


def members(constraint: Constraint, world: list[Value]) -> int:
    """A bit mask of the values that the constraint has."""
    return sum(1 << i for i, value in enumerate(world) if contains(constraint, value))


@pytest.mark.parametrize("kind", WORLDS)
def test_inclusion_and_overlap_are_exact(kind: str) -> None:
    constraints, world = WORLDS[kind]
    sets = {text: members(constraint, world) for text, constraint in constraints.items()}
    wrong = [
        (f, g)
        for (f, a), (g, b) in product(constraints.items(), repeat=2)
        if subset(a, b) != (sets[f] & ~sets[g] == 0)
        or overlaps(a, b) != (sets[f] & sets[g] != 0)
        or (a == b) != (sets[f] == sets[g])
    ]
    if kind == "numbers":  # 2**53 and 2**53 + 1 are neighbours
        wrong = [pair for pair in wrong if not all("90071992547409" in text for text in pair)]
    assert wrong == []


@pytest.mark.parametrize("kind", WORLDS)
def test_intersection_union_and_hull_have_the_right_members(kind: str) -> None:
    constraints, world = WORLDS[kind]
    world = world[:: max(1, len(world) // 40)]
    sets = {text: members(constraint, world) for text, constraint in constraints.items()}
    for (f, a), (g, b) in product(constraints.items(), repeat=2):
        both, either, wide = intersect(a, b), union(a, b), hull(a, b)
        assert (members(both, world) if both else 0) == sets[f] & sets[g], (f, g)
        assert either is None or members(either, world) == sets[f] | sets[g], (f, g)
        assert wide is not None
        assert (sets[f] | sets[g]) & ~members(wide, world) == 0, (f, g)


@pytest.mark.parametrize("kind", WORLDS)
def test_perfect_merges_are_exact(kind: str) -> None:
    constraints, world = WORLDS[kind]
    world = world[:: max(1, len(world) // 40)]
    texts = list(constraints)[::3]
    for f, g in product(texts, repeat=2):
        one, other = parse(f"{f} AND y = 1"), parse(f"{g} AND y = 1")
        merged = merge(one, other)
        for attributes in ({"x": value, "y": 1} for value in world):
            wanted = one.matches(attributes) or other.matches(attributes)
            found = merged.filter.matches(attributes)
            assert found is wanted if merged.perfect else found or not wanted, (f, g, attributes)
