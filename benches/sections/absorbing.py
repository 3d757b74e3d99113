"""A broker absorbs subscriptions, and lets go of one that covers thousands."""

from __future__ import annotations

from benches.neighbours import LINKS, Surrounded
from benches.report import Figure, Section, at_least, below
from benches.run import Run, first_filters
from benches.timing import seconds
from byway.core.inputs import NeighbourRemoved
from byway.model import parse
from byway.model.messages import EntryId, Subscribe, Unsubscribe
from byway.workload import CoveringDegree

TITLE = "subscriptions into one broker (handle alone, no network)"
SUBSCRIPTIONS = 80_000
BATCH = 8
TRIGGERED = 2_100
EQUAL = 20_000
REMOVED = 20_000
COVERING = ("active", "lazy", "packing", "incremental", "selective")


def measure(run: Run) -> Section:
    """Subscriptions from three neighbours towards a fourth that advertises everything."""
    count = run.scaled(SUBSCRIPTIONS)
    run.step(f"drawing {count:,} subscriptions")
    filters = first_filters(CoveringDegree(seed=1, count=count), count)
    rates, forwarded = {}, {}
    for covering in ("none", *COVERING):
        run.step(f"subscribing with covering {covering}")
        at = Surrounded(covering)
        messages = [Subscribe(EntryId("s", str(n), 1), f) for n, f in enumerate(filters)]
        rates[covering] = count / seconds(lambda at=at, m=messages: _subscribe(at, m))  # type: ignore[misc]
        table = at.broker.subscriptions
        forwarded[covering] = sum("N1" in entry.forwarded for entry in table)
    figures = []
    for covering in COVERING:
        run.step(f"unsubscribing one that covers many with covering {covering}")
        release_s = min(_release(covering, run.scaled(TRIGGERED)) for _ in range(3))
        figures += [
            Figure(
                f"subscribe, {covering}", rates[covering], "subscriptions/s", at_least(5_000),
                {"none": rates["none"]}, more_is_better=True,
            ),
            Figure(
                f"forwarded, {covering}", forwarded[covering], "", None,
                {"none": forwarded["none"]},
            ),
            Figure(f"unsubscribe what covers many, {covering}", 1e3 * release_s, "ms", below(500)),
        ]  # fmt: skip
    for covering in ("lazy", "packing", "incremental", "selective"):
        run.step(f"removing a neighbour with {run.scaled(REMOVED):,}, covering {covering}")
        few, many = (_remove(covering, run.scaled(count)) for count in (REMOVED // 4, REMOVED))
        figures.append(
            Figure(
                f"a neighbour is removed, {covering}", 1e3 * many, "ms", below(2_000),
                {"a quarter as many": 1e3 * few},
            )
        )  # fmt: skip
    run.step(f"subscribing to the same {run.scaled(EQUAL):,} times")
    few, many = (_equal(run.scaled(count)) for count in (EQUAL // 4, EQUAL))
    figures.append(
        Figure("subscribe to the same, active", many, "µs", None, {"a quarter as many": few})
    )
    sizes = {
        "subscriptions": count,
        "covering degree": 30,
        "a frame": BATCH,
        "covered by the one that ends": run.scaled(TRIGGERED),
        "of the neighbour that is removed": run.scaled(REMOVED),
    }
    return Section("absorbing", TITLE, sizes, figures, [
        "none: the same broker without covering",
    ])  # fmt: skip


def _subscribe(at: Surrounded, messages: list[Subscribe]) -> None:
    for start in range(0, len(messages), BATCH):
        at.subscribe(LINKS[1 + start // BATCH % 3], *messages[start : start + BATCH])


def _equal(count: int) -> float:
    """Microseconds for each of so many that want the same."""
    at = Surrounded("active")
    filter = parse("x >= 0 AND y = 7")
    messages = [Subscribe(EntryId("s", str(n), 1), filter) for n in range(count)]
    return 1e6 * seconds(lambda: _subscribe(at, messages)) / count


def _remove(covering: str, count: int) -> float:
    """The time to forget a neighbour that so many came from, none covering another."""
    at = Surrounded(covering)
    for number in range(count):
        at.subscribe("N2", Subscribe(EntryId("s", str(number), 1), parse(f"x = {number}")))
    return seconds(lambda: at.broker.handle(0, NeighbourRemoved("N2")))


def _release(covering: str, count: int) -> float:
    """The time to unsubscribe one that stands for `count` others, none covering another."""
    at = Surrounded(covering)
    broad = EntryId("broad", "s", 1)
    at.subscribe("N2", Subscribe(broad, parse("x >= 0")))
    for number in range(count):
        narrow = parse(f"x BETWEEN {number} AND {number + 1} AND y = {number % 7}")
        at.subscribe("N3", Subscribe(EntryId("narrow", str(number), 1), narrow))
    return seconds(lambda: at.control("N2", Unsubscribe((broad,))))
