"""A broker process under load whose snapshots are written by child processes that are killed, and
that is killed itself meanwhile: nothing that it acknowledged is lost."""

import os
import signal
import sys
from pathlib import Path

import msgspec
import pytest

from byway.model import ANY, parse
from byway.model.messages import (
    AdvertiseRequest,
    Body,
    PublicationsConfirmed,
    PublishRequest,
    Settled,
    SubscribeRequest,
)
from tests.integration.processes import BrokerProcess, RawClient, brokers, eventually

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no child"),
]
SESSION_US = 60_000_000
PATIENT = ("--set", "limits.keepalive=60s")
SUBSCRIPTIONS = 5_000
LARGE = msgspec.msgpack.encode(Body({"x": 1}, b"x" * 1_000_000))
SMALL = msgspec.msgpack.encode(Body({"wanted": 1}))
PUBLICATIONS_MAX = 60
"""After as many large publications a journal is long."""


def begin(publisher: RawClient, subscriber: RawClient) -> None:
    publisher.ask(AdvertiseRequest("a", ANY))
    publisher.is_told(Settled("a"))
    wanted = [SubscribeRequest("w", parse("wanted = 1"))]
    unwanted = [
        SubscribeRequest(str(n), parse(f"y = {n} and z > {n}")) for n in range(SUBSCRIPTIONS)
    ]
    for request in (*wanted, *unwanted):
        subscriber.ask(request)
    subscriber.is_told(Settled(str(SUBSCRIPTIONS - 1)))


def publish_until_a_snapshot_begins(
    broker: BrokerProcess, publisher: RawClient, first: int, data: Path
) -> int:
    """Publish, one wanted publication among large ones, until a child writes a snapshot; the
    sequence of the last one that was confirmed."""
    before = latest_journal(data)
    for sequence in range(first, first + PUBLICATIONS_MAX):
        body = SMALL if sequence == first else LARGE
        publisher.ask(PublishRequest(sequence, body))
        publisher.is_told(PublicationsConfirmed(sequence))
        if latest_journal(data) != before:
            return sequence
    raise AssertionError(f"no snapshot: {broker!r}")


def latest_journal(data: Path) -> str:
    return max(path.name for path in data.glob("journal-*"))


def children(broker: BrokerProcess) -> list[int]:
    """The copies of a broker's process."""
    own = Path(f"/proc/{broker.process.pid}")
    found = (own / f"task/{broker.process.pid}/children").read_text().split()
    command = (own / "cmdline").read_bytes()
    return [int(child) for child in found if Path(f"/proc/{child}/cmdline").read_bytes() == command]


def test_a_broker_that_is_killed_while_its_child_writes_continues_exactly(tmp_path: Path) -> None:
    with brokers() as started:
        arguments = ("--id", "B1", "--listen", "127.0.0.1:0", "--data", str(tmp_path), *PATIENT)
        broker = started.start(*arguments).ready()
        publisher = started.client(broker, "p", SESSION_US)
        subscriber = started.client(broker, "s", SESSION_US)
        begin(publisher, subscriber)
        last, wanted = 0, []
        for _ in range(3):
            wanted.append(last + 1)
            last = publish_until_a_snapshot_begins(broker, publisher, last + 1, tmp_path)
            broker.kill()  # the child, if it still runs, is in nobody's way
            broker = started.again(broker).ready()
            assert "resumed after replaying" in broker.log
            assert "may not be the last state" not in broker.log
            publisher = started.client(broker, "p", SESSION_US)
            assert publisher.attached.resumed
            assert publisher.attached.published == last
        subscriber = started.client(broker, "s", SESSION_US)
        subscriber.until(lambda: subscriber.sequences == wanted)


def test_a_child_that_is_killed_costs_nothing_but_its_snapshot(tmp_path: Path) -> None:
    with brokers() as started:
        broker = started.start(
            "--id", "B1", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0",
            "--data", str(tmp_path), *PATIENT,
        ).ready()  # fmt: skip
        publisher = started.client(broker, "p", SESSION_US)
        subscriber = started.client(broker, "s", SESSION_US)
        begin(publisher, subscriber)
        last, killed = 0, 0
        while not killed:
            last = publish_until_a_snapshot_begins(broker, publisher, last + 1, tmp_path)
            for child in children(broker):
                os.kill(child, signal.SIGKILL)
                killed += 1
        assert len(list(tmp_path.glob("journal-*"))) == 2
        last = publish_until_a_snapshot_begins(broker, publisher, last + 1, tmp_path)
        broker.logged("a snapshot failed, its journals are kept: its process was killed by SIGKILL")
        assert broker.metric("byway_snapshots_failed_total") == 1
        eventually(lambda: len(list(tmp_path.glob("journal-*"))) == 1)
        broker.signal(signal.SIGTERM)
        assert broker.wait() == 0
        broker = started.again(broker).ready()
        assert "resumed after a clean stop" in broker.log
        assert started.client(broker, "p", SESSION_US).attached.published == last
