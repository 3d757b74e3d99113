"""Brokers as processes: they start, say so, survive kill -9 with a directory, reload and stop."""

import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from byway.model import ANY, parse
from byway.model.messages import (
    AdvertiseRequest,
    Attached,
    Body,
    DeliveriesReceived,
    Delivery,
    Goodbye,
    PublicationsAccepted,
    PublicationsConfirmed,
    PublishRequest,
    Settled,
    SubscribeRequest,
)
from byway.model.trace_schema import TraceEvent
from byway.trace import read_trace
from tests.integration.processes import (
    BrokerProcess,
    Brokers,
    RawClient,
    brokers,
    environment,
    eventually,
)

pytestmark = pytest.mark.integration

BODY = msgspec.msgpack.encode(Body({"x": 1}))
SESSION_US = 60_000_000
FAST = ("--set", "limits.keepalive_ms=60000", "--set", "limits.retry_ms_max=100")
ANYWHERE = ("--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", *FAST)


def publish(client: RawClient, first: int, last: int) -> None:
    client.ask(*(PublishRequest(sequence, BODY) for sequence in range(first, last + 1)))


def test_kill_9_with_data_is_no_loss(tmp_path: Path) -> None:
    """Both brokers of a chain are killed, with publications on their way and sessions open."""
    with brokers() as started:
        data = [("--data", str(tmp_path / name)) for name in ("one", "two")]
        first = started.start("--id", "B1", *data[0], *ANYWHERE).ready()
        assert first.promise == f"keeps state in {tmp_path / 'one'}"
        second = started.start(
            "--id", "B2", *data[1], *ANYWHERE, "--neighbour", f"B1@{first.address}"
        ).ready()
        first.is_linked_to("B2")
        publisher = started.client(first, "p", SESSION_US)
        subscriber = started.client(second, "s", SESSION_US)
        idle = started.client(
            first, "idle"
        )  # no session of its own: there is still a restart's grace
        idle.ask(SubscribeRequest("i", parse("y = 1")))
        publisher.ask(AdvertiseRequest("a", ANY))
        publisher.is_told(Settled("a"))
        subscriber.ask(SubscribeRequest("w", parse("x > 0")))
        subscriber.is_told(Settled("w"))
        idle.is_told(Settled("i"))
        publish(publisher, 1, 10)
        publisher.is_told(PublicationsConfirmed(10))
        subscriber.until(lambda: subscriber.sequences == list(range(1, 11)))
        subscriber.ask(DeliveriesReceived(7))

        second.kill()
        publish(publisher, 11, 20)
        publisher.is_told(PublicationsAccepted(20))
        first.kill()

        first, second = started.again(first), started.again(second)
        first.ready()
        second.ready()
        publisher = started.client(first, "p", SESSION_US)
        assert publisher.attached == Attached(resumed=True, published=20)
        publisher.is_told(PublicationsConfirmed(20))
        subscriber = started.client(second, "s", SESSION_US, received=10)
        assert subscriber.attached == Attached(resumed=True, published=0)
        subscriber.until(lambda: subscriber.sequences == list(range(11, 21)))
        idle = started.client(first, "idle")
        assert idle.attached == Attached(resumed=True, published=0)
        publish(publisher, 21, 21)
        publisher.is_told(PublicationsConfirmed(21))
        subscriber.until(lambda: subscriber.sequences == list(range(11, 22)))

        assert first.metric("byway_restarts_total") == 1
        assert first.metric("byway_routing_entries", table="subscriptions") == 2
        # the link went on by number: tables were not compared
        assert first.metric("byway_messages_forwarded_total", link="B2", kind="held") == 0
        assert first.metric("byway_messages_forwarded_total", link="B2", kind="pub") == 11
        assert first.metric("byway_internal_errors_total") == 0

        drains_before_it_stops(first, second, publisher)
        assert sorted(p.name for p in (tmp_path / "one").iterdir()) == ["lock", "state", "written"]


def drains_before_it_stops(
    first: BrokerProcess, second: BrokerProcess, publisher: RawClient
) -> None:
    """A broker that is told to stop waits for confirmations, and takes no more publications."""
    second.signal(signal.SIGSTOP)
    publish(publisher, 22, 25)
    publisher.is_told(PublicationsAccepted(25))
    first.signal(signal.SIGTERM)
    eventually(lambda: first.get("/readyz") == (503, "stopping\n"))
    assert first.get("/healthz")[0] == 200
    publish(publisher, 26, 26)
    assert first.get("/readyz") == (503, "stopping\n")  # it waits
    second.signal(signal.SIGCONT)
    publisher.is_told(PublicationsConfirmed(25))
    assert publisher.goodbye() == Goodbye("the broker stops", False)
    assert first.wait() == 0
    assert first.rest_of_stdout() == ""
    assert PublicationsAccepted(26) not in publisher.told


def test_without_data(tmp_path: Path) -> None:
    """It says that it is in memory only, reloads its file, and has no state after a restart."""
    file = tmp_path / "broker.toml"
    text = 'id = "B1"\nlisten = "127.0.0.1:0"\n[limits]\nclients = 10\n'
    file.write_text(text)
    with brokers() as started:
        broker = started.start("--config", str(file), "--http", "127.0.0.1:0").ready()
        assert broker.promise == (
            "in memory only: sessions and undelivered messages are lost in a crash "
            "(use --data DIR to keep them)"
        )
        assert broker.get("/readyz") == (200, "ready\n")
        client = started.client(broker, "c", SESSION_US)
        client.ask(SubscribeRequest("s", parse("x > 0")))
        client.is_told(Settled("s"))
        reloads(started, broker, file, text)
        its_port_is_taken(broker)

        client.close()
        broker.signal(signal.SIGKILL)
        assert broker.wait() == -signal.SIGKILL
        broker = started.start(
            "--id", "B1", "--listen", broker.address, "--log", "json", "--trace", str(tmp_path)
        ).ready()
        client = started.client(broker, "c", SESSION_US)
        assert client.attached == Attached(resumed=False, published=0)
        client.ask(AdvertiseRequest("a", ANY), PublishRequest(1, BODY))
        client.is_told(PublicationsConfirmed(1))
        broker.signal(signal.SIGINT)
        assert broker.wait() == 0
        last = msgspec.json.decode(broker.lines[-1])
        assert (last["broker"], last["level"], last["message"]) == ("B1", "info", "stopped")
        assert TraceEvent.PUBLISHED in read_trace(tmp_path)["event"].to_pylist()


def reloads(started: Brokers, broker: BrokerProcess, file: Path, text: str) -> None:
    """SIGHUP: what can be taken over is, the rest is told, and a bad file changes nothing."""
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
        neighbours = f'neighbours = ["127.0.0.1:{port}"]\n'
        changed = text.replace("clients = 10", "clients = 1").replace('"B1"', '"B7"')
        file.write_text(neighbours + changed)
        broker.signal(signal.SIGHUP)
        broker.logged("id has changed: that takes effect at the next start")
        broker.logged("reloaded: neighbours, limits.clients")
        nobody.settimeout(10)
        nobody.accept()[0].close()  # the new neighbour is dialled
    with pytest.raises(AssertionError, match="clients are connected, the most there may be"):
        started.client(broker, "another")
    assert broker.metric("byway_connections_closed_total", bound="clients") == 1
    file.write_text(text.replace("clients = 10", "client = 10"))
    broker.signal(signal.SIGHUP)
    broker.logged(f"not reloaded: {file}: limits.client: unknown key; did you mean")
    file.write_text(text)
    broker.signal(signal.SIGHUP)
    eventually(lambda: broker.log.count("reloaded: neighbours, limits.clients") == 2)


def its_port_is_taken(broker: BrokerProcess) -> None:
    other = BrokerProcess("--id", "B2", "--listen", broker.address)
    assert other.wait() == 1
    assert (
        f"critical listen: cannot listen on {broker.address}: another process uses this port"
        in other.log
    )
    assert other.rest_of_stdout() == ""
    other.kill()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_kill_9_in_full_flow_is_no_loss(tmp_path: Path, seed: int) -> None:
    """Publications flow while one broker or the other is killed again and again."""
    rng = random.Random(seed)
    with brokers() as started:
        first = started.start("--id", "B1", "--data", str(tmp_path / "one"), *ANYWHERE).ready()
        second = started.start(
            "--id", "B2", "--data", str(tmp_path / "two"), *ANYWHERE,
            "--neighbour", f"B1@{first.address}",
        ).ready()  # fmt: skip
        first.is_linked_to("B2")
        publisher = started.client(first, "p", SESSION_US)
        subscriber = started.client(second, "s", SESSION_US)
        publisher.ask(AdvertiseRequest("a", ANY))
        publisher.is_told(Settled("a"))
        subscriber.ask(SubscribeRequest("w", parse("x > 0")))
        subscriber.is_told(Settled("w"))
        got: list[Delivery] = []
        sent = 0
        for _ in range(6):
            for _ in range(rng.randint(1, 40)):
                publish(publisher, sent + 1, sent + 64)
                sent += 64
            time.sleep(rng.random() * 0.1)
            if rng.random() < 0.5:
                first.kill()
                first = started.again(first).ready()
                publisher = started.client(first, "p", SESSION_US)
                assert publisher.attached.resumed
                sent = publisher.attached.published
            else:
                second.kill()
                got += subscriber.all_there_is()
                second = started.again(second).ready()
                last = got[-1].number if got else 0
                subscriber = started.client(second, "s", SESSION_US, last)
                assert subscriber.attached == Attached(resumed=True, published=0)
        publisher.is_told(PublicationsConfirmed(sent))
        last = got[-1:]  # nothing new comes if it was there before
        subscriber.until(lambda: (last + subscriber.deliveries)[-1].publication.sequence == sent)
        got += subscriber.deliveries
        assert [delivery.publication.sequence for delivery in got] == list(range(1, sent + 1))


@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of files")
def test_a_broker_that_cannot_keep_its_inputs_ends(tmp_path: Path) -> None:
    """A file may not grow any more, as on a full disk: nothing is accepted that is not kept."""
    with brokers() as started:
        arguments = ("--id", "B1", "--data", str(tmp_path), *ANYWHERE)
        broker = started.start(*arguments, file_bytes_max=8_000_000).ready()
        client = started.client(broker, "p")
        client.ask(AdvertiseRequest("a", ANY))
        client.is_told(Settled("a"))
        body = msgspec.msgpack.encode(Body({"x": 1}, bytes(1_000_000)))
        for sequence in range(1, 8):
            client.ask(PublishRequest(sequence, body))
            client.is_told(PublicationsConfirmed(sequence))
        client.ask(PublishRequest(8, body))
        assert broker.wait() == 1
        assert broker.log.endswith(f"critical {tmp_path}: cannot be written to: File too large")
        client.all_there_is()
        assert PublicationsConfirmed(8) not in client.told
        broker = started.start(*arguments).ready()
        assert "may not be the last state" not in broker.log  # what found no room is gone
        client = started.client(broker, "p")
        assert client.attached == Attached(resumed=True, published=7)


def byway(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "byway", "broker", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment(),
    )


def test_settings_that_cannot_be_used_are_told_at_once(tmp_path: Path) -> None:
    file = tmp_path / "broker.toml"
    file.write_text("listen = 7001\n[core]\ncovering = 'lots'\n")
    done = byway("--config", str(file), "--set", "limits.cliens=1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        f"{file}: listen: expected host:port, found 7001",
        f"{file}: core.covering: expected one of active, incremental, lazy, none, packing, "
        "selective, found 'lots'",
        "--set limits.cliens=1: limits.cliens: unknown key; did you mean 'limits.clients'?",
    ]


def test_a_journal_of_another_version_needs_a_word(tmp_path: Path) -> None:
    old = Path(__file__).parents[2] / "testdata/state/layout-4/killed"
    shutil.copytree(old, tmp_path, dirs_exist_ok=True)
    arguments = ("--id", "B", "--data", str(tmp_path), *ANYWHERE)
    arguments += ("--set", "core.covering=incremental")
    done = byway(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert "left by byway 0.1.0 without a clean stop" in done.stderr
    with brokers() as started:
        broker = started.start(*arguments, "--stale").ready()
        broker.logged("that may not be the last state")
        broker.signal(signal.SIGTERM)
        assert broker.wait() == 0
        broker = started.start(*arguments).ready()
        broker.logged("resumed after a clean stop")


def test_a_directory_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a cake\n")
    done = byway("--id", "B1", "--listen", "127.0.0.1:0", "--data", str(tmp_path))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.endswith(f"critical {tmp_path}/state: is not a state of a byway broker\n")
