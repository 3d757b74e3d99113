"""The load test of `byway bench`: one publisher here, one subscriber in a process of its own.

A publication carries the time at which it was due, so that a stall counts for every publication
that it delayed. Both processes read the same monotonic clock: they are on one machine, the brokers
need not be.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Iterator
from itertools import count, cycle, islice
from multiprocessing.connection import Connection
from secrets import token_hex
from time import monotonic_ns
from typing import Final, Literal

import msgspec
import numpy as np

from byway.client.client import Client, connect
from byway.model.errors import BywayError, ClientError
from byway.model.values import Value
from byway.session.outgoing_publications import encode_body
from byway.workload import StockQuotes

Content = Literal["quotes", "number"]
"""The twelve attributes of a stock quote, or one number; and one that names the run."""

DISTINCT: Final = 4_096
"""Number of different publications; then they repeat."""
TOGETHER: Final = 1_024
TICK_S: Final = 0.001
START_S: Final = 60.0
"""How long the subscriber may take to be ready."""
_STAMP_BYTES: Final = 8


class LoadTestPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Where to publish and subscribe, and how much."""

    publish_to: str
    subscribe_at: str
    publications: int = 50_000
    rate: float = 0.0
    """Publications per second; 0: as fast as the broker accepts them."""
    window: int = 4_096
    content: Content = "quotes"
    patience_s: float = 30.0
    """How long no event may arrive before the rest counts as missing."""


class Latency(msgspec.Struct, frozen=True):
    """Time from when a publication was due until the subscriber received it, in milliseconds."""

    p50: float
    p90: float
    p99: float
    max: float


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a load test."""

    publications: int
    attributes: int
    body_bytes: int
    """Mean size of a publication's body."""
    window: int
    rate: float
    """The rate of the plan; 0: as fast as the broker accepts them."""
    received: int
    hops: int
    seconds: float
    """Time from the first publication until the last event."""
    per_second: float
    latency_ms: Latency | None
    """None if no event was received."""


class MeasuringError(BywayError):
    """The load test could not be completed."""


class SubscriberReport(msgspec.Struct, frozen=True):
    """What the subscriber process received. Times are of the monotonic clock."""

    received: int
    hops: int
    last_ns: int
    latency_ms: Latency | None


def measure(plan: LoadTestPlan) -> Measured:
    """Run a load test. Raises `MeasuringError`, `ClientError`."""
    run = f"bench-{token_hex(4)}"
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    subscriber = context.Process(target=_subscriber, args=(theirs, plan, run), daemon=True)
    subscriber.start()
    theirs.close()
    try:
        _receive(ours, START_S)
        bodies = _publications(plan.content, run)
        started_ns = asyncio.run(_publish(plan, bodies))
        report = msgspec.msgpack.decode(_receive(ours, plan.patience_s * 2), type=SubscriberReport)
    finally:
        subscriber.terminate()
        subscriber.join()
        ours.close()
    seconds = max(report.last_ns - started_ns, 1) / 1e9
    sizes = [len(encode_body(attributes, bytes(_STAMP_BYTES))) for attributes in bodies]
    return Measured(
        publications=plan.publications,
        attributes=len(bodies[0]),
        body_bytes=round(sum(sizes) / len(sizes)),
        window=plan.window,
        rate=plan.rate,
        received=report.received,
        hops=report.hops,
        seconds=seconds,
        per_second=report.received / seconds,
        latency_ms=report.latency_ms,
    )


def _receive(connection: Connection, seconds: float) -> bytes:
    """The next message of the subscriber process. Raises `MeasuringError`."""
    try:
        if connection.poll(seconds):
            message: bytes | str = connection.recv()
            if isinstance(message, str):
                raise MeasuringError(message)
            return message
    except EOFError:
        raise MeasuringError("the subscriber ended early") from None
    raise MeasuringError(f"the subscriber has not answered for {seconds:g} s")


# --- publishing ----------------------------------------------------------------------------------


def _publications(content: Content, run: str) -> list[dict[str, Value]]:
    if content == "number":
        return [{"number": number, "bench": run} for number in range(DISTINCT)]
    quotes = StockQuotes(seed=1).take_publications(DISTINCT)
    return [{**quote, "bench": run} for quote in quotes]


async def _publish(plan: LoadTestPlan, publications: list[dict[str, Value]]) -> int:
    """Publish everything and wait until it is confirmed; when the first was published."""
    source = islice(cycle(publications), plan.publications)
    async with connect(plan.publish_to, window=plan.window, timeout=plan.patience_s) as client:
        await client.advertise("ANY")
        started_ns = monotonic_ns()
        if plan.rate:
            await _publish_paced(client, source, plan.rate, started_ns)
        else:
            await client.send_all((publication, _stamp(monotonic_ns())) for publication in source)
        await client.confirmed()
    return started_ns


async def _publish_paced(
    client: Client, source: Iterator[dict[str, Value]], rate: float, started_ns: int
) -> None:
    sent = 0
    while True:
        due = int((monotonic_ns() - started_ns) / 1e9 * rate) + 1
        numbers = count(sent)
        some = [
            (publication, _stamp(started_ns + int(next(numbers) / rate * 1e9)))
            for publication in islice(source, max(due - sent, 0))
        ]
        if not some and due > sent:
            return
        sent += await client.send_all(some)
        await asyncio.sleep(TICK_S)


def _stamp(at_ns: int) -> bytes:
    return at_ns.to_bytes(_STAMP_BYTES)


# --- subscribing ---------------------------------------------------------------------------------


def _subscriber(connection: Connection, plan: LoadTestPlan, run: str) -> None:
    """The subscriber process: sends `ready`, then its report; or a text that says what failed."""
    try:
        asyncio.run(_subscribe(connection, plan, run))
    except ClientError as error:
        connection.send(str(error))


async def _subscribe(connection: Connection, plan: LoadTestPlan, run: str) -> None:
    latencies = np.zeros(plan.publications)
    received = hops = last_ns = 0
    async with (
        connect(plan.subscribe_at, timeout=plan.patience_s) as client,
        client.subscribe(f"bench = '{run}'") as subscription,
    ):
        connection.send(b"ready")
        while received < plan.publications:
            events = await subscription.take(TOGETHER, plan.patience_s)
            if not events:
                break
            last_ns = monotonic_ns()
            for event in events:
                latencies[received] = last_ns - int.from_bytes(event.data)
                received += 1
            hops = events[-1].hops
        latency = _latency(latencies[:received] / 1e6)
        connection.send(msgspec.msgpack.encode(SubscriberReport(received, hops, last_ns, latency)))


def _latency(milliseconds: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Latency | None:
    if not len(milliseconds):
        return None
    p50, p90, p99 = np.percentile(milliseconds, (50, 90, 99)).tolist()
    return Latency(p50, p90, p99, float(milliseconds.max()))
