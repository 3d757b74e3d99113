"""Trace rows that a broker writes: each event, filled as `byway.model.trace_schema` says."""

import msgspec
import pytest

from byway.core.actions import Timer
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import ClientDetached, LinkDown, LinkUp, NeighbourRemoved, TimerFired
from byway.model import ANY, TRUE
from byway.model.messages import (
    AdvertisementSettled,
    AdvertisementsSynced,
    AdvertiseRequest,
    EntryId,
    Hello,
    LinkKind,
    Message,
    Subscribe,
    SubscribeRequest,
    SubscriptionsSettled,
    SubscriptionsSynced,
    UnadvertiseRequest,
    Unsubscribe,
)
from byway.model.trace_schema import COLUMNS, FILLED, TraceEvent
from byway.trace import TraceBuffer
from tests.lone_broker import (
    NAMES,
    NOTHING,
    Lone,
    advertise,
    body,
    entry,
    publication,
    publish,
    subscribe,
    unadvertise,
)

SIZE = len(body(p=1))


def rows(trace: TraceBuffer) -> list[dict]:
    """What waits in a buffer, columns that are not filled left out."""
    batch = trace.drain()
    found = []
    for packed in batch.rows:
        event = TraceEvent(int(packed["event"]))
        row = {"event": event, "t_us": int(packed["t_us"])}
        for name in (*FILLED[event].required, *FILLED[event].optional):
            number = int(packed[name])
            names = batch.names.get(name)
            row[name] = number if names is None else ([None, *names][number])
        found.append(row)
    return found


def traced(**config) -> tuple[Lone, TraceBuffer]:
    """A and C are neighbours, C wants everything; what happened until then is not looked at."""
    trace = TraceBuffer("B")
    lone = Lone("A", "C", config=BrokerConfig(**config), trace=trace)
    lone.receive("C", subscribe("s"))
    lone.attach("c", ttl_us=10)
    lone.ask("c", AdvertiseRequest("a", ANY), SubscribeRequest("s", TRUE))
    trace.drain()
    lone.now_us = 50
    return lone, trace


def header(sequence=1, publisher="far", hop=1, distance=1, t_pub_us=7) -> dict:
    return {
        "publisher": publisher, "incarnation": 1, "sequence": sequence, "t_pub_us": t_pub_us,
        "hop": hop, "distance": distance, "size_bytes": SIZE,
    }  # fmt: skip


def row(event: TraceEvent, t_us: int = 50, **columns) -> dict:
    return {"event": event, "t_us": t_us, **columns}


def size(message: Message) -> int:
    return len(msgspec.msgpack.encode(message))


FAR = publication(1, published_us=7, p=1)


def test_a_publication_from_a_neighbour():
    lone, trace = traced()
    lone.receive("A", FAR)
    assert rows(trace) == [
        row(TraceEvent.RECEIVED, **header(), link="A", span=1, matches=1, copies=1),
        row(TraceEvent.DELIVERED, **header(), client="c"),
        row(TraceEvent.FORWARDED, **header(hop=2, distance=1), link="C", span=1),
    ]


def test_a_publication_of_a_client():
    lone, trace = traced()
    lone.receive("A", subscribe("t"))
    rows(trace)
    lone.ask("c", publish(1, p=1))
    own = header(publisher="c", hop=0, distance=0, t_pub_us=50)
    onward = header(publisher="c", hop=1, distance=1, t_pub_us=50)
    assert rows(trace) == [
        row(TraceEvent.PUBLISHED, **own, matches=1, copies=2),
        row(TraceEvent.DELIVERED, **own, client="c"),
        row(TraceEvent.FORWARDED, **onward, link="A", span=1),
        row(TraceEvent.FORWARDED, **onward, link="C", span=1),
    ]


def test_matches_are_local_clients_not_their_subscriptions():
    lone, trace = traced()
    lone.ask("c", SubscribeRequest("second", TRUE))
    lone.receive("A", FAR)
    assert [(r["event"], r["matches"]) for r in rows(trace) if "matches" in r] == [
        (TraceEvent.RECEIVED, 1)
    ]


# --- dropped -------------------------------------------------------------------------------------


def test_duplicates_are_dropped():
    lone, trace = traced()
    lone.receive("A", FAR)
    rows(trace)
    lone.receive("A", FAR)
    assert rows(trace) == [
        row(TraceEvent.DROPPED, **header(), kind="duplicate", link="A", client=None)
    ]


def test_what_went_too_far_is_dropped():
    lone, trace = traced(hops_max=3)
    lone.receive("A", publication(1, hop=4, published_us=7, p=1))
    assert rows(trace) == [
        row(TraceEvent.DROPPED, **header(hop=4), kind="hop_limit", link="A", client=None)
    ]


def test_what_conforms_to_nothing_is_dropped():
    lone, trace = traced()
    lone.ask("c", UnadvertiseRequest("a"))
    rows(trace)
    lone.ask("c", publish(1, p=1))
    own = header(publisher="c", hop=0, distance=0, t_pub_us=50)
    assert rows(trace) == [
        row(TraceEvent.DROPPED, **own, kind="nonconforming", link=None, client=None)
    ]


def test_what_finds_no_room_in_a_session_is_dropped():
    lone, trace = traced(session_messages_max=1)
    lone.handle(ClientDetached("c"))
    second = publication(2, published_us=7, p=1)
    lone.receive("A", FAR, second)
    dropped = [r for r in rows(trace) if r["event"] is TraceEvent.DROPPED]
    assert dropped == [
        row(TraceEvent.DROPPED, **header(), kind="queue_full", link=None, client="c")
    ]


def test_what_was_kept_for_a_client_that_does_not_come_back_is_dropped():
    lone, trace = traced()
    lone.handle(ClientDetached("c"))
    lone.receive("A", FAR)
    rows(trace)
    lone.handle(TimerFired(Timer("session", "c")))
    dropped = [r for r in rows(trace) if r["event"] is TraceEvent.DROPPED]
    assert dropped == [
        row(TraceEvent.DROPPED, **header(), kind="client_gone", link=None, client="c")
    ]


def test_what_a_client_has_in_hand_is_not_dropped_when_it_says_goodbye():
    lone, trace = traced()
    lone.receive("A", FAR)
    rows(trace)
    lone.handle(ClientDetached("c", for_good=True))
    assert [r for r in rows(trace) if r["event"] is TraceEvent.DROPPED] == []


def test_copies_for_a_neighbour_that_is_removed_are_dropped():
    lone, trace = traced()
    lone.receive("A", FAR)
    rows(trace)
    lone.handle(NeighbourRemoved("C"))
    onward = header(hop=2)
    found = [r for r in rows(trace) if r["event"] is not TraceEvent.CONTROL_SENT]
    assert found == [
        row(TraceEvent.DROPPED, **onward, kind="link_lost", link="C", client=None),
        row(TraceEvent.LINK_CHANGED, kind="closed", link="C", span=1),
    ]


# --- links and control ---------------------------------------------------------------------------


def test_links():
    lone, trace = traced()
    lone.handle(LinkDown("A"))
    lone.handle(LinkDown("A"))  # no news
    lone.handle(LinkUp("A", Hello("A", 1, 1, 4, 0, 0, epoch=1)))
    lone.handle(LinkDown("A"))
    lone.meet("A", incarnation=2)
    lone.receive("A", NOTHING, NOTHING)
    changes = [(r["link"], r["kind"]) for r in rows(trace) if r["event"] is TraceEvent.LINK_CHANGED]
    assert changes == [
        ("A", "lost"), ("A", "resumed"), ("A", "lost"), ("A", "opened"), ("A", "closed"),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", [LinkKind.SOFT, LinkKind.OPENING])
def test_links_outside_the_tree_have_no_span(kind):
    lone, trace = traced()
    lone.handle(LinkUp("X", Hello("X", 1, 0, 0, 0, 0, kind=kind)))
    lone.handle(LinkDown("X"))
    assert [r for r in rows(trace) if r["event"] is TraceEvent.LINK_CHANGED] == [
        row(TraceEvent.LINK_CHANGED, kind="opened", link="X", span=0),
        row(TraceEvent.LINK_CHANGED, kind="lost", link="X", span=0),
    ]


def test_control_messages_with_their_sizes_and_entries():
    lone, trace = traced()
    lone.receive("A", advertise("x"), subscribe("u"), subscribe("v"))
    lone.receive("C", AdvertisementSettled(entry("x")))
    lone.receive("A", Unsubscribe((entry("u"), entry("v"))))
    both = SubscriptionsSettled((entry("u"), entry("v")))
    sent = [
        ("A", "sub", 1, subscribe("s")),
        ("A", "sub", 1, Subscribe(EntryId("c", "s", 1, 2), TRUE)),
        ("A", "sub-ok", 2, both),
        ("C", "adv", 1, advertise("x")),
        ("A", "adv-ok", 1, AdvertisementSettled(entry("x"))),
    ]
    assert rows(trace) == [
        row(TraceEvent.CONTROL_SENT, link=link, kind=kind, count=count, size_bytes=size(message))
        for link, kind, count, message in sent
    ]


def test_the_end_of_an_advertisement_is_a_control_message_on_the_data_lane():
    lone, trace = traced()
    lone.receive("A", advertise("x"))
    rows(trace)
    lone.receive("A", unadvertise("x"))
    ended = row(TraceEvent.CONTROL_SENT, kind="unadv", link="C", count=1)
    found = [r for r in rows(trace) if r["kind"] == "unadv"]
    assert found == [{**ended, "size_bytes": size(unadvertise("x"))}]


def test_without_a_trace_the_same_is_done():
    lone, trace = traced()
    silent = Lone("A", "C")
    silent.receive("C", subscribe("s"))
    silent.attach("c", ttl_us=10)
    silent.ask("c", AdvertiseRequest("a", ANY), SubscribeRequest("s", TRUE))
    silent.now_us = 50
    assert lone.receive("A", FAR) == silent.receive("A", FAR)
    assert lone.broker.counters.messages_by_kind == silent.broker.counters.messages_by_kind
    assert (trace.rows, silent.broker.context.trace.rows) == (3, 0)


@pytest.mark.parametrize("event", [e for e in TraceEvent if e <= TraceEvent.DROPPED])
def test_rows_fill_what_the_schema_says(event):
    """Every column that an event fills is there, and it is one that exists."""
    names = {column.name for column in COLUMNS}
    assert set(FILLED[event].required) <= names
    lone, trace = traced()
    lone.receive("A", FAR, FAR)
    lone.ask("c", publish(1, p=1))
    found = [r for r in rows(trace) if r["event"] is event]
    assert found
    for each in found:
        assert all(each[name] is not None for name in FILLED[event].required)


def test_copies_for_a_neighbour_that_does_not_want_them_are_dropped():
    trace = TraceBuffer("B")
    lone = Lone("A", "N", agreed=False, restarting=True, trace=trace)
    lone.agree("A")
    lone.receive("A", publication(1, p=1), publication(2, p=2))
    lone.meet("N")
    lone.receive("N", NOTHING, NAMES, subscribe("s", "p = 2"), AdvertisementsSynced())
    trace.drain()
    lone.receive("N", SubscriptionsSynced())
    dropped = [row for row in rows(trace) if row["event"] is TraceEvent.DROPPED]
    assert [(row["kind"], row["link"], row["sequence"]) for row in dropped] == [
        ("unwanted", "N", 1)
    ]


def test_copies_for_a_missing_neighbour_that_is_forgotten_are_dropped():
    trace = TraceBuffer("B")
    lone = Lone("A", "N", agreed=False, restarting=True, trace=trace)
    lone.agree("A")
    lone.receive("A", publication(1, p=1), publication(2, p=2))
    trace.drain()
    lone.handle(NeighbourRemoved("N"))
    dropped = [row for row in rows(trace) if row["event"] is TraceEvent.DROPPED]
    assert [(row["kind"], row["link"], row["sequence"]) for row in dropped] == [
        ("link_lost", "N", 1),
        ("link_lost", "N", 2),
    ]
