"""From whom a broker takes publications, when some are not confirmed."""

import msgspec
import pytest

from byway.core.actions import CloseLink, Send
from byway.core.back_pressure import TIGHT
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.in_flight import COPY_BYTES
from byway.core.inputs import ClientDetached, FrameReceived, LinkDown, LinkUp
from byway.inbox import TURN
from byway.model import ANY
from byway.model.errors import RemoteProtocolError
from byway.model.messages import AdvertiseRequest, Hello, LinkKind, SelectiveAcknowledge
from byway.sim.topology.tree import LinkSpec, Topology
from tests.lone_broker import Lone, publication, publish, subscribe, twin_of
from tests.planners import SoftRoutes

BODY = len(publication(1, p=1).body)


def reads(lone: Lone, *links: str | None) -> list[bool]:
    return [lone.broker.reads_data_from(link) for link in links]


def between(**settings: object) -> Lone:
    """C wants what has p, D what has q."""
    lone = Lone("A", "C", "D", config=BrokerConfig(**settings))
    lone.receive("C", subscribe("p", "p > 0"))
    lone.receive("D", subscribe("q", "q > 0"))
    return lone


def copies_at(lone: Lone) -> dict[str, int]:
    return {link: queue.bytes for link, queue in lone.broker.context.copies.links.items()}


# --- bytes ---------------------------------------------------------------------------------------


def test_a_link_is_full_at_its_bytes():
    lone = between(link_bytes_max=2 * (COPY_BYTES + BODY))
    lone.receive("A", publication(1, p=1))
    assert reads(lone, "A", "C", "D", None) == [True] * 4
    lone.receive("A", publication(2, p=1))
    assert reads(lone, "A", "C", "D", None) == [False, True, False, False]
    lone.acknowledge("C", 1)
    assert reads(lone, "A", "C", "D", None) == [True] * 4


def test_two_full_links_stop_each_other_too():
    lone = between(link_bytes_max=1)
    lone.receive("A", publication(1, p=1, q=1))
    assert reads(lone, "A", "C", "D", None) == [False] * 4


@pytest.mark.parametrize("restored", [False, True])
def test_bytes_are_counted_whatever_becomes_of_copies(restored):
    lone = between()
    lone.restored = restored
    one = COPY_BYTES + BODY
    lone.receive("A", *[publication(n, p=1) for n in range(1, 6)])
    assert copies_at(lone) == {"A": 0, "C": 5 * one, "D": 0}
    lone.acknowledge("C", 1)
    lone.handle(FrameReceived("C", SelectiveAcknowledge(0, 5, 1, ((4, 4),))))
    assert copies_at(lone)["C"] == 3 * one
    lone.handle(LinkDown("C"))
    lone.agree("C", incarnation=2)
    assert copies_at(lone)["C"] == 3 * one
    lone.acknowledge("C", 3)
    assert copies_at(lone)["C"] == 0


def test_data_is_refused_by_branch():
    """B has a soft link to D, behind C: both are one branch."""
    links = LinkSpec("A", "B", 0), LinkSpec("B", "C", 0), LinkSpec("C", "D", 0)
    SoftRoutes.tree = Topology(("A", "B", "C", "D"), links)
    config = BrokerConfig(behaviours=(SoftRoutes.name,), link_bytes_max=1)
    lone = Lone("A", "C", config=config)
    lone.receive("C", subscribe("d", "D > 0"), subscribe("c", "C > 0"))
    lone.sent["D"] = [0, 0]
    lone.handle(LinkUp("D", Hello("D", 1, 0, 0, 0, 0, kind=LinkKind.SOFT)))
    lone.receive("A", publication(2, D=1))
    assert copies_at(lone)["D"] > 0
    assert reads(lone, "A", "C", "D", None) == [False, True, True, False]
    lone.receive("A", publication(3, C=1))  # it is held
    assert lone.broker.held == 1
    lone.handle(FrameReceived("D", SelectiveAcknowledge(0, 1, 1, ())))
    assert reads(lone, "A", "C", "D", None) == [False, True, True, False]
    lone.acknowledge("C", 1)
    assert reads(lone, "A", "C", "D", None) == [True] * 4


def test_a_hold_queue_is_full_at_its_bytes():
    links = LinkSpec("A", "B", 0), LinkSpec("B", "C", 0), LinkSpec("C", "D", 0)
    SoftRoutes.tree = Topology(("A", "B", "C", "D"), links)
    config = BrokerConfig(behaviours=(SoftRoutes.name,), link_bytes_max=2 * COPY_BYTES)
    lone = Lone("A", "C", config=config)
    lone.receive("C", subscribe("d", "D > 0"), subscribe("c", "C > 0"))
    lone.sent["D"] = [0, 0]
    lone.handle(LinkUp("D", Hello("D", 1, 0, 0, 0, 0, kind=LinkKind.SOFT)))
    lone.receive("A", publication(2, D=1), publication(3, C=1))
    assert reads(lone, "A", "C", "D", None) == [True] * 4
    lone.receive("A", publication(5, C=1))
    assert lone.broker.held == 2
    assert reads(lone, "A", "C", "D", None) == [False, True, True, False]
    assert twin_of(lone.broker).reads_data_from(None) is False


# --- publishers ----------------------------------------------------------------------------------


def publisher(window: int) -> Lone:
    lone = between(publisher_window=window)
    for client in ("x", "y"):
        lone.attach(client, ttl_us=10)
        lone.ask(client, AdvertiseRequest("a", ANY))
    return lone


def rooms(broker: Broker) -> list[int]:
    return [broker.publication_room(client) for client in ("x", "y", "unknown")]


def test_the_room_of_a_publisher_is_what_its_window_leaves():
    lone = publisher(3)
    assert lone.broker.limits_publications
    assert rooms(lone.broker) == [3, 3, 3]
    lone.ask("x", publish(1, p=1), publish(2, q=1), publish(3))
    assert rooms(lone.broker) == [0, 3, 3]
    assert rooms(twin_of(lone.broker)) == [0, 3, 3]
    lone.acknowledge("D", 1)  # the oldest is unconfirmed, so there is no more room
    assert rooms(lone.broker) == [0, 3, 3]
    lone.acknowledge("C", 1)
    assert rooms(lone.broker) == [3, 3, 3]


def test_a_publisher_that_has_no_copies_for_a_dead_neighbour_goes_on():
    lone = publisher(2)
    lone.handle(LinkDown("C"))
    lone.ask("x", publish(1, p=1), publish(2, p=1))
    for number in range(1, 50):
        lone.ask("y", publish(number, q=1))
        assert rooms(lone.broker)[:2] == [0, 1]
        lone.acknowledge("D", number)
    assert rooms(lone.broker)[:2] == [0, 2]


def test_rooms_are_asked_for_only_when_some_are_small():
    lone = publisher(TIGHT + 2)
    assert not lone.broker.limits_publications
    lone.ask("x", *[publish(number, p=1) for number in range(1, 4)])
    assert lone.broker.limits_publications
    assert twin_of(lone.broker).limits_publications
    lone.acknowledge("C", 1)
    assert not lone.broker.limits_publications


def test_a_publisher_that_left_limits_nobody():
    lone = publisher(TIGHT + 2)
    lone.ask("x", *[publish(number, p=1) for number in range(1, 4)])
    lone.handle(ClientDetached("x", for_good=True))
    lone.acknowledge("C", 3)
    assert not lone.broker.limits_publications


def test_a_turn_takes_no_more_than_a_room_that_nobody_asked_for():
    assert TURN <= TIGHT


def test_brokers_with_different_windows_do_not_connect():
    lone = Lone("A", agreed=False)
    hello = Hello("A", 1, 0, 0, 0, 0, publisher_window=5)
    reason = "has publisher_window 5, and B has 4096: it must be equal in the whole network"
    assert lone.handle(LinkUp("A", hello)) == [CloseLink("A", reason, fault=True)]
    assert not lone.broker.links["A"].up
    assert lone.broker.hello("A").publisher_window == 4_096
    with pytest.raises(RemoteProtocolError, match=reason):  # a broker that is no neighbour yet
        lone.broker.check_hello("X", msgspec.structs.replace(hello, broker="X"), None)
    ours = msgspec.structs.replace(hello, publisher_window=4_096)
    assert any(isinstance(action, Send) for action in lone.handle(LinkUp("A", ours)))
