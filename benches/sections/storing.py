"""What it costs to keep every input before the broker sees it: the driver with and without storage,
and with the same records in SQLite."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import NamedTuple, Protocol

import msgspec

from benches.report import Figure, Section
from benches.run import Run, first_filters
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import ClientAttached, ClientRequested, Input, Started
from byway.matching import MatchIndex
from byway.model import ANY
from byway.model.messages import (
    AdvertiseRequest,
    Body,
    Frame,
    PublishRequest,
    Reply,
    SubscribeRequest,
)
from byway.runtime.driver import Driver
from byway.storage.record_files import encode_inputs
from byway.storage.storage import Storage
from byway.workload import StockQuotes

TITLE = "publications through the driver, every input kept (no network)"
WORKLOAD = StockQuotes(seed=1, symbols=2_000, ranges=True)
SUBSCRIPTIONS = 10_000
PUBLICATIONS = 200_000
REQUEST = 64
TURN = 4
"""Requests that wait when a turn begins."""
ROUNDS = 2
SNAPSHOT_EVERY = 33_554_432


class Nobody:
    """Hands that let everything fall."""

    def send(self, link: str, frame: Frame) -> None:
        """Nothing."""

    def tell(self, client: str, replies: tuple[Reply, ...]) -> None:
        """Nothing."""

    def open_link(self, link: str) -> None:
        """Nothing."""

    def close_link(self, link: str, reason: str) -> None:
        """Nothing."""

    def requests_taken(self) -> None:
        """Nothing."""


class Journal(Protocol):
    """Where inputs are kept."""

    def keep(self, at_us: int, inputs: list[Input]) -> None:
        """Keep inputs that are handed in together."""


class SqliteJournal:
    """The same records as rows, emptied when a snapshot replaces them."""

    def __init__(self, directory: Path, broker: Broker) -> None:
        self._broker, self._bytes = broker, 0
        self._database = sqlite3.connect(directory / "journal", isolation_level=None)
        for statement in (
            "PRAGMA journal_mode = WAL",
            "PRAGMA synchronous = NORMAL",
            "CREATE TABLE journal (number INTEGER PRIMARY KEY, inputs BLOB NOT NULL)",
            "CREATE TABLE snapshot (state BLOB NOT NULL)",
        ):
            self._database.execute(statement)

    def keep(self, at_us: int, inputs: list[Input]) -> None:
        """Keep inputs that are handed in together."""
        if self._bytes > SNAPSHOT_EVERY:
            self._take_snapshot()
        data = encode_inputs(at_us, inputs)
        self._bytes += len(data)
        self._database.execute("INSERT INTO journal (inputs) VALUES (?)", (data,))

    def _take_snapshot(self) -> None:
        self._bytes = 0
        self._database.execute("BEGIN")
        self._database.execute("DELETE FROM snapshot")
        self._database.execute("INSERT INTO snapshot VALUES (?)", (self._broker.snapshot(),))
        self._database.execute("DELETE FROM journal")
        self._database.execute("COMMIT")

    def close(self) -> None:
        """Let go of the file."""
        self._database.close()


def measure(run: Run) -> Section:
    """One client publishes, another holds all subscriptions."""
    run.step("preparing")
    filters = first_filters(WORKLOAD, run.scaled(SUBSCRIPTIONS))
    publications = WORKLOAD.take_publications(run.scaled(PUBLICATIONS))
    bodies, count = [msgspec.msgpack.encode(Body(p)) for p in publications], len(publications)
    wanted = tuple(SubscribeRequest(str(n), f) for n, f in enumerate(filters))
    inputs: list[Input] = [
        Started(),
        ClientAttached("publisher", 1),
        ClientAttached("subscriber", 1),
        ClientRequested("publisher", (AdvertiseRequest("a", ANY),)),
        ClientRequested("subscriber", wanted),
    ]
    requests = [
        tuple(
            PublishRequest(start + n + 1, body) for n, body in enumerate(bodies[start:][:REQUEST])
        )
        for start in range(0, len(bodies), REQUEST)
    ]
    index = MatchIndex()
    for key, filter in enumerate(filters):
        index.add(key, filter)
    matched = sum(len(index.match(publication)) for publication in publications)
    best: dict[str, Spent] = {}
    for number in range(ROUNDS):
        run.step(f"round {number + 1} of {ROUNDS}")
        for name, round_ in (("none", _without), ("files", _stored), ("SQLite", _in_sqlite)):
            spent = round_(inputs, requests)
            best[name] = Spent(*map(min, spent, best.get(name, spent)))
    none, files, sqlite = best["none"], best["files"], best["SQLite"]
    figures = [
        Figure(
            "kept in files", count / files.all_s, "publications/s",
            baselines={"without": count / none.all_s, "SQLite": count / sqlite.all_s},
            more_is_better=True,
        ),
        Figure(
            "keeping a turn's inputs", files.keep_s * 1e6, "µs",
            baselines={"SQLite": sqlite.keep_s * 1e6},
        ),
        Figure(
            "longest turn", files.longest_s * 1e3, "ms",
            baselines={"without": none.longest_s * 1e3, "SQLite": sqlite.longest_s * 1e3},
        ),
    ]  # fmt: skip
    sizes = {
        "subscriptions": len(filters),
        "publications": count,
        "publications a request": REQUEST,
        "requests a turn": TURN,
        "matches a publication": round(matched / count, 2),
        "body, bytes": round(sum(map(len, bodies)) / count),
    }
    return Section("storing", TITLE, sizes, figures, [
        f"a snapshot is taken every {SNAPSHOT_EVERY // 2**20} MiB; keeping and turns by the clock",
        "SQLite: WAL mode, synchronous = NORMAL, the same records as rows",
    ])  # fmt: skip


Requests = list[tuple[PublishRequest, ...]]


class Spent(NamedTuple):
    """Processor time of all publications; by the clock, of keeping inputs on average and of the
    longest turn."""

    all_s: float
    keep_s: float
    longest_s: float


class Timed:
    """A journal with a stop-watch, of a broker that never raises."""

    set_aside = None

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.spent_s, self.calls = 0.0, 0

    def keep(self, at_us: int, inputs: list[Input]) -> None:
        """Keep inputs that are handed in together."""
        began = perf_counter()
        self._journal.keep(at_us, inputs)
        self.spent_s += perf_counter() - began
        self.calls += 1


def _without(inputs: list[Input], requests: Requests) -> Spent:
    return _driven(Broker("B1"), None, inputs, requests)


def _stored(inputs: list[Input], requests: Requests) -> Spent:
    with TemporaryDirectory() as directory:
        storage = Storage(directory)
        try:
            broker = storage.restore(1, "B1", BrokerConfig())
            return _driven(broker, Timed(storage), inputs, requests)
        finally:
            storage.abandon()


def _in_sqlite(inputs: list[Input], requests: Requests) -> Spent:
    with TemporaryDirectory() as directory:
        broker = Broker("B1")
        journal = SqliteJournal(Path(directory), broker)
        try:
            return _driven(broker, Timed(journal), inputs, requests)
        finally:
            journal.close()


def _driven(
    broker: Broker, journal: Timed | None, inputs: list[Input], requests: Requests
) -> Spent:
    async def drive() -> Spent:
        driver = Driver(broker, Nobody(), journal)
        driver.now(*inputs)
        longest = 0.0
        began, before = process_time(), perf_counter()
        for start in range(0, len(requests), TURN):
            for part in requests[start : start + TURN]:
                driver.request("publisher", part)
            while driver.inbox:
                await asyncio.sleep(0)
            now = perf_counter()
            longest, before = max(longest, now - before), now
        keep_s = journal.spent_s / journal.calls if journal is not None else 0.0
        return Spent(process_time() - began, keep_s, longest)

    return asyncio.run(drive())
