"""Inputs that raise, over real connections: their sender stays out until someone gives them up, and
everyone else goes on."""

import asyncio
import json
import re
from pathlib import Path

import msgspec
import pytest

import byway
from byway.model import ANY, parse
from byway.model.addresses import Address, Neighbour
from byway.model.messages import (
    AdvertiseRequest,
    Attached,
    Body,
    PublicationsConfirmed,
    PublishRequest,
    Settled,
    SubscribeRequest,
)
from byway.runtime.commands import DISCARD, OperatorCommands, Reloaded
from byway.runtime.inspection import status_of
from byway.runtime.metrics import Metrics
from byway.runtime.server import BrokerServer
from byway.runtime.settings import BrokerSettings, Limits
from byway.storage.storage import Storage
from tests.integration.loops import until
from tests.integration.processes import TRAPPED, brokers
from tests.trapped import CONFIG, trap

pytestmark = pytest.mark.integration

LIMITS = Limits(retry_ms=10, retry_ms_max=50, refused_ms_max=50)
ANYWHERE = Address("127.0.0.1", 0)
SESSION_US = 60_000_000


def nothing_to_reload(traffic_stopped: bool) -> Reloaded:
    """A broker without a configuration file."""
    del traffic_stopped
    return Reloaded(broker="B1")


def test_a_link_stays_out_until_its_message_is_given_up(tmp_path, monkeypatch) -> None:
    """B1 cannot bear one publication of B2's client. Clients of B1 do not notice."""
    trap(monkeypatch)

    async def main() -> None:
        storage = Storage(str(tmp_path))
        one = BrokerSettings(id="B1", listen=ANYWHERE, core=CONFIG, limits=LIMITS)
        first = BrokerServer(one, storage.restore(1, "B1", CONFIG), storage)
        await first.start()
        neighbours = (Neighbour(first.address, "B1"),)
        second = BrokerServer(
            BrokerSettings(id="B2", listen=ANYWHERE, neighbours=neighbours, limits=LIMITS)
        )
        await second.start()
        urls = [f"byway://{server.address}" for server in (first, second)]
        local = byway.connect(urls[0], name="local")
        far = byway.connect(urls[1], name="far", session_ttl=60.0)
        async with local, far:
            await (await local.advertise(ANY)).settled()
            await (await far.advertise(ANY)).settled()
            wanted = await local.subscribe("x > 0")
            await wanted.settled()
            await (await far.publish({"x": 1})).confirmed()
            connection = first.clients["local"]
            lost = await far.publish({"x": 2, "text": "raises"})
            after = await far.publish({"x": 3})
            await until(lambda: first.driver.bars("link", "B2") != "")
            await until(lambda: "B2" not in first.links)
            await (await local.publish({"x": 4})).confirmed()
            assert first.clients["local"] is connection
            (shown,) = status_of(first).inputs_set_aside
            assert (shown.origin, shown.barred) == ("link B2", True)
            assert shown.what.startswith("publication far/")
            text = Metrics(first, storage).text().decode()
            assert "byway_set_aside 1.0" in text
            assert "byway_inputs_set_aside_total 1.0" in text
            assert second.broker.unconfirmed("B1") == 2  # neither of them is confirmed
            commands = OperatorCommands(lambda: first, lambda: None, nothing_to_reload).table()
            answer = await commands[DISCARD]({"which": shown.digest})
            told = json.loads(answer.body)["discarded"]
            assert len(told) == 1
            assert "TrappedError" in told[0]
            await lost.confirmed()
            await after.confirmed()
            got = [(await anext(wanted)).attributes["x"] for _ in range(3)]
            assert sorted(got) == [1, 3, 4]
            assert status_of(first).set_aside == 0
        for server in (second, first):
            await server.stop()
        storage.stop()

    asyncio.run(main())


BODIES = [msgspec.msgpack.encode(Body({"x": 1, "text": text})) for text in ("", "raises")]
FAILS = msgspec.msgpack.encode(Body({"x": 1, "text": "asserts"}))
TRAP = ("--set", "core.load_interval_us=60000000", "--listen", "127.0.0.1:0")


def test_a_process_goes_on_without_what_raises(tmp_path: Path) -> None:
    fine, wrong = BODIES
    with brokers() as started:
        arguments = ("--id", "B1", "--data", str(tmp_path), "--http", "127.0.0.1:0", *TRAP)
        broker = started.start(*arguments, program=TRAPPED).ready()
        other = started.client(broker, "other", SESSION_US)
        client = started.client(broker, "c", SESSION_US)
        for one in (other, client):
            one.ask(AdvertiseRequest("a", ANY), SubscribeRequest("s", parse("x > 0")))
            one.is_told(Settled("s"))
        client.ask(PublishRequest(1, fine), PublishRequest(2, wrong), PublishRequest(3, fine))
        assert "publication 2 of " in client.goodbye().reason
        other.ask(PublishRequest(1, fine))
        other.is_told(PublicationsConfirmed(1))  # over the same connection
        other.until(lambda: other.sequences == [1, 1])
        broker.logged("an input was set aside")
        assert broker.metric("byway_set_aside") == 1
        broker.kill()

        broker = started.again(broker).ready()
        assert "may not be the last state" not in broker.log
        client = started.client(broker, "c", SESSION_US, 1)
        assert client.attached == Attached(resumed=True, published=1)
        client.ask(PublishRequest(2, wrong))
        client.goodbye()
        with pytest.raises(AssertionError, match="cannot be handled here and was set aside"):
            started.client(broker, "c", SESSION_US, 1)  # it stays out
        assert broker.metric("byway_inputs_refused_total") == 1
        assert broker.metric("byway_inputs_set_aside_total") == 0
        assert broker.metric("byway_internal_errors_total") == 0


@pytest.mark.parametrize("keeps", [False, True], ids=["no data", "data"])
def test_a_process_ends_at_a_failed_assertion(tmp_path: Path, keeps: bool) -> None:
    with brokers() as started:
        data = ("--data", str(tmp_path)) if keeps else ()
        broker = started.start("--id", "B1", *data, *TRAP, program=TRAPPED).ready()
        client = started.client(broker, "c", SESSION_US)
        client.ask(AdvertiseRequest("a", ANY), PublishRequest(1, BODIES[0]))
        client.is_told(PublicationsConfirmed(1))
        client.ask(PublishRequest(2, FAILS))
        assert broker.wait() == 1
        why = "at the next start" if keeps else "without --data the broker cannot be rebuilt"
        assert why in broker.log
        if keeps:
            broker = started.again(broker).ready()
            broker.logged("1 inputs were set aside")
            client = started.client(broker, "c", SESSION_US)
            assert client.attached == Attached(resumed=True, published=1)


def test_without_data_a_process_ends_at_what_raises() -> None:
    with brokers() as started:
        broker = started.start("--id", "B1", *TRAP, program=TRAPPED).ready()
        client = started.client(broker, "c")
        client.ask(AdvertiseRequest("a", ANY), PublishRequest(1, BODIES[1]))
        assert broker.wait() == 1
        words = "cannot continue: handling an input of client c(, the broker itself)? failed with"
        assert re.search(words, broker.log), broker.log  # a timer may be handled in the same turn
