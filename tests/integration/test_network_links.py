"""Links between broker processes that go wrong: a peer that stops without a word, a second broker
of the same name, a ring where a tree should be."""

import asyncio
import re
import signal
from contextlib import aclosing

import pytest

from tests.integration.loops import in_loop, until
from tests.integration.network import ANYWHERE, RETRY, Account, Star
from tests.integration.processes import BrokerProcess, brokers

pytestmark = pytest.mark.integration

ALERT = ("--set", "limits.keepalive_ms=300")


def waits_for(broker: BrokerProcess, words: str) -> "asyncio.Future[None]":
    """Until a broker has logged something; the event loop goes on."""
    return asyncio.ensure_future(until(lambda: re.search(words, broker.log) is not None))


@in_loop
async def test_a_broker_that_stops_without_a_word_is_given_up_and_comes_back() -> None:
    """Its connections stay open; it just does not read or answer. More is sent to it than all
    buffers on the way hold, so that not even a goodbye can be written."""
    with brokers() as started:
        star = Star(started, None, *ALERT).start(("B1",))
        account = Account()
        async with aclosing(account):
            publisher = await account.publisher(star.connect("B1", "p", window=60_000))
            await account.subscriber(star.connect("M", "s"))
            await account.publish(publisher, 100)
            await until(account.is_complete)

            star.brokers["M"].signal(signal.SIGSTOP)
            publishing = asyncio.create_task(account.publish(publisher, 50_000))
            await waits_for(star.brokers["B1"], "link to M is down: silent for")
            assert not publishing.done()
            star.brokers["M"].signal(signal.SIGCONT)
            await publishing
            await until(account.is_complete)
            account.is_exact()
        assert star.faults() == {}


@in_loop
async def test_a_pause_that_nobody_noticed_breaks_nothing() -> None:
    """A broker that did not run for a while does not blame others for it."""
    with brokers() as started:
        slow = ("--set", "limits.keepalive_ms=60000")
        hub = started.start("--id", "B1", *ANYWHERE, *slow).ready()
        neighbour = ("--neighbour", f"B1@{hub.address}")
        hasty = started.start("--id", "B2", *ANYWHERE, *ALERT, *neighbour).ready()
        hub.logged("link to B2 is up")
        hasty.signal(signal.SIGSTOP)
        await asyncio.sleep(1.0)
        hasty.signal(signal.SIGCONT)
        await asyncio.sleep(1.0)  # more than three times its keep-alive
        assert "is down" not in hub.log + hasty.log


@in_loop
async def test_a_second_broker_of_a_name_is_refused_and_the_first_lives() -> None:
    with brokers() as started:
        star = Star(started, None).start(("B1", "B2"))
        middle = star.brokers["M"]
        account = Account()
        async with aclosing(account):
            publisher = await account.publisher(star.connect("B1", "p"))
            await account.subscriber(star.connect("B2", "s"))
            neighbour = ("--neighbour", f"M@{middle.address}")
            second = started.start("--id", "B1", *ANYWHERE, *RETRY, *neighbour)
            await asyncio.to_thread(second.ready)
            refused = "M says goodbye: a broker B1 is connected already, from 127.0.0.1"
            await waits_for(second, refused)
            await account.publish(publisher, 1_000)
            await until(account.is_complete)
            account.is_exact()
            assert "link to M is up" not in second.log
            assert star.brokers["B1"].log.count("link to M is up") == 1
            assert middle.metric("byway_link_up", link="B1") == 1

            await star.kill("B1")  # now the name is free
            await waits_for(second, "link to M is up")


@in_loop
async def test_a_ring_is_cut_at_one_place_and_the_rest_works() -> None:
    with brokers() as started:
        first = started.start("--id", "B1", *ANYWHERE, *RETRY).ready()
        at = ("--neighbour", f"B1@{first.address}")
        second = started.start("--id", "B2", *ANYWHERE, *RETRY, *at).ready()
        both = (*at, "--neighbour", f"B2@{second.address}")
        third = started.start("--id", "B3", *ANYWHERE, *RETRY, *both).ready()
        star = Star(started, None)
        star.brokers = {"B1": first, "B2": second, "B3": third}
        await waits_for(third, "the overlay has a cycle: B. – B. – B. – B.")
        assert all(
            broker.metric("byway_link_up", link=link) == 1
            for broker, link in ((first, "B2"), (first, "B3"))
        )
        account = Account()
        async with aclosing(account):
            homes = ("B1", "B2", "B3")
            publishers = [await account.publisher(star.connect(h, f"p-{h}")) for h in homes]
            for home in homes:
                await account.subscriber(star.connect(home, f"s-{home}"))
            await asyncio.gather(*(account.publish(p, 500) for p in publishers))
            await until(account.is_complete)
            account.is_exact()
        assert star.faults() == {}
