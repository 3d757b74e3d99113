"""The core of a client while it is attached: whole action lists for every input."""

from copy import copy
from math import inf

import pytest

from byway.model import parse
from byway.model.bounds import INT64_MAX
from byway.model.errors import BywayError, ClosedError, InvalidValueError, WindowFullError
from byway.model.messages import (
    SESSION,
    AdvertiseRequest,
    Attached,
    ClientHello,
    DeliveriesReceived,
    HoldDeliveries,
    PublicationRouted,
    PublicationsAccepted,
    PublicationsConfirmed,
    PublishRequest,
    Refused,
    Requests,
    RoutesRequest,
    Settled,
    Status,
    StatusRequest,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
    Welcome,
)
from byway.model.status import BrokerStatus, encode_status
from byway.session.client_actions import (
    ClientTimer,
    CloseConnection,
    HoldReading,
    KeepConnection,
    StartTimer,
    StopTimer,
    TellAccepted,
    TellClosed,
    TellConfirmed,
    TellEvents,
    TellOpened,
    TellRefused,
    TellRegistration,
    TellStatus,
    Warn,
    WriteFrame,
)
from byway.session.client_core import RECEIPT_DELAY_US, RECEIPT_EVERY, ClientCore, whole
from byway.session.client_inputs import (
    ClientClosed,
    ClientInput,
    ClientOpened,
    EventsTaken,
    FiltersReplaced,
    PublicationMade,
    PublishingEnded,
    Registered,
    StatusAsked,
    Unregistered,
)
from byway.session.event_queue import UNDER_WAY_BYTES
from byway.session.outgoing_publications import OutgoingPublication, RoutedPublication, Routes
from byway.session.registrations import Registration
from tests.unit.session.scripted_client import (
    ENDED,
    INTERRUPTED,
    START_US,
    ScriptedClient,
    advertisement,
    control,
    data,
    delivery,
    soon,
    subscription,
)

BEGIN, FLUSH = ClientTimer.BEGIN, ClientTimer.FLUSH
RECEIPT, SETTLE = ClientTimer.RECEIPT, ClientTimer.SETTLE
ANY, DEAR = parse("x > 0"), parse("x > 90")
ATTACHED = [StopTimer(ClientTimer.ATTEMPT), KeepConnection(5.0, 10.0)]


class MandatoryPublication(RoutedPublication):
    is_mandatory = True


def attached(**options: object) -> ScriptedClient:
    client = ScriptedClient(**options)
    client.attach()
    return client


def registered(client: ScriptedClient, *registrations: Registration) -> None:
    """Register and let the broker settle."""
    for registration in registrations:
        client.do(Registered(registration))
    client.fire(FLUSH)
    for registration in registrations:
        client.reply(*(Settled(entry.wire_name) for entry in registration.entries))


# --- publications ---------------------------------------------------------------------------------


def test_publications_made_before_the_client_is_attached_are_sent_then() -> None:
    client = ScriptedClient()
    assert client.publish(b"a") == []
    client.open()
    assert client.publish(b"b") == []
    assert client.attach() == [*ATTACHED, soon(client), TellOpened()]
    assert client.publish(b"c") == []
    assert client.fire(FLUSH) == [
        data(PublishRequest(1, b"a"), PublishRequest(2, b"b"), PublishRequest(3, b"c"))
    ]
    assert client.publish(b"d") == [soon(client)]


def test_publications_are_collected_and_sent_together_once() -> None:
    client = attached()
    assert client.publish(b"a") == [soon(client)]
    assert client.publish(b"b") == []
    assert client.fire(FLUSH) == [data(PublishRequest(1, b"a"), PublishRequest(2, b"b"))]
    assert client.publish(b"c") == [soon(client)]
    assert client.fire(FLUSH) == [data(PublishRequest(3, b"c"))]


def test_what_the_broker_says_of_publications_is_told() -> None:
    client = attached()
    client.publish(b"a", b"b", b"c")
    client.fire(FLUSH)
    assert client.reply(PublicationsAccepted(2)) == [TellAccepted(2)]
    assert client.reply(PublicationsAccepted(1)) == []
    assert client.reply(PublicationsConfirmed(1)) == [TellConfirmed(1)]
    assert client.reply(PublicationsAccepted(3), PublicationsConfirmed(2)) == [
        TellAccepted(3),
        TellConfirmed(2),
    ]
    assert client.reply(PublicationsConfirmed(3), PublicationsConfirmed(3)) == [TellConfirmed(3)]
    assert client.reply(PublicationsConfirmed(3)) == []


def test_the_window_is_full_until_a_publication_is_confirmed() -> None:
    client = attached(window=2)
    client.publish(b"a", b"b")
    client.fire(FLUSH)
    client.reply(PublicationsAccepted(2))
    with pytest.raises(WindowFullError):
        client.publish(b"c")
    assert client.reply(PublicationsConfirmed(1)) == [TellConfirmed(1)]
    assert client.publish(b"c") == [soon(client)]
    assert client.fire(FLUSH) == [data(PublishRequest(3, b"c"))]


def test_a_refused_publication_is_told_and_gives_room_in_bytes() -> None:
    client = attached(window_bytes=3)
    bad = OutgoingPublication(b"bad")
    client.do(PublicationMade(bad))
    client.fire(FLUSH)
    with pytest.raises(WindowFullError):
        client.publish(b"x")
    assert client.reply(Refused("1", "it conforms to nothing")) == [TellRefused(bad)]
    assert str(bad.error) == "publication 1 was refused: it conforms to nothing"
    assert client.reply(Refused("1", "again"), Refused("9", "never made")) == []
    assert client.publish(b"x") == [soon(client)]


def test_a_publication_that_joins_others_has_the_effect_of_its_input() -> None:
    joined, handed_in = attached(window=4), attached(window=4)
    assert not joined.core.join(OutgoingPublication(b"a"))  # none waits: it would start the timer
    assert joined.core.publications.last == 0
    for client in (joined, handed_in):
        assert client.publish(b"a") == [soon(client)]
    for body in (b"b", b"c"):
        assert joined.core.join(OutgoingPublication(body))
        assert handed_in.publish(body) == []
    assert joined.core.join(RoutedPublication(b"d"))
    assert handed_in.do(PublicationMade(RoutedPublication(b"d"))) == []
    with pytest.raises(WindowFullError):
        joined.core.join(OutgoingPublication(b"e"))
    assert joined.fire(FLUSH) == handed_in.fire(FLUSH) != []
    for client in (joined, handed_in):
        client.reply(PublicationsConfirmed(2))
    assert joined.core.publications.kept_bytes == handed_in.core.publications.kept_bytes == 2
    assert not joined.core.join(OutgoingPublication(b"e"))  # all were sent


def test_a_publication_that_joins_others_is_checked() -> None:
    client = attached()
    client.frame(Welcome(1_000))
    client.publish(b"a")
    before = snapshot(client.core)
    with pytest.raises(InvalidValueError):
        client.core.join(OutgoingPublication(b"x" * 1_001))
    assert snapshot(client.core) == before
    client.do(PublishingEnded("it is draining"))
    with pytest.raises(ClosedError):
        client.core.join(OutgoingPublication(b"b"))
    assert client.fire(FLUSH) == [data(PublishRequest(1, b"a"))]


def test_routes_are_asked_for_ahead_of_the_publications() -> None:
    client = attached()
    routed, mandatory = RoutedPublication(b"b"), MandatoryPublication(b"c")
    client.publish(b"a")
    assert client.do(PublicationMade(routed)) == []
    assert client.do(PublicationMade(mandatory)) == []
    assert client.fire(FLUSH) == [
        control(RoutesRequest(2), RoutesRequest(3)),
        data(PublishRequest(1, b"a"), PublishRequest(2, b"b"), PublishRequest(3, b"c")),
    ]
    assert client.reply(PublicationRouted(2, 0, (), True)) == []
    assert client.reply(PublicationRouted(3, 0, (), True)) == [TellRefused(mandatory)]
    assert routed.routes == mandatory.routes == Routes(0, (), True)
    assert routed.error is None


def test_the_broker_says_how_large_a_publication_may_be() -> None:
    client = attached()
    assert client.frame(Welcome(3)) == []
    with pytest.raises(InvalidValueError, match="4 bytes: at most 3"):
        client.publish(b"long")
    assert client.publish(b"abc") == [soon(client)]


def test_publications_made_while_away_follow_what_the_broker_does_not_have() -> None:
    client = attached(session_ttl=9.0)
    client.publish(b"a", b"b", b"c")
    client.fire(FLUSH)
    client.reply(PublicationsConfirmed(1))
    client.lose_and_redial()
    assert client.publish(b"d") == []
    assert client.attach(resumed=True, published=2) == [
        *ATTACHED,
        TellAccepted(2),
        soon(client, BEGIN),
    ]
    assert client.publish(b"e") == []
    assert client.reply(PublicationsConfirmed(2)) == [TellConfirmed(2)]
    assert client.fire(BEGIN) == [soon(client)]
    assert client.fire(FLUSH) == [
        data(PublishRequest(3, b"c"), PublishRequest(4, b"d"), PublishRequest(5, b"e"))
    ]


def test_a_session_is_resumed_that_has_everything() -> None:
    client = attached(session_ttl=9.0)
    client.publish(b"a")
    client.fire(FLUSH)
    client.reply(PublicationsAccepted(1))
    client.lose_and_redial()
    assert client.attach(resumed=True, published=1) == [*ATTACHED, soon(client, BEGIN)]
    assert client.fire(BEGIN) == []


def test_a_new_session_is_sent_all_that_is_not_confirmed() -> None:
    client = attached()
    client.publish(b"a", b"b", b"c")
    client.fire(FLUSH)
    client.reply(PublicationsAccepted(3), PublicationsConfirmed(1))
    assert client.start_new_session() == [*ATTACHED, soon(client)]
    assert client.fire(FLUSH) == [data(PublishRequest(1, b"b"), PublishRequest(2, b"c"))]
    assert client.reply(PublicationsAccepted(2)) == []  # which was told before
    assert client.reply(PublicationsConfirmed(2)) == [TellConfirmed(3)]


def test_a_flush_that_was_due_when_the_connection_was_lost_is_due_again() -> None:
    client = attached(session_ttl=9.0)
    assert client.publish(b"a") == [soon(client)]
    client.lose_and_redial()
    assert FLUSH not in client.timers
    client.attach(resumed=True)
    assert client.fire(BEGIN) == [soon(client)]
    assert client.fire(FLUSH) == [data(PublishRequest(1, b"a"))]


def test_a_client_that_ends_publishing_sends_what_it_has() -> None:
    client = attached()
    client.publish(b"a")
    assert client.do(PublishingEnded("it is draining")) == []
    with pytest.raises(ClosedError, match="client c is closed: it is draining"):
        client.publish(b"b")
    assert client.fire(FLUSH) == [data(PublishRequest(1, b"a"))]
    assert client.do(Registered(subscription("s"))) == [soon(client)]


# --- registrations --------------------------------------------------------------------------------


def test_requests_are_sent_together_and_overtake_publications() -> None:
    client = attached()
    client.publish(b"a")
    wanted, offered = subscription("s", "x > 0", "x > 90"), advertisement("a")
    assert client.do(Registered(wanted)) == []
    assert client.do(Registered(offered)) == []
    assert wanted.is_open
    assert client.fire(FLUSH) == [
        control(
            SubscribeRequest("s.1.1", ANY),
            SubscribeRequest("s.1.2", DEAR),
            AdvertiseRequest("a.2.3", ANY),
        ),
        data(PublishRequest(1, b"a")),
    ]
    assert client.reply(Settled("s.1.1")) == []
    assert client.reply(Settled("s.1.2"), Settled("a.2.3")) == [
        TellRegistration(wanted),
        TellRegistration(offered),
    ]
    assert wanted.is_settled


def test_a_refused_registration_is_told() -> None:
    client = attached()
    wanted = subscription("s")
    client.do(Registered(wanted))
    client.fire(FLUSH)
    assert client.reply(Refused("s.1.1", "too many")) == [TellRegistration(wanted)]
    assert str(wanted.error) == "subscription s was refused: too many"


def test_new_filters_are_registered_before_the_old_ones_are_withdrawn() -> None:
    client = attached()
    wanted = subscription("s")
    registered(client, wanted)
    assert client.do(FiltersReplaced(wanted, (DEAR,))) == [soon(client)]
    assert client.fire(FLUSH) == [
        control(SubscribeRequest("s.1.2", DEAR), UnsubscribeRequest(("s.1.1",)))
    ]
    assert not wanted.is_settled
    assert client.reply(Settled("s.1.2")) == [TellRegistration(wanted)]


def test_an_unsubscription_overtakes_publications_an_unadvertisement_does_not() -> None:
    client = attached()
    wanted, offered = subscription("s"), advertisement("a")
    registered(client, wanted, offered)
    client.publish(b"a")
    assert client.do(Unregistered((wanted,))) == []
    assert client.do(Unregistered((offered,))) == [
        control(UnsubscribeRequest(("s.1.1",))),
        data(PublishRequest(1, b"a")),
        data(UnadvertiseRequest("a.2.2")),
    ]
    assert not wanted.is_open
    assert not offered.is_open
    client.publish(b"b")
    assert client.fire(FLUSH) == [data(PublishRequest(2, b"b"))]
    assert client.do(Unregistered((wanted, offered))) == []


def test_an_advertisement_is_replaced_around_what_was_published_before() -> None:
    client = attached()
    offered = advertisement("a")
    registered(client, offered)
    client.publish(b"a")
    assert client.do(FiltersReplaced(offered, (DEAR,))) == [
        control(AdvertiseRequest("a.1.2", DEAR)),
        data(PublishRequest(1, b"a")),
        data(UnadvertiseRequest("a.1.1")),
    ]


def test_a_resumed_session_repeats_what_may_not_have_been_read() -> None:
    client = attached(session_ttl=9.0)
    settled, unsettled, withdrawn = (subscription(name) for name in ("s", "t", "u"))
    registered(client, settled, withdrawn)
    client.do(Registered(unsettled))
    client.do(Unregistered((withdrawn,)))
    client.fire(FLUSH)
    client.lose_and_redial()
    assert client.attach(resumed=True) == [*ATTACHED, soon(client, BEGIN)]
    assert not client.core.is_ready
    late = advertisement("a")
    assert client.do(Registered(late)) == []
    assert client.reply(Settled("s.1.1")) == []  # the broker repeats it
    assert client.fire(BEGIN) == [
        control(
            SubscribeRequest("t.3.5", ANY),
            AdvertiseRequest("a.4.6", ANY),
            UnsubscribeRequest(("u.2.2", "t.3.3")),
        ),
        data(UnadvertiseRequest("a.4.4")),
        *(TellRegistration(one) for one in (settled, unsettled, late)),
    ]
    assert client.core.is_ready
    assert client.reply(Settled("t.3.5")) == [TellRegistration(unsettled)]


def test_what_a_resumed_session_repeats_as_settled_is_not_asked_for_again() -> None:
    client = attached(session_ttl=9.0)
    wanted = subscription("s")
    client.do(Registered(wanted))
    client.fire(FLUSH)
    client.lose_and_redial()
    client.attach(resumed=True)
    assert client.reply(Settled("s.1.1")) == [TellRegistration(wanted)]
    assert client.fire(BEGIN) == [TellRegistration(wanted)]


def test_a_new_session_registers_everything_with_the_last_filters() -> None:
    client = attached()
    wanted, offered, withdrawn = subscription("s"), advertisement("a"), subscription("t")
    registered(client, wanted, offered, withdrawn)
    client.lose()
    client.do(FiltersReplaced(wanted, (DEAR,)))
    client.do(Unregistered((withdrawn,)))
    client.fire(ClientTimer.RETRY)
    client.attach(resumed=False)
    assert client.attach() == [
        *ATTACHED,
        soon(client),
        TellRegistration(wanted),
        TellRegistration(offered),
        StartTimer(SETTLE, client.now_us + 5_000_000),
    ]
    assert not offered.is_settled
    assert client.fire(FLUSH) == [
        control(AdvertiseRequest("a.2.2", ANY), SubscribeRequest("s.1.4", DEAR))
    ]


def test_requests_that_were_due_when_the_connection_was_lost_are_made_once() -> None:
    client = attached()
    client.do(Registered(subscription("s")))
    client.start_new_session()
    assert client.fire(FLUSH) == [control(SubscribeRequest("s.1.1", ANY))]


# --- publications wait for advertisements ---------------------------------------------------------


def waiting_to_settle() -> tuple[ScriptedClient, Registration]:
    """A new session whose publications wait for an advertisement."""
    client = attached(settle_wait=3.0)
    offered = advertisement("a")
    registered(client, offered)
    client.publish(b"a")
    assert StartTimer(SETTLE, client.now_us + 3_100_000) in client.start_new_session()
    assert client.fire(FLUSH) == [control(AdvertiseRequest("a.1.1", ANY))]
    assert client.publish(b"b") == []
    return client, offered


BOTH = data(PublishRequest(1, b"a"), PublishRequest(2, b"b"))


def wait_is_over(client: ScriptedClient) -> list[object]:
    return [StopTimer(SETTLE), soon(client)]


def test_publications_wait_in_a_new_session_until_advertisements_are_settled() -> None:
    client, offered = waiting_to_settle()
    assert client.reply(Settled("a.1.1")) == [
        TellRegistration(offered),
        *wait_is_over(client),
    ]
    assert client.fire(FLUSH) == [BOTH]


def test_publications_do_not_wait_for_an_advertisement_that_is_refused() -> None:
    client, offered = waiting_to_settle()
    assert client.reply(Refused("a.1.1", "no")) == [
        TellRegistration(offered),
        *wait_is_over(client),
    ]
    assert client.fire(FLUSH) == [BOTH]


def test_publications_do_not_wait_for_an_advertisement_that_is_withdrawn() -> None:
    client, offered = waiting_to_settle()
    assert client.do(Unregistered((offered,))) == [
        BOTH,
        data(UnadvertiseRequest("a.1.1")),
        *wait_is_over(client),
    ]
    assert client.fire(FLUSH) == []


def test_publications_do_not_wait_for_ever() -> None:
    client, _ = waiting_to_settle()
    assert client.fire(SETTLE) == [soon(client)]
    assert client.fire(FLUSH) == [BOTH]


def test_an_unadvertisement_waits_with_the_publications_before_it() -> None:
    client, offered = waiting_to_settle()
    assert client.do(FiltersReplaced(offered, (DEAR,))) == [
        control(AdvertiseRequest("a.1.2", DEAR))
    ]
    assert client.reply(Settled("a.1.2")) == [
        TellRegistration(offered),
        *wait_is_over(client),
    ]
    assert client.fire(FLUSH) == [BOTH, data(UnadvertiseRequest("a.1.1"))]


def test_the_wait_begins_anew_when_the_session_is_resumed() -> None:
    client, offered = waiting_to_settle()
    client.lose_and_redial()
    client.attach(resumed=True)
    assert client.fire(BEGIN) == [
        control(AdvertiseRequest("a.1.2", ANY)),
        TellRegistration(offered),
        StartTimer(SETTLE, client.now_us + 3_000_000),
        soon(client),
    ]
    assert client.fire(FLUSH) == []
    assert client.reply(Settled("a.1.2")) == [
        TellRegistration(offered),
        *wait_is_over(client),
    ]
    assert client.fire(FLUSH) == [BOTH, data(UnadvertiseRequest("a.1.1"))]


# --- deliveries and receipts ----------------------------------------------------------------------


def test_events_are_told_by_frame_to_the_subscriptions_that_got_some() -> None:
    client = attached()
    first, second = subscription("s"), subscription("t")
    registered(client, first, second)
    assert client.reply(
        delivery(1, "t.2.2"), PublicationsAccepted(0), delivery(2, "s.1.1", "t.2.2")
    ) == [TellEvents((second, first))]
    assert client.reply(delivery(2, "s.1.1")) == []
    assert client.core.deliveries.duplicates == 1


def test_a_client_without_a_session_acknowledges_nothing() -> None:
    client = attached()
    wanted = subscription("s")
    registered(client, wanted)
    assert client.reply(*(delivery(number, "s.1.1") for number in range(1, 100))) == [
        TellEvents((wanted,))
    ]


def test_deliveries_are_acknowledged_after_a_while() -> None:
    client = attached(session_ttl=9.0)
    wanted = subscription("s")
    registered(client, wanted)
    assert client.reply(delivery(1, "s.1.1")) == [
        TellEvents((wanted,)),
        StartTimer(RECEIPT, START_US + RECEIPT_DELAY_US),
    ]
    client.now_us += 10
    assert client.reply(delivery(2, "s.1.1")) == [TellEvents((wanted,))]
    assert client.fire(RECEIPT) == [WriteFrame(Requests((DeliveriesReceived(2),)))]
    assert client.now_us == START_US + 50_000
    assert client.reply(PublicationsAccepted(0)) == []


def test_many_deliveries_are_acknowledged_at_once() -> None:
    client = attached(session_ttl=9.0)
    wanted = subscription("s", messages=1_000)
    registered(client, wanted)
    assert RECEIPT_EVERY == 64
    first = [delivery(number, "s.1.1") for number in range(1, 64)]
    assert client.reply(*first)[-1] == StartTimer(RECEIPT, START_US + 50_000)
    assert client.reply(delivery(64, "s.1.1")) == [
        TellEvents((wanted,)),
        StopTimer(RECEIPT),
        WriteFrame(Requests((DeliveriesReceived(64),))),
    ]
    second = [delivery(number, "s.1.1") for number in range(65, 200)]
    assert client.reply(*second) == [
        TellEvents((wanted,)),
        WriteFrame(Requests((DeliveriesReceived(199),))),
    ]


def test_a_resumed_session_is_told_what_was_received_in_the_hello() -> None:
    client = attached(session_ttl=9.0)
    wanted = subscription("s")
    registered(client, wanted)
    client.reply(delivery(1, "s.1.1"), delivery(2, "s.1.1"))
    client.lose_and_redial()
    assert RECEIPT not in client.timers
    assert client.greet() == [WriteFrame(ClientHello(9_000_000, 2, True))]
    assert client.reply(Attached(True, 0, lost=3)) == [*ATTACHED, soon(client, BEGIN)]
    assert client.core.deliveries.lost == 3
    assert client.reply(delivery(6, "s.1.1")) == [
        TellEvents((wanted,)),
        StartTimer(RECEIPT, client.now_us + 50_000),
    ]
    assert client.core.deliveries.lost == 3
    assert client.fire(RECEIPT) == [WriteFrame(Requests((DeliveriesReceived(6),)))]


def test_a_new_session_counts_deliveries_from_one() -> None:
    client = attached(session_ttl=9.0)
    wanted = subscription("s")
    registered(client, wanted)
    client.reply(*(delivery(number, "s.1.1") for number in range(1, 65)))
    client.start_new_session()
    assert client.reply(delivery(1, "s.1.1", sequence=70)) == [
        TellEvents((wanted,)),
        StartTimer(RECEIPT, client.now_us + 50_000),
    ]
    assert client.fire(RECEIPT) == [WriteFrame(Requests((DeliveriesReceived(1),)))]


def test_the_broker_is_asked_to_hold_deliveries_while_a_subscription_is_full() -> None:
    client = attached()
    first, second = subscription("s", messages=2), subscription("t", messages=3)
    registered(client, first, second)
    fed = TellEvents((first, second))
    assert client.reply(delivery(1, "s.1.1", "t.2.2")) == [fed]
    assert client.reply(delivery(2, "s.1.1", "t.2.2")) == [fed, WriteFrame(HoldDeliveries(True))]
    assert client.reply(delivery(3, "s.1.1", "t.2.2")) == [fed]  # which was under way
    assert client.core.describe().endswith(", deliveries are held until events of s, t are taken")
    assert client.do(EventsTaken(first)) == []
    assert client.do(EventsTaken(second)) == [WriteFrame(HoldDeliveries(False))]
    assert client.do(EventsTaken(second)) == []
    assert client.core.describe() == "attached to B1 at byway://b1:7001"


def test_a_full_subscription_that_is_withdrawn_holds_nothing() -> None:
    client = attached()
    wanted = subscription("s", messages=1)
    registered(client, wanted)
    client.reply(delivery(1, "s.1.1"))
    assert client.do(Unregistered((wanted,))) == [soon(client), WriteFrame(HoldDeliveries(False))]


@pytest.mark.parametrize("is_resumed", [True, False])
def test_deliveries_are_held_over_a_new_connection_if_a_subscription_is_still_full(
    is_resumed: bool,
) -> None:
    client = attached(session_ttl=9.0)
    wanted = subscription("s", messages=1)
    registered(client, wanted)
    client.reply(delivery(1, "s.1.1"))
    if is_resumed:
        client.lose_and_redial()
        found = client.attach(resumed=True)
    else:
        found = client.start_new_session()
    assert found[: len(ATTACHED) + 1] == [*ATTACHED, WriteFrame(HoldDeliveries(True))]
    assert client.do(EventsTaken(wanted)) == [WriteFrame(HoldDeliveries(False))]


def test_room_that_is_made_while_away_is_not_told() -> None:
    client = attached(session_ttl=9.0)
    wanted = subscription("s", messages=1)
    registered(client, wanted)
    client.reply(delivery(1, "s.1.1"))
    client.lose()
    assert client.core.describe() == "away: gone"  # nothing is held now
    assert client.do(EventsTaken(wanted)) == []
    client.fire(ClientTimer.RETRY)
    assert client.attach(resumed=True) == [*ATTACHED, soon(client, BEGIN)]


def test_reading_pauses_if_the_broker_does_not_hold_deliveries() -> None:
    client = attached()
    wanted = subscription("s", size=10)
    registered(client, wanted)
    fed = TellEvents((wanted,))
    assert client.reply(delivery(1, "s.1.1")) == [fed]
    assert client.reply(delivery(2, "s.1.1", data=b"x" * 10)) == [
        fed,
        WriteFrame(HoldDeliveries(True)),
    ]
    assert client.reply(delivery(3, "s.1.1", data=b"x" * UNDER_WAY_BYTES)) == [
        fed,
        HoldReading(True),
    ]
    assert client.reply(delivery(4, "s.1.1")) == [fed]
    assert client.do(EventsTaken(wanted)) == [WriteFrame(HoldDeliveries(False)), HoldReading(False)]


# --- status ---------------------------------------------------------------------------------------

STATUS = BrokerStatus(
    broker="B1", version="1", incarnation=1, listen="b1:7001", clients=1, sessions_away=0,
    advertisements=0, subscriptions=0, queued=0, links=[],
)  # fmt: skip


def test_the_status_is_asked_for_once_and_told() -> None:
    client = attached()
    assert client.do(StatusAsked()) == [WriteFrame(StatusRequest())]
    assert client.do(StatusAsked()) == []
    answer = Status(encode_status(STATUS))
    assert client.frame(answer) == [TellStatus(STATUS)]
    assert client.frame(answer) == []  # nobody asked
    assert client.do(StatusAsked()) == [WriteFrame(StatusRequest())]


def test_the_status_that_is_asked_for_while_away_is_asked_for_later() -> None:
    client = ScriptedClient(session_ttl=9.0)
    assert client.do(StatusAsked()) == []
    assert client.attach() == [*ATTACHED, WriteFrame(StatusRequest()), TellOpened()]
    client.lose_and_redial()  # before the answer came
    assert client.attach(resumed=True) == [*ATTACHED, soon(client, BEGIN)]
    assert client.do(StatusAsked()) == []
    assert client.fire(BEGIN) == [WriteFrame(StatusRequest())]
    assert client.frame(Status(encode_status(STATUS))) == [TellStatus(STATUS)]


def test_a_status_that_cannot_be_read_closes_the_connection_and_is_asked_for_again() -> None:
    client = attached()
    client.do(StatusAsked())
    (closing,) = client.frame(Status(b"{"))
    assert isinstance(closing, CloseConnection)
    assert closing.reason.startswith("bad frame: the status of a broker: ")
    assert WriteFrame(StatusRequest()) in client.start_new_session()
    assert client.frame(Status(encode_status(STATUS))) == [TellStatus(STATUS)]
    assert client.frame(Status(b"{")) == []  # nobody reads it


# --- replies --------------------------------------------------------------------------------------


def test_replies_before_the_client_is_attached_are_dropped() -> None:
    client = ScriptedClient()
    client.do(Registered(subscription("s")))
    client.publish(b"a")
    client.open()
    client.greet()
    assert client.reply(Settled("s.1.1"), PublicationsConfirmed(1), delivery(1, "s.1.1")) == []
    assert (client.core.deliveries.received, client.core.publications.confirmed) == (0, 0)


def test_replies_before_the_client_is_attached_again_are_dropped() -> None:
    client = attached(session_ttl=9.0)
    registered(client, subscription("s"))
    client.reply(delivery(1, "s.1.1"))  # which was not acknowledged
    client.lose_and_redial()
    client.greet()
    assert client.reply(delivery(2, "s.1.1")) == []
    assert client.reply() == []
    assert client.core.deliveries.received == 1


def test_replies_before_the_attachment_in_one_frame_are_dropped() -> None:
    client = attached()
    wanted = subscription("s")
    registered(client, wanted)
    client.publish(b"a")
    client.fire(FLUSH)
    client.lose_and_redial()
    client.attach(resumed=False)
    client.greet()
    told = client.reply(
        delivery(50, "s.1.1"),  # of the session before
        Settled("s.1.1"),
        PublicationsConfirmed(1),
        Attached(False, 0),
        delivery(1, "s.1.1"),
    )
    assert told == [
        *ATTACHED,
        soon(client),
        TellRegistration(wanted),
        TellEvents((wanted,)),
    ]
    assert not wanted.is_settled
    deliveries, publications = client.core.deliveries, client.core.publications
    assert (deliveries.received, deliveries.lost, publications.confirmed) == (1, 0, 0)


def test_replies_that_arrive_with_the_attachment_count() -> None:
    client = attached(session_ttl=9.0)
    wanted = subscription("s")
    registered(client, wanted)
    client.publish(b"a")
    client.fire(FLUSH)
    client.lose_and_redial()
    client.greet()
    assert client.reply(
        Attached(True, 1), Settled("s.1.1"), PublicationsConfirmed(1), delivery(1, "s.1.1")
    ) == [
        *ATTACHED,
        TellAccepted(1),
        soon(client, BEGIN),
        TellEvents((wanted,)),
        TellConfirmed(1),
        StartTimer(RECEIPT, client.now_us + 50_000),
    ]


def test_a_second_attachment_over_one_connection_changes_nothing() -> None:
    client = attached()
    client.publish(b"a")
    client.fire(FLUSH)
    before = snapshot(client.core)
    assert client.reply(Attached(True, 1, lost=5)) == []
    assert client.reply(Attached(False, 0)) == []
    assert snapshot(client.core) == before


def test_a_session_that_is_not_kept_is_warned_of() -> None:
    client = attached(session_ttl=9.0)
    assert client.reply(Refused(SESSION, "too many sessions")) == [
        Warn("no session is kept for it: too many sessions")
    ]


def test_a_connection_that_breaks_the_protocol_is_left_to_its_driver() -> None:
    client = attached()
    assert client.frame(StatusRequest()) == [
        CloseConnection("a broker does not send a client StatusRequest")
    ]
    assert client.publish(b"a") == [soon(client)]


# --- the end --------------------------------------------------------------------------------------


def test_a_client_that_is_closed_opens_no_registration_and_publishes_nothing() -> None:
    client = attached()
    wanted = subscription("s")
    registered(client, wanted)
    client.reply(delivery(1, "s.1.1"))
    client.publish(b"a")
    assert client.do(ClientClosed("done")) == [
        *INTERRUPTED,
        CloseConnection("done", for_good=True),
        *ENDED,
        TellClosed("done"),
    ]
    assert not wanted.is_open
    assert wanted.queue is not None
    assert len(wanted.queue.events) == 1  # it can be taken
    assert client.do(EventsTaken(wanted)) == []
    assert client.do(Unregistered((wanted,))) == []


# --- errors ---------------------------------------------------------------------------------------


def snapshot(core: ClientCore) -> dict[str, object]:
    """Everything that the core and its parts remember."""
    parts = (core, core.attaching, core.registrations, core.deliveries, core.publications)
    found = {
        f"{type(part).__name__}.{name}": copy(getattr(part, name))
        for part in parts
        for name in type(part).__slots__
        if getattr(part, name) not in parts and name not in ("_now_us", "_seen")
    }
    seen = core.deliveries._seen
    return {**found, "seen": (dict(seen.young), dict(seen.old))}


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (PublicationMade(OutgoingPublication(b"c")), WindowFullError),
        (PublicationMade(OutgoingPublication(b"x" * 1_001)), InvalidValueError),
        (PublicationMade(RoutedPublication(b"c")), WindowFullError),
    ],
)
def test_an_input_that_cannot_be_met_changes_nothing(
    event: ClientInput, error: type[BywayError]
) -> None:
    client = attached(window=2)
    client.frame(Welcome(1_000))
    client.publish(b"a", b"b")
    before = snapshot(client.core)
    with pytest.raises(error):
        client.do(event)
    assert snapshot(client.core) == before
    assert client.fire(FLUSH) == [data(PublishRequest(1, b"a"), PublishRequest(2, b"b"))]


def test_an_input_to_a_closed_client_changes_nothing() -> None:
    client = attached()
    wanted, other = subscription("s"), subscription("t")
    registered(client, wanted)
    client.do(ClientClosed("done"))
    before = snapshot(client.core)
    for event in (
        ClientOpened(),
        PublicationMade(OutgoingPublication(b"a")),
        Registered(other),
        FiltersReplaced(wanted, (DEAR,)),
        StatusAsked(),
    ):
        with pytest.raises(ClosedError, match="client c is closed: done"):
            client.do(event)
    assert snapshot(client.core) == before
    assert (wanted.filters, other.is_open, other.key) == ((ANY,), False, 0)


@pytest.mark.parametrize(
    ("number", "least", "found"),
    [(2.4, 0, 2), (0.2, 1, 1), (inf, 0, INT64_MAX), (1e30, 0, INT64_MAX)],
)
def test_numbers_are_made_to_fit_a_message(number: float, least: int, found: int) -> None:
    assert whole(number, least) == found
