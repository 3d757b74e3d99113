"""Random trees, clients, operations and faults: whatever happens, nothing is lost, doubled or out
of order, and when all is quiet the tables are those of a fresh network."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import msgspec
import pytest

from byway.core.broker_config import BrokerConfig
from byway.matching.native import KERNELS
from byway.sim.topology.shapes import star
from byway.sim.world import World
from byway.trace import TraceWriter
from tests.lone_broker import twin_of
from tests.sim.world_runs import RandomRun, run_seeds

pytestmark = pytest.mark.sim

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("part", range(4))
def test_fixed_seeds(part):
    assert run_seeds(range(75 * part, 75 * part + 75)) > 1_000


def test_stormy_seeds():
    assert run_seeds(range(2_000, 2_030), storm=True) > 1_000


@pytest.mark.parametrize("part", range(2))
def test_several_brokers_away_at_once(part):
    assert run_seeds(range(3_000 + 40 * part, 3_040 + 40 * part), outages=True) > 500


@pytest.mark.parametrize("part", range(2))
def test_links_that_come_and_go(part):
    seeds = range(4_000 + 30 * part, 4_030 + 30 * part)
    assert run_seeds(seeds, links=True, outages=part == 1) > 500


@pytest.mark.parametrize(
    ("seed", "options"),
    [
        (10_130, {"storm": True}),  # a client that is about to leave registers again before
        (3_007, {"outages": True}),  # a broker that a client moved to delivers of two incarnations
        (6_387, {"links": True, "outages": True}),  # nobody tells an older state who has left
        (8_572, {"links": True}),  # an older state turns a neighbour away as a former one
        (10_213, {}),  # one that wanted to leave while it was away never did
        (1_802_961_743, {"outages": True}),  # a publication is refused to a client that has left
    ],
)
def test_seeds_that_failed_once(seed, options):
    assert run_seeds([seed], **options)


@pytest.mark.parametrize("part", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_snapshot_at_every_input(part):
    """Before every turn a broker is replaced by one that is restored from its snapshot."""
    for seed in range(40 + 6 * part, 46 + 6 * part):
        run = RandomRun(seed, links=True, outages=part == 1, stack=())
        for node in run.world.nodes.values():
            node._work = partial(work_on_twin, node, node._work)
        report = run.run()
        assert report.tables_compared
        assert report.violations == ()


def work_on_twin(node, work, events, read=None):
    if node.broker is not None:
        before, node.broker = node.broker, twin_of(node.broker, node.trace)
        node.broker.take_over(before)
    work(events, read)


def test_calm_seeds():
    assert run_seeds(range(1_000, 1_050), faults=False) > 500


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("part", range(8))
def test_thousands_of_seeds(part):
    assert run_seeds(range(10_000 + 500 * part, 10_500 + 500 * part), storm=part % 2 == 1) > 5_000


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("part", range(4))
def test_thousands_of_outages(part):
    seeds = range(20_000 + 500 * part, 20_500 + 500 * part)
    assert run_seeds(seeds, outages=True, storm=part % 2 == 1) > 5_000


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("part", range(4))
def test_thousands_of_links(part):
    seeds = range(30_000 + 500 * part, 30_500 + 500 * part)
    assert run_seeds(seeds, links=True, outages=part % 2 == 1) > 5_000


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("links", [False, True])
@pytest.mark.parametrize("outages", [False, True])
def test_fresh_seeds(outages, links):
    fresh = int.from_bytes(os.urandom(4), "big")
    print(f"fresh seeds from {fresh}")
    assert run_seeds(range(fresh, fresh + 500), outages=outages, links=links) > 5_000


def test_nothing_grows_with_the_length_of_a_run():
    """Clients come and go, publish and unsubscribe; after each round all is as small as before."""
    world = World(star(4), config=BrokerConfig(covering="active"), sample_us=10_000)
    source = world.client("source", "B2")
    source.advertise("ANY")
    sizes = []
    sinks = [world.client(f"sink{n}", f"B{n}", 20_000 * (n % 2)) for n in range(1, 5)]
    for number in range(60):
        for sink in sinks:
            sink.subscribe("p > 3")
            sink.subscribe("p > 1")
        world.quiet(1_000_000)
        for value in range(20):
            source.publish({"p": value})
        sinks[number % 4].vanish()
        world.run(world.now_us + 30_000)
        sinks[number % 4].come_back()
        source.vanish()
        source.come_back()
        for sink in sinks:
            sink.unsubscribe(*sink.subscriptions)
        world.quiet(1_000_000)
        sizes.append(_size(world))
    most = [
        [max(column) for column in zip(*some, strict=True)] for some in (sizes[:30], sizes[30:])
    ]
    assert all(later <= earlier for earlier, later in zip(*most, strict=True))
    assert world.check().ok
    assert world.metrics().deliveries > 1_000


def _size(world):
    account, clock = world._account, world._clock
    clients = world.clients.values()
    watches = [watch for client in clients for watch in client.watches.values()]
    accounts = [watch.observed for watch in watches]
    return (
        account.unconfirmed,
        len(account._by_key),
        len(account._orphans),
        clock.under_way,
        len(clock.background),
        sum(
            1 + len(latest.earlier or ())
            for one in accounts
            for latest in one.history.latest.values()
        ),
        sum(len(one.subscriptions) for one in accounts),
        sum(len(one.owed) + len(one.under_way) + len(one.unreceived) for one in accounts),
        sum(len(client._unpublished) + client.unconfirmed for client in clients),
        sum(len(one.in_force) + len(one._unwanted) + len(one._admitting) for one in watches),
        sum(len(node.timers) for node in world.nodes.values()),
    )


# --- same seed, same bytes ------------------------------------------------------------------------


def write_traces(directory):
    """Traces and metrics of a few seeds; run in another process by the test below."""
    for seed in range(6):
        with TraceWriter(Path(directory) / str(seed), f"seed {seed}") as writer:
            run = RandomRun(seed, trace=writer)
            report = run.run()
        found = msgspec.json.encode((report, run.world.metrics()))
        (Path(directory) / f"{seed}.json").write_bytes(found)


def without_kernels():
    """From now on brokers of this process look at every filter, as those do that wait for kernels
    to be compiled."""
    KERNELS.are_awaited = True


@pytest.mark.parametrize("before", ["", "without_kernels(); "], ids=["compiled", "waiting"])
def test_the_same_seed_gives_the_same_bytes(tmp_path, before):
    found = []
    for hash_seed, first in (("1", ""), ("4242", before)):
        directory = tmp_path / hash_seed
        directory.mkdir()
        code = f"{first}write_traces(sys.argv[1])"
        subprocess.run(
            [
                sys.executable,
                "-c",
                f"import sys; from tests.sim.test_world_random import *; {code}",
                str(directory),
            ],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": hash_seed},
            check=True,
            timeout=110,
        )
        files = sorted(path for path in directory.rglob("*") if path.is_file())
        found.append({str(path.relative_to(directory)): path.read_bytes() for path in files})
    assert found[0] == found[1]
    assert sum(map(len, found[0].values())) > 20_000
