"""Brute force: every publication of a small world that some filters can tell apart.

A world holds, for each attribute, being missing and a few hundred values. Values that all the
filters at hand judge alike are one class, of which one member stands for all; the product of the
classes of all attributes is then an exhaustive search of that world.
"""

from collections.abc import Iterator
from itertools import pairwise, permutations, product
from math import inf, nextafter

from byway.model import Filter, Value
from byway.model.constraints import Constraint, NumberRange, NumberSet, StringPattern, contains
from tests.strategies import BIG_NUMBERS, NAN, SMALL_NUMBERS, STRINGS

FREE = "c"
"""A letter that stands in no filter of the strategies."""


def _number_world() -> tuple[Value, ...]:
    small = sorted(SMALL_NUMBERS)
    between = [(a + b) / 2 for a, b in pairwise(small)]
    beside = [nextafter(float(v), end) for v in SMALL_NUMBERS for end in (-inf, inf)]
    big = [v + d for v in BIG_NUMBERS if isinstance(v, int) for d in (-1, 1) if abs(v + d) < 2**63]
    floats = [nextafter(v, end) for v in BIG_NUMBERS if abs(v) > 1e15 for end in (-inf, inf)]
    return tuple({*small, -3, 5, *between, *beside, *BIG_NUMBERS, *big, *floats})


def _string_world() -> tuple[Value, ...]:
    short = ["".join(chars) for n in range(4) for chars in product("!abc", repeat=n)]
    long = [s + t for s in STRINGS for t in ("!", "c", "cab", "\U0010ffff")]
    return tuple({*short, *STRINGS, *long})


NUMBER_WORLD = _number_world()
STRING_WORLD = _string_world()
WORLD: tuple[Value, ...] = (*NUMBER_WORLD, NAN, *STRING_WORLD, False, True)


def values_for(constraints: list[Constraint]) -> list[Value]:
    """The world, and strings made to satisfy combinations of the patterns at hand."""
    patterns = [c for c in constraints if isinstance(c, StringPattern)]
    return [*WORLD, *_made_strings(patterns)]


def _made_strings(patterns: list[StringPattern]) -> Iterator[str]:
    """Some for every combination of what the patterns want and of what they do not want."""
    prefixes = {"", *(text for p in patterns for text in (p.prefix, *p.not_prefix))}
    suffixes = {"", *(text for p in patterns for text in (p.suffix, *p.not_suffix))}
    parts = sorted({part for p in patterns for part in p.contains + p.not_contains})[:4]
    middles = {FREE.join(order) for n in range(len(parts) + 1) for order in permutations(parts, n)}
    bounds = sorted({"", *(bound for p in patterns for bound in (p.low, p.high or ""))})
    prefixes |= {bound + end for bound in bounds for end in ("", "!", FREE, "\U0010ffff")}
    for prefix, middle, suffix in product(sorted(prefixes), sorted(middles), sorted(suffixes)):
        yield prefix + middle + suffix
        yield prefix + FREE + middle + FREE + suffix


def publications_telling_apart(*filters: Filter) -> Iterator[dict[str, Value]]:
    """One publication per class of those that the filters' constraints judge alike."""
    constraints: dict[str, dict[Constraint, None]] = {}
    for f in filters:
        for conjunction in f.conjunctions:
            for name, constraint in conjunction.terms:
                constraints.setdefault(name, {})[constraint] = None
    names = sorted(constraints)
    choices = [_classes(list(constraints[name])) for name in names]
    for values in product(*choices):
        yield {name: v for name, v in zip(names, values, strict=True) if v is not None}


def _classes(constraints: list[Constraint]) -> list[Value | None]:
    """One value per class, and None for a missing attribute."""
    found: dict[tuple[bool, ...], Value] = {}
    for value in values_for(constraints):
        found.setdefault(tuple([contains(c, value) for c in constraints]), value)
    return [None, *found.values()]


# --- where the relations promise to be exact ---------------------------------------------------


def is_plain(constraint: Constraint) -> bool:
    """No string range beside another string predicate, no two neighbouring numbers."""
    if isinstance(constraint, NumberSet):
        return all(v in SPACED for v in constraint.values)
    if isinstance(constraint, NumberRange):
        bounds = (constraint.low, constraint.high, *constraint.excluded)
        return all(v in SPACED for v in bounds)
    if isinstance(constraint, StringPattern):
        return not constraint.low and constraint.high is None
    return True


SPACED = frozenset({*SMALL_NUMBERS, -(2**63), 2**53, 2**63 - 1, 1e300, -inf, inf})
"""Bounds with numbers of the world between any two of them."""
