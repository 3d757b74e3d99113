"""A peer that breaks the rules: its connection goes, with the reason, and nothing else."""

import msgspec
import pytest

from byway.core.actions import CloseLink, Send, SendReply
from byway.core.behaviours.load_exchange import BROKERS_MAX
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import FrameReceived, LinkDown, LinkUp
from byway.core.invariants import validate
from byway.core.snapshot import read
from byway.model import ANY, TRUE
from byway.model.messages import (
    Acknowledge,
    AdvertiseRequest,
    Batch,
    Delivery,
    Disconnect,
    Hello,
    Lane,
    Load,
    LoadReport,
    SubscribeRequest,
    SyncDigest,
    SyncNames,
    Unsubscribe,
)
from tests.lone_broker import (
    NAMES,
    NOTHING,
    TOLD,
    Lone,
    acknowledged,
    advertise,
    data,
    entry,
    onward,
    publication,
    publish,
    subscribe,
    unadvertise,
)


def busy(config: BrokerConfig | None = None) -> Lone:
    """A and C advertise and subscribe, a client does both, and publications are under way."""
    lone = Lone("A", "C", config=config or BrokerConfig())
    lone.attach("c", ttl_us=5)
    lone.ask("c", AdvertiseRequest("a", ANY), SubscribeRequest("s", TRUE))
    for link in ("A", "C"):
        lone.receive(link, advertise(f"of {link}"), subscribe(f"of {link}"))
    lone.receive("A", publication(1, p=1))
    lone.ask("c", publish(1, p=1))
    return lone


def frame(lane: Lane, *messages: object, first: int | None = None):
    """The next frame of A on a lane, whatever belongs there."""

    def received(lone: Lone) -> FrameReceived:
        following = lone.sent["A"][lane] + 1 if first is None else first
        return FrameReceived("A", Batch(lane, following, messages))

    return received


def control(*messages: object):
    return frame(Lane.CONTROL, *messages)


def plain(what: object):
    """A frame that has no number."""
    return lambda _: FrameReceived("A", what)


LOAD = Load("X", 1, 0, 0.0, 0.0, 0.0, 0, 0.0)
NOT_TEXT = b"\x92\x81\xa1n\xa1\x96\xc4\x00"
UNREADABLE = msgspec.structs.replace(publication(2), body=b"\xc1")
OUT_OF_RANGE = msgspec.structs.replace(publication(2), body=msgspec.msgpack.encode([{"p": 2**63}]))

BREACHES = {
    "a gap in control": (
        frame(Lane.CONTROL, NOTHING, first=9),
        "lane CONTROL goes on with number 9, expected 7",
    ),
    "a gap in data": (
        frame(Lane.DATA, publication(9), first=3),
        "lane DATA goes on with number 3, expected 2",
    ),
    "acknowledges what was never sent": (
        plain(Acknowledge(99, 0, 0)),
        "acknowledges number 99 of lane CONTROL, never sent",
    ),
    "acknowledges data that was never sent": (
        plain(Acknowledge(0, 99, 0)),
        "acknowledges number 99 of lane DATA, never sent",
    ),
    "confirms what was never sent": (
        plain(Acknowledge(0, 0, 99)),
        "confirms number 99, never sent",
    ),
    "greets in the middle": (plain(Hello("A", 1, 0, 0, 0, 0)), "greets twice"),
    "subscribes twice": (control(subscribe("of A")), f"subscribes {entry('of A')} again"),
    "publishes on the control lane": (
        control(publication(2)),
        "sends Publish on the control lane",
    ),
    "takes back an advertisement on the control lane": (
        control(unadvertise("of A")),
        "sends Unadvertise on the control lane",
    ),
    "subscribes on the data lane": (
        frame(Lane.DATA, subscribe("new")),
        "sends Subscribe on the data lane",
    ),
    "sends what cannot be read": (
        frame(Lane.DATA, UNREADABLE),
        "sends a publication that cannot be read: MessagePack data is malformed",
    ),
    "sends text that is none": (
        frame(Lane.DATA, msgspec.structs.replace(UNREADABLE, body=NOT_TEXT)),
        "sends a publication that cannot be read: 'utf-8' codec can't decode",
    ),
    "sends a number that is none": (
        frame(Lane.DATA, OUT_OF_RANGE),
        "sends a publication that cannot be read: Expected `int` <= 9223372036854775807",
    ),
    "says twice what it holds": (control(NOTHING), "says twice what it holds"),
    "names what nobody asked for": (
        control(SyncNames((), ())),
        "names what it holds without being asked",
    ),
    "too many loads": (
        control(LoadReport((LOAD,) * (BROKERS_MAX + 2))),
        f"reports {BROKERS_MAX + 2} loads at once",
    ),
}


@pytest.mark.parametrize("breach", BREACHES)
def test_a_breach_costs_the_connection_and_nothing_else(breach):
    make, reason = BREACHES[breach]
    lone = busy(BrokerConfig(load_interval_us=1_000))
    before = untouched(lone)
    (closed,) = lone.handle(make(lone))
    assert (type(closed), closed.link) == (CloseLink, "A")
    assert closed.reason.startswith(reason)
    assert untouched(lone) == before
    assert validate(lone.broker) == []


def untouched(lone: Lone) -> tuple:
    """Everything of a broker but its link to A, and who published last."""
    state = read(lone.broker.snapshot())
    links = [link for link in state.links if link.peer != "A"]
    unconfirmed = [link.unconfirmed for link in state.links]
    return (
        links, unconfirmed, state.adverts, state.subscriptions, state.clients, state.in_flight,
        state.sync, state.reachability,
    )  # fmt: skip


def test_too_few_digests():
    lone = Lone("A", agreed=False)
    lone.meet("A")
    reason = "sends 3 digests, not 64"
    assert lone.handle(control(SyncDigest((1, 2, 3), ()))(lone)) == [
        CloseLink("A", reason, fault=True)
    ]


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        (Hello("X", 1, 1, 5, 1, 0), "says it is 'X'"),
        (Hello("A", 1, 1, 5, 1, 0, version=9), "speaks version 9, expected 3"),
        (Hello("A", 0, 1, 5, 1, 0), "has incarnation 0"),
        (
            Hello("A", 1, 1, 99, 0, 0, epoch=1),
            "says it received up to number 99 of lane CONTROL, expected 0 to 9",
        ),
        (
            Hello("A", 1, 1, 9, 7, 0, epoch=1),
            "says it received up to number 7 of lane DATA, expected 0 to 1",
        ),
        (Hello("A", 1, 1, 9, 1, 7, epoch=1), "confirms number 7, but has received up to 1 only"),
    ],
)
def test_a_greeting_that_cannot_be(hello, reason):
    lone = busy()
    lone.handle(LinkDown("A"))
    before = untouched(lone)
    assert lone.handle(LinkUp("A", hello)) == [CloseLink("A", reason, fault=True)]
    assert untouched(lone) == before
    assert not lone.broker.links["A"].up


def test_strangers_are_turned_away():
    lone = busy()
    before = lone.broker.snapshot()
    reason = "is no neighbour of B"
    for name in "XB":
        assert lone.handle(LinkUp(name, Hello(name, 1, 0, 0, 0, 0))) == [
            Send(name, Batch(Lane.CONTROL, 1, (Disconnect(reason),))),
            CloseLink(name, reason),
        ]
    closed = [CloseLink("X", reason, fault=True)]
    assert lone.handle(FrameReceived("X", Acknowledge(0, 0, 0))) == closed
    assert lone.handle(LinkDown("X")) == []
    assert lone.broker.snapshot() == before


def test_what_came_before_the_breach_counts():
    lone = busy()
    closed = lone.handle(control(subscribe("new"), subscribe("of A"))(lone))
    assert CloseLink("A", f"subscribes {entry('of A')} again", fault=True) in closed
    assert lone.broker.subscriptions.get(entry("new")) is not None


def test_what_comes_after_the_breach_does_not():
    lone = busy()
    before = untouched(lone)
    lone.handle(control(NOTHING)(lone))
    lone.sent["A"] = [7, 1]
    assert lone.receive("A", subscribe("new")) == []
    assert lone.handle(FrameReceived("A", Acknowledge(99, 99, 99))) == []
    assert lone.handle(LinkDown("A")) == []
    assert untouched(lone) == before


def test_others_go_on():
    lone = busy()
    lone.handle(control(NOTHING)(lone))
    second = publication(1, publisher="other", p=1)
    assert lone.receive("C", second) == [SendReply("c", (Delivery(3, second, ("s",)),))]


def test_the_next_meeting_starts_anew():
    lone = busy()
    lone.handle(control(NOTHING)(lone))
    second = publication(1, publisher="other", p=1)
    lone.receive("C", second)
    assert lone.broker.hello("A").knows == 0
    # A does not know of any breach, and would resume; it is answered with a new beginning
    (sent,) = lone.handle(LinkUp("A", Hello("A", 1, 1, 5, 1, 0, epoch=1)))
    assert [type(message) for message in sent.frame.messages] == [SyncDigest]
    lone.sent["A"] = [0, 0]
    kept = tuple(lone.broker.context.ends["A"].copies.messages)
    # A and c want it: one more than is needed
    assert kept[-1] == msgspec.structs.replace(onward(second, distance=1), count=1)
    assert data("A", 1, *kept) in lone.receive("A", NOTHING, NAMES, *TOLD)


def test_what_cannot_be_read_costs_one_connection_and_not_every_one():
    """Its sender keeps it until it is confirmed, and sends it again."""
    lone = Lone("A", "C")
    lone.receive("C", subscribe("s"))
    lone.receive("A", UNREADABLE)
    lone.agree("A")
    third = publication(3, p=1)
    assert lone.receive("A", UNREADABLE, third) == [
        acknowledged("A", 4, data=2, confirmed=1),
        data("C", 1, onward(third)),
    ]


@pytest.mark.parametrize("times", [1, 2])
def test_naming_something_twice_is_no_breach(times):
    lone = busy()
    ended = Unsubscribe((entry("of A"),) * times)
    assert not any(isinstance(a, CloseLink) for a in lone.receive("A", ended))
    assert lone.broker.subscriptions.get(entry("of A")) is None
    assert not any(isinstance(a, CloseLink) for a in lone.receive("A", ended))
    assert validate(lone.broker) == []
