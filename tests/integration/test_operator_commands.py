"""What waits says for whom, and what an operator can do about it, on live brokers: a leaf that was
stopped for good, one that leaves, and neighbours of brokers that forgot everything."""

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import byway
from tests.integration.loops import until
from tests.integration.network import ANYWHERE, RETRY
from tests.integration.processes import (
    WAIT_S,
    BrokerProcess,
    Brokers,
    brokers,
    environment,
    eventually,
)

pytestmark = pytest.mark.integration

QUICK = ("--set", "limits.report_ms=300", "--set", "limits.drain_ms=3000")
BACK = {"retry": 0.02, "retry_max": 0.2}


def start(started: Brokers, name: str, *others: BrokerProcess, more: tuple[str, ...] = ()):
    """A broker that dials some others, by address alone."""
    dialled = [word for other in others for word in ("--neighbour", other.address)]
    return started.start("--id", name, *ANYWHERE, *RETRY, *QUICK, *more, *dialled).ready()


def topology(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`byway topology`, done."""
    return run("topology", *arguments)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """`byway`, done."""
    return subprocess.run(
        [sys.executable, "-m", "byway", *arguments],
        capture_output=True, text=True, timeout=60, check=False, env=environment(),
    )  # fmt: skip


def command(broker: BrokerProcess, verb: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command to a broker's operations port."""
    return topology(verb, *arguments, "--http", broker.http.removeprefix("http://"))


def connect(broker: BrokerProcess, **options: object) -> byway.Client:
    return byway.connect(f"byway://{broker.address}", **(BACK | options))  # type: ignore[arg-type]


async def settles(broker: BrokerProcess) -> None:
    """What is advertised there settles."""
    async with connect(broker) as client, client.advertise("ANY", timeout=WAIT_S):
        pass


def linked(*pairs: tuple[BrokerProcess, str]) -> None:
    for broker, name in pairs:
        eventually(lambda b=broker, n=name: b.metric("byway_link_up", link=n) == 1)


async def does_not_settle(broker: BrokerProcess, *names: str) -> None:
    """What is advertised there does not settle, and the error names who has not answered."""
    async with connect(broker, name="p") as client, asyncio.timeout(WAIT_S):
        while True:
            with pytest.raises(byway.NotSettledError) as caught:
                await client.advertise("ANY", timeout=0.2)
            if caught.value.brokers == names:  # a broker tells of one only after a while
                break
        words = re.escape(f"): waits for {', '.join(names)}") + "$"
        assert re.search(words, str(caught.value))


def test_a_leaf_that_is_gone_is_named_and_forgotten(tmp_path: Path) -> None:
    with brokers() as started:
        hub = start(started, "hub", more=("--data", str(tmp_path / "hub")))
        far = start(started, "far", hub)
        leaf = start(started, "leaf", hub)
        linked((hub, "far"), (hub, "leaf"))
        asyncio.run(settles(far))

        leaf.signal(signal.SIGTERM)  # it says goodbye, but not for good
        assert leaf.wait() == 0
        asyncio.run(does_not_settle(hub, "leaf"))
        asyncio.run(does_not_settle(far, "leaf"))

        gives_up("pub", '{"n": 1}', far)

        hub.kill()
        hub = started.again(hub).ready()  # it knows the leaf still
        linked((hub, "far"))
        asyncio.run(does_not_settle(hub, "leaf"))
        asyncio.run(does_not_settle(far, "leaf"))
        assert hub.metric("byway_brokers_away") == 1

        unknown = command(hub, "forget", "lea")
        assert (unknown.returncode, unknown.stdout) == (1, "")
        assert unknown.stderr == "lea is not a neighbour of hub: it has far, leaf\n"
        refused = command(hub, "forget", "far")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "far is connected to hub" in refused.stderr

        asyncio.run(pending_publication(hub, far))
        done = command(hub, "forget", "leaf")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines() == [
            "hub has forgotten leaf",
            "dropped: 0 publications that waited for it",
            "dropped: 0 advertisements that came from it",
            "dropped: 0 subscriptions that came from it",
        ]
        asyncio.run(settles(hub))
        asyncio.run(settles(far))
        hub.kill()
        hub = started.again(hub).ready()
        linked((hub, "far"))
        asyncio.run(settles(hub))


async def pending_publication(hub: BrokerProcess, far: BrokerProcess) -> None:
    """The log and `topology show` name who is waited for while a client waits, and say when nobody
    is."""
    async with connect(hub, name="waits") as client:
        await client.advertise("ANY", settled=False)
        await until(lambda: "1 advertisement of clients is not settled: waits for leaf" in hub.log)
        url = f"byway://{hub.address}"
        shown = await asyncio.to_thread(topology, "show", "--broker", url)
        assert "advertisement waits/adv1.1.1 is not settled: waits for leaf" in shown.stdout
        status = await client.broker_status()
        assert status.unsettled == hub.metric("byway_unsettled_entries") == 1
        (entry,) = status.unsettled_entries
        assert (entry.client, entry.kind, entry.brokers) == ("waits", "advertisement", ["leaf"])
        assert status.away == ["leaf"]
        assert {link.broker: link.unreachable for link in status.links} == {
            "far": [],
            "leaf": ["leaf"],
        }
    async with connect(far) as client:
        status = await client.broker_status()
        assert [(link.broker, link.unreachable) for link in status.links] == [("hub", ["leaf"])]
    await until(lambda: "waits for nobody any more" in hub.log)


def gives_up(verb: str, argument: str, broker: BrokerProcess) -> None:
    """A command of a user names who has not answered."""
    done = run(verb, argument, "--broker", f"byway://{broker.address}", "--timeout", "0.5")
    assert (done.returncode, done.stdout) == (1, "")
    hint = "use --wait TIME or --no-wait to publish all the same\n" if verb == "pub" else ""
    assert done.stderr.endswith(f"): waits for leaf\n{hint}")


def test_what_waited_for_a_neighbour_is_reported_when_it_is_forgotten() -> None:
    with brokers() as started:
        leaf = start(started, "leaf")
        hub = start(started, "hub", leaf)
        linked((hub, "leaf"))
        asyncio.run(drops(hub, leaf))


async def drops(hub: BrokerProcess, leaf: BrokerProcess) -> None:
    async with connect(hub, name="p") as publisher, connect(leaf, name="s") as subscriber:
        await publisher.advertise("ANY")
        await subscriber.advertise("ANY")
        await subscriber.subscribe("n > 0", "n < 0")
        leaf.signal(signal.SIGKILL)
        await until(lambda: hub.metric("byway_link_up", link="leaf") == 0)
        receipts = [await publisher.publish({"n": n}) for n in (1, 2, 3)]
        await until(lambda: hub.metric("byway_link_unconfirmed_messages", link="leaf") == 3)
        await asyncio.to_thread(gives_up, "sub", "n > 0", hub)
        done = await asyncio.to_thread(command, hub, "forget", "leaf")
        assert done.stdout.splitlines() == [
            "hub has forgotten leaf",
            "dropped: 3 publications that waited for it",
            "  3 of p",
            "dropped: 1 advertisements that came from it",
            "dropped: 2 subscriptions that came from it",
            "hub still lists leaf as a neighbour: it comes back when it is reached, and is waited "
            "for after the next start",
        ]
        for receipt in receipts:
            await receipt.confirmed()


def test_a_leaf_that_leaves_for_good_is_forgotten_by_itself(tmp_path: Path) -> None:
    with brokers() as started:
        hub = start(started, "hub", more=("--data", str(tmp_path / "hub")))
        far = start(started, "far", hub)
        leaf = start(started, "leaf", hub, more=("--state-dir", str(tmp_path / "leaf")))
        linked((hub, "far"), (hub, "leaf"), (leaf, "hub"))
        assert (tmp_path / "leaf" / "neighbours.json").exists()

        done = command(leaf, "leave")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines() == [
            "leaf has left for good",
            "0 clients were connected; 0 sessions have ended, with 0 deliveries that were not "
            "acknowledged",
            "hub has forgotten it; if hub lists it as a neighbour, take it off the list",
        ]
        assert leaf.wait() == 0
        assert not (tmp_path / "leaf" / "neighbours.json").exists()
        asyncio.run(settles(far))
        asyncio.run(settles(hub))
        hub.kill()
        hub = started.again(hub).ready()
        linked((hub, "far"))
        asyncio.run(settles(hub))
        assert command(hub, "forget", "leaf").returncode == 1  # it is not known any more


def test_who_cannot_tell_its_neighbour_does_not_leave() -> None:
    with brokers() as started:
        hub = start(started, "hub")
        leaf = start(started, "leaf", hub)
        linked((leaf, "hub"), (hub, "leaf"))
        hub.signal(signal.SIGSTOP)  # connected, but it will not answer
        try:
            done = command(leaf, "leave")
        finally:
            hub.signal(signal.SIGCONT)
        assert done.returncode == 1
        assert done.stdout.startswith("leaf has left for good\n")
        assert "hub has not confirmed that it has forgotten leaf" in done.stderr
        assert leaf.wait() == 0

        leaf = started.again(leaf).ready()
        linked((leaf, "hub"))
        hub.kill()
        eventually(lambda: leaf.metric("byway_link_up", link="hub") == 0)
        refused = command(leaf, "leave")
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "hub is not connected and cannot be told" in refused.stderr
        assert "(byway topology forget leaf, there)" in refused.stderr
        assert leaf.get("/readyz") == (200, "ready\n")
        asyncio.run(takes(leaf))


async def takes(broker: BrokerProcess) -> None:
    """It takes publications."""
    async with connect(broker) as client:
        await client.advertise("ANY", settled=False)
        await client.publish({"n": 1}, timeout=WAIT_S)


def test_nothing_is_set_aside() -> None:
    with brokers() as started:
        hub = start(started, "hub")
        done = command(hub, "discard", "--all")
        assert (done.returncode, done.stdout) == (0, "nothing is set aside at hub\n")
        unknown = command(hub, "discard", "4f1c")
        assert (unknown.returncode, unknown.stderr) == (1, "4f1c is not set aside\n")
        for arguments in ((), ("4f1c", "--all")):
            assert command(hub, "discard", *arguments).returncode == 2
        nobody = topology("forget", "x", "--http", "127.0.0.1:1")
        assert nobody.returncode == 1
        assert (
            "the operations port 127.0.0.1:1 cannot be reached: Connection refused" in nobody.stderr
        )


# --- brokers that forgot everything, and know that they were here ------------------------------


def test_two_inner_brokers_that_forgot_lose_nothing(tmp_path: Path) -> None:
    """They are neighbours, no link is listed where it is needed, and nobody is there who could name
    it: only the files do. Who publishes is at one of them."""
    with brokers() as started:
        hub = start(started, "hub", more=("--state-dir", str(tmp_path / "hub")))
        mid = start(started, "mid", hub, more=("--state-dir", str(tmp_path / "mid")))
        far = start(started, "far", mid)
        linked((hub, "mid"), (far, "mid"))
        asyncio.run(asyncio.wait_for(outlive(started, hub, mid, far), 120))


async def outlive(
    started: Brokers, hub: BrokerProcess, mid: BrokerProcess, far: BrokerProcess
) -> None:
    got: list[int] = []
    async with (
        connect(far, name="s", session_ttl=60) as subscriber,
        connect(hub, name="p", session_ttl=60, settle_wait=0.1) as publisher,
        subscriber.subscribe("n >= 0") as subscription,
    ):
        await publisher.advertise("ANY")
        taker = asyncio.create_task(take(subscription, got))
        await publisher.publish_all({"n": n} for n in range(100))
        await publisher.confirmed()
        await until(lambda: len(got) == 100, WAIT_S)

        for broker in (hub, mid):
            broker.signal(signal.SIGKILL)
        for broker in (hub, mid):
            await asyncio.to_thread(broker.kill)
        hub = await asyncio.to_thread(started.again(hub).ready)
        await until(lambda: publisher.is_attached, WAIT_S)
        await publisher.publish_all({"n": n} for n in range(100, 300))
        with pytest.raises(byway.NotConfirmedError):
            await publisher.confirmed(timeout=2.0)
        assert "the broker restarts without its last state: it waits for mid" in hub.log
        await until(lambda: "waits for the tables of mid" in hub.log, WAIT_S)
        status = await publisher.broker_status()
        assert (status.restarting, [m.broker for m in status.missing]) == (True, ["mid"])
        assert [(link.missing, link.unconfirmed) for link in status.links] == [(True, 200)]
        assert hub.metric("byway_sync_missing", link="mid") == 1
        assert hub.metric("byway_sync_restarting") == 1
        url = f"byway://{hub.address}"
        shown = await asyncio.to_thread(topology, "show", "--broker", url)
        assert re.search(r"waits for the tables of mid \(since 20\S+Z, until it", shown.stdout)

        mid = await asyncio.to_thread(started.again(mid).ready)
        await publisher.confirmed()
        await until(lambda: len(got) == 300, WAIT_S)
        assert got == list(range(300))
        await until(lambda: "waits for nobody any more" in hub.log, WAIT_S)
        taker.cancel()


async def take(subscription: byway.Subscription, got: list[int]) -> None:
    while True:
        got.append((await subscription.next()).attributes["n"])  # type: ignore[arg-type]


def test_a_file_of_another_broker_is_refused(tmp_path: Path) -> None:
    with brokers() as started:
        start(started, "one", more=("--state-dir", str(tmp_path)))
        other = started.start("--id", "two", *ANYWHERE, "--state-dir", str(tmp_path))
        assert other.wait() == 1
        words = f"{tmp_path}/neighbours.json: belongs to broker 'one', not to 'two'"
        assert words in other.log


def test_a_link_is_moved_only_when_traffic_has_stopped(tmp_path: Path) -> None:
    """`leaf` is to be a neighbour of `east` in the place of `west`, while a client of `leaf`
    receives what is published at `east`."""
    with brokers() as started:
        west = start(started, "west")
        east = start(started, "east", west)
        file = tmp_path / "leaf.toml"

        def listed(neighbour: BrokerProcess) -> None:
            file.write_text(f'id = "leaf"\nneighbours = ["{neighbour.address}"]\n')

        listed(west)
        leaf = started.start("--config", str(file), *ANYWHERE, *RETRY, *QUICK).ready()
        linked((east, "west"), (leaf, "west"))
        asyncio.run(is_moved(leaf, east, west, listed))


async def is_moved(
    leaf: BrokerProcess,
    east: BrokerProcess,
    west: BrokerProcess,
    listed: Callable[[BrokerProcess], None],
) -> None:
    async with connect(east, name="p") as publisher, connect(leaf, name="s") as subscriber:
        await publisher.advertise("ANY")
        await subscriber.subscribe("n > 0")
        published, stop = 0, asyncio.Event()

        async def publish() -> None:
            nonlocal published
            while not stop.is_set():
                published += 1
                await publisher.publish({"n": published})

        under_way = asyncio.create_task(publish())
        listed(east)
        refused = await asyncio.to_thread(command, leaf, "reload")
        assert (refused.returncode, refused.stdout) == (1, "")
        reason = f"leaf would lose west, which is connected, and gain {east.address}: "
        assert refused.stderr.startswith(f"not reloaded: {reason}")
        leaf.signal(signal.SIGHUP)
        await until(lambda: f"not reloaded: {reason}" in leaf.log)
        assert leaf.metric("byway_link_up", link="west") == 1
        stop.set()
        await under_way
        last = await publisher.publish({"n": published + 1})
        await last.confirmed()
        await until(lambda: subscriber.status.received == published + 1)
        moved = await asyncio.to_thread(command, leaf, "reload", "--traffic-stopped")
        assert (moved.stdout, moved.returncode) == ("leaf has reloaded: neighbours\n", 0)
        await asyncio.to_thread(linked, (leaf, "east"), (east, "leaf"))
    async with connect(east, name="q") as publisher, asyncio.timeout(WAIT_S):
        await publisher.advertise("ANY")
        async with connect(leaf, name="t") as other, other.subscribe("n > 0") as events:
            await (await publisher.publish({"n": 1})).confirmed()
            assert (await anext(events)).attributes == {"n": 1}
    assert west.metric("byway_link_up", link="leaf") == 0
