"""Clients of NATS for the network bench, each a process of its own, as those of `net_clients`.

The publisher sends the same bodies as byway's, encoded beforehand, each under the subject of its
symbol. The subscriber takes the messages of all symbols.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from itertools import cycle, islice
from time import monotonic_ns

import msgspec
import nats
import uvloop
from nats.aio.client import Client as NatsClient

from benches.net_clients import DIFFERENT, TIMEOUT_S, Job, heard, say, workload
from byway.session.outgoing_publications import encode_body

SUBJECT = "quotes"
TOGETHER = 256
"""Publications after which other tasks of the event loop run, as in byway's client."""


async def listen(client: NatsClient, job: Job) -> None:
    """Take everything, so many messages a round."""
    taken = 0
    all_taken = asyncio.Event()

    async def take(_: object) -> None:
        nonlocal taken
        taken += 1
        if taken == job.count:
            all_taken.set()

    await client.subscribe(
        f"{SUBJECT}.>", cb=take, pending_msgs_limit=4 * job.count, pending_bytes_limit=2**31
    )
    await client.flush()
    say(settled=True)
    while await heard():
        await asyncio.wait_for(all_taken.wait(), TIMEOUT_S)
        say(last_ns=monotonic_ns(), taken=taken)
        taken = 0
        all_taken.clear()


async def publish(client: NatsClient, job: Job) -> None:
    """Publish, so many a round, and wait until the server has read all."""
    quotes = workload(job.symbols).take_publications(min(DIFFERENT, job.count))
    messages = [(f"{SUBJECT}.{quote['symbol']}", encode_body(quote)) for quote in quotes]
    gc.freeze()
    say(settled=True)
    while await heard():
        first_ns = monotonic_ns()
        for number, (subject, body) in enumerate(islice(cycle(messages), job.count), 1):
            await client.publish(subject, body)
            if not number % TOGETHER:
                await asyncio.sleep(0)
        await client.flush(timeout=int(TIMEOUT_S))
        say(first_ns=first_ns, confirmed_ns=monotonic_ns())


async def main() -> None:
    """Be one client."""
    job = msgspec.json.decode(sys.argv[1], type=Job)
    client = await nats.connect(job.url, name=job.role)
    await {"listen": listen, "publish": publish}[job.role](client, job)
    await client.close()


if __name__ == "__main__":
    uvloop.run(main())
