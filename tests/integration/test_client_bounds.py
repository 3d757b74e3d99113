"""What one hostile client can cost a broker: every attack here once froze a broker for seconds or
made it grow without bound. Each is cut to a size that runs in seconds."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator

import pytest

from byway.core.broker_config import BrokerConfig
from byway.core.inputs import ClientRequested, Input
from byway.model import ANY, TRUE, parse
from byway.model.addresses import Address
from byway.model.constraints import NumberRange, NumberSet
from byway.model.filters import Conjunction, Filter
from byway.model.messages import (
    CLIENT_PROTOCOL_VERSION,
    SESSION,
    AdvertiseRequest,
    AnyFrame,
    ClientHello,
    DeliveriesReceived,
    Delivery,
    Goodbye,
    KeepAlive,
    Preamble,
    PublicationsConfirmed,
    PublishRequest,
    Refused,
    Replies,
    Request,
    Requests,
    Settled,
    StatusRequest,
    SubscribeRequest,
    UnsubscribeRequest,
)
from byway.runtime.server import BrokerServer
from byway.runtime.settings import BrokerSettings, Limits
from byway.wire import FRAME_BYTES_MAX, FrameReader, decode, encode, encode_all
from tests.integration.loops import in_loop, until
from tests.integration.network import rss_bytes
from tests.integration.processes import BrokerProcess, Brokers, RawClient, brokers, eventually
from tests.lone_broker import body

pytestmark = pytest.mark.integration

MEBIBYTE = 1_048_576
ANYWHERE = Address("127.0.0.1", 0)
TURN = 1_024


def long_filter(number: int, members: int = 300) -> Filter:
    """64 alternatives, each of which must be compared with each other one, member by member. Made
    by hand: `Filter.of` would compare them here too."""
    made = [
        Conjunction((
            ("a", NumberRange(excluded=tuple(range(1_000, 1_000 + members - at)))),
            ("z", NumberSet((100 * number + at,))),
        ))
        for at in range(64)
    ]  # fmt: skip
    return Filter(tuple(sorted(made, key=lambda c: bytes(encode(Requests((_wanting(c),)))))))


def _wanting(conjunction: Conjunction) -> SubscribeRequest:
    return SubscribeRequest("s", Filter((conjunction,)))


def preamble(name: str) -> Preamble:
    return Preamble(CLIENT_PROTOCOL_VERSION, "client", name, 1, FRAME_BYTES_MAX, 5_000)


# --- in one process: who is served when is seen turn by turn --------------------------------------


class Turns:
    """A journal: what was handed to the broker together, in order."""

    set_aside = None

    def __init__(self) -> None:
        self.taken: list[list[Input]] = []

    def keep(self, at_us: int, inputs: list[Input]) -> None:
        """Keep them here."""
        del at_us
        self.taken.append(inputs)

    def requests(self, client: str) -> list[list[Request]]:
        """By turn, what of a client was handed in."""
        return [
            [r for e in turn if isinstance(e, ClientRequested) and e.client == client
             for r in e.requests]
            for turn in self.taken
        ]  # fmt: skip

    def turn_of(self, client: str, at: int) -> int:
        """The turn in which the first (0) or last (-1) request of a client was handed in."""
        turns = [n for n, requests in enumerate(self.requests(client)) if requests]
        return turns[at]


class Peer:
    """A client over an asyncio stream that sends whatever it likes."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.told: list[object] = []
        self.is_gone = False

    async def connect(self, server: BrokerServer, ttl_us: int = 0) -> Peer:
        assert server.address is not None
        self._reader, self._writer = await asyncio.open_connection(
            server.address.host, server.address.port
        )
        self._reading = asyncio.create_task(self._read())
        self.send(preamble(self.name), ClientHello(ttl_us))
        await until(lambda: self.name in server.clients)
        return self

    async def _read(self) -> None:
        frames = FrameReader(FRAME_BYTES_MAX)
        with contextlib.suppress(ConnectionError):
            while data := await self._reader.read(65_536):
                for payload in frames.feed(data):
                    frame = decode(payload)
                    self.told += frame.replies if isinstance(frame, Replies) else [frame]
        self.is_gone = True

    def send(self, *frames: AnyFrame) -> None:
        for frame in frames:
            self._writer.write(encode(frame))

    def ask(self, *requests: Request) -> None:
        """In frames as long as byway's clients make them."""
        for data in encode_all(Requests(requests)):
            self._writer.write(data)

    async def is_told(self, reply: object) -> None:
        await until(lambda: reply in self.told)

    def leave(self) -> None:
        """Say goodbye for good, and close when everything is sent."""
        self.send(Goodbye("it leaves", for_good=True))
        self._writer.close()

    def close(self) -> None:
        self._reading.cancel()
        self._writer.transport.abort()


class Here:
    """A broker in this process, and peers."""

    def __init__(self, limits: Limits | None = None, core: BrokerConfig | None = None) -> None:
        self.turns = Turns()
        self.settings = BrokerSettings(
            id="B1", listen=ANYWHERE, limits=limits or Limits(), core=core or BrokerConfig()
        )
        self.peers: list[Peer] = []

    async def __aenter__(self) -> Here:
        self.server = BrokerServer(self.settings, None, self.turns)
        await self.server.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        for peer in self.peers:
            peer.close()
        await self.server.kill()

    async def peer(self, name: str, ttl_us: int = 0) -> Peer:
        self.peers.append(await Peer(name).connect(self.server, ttl_us))
        return self.peers[-1]


@in_loop
async def test_long_filters_are_taken_one_by_one_and_others_are_served_between() -> None:
    async with Here() as here:
        hostile, honest = await here.peer("hostile"), await here.peer("honest")
        honest.ask(AdvertiseRequest("a", ANY), SubscribeRequest("s", parse("p = 1")))
        await honest.is_told(Settled("s"))
        count = 40
        filters = [long_filter(n, 100) for n in range(count)]
        hostile.ask(*(SubscribeRequest(f"s{n}", f) for n, f in enumerate(filters)))
        await until(lambda: len(here.server.broker.subscriptions) > 1)
        honest.ask(PublishRequest(1, body(p=1)))
        await honest.is_told(PublicationsConfirmed(1))
        assert sum(isinstance(t, Delivery) for t in honest.told) == 1
        await until(lambda: len(here.server.broker.subscriptions) == count + 1)
        assert max(map(len, here.turns.requests("hostile"))) == 1
        assert here.turns.turn_of("honest", -1) < here.turns.turn_of("hostile", -1)


@in_loop
async def test_a_long_frame_of_many_requests_is_refused_before_it_is_read() -> None:
    async with Here() as here:
        hostile, honest = await here.peer("hostile"), await here.peer("honest")
        hostile.send(Requests(tuple(SubscribeRequest(f"s{n}", long_filter(n)) for n in range(18))))
        await until(lambda: hostile.is_gone)
        (goodbye,) = [t for t in hostile.told if isinstance(t, Goodbye)]
        assert "expected at most 524288" in goodbye.reason
        honest.ask(SubscribeRequest("s", TRUE))
        await honest.is_told(Settled("s"))


@in_loop
async def test_a_frame_of_many_small_requests_is_many_turns() -> None:
    async with Here() as here:
        hostile, honest = await here.peer("hostile"), await here.peer("honest")
        hostile.send(Requests(tuple(map(DeliveriesReceived, range(40_000)))))
        await until(lambda: sum(map(len, here.turns.requests("hostile"))) > 0)
        honest.ask(SubscribeRequest("s", TRUE))
        await honest.is_told(Settled("s"))
        await until(lambda: sum(map(len, here.turns.requests("hostile"))) == 40_000)
        assert max(map(len, here.turns.requests("hostile"))) <= TURN
        assert here.turns.turn_of("honest", 0) < here.turns.turn_of("hostile", -1)


@in_loop
async def test_subscribing_counts_against_the_requests_that_may_wait() -> None:
    limits = Limits(client_requests=200)
    async with Here(limits) as here:
        hostile = await here.peer("hostile")
        connection = here.server.clients["hostile"]
        waiting = [0]
        count = 20_000

        def look() -> None:
            waiting.append(here.server.driver.inbox.requests.waiting_from("hostile")[0])
            if not hostile.is_gone:
                asyncio.get_running_loop().call_soon(look)

        look()
        names = [str(number) for number in range(count)]
        for at in range(0, count, 100):
            hostile.send(Requests(tuple(SubscribeRequest(n, TRUE) for n in names[at : at + 100])))
        for at in range(0, count, 50):
            hostile.send(Requests((UnsubscribeRequest(tuple(names[at : at + 50])),)))
        await until(lambda: len(here.server.broker.subscriptions) > count // 2)
        assert max(waiting) > 0
        assert max(waiting) <= limits.client_requests + 100  # and the frame that passed the bound
        await until(lambda: not len(here.server.broker.subscriptions) and not waiting[-1])
        assert not connection.is_silenced


@in_loop
async def test_what_is_sent_while_nobody_listens_is_taken_later_and_in_order() -> None:
    async with Here(Limits(client_requests=10)) as here:
        peer = await here.peer("c")
        peer.ask(AdvertiseRequest("a", ANY), SubscribeRequest("s", parse("p = 1")))
        await peer.is_told(Settled("s"))
        for sequence in range(1, 3_001):
            peer.send(Requests((PublishRequest(sequence, body(p=1)),)))
        await peer.is_told(PublicationsConfirmed(3_000))
        got = [t.publication.sequence for t in peer.told if isinstance(t, Delivery)]
        assert got == list(range(1, 3_001))


@in_loop
async def test_sessions_beyond_the_bound_are_refused_and_told() -> None:
    async with Here(core=BrokerConfig(sessions_max=20)) as here:
        for number in range(40):
            peer = await here.peer(f"stranger{number}", 86_400_000_000)
            peer.close()
        await until(lambda: not here.server.clients)
        assert len(here.server.broker.sessions) == 20
        late = await here.peer("late", 86_400_000_000)
        await until(lambda: any(isinstance(t, Refused) for t in late.told))
        (refused,) = [t for t in late.told if isinstance(t, Refused)]
        assert refused.subject == SESSION
        assert refused.reason.startswith("20 sessions")


# --- as processes: what is kept is seen as memory -------------------------------------------------


SETTINGS = {
    "limits.keepalive_ms": 500,
    "limits.client_answer_bytes": MEBIBYTE,
    "limits.partial_bytes": 8 * MEBIBYTE,
    "limits.unidentified": 16,
}


@pytest.fixture(scope="module")
def started() -> Iterator[Brokers]:
    with brokers() as found:
        yield found


@pytest.fixture(scope="module")
def broker(started: Brokers) -> Iterator[BrokerProcess]:
    settings = [word for k, v in SETTINGS.items() for word in ("--set", f"{k}={v}")]
    arguments = ("--id", "B1", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
    process = started.start(*arguments, *settings).ready()
    yield process
    assert process.metric("byway_internal_errors_total") == 0, process.log


def connected(broker: BrokerProcess, *frames: AnyFrame) -> socket.socket:
    """A socket over which frames were sent."""
    found = socket.create_connection(("127.0.0.1", broker.port), 10)
    for frame in frames:
        found.sendall(encode(frame))
    return found


def is_served(started: Brokers, broker: BrokerProcess, name: str) -> None:
    """An honest client gets what it asks for."""
    client = started.client(broker, name)
    client.ask(SubscribeRequest("s", TRUE))
    client.is_told(Settled("s"))
    client.close()


def reason_of(peer: socket.socket) -> str:
    """What the broker says last; it has closed the connection."""
    peer.settimeout(10)
    frames, told = FrameReader(FRAME_BYTES_MAX), []
    with contextlib.suppress(ConnectionError):
        while data := peer.recv(65_536):
            told += [decode(payload) for payload in frames.feed(data)]
    return next((t.reason for t in told if isinstance(t, Goodbye)), "")


class Mute(RawClient):
    """It asks and never reads."""

    def __init__(self, broker: BrokerProcess, name: str) -> None:
        super().__init__(broker, name, ttl_us=60_000_000)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
        self.until(lambda: self.attached)
        self.sent_bytes = 0

    def ask_for_ever(self, frame: AnyFrame, most_bytes: int, seconds: float) -> bool:
        """Send the same again and again until so much was sent, or it can send no more; whether
        its broker ended that."""
        data = bytes(encode(frame))
        deadline = time.monotonic() + seconds
        self._socket.setblocking(False)
        rest = b""
        while self.sent_bytes < most_bytes and time.monotonic() < deadline:
            rest = rest or data
            try:
                count = self._socket.send(rest)
            except BlockingIOError:
                time.sleep(0.005)
                continue
            except ConnectionError:
                return True
            rest = rest[count:]
            self.sent_bytes += count
        return False


def test_answers_that_are_not_read_are_bounded(started: Brokers, broker: BrokerProcess) -> None:
    before = rss_bytes(broker)
    mute = Mute(broker, "mute")
    frame = Requests((UnsubscribeRequest(tuple(f"{n:04}" + "x" * 200 for n in range(1_000))),))
    was_ended = mute.ask_for_ever(frame, 60 * MEBIBYTE, 20)
    grown = rss_bytes(broker) - before
    mute.close()
    assert was_ended, broker.log
    assert grown < 30 * MEBIBYTE
    assert mute.sent_bytes < 30 * MEBIBYTE
    broker.logged("client mute is disconnected: ")
    assert broker.metric("byway_sessions", state="away") == 1  # its session is kept
    assert broker.metric("byway_connections_closed_total", bound="answers") >= 1
    is_served(started, broker, "after-mute")


def test_answers_to_who_asks_how_the_broker_is_are_bounded(
    started: Brokers, broker: BrokerProcess
) -> None:
    before = rss_bytes(broker)
    mute = Mute(broker, "nosy")
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:
        mute.ask_for_ever(StatusRequest(), mute.sent_bytes + 200, 0.2)
        time.sleep(0.002)
    assert rss_bytes(broker) - before < 20 * MEBIBYTE
    mute.close()
    is_served(started, broker, "after-nosy")


def test_floods_of_frames_that_ask_for_nothing_cost_no_memory(
    started: Brokers, broker: BrokerProcess
) -> None:
    before = rss_bytes(broker)
    mute = Mute(broker, "lively")
    mute.ask_for_ever(KeepAlive(), 2 * MEBIBYTE, 10)
    mute.close()
    assert rss_bytes(broker) - before < 20 * MEBIBYTE
    is_served(started, broker, "after-lively")


def half_frame(size: int) -> bytes:
    return (FRAME_BYTES_MAX).to_bytes(4, "big") + bytes(size)


class HalfFrame(RawClient):
    """It is accepted, sends half of a large frame, and waits."""

    def __init__(self, broker: BrokerProcess, name: str) -> None:
        super().__init__(broker, name)
        self.until(lambda: self.attached)  # before, a frame of this size is refused
        with contextlib.suppress(ConnectionError):
            self._socket.sendall(half_frame(3 * MEBIBYTE))

    def reason(self) -> str:
        """Why the broker closed its connection."""
        return reason_of(self._socket)


def test_frames_that_are_not_complete_are_bounded(started: Brokers, broker: BrokerProcess) -> None:
    before = rss_bytes(broker)
    peers = [HalfFrame(broker, f"half{number}") for number in range(25)]
    eventually(lambda: broker.metric("byway_connections", role="client") <= 3)
    assert rss_bytes(broker) - before < 40 * MEBIBYTE
    assert "of a frame that is not complete" in peers[0].reason()
    assert broker.metric("byway_connections_closed_total", bound="partial_bytes") >= 1
    is_served(started, broker, "after-halves")
    for peer in peers:
        peer.close()


def test_whoever_has_not_said_who_it_is_sends_short_frames_only(
    started: Brokers, broker: BrokerProcess
) -> None:
    for frames in ((), (preamble("nobody"),)):
        peer = connected(broker, *frames)
        peer.sendall(half_frame(8))
        assert (
            reason_of(peer) == f"bad frame: a frame of {FRAME_BYTES_MAX} bytes: expected 1 to 4096"
        )
        peer.close()
    assert broker.metric("byway_connections_closed_total", bound="frames") >= 2
    is_served(started, broker, "after-nobody")


def test_connections_of_nobody_are_bounded_and_others_still_come_in(
    started: Brokers, broker: BrokerProcess
) -> None:
    silent = [connected(broker) for _ in range(40)]
    is_served(started, broker, "after-silent")
    assert reason_of(silent[0]) == "16 other connections have not said who they are"
    assert broker.metric("byway_connections_closed_total", bound="unidentified") >= 24
    for peer in silent:
        peer.close()
