"""Clients of one broker process: too slow, too many, cut off all at once, or hostile. What one
client does costs that client, not the others and not the broker."""

import asyncio
import contextlib
import random
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest

import byway
from byway.model import parse
from byway.model.messages import (
    CLIENT_PROTOCOL_VERSION,
    PROTOCOL_VERSION,
    Batch,
    Body,
    ClientHello,
    Hello,
    KeepAlive,
    Lane,
    Preamble,
    PublishRequest,
    Requests,
    Settled,
    SubscribeRequest,
)
from byway.wire import FRAME_BYTES_MAX, encode
from tests.integration.loops import in_loop, until
from tests.integration.network import SESSION, rss_bytes
from tests.integration.processes import BrokerProcess, Brokers, RawClient, brokers, eventually

pytestmark = pytest.mark.integration

MEBIBYTE = 1_048_576
QUEUE_MESSAGES = 200
"""What may wait for a client that does not read."""
DATA = bytes(4_096)
FLOOD = 6_000
"""Publications of that size: far more than sockets and queues hold."""
AHEAD = QUEUE_MESSAGES // 2
"""How many publications may be ahead of the subscriber that keeps up: fewer than make it slow."""


class OneBroker:
    """A broker that many tests use, and the file with its settings."""

    def __init__(self, started: Brokers, file: Path) -> None:
        self.started = started
        self._file = file
        self._write("disconnect")
        self.process = started.start("--config", str(file)).ready()
        self.url = f"byway://{self.process.address}"

    def _write(self, slow_client: str) -> None:
        self._file.write_text(
            'id = "B1"\nlisten = "127.0.0.1:0"\nhttp = "127.0.0.1:0"\n[limits]\n'
            f"client_queue_messages = {QUEUE_MESSAGES}\nslow_client = '{slow_client}'\n"
            "keepalive_ms = 2000\n"
        )

    def treats_slow_clients_so(self, policy: str) -> None:
        """Change the setting while it runs."""
        before = self.process.log.count("reloaded: ")
        self._write(policy)
        self.process.signal(signal.SIGHUP)
        eventually(lambda: self.process.log.count("reloaded: ") > before)

    def metric(self, name: str, **labels: str) -> float:
        return self.process.metric(name, **labels)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OneBroker]:
    with brokers() as started:
        one = OneBroker(started, tmp_path_factory.mktemp("broker") / "broker.toml")
        yield one
        assert one.metric("byway_internal_errors_total") == 0, one.process.log


# --- slow -----------------------------------------------------------------------------------------


class SlowClient(RawClient):
    """It wants everything and reads nothing."""

    def __init__(self, broker: BrokerProcess, name: str) -> None:
        super().__init__(broker, name)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
        self.until(lambda: self.attached)
        self.ask(SubscribeRequest("w", parse("n >= 0")))
        self.is_told(Settled("w"))

    async def stay(self) -> None:
        """Send keep-alives, though it does not read, until it is disconnected."""
        with contextlib.suppress(ConnectionError):
            while True:
                self._send(KeepAlive())
                await asyncio.sleep(0.3)


@contextlib.asynccontextmanager
async def slow_client(broker: OneBroker, name: str) -> AsyncIterator[SlowClient]:
    client = SlowClient(broker.process, name)
    staying = asyncio.create_task(client.stay())
    with contextlib.closing(client):
        try:
            yield client
        finally:
            staying.cancel()


@contextlib.asynccontextmanager
async def flood(
    broker: OneBroker, window: int = 512
) -> AsyncIterator[tuple[byway.Client, asyncio.Task[int]]]:
    """A publisher that is never far ahead of a subscriber, which must get all. Both share an event
    loop and the machine with the broker, so an unpaced publisher could make that one slow, too."""
    async with (
        byway.connect(broker.url, window=window) as publisher,
        publisher.advertise("ANY"),
        byway.connect(broker.url, pending_messages=FLOOD) as reader,
        reader.subscribe("n >= 0") as subscription,
    ):
        publishing = asyncio.create_task(publisher.publish_all(paced_by(reader)))
        yield publisher, publishing
        await publishing
        await publisher.confirmed()
        events = []
        while len(events) < FLOOD:
            events += await subscription.take(FLOOD, timeout=10)
        assert [event.attributes["n"] for event in events] == list(range(FLOOD))


async def paced_by(reader: byway.Client) -> AsyncIterator[tuple[dict[str, int], bytes]]:
    """Publications, each when the reader has received those up to `AHEAD` before it."""
    for n in range(FLOOD):
        while n - reader.status.received >= AHEAD:
            await asyncio.sleep(0.001)
        yield {"n": n}, DATA


@in_loop
async def test_a_slow_client_is_disconnected(broker: OneBroker) -> None:
    broker.treats_slow_clients_so("disconnect")
    before = rss_bytes(broker.process)
    async with slow_client(broker, "slow-1") as slow:
        async with flood(broker):
            await until(lambda: "client slow-1 is slow: disconnected" in broker.process.log)
        assert broker.process.metric("byway_connections_closed_total", bound="deliveries") >= 1
        assert rss_bytes(broker.process) - before < 48 * MEBIBYTE
        got = [delivery.publication.sequence for delivery in slow.all_there_is()]
        assert got == list(range(1, len(got) + 1))
        assert len(got) < FLOOD


@in_loop
async def test_a_slow_client_loses_the_oldest(broker: OneBroker) -> None:
    broker.treats_slow_clients_so("drop_oldest")
    before = rss_bytes(broker.process)
    async with slow_client(broker, "slow-2") as slow:
        async with flood(broker):
            pass
        assert rss_bytes(broker.process) - before < 48 * MEBIBYTE
        waiting = broker.metric("byway_slow_client_waiting_messages", client="slow-2")
        lost = broker.metric("byway_slow_client_drops_total", client="slow-2")
        assert 0 < waiting <= QUEUE_MESSAGES
        assert lost > FLOOD // 2
        await asyncio.to_thread(slow.until, lambda: slow.sequences[-1:] == [FLOOD])
        assert len(slow.sequences) == FLOOD - lost
        assert slow.sequences == sorted(set(slow.sequences))
        assert slow.sequences[-100:] == list(range(FLOOD - 99, FLOOD + 1))


@in_loop
async def test_publications_wait_for_a_slow_client(broker: OneBroker) -> None:
    """While they wait, others may subscribe: no control message waits behind a publication."""
    broker.treats_slow_clients_so("block")
    before = rss_bytes(broker.process)
    async with slow_client(broker, "slow-3") as slow:
        async with flood(broker) as (publisher, publishing):
            await until(lambda: "client slow-3 is slow: publications wait" in broker.process.log)
            await until(lambda: broker.metric("byway_publications_held") == 1)
            await publisher.broker_status()  # which comes after all that was accepted before
            stalled = publisher.status.accepted
            assert not publishing.done()
            assert broker.metric("byway_slow_client_waiting_messages", client="slow-3") > 0
            assert broker.metric("byway_slow_client_blocked_seconds", client="slow-3") > 0

            async with publisher.subscribe("n = -1"):
                pass  # it was settled, over the very connection whose publications wait
            async with (
                byway.connect(broker.url) as other,
                other.advertise("n = -1"),
                other.subscribe("n = -1"),
            ):
                assert publisher.status.accepted == stalled

            assert rss_bytes(broker.process) - before < 48 * MEBIBYTE
            await asyncio.to_thread(slow.until, lambda: slow.sequences[-1:] == [FLOOD])
        assert slow.sequences == list(range(1, FLOOD + 1))
    assert broker.metric("byway_slow_client_drops_total", client="slow-3") == 0


@in_loop
async def test_a_subscription_settles_in_the_middle_of_a_flood(broker: OneBroker) -> None:
    """At most two windows of publications are taken before it is in force."""
    broker.treats_slow_clients_so("block")
    async with (
        byway.connect(broker.url, window=4_096) as publisher,
        publisher.advertise("ANY"),
        byway.connect(broker.url) as other,
    ):
        publications = ({"n": n % 1_000} for n in range(1_000_000))
        flooding = asyncio.create_task(publisher.send_all(publications))
        await until(lambda: publisher.status.accepted > 2_000)
        for _ in range(5):
            before = publisher.status.published
            async with other.subscribe("n = 7") as subscription:
                assert publisher.status.published - before <= 2 * 4_096
                assert not flooding.done()
                event = await subscription.next(timeout=10)
                assert event.attributes == {"n": 7}
        flooding.cancel()


# --- many -----------------------------------------------------------------------------------------


@in_loop
async def test_a_thousand_clients(broker: OneBroker) -> None:
    """Each gets what it asked for, and leaves nothing behind."""
    broker.treats_slow_clients_so("disconnect")
    entries = broker.metric("byway_routing_entries", table="subscriptions")
    clients = [byway.connect(broker.url, name=f"c{n}", connect_timeout=20) for n in range(1_000)]
    await asyncio.gather(*clients)
    subscriptions = await asyncio.gather(
        *(client.subscribe("all = 1", f"n = {n}") for n, client in enumerate(clients))
    )
    assert broker.metric("byway_connections", role="client") >= 1_000
    async with byway.connect(broker.url) as publisher, publisher.advertise("ANY"):
        await publisher.publish({"all": 1})
        await publisher.publish_all({"n": n} for n in range(1_000))
        await publisher.confirmed()
        for n, subscription in enumerate(subscriptions):
            events = [await subscription.next(timeout=10) for _ in range(2)]
            assert [event.attributes for event in events] == [{"all": 1}, {"n": n}]
            assert subscription.pending == 0
    await asyncio.gather(*(client.close() for client in clients))
    await until(lambda: broker.metric("byway_routing_entries", table="subscriptions") == entries)


@in_loop
async def test_a_storm_of_clients_that_come_back(tmp_path: Path) -> None:
    """A hundred clients lose their broker at once, with publications on their way."""
    with brokers() as started:
        arguments = ("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--data", str(tmp_path))
        process = started.start("--id", "B1", *arguments).ready()
        url = f"byway://{process.address}"
        clients = [byway.connect(url, name=f"c{n}", **SESSION) for n in range(100)]
        await asyncio.gather(*clients)
        subscriptions = [await client.subscribe("n >= 0") for client in clients]
        publisher = await byway.connect(url, name="p", window=64, **SESSION)
        await publisher.advertise("ANY")
        publishing = asyncio.create_task(publisher.publish_all({"n": n} for n in range(300)))
        await until(lambda: publisher.status.confirmed >= 100)
        process.kill()
        process = started.again(process)
        await asyncio.to_thread(process.ready)
        await publishing
        await publisher.confirmed()
        for subscription in subscriptions:
            events = []
            while len(events) < 300:
                events += await subscription.take(300, timeout=10)
            assert [event.attributes["n"] for event in events] == list(range(300))
        for client in clients:
            assert (client.status.sessions, client.status.lost) == (1, 0)
        assert process.metric("byway_internal_errors_total") == 0
        await asyncio.gather(*(client.close() for client in (*clients, publisher)))


# --- hostile --------------------------------------------------------------------------------------


def said_to(broker: OneBroker, *pieces: bytes) -> bytes:
    """What the broker answers to these bytes until it closes the connection, or has had enough
    time to think of it."""
    answer = b""
    with socket.create_connection(("127.0.0.1", broker.process.port), 10) as connection:
        with contextlib.suppress(OSError):
            for piece in pieces:
                connection.sendall(piece)
            connection.shutdown(socket.SHUT_WR)
        connection.settimeout(10)
        with contextlib.suppress(ConnectionError):
            while data := connection.recv(65_536):
                answer += data
    return answer


PREAMBLE = Preamble(CLIENT_PROTOCOL_VERSION, "client", "enemy", 1, FRAME_BYTES_MAX, 5_000)
BROKER = msgspec.structs.replace(PREAMBLE, version=PROTOCOL_VERSION, role="broker")
CLIENT = bytes(encode(PREAMBLE) + encode(ClientHello(0, 0)))
NEIGHBOUR = bytes(
    encode(msgspec.structs.replace(BROKER, name="E")) + encode(Hello("E", 1, 0, 0, 0, 0))
)
BODY = msgspec.msgpack.encode(Body({"n": 1}))


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload


NOT_TEXT = b"\x92\x81\xa1n\xa1\x96\xc4\x00"
HOSTILE = {
    "an empty frame": framed(b""),
    "a frame that is too long": b"\xff\xff\xff\xff",
    "not msgpack": framed(b"\xc1" * 100),
    "no frame of ours": framed(msgspec.msgpack.encode({"a": [1, 2, 3]})),
    "a hundred thousand lists in each other": framed(b"\x91" * 100_000),
    "a list that says it is huge": framed(b"\xdd\xff\xff\xff\xff"),
    "a string that says it is huge": framed(b"\xdb\xff\xff\xff\xff"),
    "another version": bytes(encode(msgspec.structs.replace(PREAMBLE, version=99))),
    "another role": bytes(encode(msgspec.structs.replace(PREAMBLE, role="king"))),
    "text that is none": CLIENT + bytes(encode(Requests((PublishRequest(1, NOT_TEXT),)))),
    "no name": bytes(encode(msgspec.structs.replace(PREAMBLE, name=""))),
    "the broker's own name": bytes(
        encode(
            msgspec.structs.replace(PREAMBLE, version=PROTOCOL_VERSION, role="broker", name="B1")
        )
    ),
    "requests before the preamble": bytes(encode(Requests(()))),
    "requests before the hello": bytes(
        encode(PREAMBLE) + encode(Requests((PublishRequest(1, BODY),)))
    ),
    "two preambles": bytes(encode(PREAMBLE) + encode(PREAMBLE)),
    "what only brokers send": CLIENT + bytes(encode(Batch(Lane.CONTROL, 1, ()))),
    "what only clients send": NEIGHBOUR + bytes(encode(Requests(()))),
    "a batch with a number from the future": NEIGHBOUR
    + bytes(encode(Batch(Lane.CONTROL, 1_000_000, ()))),
    "a publication out of order": CLIENT + bytes(encode(Requests((PublishRequest(-1, BODY),)))),
    "a body that is none": CLIENT + bytes(encode(Requests((PublishRequest(1, b"\xc1"),)))),
}


@pytest.mark.parametrize("attack", HOSTILE)
def test_what_is_hostile_costs_its_connection(broker: OneBroker, attack: str) -> None:
    said_to(broker, HOSTILE[attack])
    serves_others(broker)


def serves_others(broker: OneBroker) -> None:
    """A client can still publish to itself, and nothing went wrong inside."""
    broker.treats_slow_clients_so("disconnect")

    async def serve() -> None:
        async with (
            byway.connect(broker.url) as client,
            client.advertise("ANY"),
            client.subscribe("x = 1") as subscription,
        ):
            await client.publish({"x": 1})
            assert (await subscription.next(timeout=10)).attributes == {"x": 1}

    asyncio.run(asyncio.wait_for(serve(), 20))
    assert broker.metric("byway_internal_errors_total") == 0, broker.process.log


def fuzz(chance: random.Random) -> bytes:
    """Random bytes, random frames, or something good with an error in it."""
    kind = chance.randrange(5)
    if kind == 0:
        return chance.randbytes(chance.randrange(1, 2_000))
    if kind == 1:
        return framed(chance.randbytes(chance.randrange(1, 2_000)))
    good = bytearray(chance.choice((CLIENT, NEIGHBOUR, *HOSTILE.values())) + subscription(chance))
    if kind == 2:
        return bytes(good[: chance.randrange(len(good))])
    for _ in range(chance.randrange(1, 4)):
        good[chance.randrange(len(good))] = chance.randrange(256)
    return bytes(good)


def subscription(chance: random.Random) -> bytes:
    wanted = SubscribeRequest("s", parse(f"x > {chance.random()} AND y LIKE 'a%'"))
    return bytes(encode(Requests((wanted, PublishRequest(1, BODY)))))


def fuzzed(broker: OneBroker, seed: int, attempts: int) -> None:
    chance = random.Random(seed)
    said_to(broker, *(bytes(60_000) for _ in range(4)))
    before = rss_bytes(broker.process)
    for _ in range(attempts):
        said_to(broker, *(fuzz(chance) for _ in range(chance.randrange(1, 4))))
    assert rss_bytes(broker.process) - before < 16 * MEBIBYTE
    serves_others(broker)
    eventually(lambda: broker.metric("byway_connections", role="unknown") == 0)


def test_random_bytes_cost_their_connection(broker: OneBroker) -> None:
    fuzzed(broker, 1, 500)


@pytest.mark.slow
def test_random_bytes_cost_their_connection_often(broker: OneBroker) -> None:
    for seed in range(2, 12):
        fuzzed(broker, seed, 2_000)


def test_who_says_nothing_or_only_half_is_sent_away(broker: OneBroker) -> None:
    """Connections that are held open without a word do not stay; nor does one that keeps talking
    without saying who it is."""
    port = broker.process.port
    silent = [socket.create_connection(("127.0.0.1", port), 10) for _ in range(200)]
    half = socket.create_connection(("127.0.0.1", port), 10)
    half.sendall(CLIENT[:10])
    eventually(lambda: broker.metric("byway_connections", role="unknown") == 201)
    for _ in range(20):
        with contextlib.suppress(ConnectionError):
            half.sendall(b"\x01")  # one byte more of its name
        if broker.metric("byway_connections", role="unknown") == 0:
            break
        with contextlib.suppress(TimeoutError):
            half.settimeout(0.2)
            half.recv(65_536)
    eventually(lambda: broker.metric("byway_connections", role="unknown") == 0)
    for connection in (*silent, half):
        connection.close()
