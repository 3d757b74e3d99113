"""The operations port answers every request, also those that are none, and metrics tell of what a
broker does."""

import asyncio
from http import HTTPStatus

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from byway.model import ANY, parse
from byway.model.addresses import Address, Neighbour
from byway.model.messages import (
    AdvertiseRequest,
    Body,
    ClientHello,
    Delivery,
    Preamble,
    PublicationsConfirmed,
    PublishRequest,
    Replies,
    Requests,
    Settled,
    SubscribeRequest,
)
from byway.runtime import operations
from byway.runtime.http_answers import Answer, json_answer, text_answer
from byway.runtime.metrics import Metrics
from byway.runtime.operations import Operations
from byway.runtime.server import BrokerServer
from byway.runtime.settings import BrokerSettings
from byway.storage.storage import Storage
from byway.transport.connection import Connection
from byway.wire import FRAME_BYTES_MAX

ANYWHERE = Address("127.0.0.1", 0)
OK = b"HTTP/1.1 200 OK\r\n"


def fail() -> Answer:
    raise RuntimeError("no answer")


PATHS = {"/fine": lambda: text_answer(HTTPStatus.OK, "fine"), "/fails": fail}


async def ask(port: Operations, request: bytes, end: bool = False) -> bytes:
    reader, writer = await asyncio.open_connection(port.address.host, port.address.port)
    writer.write(request)
    if end:
        writer.write_eof()
    answer = await asyncio.wait_for(reader.read(), 5)
    writer.close()
    await writer.wait_closed()
    return answer


def asked(request: bytes, end: bool = False) -> bytes:
    async def main() -> bytes:
        port = Operations(ANYWHERE, PATHS)
        await port.start()
        try:
            return await ask(port, request, end)
        finally:
            await port.stop()

    return asyncio.run(main())


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
@pytest.mark.parametrize("query", [b"", b"?a=b"])
def test_a_path_is_answered(version, query):
    answer = asked(b"GET /fine" + query + b" HTTP/" + version + b"\r\nHost: x\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(OK.strip())
    assert b"Content-Length: 5" in head
    assert body == b"fine\n"


def test_head_has_no_body():
    answer = asked(b"HEAD /fine HTTP/1.1\r\nHost: x\r\n\r\n")
    assert answer.startswith(OK)
    assert answer.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /other HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"POST /fine HTTP/1.1\r\nHost: x\r\n\r\nbody", 405),
        (b"GET /fine\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00 nonsense \r\n\r\n", 400),
        (b"GET /fine SPDY/1\r\n\r\n", 400),
        (b"GET /fine HTTP/2.0\r\nHost: x\r\n\r\n", 400),
        (b"GET /fine HTTP/1.1\r\n\r\n", 400),
        (b"GET /fine HTTP/1.1\r\nHost: x\r\nno header\r\n\r\n", 400),
        (b"GET /fails HTTP/1.1\r\nHost: x\r\n\r\n", 500),
        (b"GET /fine HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 9_000 + b"\r\n\r\n", 431),
        (b"x" * 100_000, 431),
    ],
)
def test_what_cannot_be_answered_is_told_so(request_, status, caplog):
    answer = asked(request_)
    assert int(answer.split()[1]) == status
    assert ("/fails cannot be answered" in caplog.text) is (status == 500)


def test_a_request_may_come_in_pieces():
    request = b"GET /fine HTTP/1.1\r\nHost: x\r\n\r\n"

    async def main() -> bytes:
        port = Operations(ANYWHERE, PATHS)
        await port.start()
        reader, writer = await asyncio.open_connection(port.address.host, port.address.port)
        for at in range(len(request)):
            writer.write(request[at : at + 1])
            await writer.drain()
        answer = await asyncio.wait_for(reader.read(), 5)
        writer.close()
        await port.stop()
        return answer

    assert asyncio.run(main()).startswith(OK)


@pytest.mark.parametrize(("over", "status"), [(0, 200), (2, 431)])
def test_a_request_has_a_longest_head(over, status):
    start, end = b"GET /fine HTTP/1.1\r\nHost: x\r\nX: ", b"\r\n\r\n"
    padding = b"x" * (operations.REQUEST_BYTES_MAX - len(start) - len(end) + over)
    assert int(asked(start + padding + end).split()[1]) == status


def test_a_connection_that_ends_early_is_forgotten():
    assert asked(b"GET /fi", end=True) == b""


def test_the_silent_do_not_wait_for_ever(monkeypatch):
    monkeypatch.setattr(operations, "REQUEST_S_MAX", 0.05)
    assert asked(b"GET /fine HTTP/1.1\r\n").startswith(b"HTTP/1.1 408")


def test_there_are_only_so_many_connections(monkeypatch):
    monkeypatch.setattr(operations, "CONNECTIONS_MAX", 2)

    async def main() -> tuple[bytes, bytes]:
        port = Operations(ANYWHERE, PATHS)
        await port.start()
        address = port.address.host, port.address.port
        idle = [await asyncio.open_connection(*address) for _ in range(2)]
        request = b"GET /fine HTTP/1.1\r\nHost: x\r\n\r\n"
        refused = await ask(port, request)
        for _, writer in idle:
            writer.close()
        async with asyncio.timeout(10):
            while (taken := await ask(port, request)).startswith(b"HTTP/1.1 503"):
                pass  # the idle ones are not gone yet
        await port.stop()
        return refused, taken

    refused, taken = asyncio.run(main())
    assert refused.startswith(b"HTTP/1.1 503")
    assert taken.startswith(OK)


# --- commands ----------------------------------------------------------------------------------


async def echo(facts: dict) -> Answer:
    return json_answer(HTTPStatus.OK, {"heard": facts})


async def stumble(facts: dict) -> Answer:
    raise RuntimeError(facts)


COMMANDS = {"/echo": echo, "/stumbles": stumble}
HEADERS = {
    "Host": "127.0.0.1:9001",
    "Content-Type": "application/json",
    "X-Byway-Command": "1",
}


def post(path: str, body: bytes = b'{"a": 1}', **changed: str | None) -> bytes:
    named = {key.replace("_", "-"): value for key, value in changed.items()}
    headers = {"Content-Length": str(len(body)), **HEADERS} | named
    lines = [f"{key}: {value}" for key, value in headers.items() if value is not None]
    return "\r\n".join([f"POST {path} HTTP/1.1", *lines, "", ""]).encode() + body


def commanded(request: bytes, listen: Address = ANYWHERE, end: bool = False) -> tuple[int, bytes]:
    async def main() -> bytes:
        port = Operations(listen, PATHS, COMMANDS)
        await port.start()
        port.address = Address("127.0.0.1", port.address.port)
        try:
            return await ask(port, request, end)
        finally:
            await port.stop()

    answer = asyncio.run(main())
    return int(answer.split()[1]) if answer else 0, answer.partition(b"\r\n\r\n")[2]


def test_a_command_is_done_and_answered_in_json():
    assert commanded(post("/echo")) == (200, b'{"heard":{"a":1}}\n')
    assert commanded(post("/echo", b"{}", Host="localhost")) == (200, b'{"heard":{}}\n')
    assert commanded(post("/echo", Host="[::1]:9001"))[0] == 200


@pytest.mark.parametrize(
    ("request_", "status", "reason"),
    [
        (b"GET /echo HTTP/1.1\r\nHost: x\r\n\r\n", 405, b"Method Not Allowed"),
        (b"OPTIONS /echo HTTP/1.1\r\nHost: x\r\n\r\n", 405, b"Method Not Allowed"),
        (b"POST /fine HTTP/1.1\r\nHost: x\r\n\r\n", 405, b"Method Not Allowed"),
        (b"POST /echo HTTP/1.1\r\nHost: x\r\n\r\n", 403, b"needs the header X-Byway-Command: 1"),
        (post("/echo", X_Byway_Command=None), 403, b"needs the header X-Byway-Command: 1"),
        (post("/echo", X_Byway_Command="0"), 403, b"needs the header X-Byway-Command: 1"),
        (post("/echo", Origin="http://127.0.0.1:9001"), 403, b"not accepted from web pages"),
        (post("/echo", Host="evil.example"), 403, b"a Host of this machine, found 'evil.example'"),
        (post("/echo", Host="127.0.0.1.evil.example:9001"), 403, b"a Host of this machine"),
        (post("/echo", Host="10.0.0.7"), 403, b"a Host of this machine"),
        (post("/echo", Host=None), 400, b"Missing mandatory Host"),
        (post("/echo", Content_Type="text/plain"), 415, b"expected Content-Type"),
        (post("/echo", Content_Length=None), 411, b"expected a Content-Length"),
        (post("/echo", Content_Length="-1"), 400, b"bad Content-Length"),
        (post("/echo", Transfer_Encoding="chunked"), 411, b"expected a Content-Length"),
        (post("/echo", Content_Length="4097"), 413, b"at most 4096 bytes"),
        (post("/echo", Content_Length="9" * 4_000), 400, b"bad Content-Length"),
        (post("/echo", b"[1]"), 400, b"not a JSON object"),
        (post("/echo", b"{"), 400, b"not a JSON object"),
        (post("/echo", X_Byway_Command="1\r\nX-Byway-Command: 1"), 400, b"there twice"),
        (post("/echo", Host="127.0.0.1\r\n folded"), 403, b"a Host of this machine"),
        (post("/stumbles"), 500, b"Internal Server Error"),
    ],
    ids=range(22),
)
def test_what_is_no_command_is_not_done(request_, status, reason, caplog):
    found, body = commanded(request_)
    assert (found, reason in body) == (status, True), body
    assert ("/stumbles cannot be done" in caplog.text) is (status == 500)


def test_a_command_that_ends_early_is_not_done():
    assert commanded(post("/echo", Content_Length="100"), end=True)[0] == 0


def test_commands_are_taken_on_loopback_only():
    status, body = commanded(post("/echo"), Address("0.0.0.0", 0))
    assert status == 403
    assert b"on loopback only, and this port listens on" in body
    assert commanded(b"GET /fine HTTP/1.1\r\nHost: x\r\n\r\n", Address("0.0.0.0", 0))[0] == 200


def test_one_command_at_a_time_and_the_last_is_answered_though_the_port_stops():
    async def main() -> tuple[bytes, bytes]:
        begun, go = asyncio.Event(), asyncio.Event()

        async def wait(facts: dict) -> Answer:
            begun.set()
            await go.wait()
            return await echo(facts)

        port = Operations(ANYWHERE, PATHS, {"/waits": wait})
        await port.start()
        first = asyncio.create_task(ask(port, post("/waits")))
        await begun.wait()
        second = await ask(port, post("/waits"))
        stopping = asyncio.create_task(port.stop())
        await asyncio.sleep(0)
        go.set()
        await stopping
        return await first, second

    first, second = asyncio.run(main())
    assert first.endswith(b'{"heard":{"a":1}}\n')
    assert second.startswith(b"HTTP/1.1 409")
    assert second.endswith(b"another command is under way\n")


# --- metrics -----------------------------------------------------------------------------------


class Client:
    """A client that speaks in frames."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.told: list[object] = []
        self.is_lost = False
        self.connection: Connection | None = None

    def greeted(self, connection: Connection, peer: Preamble) -> None:
        del peer
        connection.send(ClientHello())

    def received(self, connection: Connection, frame: object) -> None:
        del connection
        self.told += frame.replies if isinstance(frame, Replies) else [frame]

    def drained(self, connection: Connection) -> None:
        del connection

    def lost(self, connection: Connection, reason: str) -> None:
        del connection, reason
        self.is_lost = True

    async def connect(self, address: Address) -> None:
        own = Preamble(1, "client", self.name, 1, FRAME_BYTES_MAX, 5_000)
        self.connection = Connection(self, own, True)
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self.connection, address.host, address.port)

    async def ask(self, *requests: object, until: object) -> None:
        self.connection.send(Requests(requests))
        await eventually(lambda: until in self.told)


async def eventually(happened) -> None:
    async with asyncio.timeout(10):
        while not happened():
            await asyncio.sleep(0.005)


def numbers(text: bytes) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_metrics_tell_of_what_happened(tmp_path):
    async def main() -> tuple[dict, dict]:
        storage = Storage(str(tmp_path))
        one = BrokerSettings(id="B1", listen=ANYWHERE)
        broker = storage.restore(1, "B1", one.core)
        first = BrokerServer(one, broker, storage)
        await first.start()
        neighbour = Neighbour(first.address, "B1")
        second = BrokerServer(BrokerSettings(id="B2", listen=ANYWHERE, neighbours=(neighbour,)))
        await second.start()
        publisher, subscriber = Client("p"), Client("s")
        await publisher.connect(first.address)
        await subscriber.connect(second.address)
        await eventually(lambda: "s" in second.clients and "p" in first.clients)
        await publisher.ask(AdvertiseRequest("a", ANY), until=Settled("a"))
        await subscriber.ask(SubscribeRequest("w", parse("x > 0")), until=Settled("w"))
        body = msgspec.msgpack.encode(Body({"x": 1}))
        publications = (PublishRequest(n, body) for n in range(1, 11))
        await publisher.ask(*publications, until=PublicationsConfirmed(10))
        await eventually(lambda: sum(isinstance(t, Delivery) for t in subscriber.told) == 10)
        found = numbers(Metrics(first, storage).text()), numbers(Metrics(second, None).text())
        for server in (first, second):
            await server.stop()
        storage.stop()
        await eventually(lambda: publisher.is_lost and subscriber.is_lost)
        return found

    first, second = asyncio.run(main())
    assert first["byway_publications_received_total", "client"] == 10
    assert first["byway_messages_forwarded_total", "pub", "B2"] == 10
    assert first["byway_messages_forwarded_total", "adv", "B2"] == 1
    assert first["byway_routing_entries", "subscriptions"] == 1
    assert first["byway_link_up", "B2"] == 1
    assert first["byway_link_unconfirmed_messages", "B2"] == 0
    assert first["byway_connections", "client"] == 1
    assert first["byway_sessions", "here"] == 1
    assert first["byway_journal_bytes",] > 1_000
    assert first["byway_restarts_total",] == 0
    assert first["byway_busy_seconds_total",] > 0
    assert first["byway_slow_clients",] == 0
    assert second["byway_publications_received_total", "link"] == 10
    assert second["byway_deliveries_total",] == 10
    assert second["byway_routing_entries", "advertisements"] == 1
    assert ("byway_journal_bytes",) not in second


def test_a_client_that_does_not_read_is_named():
    async def main() -> dict:
        server = BrokerServer(BrokerSettings(id="B1", listen=ANYWHERE))
        await server.start()
        publisher, subscriber = Client("p"), Client("s")
        for client in (publisher, subscriber):
            await client.connect(server.address)
        await eventually(lambda: len(server.clients) == 2)
        await publisher.ask(AdvertiseRequest("a", ANY), until=Settled("a"))
        await subscriber.ask(SubscribeRequest("w", parse("x > 0")), until=Settled("w"))
        subscriber.connection.pause_reading()
        body = msgspec.msgpack.encode(Body({"x": 1}, bytes(500_000)))
        for sequence in range(1, 41):
            asked = PublishRequest(sequence, body)
            await publisher.ask(asked, until=PublicationsConfirmed(sequence))
        found = numbers(Metrics(server, None).text())
        subscriber.connection.resume_reading()
        await server.stop()
        await eventually(lambda: publisher.is_lost and subscriber.is_lost)
        return found

    found = asyncio.run(main())
    assert found["byway_slow_clients",] == 1
    assert found["byway_slow_client_waiting_messages", "s"] > 1
    assert found["byway_slow_client_waiting_bytes", "s"] > 500_000
    assert found["byway_slow_client_blocked_seconds", "s"] > 0


def test_questions_are_answered_while_a_command_is_under_way(caplog):
    async def main() -> tuple[bytes, bytes]:
        go = asyncio.Event()

        async def wait(facts: dict) -> Answer:
            await go.wait()
            return await echo(facts)

        port = Operations(ANYWHERE, PATHS, {"/wait": wait}, {"/echo": echo})
        await port.start()
        port.address = Address("127.0.0.1", port.address.port)
        waiting = asyncio.create_task(ask(port, post("/wait")))
        while "command /wait" not in caplog.text:
            await asyncio.sleep(0.001)
        question = await ask(port, post("/echo", b'{"b": 2}'))
        go.set()
        command = await waiting
        await port.stop()
        return question, command

    with caplog.at_level("INFO"):
        question, command = asyncio.run(main())
    assert question.endswith(b'{"heard":{"b":2}}\n')
    assert command.endswith(b'{"heard":{"a":1}}\n')
    assert "/echo" not in caplog.text


@pytest.mark.parametrize(
    "changed", [{"X_Byway_Command": None}, {"Origin": "http://x"}, {"Host": "evil.example"}]
)
def test_questions_are_protected_as_commands_are(changed):
    async def main() -> bytes:
        port = Operations(ANYWHERE, PATHS, {}, {"/echo": echo})
        await port.start()
        port.address = Address("127.0.0.1", port.address.port)
        try:
            return await ask(port, post("/echo", **changed))
        finally:
            await port.stop()

    assert asyncio.run(main()).startswith(b"HTTP/1.1 403 ")
