"""Faults that readers of the code have found: what a session holds, who waits, what is repeated."""

from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import (
    ClientAttached,
    ClientDetached,
    ClientRequested,
    FrameReceived,
    LinkUp,
    Started,
)
from byway.model import ANY, TRUE
from byway.model.messages import (
    DATA,
    AdvertiseRequest,
    Batch,
    DeliveriesReceived,
    Hello,
    LinkKind,
    Publish,
    PublishRequest,
    SubscribeRequest,
)
from tests.lone_broker import body

LONG = 10**9
BODY = body(x=1, s="y" * 200)


def test_what_a_client_has_received_is_held_no_longer():
    """Also while all sessions together keep too much; such a snapshot could not be restored."""
    config = BrokerConfig(sessions_max=2, sessions_bytes_max=8_000, session_messages_max=1_000)
    broker = Broker("A", (), config)
    broker.handle(0, Started())
    for name in ("c", "d"):
        broker.handle(1, ClientAttached(name, 1, LONG))
        broker.handle(2, ClientRequested(name, (SubscribeRequest("s", TRUE),)))
    broker.handle(3, ClientAttached("p", 1, LONG))
    broker.handle(3, ClientRequested("p", (AdvertiseRequest("a", ANY),)))
    broker = Broker.restore(broker.snapshot(), config)
    broker.handle(10, Started())
    for name in ("c", "p"):
        broker.handle(11, ClientAttached(name, 1, LONG, 0, True))
    for number in range(1, 41):
        broker.handle(12, ClientRequested("p", (PublishRequest(number, BODY),)))
    session = broker.clients.sessions["c"]
    assert len(session.held) > 10
    broker.handle(13, ClientRequested("c", (DeliveriesReceived(30),)))
    assert len(session.held) <= len(session.kept) == 10
    again = Broker.restore(broker.snapshot(), config)
    assert again.deliveries.held == broker.deliveries.held


def test_nobody_is_short_of_room_who_has_left():
    broker = Broker("A", (), BrokerConfig(publisher_window=100))
    broker.handle(0, Started())
    for number in range(20):
        name = f"c{number}"
        broker.handle(number, ClientAttached(name, 1))
        requests = AdvertiseRequest("a", ANY), PublishRequest(1, BODY)
        broker.handle(number, ClientRequested(name, requests))
        broker.handle(number, ClientDetached(name, True))
    assert not broker.clients.sessions
    assert not broker.back_pressure._tight


def test_a_publication_that_is_repeated_takes_no_room():
    """C is missing, so the first one stays unconfirmed; of its repetitions the last one waits."""
    broker = Broker("A", ("B", "C"))
    broker.handle(0, Started())
    broker.handle(1, LinkUp("B", Hello("B", 1, 0, 0, 0, 0, kind=LinkKind.PRIMARY)))
    publication = Publish("p", 1, 1, 0, 1, 0, 0, BODY)
    for number in range(1, 501):
        broker.handle(2, FrameReceived("B", Batch(DATA, number, (publication,))))
    ((_, source),) = broker.context.copies.links["C"]
    assert [waiting.number for waiting in source.duplicates or ()] == [500]
    window = broker.context.ends["B"].window
    assert window.finished_up_to == 0  # the first one
