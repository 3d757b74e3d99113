"""The inbox: what is handed to the broker in a turn, and what waits."""

from byway.core.actions import Timer
from byway.core.inputs import ClientRequested, FrameReceived, TimerFired
from byway.inbox import TURN, Inbox
from tests.unit.inbox.inputs import (
    ACK,
    ALL,
    SUBSCRIBE,
    Room,
    control,
    data,
    frames,
    publications,
    turns,
)

FIRED = TimerFired(Timer("t"))


def put(inbox: Inbox, *told) -> None:
    for link, frame in told:
        inbox.put_frame(link, frame)


def test_control_comes_before_requests_and_requests_before_data() -> None:
    inbox = Inbox()
    put(inbox, ("A", data(1)), ("A", control(1)))
    inbox.put_requests("c", publications(2), 20)
    inbox.put_requests("d", (SUBSCRIBE,), 30)
    put(inbox, ("A", ACK), ("C", data(2)), ("A", data(3)))
    inbox.put_control(FIRED)
    assert inbox.waiting == 7  # acknowledgements and timers are not messages
    assert list(inbox) == [
        *frames(("A", control(1)), ("A", ACK)), FIRED,
        ClientRequested("d", (SUBSCRIBE,)), ClientRequested("c", publications(2)),
        *frames(("A", data(1)), ("C", data(2)), ("A", data(3))),
    ]  # fmt: skip
    assert inbox.take(ALL) == [
        *frames(("A", control(1)), ("A", ACK)), FIRED,
        ClientRequested("d", (SUBSCRIBE,)), ClientRequested("c", publications(2)),
        *frames(("A", data(1)), ("C", data(2)), ("A", data(3))),
    ]  # fmt: skip
    assert (inbox.waiting, inbox.peak, bool(inbox), list(inbox)) == (0, 7, False, [])
    assert inbox.take(ALL) == []


def test_control_can_be_taken_alone() -> None:
    inbox = Inbox()
    put(inbox, ("A", data()), ("A", control()))
    assert inbox.take_control() == frames(("A", control()))
    assert (inbox.waiting, inbox.take_control()) == (1, [])
    assert inbox.take(ALL) == frames(("A", data()))


def test_more_control_than_a_turn_is_several_turns_and_data_does_not_overtake_it() -> None:
    inbox = Inbox()
    half = TURN // 2
    told = [("A", control(n, half)) for n in range(3)]
    put(inbox, *told, ("A", data()))
    inbox.put_requests("c", publications(1))
    assert inbox.take(ALL) == frames(*told[:2])
    assert inbox.waiting == half + 2
    assert inbox.take(ALL) == [
        *frames(told[2]),
        ClientRequested("c", publications(1)),
        *frames(("A", data())),
    ]
    assert inbox.waiting == 0


def test_an_empty_batch_is_handed_over_too() -> None:
    inbox = Inbox()
    put(inbox, ("A", data(1, count=0)))
    assert inbox.take(ALL) == frames(("A", data(1, count=0)))
    assert not inbox


# --- data of neighbours ---------------------------------------------------------------------------


def test_a_turn_is_bounded_and_frames_stay_whole() -> None:
    inbox = Inbox()
    size = TURN - 4
    put(inbox, *(("A", data(n, size)) for n in range(3)))
    assert turns(inbox) == [
        frames(("A", data(0, size)), ("A", data(1, size))),
        frames(("A", data(2, size))),
    ]


def test_a_neighbour_with_a_backlog_does_not_keep_others_waiting() -> None:
    inbox = Inbox()
    put(inbox, *(("A", data(n, 64)) for n in range(200)))
    put(inbox, ("C", data(7)), ("D", data(8)))
    first = inbox.take(ALL)
    assert [e for e in first if e.link != "A"] == frames(("C", data(7)), ("D", data(8)))
    assert sum(len(e.frame.messages) for e in first) <= TURN + 63
    put(inbox, ("C", data(9)))
    assert frames(("C", data(9)))[0] in inbox.take(ALL)
    rest = [e for turn in turns(inbox) for e in turn]
    assert inbox.waiting == 0
    assert [e for e in rest if e.link != "A"] == []


def test_neighbours_share_a_turn() -> None:
    inbox = Inbox()
    for n in range(2_000):
        put(inbox, *((link, data(n)) for link in "ACDE"))
    for events in turns(inbox)[:-1]:
        shares = [sum(e.link == link for e in events) for link in "ACDE"]
        assert shares == [TURN // 4] * 4


def test_whoever_got_nothing_is_first_in_the_next_turn() -> None:
    inbox = Inbox()
    names = [f"N{n:03}" for n in range(100)]  # 100 shares of at least 16 are more than a turn
    for n in range(40):
        put(inbox, *((name, data(n)) for name in names))
    first, second = inbox.take(ALL), inbox.take(ALL)
    assert [e.link for e in first] == [name for name in names[:64] for _ in range(16)]
    assert [e.link for e in second[: 36 * 16]] == [name for name in names[64:] for _ in range(16)]


def test_data_that_is_not_read_waits_in_order() -> None:
    inbox = Inbox()
    inbox.put_requests("c", publications(1))
    put(inbox, ("A", data(1)), ("C", data(2)), ("A", data(3)), ("A", control()))
    assert inbox.take(Room("C")) == frames(("A", control()), ("C", data(2)))
    assert inbox.waiting == 3
    put(inbox, ("A", data(4)))
    assert inbox.take(Room("A", "C")) == frames(("A", data(1)), ("A", data(3)), ("A", data(4)))
    assert inbox.take(Room("A", "C")) == []
    assert inbox.take(Room(None, "A", "C")) == [ClientRequested("c", publications(1))]
    assert inbox.waiting == 0


# --- holding and draining -------------------------------------------------------------------------


def test_while_publications_are_held_or_drained_all_else_is_taken() -> None:
    for reason in ("holding", "draining"):
        inbox = Inbox()
        setattr(inbox, reason, True)
        put(inbox, ("A", data()), ("A", control()))
        inbox.put_requests("c", publications(1))
        inbox.put_requests("c", (SUBSCRIBE,))
        assert inbox.has_ready
        assert inbox.take(ALL) == [*frames(("A", control())), ClientRequested("c", (SUBSCRIBE,))]
        assert not inbox.has_ready
        assert (inbox.take(ALL), inbox.waiting) == ([], 2)
        setattr(inbox, reason, False)
        assert inbox.take(ALL) == [ClientRequested("c", publications(1)), *frames(("A", data()))]


def test_what_a_deaf_client_asks_for_does_not_count_as_ready() -> None:
    inbox = Inbox()
    inbox.deaf = {"c"}
    inbox.put_requests("c", (SUBSCRIBE,))
    assert (inbox.has_ready, inbox.take(ALL)) == (False, [])
    inbox.put_requests("d", publications(1))
    assert not inbox.has_ready
    inbox.put_control(FIRED)
    assert inbox.has_ready


# --- dropping -------------------------------------------------------------------------------------


def test_frames_of_a_lost_link_are_dropped() -> None:
    for backlog in (0, TURN):
        inbox = Inbox()
        put(inbox, *(("C", data(n)) for n in range(backlog)))
        put(inbox, ("A", data(1, 5)), ("A", control(1, 3)), ("A", ACK), ("C", control(2, 2)))
        if backlog:
            assert len(inbox.take(ALL)) > TURN // 2  # what is left stands by neighbour
            put(inbox, ("A", data(2, 5)), ("A", control(1, 3)), ("C", control(2, 2)))
        inbox.put_control(FIRED)
        inbox.drop_link("A")
        left = list(inbox)
        assert FIRED in left
        assert all(not isinstance(e, FrameReceived) or e.link == "C" for e in left)
        assert inbox.waiting == sum(len(e.frame.messages) for e in left if e is not FIRED)
        inbox.drop_link("A")
        assert list(inbox) == left


def test_the_peak_is_the_most_that_ever_waited() -> None:
    inbox = Inbox(peak=3)
    put(inbox, ("A", data(1, 2)))
    assert inbox.peak == 3
    inbox.put_requests("c", publications(2))
    inbox.take(ALL)
    put(inbox, ("A", data(1, 2)))
    assert inbox.peak == 4
    assert repr(inbox) == "<Inbox: 2 messages, 0 of them of clients, 0 control inputs>"
