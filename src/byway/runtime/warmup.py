"""Has every kernel of the matching index loaded, or compiled if need be, before a broker is ready.

A kernel that is met for the first time costs milliseconds from disk and seconds without, during
which an event loop answers nobody. Nothing is known here of kernels: an index that is used in every
way meets them all, which a test watches.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Final

from byway.matching import MatchIndex
from byway.model import parse

_FEW, _MANY, _MORE = 20, 300, 3_000
_lock: Final = threading.Lock()
_is_warm = False


def warm_up(is_wanted: Callable[[], bool] = lambda: True) -> None:
    """Return when all kernels are loaded; only the first call in a process has anything to do.

    It may be called in any thread. It returns early once it is not wanted any more, which it asks
    after each use of an index; the first one needs many kernels.
    """
    global _is_warm
    with _lock:
        if not _is_warm:
            _is_warm = all(is_wanted() for _ in _uses_of_an_index())


async def warm_up_in_thread() -> None:
    """Warm up in a thread, so that the event loop answers meanwhile, if slowly. When this is
    cancelled the thread ends soon."""
    ended = threading.Event()
    try:
        await asyncio.to_thread(warm_up, lambda: not ended.is_set())
    finally:
        ended.set()


def _uses_of_an_index() -> Iterator[None]:
    """Use an index in every way, enough of each for it to grow and to adapt; one step a turn."""
    index = MatchIndex()
    for key in range(_MANY):
        index.add(key, parse(f"price > {key % 50} AND symbol = 'S{key % 7}'"), key % 3 or None)
        yield
    for price in range(_FEW):
        index.match({"price": price, "symbol": "S1"})
        yield
    for key in range(_MANY, _MORE):
        index.match({"price": key % 100, "symbol": f"S{key % 9}", "size": 3})
        if key % 10 == 0:
            index.add(key, parse(f"price > {key % 50} AND symbol = 'S{key % 7}' AND size = {key}"))
        yield
    some = parse("price > 3 AND name LIKE 'ab%' OR note LIKE '%c%'")
    index.add(_MORE, some)
    yield
    index.match_routes({"price": 4, "symbol": "S1", "name": "abc", "note": "c"}, 1)
    yield
    index.match_batch([{"price": 4}, {"price": 5}])
    yield
    for relation in (
        index.covering, index.covered_by, index.intersecting, index.intersecting_advertisements,
    ):  # fmt: skip
        relation(some)
        yield
    index.remove(_MORE)
    assert _MORE not in index
