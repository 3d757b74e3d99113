"""Who is served when, over TCP: neighbours with a backlog, goodbyes, and who comes in the place of
whom."""

from __future__ import annotations

import asyncio

import pytest

from byway.core.broker_config import BrokerConfig
from byway.core.inputs import ClientDetached, FrameReceived, LoadSampled
from byway.model import ANY, TRUE
from byway.model.messages import (
    PROTOCOL_VERSION,
    AdvertiseRequest,
    AnyFrame,
    Attached,
    Batch,
    ClientHello,
    Delivery,
    Hello,
    HoldDeliveries,
    Lane,
    Preamble,
    PublicationsConfirmed,
    PublishRequest,
    Requests,
    Settled,
    SubscribeRequest,
    UnsubscribeRequest,
)
from byway.runtime.server import BrokerServer
from byway.runtime.settings import Limits
from byway.wire import FRAME_BYTES_MAX, encode
from tests.integration.loops import in_loop, until
from tests.integration.test_client_bounds import Here, Peer, preamble
from tests.lone_broker import NAMES, NOTHING, TOLD, body, publication

pytestmark = pytest.mark.integration


class Neighbour:
    """A broker over an asyncio stream that sends whatever it likes, and reads nothing."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def connect(self, server: BrokerServer) -> Neighbour:
        assert server.address is not None
        _, self._writer = await asyncio.open_connection(server.address.host, server.address.port)
        self.send(
            Preamble(PROTOCOL_VERSION, "broker", self.name, 1, FRAME_BYTES_MAX, 5_000),
            Hello(self.name, 1, 0, 0, 0, 0),
            Batch(Lane.CONTROL, 1, (NOTHING, NAMES)),
            Batch(Lane.CONTROL, 3, TOLD),
        )
        await until(lambda: self.name in server.links and server.links[self.name].was_up)
        return self

    def send(self, *frames: AnyFrame) -> None:
        self._writer.write(b"".join(bytes(encode(frame)) for frame in frames))

    def publish(self, first: int, count: int) -> None:
        """Send a frame of publications of its own client."""
        numbers = range(first, first + count)
        messages = tuple(publication(n, publisher=self.name, p=n) for n in numbers)
        self.send(Batch(Lane.DATA, first, messages))

    def close(self) -> None:
        self._writer.transport.abort()


@in_loop
async def test_a_neighbour_with_a_backlog_does_not_starve_another() -> None:
    async with Here() as here:
        busy, other = await Neighbour("A").connect(here.server), Neighbour("C")
        await other.connect(here.server)
        frames, size = 400, 64
        for number in range(frames):
            busy.publish(1 + number * size, size)
        await until(lambda: bool(data_turns(here, "A")))
        other.publish(1, 1)
        await until(lambda: sum(map(len, data_turns(here, "A").values())) == frames)
        await until(lambda: bool(data_turns(here, "C")))
        assert max(data_turns(here, "C")) < max(data_turns(here, "A"))
        busy.close()
        other.close()


def data_turns(here: Here, link: str) -> dict[int, list[FrameReceived]]:
    """By turn, the data frames of a neighbour that were handed to the broker."""
    found: dict[int, list[FrameReceived]] = {}
    for number, turn in enumerate(here.turns.taken):
        for event in turn:
            if isinstance(event, FrameReceived) and event.link == link:
                frame = event.frame
                if isinstance(frame, Batch) and frame.lane is Lane.DATA:
                    found.setdefault(number, []).append(event)
    return found


async def publisher(here: Here, name: str = "publisher") -> Peer:
    peer = await here.peer(name)
    peer.ask(AdvertiseRequest("a", ANY))
    await peer.is_told(Settled("a"))
    return peer


async def subscriber(here: Here, name: str = "subscriber") -> Peer:
    peer = await here.peer(name)
    peer.ask(SubscribeRequest("s", TRUE))
    await peer.is_told(Settled("s"))
    return peer


def got(peer: Peer) -> list[int]:
    return [told.publication.sequence for told in peer.told if isinstance(told, Delivery)]


@in_loop
async def test_a_goodbye_for_good_ends_a_session_after_the_requests_before_it() -> None:
    async with Here() as here:
        sink, source = await subscriber(here), await publisher(here)
        count = 8_000
        requests = [PublishRequest(n, body(p=n)) for n in range(1, count + 1)]
        for at in range(0, count, 500):
            source.send(Requests(tuple(requests[at : at + 500])))
        source.leave()
        await until(lambda: here.server.broker.session("publisher") is None)
        assert sum(map(len, here.turns.requests("publisher"))) == count + 1
        assert here.turns.taken[-1][-1] == ClientDetached("publisher", for_good=True)
        await until(lambda: len(got(sink)) == count)
        assert got(sink) == list(range(1, count + 1))


@in_loop
async def test_who_comes_back_at_once_begins_anew_after_what_was_sent_before() -> None:
    async with Here() as here:
        sink, source = await subscriber(here), await publisher(here)
        count = 8_000
        requests = tuple(PublishRequest(n, body(p=n)) for n in range(1, count + 1))
        source.send(Requests(requests))
        source.leave()
        await until(lambda: "publisher" not in here.server.clients)
        again = await publisher(here)
        again.ask(PublishRequest(1, body(p=0)))
        await again.is_told(PublicationsConfirmed(1))
        assert [told for told in again.told if isinstance(told, Attached)] == [Attached(False, 0)]
        await until(lambda: len(got(sink)) == count + 1)
        assert got(sink) == [*range(1, count + 1), 1]


@in_loop
async def test_publications_do_not_wait_for_a_slow_client_that_was_replaced() -> None:
    limits = Limits(slow_client="block", client_queue_messages=10)
    async with Here(limits, BrokerConfig(session_messages_max=1_000)) as here:
        slow, source = await subscriber(here), await publisher(here)
        slow.send(HoldDeliveries(hold=True))
        source.ask(*(PublishRequest(n, body(p=n)) for n in range(1, 21)))
        await until(lambda: here.server.clients["subscriber"].waiting_messages == 20)
        source.ask(PublishRequest(21, body(p=21)))
        first = here.server.clients["subscriber"]
        again = await Peer("subscriber").connect(here.server)
        await until(lambda: here.server.clients["subscriber"] is not first)
        await source.is_told(PublicationsConfirmed(21))
        again.close()


@in_loop
async def test_a_client_that_was_closed_while_it_did_not_read_is_heard_when_it_is_back() -> None:
    async with Here(Limits(client_answer_bytes=1_048_576)) as here:
        server = here.server
        assert server.address is not None
        reader, writer = await asyncio.open_connection(server.address.host, server.address.port)
        writer.write(bytes(encode(preamble("mute"))) + bytes(encode(ClientHello(0))))
        await until(lambda: "mute" in server.clients)
        names = tuple(f"{n:0>250}" for n in range(1_000))
        asking = bytes(encode(Requests((UnsubscribeRequest(names),))))
        while "mute" not in server.driver.inbox.deaf:  # nobody reads the refusals
            writer.write(asking)
            await asyncio.sleep(0.001)
        server.close_client("mute", "a request of it cannot be handled")
        assert "mute" not in server.driver.inbox.deaf
        writer.transport.abort()
        del reader
        again = await here.peer("mute")
        again.ask(SubscribeRequest("s", TRUE))
        await again.is_told(Settled("s"))


# --- load samples ---------------------------------------------------------------------------------


def samples(here: Here) -> list[LoadSampled]:
    return [e for turn in here.turns.taken for e in turn if isinstance(e, LoadSampled)]


@in_loop
async def test_loads_are_sampled_at_an_interval_of_their_own() -> None:
    core = BrokerConfig(load_interval_us=1_000_000, load_sample_us=10_000)
    async with Here(Limits(keepalive_ms=60_000), core) as here:
        await until(lambda: len(samples(here)) >= 3)
        assert set(samples(here)) == {LoadSampled(0)}


@in_loop
async def test_a_broker_that_does_not_go_by_loads_is_told_none() -> None:
    for core in (
        BrokerConfig(load_sample_us=1_000),
        BrokerConfig(load_interval_us=1_000_000, load_sample_us=0),
    ):
        async with Here(core=core) as here:
            peer = await here.peer("c")
            for number in range(50):  # in as many iterations of the event loop
                peer.ask(SubscribeRequest(f"s{number}", TRUE))
                await peer.is_told(Settled(f"s{number}"))
            assert samples(here) == []
