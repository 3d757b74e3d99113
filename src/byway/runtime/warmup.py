"""Loads every kernel of the matching index, or compiles it, before a broker is ready.

The first use of a kernel takes milliseconds if it is cached on disk and seconds if not, during
which the event loop is blocked. This module names no kernel: it uses an index in every way, and a
test checks that this loads them all.
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
    """Load all kernels; only the first complete call in a process has an effect.

    It may be called in any thread. It returns early once `is_wanted` is false, which is asked after
    each use of the index; the first use loads many kernels.
    """
    global _is_warm
    with _lock:
        if not _is_warm:
            _is_warm = all(is_wanted() for _ in _uses_of_an_index())


async def warm_up_in_thread() -> None:
    """Load all kernels in a thread, so that the event loop stays responsive, if slow. When this is
    cancelled, the thread ends soon."""
    ended = threading.Event()
    try:
        await asyncio.to_thread(warm_up, lambda: not ended.is_set())
    finally:
        ended.set()


def _uses_of_an_index() -> Iterator[None]:
    """Use an index in every way, often enough that it grows and adapts; one step per item."""
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
