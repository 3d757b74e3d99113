"""Links between broker processes that go wrong: a peer that stops without a word, a second broker
of the same name, a ring where a tree should be.

All tests use one network, which grows: brokers that a test adds stay, for nobody is to wait for
them in vain.
"""

import asyncio
import re
import signal
from collections.abc import Iterator
from contextlib import aclosing

import pytest

from tests.integration.loops import in_loop, until
from tests.integration.network import ANYWHERE, RETRY, Account, Star
from tests.integration.processes import BrokerProcess, Brokers, brokers, eventually

pytestmark = pytest.mark.integration

ALERT = ("--set", "limits.keepalive_ms=700")


class Network(Star):
    """A star, and whoever starts more brokers."""

    def __init__(self, started: Brokers) -> None:
        super().__init__(started, None, *ALERT)
        self.started = started

    def add(self, name: str, *others: str, settings: tuple[str, ...] = ALERT) -> BrokerProcess:
        """Another broker that dials some."""
        arguments = [
            word
            for other in others
            for word in ("--neighbour", f"{other}@{self.brokers[other].address}")
        ]
        return self.started.start("--id", name, *ANYWHERE, *RETRY, *settings, *arguments).ready()


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    with brokers() as started:
        net = Network(started)
        net.start(("B1", "B2"))
        yield net
        assert net.faults() == {}


async def logged(broker: BrokerProcess, words: str) -> None:
    """Wait until a broker has logged something; the event loop goes on."""
    await until(lambda: re.search(words, broker.log) is not None)


async def carries(net: Star, homes: tuple[str, ...], count: int) -> None:
    """Everyone at these brokers gets what the others publish, once and in order."""
    account = Account()
    async with aclosing(account):
        publishers = [await account.publisher(net.connect(h, f"p-{h}")) for h in homes]
        for home in homes:
            await account.subscriber(net.connect(home, f"s-{home}"))
        await asyncio.gather(*(account.publish(p, count) for p in publishers))
        await until(account.is_complete)
        account.is_exact()


@in_loop
async def test_a_broker_that_stops_without_a_word_is_given_up_and_comes_back(
    network: Network,
) -> None:
    """Its connections stay open; it just does not read or answer. More is sent to it than all
    buffers on the way hold, so that not even a goodbye can be written."""
    account = Account()
    async with aclosing(account):
        publisher = await account.publisher(network.connect("B1", "p", window=60_000))
        await account.subscriber(network.connect("M", "s"))
        await account.publish(publisher, 100)
        await until(account.is_complete)

        network.brokers["M"].signal(signal.SIGSTOP)
        publishing = asyncio.create_task(account.publish(publisher, 50_000))
        await logged(network.brokers["B1"], "link to M is down: silent for")
        assert not publishing.done()
        network.brokers["M"].signal(signal.SIGCONT)
        await publishing
        await until(account.is_complete)
        account.is_exact()


def test_a_pause_that_a_neighbour_did_not_notice_breaks_nothing(network: Network) -> None:
    """A broker that did not run for a while does not blame others for it, nor one that speaks
    more rarely than itself."""
    rare = network.add("B3", "M", settings=("--set", "limits.keepalive_ms=60000"))
    network.brokers["B3"], middle = rare, network.brokers["M"]
    middle.logged("link to B3 is up")

    async def pause() -> None:
        middle.signal(signal.SIGSTOP)
        await asyncio.sleep(2.0)  # three times its keep-alive
        middle.signal(signal.SIGCONT)
        await asyncio.sleep(2.0)  # in which it looks at all connections, three times

    asyncio.run(pause())
    assert "link to M is down" not in rare.log
    assert "link to B3 is down" not in middle.log


def test_a_second_broker_of_a_name_is_refused_and_the_first_lives(network: Network) -> None:
    second = network.add("B1", "M")
    second.logged("M says goodbye: a broker B1 is connected already, from 127.0.0.1")
    asyncio.run(asyncio.wait_for(carries(network, ("B1", "B2"), 500), 30))
    assert "link to M is up" not in second.log
    assert network.brokers["M"].metric("byway_link_up", link="B1") == 1
    second.kill()


def test_a_ring_is_cut_at_one_place_and_the_rest_works(network: Network) -> None:
    network.brokers["C"] = added = network.add("C", "B1", "M")
    asyncio.run(logged(added, "the overlay has a cycle: \\S+ – \\S+ – \\S+ – \\S+"))
    asyncio.run(asyncio.wait_for(carries(network, ("B1", "B2", "C", "M"), 300), 30))
    assert added.metric("byway_link_up", link="B1") == 1
    eventually(lambda: added.metric("byway_link_up", link="M") == 0)  # it is dialled now and then
