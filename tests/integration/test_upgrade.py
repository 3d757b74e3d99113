"""A network that an older version stopped is started by this one, as the page *Upgrading* says:
nothing is lost or doubled, and sessions go on. `testdata/state/README.md` tells what it has."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from byway import __version__
from byway.model.messages import (
    PROTOCOL_VERSION,
    Attached,
    Body,
    DeliveriesReceived,
    Preamble,
    PublicationsAccepted,
    PublicationsConfirmed,
    PublishRequest,
)
from byway.model.trace_schema import TraceEvent
from byway.story import read_story
from byway.trace import read_trace
from byway.wire import FRAME_BYTES_MAX, encode
from tests.integration.processes import BrokerProcess, Brokers, RawClient, brokers, environment

pytestmark = pytest.mark.integration

STATE = Path(__file__).parents[2] / "testdata/state"
NETWORKS = sorted(path.name for path in STATE.glob("network-*"))
PRESENT = "present"
"""The network that this version makes."""
HOUR_US = 3_600_000_000
SETTINGS = (
    "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
    "--set", "limits.retry=20ms", "--set", "limits.retry_max=200ms",
    "--set", "limits.refused_max=200ms", "--set", "limits.keepalive=60s",
    "--set", "core.covering=incremental", "--set", "core.incremental_bursts=[1, 5000]",
    "--set", "core.pruning_samples_min=2",
)  # fmt: skip
ABOUT_X = msgspec.msgpack.encode(Body({"x": 7, "y": 7}))
Facts = dict[str, Any]


@pytest.fixture(scope="module")
def present(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a network of this version left."""
    spec = importlib.util.spec_from_file_location("make_network", STATE / "make_network.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script.make(tmp_path_factory.mktemp("state"))  # type: ignore[no-any-return]


@pytest.fixture(params=[*NETWORKS, PRESENT])
def left(request: pytest.FixtureRequest) -> Path:
    """What a network of any version left."""
    if request.param == PRESENT:
        return request.getfixturevalue("present")  # type: ignore[no-any-return]
    return STATE / request.param


class Network:
    """Copies of the directories of one network, and the brokers that go on from them."""

    def __init__(self, left: Path, directory: Path, started: Brokers, hub: str = "hub") -> None:
        self.facts: Facts = json.loads((left / "facts.json").read_text())
        self.directory = directory
        self.brokers: dict[str, BrokerProcess] = {}
        self._started = started
        for name, copied in (("west", "west"), ("east", "east"), ("hub", hub)):
            shutil.copytree(left / copied, directory / name)

    def arguments(self, name: str, kept: str = "--data") -> tuple[str, ...]:
        listed: tuple[str, ...] = ()
        if name == "hub":
            dialled = (f"{end}@{self.brokers[end].address}" for end in ("west", "east"))
            listed = tuple(word for end in dialled for word in ("--neighbour", end))
        where = (kept, str(self.directory / name)) if kept else ()
        return ("--id", name, *where, *SETTINGS, *listed)

    def start(self, *hub_arguments: str, hub_kept: str = "--data") -> None:
        for name in ("west", "east"):
            self.brokers[name] = self._started.start(*self.arguments(name)).ready()
        arguments = self.arguments("hub", hub_kept)
        self.brokers["hub"] = self._started.start(*arguments, *hub_arguments).ready()
        for end in ("west", "east"):
            self.brokers[end].is_linked_to("hub")

    def client(self, name: str) -> RawClient:
        told = self.facts["clients"][name]
        return self._started.client(self.brokers[told["home"]], name, HOUR_US, told["received"])

    def missing(self, name: str) -> dict[str, list[int]]:
        """Numbers of the publications that a client must still get, by publisher."""
        told = self.facts["clients"][name]["missing"]
        return {who: list(range(first, last + 1)) for who, (first, last) in told.items()}

    def faults(self) -> dict[str, float]:
        """How many inputs raised, by broker, where any did."""
        counts = {n: b.metric("byway_internal_errors_total") for n, b in self.brokers.items()}
        return {name: count for name, count in counts.items() if count}


def delivered(client: RawClient) -> dict[str, list[int]]:
    """Numbers of the publications that a client got, by publisher."""
    got: dict[str, list[int]] = {}
    for delivery in client.deliveries:
        got.setdefault(delivery.publication.publisher, []).append(delivery.publication.sequence)
    return got


def publish(client: RawClient, first: int, last: int) -> list[int]:
    """Publish, and wait until all is confirmed."""
    numbers = list(range(first, last + 1))
    client.ask(*(PublishRequest(sequence, ABOUT_X) for sequence in numbers))
    client.is_told(PublicationsConfirmed(last))
    return numbers


def gets(client: RawClient, expected: dict[str, list[int]]) -> None:
    """Wait for as many deliveries, and compare all of them: none twice, and in order."""
    count = sum(map(len, expected.values()))
    client.until(lambda: len(client.deliveries) >= count)
    assert delivered(client) == expected


def test_there_is_a_network_of_every_older_version() -> None:
    layouts = STATE.glob("layout-*/facts.json")
    versions = {json.loads(path.read_text())["version"] for path in layouts} - {__version__}
    assert {f"network-{version}" for version in versions} <= set(NETWORKS)
    assert len(versions) >= 3


def test_a_network_goes_on_where_another_version_stopped(left: Path, tmp_path: Path) -> None:
    with brokers() as started:
        network = Network(left, tmp_path, started)
        network.start()
        for broker in network.brokers.values():
            assert "resumed after a clean stop" in broker.log
        last = network.facts["published"]["p"]
        p = network.client("p")
        assert p.attached == Attached(resumed=True, published=last)
        p.is_told(PublicationsConfirmed(last))  # also what no other broker had
        q = network.client("q")
        assert q.attached == Attached(resumed=True, published=network.facts["published"]["q"])
        takers = {taker: network.client(taker) for taker in ("s", "away", "here")}
        expected = {taker: network.missing(taker) for taker in takers}
        for taker, client in takers.items():
            assert client.attached == Attached(resumed=True, published=0)
            gets(client, expected[taker])

        # subscriptions and the advertisement are in force, and state is kept by this version
        more = publish(p, last + 1, last + 5)
        for taker, client in takers.items():
            expected[taker]["p"] += more
            gets(client, expected[taker])
        s = takers["s"]
        received = network.facts["clients"]["s"]["received"] + len(s.deliveries)
        s.ask(DeliveriesReceived(received))
        hub = network.brokers["hub"]
        assert hub.metric("byway_routing_entries", table="subscriptions") == 5
        hub.kill()
        network.brokers["hub"] = hub = started.again(hub).ready()
        assert "resumed after replaying" in hub.log
        assert "may not be the last state" not in hub.log
        more = publish(p, last + 6, last + 10)
        expected["s"]["p"] += more
        gets(s, expected["s"])  # a whole network later, none came twice
        assert network.faults() == {}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_journal_of_another_version_is_refused_or_replayed(name: str, tmp_path: Path) -> None:
    with brokers() as started:
        network = Network(STATE / name, tmp_path, started, hub="hub-killed")
        is_refused(tmp_path / "hub", network.facts["version"])
        network.start("--stale")
        hub = network.brokers["hub"]
        assert "that may not be the last state" in hub.log
        only_its_own_clients_lose_their_sessions(network)
        assert network.faults() == {}
        hub.signal(signal.SIGTERM)
        assert hub.wait() == 0
        hub = started.start(*network.arguments("hub")).ready()
        assert "resumed after a clean stop" in hub.log


def is_refused(directory: Path, version: str) -> None:
    """A broker does not start there, names two ways out, and leaves everything as it is."""
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    words = ("broker", "--id", "hub", "--data", str(directory), *SETTINGS)
    refused = subprocess.run(
        [sys.executable, "-m", "byway", *words],
        capture_output=True, text=True, timeout=60, check=False, env=environment(),
    )  # fmt: skip
    assert (refused.returncode, refused.stdout) == (1, "")
    assert f"left by byway {version} without a clean stop, and this is" in refused.stderr
    assert f"start byway {version} and stop it cleanly; or give --stale" in refused.stderr
    (directory / "lock").unlink()
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


def only_its_own_clients_lose_their_sessions(network: Network) -> None:
    """`hub` has lost its last state: what its neighbours have, arrives all the same, and once."""
    last = network.facts["published"]["p"]
    p, s = network.client("p"), network.client("s")
    assert p.attached == Attached(resumed=True, published=last)
    assert s.attached == Attached(resumed=True, published=0)
    p.is_told(PublicationsConfirmed(last))
    expected = network.missing("s")
    gets(s, expected)
    expected["p"] += publish(p, last + 1, last + 5)
    gets(s, expected)
    for taker in ("away", "here"):
        assert network.client(taker).attached == Attached(resumed=False, published=0)


def test_a_broker_without_data_learns_its_tables_from_its_neighbours(
    left: Path, tmp_path: Path
) -> None:
    """With the names of its neighbours from `--state-dir`, where its version had that, or from its
    list alone."""
    kept = "--state-dir" if (left / "hub-marked").exists() else ""
    with brokers() as started:
        network = Network(left, tmp_path, started, hub="hub-marked" if kept else "hub")
        network.start(hub_kept=kept)
        only_its_own_clients_lose_their_sessions(network)
        assert network.faults() == {}


@contextlib.contextmanager
def older_broker(name: str) -> Iterator[tuple[int, list[bytes]]]:
    """A broker of the protocol version before this one; its port, and what it is told."""

    def answer() -> None:
        own = Preamble(PROTOCOL_VERSION - 1, "broker", name, 1, FRAME_BYTES_MAX, 60_000)
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, contextlib.suppress(ConnectionError):
                    connection.sendall(encode(own))
                    while data := connection.recv(65_536):
                        told.append(data)

    told: list[bytes] = []
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield listener.getsockname()[1], told
        listener.shutdown(socket.SHUT_RDWR)  # wakes `accept`
        thread.join(15)
        assert not thread.is_alive()


def test_a_broker_that_was_forgotten_is_refused_and_waited_for(tmp_path: Path) -> None:
    with brokers() as started:
        network = Network(STATE / NETWORKS[-1], tmp_path, started)
        last = network.facts["published"]["p"]
        with older_broker("east") as (port, told):
            west = started.start(*network.arguments("west")).ready()
            hub = started.start(
                "--id", "hub", "--data", str(tmp_path / "hub"), *SETTINGS,
                "--neighbour", f"west@{west.address}", "--neighbour", f"east@127.0.0.1:{port}",
            ).ready()  # fmt: skip
            hub.logged(
                f"broker east speaks version {PROTOCOL_VERSION - 1}, "
                f"broker hub expected version {PROTOCOL_VERSION}"
            )
            network.brokers = {"west": west, "hub": hub}
            p = network.client("p")
            p.ask(*(PublishRequest(n, ABOUT_X) for n in range(last + 1, last + 6)))
            p.is_told(PublicationsAccepted(last + 5))
            here = network.client("here")
            expected = network.missing("here")
            expected["p"] += range(last + 1, last + 6)
            gets(here, expected)  # what is on this side goes on
            assert hub.metric("byway_link_unconfirmed_messages", link="east") == 15
            assert f"expected version {PROTOCOL_VERSION}".encode() in b"".join(told)
        confirmed = [reply for reply in p.told if isinstance(reply, PublicationsConfirmed)]
        assert all(reply.sequence <= network.facts["confirmed"]["p"] for reply in confirmed)
        arguments = list(network.arguments("east"))
        arguments[arguments.index("--listen") + 1] = f"127.0.0.1:{port}"
        network.brokers["east"] = started.start(*arguments).ready()
        p.is_told(PublicationsConfirmed(last + 5))
        s = network.client("s")
        expected = network.missing("s")
        expected["p"] += range(last + 1, last + 6)
        gets(s, expected)
        assert network.faults() == {}


def test_traces_and_directories_of_any_version_are_read(left: Path) -> None:
    table = read_trace(left / "trace")
    rows = [row for row in table.to_pylist() if row["event"] == TraceEvent.RECEIVED]
    got = [(row["publisher"], row["sequence"]) for row in rows]
    assert sorted(got) == [*(("p", n) for n in range(1, 16)), *(("q", n) for n in range(1, 4))]
    changes = [row for row in table.to_pylist() if row["event"] == TraceEvent.LINK_CHANGED]
    assert {(row["link"], row["span"]) for row in changes} == {("west", 1), ("east", 1)}
    story = read_story("p/7", [left / "trace", left / "hub-killed"])
    assert [step.what for step in story.steps if step.evidence == "journal"] == ["publish"]
    assert {step.what for step in story.steps} >= {"received", "forwarded", "delivered"}
    story = read_story("here/broad", [left / "hub"])
    assert [step.what for step in story.steps] == ["placeholder held"]
