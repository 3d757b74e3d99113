"""How long the event loop stands still while a broker with many subscriptions takes a snapshot: by
a child process, and encoded in the loop."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from tempfile import TemporaryDirectory
from time import perf_counter

import msgspec

from benches.report import Figure, Section, at_most
from benches.run import Run, first_filters
from benches.sections.storing import Nobody
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import ClientAttached, ClientRequested, Started
from byway.matching import ensure_kernels
from byway.model import ANY
from byway.model.messages import AdvertiseRequest, Body, PublishRequest, SubscribeRequest
from byway.runtime.driver import Driver
from byway.storage.forked_snapshots import ForkedSnapshots
from byway.storage.snapshot_writing import SnapshotWriter, ThreadedSnapshots
from byway.storage.storage import Storage
from byway.workload import StockQuotes

TITLE = "snapshots under publications, through the driver (no network)"
WORKLOAD = StockQuotes(seed=1, symbols=2_000, ranges=True)
SUBSCRIPTIONS = 100_000
SNAPSHOTS = 5
PAUSE_S = 3.0
"""From one snapshot to the next."""
NEVER = 2**40
"""Only the bench begins snapshots."""
REQUEST = 16
STANDSTILL_MS_MAX = 50


def measure(run: Run) -> Section:
    """One client publishes, another holds all subscriptions."""
    run.step("preparing")
    ensure_kernels()
    bodies = [msgspec.msgpack.encode(Body(p)) for p in WORKLOAD.take_publications(1_000)]
    filters = first_filters(WORKLOAD, run.scaled(SUBSCRIPTIONS))
    wanted = tuple(SubscribeRequest(str(n), filter) for n, filter in enumerate(filters))
    ways: dict[str, tuple[Callable[[], SnapshotWriter], int]] = {
        "none": (ThreadedSnapshots, 0),
        "in the loop": (ThreadedSnapshots, SNAPSHOTS),
        "forked": (ForkedSnapshots, SNAPSHOTS),
    }
    found: dict[str, _Stood] = {}
    for name, (make, snapshots) in ways.items():
        run.step(f"snapshots: {name}")
        found[name] = _published(make, snapshots, wanted, bodies)
    forked, loop, none = found["forked"], found["in the loop"], found["none"]
    figures = [
        Figure(
            "longest standstill of the loop", forked.longest_ms, "ms",
            target=None if run.quick else at_most(STANDSTILL_MS_MAX),
            baselines={"in the loop": loop.longest_ms, "no snapshot": none.longest_ms},
        ),
        Figure(
            "publications meanwhile", forked.rate, "publications/s",
            baselines={"in the loop": loop.rate, "no snapshot": none.rate},
            more_is_better=True,
        ),
    ]  # fmt: skip
    sizes = {"subscriptions": len(wanted), "snapshots": SNAPSHOTS, "snapshot, bytes": forked.bytes}
    return Section("snapshots", TITLE, sizes, figures, [
        "by the clock: the longest time between two turns of a loop that is never idle",
    ])  # fmt: skip


class _Stood:
    """What one way of writing snapshots came to."""

    def __init__(self, longest_ms: float, rate: float, bytes: int) -> None:
        self.longest_ms, self.rate, self.bytes = longest_ms, rate, bytes


def _published(
    make: Callable[[], SnapshotWriter],
    snapshots: int,
    wanted: tuple[SubscribeRequest, ...],
    bodies: list[bytes],
) -> _Stood:
    with TemporaryDirectory() as directory:
        storage = Storage(directory, journal_bytes=NEVER, snapshots=make())
        try:
            broker = storage.restore(1, "B1", BrokerConfig())
            return asyncio.run(_drive(broker, storage, snapshots, wanted, bodies))
        finally:
            storage.abandon()
            gc.unfreeze()


async def _drive(
    broker: Broker,
    storage: Storage,
    snapshots: int,
    wanted: tuple[SubscribeRequest, ...],
    bodies: list[bytes],
) -> _Stood:
    driver = Driver(broker, Nobody(), storage)
    driver.now(
        Started(),
        ClientAttached("publisher", 1),
        ClientAttached("subscriber", 1),
        ClientRequested("publisher", (AdvertiseRequest("a", ANY),)),
        ClientRequested("subscriber", wanted),
    )
    gc.collect()
    gc.freeze()  # as a broker process does with what it restored
    sequence, longest_s, begun = 0, 0.0, 0
    began = before = perf_counter()
    next_s = began + PAUSE_S / 2
    until_s = began + PAUSE_S * SNAPSHOTS
    while before < until_s:
        if begun < snapshots and before > next_s:
            storage.refresh()
            begun += 1
            next_s += PAUSE_S
        requests = []
        for _ in range(REQUEST):
            sequence += 1
            requests.append(PublishRequest(sequence, bodies[sequence % len(bodies)]))
        driver.request("publisher", tuple(requests))
        while driver.inbox:
            await asyncio.sleep(0)
        now = perf_counter()
        longest_s, before = max(longest_s, now - before), now
    assert bool(snapshots) == (storage.snapshots > 1)
    assert not storage.snapshots_failed
    return _Stood(longest_s * 1e3, sequence / (before - began), storage.snapshot_bytes)
