"""`Broker.handle` alone: publications through one broker, acknowledged and confirmed."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from benches.neighbours import LINKS, Surrounded, frames_of
from benches.report import Figure, Section, at_least
from benches.run import Run, first_filters
from benches.timing import seconds
from byway.core.inputs import FrameReceived
from byway.model.messages import Body, EntryId, Subscribe
from byway.trace import TraceBuffer, TraceWriter
from byway.workload import StockQuotes

TITLE = "publications through one broker (handle alone, no network)"
WORKLOAD = StockQuotes(seed=1, ranges=True)
SUBSCRIPTIONS = 10_000
PUBLICATIONS = 20_000
BATCH = 64
ROUNDS = 5


def measure(run: Run) -> Section:
    """Frames of publications from one neighbour, copies to three, each confirmed at once."""
    run.step("preparing")
    filters = first_filters(WORKLOAD, run.scaled(SUBSCRIPTIONS))
    publications = WORKLOAD.take_publications(run.scaled(PUBLICATIONS))
    bodies = [msgspec.msgpack.encode(Body(p)) for p in publications]
    frames, single = frames_of(bodies, BATCH), frames_of(bodies, 1)

    def subscribed(trace: TraceBuffer | None = None) -> Surrounded:
        surrounded = Surrounded(trace=trace)
        for number, filter in enumerate(filters):
            message = Subscribe(EntryId("subscriber", str(number), 1), filter)
            surrounded.subscribe(LINKS[1 + number % 3], message)
        return surrounded

    batched = one_by_one = traced = float("inf")
    copies = 0
    for number in range(ROUNDS):
        run.step(f"round {number + 1} of {ROUNDS}")
        at = subscribed()
        batched = min(batched, seconds(lambda at=at: at.publish(frames)))  # type: ignore[misc]
        copies = at.broker.counters.copies
        at = subscribed()
        one_by_one = min(one_by_one, seconds(lambda at=at: at.publish(single)))  # type: ignore[misc]
        traced = min(traced, _traced(subscribed, frames))
    count = len(publications)
    figures = [
        Figure(
            "handle, trace off", count / batched, "publications/s", at_least(60_000),
            {"one by one": count / one_by_one}, more_is_better=True,
        ),
        Figure(
            "handle, trace to Parquet", count / traced, "publications/s", at_least(40_000),
            more_is_better=True,
        ),
        Figure("copies per publication", copies / count, ""),
    ]  # fmt: skip
    sizes = {
        "subscriptions": len(filters),
        "links": len(LINKS),
        "publications": count,
        "publications a frame": BATCH,
        "body, bytes": round(sum(map(len, bodies)) / count),
    }
    return Section("handle", TITLE, sizes, figures, [
        "every frame is acknowledged and every copy confirmed in the measured time",
        "one by one: the same, a frame for each publication",
    ])  # fmt: skip


def _traced(subscribed, frames: list[FrameReceived]) -> float:  # type: ignore[no-untyped-def]
    """The processor time with a trace that is written as it fills."""
    buffer = TraceBuffer("B")
    at = subscribed(buffer)
    buffer.drain()
    with TemporaryDirectory() as directory, TraceWriter(Path(directory), "bench", "B") as writer:

        def all_of_it() -> None:
            for start in range(0, len(frames), 64):
                at.publish(frames[start : start + 64])
                writer.write(buffer.drain())

        return seconds(all_of_it)
