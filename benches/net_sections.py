"""The figures of the network bench: how fast, how late, how large."""

from __future__ import annotations

import os
import subprocess
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from benches.net_clients import DIFFERENT, workload
from benches.net_flows import Flow, Traffic, in_turn
from benches.net_nats import library_version, nats_traffic, server_version
from benches.net_processes import Net, chain
from benches.net_rabbitmq import WINDOW, headers_rate
from benches.report import Figure, Section, at_least, at_most
from benches.run import Run, index_of, work_of

SUBSCRIPTIONS = 10_000
SYMBOLS = 10_000
FEW_SYMBOLS = 100
PUBLICATIONS = 200_000
ROUNDS = 3
IN_TURN = 5
"""Rounds of each network where several take turns."""
EARLIER = "BENCH_EARLIER"
"""Names a working tree of an earlier commit, whose code is measured beside this one's."""
PACED_RATE = 2_000
PACED_SECONDS = 10
MANY_SUBSCRIPTIONS = 100_000
MEBIBYTE = 1_048_576
STATED = (
    "Every broker and client is a process of its own on this machine, over loopback TCP. One "
    "client owns all the subscriptions, another one subscribes to everything; one publishes."
)
BEST = (
    "Rates are by the clock, processor times by the count of the operating system; each is the "
    "best of its rounds. Other work on the machine lowers rates, and raises processor times a bit."
)


def flow(run: Run, length: int, symbols: int, keeps: bool = False) -> Flow:
    """Publications through a chain: the publisher at its one end, subscribers at the other."""
    with chain(length, keeps) as net:
        return in_turn(
            [network_traffic(run, net, symbols)],
            ROUNDS,
            lambda number: run.step(
                f"{_named(length, keeps)}, {symbols} symbols: round {number} of {ROUNDS}"
            ),
        )[0]


def network_traffic(run: Run, net: Net, symbols: int) -> Traffic:
    """The clients of a chain: at its one end a publisher, at the other subscribers."""
    count = run.scaled(PUBLICATIONS)
    owner = net.client("own", -1, symbols, run.scaled(SUBSCRIPTIONS))
    subscriber = net.client("listen", -1, symbols, count)
    publisher = net.client("publish", 0, symbols, count)
    return Traffic(publisher, subscriber, net.brokers, [owner], count)


def _named(length: int, keeps: bool) -> str:
    kind = "one broker" if length == 1 else f"a chain of {length}"
    return f"{kind} with --data" if keeps else kind


@cache
def matches_each(symbols: int, subscriptions: int) -> float:
    """Subscriptions of the owner that a publication matches, on average."""
    filters = workload(symbols).take_filters(subscriptions)
    return work_of(index_of(filters), workload(symbols).take_publications(DIFFERENT)).matches_each


def throughput(run: Run) -> Section:
    """End to end, one broker and three, with and without storage."""
    one = flow(run, 1, SYMBOLS)
    kept = flow(run, 1, SYMBOLS, keeps=True)
    three = flow(run, 3, SYMBOLS)
    three_kept = flow(run, 3, SYMBOLS, keeps=True)
    few = flow(run, 1, FEW_SYMBOLS)
    subscriptions = run.scaled(SUBSCRIPTIONS)
    unit = "publications/s"
    figures = [
        Figure("one broker", one.rate, unit, at_least(40_000)),
        Figure("one broker, --data", kept.rate, unit),
        Figure("chain of three", three.rate, unit, at_least(20_000)),
        Figure("chain of three, --data", three_kept.rate, unit),
        Figure(f"one broker, {FEW_SYMBOLS} symbols", few.rate, unit),
        Figure("one broker: its processor time", one.broker_us, "µs/publication"),
        Figure("one broker, --data: its processor time", kept.broker_us, "µs/publication"),
        Figure("chain: processor time of the busiest", three.broker_us, "µs/publication"),
        Figure("publisher's processor time", one.publisher_us, "µs/publication"),
        Figure("subscriber's processor time", one.subscriber_us, "µs/publication"),
    ]
    return Section(
        "throughput",
        "publications through broker processes, end to end",
        {
            "subscriptions": subscriptions,
            "symbols": SYMBOLS,
            "matches per publication": matches_each(SYMBOLS, subscriptions) + 1,
            f"with {FEW_SYMBOLS} symbols": matches_each(FEW_SYMBOLS, subscriptions) + 1,
            "publications": run.scaled(PUBLICATIONS),
            "window": 4_096,
        },
        figures,
        [STATED, "Rates are by the clock, the best round; other work on the machine slows them."],
    )


def latency(run: Run) -> Section:
    """From `publish` to the application that takes the event, at a moderate rate."""
    count = run.scaled(PACED_RATE * PACED_SECONDS)
    figures = []
    for length, keeps in ((1, False), (1, True), (3, False)):
        run.step(_named(length, keeps))
        p50, p99, p999 = _paced(run, length, keeps, count)
        name = _named(length, keeps)
        target = at_most(5.0) if (length, keeps) == (1, False) else None
        figures += [
            Figure(f"{name}: p99", p99, "ms", target),
            Figure(f"{name}: median", p50, "ms"),
            Figure(f"{name}: p99.9", p999, "ms"),
        ]
    return Section(
        "latency",
        f"from publish to the subscriber's application, at {PACED_RATE:,} publications/s",
        {"subscriptions": run.scaled(SUBSCRIPTIONS), "symbols": SYMBOLS, "publications": count},
        figures,
        [STATED, "By the clock, the round with the lowest p99: other work on the machine adds."],
    )


def _paced(run: Run, length: int, keeps: bool, count: int) -> list[float]:
    with chain(length, keeps) as net:
        net.client("own", -1, SYMBOLS, run.scaled(SUBSCRIPTIONS))
        subscriber = net.client("listen", -1, SYMBOLS, count, PACED_RATE)
        publisher = net.client("publish", 0, SYMBOLS, count, PACED_RATE)
        rounds: list[list[float]] = []
        for _ in range(ROUNDS):
            subscriber.tell()
            publisher.tell()
            rounds.append(subscriber.facts()["latencies_ms"])
            publisher.facts()
    return min(rounds, key=lambda shares: shares[1])


def memory(run: Run) -> Section:
    """A broker with many subscriptions."""
    count = run.scaled(MANY_SUBSCRIPTIONS)
    figures = []
    for keeps in (False, True):
        run.step(_named(1, keeps))
        with chain(1, keeps) as net:
            empty = net.brokers[0].rss_bytes
            seconds = net.client("own", 0, SYMBOLS, count).ready["settled_s"]
            full = net.brokers[0].rss_bytes
        name = _named(1, keeps)
        target = None if keeps else at_most(400)
        figures += [
            Figure(f"{name}: memory", full / MEBIBYTE, "MiB", target),
            Figure(f"{name}: memory when empty", empty / MEBIBYTE, "MiB"),
            Figure(f"{name}: a subscription", (full - empty) / count, "bytes"),
            Figure(f"{name}: until all are settled", seconds, "s"),
        ]
    return Section(
        "memory",
        "resident memory of a broker process",
        {"subscriptions": count, "symbols": SYMBOLS},
        figures,
        ["One client owns the subscriptions."],
    )


def rabbitmq(run: Run) -> Section:
    """The same number of bindings at RabbitMQ's headers exchange, in the same run."""
    bindings = run.scaled(SUBSCRIPTIONS)
    found = headers_rate(run, workload(SYMBOLS), bindings)
    sizes = {"bindings": bindings, "symbols": SYMBOLS}
    title = "next to RabbitMQ's headers exchange"
    if isinstance(found, str):
        return Section("rabbitmq", title, sizes, [], [found])
    ours = flow(run, 1, SYMBOLS)
    figures = [
        Figure(
            "one broker", ours.rate, "publications/s",
            baselines={"RabbitMQ": found.rate}, more_is_better=True,
        ),
        Figure("times the rate of RabbitMQ", ours.rate / found.rate, "", at_least(500)),
    ]  # fmt: skip
    return Section(
        "rabbitmq",
        title,
        sizes,
        figures,
        [
            f"RabbitMQ {found.version}: {found.publications} publications of the same quotes as "
            f"headers, transient, {WINDOW} at a time until they were in the queue of everything.",
            "Its bindings are of class and symbol, each of another symbol: it has no ranges.",
        ],
    )


def earlier(run: Run) -> Section:
    """The code of an earlier commit, in turn with this one's."""
    title = "next to the code of an earlier commit, in turn"
    sizes = {
        "subscriptions": run.scaled(SUBSCRIPTIONS),
        "symbols": SYMBOLS,
        "publications a round": run.scaled(PUBLICATIONS),
        "rounds of each": IN_TURN,
    }
    if EARLIER not in os.environ:
        return Section("earlier", title, sizes, [], [
            f"{EARLIER} names no working tree of an earlier commit, so there is no comparison."
        ])  # fmt: skip
    tree = Path(os.environ[EARLIER]).absolute()
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=tree,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    figures = []
    for length, least in ((1, 1.25), (3, 1.2)):
        named = _named(length, False)
        ours, theirs = _compared(run, length, tree)
        figures += [
            Figure(
                named, ours.rate, "publications/s", baselines={commit: theirs.rate},
                more_is_better=True,
            ),
            Figure(f"{named}: times the rate", ours.rate / theirs.rate, "", at_least(least)),
            Figure(
                f"{named}: processor time of all", ours.total_us, "µs/publication", None,
                {commit: theirs.total_us},
            ),
            Figure(
                f"{named}: of the busiest broker", ours.broker_us, "µs/publication", None,
                {commit: theirs.broker_us},
            ),
            Figure(
                f"{named}: of the publisher", ours.publisher_us, "µs/publication", None,
                {commit: theirs.publisher_us},
            ),
            Figure(
                f"{named}: of the subscriber", ours.subscriber_us, "µs/publication", None,
                {commit: theirs.subscriber_us},
            ),
        ]  # fmt: skip
    return Section("earlier", title, sizes, figures, [STATED, BEST])


def _compared(run: Run, length: int, tree: Path) -> list[Flow]:
    """What this code and another one carried."""
    with ExitStack() as stack:
        traffics = [
            network_traffic(run, stack.enter_context(chain(length, False, at)), SYMBOLS)
            for at in (None, tree)
        ]
        return in_turn(
            traffics,
            IN_TURN,
            lambda number: run.step(f"{_named(length, False)}: round {number} of {IN_TURN}"),
        )


def nats(run: Run) -> Section:
    """The same bodies through NATS, in turn with ours."""
    title = "next to NATS, in turn"
    count = run.scaled(PUBLICATIONS)
    sizes = {
        "subscriptions, byway": run.scaled(SUBSCRIPTIONS),
        "subscriptions, NATS": 1,
        "symbols": SYMBOLS,
        "publications a round": count,
        "rounds of each": IN_TURN,
    }
    with chain(1) as net, nats_traffic(SYMBOLS, count) as theirs:
        if isinstance(theirs, str):
            return Section("nats", title, sizes, [], [theirs])
        ours, other = in_turn(
            [network_traffic(run, net, SYMBOLS), theirs],
            IN_TURN,
            lambda number: run.step(f"round {number} of {IN_TURN}"),
        )
    unit = "µs/publication"
    figures = [
        Figure(
            "one broker", ours.rate, "publications/s", at_least(other.rate),
            {"NATS": other.rate}, more_is_better=True,
        ),
        Figure("processor time of all", ours.total_us, unit, None, {"NATS": other.total_us}),
        Figure("of the broker", ours.broker_us, unit, None, {"NATS": other.broker_us}),
        Figure("of the publisher", ours.publisher_us, unit, None, {"NATS": other.publisher_us}),
        Figure("of the subscriber", ours.subscriber_us, unit, None, {"NATS": other.subscriber_us}),
    ]  # fmt: skip
    return Section("nats", title, sizes, figures, [
        STATED,
        f"nats-server {server_version()} and nats-py {library_version()}, with uvloop as here: the "
        "same bodies, encoded beforehand, each under the subject of its symbol; one subscriber "
        "takes all. It filters nothing by content, and confirms and numbers nothing.",
        BEST,
    ])  # fmt: skip


SECTIONS = {
    "throughput": throughput,
    "earlier": earlier,
    "nats": nats,
    "latency": latency,
    "memory": memory,
    "rabbitmq": rabbitmq,
}
