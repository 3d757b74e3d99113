"""The simulator: how fast a network of 120 brokers runs on one core, checkers on."""

from __future__ import annotations

import gc
import resource
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benches.report import Figure, Section, at_least, at_most
from benches.run import Run
from benches.timing import seconds
from byway.sim.huge_pages import use_huge_pages
from byway.sim.scenario import Scenario, scenario_of
from byway.sim.scenario.build import build, plan_of
from byway.sim.world import World
from byway.trace import TraceWriter

TITLE = "a network of 120 brokers, simulated with all checkers on"
BROKERS = 120
SUBSCRIPTIONS = 10_000
COVERED = 80_000
SLICES = 4
BURST = 20


def measure(run: Run) -> Section:
    """Publication hops with and without a trace, subscription hops with covering, memory."""
    growth, publications = _memory(run)  # before larger worlds: a peak would hide growth below it
    plain, hops = _publications(run, BURST, None)
    after, _ = _publications(run, BURST, None)
    single, _ = _publications(run, 1, None)
    with TemporaryDirectory() as directory:
        traced, _ = _publications(run, BURST, Path(directory))
    subscribing, subscription_hops = _subscriptions(run)
    figures = [
        Figure(
            "publication hops", plain, "hops/s", at_least(50_000), {"one by one": single},
            more_is_better=True,
        ),
        Figure(
            "publication hops, after other work", after, "hops/s", at_least(50_000),
            {"before it": plain}, more_is_better=True,
        ),
        Figure(
            "publication hops, trace to Parquet", traced, "hops/s", at_least(25_000),
            more_is_better=True,
        ),
        Figure(
            "subscription hops, active", subscribing, "hops/s", at_least(5_000),
            more_is_better=True,
        ),
        Figure("memory grown over the long run", growth, "MiB", at_most(16)),
    ]  # fmt: skip
    sizes = {
        "brokers": BROKERS,
        "subscriptions": run.scaled(SUBSCRIPTIONS),
        "publication hops": hops,
        "subscriptions, active": run.scaled(COVERED),
        "subscription hops": subscription_hops,
        "publications of the long run": publications,
    }
    return Section("simulation", TITLE, sizes, figures, [
        f"publications of 100 tickers, {BURST} at the same time; the best of several slices",
        "one by one: publications come alone, so nearly every frame carries one",
        "after other work: a second world in the same process; the first one was freed",
        "memory is in huge pages where the system has them, as in a run of half a minute or more",
        "memory: the largest resident size after half of the long run, and at its end",
    ])  # fmt: skip


def _scenario(
    subscriptions: int, rate: int, covering: str, burst: int = 1, **workload: Any
) -> Scenario:
    return scenario_of({
        "name": "bench",
        "duration_s": 1_000,
        "warmup_s": 10,
        "topology": {"kind": "random-tree", "brokers": BROKERS, "degree_max": 4},
        "network": {"latency_ms": 2},
        "brokers": {"covering": covering},
        "workload": {
            "kind": "stocks",
            "subscriptions": subscriptions,
            "subscribers": min(subscriptions, 1_000),
            "subscribe_for_s": 5,
            "publishers": 100,
            "advertise": "symbols",
            "rate_per_s": rate,
            "burst": burst,
            **workload,
        },
    })  # fmt: skip


def _world(scenario: Scenario, trace: TraceWriter | None = None) -> World:
    world, _ = build(plan_of(scenario, 1), trace)
    return world


def publishing_world(run: Run, burst: int, trace: TraceWriter | None = None) -> World:
    """A network with all subscriptions, in which publishers begin after ten seconds."""
    return _world(_scenario(run.scaled(SUBSCRIPTIONS), 1_000, "none", burst), trace)


def total_copies(world: World) -> int:
    """Publications that brokers have sent to their neighbours."""
    return sum(n.broker.counters.copies for n in world.nodes.values() if n.broker is not None)


def _publications(run: Run, burst: int, directory: Path | None) -> tuple[float, int]:
    """Publication hops per second in the best slice, and how many there were in all."""
    what = "publishing" if directory is None else "publishing with a trace"
    run.step(f"{what}: subscribing first")
    gc.collect()  # the world before this one: it has cycles, and the collector is off in benches
    trace = None if directory is None else TraceWriter(directory, "bench")
    world = publishing_world(run, burst, trace)
    world.run(10_000_000)
    use_huge_pages()
    best = 0.0
    for number in range(SLICES):
        run.step(f"{what}: slice {number + 1} of {SLICES}")
        before, until = total_copies(world), 11_000_000 + 1_000_000 * number
        spent = seconds(lambda until=until: world.run(until))  # type: ignore[misc]
        best = max(best, (total_copies(world) - before) / spent)
    if trace is not None:
        trace.close()
    return best, total_copies(world)


def _subscriptions(run: Run) -> tuple[float, int]:
    """(Subscription, broker) pairs per second while 80,000 subscriptions come in."""
    count = run.scaled(COVERED)
    run.step(f"subscribing {count:,} with active covering")
    world = _world(
        _scenario(
            count, 1, "active", kind="covering", advertise="any", publishers=10,
            parameters={"count": count, "degree": 30}, subscribe_for_s=9,
        )
    )  # fmt: skip
    spent = seconds(lambda: world.run(10_000_000))
    hops = count + sum(
        sum(n.broker.counters.subscriptions_sent.values())
        for n in world.nodes.values()
        if n.broker is not None
    )
    return hops / spent, hops


def _memory(run: Run) -> tuple[float, int]:
    """How much the largest resident size grew in the second half of a long run, in MiB."""
    rate, length_s = 200, run.scaled(300)
    world = _world(_scenario(run.scaled(2_000), rate, "none"))
    world.run(10_000_000)
    sizes = []
    for half in (1, 2):
        run.step(f"a long run: half {half}")
        world.run(10_000_000 + half * length_s * 500_000)
        sizes.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return sizes[1] - sizes[0], rate * length_s
