"""A network that an older version stopped is started by this one, as the page *Upgrading* says:
nothing is lost or doubled, and sessions go on. `testdata/state/README.md` tells what it has."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from byway import __version__
from byway.model.messages import (
    CLIENT_PROTOCOL_VERSION,
    PROTOCOL_VERSION,
    Attached,
    Body,
    DeliveriesReceived,
    Goodbye,
    Preamble,
    PublicationsConfirmed,
    PublishRequest,
)
from byway.trace import read_trace
from byway.wire import FRAME_BYTES_MAX
from tests.integration.processes import (
    BrokerProcess,
    Brokers,
    RawClient,
    brokers,
    environment,
)

pytestmark = pytest.mark.integration

STATE = Path(__file__).parents[2] / "testdata/state"
NETWORKS = sorted(path.name for path in STATE.glob("network-*"))
NAMES = ("west", "east", "hub")
HOUR_US = 3_600_000_000
SETTINGS = (
    "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
    "--set", "limits.retry=20ms", "--set", "limits.retry_max=200ms", "--set", "limits.keepalive=60s",
    "--set", "core.covering=incremental", "--set", "core.incremental_bursts=[1, 5000]",
    "--set", "core.pruning_samples_min=2",
)  # fmt: skip
ABOUT_X = msgspec.msgpack.encode(Body({"x": 7, "y": 7}))
Facts = dict[str, Any]


class Network:
    """Copies of the directories of one older network, and the brokers that go on from them."""

    def __init__(self, name: str, directory: Path, started: Brokers, hub: str = "hub") -> None:
        self.facts: Facts = json.loads((STATE / name / "facts.json").read_text())
        self.directory = directory
        self.brokers: dict[str, BrokerProcess] = {}
        self._started = started
        for broker in NAMES:
            left = hub if broker == "hub" else broker
            shutil.copytree(STATE / name / left, directory / broker)

    def arguments(self, name: str) -> tuple[str, ...]:
        listed: tuple[str, ...] = ()
        if name == "hub":
            dialled = (f"{end}@{self.brokers[end].address}" for end in ("west", "east"))
            listed = tuple(word for end in dialled for word in ("--neighbour", end))
        return ("--id", name, "--data", str(self.directory / name), *SETTINGS, *listed)

    def start(self, *hub_arguments: str) -> None:
        for name in NAMES:
            more = hub_arguments if name == "hub" else ()
            self.brokers[name] = self._started.start(*self.arguments(name), *more).ready()
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
        return {n: b.metric("byway_internal_errors_total") for n, b in self.brokers.items()}


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


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_goes_on_where_an_older_version_stopped(name: str, tmp_path: Path) -> None:
    with brokers() as started:
        network = Network(name, tmp_path, started)
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
        assert network.faults() == dict.fromkeys(NAMES, 0)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_journal_of_an_older_version_is_refused_or_goes_stale(name: str, tmp_path: Path) -> None:
    with brokers() as started:
        network = Network(name, tmp_path, started, hub="hub-killed")
        version = network.facts["version"]
        if version == __version__:
            pytest.skip("that of the present version is replayed")
        before = {p.name: p.read_bytes() for p in (tmp_path / "hub").iterdir()}
        refused = subprocess.run(
            [sys.executable, "-m", "byway", "broker", "--id", "hub"]
            + ["--data", str(tmp_path / "hub"), *SETTINGS],
            capture_output=True, text=True, timeout=60, check=False, env=environment(),
        )  # fmt: skip
        assert (refused.returncode, refused.stdout) == (1, "")
        assert f"left by byway {version} without a clean stop, and this is" in refused.stderr
        assert f"start byway {version} and stop it cleanly; or give --stale" in refused.stderr
        after = {p.name: p.read_bytes() for p in (tmp_path / "hub").iterdir() if p.name != "lock"}
        assert after == before

        network.start("--stale")
        hub = network.brokers["hub"]
        assert "that may not be the last state" in hub.log
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
            attached = network.client(taker).attached
            assert attached is not None
            assert not attached.resumed  # a new session
        assert network.faults() == dict.fromkeys(NAMES, 0)

        hub.signal(signal.SIGTERM)
        assert hub.wait() == 0
        network.brokers["hub"] = hub = started.start(*network.arguments("hub")).ready()
        assert "resumed after a clean stop" in hub.log


