"""One copy that is not confirmed does not keep those behind it from being confirmed."""

import msgspec
import pytest

from byway.core.actions import Send
from byway.core.broker import Broker
from byway.core.in_flight import InFlight
from byway.core.inputs import FrameReceived, LinkDown, LinkUp
from byway.core.links import LinkEnd
from byway.core.snapshot.state import BrokerState, LinkState
from byway.core.window import LinkWindow, Runs, Window
from byway.model import ANY
from byway.model.bounds import RUNS_MAX
from byway.model.errors import RemoteProtocolError
from byway.model.messages import (
    Acknowledge,
    AdvertiseRequest,
    Hello,
    Lane,
    Publish,
    SelectiveAcknowledge,
)
from tests.lone_broker import Lone, acknowledged, data, onward, publication, publish, subscribe


def selective(link: str, control: int, data: int, confirmed: int, *runs: tuple[int, int]) -> Send:
    return Send(link, SelectiveAcknowledge(control, data, confirmed, runs))


def forked() -> Lone:
    """From A come publications with p for C, and with q for D."""
    lone = Lone("A", "C", "D", restored=True)
    lone.receive("C", subscribe("c", "p > 0"))
    lone.receive("D", subscribe("d", "q > 0"))
    return lone


P = [publication(n, p=1) for n in range(10)]
Q = [publication(n, q=1) for n in range(10)]


def test_what_is_confirmed_behind_an_unconfirmed_one_is_told_as_a_run():
    lone = forked()
    lone.receive("A", P[1], Q[2], Q[3], P[4], Q[5])
    assert lone.acknowledge("D", 2) == [selective("A", 4, 5, 0, (2, 3))]
    assert lone.acknowledge("D", 3) == [selective("A", 4, 5, 0, (5, 5))]
    assert lone.acknowledge("C", 1) == [acknowledged("A", 4, data=5, confirmed=3)]
    assert lone.acknowledge("C", 2) == [acknowledged("A", 4, data=5, confirmed=5)]


def test_what_is_confirmed_with_all_before_it_is_told_as_ever():
    lone = forked()
    lone.receive("A", P[1], Q[2])
    both = (FrameReceived("C", Acknowledge(5, 1, 1)), FrameReceived("D", Acknowledge(5, 1, 1)))
    assert lone.handle(*both) == [acknowledged("A", 4, data=2, confirmed=2)]


def test_a_publication_that_is_for_nobody_is_confirmed_at_once():
    lone = forked()
    assert lone.receive("A", P[1], publication(2)) == [
        selective("A", 4, 2, 0, (2, 2)),
        data("C", 1, onward(P[1])),
    ]


def test_a_copy_that_a_neighbour_confirms_early_is_forgotten():
    lone = forked()
    lone.receive("A", P[1], P[2], P[3])
    assert lone.handle(FrameReceived("C", SelectiveAcknowledge(5, 3, 0, ((2, 2),)))) == [
        selective("A", 4, 3, 0, (2, 2))
    ]
    assert list(lone.broker.unconfirmed_publications("C")) == [onward(P[1]), onward(P[3])]
    lone.handle(LinkDown("C"))
    lone.agree("C", incarnation=2)  # it has lost its state: only these are sent again
    assert list(lone.broker.unconfirmed_publications("C")) == [onward(P[1]), onward(P[3])]
    assert lone.acknowledge("C", 2) == [acknowledged("A", 4, data=3, confirmed=3)]


def test_a_link_that_resumes_tells_and_hears_what_was_confirmed_early():
    lone = forked()
    lone.receive("A", P[1], Q[2], P[3], P[4])
    lone.handle(LinkDown("A"))
    assert lone.acknowledge("D", 1) == []
    said = lone.broker.hello("A")
    assert (said.confirmed, said.runs) == (0, ((2, 2),))
    resumed = LinkUp("A", Hello("A", 1, 1, 4, 0, 0, said.epoch), said)
    assert acknowledged("A", 4, data=4) not in lone.handle(resumed)
    lone.handle(LinkDown("C"))
    hello = Hello("C", 1, 1, 5, 3, 0, said.epoch, runs=((2, 3),))
    back = lone.handle(LinkUp("C", hello))
    assert selective("A", 4, 4, 0, (3, 4)) in back
    assert [a for a in back if isinstance(a, Send) and a.link == "C"] == []
    assert lone.acknowledge("C", 1) == [acknowledged("A", 4, data=4, confirmed=4)]


def test_what_was_confirmed_after_the_greeting_is_told_when_the_link_is_up():
    lone = forked()
    lone.receive("A", P[1], Q[2], Q[3])
    lone.handle(LinkDown("A"))
    lone.acknowledge("D", 1)
    said = lone.broker.hello("A")
    lone.acknowledge("D", 2)
    resumed = lone.handle(LinkUp("A", Hello("A", 1, 1, 4, 0, 0, said.epoch), said))
    assert selective("A", 4, 3, 0, (2, 3)) in resumed


def ends() -> tuple[LinkEnd, LinkEnd]:
    a, b = LinkEnd("A", "B", 1), LinkEnd("B", "A", 1)
    to_b, to_a = a.hello(), b.hello()
    a.meet(to_a)
    b.meet(to_b)
    a.opened()
    b.opened()
    return a, b


def sent(a: LinkEnd, count: int) -> list[InFlight]:
    """A sends so many publications; what they are copies of."""
    sources = [InFlight(Window(), number, None, "", 2) for number in range(1, count + 1)]
    for source in sources:
        a.copies.append(Publish("p", 1, source.number, 0, 0, 0, 0, b""), source)
    return sources


def test_more_runs_than_a_frame_holds_are_told_in_several():
    a, b = ends()
    count = 2 * RUNS_MAX + 6
    sources = sent(a, count)
    b.take(a.post_data())
    early = range(2, count + 1, 2)
    for number in early:
        b.window.finish(number)
    frames = [b.acknowledgement(), b.acknowledgement()]
    assert b.acknowledgement() is None
    assert [len(frame.runs) for frame in frames] == [RUNS_MAX, 3]
    confirmed = [source for frame in frames for source in a.received(frame)]
    assert confirmed == [sources[number - 1] for number in early]


def test_a_greeting_tells_the_first_runs_and_acknowledgements_the_others():
    a, b = ends()
    count = 2 * RUNS_MAX + 6
    sent(a, count)
    b.take(a.post_data())
    a.lost()
    b.lost()
    for number in range(2, count + 1, 2):
        b.window.finish(number)
    to_b, to_a = a.hello(), b.hello()
    assert len(to_a.runs) == RUNS_MAX
    assert len(a.meet(to_a, to_b).confirmed) == RUNS_MAX
    b.meet(to_b, to_a)
    assert len(a.received(b.acknowledgement())) == 3
    assert b.acknowledgement() is None
    assert len(a.copies) == count // 2


@pytest.mark.parametrize(
    ("confirmed", "runs", "reason"),
    [
        (0, ((2, 4),), "confirms number 4, but has received up to 3 only"),
        (4, (), "confirms number 4, but has received up to 3 only"),
        (1, ((1, 2),), "confirms numbers 1 to 2 behind 1"),
        (0, ((3, 2),), "confirms numbers 3 to 2 behind 0"),
        (0, ((2, 2), (2, 3)), "confirms numbers 2 to 3 behind 2"),
    ],
)
def test_runs_that_cannot_be_are_an_error_of_the_peer(confirmed, runs, reason):
    a, _ = ends()
    sent(a, 5)
    a.post_data()
    with pytest.raises(RemoteProtocolError, match=f"^B: {reason}$"):
        a.received(SelectiveAcknowledge(0, 3, confirmed, runs))
    a.lost()
    with pytest.raises(RemoteProtocolError, match=f"^B: {reason}$"):
        a.meet(Hello("B", 1, 1, 0, 3, confirmed, a.epoch, runs=runs))
    assert (len(a.copies), a.up) == (5, False)


def test_a_number_that_was_never_sent_is_not_received():
    a, _ = ends()
    sent(a, 2)
    with pytest.raises(RemoteProtocolError, match="acknowledges number 2 of lane DATA, never sent"):
        a.received(SelectiveAcknowledge(0, 2, 0, ((2, 2),)))
    assert a.post_data().lane is Lane.DATA
    assert len(a.received(SelectiveAcknowledge(0, 2, 0, ((2, 2),)))) == 1


def test_a_snapshot_of_layout_6_has_numbers_where_this_one_has_runs():
    """Layout 6 listed what finished early number by number, for neighbours and for clients."""
    lone = forked()
    lone.restored = False
    lone.attach("c", ttl_us=10)
    lone.ask("c", AdvertiseRequest("a", ANY))
    lone.ask("c", publish(1, p=1), publish(2), publish(3, p=1), publish(4), publish(5))
    lone.receive("A", P[1], Q[2], Q[3], P[4], Q[5])
    lone.handle(LinkDown("A"))
    lone.acknowledge("D", 3)
    present = lone.broker.snapshot()
    magic, version, state = msgspec.msgpack.decode(present)
    assert version == 7
    fields = BrokerState.__struct_fields__
    links, clients = state[fields.index("links")], state[fields.index("clients")]
    windows = [link[10] for link in links] + [client[8] for client in clients]
    assert [[2, 3], [5, 5]] in [window[2] for window in windows]
    assert [[2, 2], [4, 5]] in [window[2] for window in windows]
    for window in windows:
        window[2] = [n for first, last in window[2] for n in range(first, last + 1)]
    for link in links:
        del link[LinkState.__struct_fields__.index("kind") :]
    del state[fields.index("former") :]
    older = msgspec.msgpack.encode((magic, 6, state))
    assert Broker.restore(older, lone.broker.config).snapshot() == present


class Counted(int):
    """A number that counts comparisons."""

    compared = 0

    def __lt__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) < other

    def __gt__(self, other: int) -> bool:
        Counted.compared += 1
        return int(self) > other

    __hash__ = int.__hash__


@pytest.mark.parametrize("frames", [1, 10, 100])
def test_very_many_runs_are_told_at_once_each(frames):
    """At a reconnection all are untold; each costs the same, however many frames they take."""
    window, count = LinkWindow(), frames * RUNS_MAX
    window.early = Runs((Counted(2 * n), 2 * n) for n in range(1, count + 1))
    window.resume(())
    Counted.compared = 0
    told = []
    while window.untold:
        told.append(window.take_untold(RUNS_MAX))
    compared = Counted.compared
    assert [len(runs) for runs in told] == [RUNS_MAX] * frames
    assert [run for runs in told for run in runs] == list(window.early)
    assert compared <= 4 * count


def test_what_finishes_while_runs_are_told_is_told_too():
    window = LinkWindow()
    for number in (2, 4, 6, 8, 12):
        window.finish(number)
    assert window.take_untold(2) == ((2, 2), (4, 4))
    window.finish(7)
    window.finish(3)  # the peer knows both sides of it
    assert window.take_untold(1) == ((3, 3),)
    window.finish(1)
    assert window.finished_up_to == 4
    assert window.take_untold(1) == ((6, 8),)
    window.finish(5)
    assert window.finished_up_to == 8
    assert window.take_untold(9) == ((12, 12),)
    assert not window.untold
