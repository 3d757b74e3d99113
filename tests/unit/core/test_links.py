import pytest

from byway.core.in_flight import unowned
from byway.core.links import LinkEnd
from byway.core.window import Window
from byway.model import TRUE
from byway.model.errors import RemoteProtocolError
from byway.model.messages import (
    Acknowledge,
    Batch,
    EntryId,
    Hello,
    Lane,
    SelectiveAcknowledge,
    Unadvertise,
    Unsubscribe,
)


def control(n: int) -> Unsubscribe:
    return Unsubscribe((EntryId("c", "s", n),))


def data(n: int) -> Unadvertise:
    return Unadvertise(EntryId("c", "a", n), TRUE)


def post(end: LinkEnd, lane: Lane, messages: list) -> Batch | None:
    """The frame of messages on a lane."""
    if lane is Lane.CONTROL:
        return end.post_control(messages)
    for message in messages:
        end.copies.append(message, unowned())
    return end.post_data()


def kept(end: LinkEnd) -> list[int]:
    """How many messages are kept, by lane."""
    return [len(end.control.kept), len(end.copies)]


def pair() -> tuple[LinkEnd, LinkEnd]:
    a, b = LinkEnd("A", "B", 1), LinkEnd("B", "A", 1)
    to_b, to_a = a.hello(), b.hello()
    assert not a.meet(to_a).resumed
    assert not b.meet(to_b).resumed
    assert a.opened() is b.opened() is None
    return a, b


def test_lanes_are_numbered_apart():
    a, _ = pair()
    assert post(a, Lane.CONTROL, [control(1)]) == Batch(Lane.CONTROL, 1, (control(1),))
    assert post(a, Lane.DATA, [data(1), data(2)]) == Batch(Lane.DATA, 1, (data(1), data(2)))
    assert post(a, Lane.CONTROL, [control(2)]) == Batch(Lane.CONTROL, 2, (control(2),))


def test_control_is_kept_until_received_and_data_until_confirmed():
    a, b = pair()
    for frame in (post(a, Lane.CONTROL, [control(1)]), post(a, Lane.DATA, [data(1), data(2)])):
        b.take(frame)
    a.received(b.acknowledgement())
    assert kept(a) == [0, 2]
    assert len(a.received(Acknowledge(1, 2, 1))) == 1
    assert not a.received(Acknowledge(1, 2, 1))
    assert kept(a) == [0, 1]


def test_a_link_that_comes_back_sends_what_is_missing():
    a, b = pair()
    first = post(a, Lane.DATA, [data(1)])
    post(a, Lane.DATA, [data(2)])  # lost on the way
    b.take(first)
    a.lost()
    b.lost()
    assert post(a, Lane.DATA, [data(3)]) is None
    assert post(a, Lane.CONTROL, [control(1)]) is None
    meeting = a.meet(b.hello())
    assert meeting.resumed
    assert meeting.again == (
        Batch(Lane.CONTROL, 1, (control(1),)),
        Batch(Lane.DATA, 2, (data(2), data(3))),
    )
    assert [b.take(batch)[1] for batch in meeting.again] == [(control(1),), (data(2), data(3))]


def test_what_comes_twice_is_taken_once():
    _, b = pair()
    b.take(Batch(Lane.DATA, 1, (data(1), data(2))))
    assert b.take(Batch(Lane.DATA, 2, (data(2), data(3)))) == (3, (data(3),))
    assert b.take(Batch(Lane.DATA, 1, (data(1),))) == (4, ())


def test_a_peer_that_restarted_gets_new_numbers_and_data_once_it_takes_it():
    a, b = pair()
    b.take(post(a, Lane.DATA, [data(1), data(2)]))
    post(a, Lane.CONTROL, [control(1)])
    a.received(Acknowledge(0, 2, 1))
    a.lost()
    reborn = LinkEnd("B", "A", 2)
    to_b, to_a = a.hello(), reborn.hello()
    assert not reborn.meet(to_b).resumed
    assert not a.meet(to_a).resumed
    assert post(a, Lane.DATA, [data(3)]) is None
    assert post(a, Lane.CONTROL, [control(2)]) == Batch(Lane.CONTROL, 1, (control(2),))
    assert a.opened() == Batch(Lane.DATA, 1, (data(2), data(3)))
    assert a.opened() is None
    assert post(a, Lane.DATA, [data(4)]) == Batch(Lane.DATA, 3, (data(4),))


def test_an_acknowledgement_is_news_or_none():
    a, b = pair()
    assert b.acknowledgement() is None
    b.take(post(a, Lane.DATA, [data(1), data(2)]))
    assert b.acknowledgement() is None  # that data arrived is told in passing
    b.window.finish(1)
    assert b.acknowledgement() == Acknowledge(0, 2, 1)
    b.lost()
    b.window.finish(2)
    meeting = a.meet(b.hello())
    assert (meeting.resumed, len(meeting.confirmed), meeting.again) == (True, 2, ())


def test_a_peer_that_broke_the_rules_starts_anew():
    a, b = pair()
    post(a, Lane.DATA, [data(1)])
    a.distrusted()
    hello_a, hello_b = a.hello(), b.hello()
    assert not a.meet(hello_b).resumed
    assert not b.meet(hello_a).resumed
    assert a.opened() == Batch(Lane.DATA, 1, (data(1),))


@pytest.mark.parametrize(
    ("misdeed", "reason"),
    [
        (lambda a: a.take(Batch(Lane.DATA, 3, (data(3),))), "goes on with number 3, expected 1"),
        (
            lambda a: a.received(Acknowledge(1, 0, 0)),
            "acknowledges number 1 of lane CONTROL",
        ),
        (lambda a: a.received(Acknowledge(0, 0, 1)), "confirms number 1, never sent"),
        (lambda a: a.meet(Hello("C", 1, 0, 0, 0, 0)), "says it is 'C'"),
        (
            lambda a: a.meet(Hello("B", 1, 1, 0, 7, 0, 1)),
            "up to number 7 of lane DATA, expected 0 to 0",
        ),
        (lambda a: a.meet(Hello("B", 1, 0, 0, 0, 0, version=9)), "speaks version 9, expected 3"),
    ],
)
def test_a_peer_that_breaks_the_protocol_is_named(misdeed, reason):
    a, _ = pair()
    with pytest.raises(RemoteProtocolError, match=f"^B: .*{reason}"):
        misdeed(a)


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (Acknowledge(1, 1, 0), "acknowledges number 1 of lane DATA, never sent"),
        (Acknowledge(1, 0, 1), "confirms number 1, never sent"),
        (SelectiveAcknowledge(1, 2, 0, ((2, 2),)), "acknowledges number 2 of lane DATA"),
        (SelectiveAcknowledge(1, 0, 0, ((2, 2),)), "confirms number 2, but has received up to 0"),
        (Hello("B", 1, 1, 1, 2, 1, 1), "up to number 2 of lane DATA, expected 0 to 0"),
        (Hello("B", 1, 1, 1, 0, 1, 1), "confirms number 1, but has received up to 0"),
    ],
)
def test_copies_that_wait_for_tables_were_not_sent(frame, reason):
    """A peer that says it has them breaks the protocol, and nothing follows from it."""
    a = LinkEnd("A", "B", 1)
    a.meet(Hello("B", 1, 0, 0, 0, 0))
    post(a, Lane.CONTROL, [control(1)])
    assert post(a, Lane.DATA, [data(1), data(2)]) is None
    with pytest.raises(RemoteProtocolError, match=f"^B: .*{reason}"):
        a.meet(frame) if isinstance(frame, Hello) else a.received(frame)
    assert kept(a) == [1, 2]
    assert a.opened() == Batch(Lane.DATA, 1, (data(1), data(2)))
    assert len(a.received(Acknowledge(1, 2, 2))) == 2


def test_confirmations_come_in_order():
    window = Window()
    assert window.due() is None
    for number in (2, 3, 5):
        window.finish(number)
    assert window.due() is None
    assert list(window.early) == [(2, 3), (5, 5)]
    window.finish(1)
    assert window.due() == 3
    assert window.due() is None
    window.finish(4)
    assert (window.due(), list(window.early)) == (5, [])
