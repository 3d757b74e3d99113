"""Brokers that dial in and say what they like: for what they dial, and where they can be dialled.
Nothing remains of one that is refused, and a lie makes no broker dial where it must not."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import byway
from byway.model.messages import (
    PROTOCOL_VERSION,
    AdvertisementsSynced,
    Batch,
    Disconnect,
    Goodbye,
    Hello,
    Lane,
    LinkKind,
    Preamble,
    SubscriptionsSynced,
    SyncDigest,
)
from tests.integration.network import ANYWHERE, RETRY
from tests.integration.processes import BrokerProcess, brokers, eventually
from tests.integration.raw_peers import WAIT_S, RawPeer, kept

pytestmark = pytest.mark.integration

SOON = (*RETRY, "--set", "limits.refused_max=50ms")
DIGEST = Batch(Lane.CONTROL, 1, (SyncDigest((), ()),))


def dial(broker: BrokerProcess, name: str, kind: LinkKind | None = None, **said: object) -> RawPeer:
    """A broker that dials in and greets."""
    hello = Hello(name, 1, 0, 0, 0, 0, kind=kind, **said)  # type: ignore[arg-type]
    return RawPeer(broker.port).as_broker(name).say(hello)


def links(broker: BrokerProcess) -> dict[str, tuple[str, str, str]]:
    """By broker at the other end: kind, state, and the address that it said."""
    with byway.blocking.connect(f"byway://{broker.address}") as client:
        found = client.broker_status().links
    return {link.broker: (link.kind, link.state, link.listen) for link in found}


@contextmanager
def listener() -> Iterator[tuple[socket.socket, str]]:
    """A socket that somebody may dial, and its address."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        found.settimeout(WAIT_S)
        yield found, f"127.0.0.1:{found.getsockname()[1]}"


# --- who may dial in, and what for -------------------------------------------------------------


@pytest.mark.parametrize("kind", [LinkKind.SOFT, LinkKind.OPENING])
def test_links_outside_the_tree_have_a_bound_of_their_own(tmp_path: Path, kind: LinkKind) -> None:
    with brokers() as started:
        bounds = ("--set", "limits.soft_links=3", "--set", "limits.neighbours=1")
        broker = started.start(
            "--id", "B1", *ANYWHERE, *bounds, "--data", str(tmp_path / "data"),
            "--state-dir", str(tmp_path / "marker"),
        ).ready()  # fmt: skip
        peers = [dial(broker, f"S{n}", kind) for n in range(3)]
        for peer in peers:
            peer.hear(Hello)
        with dial(broker, "late", kind) as late:
            assert late.reason() == (
                "3 links outside the tree were opened to B1, the most there may be "
                "(limits.soft_links)"
            )
        with dial(broker, "N", LinkKind.PRIMARY) as neighbour:
            neighbour.hear(Batch)
            assert links(broker) == {
                "N": ("primary", "agreeing", ""),
                **{f"S{n}": (str(kind), links(broker)[f"S{n}"][1], "") for n in range(3)},
            }
            assert b"S0" not in kept(tmp_path / "marker")
            with dial(broker, "N2", LinkKind.PRIMARY) as second:
                assert "1 neighbours that are not listed" in second.reason()
        assert broker.metric("byway_connections_closed_total", bound="soft_links") == 1
        assert broker.metric("byway_connections_closed_total", bound="neighbours") == 1
        assert b"late" not in kept(tmp_path / "data")
        peers[1].close()  # it is down, and nothing waits for it: its place is free
        eventually(lambda: links(broker)["S1"][1] == "down")
        with dial(broker, "late", kind) as late:
            late.hear(Hello)
            eventually(lambda: "late" in links(broker))
            assert "S1" not in links(broker)
        for peer in peers:
            peer.close()
        assert broker.metric("byway_internal_errors_total") == 0
        broker.kill()
        again = started.again(broker).ready()
        assert {name: kind for name, (kind, *_) in links(again).items()} == {
            "S0": kind, "S2": kind, "late": kind,
        }  # fmt: skip


def test_listed_brokers_only_and_who_else_may_open_a_soft_link(tmp_path: Path) -> None:
    not_listed = "broker B8 is not among the neighbours of B1"
    with brokers() as started:
        data = ("--data", str(tmp_path))
        arguments = ("--id", "B1", *ANYWHERE, *data, "--set", "accept=listed")
        broker = started.start(*arguments, "--set", "dial_allow=10.0.0.0/8").ready()
        with RawPeer(broker.port).as_broker("B8") as stranger:  # no need to say more
            assert stranger.reason().startswith(not_listed)
        with dial(broker, "B8", LinkKind.SOFT) as stranger:
            assert stranger.reason().startswith(not_listed)
        assert broker.metric("byway_connections_closed_total", bound="neighbours") == 2
        broker.kill()
        rule = ("--set", "dial_allow=127.0.0.1", "--neighbour", "B9@127.0.0.1:9")
        broker = started.start(*arguments, *rule).ready()
        for kind in (LinkKind.PRIMARY, None):
            with dial(broker, "B8", kind) as stranger:
                assert (
                    stranger.reason() == f'{not_listed}, which accepts no other (accept = "listed")'
                )
        assert b"B8" not in kept(tmp_path)
        with dial(broker, "B8", LinkKind.SOFT) as friend, dial(broker, "B9") as neighbour:
            assert friend.hear(Hello).kind is None  # it takes the link for what the dialler says
            assert neighbour.hear(Hello).kind is LinkKind.PRIMARY
            eventually(lambda: set(links(broker)) == {"B8", "B9"})
            with dial(broker, "B8", LinkKind.PRIMARY) as friend_of_friends:
                assert friend_of_friends.reason().startswith(not_listed)
            assert links(broker)["B8"][:2] == ("soft", "up")
        assert broker.metric("byway_internal_errors_total") == 0


def test_nothing_remains_of_a_dialler_that_is_refused_at_its_greeting(tmp_path: Path) -> None:
    with brokers() as started:
        broker = started.start(
            "--id", "B1", *ANYWHERE, "--data", str(tmp_path), "--set", "limits.soft_links=0"
        ).ready()
        with dial(broker, "first", LinkKind.PRIMARY) as first:
            first.hear(Batch)
            before = links(broker)
            for number in range(40):
                name = f"enemy-{number}"
                for said in (
                    Hello(name, 1, 0, 0, 0, 0, kind=LinkKind.SOFT),
                    Hello(name, 1, 0, 0, 0, 0, kind=LinkKind.OPENING, address="127.0.0.1:99"),
                    Hello(name, 1, 0, 0, 0, 0, kind=LinkKind.SOFT, learnt=True, added=True),
                    Hello(name, 2, 0, 0, 0, 0, kind=LinkKind.PRIMARY),
                    ["hello", name, 1, 0, 0, 0, 0, 0, PROTOCOL_VERSION, "firm", "", False, False],
                    ["hello", name, 1, 0, 0, 0, 0, 0, PROTOCOL_VERSION, None, "x" * 271, False],
                ):
                    with RawPeer(broker.port).as_broker(name).say(said) as enemy:
                        assert enemy.reason()
                        assert not any(isinstance(frame, Hello) for frame in enemy.heard)
            assert links(broker) == before
        eventually(lambda: broker.metric("byway_connections", role="unknown") == 0)
        assert b"enemy" not in kept(tmp_path)
        assert broker.metric("byway_internal_errors_total") == 0


def test_a_soft_connection_does_not_replace_one_of_the_tree_nor_the_other_way_round() -> None:
    with brokers() as started:
        broker = started.start("--id", "B1", *ANYWHERE).ready()
        for there, other in ((None, LinkKind.SOFT), (LinkKind.SOFT, LinkKind.PRIMARY)):
            name = f"with-{other}"
            with dial(broker, name, there) as first:
                first.say(DIGEST) if there is None else None
                first.hear(Hello)
                eventually(lambda name=name: name in links(broker))
                with dial(broker, name, other) as second:
                    kind = "soft" if there else "primary"
                    assert second.reason() == f"a {kind} link is up"
                assert links(broker)[name][0] == kind
                assert f"link to {name} is down" not in broker.log


# --- where they say that they can be dialled -----------------------------------------------------


@pytest.mark.parametrize(
    "lie",
    [
        "255.255.255.255:7001", "0.0.0.0:7001", "[::]:7001", "224.0.0.1:7001", "127.0.0.1:0",
        "10.0.0.1:99999", "127.1:7001", "2130706433:7001", "a b:7", "h/../:7", "x" * 254 + ":7001",
        "user@127.0.0.1:7001", "own",
    ],
)  # fmt: skip
def test_an_address_that_no_other_broker_can_have_is_not_kept(lie: str) -> None:
    with brokers() as started:
        broker = started.start("--id", "B1", *ANYWHERE).ready()
        lie = broker.address if lie == "own" else lie
        with dial(broker, "B2", LinkKind.PRIMARY, address=lie, learnt=True) as peer:
            peer.hear(Batch)
            assert links(broker)["B2"][2] == ""
        broker.logged("B2 says that it can be dialled at ")
        assert broker.metric("byway_internal_errors_total") == 0


def test_an_address_is_dialled_if_the_settings_allow_it_and_not_else() -> None:
    with brokers() as started, listener() as (there, address):
        for rules, is_dialled in (("", True), ("10.0.0.0/8,*.example.org", False)):
            limits = ("--set", f"dial_allow={rules}") if rules else ()
            broker = started.start("--id", "B1", *ANYWHERE, *SOON, *limits).ready()
            with dial(broker, "B2", LinkKind.PRIMARY, address=address, learnt=True) as peer:
                peer.say(DIGEST)
                eventually(lambda b=broker: links(b)["B2"] == ("primary", "agreeing", address))
                _sync(peer)
            if is_dialled:
                there.accept()[0].close()
            else:
                why = f"B2 is not dialled: no rule of dial_allow admits {address}"
                broker.logged(why)
                there.settimeout(1.0)
                with pytest.raises(TimeoutError):
                    there.accept()
                assert broker.log.count(why) == 1
            broker.kill()


def _sync(peer: RawPeer) -> None:
    """Say that this broker has nothing, so that it stays a neighbour when it goes."""
    synced = (AdvertisementsSynced(()), SubscriptionsSynced(()))
    peer.say(Batch(Lane.CONTROL, 2, synced))
    deadline = time.monotonic() + WAIT_S
    while not any(
        isinstance(m, SubscriptionsSynced)
        for frame in peer.heard
        if isinstance(frame, Batch)
        for m in frame.messages
    ):
        assert time.monotonic() < deadline
        _hear_more(peer)


def _hear_more(peer: RawPeer) -> None:
    before = len(peer.heard)
    heard, peer.heard = peer.heard, []
    try:
        peer.hear(Batch)
    finally:
        peer.heard = heard + peer.heard
    assert len(peer.heard) > before


def test_the_address_of_somebody_else_disturbs_nobody() -> None:
    """B2 says that it is where B3 is, a neighbour of B1. B1 dials there again and again and finds
    another broker; the link between B1 and B3 stays up."""
    with brokers() as started:
        third = started.start("--id", "B3", *ANYWHERE, *SOON).ready()
        listed = ("--neighbour", f"B3@{third.address}")
        broker = started.start("--id", "B1", *ANYWHERE, *SOON, *listed).ready()
        eventually(lambda: links(broker).get("B3", ("", ""))[1] == "up")
        with dial(broker, "B2", LinkKind.PRIMARY, address=third.address, learnt=True) as liar:
            liar.say(DIGEST)
            _sync(liar)
        eventually(lambda: broker.log.count(f"{third.address} is B3, not B2") >= 5)
        assert links(broker)["B3"][:2] == ("primary", "up")
        assert "link to B3 is down" not in broker.log
        assert "link to B1 is down" not in third.log


def test_what_this_broker_says() -> None:
    with brokers() as started:
        everywhere = ("--listen", "0.0.0.0:0", "--http", "127.0.0.1:0", "--set", "accept=any")
        named = ("--advertise", "broker.example.org:7001")
        for arguments, expected in (
            (ANYWHERE, "own"),
            (everywhere, ""),
            ((*everywhere, *named), "broker.example.org:7001"),
            ((*ANYWHERE, *named), "broker.example.org:7001"),
        ):
            broker = started.start("--id", "B1", *arguments).ready()
            with dial(broker, "B2") as peer:
                said = peer.hear(Hello).address
                assert said == (broker.address if expected == "own" else expected)
            broker.kill()


def test_a_link_that_its_other_end_closes_is_gone_and_nobody_is_warned() -> None:
    with brokers() as started:
        broker = started.start("--id", "B1", *ANYWHERE).ready()
        with dial(broker, "S", LinkKind.SOFT) as peer:
            peer.hear(Hello)
            peer.say(Batch(Lane.CONTROL, 1, (Disconnect("enough"),)), Goodbye("enough", True))
            peer.close()  # at once: what it had sent is handled all the same
        eventually(lambda: links(broker) == {})
        broker.logged("link to S is closed: enough")
        assert "warning" not in broker.log


def test_a_broker_of_another_version_is_refused_whatever_it_dials_for() -> None:
    with brokers() as started:
        broker = started.start("--id", "B1", *ANYWHERE).ready()
        for version in (PROTOCOL_VERSION - 1, PROTOCOL_VERSION + 1):
            with RawPeer(broker.port) as peer:
                peer.say(Preamble(version, "broker", "old", 1, 4_194_304, 5_000))
                assert peer.reason() == (
                    f"broker old speaks version {version}, "
                    f"broker B1 expected version {PROTOCOL_VERSION}"
                )
        assert links(broker) == {}
