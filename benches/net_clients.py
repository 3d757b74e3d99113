"""The clients of the network bench, each a process of its own: `python -m benches.net_clients`.

A client prints a line of JSON when it is ready, does its work when it is told to by a line on
standard input, and prints what it measured. Clocks are the system's monotonic one, which all
processes share.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Iterator
from itertools import cycle, islice
from struct import Struct
from time import monotonic_ns
from typing import Any

import msgspec
import numpy as np
import uvloop

import byway
from byway.model.values import Value
from byway.workload import StockQuotes

DIFFERENT = 20_000
"""Publications that are different; then they come again."""
TIMEOUT_S = 600.0
STAMP = Struct(">q")


class Job(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What one client is to do."""

    role: str
    """`own` many subscriptions, `listen` to everything, or `publish`."""
    url: str
    symbols: int
    count: int
    """Subscriptions, or publications."""
    rate: float = 0.0
    """Publications a second; 0: as fast as the window of 4,096 allows."""
    window: int = 4_096


def say(**facts: Any) -> None:
    """Tell the bench."""
    sys.stdout.buffer.write(msgspec.json.encode(facts) + b"\n")
    sys.stdout.buffer.flush()


async def heard() -> bool:
    """Wait for a line of the bench; false at its end."""
    return bool(await asyncio.to_thread(sys.stdin.readline))


def workload(symbols: int) -> StockQuotes:
    """The stock quotes that all clients mean."""
    return StockQuotes(seed=1, symbols=symbols)


async def own(client: byway.Client, job: Job) -> None:
    """Hold many subscriptions, and take what comes until the bench ends."""
    filters = workload(job.symbols).take_filters(job.count)
    gc.freeze()
    began_ns = monotonic_ns()
    subscription = await client.subscribe(*filters, timeout=TIMEOUT_S)
    say(settled_s=(monotonic_ns() - began_ns) / 1e9)
    taking = asyncio.create_task(_take_for_ever(subscription))
    while await heard():
        say(received=client.status.received)
    taking.cancel()


async def _take_for_ever(subscription: byway.Subscription) -> None:
    while True:
        await subscription.take(65_536)


async def listen(client: byway.Client, job: Job) -> None:
    """Take everything, so many publications a round."""
    subscription = await client.subscribe("TRUE", timeout=TIMEOUT_S)
    say(settled=True)
    while await heard():
        taken, waited_ns = 0, []
        while taken < job.count:
            events = await subscription.take(65_536, timeout=TIMEOUT_S)
            now_ns = monotonic_ns()
            taken += len(events)
            if job.rate:
                waited_ns += [now_ns - STAMP.unpack(event.data)[0] for event in events]
        last_ns = monotonic_ns()
        shares = np.percentile(waited_ns, (50, 99, 99.9)).tolist() if waited_ns else []
        say(last_ns=last_ns, taken=taken, latencies_ms=[ns / 1e6 for ns in shares])


async def publish(client: byway.Client, job: Job) -> None:
    """Publish, so many a round."""
    quotes = workload(job.symbols).take_publications(min(DIFFERENT, job.count))
    await client.advertise("ANY", timeout=TIMEOUT_S)
    gc.freeze()
    say(settled=True)
    while await heard():
        publications = islice(cycle(quotes), job.count)
        first_ns = monotonic_ns()
        if job.rate:
            await _paced(client, publications, job.rate)
        else:
            await client.send_all(publications, timeout=TIMEOUT_S)
        await client.confirmed(TIMEOUT_S)
        say(first_ns=first_ns, confirmed_ns=monotonic_ns())


async def _paced(
    client: byway.Client, publications: Iterator[dict[str, Value]], rate: float
) -> None:
    """One after the other at even distances; what is late is not made up for in a burst."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    for publication in publications:
        due = max(due + 1 / rate, loop.time() - 0.01)
        if (wait_s := due - loop.time()) > 0:
            await asyncio.sleep(wait_s)
        client.publish_nowait(publication, STAMP.pack(monotonic_ns()))


ROLES = {"own": own, "listen": listen, "publish": publish}


async def main() -> None:
    """Be one client."""
    job = msgspec.json.decode(sys.argv[1], type=Job)
    async with byway.connect(job.url, name=job.role, window=job.window) as client:
        await ROLES[job.role](client, job)


if __name__ == "__main__":
    uvloop.run(main())
