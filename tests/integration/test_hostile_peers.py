"""Peers that send what is out of bounds, or are strangers: it costs their connection, nothing is
kept of them, their neighbours are not bothered, and the broker starts again from what it keeps."""

import socket
import threading
from pathlib import Path

import msgspec
import pytest

from byway.model import ANY, parse
from byway.model.constraints import StringSet
from byway.model.filters import FILTER_BYTES_MAX, Filter
from byway.model.messages import (
    CLIENT_PROTOCOL_VERSION,
    PROTOCOL_VERSION,
    AdvertiseRequest,
    Batch,
    Body,
    Hello,
    Lane,
    Preamble,
    PublicationsConfirmed,
    PublishRequest,
    Replies,
    Requests,
    Settled,
    SubscribeRequest,
    SyncDigest,
    Welcome,
)
from byway.wire import FRAME_BYTES_MAX, encode
from tests.integration.processes import BrokerProcess, Brokers, brokers, eventually
from tests.integration.raw_peers import RawPeer, kept

pytestmark = pytest.mark.integration

BODY = msgspec.msgpack.encode(Body({"x": 1}))
OLDER = PROTOCOL_VERSION - 1
B1_EXPECTED = f"broker B1 expected version {PROTOCOL_VERSION}"
ANYWHERE = (
    "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--set", "limits.keepalive_ms=60000",
    "--set", "limits.retry_ms_max=100",
)  # fmt: skip


def pair(started: Brokers, tmp_path: Path) -> tuple[BrokerProcess, BrokerProcess]:
    """B1 and B2, which keep their state and are linked."""
    first = started.start("--id", "B1", "--data", str(tmp_path / "B1"), *ANYWHERE).ready()
    second = started.start(
        "--id", "B2", "--data", str(tmp_path / "B2"), *ANYWHERE,
        "--neighbour", f"B1@{first.address}",
    ).ready()  # fmt: skip
    first.is_linked_to("B2")
    return first, second


def restarts_and_serves(
    started: Brokers, first: BrokerProcess, second: BrokerProcess, name: str
) -> BrokerProcess:
    """After a kill the first goes on from what it keeps; publications go from it to the second."""
    assert second.metric("byway_internal_errors_total") == 0
    assert "link to B1 is down" not in second.log
    first.kill()
    first = started.again(first).ready()
    second.logged("link to B1 is down")
    subscriber = started.client(second, f"{name}-s")
    publisher = started.client(first, f"{name}-p")
    publisher.ask(AdvertiseRequest("a", ANY))
    publisher.is_told(Settled("a"))
    subscriber.ask(SubscribeRequest("w", parse("x = 1")))
    subscriber.is_told(Settled("w"))
    publisher.ask(PublishRequest(1, BODY))
    publisher.is_told(PublicationsConfirmed(1))
    subscriber.until(lambda: subscriber.sequences == [1])
    assert first.metric("byway_internal_errors_total") == 0
    return first


# --- 1: numbers out of bounds --------------------------------------------------------------------


@pytest.mark.parametrize("incarnation", [2**63, 2**64 - 1, -1])
def test_a_client_whose_incarnation_is_out_of_bounds(tmp_path: Path, incarnation: int) -> None:
    with brokers() as started:
        first, second = pair(started, tmp_path)
        with RawPeer(first.port).as_client("enemy", incarnation) as enemy:
            enemy.say(Requests((AdvertiseRequest("a", ANY),)), Requests((PublishRequest(1, BODY),)))
            assert "Expected `int`" in enemy.reason()
        assert b"enemy" not in kept(tmp_path / "B1")
        restarts_and_serves(started, first, second, "later")


def test_a_client_with_the_last_incarnation_is_served(tmp_path: Path) -> None:
    """What is accepted is forwarded, kept, and read again."""
    with brokers() as started:
        first, second = pair(started, tmp_path)
        subscriber = started.client(second, "s")
        subscriber.ask(SubscribeRequest("w", parse("x = 1")))
        subscriber.is_told(Settled("w"))
        with RawPeer(first.port).as_client("last", 2**63 - 1) as client:
            client.hear(Welcome)
            client.say(Requests((AdvertiseRequest("a", ANY),)))
            client.hear(Replies)
            eventually(lambda: second.metric("byway_routing_entries", table="advertisements") == 1)
            eventually(lambda: first.metric("byway_routing_entries", table="subscriptions") == 1)
            client.say(Requests((PublishRequest(1, BODY),)))
            subscriber.until(lambda: subscriber.sequences == [1])
            assert subscriber.deliveries[0].publication.incarnation == 2**63 - 1
        restarts_and_serves(started, first, second, "later")


def test_a_broker_that_greets_with_an_epoch_out_of_bounds(tmp_path: Path) -> None:
    with brokers() as started:
        first, second = pair(started, tmp_path)
        for name in ("enemy", "B3"):
            with RawPeer(first.port).as_broker(name) as enemy:
                enemy.say(["hello", name, 1, 0, 0, 0, 0, 2**64 - 1, PROTOCOL_VERSION])
                assert "Expected `int` <=" in enemy.reason()
        assert b"enemy" not in kept(tmp_path / "B1")
        restarts_and_serves(started, first, second, "later")


def test_a_broker_that_greets_with_the_last_epoch(tmp_path: Path) -> None:
    """It is a neighbour as long as it stays; then another of its name goes on as ever."""
    with brokers() as started:
        first, second = pair(started, tmp_path)
        with RawPeer(first.port).greet("B3", epoch=2**63 - 1) as enemy:
            enemy.say(Batch(Lane.CONTROL, 1, (SyncDigest((), ()),)))
            enemy.hear(Batch)
        third = started.start(
            "--id", "B3", *ANYWHERE, "--neighbour", f"B1@{first.address}"
        ).ready()  # fmt: skip
        eventually(lambda: first.log.count("link to B3 is up") == 2)
        third.logged("link to B1 is up")
        first = restarts_and_serves(started, first, second, "later")
        eventually(lambda: third.log.count("link to B1 is up") == 2)
        assert first.metric("byway_internal_errors_total") == 0


# --- 2: strangers --------------------------------------------------------------------------------


def test_nothing_is_kept_of_a_broker_before_it_has_said_all(tmp_path: Path) -> None:
    with brokers() as started:
        first, second = pair(started, tmp_path)
        rude = {
            "half-a-word": (),
            "another-name": (Hello("other", 1, 0, 0, 0, 0),),
            "no-version": (Hello("no-version", 1, 0, 0, 0, 0, version=77),),
            "no-incarnation": (Hello("no-incarnation", 0, 0, 0, 0, 0),),
            "two-incarnations": (Hello("two-incarnations", 2, 0, 0, 0, 0),),
            "too-early": (Batch(Lane.CONTROL, 1, (SyncDigest((), ()),)),),
            "B2": (),  # the name of one that is there
        }
        for name, said in rude.items():
            with RawPeer(first.port).as_broker(name) as peer:
                peer.say(*said)
                if said:
                    assert peer.reason()
                else:
                    peer.hear(Preamble)
        eventually(lambda: first.metric("byway_connections", role="unknown") == 0)
        everything = kept(tmp_path / "B1")
        assert [name for name in rude if name.encode() in everything] == ["B2"]
        assert first.metric("byway_internal_errors_total") == 0
        restarts_and_serves(started, first, second, "later")


def test_unlisted_neighbours_are_bounded_and_forgotten(tmp_path: Path) -> None:
    with brokers() as started:
        data = ("--data", str(tmp_path), "--set", "limits.neighbours=5")
        broker = started.start("--id", "B1", *data, *ANYWHERE).ready()
        for turn in range(3):
            peers = [RawPeer(broker.port).greet(f"S{turn}-{n}") for n in range(5)]
            for peer in peers:
                peer.hear(Batch)
            with RawPeer(broker.port).greet(f"S{turn}-late") as late:
                reason = late.reason()
                assert "5 neighbours that are not listed" in reason
                assert "limits.neighbours" in reason
            for peer in peers:
                peer.close()
            eventually(lambda n=5 * turn + 5: broker.log.count("is down") == n)
        assert b"late" not in kept(tmp_path)
        assert broker.metric("byway_connections_closed_total", bound="neighbours") == 3
        assert broker.metric("byway_internal_errors_total") == 0
        broker.kill()
        started.again(broker).ready()


def test_listed_brokers_only(tmp_path: Path) -> None:
    """By id, by an address that was dialled, and what was a neighbour before; no other."""
    with brokers() as started:
        second = started.start("--id", "B2", *ANYWHERE).ready()
        data = ("--data", str(tmp_path / "B1"))
        unlisted = started.start("--id", "B1", *data, *ANYWHERE).ready()
        old = started.start(
            "--id", "old", *ANYWHERE, "--neighbour", f"B1@{unlisted.address}"
        ).ready()  # fmt: skip
        old.logged("link to B1 is up")
        unlisted.kill()

        listed = ("--set", "accept=listed", "--neighbour", second.address)
        kept_arguments = list(unlisted.arguments)
        kept_arguments[kept_arguments.index("--listen") + 1] = unlisted.address
        first = started.start(*kept_arguments, *listed, "--neighbour", "B9@127.0.0.1:9").ready()
        first.logged("link to B2 is up")  # dialled, its id learnt
        eventually(lambda: old.log.count("link to B1 is up") == 2)  # kept
        with RawPeer(first.port).greet("B9") as friend:  # listed by its id
            friend.hear(Batch)
        with RawPeer(first.port).greet("B8") as stranger:
            assert stranger.reason() == (
                "broker B8 is not among the neighbours of B1, "
                'which accepts no other (accept = "listed")'
            )
        assert b"B8" not in kept(tmp_path / "B1")
        assert first.metric("byway_internal_errors_total") == 0


def test_a_neighbour_listed_by_address_may_dial_in_once_it_was_dialled() -> None:
    with brokers() as started, socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        arguments = ("--set", "accept=listed", "--neighbour", address)
        broker = started.start("--id", "B5", *ANYWHERE, *arguments).ready()
        with RawPeer(broker.port).greet("B4") as early:
            assert 'accept = "listed"' in early.reason()
        dialled, _ = listener.accept()
        with dialled:
            own = Preamble(PROTOCOL_VERSION, "broker", "B4", 1, FRAME_BYTES_MAX, 60_000)
            dialled.sendall(encode(own))
            dialled.recv(65_536)
        eventually(lambda: is_accepted(broker, "B4"))


def is_accepted(broker: BrokerProcess, name: str) -> bool:
    """Whether a broker of this name that dials in is told tables."""
    with RawPeer(broker.port).greet(name) as peer:
        try:
            peer.hear(Batch)
        except (AssertionError, ConnectionError):
            return False
    return True


# --- versions ------------------------------------------------------------------------------------


def test_an_older_broker_is_refused_by_both_versions() -> None:
    with brokers() as started:
        broker = started.start("--id", "B1", *ANYWHERE).ready()
        preamble = Preamble(OLDER, "broker", "old", 1, FRAME_BYTES_MAX, 60_000)
        with RawPeer(broker.port).say(preamble) as older:
            reason = f"broker old speaks version {OLDER}, {B1_EXPECTED}"
            assert older.reason() == reason
            assert older.heard[0].version == PROTOCOL_VERSION
        broker.logged(reason)


def test_a_client_hears_its_own_version() -> None:
    with brokers() as started:
        broker = started.start("--id", "B1", *ANYWHERE).ready()
        with RawPeer(broker.port).as_client("c") as client:
            client.hear(Welcome)
            assert client.heard[0].version == CLIENT_PROTOCOL_VERSION == 1
        preamble = Preamble(2, "client", "newer", 1, FRAME_BYTES_MAX, 60_000)
        with RawPeer(broker.port).say(preamble) as newer:
            reason = "client newer speaks version 2, broker B1 expected version 1"
            assert newer.reason() == reason


def test_a_broker_that_dials_an_older_one_says_so() -> None:
    def answer_as_of_old(listener: socket.socket, said: list[bytes]) -> None:
        connection, _ = listener.accept()
        with connection:
            own = Preamble(OLDER, "broker", "old", 1, FRAME_BYTES_MAX, 60_000)
            connection.sendall(encode(own))
            while data := connection.recv(65_536):
                said.append(data)

    with brokers() as started, socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        said: list[bytes] = []
        thread = threading.Thread(target=answer_as_of_old, args=(listener, said), daemon=True)
        thread.start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        broker = started.start("--id", "B1", *ANYWHERE, "--neighbour", address).ready()
        broker.logged(f"broker old speaks version {OLDER}, {B1_EXPECTED}")
        thread.join(15)
        assert B1_EXPECTED.encode() in b"".join(said)


# --- 3: filters that are too long ----------------------------------------------------------------


def text_filter(size: int) -> Filter:
    return Filter.where({"x": StringSet(tuple(sorted(f"{n:03}" + "a" * size for n in range(64))))})


@pytest.mark.parametrize("request_kind", [AdvertiseRequest, SubscribeRequest])
def test_a_filter_as_long_as_a_frame_costs_its_client(tmp_path: Path, request_kind: type) -> None:
    with brokers() as started:
        first, second = pair(started, tmp_path)
        wide = text_filter(65_530 - 40)
        assert FRAME_BYTES_MAX - 8_192 < len(msgspec.msgpack.encode(wide)) < FRAME_BYTES_MAX
        with RawPeer(first.port).as_client("enemy") as enemy:
            enemy.hear(Welcome)
            enemy.say(Requests((request_kind("a", wide),)))
            assert f"at most {FILTER_BYTES_MAX} bytes" in enemy.reason()
        eventually(lambda: first.metric("byway_connections", role="client") == 0)
        restarts_and_serves(started, first, second, "later")


def test_the_longest_filter_is_forwarded(tmp_path: Path) -> None:
    with brokers() as started:
        first, second = pair(started, tmp_path)
        longest = text_filter((FILTER_BYTES_MAX - 20) // 64 - 6)
        assert FILTER_BYTES_MAX - 200 < len(msgspec.msgpack.encode(longest)) <= FILTER_BYTES_MAX
        publisher = started.client(first, "p", 60_000_000)
        publisher.ask(AdvertiseRequest("a", longest))
        publisher.is_told(Settled("a"))
        subscriber = started.client(second, "s", 60_000_000)
        subscriber.ask(SubscribeRequest("s", longest))
        subscriber.is_told(Settled("s"))
        assert first.metric("byway_routing_entries", table="subscriptions") == 1
        restarts_and_serves(started, first, second, "later")
