"""Who has not answered is named: to the client whose request does not settle, in status and log."""

import asyncio
import logging

import pytest

from byway import LocalOverlay, NotSettledError, blocking
from byway.client import client_driver
from byway.core.broker_config import BrokerConfig
from tests.integration.loops import in_loop, until

pytestmark = pytest.mark.integration
PATIENT = BrokerConfig(probe_cycles=True, sync_wait_us=600_000_000)


async def unanswered(opening, names: tuple[str, ...]) -> NotSettledError:
    """The error of a request that does not settle, once the broker knows for whom it waits."""
    async with asyncio.timeout(20):
        while True:
            with pytest.raises(NotSettledError) as caught:
                await opening()
            if caught.value.brokers == names:
                return caught.value


@in_loop
async def test_a_broker_behind_others_that_is_away_is_named() -> None:
    async with LocalOverlay("chain:4") as net, net.connect("B1", name="p") as client:
        await net.kill("B4")
        error = await unanswered(lambda: client.advertise("ANY", name="a.b", timeout=0.05), ("B4",))
        assert str(error).startswith("a.b is not settled within 0.05 s (attached to B1 at byway://")
        assert str(error).endswith("): waits for B4")
        await net.restart("B4")
        await net.linked()
        async with client.advertise("ANY"):
            pass


@in_loop
async def test_a_subscription_at_a_broker_that_forgot_names_whose_tables_are_missing() -> None:
    async with LocalOverlay("chain:3", core=PATIENT) as net:
        await net.kill("B3")
        await net.kill("B2")
        await net.restart("B2")
        async with net.connect("B2", name="s") as client:
            await unanswered(lambda: client.subscribe("n > 0", timeout=0.05), ("B3",))
            await client.subscribe("n > 1", settled=False)
            status = await client.broker_status()
            assert [(m.broker, m.lacks) for m in status.missing] == [("B3", "everything")]
            (entry,) = status.unsettled_entries
            assert (entry.kind, entry.brokers) == ("subscription", ["B3"])
            assert [(link.broker, link.missing) for link in status.links] == [
                ("B1", False),
                ("B3", True),
            ]
        await net.restart("B3")
        await net.linked()


@in_loop
async def test_a_broker_that_does_not_tell_changes_nothing_about_the_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_driver, "STATUS_WAIT_S", 0.05)
    async with LocalOverlay("chain:2") as net, net.connect("B1") as client:
        await net.kill("B2")
        clients = net.brokers["B1"].client_connections
        monkeypatch.setattr(clients, "_on_status_request", lambda _: None)
        with pytest.raises(NotSettledError) as caught:
            await client.advertise("ANY", timeout=0.05)
        assert caught.value.brokers == ()
        assert str(caught.value).endswith(")")
        await net.kill("B1")
        await until(lambda: not client.is_attached)
        with pytest.raises(NotSettledError) as caught:
            await client.advertise("ANY", timeout=0.05)
        assert caught.value.brokers == ()


@in_loop
async def test_the_blocking_client_names_them_too() -> None:
    def advertise(url: str) -> None:
        with blocking.connect(url) as client, client.advertise("ANY", timeout=0.05):
            pass

    async with LocalOverlay("chain:2") as net:
        await net.kill("B2")
        await until(lambda: not net.brokers["B1"].links)
        with pytest.raises(NotSettledError) as caught:
            await asyncio.to_thread(advertise, net.url("B1"))
        assert caught.value.brokers == ("B2",)


@in_loop
async def test_the_log_says_it_again_and_again_and_once_that_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "byway.waiting")

    def said() -> list[str]:
        lines = [r.getMessage() for r in caplog.records if r.name == "byway.waiting"]
        caplog.clear()
        return lines

    async with LocalOverlay("chain:2") as net, net.connect("B1") as client:
        waiting = net.brokers["B1"].waiting
        waiting.tell()
        assert said() == []
        await net.kill("B2")
        await until(lambda: not net.brokers["B1"].links)
        for _ in range(2):
            await client.advertise("ANY", settled=False)
        await until(lambda: len(net.brokers["B1"].broker.advertisements) == 2)
        waiting.tell()
        assert said() == []  # they have only just begun
        for _ in range(3):
            waiting.tell()
            assert said() == ["2 advertisements of clients are not settled: waits for B2"]
        await net.restart("B2")
        await net.linked()
        await until(lambda: all(e.settled for e in net.brokers["B1"].broker.advertisements))
        for lines in (["waits for nobody any more"], []):
            waiting.tell()
            assert said() == lines
