"""Commands of an operator as a broker process does them, without the way they come."""

import asyncio
from http import HTTPStatus

import msgspec
import pytest

from byway.clock import now_us
from byway.core.broker import Broker
from byway.model.addresses import Address, Neighbour
from byway.model.messages import Publish
from byway.runtime.commands import DISCARD, FORGET, LEAVE, OperatorCommands
from byway.runtime.operations import Answer
from byway.runtime.server import BrokerServer
from byway.runtime.settings import BrokerSettings, Limits

ANYWHERE = Address("127.0.0.1", 0)
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
        self._table = OperatorCommands(lambda: server, self._end).table()

    def _end(self) -> None:
        self.ends += 1

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
    await eventually(lambda: "hub" in leaf.links and leaf.broker.context.ends["hub"].open)
    operator = Operator(leaf)
    work = leaf.broker.context.unconfirmed["hub"]
    work.append(object())  # a publication that hub does not confirm
    status, reason = await operator.tell(LEAVE)
    assert (status, operator.ends) == (HTTPStatus.CONFLICT, 0)
    assert reason == (
        "1 publications are not confirmed by hub within 0.05 s (limits.drain_ms): nothing has "
        "changed, try again"
    )
    assert not leaf.driver.draining
    work.clear()
    assert await operator.tell(LEAVE) == (
        HTTPStatus.OK,
        {
            "broker": "leaf",
            "neighbour": "hub",
            "confirmed": True,
            "clients": 0,
            "sessions": 0,
            "deliveries": 0,
        },
    )
    assert operator.ends == 1
    assert not hub.broker.context.ends
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
    known = east.broker.agreement.neighbours_of
    await eventually(lambda: known.get("hub") == ("east", "west"))
    for server in (west, hub):
        await server.kill()
    settings = msgspec.structs.replace(hub.settings, listen=hub.address)
    broker = Broker("hub", ["east", "west"], settings.core, now_us(), restarting=True)
    hub = BrokerServer(settings, broker)
    await hub.start()
    status, _ = await Operator(hub).tell(FORGET, neighbour="west")
    assert status is HTTPStatus.OK
    await eventually(lambda: "east" in broker.agreement.met)  # which has named west
    await eventually(lambda: "west" not in broker.context.ends)
    await eventually(lambda: not broker.agreement.missing)
    await eventually(lambda: known["hub"] == ("east",))

    back = await started("west", Neighbour(hub.address, "hub"))
    await eventually(lambda: "west" in broker.agreement.met)  # it is here after all
    assert not hub.neighbour_links.forgotten
    for server in (hub, east, back):
        await server.stop()


@in_loop
async def test_publishers_of_what_is_dropped_are_named_up_to_a_bound():
    server = await started("B1", Neighbour(Address("127.0.0.1", 1), "B2"))
    end = server.broker.context.ends["B2"]
    for number in range(150):
        copies = 2 if number == 7 else 1
        end.sent[1].kept.extend(
            Publish(f"p{number}", 1, sequence, 0, 0, 0, 0, b"") for sequence in range(copies)
        )
    status, report = await Operator(server).tell(FORGET, neighbour="B2")
    assert (status, report["publications"], report["listed"]) == (HTTPStatus.OK, 151, True)
    assert len(report["by_publisher"]) == 100
    assert next(iter(report["by_publisher"].items())) == ("p7", 2)
    assert "B2" not in server.broker.context.ends
    await server.stop()
