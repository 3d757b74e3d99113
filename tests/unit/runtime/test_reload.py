"""Neighbours come and go while a broker runs, and are who they should be."""

import asyncio

import msgspec

from byway.core.broker import Broker
from byway.model.addresses import Address, Neighbour
from byway.model.messages import PROTOCOL_VERSION, Preamble
from byway.runtime.server import BrokerServer
from byway.runtime.settings import BrokerSettings, Limits
from byway.wire import FRAME_BYTES_MAX, encode

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
