"""Samples: publications that came lately over each link, to estimate what a merged filter matches.

Before two filters are merged, publications between them hardly ever come over the link: nobody
subscribes to them. So values in the gap between two ranges are assumed to be as dense as in the two
ranges on average, or as dense as in the sample, whichever is more. With too few samples, values are
assumed to be spread evenly.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

import msgspec

from byway.model import Attributes, Filter, Value
from byway.model.constraints import Constraint, NumberRange, contains
from byway.model.filter_merging import Share, even_share
from byway.model.filters import Conjunction

SAMPLES_MAX: Final = 256
"""Publications kept for each link."""
LINKS_MAX: Final = 64
"""Links with samples; beyond, the one known longest is forgotten."""
ATTRIBUTES_MAX: Final = 32
"""Publications with more attributes are not kept."""
LENGTH_MAX: Final = 256
"""Publications with longer strings are not kept."""
KINDS_MAX: Final = 64
"""Lists of sampled values that are cached, one for each attribute and rest of a filter."""
SEEN_MIN: Final = 20
"""Samples that two filters must have matched for shares to be estimated from them."""

_encode = msgspec.msgpack.Encoder().encode


class Samples:
    """The latest publications of each link."""

    def __init__(self) -> None:
        self._kept: dict[str, deque[dict[str, Value]]] = {}
        self._values: dict[tuple[str, str, bytes], list[Value]] = {}
        """A cache of values of attributes in `_kept`, cleared by the next publication."""

    def record(self, link: str, attributes: Attributes) -> None:
        """Keep a publication that came over a link, unless it is too large."""
        if len(attributes) > ATTRIBUTES_MAX:
            return
        if any(isinstance(v, str) and len(v) > LENGTH_MAX for v in attributes.values()):
            return
        self._values.clear()
        self._kept.setdefault(link, deque(maxlen=SAMPLES_MAX)).append(dict(attributes))
        if len(self._kept) > LINKS_MAX:
            del self._kept[next(iter(self._kept))]

    def share(self, link: str, f: Filter, g: Filter) -> Share:
        """A function that estimates which shares of the link's publications two filters match."""
        mine, theirs = f.conjunctions[0], g.conjunctions[0]
        named = dict(theirs.terms)
        differing = [(name, c) for name, c in mine.terms if named.get(name) != c]
        if link not in self._kept or len(differing) != 1 or len(named) != len(mine.terms):
            return even_share
        [(name, a)] = differing
        b = named.get(name)
        if not isinstance(a, NumberRange) or not isinstance(b, NumberRange):
            return even_share
        rest = Conjunction(tuple(term for term in mine.terms if term[0] != name))
        return _share_of(name, a, b, self._values_of(link, name, rest))

    def _values_of(self, link: str, name: str, rest: Conjunction) -> list[Value]:
        """The values of an attribute in publications that satisfy the rest of a filter."""
        key = (link, name, _encode(rest))
        if key not in self._values:
            if len(self._values) >= KINDS_MAX:
                self._values.clear()
            kept = self._kept[link]
            self._values[key] = [a[name] for a in kept if name in a and rest.matches(a)]
        return self._values[key]

    def copy_from(self, other: Samples, without: frozenset[str]) -> None:
        """Keep what another one keeps, but of the links `without`."""
        self._kept = {k: deque(v, SAMPLES_MAX) for k, v in other._kept.items() if k not in without}

    def snapshot(self) -> list[tuple[str, list[dict[str, Value]]]]:
        """The publications of each link, the oldest first."""
        return [(link, list(kept)) for link, kept in self._kept.items()]

    def restore(self, state: list[tuple[str, list[dict[str, Value]]]]) -> None:
        """Go on from what `snapshot` returned before a restart."""
        self._kept = {link: deque(kept, SAMPLES_MAX) for link, kept in state}


def _share_of(name: str, a: NumberRange, b: NumberRange, values: list[Value]) -> Share:
    low, high = sorted((a, b), key=lambda r: (float(r.low), float(r.high)))
    gap = float(high.low) - float(low.high)
    of_a, of_b = (sum(contains(c, v) for v in values) for c in (a, b))
    widths = [float(c.high) - float(c.low) for c in (a, b)]
    if of_a + of_b < SEEN_MIN or gap <= 0 or not all(0 < w < float("inf") for w in widths):
        return even_share
    expected = gap * (of_a / widths[0] + of_b / widths[1]) / 2
    between = NumberRange(low.high, not low.high_open, high.low, not high.low_open)
    seen = sum(contains(between, v) for v in values)
    counts: Mapping[Constraint, int] = {a: of_a, b: of_b}
    whole = of_a + of_b + max(expected, seen)

    def share(attribute: str, inner: Constraint, outer: Constraint | None) -> float:
        if attribute != name or outer is None or inner not in counts:
            return even_share(attribute, inner, outer)
        return counts[inner] / whole

    return share
