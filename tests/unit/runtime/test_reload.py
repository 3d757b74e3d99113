"""Neighbours come and go while a broker runs, and are who they should be."""

import asyncio

import msgspec
import pytest

import byway
from byway.core.actions import Timer
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import TimerFired
from byway.model.addresses import Address, Neighbour
from byway.model.messages import PROTOCOL_VERSION, Preamble
from byway.runtime.commands import ReloadRefusedError
from byway.runtime.reloading import check_move
from byway.runtime.server import BrokerServer
from byway.runtime.settings import BrokerSettings, Limits
from byway.wire import FRAME_BYTES_MAX, encode
from tests.sim.rewiring import Rewiring

ANYWHERE = Address("127.0.0.1", 0)


async def eventually(happened) -> None:
    async with asyncio.timeout(10):
        while not happened():
            await asyncio.sleep(0.005)


async def started(id: str, *neighbours: Neighbour) -> BrokerServer:
    server = BrokerServer(BrokerSettings(id=id, listen=ANYWHERE, neighbours=neighbours))
    await server.start()
    return server


def relisted(server: BrokerServer, *neighbours: Neighbour) -> None:
    server.reload(msgspec.structs.replace(server.settings, neighbours=neighbours))


def linked(one: BrokerServer, other: BrokerServer) -> bool:
    ids = one.settings.id, other.settings.id
    links = one.broker.link(ids[1]), other.broker.link(ids[0])
    return all(link is not None and link.up for link in links)


def test_neighbours_are_added_and_parted_with():
    async def main() -> None:
        hub, west, east = [await started(id) for id in ("hub", "west", "east")]
        named, unnamed = Neighbour(west.address, "west"), Neighbour(east.address)
        relisted(hub, named, unnamed)
        await eventually(lambda: linked(hub, west) and linked(hub, east))
        before = hub.links["west"]
        relisted(hub, Neighbour(Address("nowhere", 1), "west"), unnamed)
        assert hub.links["west"] is before  # it moves; the link is the same
        relisted(hub, unnamed)
        await eventually(lambda: not west.broker.neighbours)
        assert list(hub.broker.neighbours) == list(hub.links) == ["east"]
        relisted(hub)
        await eventually(lambda: not east.broker.neighbours)
        assert not hub.broker.neighbours
        for server in (hub, west, east):
            await server.stop()

    asyncio.run(main())


def refusal(server: BrokerServer, *neighbours: Neighbour, stopped: bool = False) -> str:
    """Why new neighbours are not taken over; empty if they may be."""
    settings = msgspec.structs.replace(server.settings, neighbours=neighbours)
    try:
        check_move(server, settings, stopped)
    except ReloadRefusedError as error:
        return str(error)
    return ""


def test_a_part_of_the_network_is_not_moved_under_traffic():
    async def main() -> None:
        leaf, west, east = [await started(id) for id in ("leaf", "west", "east")]
        to_west, to_east = Neighbour(west.address, "west"), Neighbour(east.address, "east")
        at_west = Neighbour(west.address)
        relisted(leaf, to_west)
        await eventually(lambda: linked(leaf, west))
        assert refusal(leaf, to_east) == (
            f"leaf would lose west, which is connected, and gain {to_east}: moving a part of the "
            "network loses publications under way. Stop all publishers, then reload with: byway "
            "topology reload --traffic-stopped"
        )
        assert "would lose west" in refusal(leaf, Neighbour(east.address))
        assert refusal(leaf, to_east, stopped=True) == ""
        for same in ((to_west, to_east), (at_west, to_east), (at_west,), ()):
            assert (
                refusal(leaf, *same) == ""
            )  # it gains one, writes it in another way, or loses one
        await east.stop()
        relisted(leaf, to_west, to_east)  # it lists a broker that is not connected
        assert "would lose west" in refusal(leaf, to_east)
        await west.stop()
        await eventually(lambda: not leaf.links)
        assert refusal(leaf, to_east) == ""  # a broker that is gone is replaced
        await leaf.stop()

    asyncio.run(main())


def test_a_link_outside_the_tree_makes_no_neighbour_for_a_reload():
    async def main() -> None:
        west, east = [await started(id) for id in ("west", "east")]
        to_west, to_east = Neighbour(west.address, "west"), Neighbour(east.address, "east")
        core = BrokerConfig(behaviours=(Rewiring.name,))
        leaf = BrokerServer(
            BrokerSettings(id="leaf", listen=ANYWHERE, neighbours=(to_west,), core=core)
        )
        await leaf.start()
        leaf.driver.control(TimerFired(Timer(Rewiring.name, f"open soft east {east.address}")))
        await eventually(lambda: linked(leaf, west) and linked(leaf, east))
        assert leaf.broker.neighbours == ("west",)
        assert "would lose west" in refusal(leaf, to_east)  # and gain east, though it is connected
        assert refusal(leaf, to_west, to_east) == ""
        relisted(leaf, to_west, to_east)
        await eventually(lambda: east.broker.neighbours == ("leaf",) and linked(leaf, east))
        assert leaf.broker.neighbours == ("east", "west")
        relisted(leaf, to_west)
        await eventually(lambda: not east.broker.neighbours)
        for server in (leaf, west, east):
            await server.stop()

    asyncio.run(main())


@pytest.mark.parametrize("is_named", [True, False])
def test_a_former_neighbour_comes_back_when_it_is_listed_anew(is_named):
    async def main() -> None:
        west = await started("west")
        to_west = Neighbour(west.address, "west" if is_named else "")
        core = BrokerConfig(behaviours=(Rewiring.name,))
        limits = Limits(retry_ms=10, refused_ms_max=20)
        settings = BrokerSettings(id="leaf", listen=ANYWHERE, core=core, limits=limits)
        leaf = BrokerServer(msgspec.structs.replace(settings, neighbours=(to_west,)))
        await leaf.start()
        await eventually(lambda: linked(leaf, west))
        leaf.driver.control(TimerFired(Timer(Rewiring.name, "part west")))
        await eventually(lambda: not leaf.broker.links and not west.broker.links)
        relisted(leaf, to_west)  # nothing has changed
        attempts = west.driver.turns
        await asyncio.sleep(0.2)  # ten times as long as until the next attempt
        assert (leaf.broker.links, west.driver.turns) == ({}, attempts)
        relisted(leaf)
        relisted(leaf, to_west)
        await eventually(lambda: linked(leaf, west))
        assert not leaf.broker.former
        assert not west.broker.former
        for server in (leaf, west):
            await server.stop()

    asyncio.run(main())


def test_traffic_that_has_not_stopped_is_seen():
    async def main() -> None:
        hub, west, east = [await started(id) for id in ("hub", "west", "east")]
        relisted(hub, Neighbour(west.address, "west"))
        await eventually(lambda: linked(hub, west))
        async with byway.connect(f"byway://{west.address}", session_ttl=60) as subscriber:
            await subscriber.subscribe("n > 0", settled=False)
            async with byway.connect(f"byway://{hub.address}") as publisher:
                await publisher.advertise("ANY")
                await eventually(lambda: len(hub.broker.subscriptions) == 1)
                west.driver.draining = True  # it does not handle publications
                await publisher.publish({"n": 1})
                to_east = Neighbour(east.address, "east")
                await eventually(lambda: hub.broker.unconfirmed("west") == 1)
                reason = refusal(hub, to_east, stopped=True)
                assert reason == "publications are still under way: 1 are not confirmed by west"
                west.undrain()
                await eventually(lambda: not refusal(hub, to_east, stopped=True))
        for server in (hub, west, east):
            await server.stop()

    asyncio.run(main())


def test_limits_are_taken_over():
    async def main() -> None:
        server = await started("B1")
        new = msgspec.structs.replace(server.settings, limits=Limits(clients=3))
        server.reload(new)
        assert server.settings.limits.clients == 3
        await server.stop()

    asyncio.run(main())


def test_another_broker_at_a_neighbours_address_is_refused(caplog):
    async def main() -> None:
        other = await started("other")
        server = await started("B1", Neighbour(other.address, "B2"))
        await eventually(lambda: "is other, not B2" in caplog.text)
        assert not server.links
        for one in (server, other):
            await one.stop()

    asyncio.run(main())


def test_a_newcomer_that_has_compared_tables_is_waited_for_though_its_link_breaks():
    """It may hold something that this broker told before it forgot; a stranger that said nothing is
    not waited for."""

    async def main() -> None:
        hub = await started("hub")
        address = Neighbour(hub.address, "hub")
        settings = BrokerSettings(id="leaf", listen=ANYWHERE, neighbours=(address,))
        broker = Broker("leaf", ["hub", "away"], settings.core, 7, restarting=True)
        leaf = BrokerServer(settings, broker)  # it cannot tell everything while one is away
        await leaf.start()
        await eventually(lambda: hub.broker.has_compared_with("leaf"))
        assert not hub.broker.links["leaf"].open
        await leaf.kill()
        await eventually(lambda: not hub.links)
        assert list(hub.broker.missing) == ["leaf"]

        reader, writer = await asyncio.open_connection(hub.address.host, hub.address.port)
        writer.write(encode(Preamble(PROTOCOL_VERSION, "broker", "x", 1, FRAME_BYTES_MAX, 5_000)))
        await reader.readexactly(1)  # the hub has greeted it
        writer.close()
        await eventually(lambda: not hub.links)
        assert list(hub.broker.neighbours) == ["leaf"]
        await hub.stop()

    asyncio.run(main())
