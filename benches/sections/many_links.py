"""Masks of links: what a publication costs a broker with more neighbours than a word has bits."""

from __future__ import annotations

import msgspec

from benches.neighbours import SOURCE, Surrounded, frames_of
from benches.report import Figure, Section
from benches.run import Run, first_filters
from benches.timing import seconds
from byway.model import Filter, parse
from byway.model.messages import Body, EntryId, Subscribe
from byway.workload import StockQuotes

TITLE = "publications through one broker with many neighbours (handle alone)"
WORKLOAD = StockQuotes(seed=1, ranges=True)
SUBSCRIPTIONS = 10_000
PUBLICATIONS = 10_000
NEIGHBOURS = (4, 63, 64, 65, 128, 256)
SUBSCRIBING = 3
"""Neighbours that subscribe: the last ones by name, whose numbers are the largest."""
NOTHING = parse("nobody_has_this = 1")
BATCH = 64
ROUNDS = 3


def measure(run: Run) -> Section:
    """The same publications and subscriptions, with more and more neighbours that want nothing."""
    filters = first_filters(WORKLOAD, run.scaled(SUBSCRIPTIONS))
    publications = WORKLOAD.take_publications(run.scaled(PUBLICATIONS))
    frames = frames_of([msgspec.msgpack.encode(Body(p)) for p in publications], BATCH)
    best: dict[int, float] = {}
    copies: set[int] = set()
    for number in range(ROUNDS):
        for count in NEIGHBOURS:
            run.step(f"round {number + 1} of {ROUNDS}: {count} neighbours")
            at = _subscribed(count, filters)
            spent = seconds(lambda at=at: at.publish(frames))  # type: ignore[misc]
            best[count] = min(spent, best.get(count, spent))
            copies.add(at.broker.counters.copies)
    assert len(copies) == 1, "the neighbours that want nothing got something"
    few = len(publications) / best[NEIGHBOURS[0]]
    figures = [
        Figure(
            f"{count} neighbours", len(publications) / spent, "publications/s",
            baselines={f"{NEIGHBOURS[0]} neighbours": few}, more_is_better=True,
        )
        for count, spent in best.items()
    ]  # fmt: skip
    sizes = {
        "subscriptions": len(filters),
        "neighbours that subscribe": SUBSCRIBING,
        "publications": len(publications),
        "publications a frame": BATCH,
    }
    return Section("many-links", TITLE, sizes, figures, [
        "a mask has one word up to 64 neighbours that subscribed, then one more for each 64",
    ])  # fmt: skip


def _subscribed(neighbours: int, filters: list[Filter]) -> Surrounded:
    """A broker to which all neighbours but the source subscribe once, so that each has a number,
    and the last ones to everything."""
    links = (SOURCE, *(f"P{number:04}" for number in range(neighbours - 1)))
    at = Surrounded(links=links)
    for number, link in enumerate(links[1:]):
        at.subscribe(link, Subscribe(EntryId("numbered", str(number), 1), NOTHING))
    for number, filter in enumerate(filters):
        message = Subscribe(EntryId("subscriber", str(number), 1), filter)
        at.subscribe(links[-1 - number % SUBSCRIBING], message)
    return at
