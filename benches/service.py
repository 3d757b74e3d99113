"""The service times of this code's own broker: `python -m benches.service`.

Measures `Broker.handle` kind by kind at two table sizes, fits base + per entry, and writes the
simulator's profile `measured`. Processor time, the best of several rounds.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import msgspec

from benches.neighbours import LINKS, SOURCE, Surrounded, frames_of
from benches.timing import seconds
from byway.core.inputs import FrameReceived
from byway.model.messages import (
    Advertise,
    AdvertisementSettled,
    Batch,
    Body,
    EntryId,
    Lane,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from byway.workload import CoveringDegree, StockQuotes

PROFILE = Path(__file__).parents[1] / "src/byway/sim/profiles/measured.toml"
SMALL, LARGE = 2_000, 40_000
ROUNDS = 5
COUNT = 1_000
HEAD = """\
# This code's own broker on one core, stock-quote publications, four links, trace off: made by
# `python -m benches.service`. docs/reference/service-times.md tells what was measured.
about = "this code's own broker, measured"
"""


def main() -> None:
    """Measure, print and write."""
    gc.disable()
    lines = [HEAD + f"batch_us = {_batch():.1f}\n"]
    for kind, measure in MEASURES.items():
        small, large = (1e6 * measure(entries) for entries in (SMALL, LARGE))
        per_entry = max(large - small, 0.0) / (LARGE - SMALL)
        base = max(small - per_entry * SMALL, 0.1)
        lines.append(f"[{kind}]\nbase_us = {base:.1f}\nper_entry_us = {per_entry:.6f}\n")
        print(f"{kind:12} {small:8.2f} us at {SMALL:,} entries, {large:8.2f} us at {LARGE:,}")
    PROFILE.write_text("\n".join(lines))
    print(f"written to {PROFILE.relative_to(Path.cwd())}")


def _filled(entries: int, covering: str = "none") -> Surrounded:
    at = Surrounded(covering)
    for number, filter in enumerate(CoveringDegree(seed=1, count=entries).take_filters(entries)):
        message = Subscribe(EntryId("s", str(number), 1), filter)
        at.subscribe(LINKS[1 + number % 3], message)
    return at


def _best(make: Callable[[], Callable[[], object]], count: int) -> float:
    """Seconds for one of `count`, in the best round; each round is made ready anew."""
    return min(seconds(make()) for _ in range(ROUNDS)) / count


def _batch() -> float:
    """What a call costs beside its messages, in microseconds."""
    bodies = [msgspec.msgpack.encode(Body({"nobody": 1})) for _ in range(20 * COUNT)]
    spent = []
    for batch in (1, 64):
        at = Surrounded()
        frames = frames_of(bodies, batch)
        spent.append(seconds(lambda at=at, frames=frames: at.publish(frames)))  # type: ignore[misc]
    return 1e6 * (spent[0] - spent[1]) / len(bodies)


def _publication(entries: int) -> float:
    at = Surrounded()
    workload = StockQuotes(seed=1, ranges=True)
    for number, filter in enumerate(workload.take_filters(entries)):
        at.subscribe(LINKS[1 + number % 3], Subscribe(EntryId("s", str(number), 1), filter))
    bodies = [msgspec.msgpack.encode(Body(p)) for p in workload.take_publications(ROUNDS * 4_096)]
    frames = frames_of(bodies, 64)
    share = len(frames) // ROUNDS
    rounds = iter(range(ROUNDS))

    def make() -> Callable[[], object]:
        start = next(rounds) * share
        return lambda: at.publish(frames[start : start + share])

    return _best(make, 64 * share)


def _subscribe_with(covering: str, entries: int) -> float:
    at = _filled(entries, covering)
    filters = CoveringDegree(seed=2, count=ROUNDS * COUNT).take_filters(ROUNDS * COUNT)
    rounds = iter(range(ROUNDS))

    def make() -> Callable[[], object]:
        start = next(rounds) * COUNT
        messages = [
            Subscribe(EntryId("t", str(start + n), 1), filters[start + n]) for n in range(COUNT)
        ]
        return lambda: [at.subscribe("N2", message) for message in messages]

    return _best(make, COUNT)


def _unsubscribe(entries: int) -> float:
    at = _filled(entries)
    rounds = iter(range(ROUNDS))
    each = min(COUNT, entries // (2 * ROUNDS))

    def make() -> Callable[[], object]:
        start = next(rounds) * each
        numbers = range(start, start + each)
        return lambda: [
            at.control(LINKS[1 + n % 3], Unsubscribe((EntryId("s", str(n), 1),))) for n in numbers
        ]

    return _best(make, each)


def _advertise(entries: int) -> float:
    """Advertisements that no stored subscription wants; drawing some costs what they cost."""
    at = _filled(entries)
    filters = StockQuotes(seed=3, ranges=True).take_filters(ROUNDS * 100)
    rounds = iter(range(ROUNDS))

    def make() -> Callable[[], object]:
        start = next(rounds) * 100
        ids = [EntryId("a", str(start + n), 1) for n in range(100)]
        return lambda: [
            at.control(SOURCE, Advertise(id, filters[start + n])) for n, id in enumerate(ids)
        ]

    return _best(make, 100)


def _unadvertise(entries: int) -> float:
    at = _filled(entries)
    filters = StockQuotes(seed=3, ranges=True).take_filters(ROUNDS * 100)
    for n, filter in enumerate(filters):
        at.control(SOURCE, Advertise(EntryId("a", str(n), 1), filter))
    rounds = iter(range(ROUNDS))

    def make() -> Callable[[], object]:
        start = next(rounds) * 100
        events = [
            FrameReceived(
                SOURCE,
                Batch(
                    Lane.DATA,
                    1 + start + n,
                    (Unadvertise(EntryId("a", str(start + n), 1), filters[start + n]),),
                ),
            )
            for n in range(100)
        ]
        return lambda: [at.broker.handle(0, event) for event in events]

    return _best(make, 100)


def _other(entries: int) -> float:
    del entries
    at = Surrounded()
    message = AdvertisementSettled(EntryId("nobody", "a", 1))
    return _best(lambda: lambda: [at.control("N2", message) for _ in range(COUNT)], COUNT)


MEASURES: dict[str, Callable[[int], float]] = {
    "publication": _publication,
    "subscribe": lambda entries: _subscribe_with("none", entries),
    "unsubscribe": _unsubscribe,
    "advertise": _advertise,
    "unadvertise": _unadvertise,
    "other": _other,
    "covering": lambda entries: max(
        _subscribe_with("active", entries) - _subscribe_with("none", entries), 1e-6
    ),
}

if __name__ == "__main__":
    main()
