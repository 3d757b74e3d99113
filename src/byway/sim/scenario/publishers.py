"""Publishers: the clients of a workload that advertise first and publish after the warm-up.

It decides when each publication is published, and by which publisher.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import msgspec

from byway.model.messages import Body
from byway.model.tree_shapes import numbered_names
from byway.model.values import Value
from byway.sim.scenario.random_streams import Purpose, poisson_times_us, regular_times_us
from byway.sim.scenario.run_context import DrawnRun, RunContext
from byway.sim.scenario.schema import Workload
from byway.sim.scenario.value_types import microseconds
from byway.sim.scenario.workload_source import advertisements
from byway.workload import Feeds, Generator, StockQuotes


def start_publishers(context: RunContext, workload: Workload, generator: Generator) -> None:
    """Add the publishers, let them advertise, and schedule the first publication."""
    clients = context.clients(
        "p", workload.publishers, "workload.publishers_at", workload.publishers_at,
        Purpose.PUBLISHERS, workload.session_ttl_s, apart=isinstance(generator, Feeds),
    )  # fmt: skip
    for client, filter in zip(clients, advertisements(workload, generator), strict=True):
        client.advertise(filter, "a")
    publications, senders = _publications(generator), _senders(context, workload, generator)
    encode = msgspec.msgpack.Encoder().encode
    payload = bytes(workload.payload_bytes)

    def publish() -> None:
        for _ in range(workload.burst):
            attributes = next(publications)
            clients[next(senders)].publish_body(encode(Body(attributes, payload)), attributes)

    context.follow(_times_us(context, workload), publish)


def workload_requests_us(
    context: DrawnRun, workload: Workload, generator: Generator
) -> dict[str, list[int]]:
    """By publisher, the times at which it publishes."""
    names = numbered_names("p", workload.publishers)
    times_us: dict[str, list[int]] = {name: [] for name in names}
    senders = _senders(context, workload, generator)
    for time_us in _times_us(context, workload):
        for _ in range(workload.burst):
            times_us[names[next(senders)]].append(time_us)
    return times_us


def _times_us(context: DrawnRun, workload: Workload) -> Iterator[int]:
    rate_per_s = workload.rate_per_s or 0.0
    if workload.rate_per_publisher_per_s is not None:
        rate_per_s = workload.rate_per_publisher_per_s * workload.publishers
    rate_per_s /= workload.burst
    from_us, to_us = microseconds(context.scenario.warmup_s), context.end_us
    if workload.publish_for_s is not None:
        to_us = min(to_us, from_us + microseconds(workload.publish_for_s))
    if not workload.publishers:
        return iter(())
    if workload.arrivals == "regular":
        return regular_times_us(rate_per_s, from_us, to_us)
    return poisson_times_us(rate_per_s, from_us, to_us, context.rng(Purpose.ARRIVALS))


def _publications(generator: Generator) -> Iterator[dict[str, Value]]:
    for chunk in count():
        yield from generator.publications(chunk).publications()


def _senders(context: DrawnRun, workload: Workload, generator: Generator) -> Iterator[int]:
    """For each row the number of its publisher: the one of its feed or symbol, the next in turn, or
    any."""
    publishers = workload.publishers
    if isinstance(generator, Feeds):
        for chunk in count():
            yield from generator.feed_numbers(chunk).tolist()
    elif workload.advertise == "symbols":
        assert isinstance(generator, StockQuotes)
        for row in count():
            yield row % generator.symbols % publishers
    elif workload.arrivals == "regular":
        for row in count():
            yield row % publishers
    else:
        rng = context.rng(Purpose.SENDERS)
        while True:
            yield from rng.integers(publishers, size=1_024).tolist()
