"""Has every kernel of the matching index loaded, or compiled if need be, before a broker is ready.

A kernel that is met for the first time costs milliseconds from disk and seconds without. Nothing is
known here of kernels: an index that is used in every way meets them all, which a test watches.
"""

from __future__ import annotations

from byway.matching import MatchIndex
from byway.model import parse

_FEW, _MANY, _MORE = 20, 300, 3_000


def warm_up() -> None:
    """Use an index in every way, enough of each for it to grow and to adapt."""
    index = MatchIndex()
    for key in range(_MANY):
        index.add(key, parse(f"price > {key % 50} AND symbol = 'S{key % 7}'"), key % 3 or None)
    for price in range(_FEW):
        index.match({"price": price, "symbol": "S1"})
    for key in range(_MANY, _MORE):
        index.match({"price": key % 100, "symbol": f"S{key % 9}", "size": 3})
        if key % 10 == 0:
            index.add(key, parse(f"price > {key % 50} AND symbol = 'S{key % 7}' AND size = {key}"))
    some = parse("price > 3 AND name LIKE 'ab%' OR note LIKE '%c%'")
    index.add(_MORE, some)
    index.match_routes({"price": 4, "symbol": "S1", "name": "abc", "note": "c"}, 1)
    index.match_batch([{"price": 4}, {"price": 5}])
    for relation in (
        index.covering, index.covered_by, index.intersecting, index.intersecting_advertisements,
    ):  # fmt: skip
        relation(some)
    index.remove(_MORE)
    assert _MORE not in index
