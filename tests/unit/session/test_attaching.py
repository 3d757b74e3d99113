"""How a client gets attached: brokers in turn, time limits, back-off, resuming, and the end."""

from collections.abc import Callable
from math import inf

import pytest

from byway.model.bounds import INT64_MAX
from byway.model.errors import ClosedError
from byway.model.messages import (
    Acknowledge,
    AnyFrame,
    Attached,
    Batch,
    ClientHello,
    Goodbye,
    Hello,
    HoldDeliveries,
    Lane,
    Replies,
    Requests,
    StatusRequest,
    Welcome,
)
from byway.session.client_actions import (
    ClientTimer,
    CloseConnection,
    Dial,
    DropConnection,
    KeepConnection,
    StartTimer,
    StopTimer,
    TellClosed,
    TellOpened,
    TellOpenFailed,
    WriteFrame,
)
from byway.session.client_inputs import (
    ClientClosed,
    ClientOpened,
    ConnectionLost,
    FrameArrived,
    Greeted,
    Registered,
    StatusAsked,
)
from byway.session.client_options import BrokerUrl
from tests.unit.session.scripted_client import (
    B1,
    B2,
    B3,
    ENDED,
    INCARNATION,
    INTERRUPTED,
    START_US,
    TIMEOUT_US,
    ScriptedClient,
    preamble,
    soon,
    subscription,
)

ATTEMPT, RETRY = ClientTimer.ATTEMPT, ClientTimer.RETRY


def dials(
    client: ScriptedClient, connection: int, url: BrokerUrl, incarnation: int = INCARNATION
) -> list[object]:
    return [StartTimer(ATTEMPT, client.now_us + TIMEOUT_US), Dial(connection, url, incarnation)]


# --- the first connection -------------------------------------------------------------------------


def test_a_client_dials_greets_and_is_attached() -> None:
    client = ScriptedClient(session_ttl=2.5)
    assert client.core.state == "new"
    assert client.open() == dials(client, 1, B1)
    assert client.core.state == "connecting"
    assert client.greet() == [WriteFrame(ClientHello(2_500_000, 0, False))]
    assert client.frame(Welcome(1_000)) == []
    assert client.reply(Attached(False, 0)) == [
        StopTimer(ATTEMPT),
        KeepConnection(5.0, 10.0),
        TellOpened(),
    ]
    assert client.core.state == "attached"
    assert client.core.describe() == "attached to B1 at byway://b1:7001"
    assert repr(client.core) == "<ClientCore of c, attached to B1 at byway://b1:7001>"
    assert (client.core.attachments, client.core.sessions) == (1, 1)
    assert not client.timers


def test_a_client_is_opened_once() -> None:
    client = ScriptedClient()
    client.open()
    assert client.open() == []
    client.attach()
    assert client.open() == []
    client.lose()
    assert client.open() == []


@pytest.mark.parametrize(
    ("own_s", "peer_ms", "every_s", "silence_s"),
    [(5.0, 2_000, 2.0, 4.0), (1.0, 5_000, 1.0, 10.0)],
)
def test_keep_alives_are_as_frequent_as_either_side_wants(
    own_s: float, peer_ms: int, every_s: float, silence_s: float
) -> None:
    client = ScriptedClient(keepalive=own_s)
    client.open()
    client.do(Greeted(1, preamble(keepalive_ms=peer_ms)))
    assert KeepConnection(every_s, silence_s) in client.reply(Attached(False, 0))


def test_brokers_are_tried_in_turn_for_whatever_reason_one_fails() -> None:
    client = ScriptedClient(B1, B2, B3)
    client.open()
    assert client.lose("refused") == [StopTimer(ATTEMPT), *dials(client, 2, B2)]
    words = "no answer within 5 s"
    assert client.fire(ATTEMPT) == [DropConnection(words), *dials(client, 3, B3)]
    client.greet("B3")
    assert client.frame(Goodbye("no room")) == []
    assert client.lose("closed") == [
        StopTimer(ATTEMPT),
        *ENDED,
        TellOpenFailed(
            (
                ("byway://b1:7001", "refused"),
                ("byway://b2:7001", words),
                ("byway://b3:7001", "no room"),
            )
        ),
        TellClosed("it could not connect"),
    ]
    assert client.core.describe() == "closed: it could not connect"


def test_an_attempt_that_takes_too_long_may_be_the_last() -> None:
    client = ScriptedClient(connect_timeout=0.5)
    assert client.open() == [StartTimer(ATTEMPT, START_US + 500_000), Dial(1, B1, INCARNATION)]
    words = "no answer within 0.5 s"
    assert client.fire(ATTEMPT) == [
        DropConnection(words),
        *ENDED,
        TellOpenFailed((("byway://b1:7001", words),)),
        TellClosed("it could not connect"),
    ]


def test_the_second_broker_attaches_the_client() -> None:
    client = ScriptedClient(B1, B2)
    client.open()
    client.lose()
    client.attach(broker="B2")
    assert client.core.describe() == "attached to B2 at byway://b2:7001"


def test_an_attempt_may_take_for_ever() -> None:
    client = ScriptedClient(connect_timeout=inf, connect_wait=inf, retry=inf, retry_max=inf)
    assert client.open() == [StartTimer(ATTEMPT, START_US + INT64_MAX), Dial(1, B1, INCARNATION)]
    assert client.lose() == [StopTimer(ATTEMPT), StartTimer(RETRY, START_US + INT64_MAX)]


def test_a_peer_that_is_no_broker_fails_the_attempt() -> None:
    client = ScriptedClient(B1, B2)
    client.open()
    words = "this is a client, not a broker"
    assert client.greet("other", role="client") == [CloseConnection(words)]
    assert client.reply(Attached(False, 0)) == []  # whatever it says
    assert client.lose(words) == [StopTimer(ATTEMPT), *dials(client, 2, B2)]


@pytest.mark.parametrize(
    ("goodbye", "reason"),
    [(Goodbye("too many"), "too many"), (Goodbye(), "the broker said goodbye")],
)
def test_the_reason_of_a_goodbye_counts(goodbye: Goodbye, reason: str) -> None:
    client = ScriptedClient()
    client.open()
    client.greet()
    client.frame(goodbye)
    assert TellOpenFailed((("byway://b1:7001", reason),)) in client.lose("the peer closed it")


def test_a_goodbye_for_good_ends_the_search() -> None:
    client = ScriptedClient(B1, B2, connect_wait=60.0)
    client.open()
    client.greet()
    client.frame(Goodbye("a newer one was here", for_good=True))
    assert client.lose() == [
        StopTimer(ATTEMPT),
        *ENDED,
        TellOpenFailed((("byway://b1:7001", "a newer one was here"),)),
        TellClosed("it could not connect"),
    ]


# --- waiting for the first connection -------------------------------------------------------------


def test_the_first_connection_is_attempted_again_while_there_is_time() -> None:
    draws = iter([0.5, 1.0, 0.75])
    client = ScriptedClient(
        B1, B2, connect_wait=0.3, retry=0.1, retry_max=0.3, jitter=lambda: next(draws)
    )
    client.open()
    client.lose("a")
    assert client.lose("b") == [StopTimer(ATTEMPT), StartTimer(RETRY, START_US + 50_000)]
    assert client.fire(RETRY) == dials(client, 3, B1)
    client.lose("c")
    assert client.lose("d") == [StopTimer(ATTEMPT), StartTimer(RETRY, START_US + 250_000)]
    assert client.fire(RETRY) == dials(client, 5, B1)
    client.lose("e")
    client.now_us = START_US + 300_000  # the time is over
    assert client.lose("f")[-2:] == [
        TellOpenFailed((("byway://b1:7001", "e"), ("byway://b2:7001", "f"))),
        TellClosed("it could not connect"),
    ]


def test_a_broker_that_comes_up_late_attaches_the_client() -> None:
    client = ScriptedClient(connect_wait=10.0)
    client.open()
    client.lose()
    client.fire(RETRY)
    assert TellOpened() in client.attach()


# --- after a loss ---------------------------------------------------------------------------------


def test_a_lost_connection_is_made_again_and_the_session_resumed() -> None:
    client = ScriptedClient(session_ttl=1.0)
    client.attach()
    assert client.lose("reset") == [*INTERRUPTED, StartTimer(RETRY, START_US + 100_000)]
    assert client.core.describe() == "away: reset"
    assert client.fire(RETRY) == dials(client, 2, B1)
    assert client.core.state == "away"
    assert client.greet() == [WriteFrame(ClientHello(1_000_000, 0, True))]
    assert client.reply(Attached(True, 0)) == [
        StopTimer(ATTEMPT),
        KeepConnection(5.0, 10.0),
        soon(client, ClientTimer.BEGIN),
    ]
    assert client.fire(ClientTimer.BEGIN) == []
    assert (client.core.attachments, client.core.sessions) == (2, 1)
    assert client.core.attaching.reason == ""


def test_a_session_that_was_not_kept_is_followed_by_one_of_a_higher_incarnation() -> None:
    client = ScriptedClient()
    client.attach()
    client.lose_and_redial()
    client.greet()
    new = client.now_us
    assert client.reply(Attached(False, 0)) == [
        CloseConnection("the session was not kept: a new one is started"),
        *dials(client, 3, B1, new),
    ]
    assert (client.core.state, client.core.attaching.incarnation) == ("away", INCARNATION)
    assert client.greet() == [WriteFrame(ClientHello(0, 0, True))]
    assert client.reply(Attached(False, 0)) == [StopTimer(ATTEMPT), KeepConnection(5.0, 10.0)]
    assert (client.core.attachments, client.core.sessions) == (2, 2)
    assert client.core.attaching.incarnation == new


def test_a_session_that_was_not_kept_is_never_asked_for_again() -> None:
    client = ScriptedClient()
    client.attach()
    client.lose_and_redial()
    client.attach(resumed=False)
    client.greet()
    first = client.now_us
    client.lose()  # the broker may have attached the higher incarnation, and refuses the old one
    assert client.fire(RETRY) == dials(client, 4, B1, first + 200_000)
    client.fire(ATTEMPT)
    client.fire(RETRY)
    new = client.now_us
    assert client.attach() == [StopTimer(ATTEMPT), KeepConnection(5.0, 10.0)]
    assert (client.core.sessions, client.core.attaching.incarnation) == (2, new)
    client.lose()
    assert client.fire(RETRY) == dials(client, 6, B1, new)  # this session may be kept


def test_another_broker_is_asked_for_a_session_of_a_higher_incarnation() -> None:
    client = ScriptedClient(B1, B2)
    client.attach()
    client.lose_and_redial()
    assert client.lose("refused") == [
        StopTimer(ATTEMPT),
        *dials(client, 3, B2, START_US + 100_000),
    ]
    assert client.greet("B2") == [WriteFrame(ClientHello(0, 0, False))]
    client.lose("refused as well")
    assert client.core.describe() == (
        "away: byway://b1:7001: refused; byway://b2:7001: refused as well"
    )
    first = client.fire(RETRY)
    assert first == dials(client, 4, B1)  # its session may be there still
    client.lose("refused")
    client.attach(broker="B2")
    assert (client.core.sessions, client.core.attaching.broker) == (2, "B2")
    client.lose()
    assert client.fire(RETRY) == dials(client, 6, B2, client.core.attaching.incarnation)
    assert client.lose()[-1] == Dial(7, B1, client.now_us)


def test_incarnations_rise_even_if_the_clock_does_not() -> None:
    client = ScriptedClient(B1, B2)
    client.attach()
    client.lose_and_redial()
    client.now_us = 3  # the clock was set back
    tried = [client.lose()[-1].incarnation]  # type: ignore[union-attr]
    for _ in range(2):
        client.lose()
        client.timers[RETRY] = client.now_us
        client.fire(RETRY)
        tried.append(client.lose()[-1].incarnation)  # type: ignore[union-attr]
    assert tried == [INCARNATION + 1, INCARNATION + 2, INCARNATION + 3]


def test_the_delay_doubles_up_to_its_bound_and_begins_anew_after_success() -> None:
    client = ScriptedClient(retry=0.1, retry_max=0.35, jitter=lambda: 0.5)

    def delays(times: int) -> list[int]:
        found = []
        for _ in range(times):
            (started,) = [action for action in client.lose() if isinstance(action, StartTimer)]
            assert started.timer is RETRY
            found.append(started.at_us - client.now_us)
            client.fire(RETRY)
        return found

    client.attach()
    assert delays(4) == [50_000, 100_000, 175_000, 175_000]
    client.attach(resumed=True)
    client.fire(ClientTimer.BEGIN)
    assert delays(2) == [50_000, 100_000]


def test_an_attempt_that_takes_too_long_is_repeated_after_a_while() -> None:
    client = ScriptedClient()
    client.attach()
    client.lose_and_redial()
    assert client.fire(ATTEMPT) == [
        DropConnection("no answer within 5 s"),
        StartTimer(RETRY, client.now_us + 200_000),
    ]


def test_a_client_that_is_not_to_reconnect_is_closed_by_a_loss() -> None:
    client = ScriptedClient(reconnect=False)
    client.attach()
    assert client.lose("reset") == [*INTERRUPTED, *ENDED, TellClosed("reset")]
    assert client.core.describe() == "closed: reset"


def test_a_client_that_is_told_goodbye_comes_back() -> None:
    client = ScriptedClient()
    client.attach()
    assert client.frame(Goodbye("restarting")) == []
    assert client.lose() == [*INTERRUPTED, StartTimer(RETRY, START_US + 100_000)]
    assert client.core.describe() == "away: restarting"
    client.fire(RETRY)
    client.lose("refused")
    assert client.core.describe() == "away: byway://b1:7001: refused"  # and not the old goodbye


def test_a_client_that_is_told_goodbye_for_good_is_closed() -> None:
    client = ScriptedClient(B1, B2)
    client.attach()
    client.frame(Goodbye("another client of this name connected", for_good=True))
    reason = "another client of this name connected"
    assert client.lose() == [*INTERRUPTED, *ENDED, TellClosed(reason)]


def test_a_client_that_is_told_goodbye_for_good_when_it_comes_back_is_closed() -> None:
    client = ScriptedClient(B1, B2)
    client.attach()
    client.lose_and_redial()
    client.greet()
    client.frame(Goodbye("a newer one was here", for_good=True))
    reason = "byway://b1:7001: a newer one was here"
    assert client.lose() == [StopTimer(ATTEMPT), *ENDED, TellClosed(reason)]


# --- frames that a broker must not send -----------------------------------------------------------

FOREIGN: list[AnyFrame] = [
    Acknowledge(0, 0, 0),
    Batch(Lane.CONTROL, 1, ()),
    Hello("B2", 1, 0, 0, 0, 0),
    ClientHello(),
    Requests(()),
    HoldDeliveries(True),
    StatusRequest(),
]


@pytest.mark.parametrize("frame", FOREIGN, ids=lambda frame: type(frame).__name__)
@pytest.mark.parametrize("is_attached", [False, True])
def test_a_frame_that_a_broker_must_not_send_closes_the_connection(
    frame: AnyFrame, is_attached: bool
) -> None:
    client = ScriptedClient()
    client.open()
    client.greet()
    if is_attached:
        client.reply(Attached(False, 0))
    words = f"a broker does not send a client {type(frame).__name__}"
    assert client.frame(frame) == [CloseConnection(words)]
    for later in (frame, Replies((Attached(False, 0),)), Goodbye("bye", for_good=True)):
        assert client.frame(later) == []
    assert client.core.state == ("attached" if is_attached else "connecting")
    if is_attached:
        assert client.lose(words) == [*INTERRUPTED, StartTimer(RETRY, START_US + 100_000)]
    else:
        assert TellOpenFailed((("byway://b1:7001", words),)) in client.lose(words)


# --- the end --------------------------------------------------------------------------------------


def newly_made(client: ScriptedClient) -> None:
    assert client.core.state == "new"


def dialling(client: ScriptedClient) -> None:
    client.open()


def greeted(client: ScriptedClient) -> None:
    client.open()
    client.greet()


def waiting_for_the_first(client: ScriptedClient) -> None:
    client.open()
    client.lose()


def attached(client: ScriptedClient) -> None:
    client.attach()


def resumed(client: ScriptedClient) -> None:
    client.attach()
    client.lose_and_redial()
    client.attach(resumed=True)


def away(client: ScriptedClient) -> None:
    client.attach()
    client.lose()


def dialling_again(client: ScriptedClient) -> None:
    client.attach()
    client.lose_and_redial()


def starting_anew(client: ScriptedClient) -> None:
    client.attach()
    client.lose_and_redial()
    client.attach(resumed=False)


@pytest.mark.parametrize(
    ("prepare", "parting"),
    [
        (newly_made, []),
        (dialling, [DropConnection("done")]),
        (greeted, [DropConnection("done")]),
        (waiting_for_the_first, []),
        (attached, [CloseConnection("done", for_good=True)]),
        (resumed, [CloseConnection("done", for_good=True)]),
        (away, []),
        (dialling_again, [DropConnection("done")]),
        (starting_anew, [DropConnection("done")]),
    ],
)
def test_a_client_is_closed_in_every_state(
    prepare: Callable[[ScriptedClient], None], parting: list[object]
) -> None:
    client = ScriptedClient(connect_wait=60.0)
    prepare(client)
    assert client.do(ClientClosed("done")) == [*INTERRUPTED, *parting, *ENDED, TellClosed("done")]
    assert client.core.describe() == "closed: done"
    assert client.do(ClientClosed("again")) == []
    assert client.lose() == []
    for event in (ClientOpened(), StatusAsked(), Registered(subscription("s"))):
        with pytest.raises(ClosedError, match="client c is closed: done"):
            client.do(event)
    with pytest.raises(ClosedError, match="client c is closed: done"):
        client.publish(b"x")
    assert str(client.core.closing_error()) == "client c is closed: done"


def test_a_client_that_could_not_connect_is_closed_already() -> None:
    client = ScriptedClient()
    client.open()
    client.lose("refused")
    assert client.do(ClientClosed("done")) == []
    assert client.core.describe() == "closed: it could not connect"


# --- stale connections ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "prepare", [dialling_again, starting_anew, away, waiting_for_the_first, resumed]
)
def test_what_an_earlier_connection_brings_is_ignored(
    prepare: Callable[[ScriptedClient], None],
) -> None:
    client = ScriptedClient(connect_wait=60.0)
    prepare(client)
    state, timers = client.core.describe(), dict(client.timers)
    last = client.dialled if RETRY in client.timers else client.dialled - 1
    for connection in range(last + 1):
        for event in (
            Greeted(connection, preamble()),
            FrameArrived(connection, Replies((Attached(False, 0),))),
            FrameArrived(connection, Goodbye("bye", for_good=True)),
            FrameArrived(connection, StatusRequest()),
            ConnectionLost(connection, "late"),
        ):
            assert client.do(event) == []
    assert (client.core.describe(), client.timers) == (state, timers)
