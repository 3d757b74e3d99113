"""Commands of an operator as a broker process does them, without the way they come."""

import asyncio
from http import HTTPStatus

import msgspec
import pytest

from byway.clock import now_us
from byway.core.broker import Broker
from byway.core.inputs import ClientAttached, ClientRequested
from byway.model import ANY
from byway.model.addresses import Address, Neighbour
from byway.model.messages import AdvertiseRequest, Body, PublishRequest
from byway.runtime.commands import (
    DISCARD,
    FORGET,
    LEAVE,
    RELOAD,
    OperatorCommands,
    Reloaded,
    ReloadRefusedError,
)
from byway.runtime.http_answers import Answer
from byway.runtime.server import BrokerServer
from byway.runtime.settings import BrokerSettings, Limits

ANYWHERE = Address("127.0.0.1", 0)
BODY = msgspec.msgpack.encode(Body({"p": 1}))
HASTY = Limits(drain_ms=50, keepalive_ms=200)


async def eventually(happened) -> None:
    async with asyncio.timeout(10):
        while not happened():
            await asyncio.sleep(0.005)


async def started(id: str, *neighbours: Neighbour) -> BrokerServer:
    settings = BrokerSettings(id=id, listen=ANYWHERE, neighbours=neighbours, limits=HASTY)
    server = BrokerServer(settings)
    await server.start()
    return server


class Operator:
    """Tells one broker."""

    def __init__(self, server: BrokerServer | None) -> None:
        self.ends = 0
        self._table = OperatorCommands(lambda: server, self._end, self._reload).table()

    def _end(self) -> None:
        self.ends += 1

    def _reload(self, traffic_stopped: bool) -> Reloaded:
        if not traffic_stopped:
            raise ReloadRefusedError(["B1 would lose B2", "and gain B3"])
        return Reloaded(broker="B1", taken=["neighbours"])

    async def tell(self, path: str, **facts: object) -> tuple[HTTPStatus, object]:
        answer: Answer = await self._table[path](facts)
        if answer.status is HTTPStatus.OK:
            return answer.status, msgspec.json.decode(answer.body)
        return answer.status, answer.body.decode().rstrip("\n")


def in_loop(test):
    def run():
        asyncio.run(asyncio.wait_for(test(), 30))

    return run


@in_loop
async def test_commands_need_a_broker_that_runs():
    unavailable = HTTPStatus.SERVICE_UNAVAILABLE
    for path in (FORGET, DISCARD, LEAVE):
        assert await Operator(None).tell(path) == (unavailable, "the broker is starting")
    server = await started("B1")
    await server.stop()
    assert await Operator(server).tell(LEAVE) == (unavailable, "the broker stops")


@in_loop
async def test_a_reload_is_done_or_refused():
    server = await started("B1")
    operator = Operator(server)
    assert await operator.tell(RELOAD, traffic_stopped="yes") == (
        HTTPStatus.BAD_REQUEST,
        "expected true or false as 'traffic_stopped', found 'yes'",
    )
    assert await operator.tell(RELOAD, traffic_stopped=False) == (
        HTTPStatus.CONFLICT,
        "not reloaded: B1 would lose B2; and gain B3",
    )
    report = {"broker": "B1", "taken": ["neighbours"], "later": []}
    assert await operator.tell(RELOAD, traffic_stopped=True) == (HTTPStatus.OK, report)
    await server.stop()


@pytest.mark.parametrize(
    ("path", "key"), [(FORGET, "neighbour"), (DISCARD, "which")], ids=["forget", "discard"]
)
@pytest.mark.parametrize("value", [None, 3, ""])
def test_what_is_told_is_checked(path, key, value):
    async def main() -> None:
        server = await started("B1")
        status, reason = await Operator(server).tell(path, **{key: value})
        assert status is HTTPStatus.BAD_REQUEST
        assert reason.startswith(f"expected a text as '{key}', found ")
        await server.stop()

    asyncio.run(main())


@in_loop
async def test_a_leaf_with_work_does_not_leave_and_goes_on():
    hub = await started("hub")
    leaf = await started("leaf", Neighbour(hub.address, "hub"))
    await eventually(lambda: "hub" in leaf.links and leaf.broker.links["hub"].open)
    operator = Operator(leaf)
    leaf.broker.unconfirmed = lambda link: int(link == "hub")  # a publication
    status, reason = await operator.tell(LEAVE)
    assert (status, operator.ends) == (HTTPStatus.CONFLICT, 0)
    assert reason == (
        "1 publications are not confirmed by hub within 0.05 s (limits.drain): nothing has "
        "changed, try again"
    )
    assert not leaf.driver.inbox.draining
    del leaf.broker.unconfirmed
    assert await operator.tell(LEAVE) == (
        HTTPStatus.OK,
        {
            "broker": "leaf",
            "neighbour": "hub",
            "neighbours": ["hub"],
            "silent": [],
            "confirmed": True,
            "clients": 0,
            "sessions": 0,
            "deliveries": 0,
        },
    )
    assert operator.ends == 1
    assert not hub.broker.neighbours
    for server in (hub, leaf):
        await server.stop()


@in_loop
async def test_who_has_no_neighbour_just_ends():
    server = await started("B1")
    operator = Operator(server)
    status, report = await operator.tell(LEAVE)
    assert (status, report["neighbour"], report["confirmed"]) == (HTTPStatus.OK, "", True)
    assert operator.ends == 1
    await server.stop()


@in_loop
async def test_where_nothing_is_set_aside_nothing_is_discarded():
    server = await started("B1")
    operator = Operator(server)
    expected = {"broker": "B1", "discarded": []}
    assert await operator.tell(DISCARD, which="all") == (HTTPStatus.OK, expected)
    expected = HTTPStatus.NOT_FOUND, "4f1c is not set aside"
    assert await operator.tell(DISCARD, which="4f1c") == expected
    await server.stop()


@in_loop
async def test_who_is_forgotten_stays_so_though_a_neighbour_names_it_later():
    hub = await started("hub")
    at_hub = Neighbour(hub.address, "hub")
    east, west = await started("east", at_hub), await started("west", at_hub)
    await eventually(lambda: east.broker.neighbours_of("hub") == ("east", "west"))
    for server in (west, hub):
        await server.kill()
    settings = msgspec.structs.replace(hub.settings, listen=hub.address)
    broker = Broker("hub", ["east", "west"], settings.core, now_us(), restarting=True)
    hub = BrokerServer(settings, broker)
    await hub.start()
    status, _ = await Operator(hub).tell(FORGET, neighbour="west")
    assert status is HTTPStatus.OK
    await eventually(lambda: broker.has_compared_with("east"))  # which has named west
    await eventually(lambda: "west" not in broker.neighbours)
    await eventually(lambda: not broker.missing)
    await eventually(lambda: east.broker.neighbours_of("hub") == ("east",))

    back = await started("west", Neighbour(hub.address, "hub"))
    await eventually(lambda: broker.has_compared_with("west"))  # it is here after all
    assert not hub.neighbour_links.forgotten
    for server in (hub, east, back):
        await server.stop()


@in_loop
async def test_publishers_of_what_is_dropped_are_named_up_to_a_bound():
    server = await started("B1", Neighbour(Address("127.0.0.1", 1), "B2"))
    for number in range(150):  # copies are kept for B2, which has not said what it wants
        name, copies = f"p{number}", 2 if number == 7 else 1
        published = [PublishRequest(sequence, BODY) for sequence in range(1, copies + 1)]
        server.driver.now(ClientAttached(name, 1))
        server.driver.now(ClientRequested(name, (AdvertiseRequest("a", ANY), *published)))
    status, report = await Operator(server).tell(FORGET, neighbour="B2")
    assert (status, report["publications"], report["listed"]) == (HTTPStatus.OK, 151, True)
    assert len(report["by_publisher"]) == 100
    assert next(iter(report["by_publisher"].items())) == ("p7", 2)
    assert "B2" not in server.broker.neighbours
    await server.stop()
