"""The inbox: who is taken when, and what is left out."""

import pytest

from byway.core.broker import Broker
from byway.core.inputs import ClientDetached, ClientRequested, FrameReceived
from byway.model.messages import (
    Acknowledge,
    Batch,
    Lane,
    Publish,
    PublishRequest,
    SubscriptionsSettled,
    UnsubscribeRequest,
)
from byway.sim.engine.inbox import BATCH_MESSAGES, Inbox

ACK = Acknowledge(1, 0, 0)
PUBLISH = PublishRequest(1, b"12345")
UNSUBSCRIBE = UnsubscribeRequest(("s",))


def control(number=1):
    return Batch(Lane.CONTROL, number, (SubscriptionsSettled(()),))


def data(number=1, count=1):
    return Batch(Lane.DATA, number, (Publish("p", 1, 1, 0, 0, 0, 0, b"123"),) * count)


class Reader(Broker):
    """A broker that reads data of some neighbours only; None stands for clients."""

    def __init__(self, *read):
        super().__init__("B")
        self.read = read

    def reads_data_from(self, link):
        return link in self.read


@pytest.fixture
def broker():
    return Broker("B")


def taken(inbox, broker):
    return [
        event.frame if isinstance(event, FrameReceived) else event for event in inbox.take(broker)
    ]


def test_control_comes_before_data(broker):
    inbox = Inbox()
    for frame in (data(1), control(1), ACK, data(2), control(2)):
        inbox.put_frame("A", frame)
    assert inbox.waiting == 4  # acknowledgements are not messages
    assert taken(inbox, broker) == [control(1), ACK, control(2), data(1), data(2)]
    assert (inbox.waiting, bool(inbox)) == (0, False)


def test_a_batch_is_bounded_and_frames_stay_whole(broker):
    inbox = Inbox()
    for number in range(3):
        inbox.put_frame("A", data(number, count=BATCH_MESSAGES - 4))
    assert taken(inbox, broker) == [data(n, BATCH_MESSAGES - 4) for n in range(2)]
    assert inbox.waiting == BATCH_MESSAGES - 4
    assert len(taken(inbox, broker)) == 1


def test_what_a_client_says_keeps_its_order(broker):
    inbox = Inbox()
    inbox.put_frame("A", data())
    inbox.put_request("c", PUBLISH)
    inbox.put_request("c", UNSUBSCRIBE)
    inbox.put_goodbye("c")
    inbox.put_request("d", UNSUBSCRIBE)
    assert taken(inbox, broker) == [
        ClientRequested("d", (UNSUBSCRIBE,)),
        data(),
        ClientRequested("c", (PUBLISH,)),
        ClientRequested("c", (UNSUBSCRIBE,)),
        ClientDetached("c", True),
    ]
    inbox.put_frame("A", data())
    inbox.put_request("c", UNSUBSCRIBE)  # nothing to wait for any more
    assert taken(inbox, broker)[0] == ClientRequested("c", (UNSUBSCRIBE,))


def test_data_that_is_not_read_waits_in_order():
    inbox = Inbox()
    inbox.put_request("c", PUBLISH)
    inbox.put_frame("A", data(1))
    inbox.put_frame("C", data(2))
    inbox.put_frame("A", data(3))
    inbox.put_frame("A", control())
    assert taken(inbox, Reader("C")) == [control(), data(2)]
    assert inbox.waiting == 3
    assert taken(inbox, Reader("A", "C")) == [data(1), data(3)]
    assert taken(inbox, Reader("A", "C")) == []
    assert taken(inbox, Reader(None, "A", "C")) == [ClientRequested("c", (PUBLISH,))]


def test_leaving_out_counts(broker):
    inbox = Inbox()
    inbox.put_frame("A", data(1, count=5))
    inbox.put_frame("C", data(2))
    inbox.put_request("c", PUBLISH)
    inbox.put_request("c", UNSUBSCRIBE)
    assert inbox.waiting_bytes == 6 * (3 + 40) + 5
    gone = []
    inbox.drop(lambda event: getattr(event, "link", "") == "A" and not gone.append(event))
    assert [event.frame for event in gone] == [data(1, count=5)]
    assert inbox.waiting == 3
    inbox.drop(lambda event: isinstance(event, ClientRequested))
    assert inbox.waiting == 1
    inbox.put_request("c", UNSUBSCRIBE)
    assert taken(inbox, broker) == [ClientRequested("c", (UNSUBSCRIBE,)), data(2)]
