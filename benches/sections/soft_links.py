"""What a mesh costs a broker: each publication, against the tree at equal copies, and a link that
comes or goes.

The broker has opened its soft links by itself, for publications that went to all their ends. What
is measured goes to three of these, where the tree's broker sends to three neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import msgspec

from benches.neighbours import LINKS, Surrounded, frames_of
from benches.report import Figure, Section, at_most
from benches.run import Run, first_filters
from benches.sections.handle import BATCH, WORKLOAD
from benches.timing import seconds
from byway.core.actions import OpenLink, Timer
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import LinkDown, LinkUp, TimerFired
from byway.core.mesh.mesh_config import MeshConfig
from byway.model import TRUE, Filter
from byway.model.messages import (
    Body,
    BrokerRecord,
    EntryId,
    Hello,
    LinkKind,
    RecordUpdate,
    RelayedRecord,
    SpanTaken,
    Subscribe,
    SubscribeAlong,
    Unsubscribe,
)

TITLE = "a broker with 21 soft links (handle alone, no network)"
SUBSCRIPTIONS = 6_500
PUBLICATIONS = 6_000
ROUNDS = 9
FAR = 7
"""Brokers three hops away in each direction that publications go to."""
INTERVAL_US = 1_000_000
INTERVALS = 12
PUBLISHED = 50
"""Publications of an interval before the links are open."""
MESH = MeshConfig(delta=4, strategy="S2", interval_us=INTERVAL_US, gain_min=1)


class Meshed(Surrounded):
    """A broker that has opened soft links to all brokers at the ends of its neighbourhood."""

    def __init__(self) -> None:
        super().__init__(config=BrokerConfig(mesh=MESH))
        self.ends = {link: tuple(f"{link}-{n}" for n in range(FAR)) for link in LINKS[1:]}
        for link, ends in self.ends.items():
            middle = f"{link}m"
            near = [(1, link, ("B", middle)), (2, middle, (*ends, link))]
            near += [(3, end, (middle,)) for end in ends]
            records = [
                RelayedRecord(BrokerRecord(name, 1, 1, tuple(sorted(to)), 4, "far:1"), hops)
                for hops, name, to in near
            ]
            self.control(link, RecordUpdate(True, (), tuple(records)))
        self._have_them_opened()

    def along(self, link: str, end: str, id: EntryId, filter: Filter) -> None:
        """A subscription comes from a broker at an end."""
        self.subscribe(link, SubscribeAlong(id, filter, (f"{link}m", end)))

    def _have_them_opened(self) -> None:
        for link, ends in self.ends.items():
            for end in ends:
                self.along(link, end, EntryId("all", end, 1), TRUE)
        opened: set[str] = set()
        bodies = [msgspec.msgpack.encode(Body({"x": 1}))] * PUBLISHED
        for interval in range(INTERVALS):
            self.publish(frames_of(bodies, PUBLISHED, PUBLISHED * interval))
            fired = TimerFired(Timer("mesh"))
            for action in self.broker.handle((interval + 1) * INTERVAL_US, fired):
                if isinstance(action, OpenLink):
                    opened.add(action.link)
                    self.open(action.link)
        assert opened == {end for ends in self.ends.values() for end in ends}, sorted(opened)
        for link, ends in self.ends.items():
            self.control(link, Unsubscribe(tuple(EntryId("all", end, 1) for end in ends)))

    def open(self, end: str) -> None:
        """A soft link comes up, and its other end takes publications."""
        self._next[end] = 1
        self.broker.handle(0, LinkUp(end, Hello(end, 1, 0, 0, 0, 0, kind=LinkKind.SOFT)))
        (link,) = (link for link, ends in self.ends.items() if end in ends)
        self.control(end, SpanTaken((link, f"{link}m")))


def measure(run: Run) -> Section:
    """The tree and the mesh in turn: the median of the ratios of the rounds."""
    filters = first_filters(WORKLOAD, run.scaled(SUBSCRIPTIONS))
    publications = WORKLOAD.take_publications(run.scaled(PUBLICATIONS))
    bodies = [msgspec.msgpack.encode(Body(p)) for p in publications]

    def tree() -> Surrounded:
        at = Surrounded()
        for number, filter in enumerate(filters):
            message = Subscribe(EntryId("subscriber", str(number), 1), filter)
            at.subscribe(LINKS[1 + number % 3], message)
        return at

    def mesh() -> Meshed:
        at = Meshed()
        for number, filter in enumerate(filters):
            link = LINKS[1 + number % 3]
            at.along(link, at.ends[link][0], EntryId("subscriber", str(number), 1), filter)
        return at

    ratios: dict[int, list[float]] = {BATCH: [], 1: []}
    spent: dict[int, list[float]] = {BATCH: [], 1: []}
    copies: set[int] = set()
    for number in range(ROUNDS):
        run.step(f"round {number + 1} of {ROUNDS}")
        for batch in ratios:
            took = []
            for make, after in ((tree, 0), (mesh, PUBLISHED * INTERVALS)):
                at, frames = make(), frames_of(bodies, batch, after)
                before = at.broker.counters.copies
                took.append(seconds(lambda at=at, frames=frames: at.publish(frames)))  # type: ignore[misc]
                copies.add(at.broker.counters.copies - before)
            ratios[batch].append(took[1] / took[0])
            spent[batch].append(took[1])
    assert len(copies) == 1, f"copies differ: {copies}"
    run.step("links")
    down = _link_change(mesh)
    count = len(publications)
    figures = [
        Figure(
            f"mesh over tree, {'one by one' if batch == 1 else f'{batch} a frame'}",
            median(ratios[batch]), "×", at_most(1.15),
        )
        for batch in ratios
    ]  # fmt: skip
    figures += [
        Figure("mesh, a publication", 1e6 * median(spent[BATCH]) / count, "µs"),
        Figure("a soft link goes down", 1e3 * down, "ms", at_most(1)),
        Figure("copies per publication", copies.pop() / count, ""),
    ]
    sizes = {"subscriptions": len(filters), "soft links": 3 * FAR, "publications": count}
    return Section("soft-links", TITLE, sizes, figures, [
        "every frame is acknowledged and every copy confirmed in the measured time",
        "order is kept; the link manager counts",
    ])  # fmt: skip


def _link_change(make: Callable[[], Meshed]) -> float:
    """The best time for a soft link that goes down: it is given up, and routes are planned anew."""
    at = make()
    ends = [end for ends in at.ends.values() for end in ends]
    events = [LinkDown(end) for end in ends]
    return min(seconds(lambda event=event: at.broker.handle(0, event)) for event in events)  # type: ignore[misc]
