"""With `order = "none"`, publications of one publisher may arrive in any order, each once."""

import msgspec
import pytest

from byway.core.actions import CloseLink, SendReply
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import LinkUp
from byway.core.mesh.mesh_config import MeshConfig
from byway.model import ANY
from byway.model.errors import RemoteProtocolError
from byway.model.messages import AdvertiseRequest, Hello, UnorderedAttached, UnorderedHello
from tests.lone_broker import Lone, advertise, publication, publish, subscribe

UNORDERED = BrokerConfig(mesh=MeshConfig(order="none"), publisher_window=8)


@pytest.fixture(params=[False, True], ids=["", "restored"])
def lone(request: pytest.FixtureRequest) -> Lone:
    lone = Lone("A", "C", config=UNORDERED, restored=request.param)
    lone.receive("A", advertise("a"))
    lone.receive("C", subscribe("s", "TRUE"))
    return lone


def copies_after(lone: Lone, *sequences: int) -> list[int]:
    """How many copies C is sent by the time that each of these has arrived."""
    counts = []
    for sequence in sequences:
        lone.receive("A", publication(sequence, p=1))
        counts.append(lone.broker.links["C"].unconfirmed)
    return counts


def test_an_earlier_publication_is_no_duplicate(lone: Lone) -> None:
    assert copies_after(lone, 3, 1, 9, 2) == [1, 2, 3, 4]
    assert copies_after(lone, 3, 1, 9, 2) == [4, 4, 4, 4]


def test_what_lies_below_the_window_counts_as_seen(lone: Lone) -> None:
    assert copies_after(lone, 10, 2, 3, 3) == [1, 1, 2, 2]


def test_publications_of_local_clients_are_seen(lone: Lone) -> None:
    lone.attach("x")
    lone.ask("x", AdvertiseRequest("a", ANY))
    lone.ask("x", publish(1, p=1), publish(2, p=1))
    lone.ask("x", publish(3, p=1))
    stream = lone.broker.publications.streams.of("x", 1)
    assert stream.seen is not None
    assert (stream.last, stream.seen.last, stream.seen.mask) == (3, 3, 0b111)


def test_a_snapshot_of_before_counts_all_up_to_the_last_as_seen() -> None:
    ordered = Lone("A", config=BrokerConfig(publisher_window=8))
    ordered.receive("A", advertise("a"))
    ordered.receive("A", publication(5, p=1))
    broker = Broker.restore(ordered.broker.snapshot(), UNORDERED)
    (stream,) = broker.publications.streams.young.values()
    assert stream.seen is not None
    assert all(sequence in stream.seen for sequence in range(1, 6))
    assert 6 not in stream.seen


def test_clients_are_told() -> None:
    answer = Lone(config=UNORDERED).attach("x")
    told = [reply for a in answer if isinstance(a, SendReply) for reply in a.replies]
    assert UnorderedAttached(False, 0, 0, 8) in told


@pytest.mark.parametrize("order", ["none", "publisher"])
def test_brokers_with_different_order_do_not_connect(order: str) -> None:
    other = {"none": "publisher", "publisher": "none"}[order]
    config = msgspec.structs.replace(UNORDERED, mesh=MeshConfig(order=order))
    lone = Lone("A", agreed=False, config=config)
    ours, theirs = (Hello, UnorderedHello) if order == "publisher" else (UnorderedHello, Hello)
    assert type(lone.broker.hello("A")) is ours
    hello = theirs("A", 1, 0, 0, 0, 0, publisher_window=8)
    reason = (
        f'has order "{other}" in [mesh], and B has "{order}": it must be equal in the whole network'
    )
    assert lone.handle(LinkUp("A", hello)) == [CloseLink("A", reason, fault=True)]
    with pytest.raises(RemoteProtocolError, match="has order"):  # one that is no neighbour yet
        lone.broker.check_hello("X", msgspec.structs.replace(hello, broker="X"), None)
