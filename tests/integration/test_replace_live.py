"""An inner broker dies for good, and another process takes its place: publications that waited
arrive, what nobody wants is reported, and the dead broker is refused when it comes back."""

import asyncio
import json
import re
import signal
import subprocess
from pathlib import Path

import pytest

import byway
from byway.runtime.command_client import send_replace
from tests.integration.loops import until
from tests.integration.network import ANYWHERE
from tests.integration.processes import WAIT_S, BrokerProcess, Brokers, brokers, eventually
from tests.integration.test_operator_commands import connect, linked, start, take, topology

pytestmark = pytest.mark.integration

STOP = ("--set", "limits.keepalive_ms=300")
MESH = tuple(
    word
    for option in ("delta=3", "interval=200ms", "gain_min=1", "bypass_after=300ms")
    for word in ("--set", f"mesh.{option}")
)
"""Brokers that soon open soft links past others."""


def replace(
    old: str, by: str, *at: BrokerProcess, more: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    ports = [word for one in at for word in ("--http", one.http.removeprefix("http://"))]
    return topology("replace", old, "--by", by, *ports, *more)


async def replaced(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(replace, *arguments, **options)  # type: ignore[arg-type]


def chain(
    started: Brokers, data: Path, more: tuple[str, ...] = STOP
) -> tuple[BrokerProcess, BrokerProcess, BrokerProcess]:
    """west – mid – east; the ends keep their state, so does the middle."""
    west = start(started, "west", more=("--data", str(data / "west"), *more))
    east = start(started, "east", more=("--data", str(data / "east"), *more))
    mid = start(started, "mid", west, east, more=("--data", str(data / "mid"), *more))
    linked((west, "mid"), (east, "mid"), (mid, "west"), (mid, "east"))
    return west, mid, east


def test_what_waited_for_a_dead_broker_arrives_through_its_successor(tmp_path: Path) -> None:
    with brokers() as started:
        west, mid, east = chain(started, tmp_path)
        asyncio.run(asyncio.wait_for(outlive(started, west, mid, east), 120))


async def outlive(
    started: Brokers, west: BrokerProcess, mid: BrokerProcess, east: BrokerProcess
) -> None:
    spare = await asyncio.to_thread(start, started, "spare", more=STOP)
    got: list[int] = []
    moved: list[int] = []
    both = [f"byway://{mid.address}", f"byway://{spare.address}"]
    async with (
        connect(east, name="s", session_ttl=60) as subscriber,
        connect(west, name="p", session_ttl=60) as publisher,
        byway.connect(both, name="m", retry=0.02, retry_max=0.2) as mover,
        connect(mid, name="gone") as gone,
        subscriber.subscribe("n >= 0") as subscription,
        mover.subscribe("n >= 0 AND for = 'm'") as events,
    ):
        await gone.subscribe("n < 0")
        await publisher.advertise("ANY")
        takers = [
            asyncio.create_task(take(subscription, got)),
            asyncio.create_task(take(events, moved)),
        ]
        await publisher.publish_all({"n": n, "for": "m"} for n in range(50))
        await publisher.confirmed()
        await until(lambda: len(got) == len(moved) == 50)

        await asyncio.to_thread(mid.kill)
        await until(lambda: west.metric("byway_link_up", link="mid") == 0)
        await until(lambda: spare.metric("byway_connections", role="client") == 1)
        await publisher.publish_all({"n": n, "for": "m"} for n in range(50, 100))
        await publisher.publish_all({"n": n, "for": "m"} for n in (-1, -2))
        await publisher.publish_all({"n": n, "for": "m"} for n in (100, 101))
        with pytest.raises(byway.NotConfirmedError):
            await publisher.confirmed(timeout=0.5)

        by = f"spare@{spare.address}"
        done = await replaced("mid", by, west)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [
            "west: spare takes the place of mid, once it is linked with all neighbours of mid",
            "  54 messages wait",
            "east: if not done yet, run there",
            f"  byway topology replace mid --by {by}",
        ]
        assert west.metric("byway_succession_waiting", neighbour="mid", successor="spare") == 1
        await until(lambda: west.metric("byway_link_up", link="spare") == 1)
        await until(lambda: spare.metric("byway_sync_missing", link="east") == 1)
        assert (len(got), len(moved)) == (50, 50)

        west.signal(signal.SIGKILL)  # it has its state when it is back
        await asyncio.to_thread(west.kill)
        west = await asyncio.to_thread(started.again(west).ready)
        done = await replaced("mid", by, west, east, more=("--wait", "15s"))
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [
            "west: spare has taken the place of mid: lost 2 publications (p 101 to 102)",
            "east: spare has taken the place of mid: nothing was lost",
        ]
        await publisher.confirmed()
        await until(lambda: len(got) == len(moved) == 102)
        assert got == moved == [*range(102)]
        await until(lambda: "lost 2 publications (p 101 to 102)" in west.log)
        labels = {"neighbour": "mid", "successor": "spare"}
        assert west.metric("byway_succession_lost_publications", **labels) == 2
        assert west.metric("byway_succession_waiting", **labels) == 0
        shown = await asyncio.to_thread(topology, "show", "--broker", f"byway://{west.address}")
        assert "spare has taken the place of mid: lost 2 publications" in shown.stdout
        status = await publisher.broker_status()
        (succession,) = status.successions
        assert (succession.successor, succession.lost) == ("spare", 2)

        mid = await asyncio.to_thread(started.again(mid).ready)  # with all its state
        await until(lambda: "spare has taken the place of mid for good" in mid.log, WAIT_S)
        assert west.metric("byway_link_up", link="spare") == 1
        other = await replaced("mid", "another", west)
        assert (other.returncode, other.stdout) == (1, "")
        assert "spare has taken the place of mid at west already" in other.stderr
        await publisher.publish_all({"n": n, "for": "m"} for n in range(102, 120))
        await publisher.confirmed()
        await until(lambda: got == moved == [*range(120)])
        for taker in takers:
            taker.cancel()


def test_a_replaced_broker_that_is_back_publishes_past_nobody(tmp_path: Path) -> None:
    """Its neighbours refuse it. It takes that for their death, and dials a broker behind them, to
    go round; that one knows that it is nobody's neighbour."""
    with brokers() as started:
        west, mid, east = chain(started, tmp_path, (*STOP, *MESH))
        far = start(started, "far", west, more=(*STOP, *MESH))
        linked((far, "west"), (west, "far"))
        asyncio.run(asyncio.wait_for(is_back(started, far, west, mid, east), 120))


async def is_back(
    started: Brokers,
    far: BrokerProcess,
    west: BrokerProcess,
    mid: BrokerProcess,
    east: BrokerProcess,
) -> None:
    got: list[int] = []
    async with (
        connect(far, name="s") as subscriber,
        connect(mid, name="p", session_ttl=60) as publisher,
        subscriber.subscribe("n >= 0") as subscription,
    ):
        await publisher.advertise("ANY")
        taker = asyncio.create_task(take(subscription, got))
        await publisher.publish({"n": 0})
        await publisher.confirmed()
        await asyncio.to_thread(mid.kill)
        spare = await asyncio.to_thread(start, started, "spare", more=(*STOP, *MESH))
        by = f"spare@{spare.address}"
        done = await replaced("mid", by, west, east, more=("--wait", "15s"))
        assert done.returncode == 0, done.stderr
        mid = await asyncio.to_thread(started.again(mid).ready)
        await until(lambda: "publications go round it" in mid.log, WAIT_S)
        await publisher.publish_all({"n": n} for n in range(1, 6))
        await until(lambda: "soft link to mid is up" in far.log, WAIT_S)
        await until(lambda: mid.metric("byway_link_parked_messages", link="west") == 5)
        with pytest.raises(byway.NotConfirmedError):
            await publisher.confirmed(timeout=1.0)
        assert got == [0]
        taker.cancel()


def test_who_cannot_be_replaced_and_by_whom(tmp_path: Path) -> None:
    with brokers() as started:
        west, mid, east = chain(started, tmp_path)
        for old, by, words in (
            ("mid", "x", "mid is connected to west: stop it first, and for good"),
            ("none", "x", "none is not a neighbour of west"),
            ("mid", "@h:1", "expected the id of a broker, or id@host:port, found '@h:1'"),
            ("mid", "x@nowhere:99999", "is no address"),
        ):
            refused = replace(old, by, west)
            assert (refused.returncode, refused.stdout) == (1, ""), refused
            assert words in refused.stderr
        mid.kill()
        taken = started.start("--id", "taken", *ANYWHERE, *STOP).ready()
        leaf = start(started, "leaf", taken)
        linked((taken, "leaf"), (leaf, "taken"))
        done = replace("mid", f"taken@{taken.address}", west, east, more=("--wait", "0.5s"))
        assert done.returncode == 1
        assert re.search("taken has not told west, east what it wants", done.stderr)
        links = json.loads(
            topology("show", "--json", "--broker", f"byway://{taken.address}").stdout
        )
        assert [link["broker"] for link in links["links"]] == ["leaf"]  # who refuses notes nothing
        west.logged("taken cannot take the place of mid, for it has other neighbours (leaf)")
        nobody = topology("replace", "mid", "--by", "x", "--http", "127.0.0.1:1")
        assert nobody.returncode == 1
        assert "the operations port 127.0.0.1:1 cannot be reached" in nobody.stderr


def outdated(started: Brokers, data: Path) -> tuple[BrokerProcess, BrokerProcess, BrokerProcess]:
    """west – mid – east, of which west has not heard of east: it was away until mid was dead; and
    a spare. All but mid keep their state."""
    west = start(started, "west", more=("--data", str(data / "west"), *STOP))
    mid = start(started, "mid", west, more=STOP)
    linked((west, "mid"), (mid, "west"))
    west.kill()
    east = start(started, "east", mid, more=("--data", str(data / "east"), *STOP))
    linked((east, "mid"), (mid, "east"))
    mid.kill()
    west = started.again(west).ready()
    return west, east, start(started, "spare", more=("--data", str(data / "spare"), *STOP))


def test_neighbours_that_are_told_by_one_command_name_each_other(tmp_path: Path) -> None:
    with brokers() as started:
        west, east, spare = outdated(started, tmp_path)
        east.signal(signal.SIGSTOP)  # told by hand, as the command tells it: it cannot be linked
        port = west.http.removeprefix("http://")
        send_replace(port, "mid", f"spare@{spare.address}", 10, ["west", "east"])
        eventually(lambda: spare.metric("byway_sync_missing", link="east") == 1)
        east.signal(signal.SIGCONT)
        done = replace("mid", f"spare@{spare.address}", west, east, more=("--wait", "15s"))
        assert done.returncode == 0, done.stderr
        for name in ("west", "east"):
            assert f"{name}: spare has taken the place of mid: nothing was lost" in done.stdout
        assert "was not waited for" not in spare.log


def test_a_neighbour_that_nobody_has_named_is_linked_late(tmp_path: Path) -> None:
    with brokers() as started:
        west, east, spare = outdated(started, tmp_path)
        for one in (west, east):
            done = replace("mid", f"spare@{spare.address}", one, more=("--wait", "15s"))
            assert done.returncode == 0, done.stderr
        spare.logged("east was a neighbour of mid too, and was not waited for: what was confirmed")


def test_a_broker_that_is_no_neighbour_is_told_by_mistake(tmp_path: Path) -> None:
    with brokers() as started:
        west, _, spare = outdated(started, tmp_path)
        other = start(started, "other")
        done = replace("mid", f"spare@{spare.address}", west, other)
        assert done.returncode == 1
        assert done.stderr.splitlines() == [
            f"{other.http.removeprefix('http://')}: mid is not a neighbour of other",
            "the others take other for one of them: if it was no neighbour of mid, have spare "
            "forget it, once that waits for it",
        ]
        eventually(lambda: spare.metric("byway_sync_missing", link="other") == 1)


@pytest.mark.parametrize("mesh", [(), MESH], ids=["", "past soft links"])
def test_a_broker_between_two_neighbours_leaves_under_traffic(
    mesh: tuple[str, ...], tmp_path: Path
) -> None:
    with brokers() as started:
        west, mid, east = chain(started, tmp_path, (*STOP, *mesh))
        third = start(started, "third", mid)
        linked((mid, "third"), (third, "mid"))
        refused = topology("leave", "--http", mid.http.removeprefix("http://"))
        assert (refused.returncode, refused.stdout) == (1, "")
        words = "mid has 3 neighbours (east, third, west), which would lose each other: to link"
        assert words in refused.stderr
        left = topology("leave", "--http", third.http.removeprefix("http://"))
        assert left.returncode == 0, left.stderr
        asyncio.run(asyncio.wait_for(leaves(west, mid, east, has_mesh=bool(mesh)), 120))


async def leaves(
    west: BrokerProcess, mid: BrokerProcess, east: BrokerProcess, *, has_mesh: bool
) -> None:
    got: list[int] = []
    async with (
        connect(east, name="s", session_ttl=60) as subscriber,
        connect(west, name="p", session_ttl=60) as publisher,
        connect(mid, name="m") as here,
        subscriber.subscribe("n >= 0") as subscription,
    ):
        await publisher.advertise("ANY")
        await here.advertise("ANY")
        taker = asyncio.create_task(take(subscription, got))
        published = 0

        async def publish() -> None:
            nonlocal published
            while True:
                await publisher.publish({"n": published})
                published += 1
                await asyncio.sleep(0)

        traffic = asyncio.create_task(publish())
        await until(lambda: len(got) > 200)
        if has_mesh:
            await until(lambda: "soft link to west is up" in east.log)
        port = mid.http.removeprefix("http://")
        left = await asyncio.to_thread(topology, "leave", "--http", port)
        assert left.returncode == 0, left.stderr
        assert left.stdout.splitlines()[0] == "mid has left for good"
        last = "west and east hold from each other what they held from mid, and link; if one lists"
        assert last.replace("west and east", "east and west") in left.stdout
        assert await asyncio.to_thread(mid.wait) == 0
        before = published
        await until(lambda: published > before + 200)
        traffic.cancel()
        await publisher.confirmed()
        await until(lambda: len(got) >= published)
        assert got == [*range(len(got))]
        assert east.metric("byway_link_up", link="west") == 1
        taker.cancel()
