"""A whole network in one process: its shapes, its brokers' lives, and its end."""

import asyncio
import itertools
import threading
from pathlib import Path

import pytest

import byway
from byway import LocalOverlay, TopologyError
from byway.local.overlay import tree_of
from byway.model.trace_schema import TraceEvent
from byway.runtime.tracing import DRAIN_S
from byway.sim.topology.shapes import balanced_tree
from byway.trace import read_trace
from tests.integration.loops import in_loop, until


@pytest.mark.parametrize(
    ("topology", "tree"),
    [
        ("chain:1", {"B1": []}),
        ("chain:3", {"B1": ["B2"], "B2": ["B1", "B3"], "B3": ["B2"]}),
        ("star:3", {"B1": ["B2", "B3"], "B2": ["B1"], "B3": ["B1"]}),
        ("tree:4", {"B1": ["B2", "B3"], "B2": ["B1", "B4"], "B3": ["B1"], "B4": ["B2"]}),
        ([("A", "B"), ("C", "B")], {"A": ["B"], "B": ["A", "C"], "C": ["B"]}),
        ({"A": ["B"], "B": ["A"]}, {"A": ["B"], "B": ["A"]}),
        ({"A": []}, {"A": []}),
    ],
)
def test_a_shape_is_a_tree(topology, tree) -> None:
    assert tree_of(topology) == tree


def test_shapes_have_the_names_of_the_simulator() -> None:
    simulated = balanced_tree(12, fan_out=2)
    assert tree_of(simulated) == tree_of("tree:12")
    assert next(iter(tree_of("tree:12"))) == "B01"


@pytest.mark.parametrize(
    ("topology", "says"),
    [
        ("ring:3", "expected one of chain, star, tree and a number from 1 to 256"),
        ("chain", "expected one of"),
        ("chain:0", "expected one of"),
        ("chain:1000", "expected one of"),
        ([], "expected 1 to 256"),
        ([("A", "A")], "is linked to itself"),
        ([("A", "B"), ("C", "D")], "broker C: is not linked to the others"),
        ([("A", "B"), ("B", "C"), ("C", "A")], "make a cycle"),
    ],
)
def test_what_is_no_tree_is_refused(topology, says) -> None:
    with pytest.raises(TopologyError, match=says):
        LocalOverlay(topology)


@pytest.mark.integration
@in_loop
async def test_every_broker_reaches_every_other() -> None:
    async with LocalOverlay("tree:7") as net:
        clients = {name: await net.connect(name, name=f"at-{name}") for name in net.brokers}
        subscriptions = {}
        for name, client in clients.items():
            await client.advertise("ANY")
            subscriptions[name] = await client.subscribe("TRUE")
        for client in clients.values():
            await client.publish({"from": client.name})
        for subscription in subscriptions.values():
            events = [await subscription.next(10) for _ in clients]
            assert sorted(event.publisher for event in events) == sorted(
                client.name for client in clients.values()
            )
        for client in clients.values():
            await client.close()
        brokers = [server.broker for server in net.brokers.values()]
        await until(lambda: not any(len(b.subscriptions) + len(b.advertisements) for b in brokers))


@pytest.mark.integration
@in_loop
async def test_brokers_die_and_come_back_at_their_address() -> None:
    async with LocalOverlay("star:4") as net:
        urls = {name: net.url(name) for name in net.neighbours}
        for name, keeps_state in itertools.product(("B1", "B3"), (True, False)):
            await net.kill(name)
            assert name not in net.brokers
            with pytest.raises(byway.ConnectError):
                await byway.connect(urls[name])
            await net.restart(name, keeps_state=keeps_state)
            await net.linked()
            assert net.url(name) == urls[name]
            async with net.connect(name) as client:
                assert client.status.broker == name


@pytest.mark.integration
@in_loop
async def test_it_leaves_nothing_behind() -> None:
    before = asyncio.all_tasks()
    async with LocalOverlay("chain:2") as net:
        url = net.url("B2")
        client = await net.connect("B2", reconnect=False)
    await until(lambda: client.status.state == "closed")
    await client.close()
    assert net.brokers == {}
    await until(lambda: asyncio.all_tasks() == before)
    with pytest.raises(byway.ConnectError):
        await byway.connect(url)
    with pytest.raises(TopologyError, match="there is none"):
        net.url("B9")


@in_loop
async def test_rows_that_wait_for_the_disk_are_written_when_a_broker_ends(tmp_path: Path) -> None:
    disk_is_free = threading.Event()
    async with LocalOverlay("chain:2", trace=str(tmp_path)) as net:
        tracer = net._tracers["B1"]
        tracer._thread.submit(disk_is_free.wait)
        async with net.connect("B1") as publisher:
            await publisher.advertise("ANY")
            await publisher.publish_all({"p": number} for number in range(3))
        await until(lambda: tracer._thread._work_queue.qsize() > 0)  # rows wait for the disk
        threading.Timer(3 * DRAIN_S, disk_is_free.set).start()
    published = [
        row for row in read_trace(tmp_path).to_pylist() if row["event"] == TraceEvent.PUBLISHED
    ]
    assert [row["sequence"] for row in published] == [1, 2, 3]


@in_loop
async def test_it_writes_traces(tmp_path: Path) -> None:
    """All of a run, also what brokers wrote before they were killed."""
    overlay = LocalOverlay("chain:3", trace=str(tmp_path), run="traced")
    async with overlay as net, net.connect("B1") as publisher, net.connect("B3") as subscriber:
        await publisher.advertise("ANY")
        subscription = await subscriber.subscribe("n >= 0")
        await publisher.publish({"n": 1})
        await subscription.next(timeout=10)
        await net.kill("B2")
        await net.restart("B2", keeps_state=True)
        await publisher.publish({"n": 2})
        await subscription.next(timeout=10)
    rows = read_trace(tmp_path).to_pylist()
    assert {row["run"] for row in rows} == {"traced"}
    received = [row for row in rows if row["event"] == TraceEvent.RECEIVED]
    assert sorted((row["broker"], row["sequence"]) for row in received) == [
        ("B2", 1), ("B2", 2), ("B3", 1), ("B3", 2),
    ]  # fmt: skip
