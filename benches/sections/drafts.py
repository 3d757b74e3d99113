"""How long a broker stands still while it copies its routing to a draft, and what that costs."""

from __future__ import annotations

import gc
from dataclasses import dataclass

from benches.neighbours import LINKS, Surrounded
from benches.report import Figure, Section, at_most
from benches.run import Run, first_filters
from benches.timing import seconds
from byway.core.actions import Timer
from byway.core.counters import Counters
from byway.core.drafts import TIMER
from byway.core.in_flight import InFlight
from byway.core.inputs import TimerFired
from byway.matching import ensure_kernels
from byway.model import Filter
from byway.model.messages import EntryId, Message, Reply, Subscribe, Unadvertise, Unsubscribe
from byway.workload import StockQuotes

TITLE = "a draft of a routing, copied in steps (handle alone, no network)"
WORKLOAD = StockQuotes(seed=1, symbols=2_000, ranges=True)
SUBSCRIPTIONS = 100_000
PACK = 500
"""Subscriptions of one message while the broker is prepared."""
ROUNDS = 3
STANDSTILL_MS_MAX = 50


class Nowhere:
    """The outlet of a draft whose messages are not wanted."""

    broker = ("B", 1)
    now_us = 0
    counters = Counters()

    def send(self, link: str, message: Message) -> None:
        """Send nothing."""

    def send_unadvertise(self, link: str, message: Unadvertise, pending: InFlight) -> None:
        """Send nothing."""

    def answer(self, link: str, id: EntryId) -> None:
        """Answer nothing."""

    def tell(self, client: str, reply: Reply) -> None:
        """Tell nobody."""

    def set_timer(self, timer: Timer, at_us: int) -> None:
        """Set no timer."""

    def awaits_digest(self, link: str) -> bool:
        """No neighbour does."""
        del link
        return False

    def settle_unclaimed(self, link: str, id: EntryId) -> None:
        """There is nothing unclaimed."""

    def knows_adverts_except(self, link: str | None) -> bool:
        """They are known."""
        del link
        return True


@dataclass
class Spent:
    """Processor time of the steps of one draft."""

    longest_ms: float = 0.0
    total_ms: float = 0.0

    def add(self, spent_s: float) -> None:
        """One more step."""
        self.longest_ms = max(self.longest_ms, 1e3 * spent_s)
        self.total_ms += 1e3 * spent_s


def measure(run: Run) -> Section:
    """Drafts of brokers that hold the subscriptions of three neighbours."""
    run.step("preparing")
    ensure_kernels()
    filters = first_filters(WORKLOAD, run.scaled(SUBSCRIPTIONS))
    figures = []
    for name, covering, merging, without in (
        ("no covering, all of it", "none", False, ()),
        ("no covering, without a neighbour", "none", False, (LINKS[1],)),
        ("active covering, all of it", "active", False, ()),
        ("active covering, without a neighbour", "active", False, (LINKS[1],)),
        ("active covering and merging", "active", True, ()),
    ):
        run.step(name)
        broker = _prepared(covering, merging, filters)
        rounds = [_drafted(broker, filters, without) for _ in range(ROUNDS)]
        longest, total = (
            min(r.longest_ms for r in rounds),
            min(r.total_ms for r in rounds),
        )
        target = None if run.quick else at_most(STANDSTILL_MS_MAX)
        figures += [
            Figure(f"{name}: longest step", longest, "ms", target),
            Figure(f"{name}: all steps", total, "ms"),
        ]
    sizes = {"subscriptions": len(filters), "links": len(LINKS)}
    return Section("drafts", TITLE, sizes, figures, [
        "processor time, collector on; between two steps a subscription comes and another one goes",
        "steps copy the routing, release what was left out, and forget the draft, which is dropped",
    ])  # fmt: skip


def _prepared(covering: str, merging: bool, filters: list[Filter]) -> Surrounded:
    surrounded = Surrounded(covering, merging=merging)
    for start in range(0, len(filters), PACK):
        subscriptions = [
            Subscribe(EntryId("subscriber", str(number), 1), filters[number])
            for number in range(start, min(start + PACK, len(filters)))
        ]
        surrounded.subscribe(LINKS[1 + start // PACK % 3], *subscriptions)
    if merging:
        surrounded.wait(200)
    return surrounded


def _drafted(at: Surrounded, filters: list[Filter], without: tuple[str, ...]) -> Spent:
    """Make a draft and drop it, in steps, while subscriptions come and go."""
    broker, spent, done = at.broker, Spent(), []
    gc.collect()
    gc.enable()
    try:
        spent.add(
            seconds(
                lambda: broker.drafts.begin(
                    Nowhere(), lambda _: None, lambda: done.append(True), without=without
                )
            )
        )
        step = 0
        while not done:
            spent.add(seconds(lambda: broker.handle(0, TimerFired(TIMER))))
            step += 1
            id = EntryId("passing", str(step), 1)
            link = LINKS[1 + step % 3]
            at.subscribe(link, Subscribe(id, filters[step % len(filters)]))
            at.control(link, Unsubscribe((id,)))
        spent.add(seconds(broker.drafts.drop))
        while broker.drafts.is_busy:
            spent.add(seconds(lambda: broker.handle(0, TimerFired(TIMER))))
    finally:
        gc.disable()
    return spent
