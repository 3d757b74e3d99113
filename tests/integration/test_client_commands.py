"""`byway client` and `byway subscription` on live brokers: who is listed, what is cut, and what
happens to a client that an operator disconnects."""

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import byway
from byway.cli.main import app
from byway.model import parse
from byway.model.messages import Goodbye, Settled, SubscribeRequest
from tests.integration.loops import until
from tests.integration.network import ANYWHERE, RETRY
from tests.integration.processes import (
    WAIT_S,
    BrokerProcess,
    Brokers,
    RawClient,
    brokers,
    environment,
    eventually,
)

pytestmark = pytest.mark.integration

TTL_US = 60_000_000


@contextlib.contextmanager
def hub() -> Iterator[tuple[Brokers, BrokerProcess]]:
    with brokers() as started:
        yield started, started.start("--id", "hub", *ANYWHERE, *RETRY).ready()


def run(broker: BrokerProcess, *arguments: str) -> Result:
    """`byway` in this process, with the operations port of a broker."""
    http = broker.http.removeprefix("http://")
    return CliRunner().invoke(app, [*arguments, "--http", http])


def done(broker: BrokerProcess, *arguments: str) -> list[str]:
    """The lines of a command that succeeds."""
    result = run(broker, *arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout.splitlines()


def facts(broker: BrokerProcess, *arguments: str) -> Any:
    return json.loads("\n".join(done(broker, *arguments, "--json")))


def subscribe(client: RawClient, name: str, filter: str) -> None:
    client.ask(SubscribeRequest(name, parse(filter)))
    client.is_told(Settled(name))


def test_clients_and_subscriptions_are_listed() -> None:
    with hub() as (started, broker):
        assert done(broker, "client", "list") == ["hub has no clients"]
        assert done(broker, "subscription", "list") == ["clients of hub have none"]
        reader = started.client(broker, "reader", TTL_US)
        subscribe(reader, "cheap", "price < 5")
        subscribe(reader, "dear", "price > 500")
        passer = started.client(broker, "a-client-with-a-long-name")
        subscribe(passer, "s", "TRUE")

        head, first, second = done(broker, "client", "list")
        assert first.split()[:2] + first.split()[3:] == "reader connected 1m 2 0 0 0 0".split()
        assert second.split()[3:] == ["-", "1", "0", "0", "0", "0"]
        for word in ("connected", "127.0.0.1:"):
            assert first.index(word) == second.index(word)
        assert head.index("state") == first.index("connected")
        assert len(head) == len(first) == len(second)
        assert head.index("subscriptions") + len("subscriptions") == first.index(" 2 ") + 2

        listed = facts(broker, "client", "list")
        assert (listed["broker"], listed["total"], listed["connected"]) == ("hub", 2, 2)
        assert [client["session_ttl_s"] for client in listed["clients"]] == [60.0, 0.0]

        shown = done(broker, "client", "show", "reader")
        assert shown[0].split() == ["client", "reader"]
        assert "session         kept for 1m when the client vanishes" in shown
        assert shown[-3:] == [
            "kind          name   settled  filter",
            "subscription  cheap  yes      price < 5",
            "subscription  dear   yes      price > 500",
        ]
        assert done(broker, "subscription", "list") == [
            "client                     name   settled  filter",
            "reader                     cheap  yes      price < 5",
            "reader                     dear   yes      price > 500",
            "a-client-with-a-long-name  s      yes      TRUE",
        ]
        assert (
            len(facts(broker, "subscription", "list", "--client", "reader")["subscriptions"]) == 2
        )

        cut = run(broker, "subscription", "list", "--limit", "2")
        assert len(cut.stdout.splitlines()) == 3
        assert cut.stderr == "2 of 3 subscriptions are shown (--limit N shows up to 1,000)\n"
        assert len(facts(broker, "client", "list", "--limit", "1")["clients"]) == 1

        unknown = run(broker, "client", "show", "nobody")
        assert (unknown.exit_code, unknown.stdout) == (1, "")
        assert unknown.stderr == "no client of hub is called nobody\n"


def test_subscriptions_of_neighbours_are_listed_if_asked_for() -> None:
    with hub() as (started, broker):
        leaf = started.start("--id", "leaf", *ANYWHERE, *RETRY, "--neighbour", broker.address)
        leaf.ready()
        eventually(lambda: broker.metric("byway_link_up", link="leaf") == 1)

        async def work() -> None:
            async with (
                byway.connect(broker.address, name="writer") as writer,
                byway.connect(leaf.address, name="far") as far,
                writer.advertise("ANY"),
                far.subscribe("n > 1", name="some"),
            ):
                assert done(broker, "subscription", "list") == ["clients of hub have none"]
                (row,) = facts(broker, "subscription", "list", "--all")["subscriptions"]
                assert (row["client"], row["link"], row["filter"]) == ("far", "leaf", "n > 1")
                (head, line) = done(broker, "subscription", "list", "--all")
                assert head.index("from") == line.index("link leaf")
                (own,) = facts(broker, "client", "show", "writer")["entries"]
                assert (own["kind"], own["settled"]) == ("advertisement", True)

        asyncio.run(work())


def test_a_session_with_a_time_to_live_is_kept() -> None:
    with hub() as (started, broker):
        reader = started.client(broker, "reader", TTL_US)
        subscribe(reader, "all", "TRUE")
        assert done(broker, "client", "disconnect", "reader") == [
            "hub has disconnected reader",
            "kept for 1m: its session, with 1 subscription, 0 advertisements, 0 unacknowledged "
            "deliveries",
            "it may reconnect, as the byway client does (--end-session tells it not to)",
        ]
        assert reader.goodbye() == Goodbye("an operator disconnected this client", False)
        (away,) = facts(broker, "client", "list")["clients"]
        assert (away["connected"], away["subscriptions"]) == (False, 1)
        again = run(broker, "client", "disconnect", "reader")
        assert again.exit_code == 1
        assert again.stderr == (
            "reader is not connected to hub; its session is kept for it (--end-session ends it)\n"
        )

        async def publish() -> None:
            async with byway.connect(broker.address) as client, client.advertise("ANY"):
                await client.publish({"n": 1})

        asyncio.run(publish())
        assert facts(broker, "client", "show", "reader")["client"]["kept"] == 1
        back = started.client(broker, "reader", TTL_US)
        assert back.attached is not None
        assert back.attached.resumed
        back.until(lambda: back.deliveries)

        back.close()
        eventually(lambda: not facts(broker, "client", "list")["clients"][0]["connected"])
        assert done(broker, "client", "disconnect", "reader", "--end-session") == [
            "hub has ended the session of reader",
            "ended: its session, with 1 subscription, 0 advertisements, 1 unacknowledged delivery",
        ]
        assert done(broker, "client", "list") == ["hub has no clients"]
        assert done(broker, "subscription", "list") == ["clients of hub have none"]


def test_a_client_without_a_session_loses_what_it_holds_and_may_come_back() -> None:
    with hub() as (_, broker):

        async def work() -> None:
            async with (
                byway.connect(broker.address, name="reader", retry=0.02) as reader,
                reader.subscribe("TRUE") as events,
            ):
                report = facts(broker, "client", "disconnect", "reader")
                assert (report["session_ended"], report["may_return"]) == (True, True)
                assert report["subscriptions"] == 1
                await until(lambda: reader.status.sessions == 2)
                await until(lambda: facts(broker, "subscription", "list")["total"] == 1)
                async with byway.connect(broker.address) as writer, writer.advertise("ANY"):
                    await writer.publish({"n": 2})
                event = await asyncio.wait_for(anext(aiter(events)), WAIT_S)
                assert event.attributes == {"n": 2}

        asyncio.run(work())


def test_a_client_whose_session_is_ended_does_not_come_back() -> None:
    with hub() as (_, broker):
        subscriber = subprocess.Popen(
            [sys.executable, "-m", "byway", "sub", "TRUE", "--name", "reader",
             "--session-ttl", "60", "--broker", broker.address],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
        )  # fmt: skip
        with subscriber:
            assert subscriber.stderr is not None
            assert subscriber.stderr.readline().startswith("settled at hub")
            said = done(broker, "client", "disconnect", "reader", "--end-session")
            assert said == [
                "hub has disconnected reader",
                "ended: its session, with 1 subscription, 0 advertisements, 0 unacknowledged "
                "deliveries",
                "it was told not to reconnect",
            ]
            assert subscriber.wait(WAIT_S) == 1
            assert "an operator disconnected this client" in subscriber.stderr.read()
        assert done(broker, "client", "list") == ["hub has no clients"]
        broker.logged("client reader is disconnected by an operator; its session has ended")


def test_the_port_must_be_on_loopback() -> None:
    with brokers() as started:
        broker = started.start(
            "--id", "hub", "--listen", "127.0.0.1:0", "--http", "0.0.0.0:0"
        ).ready()
        port = broker.http.rpartition(":")[2]
        for arguments in (["client", "list"], ["subscription", "list"], ["client", "show", "x"]):
            refused = CliRunner().invoke(app, [*arguments, "--http", f"127.0.0.1:{port}"])
            assert refused.exit_code == 1
            assert "commands are accepted on loopback only" in refused.stderr
