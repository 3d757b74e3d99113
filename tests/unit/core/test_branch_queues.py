"""Copies of one publisher for one branch wait for one another, over whatever links they go.

The tree is A – B – C – D; B has a soft link to D. What names C is for a client there, what names D
for one there. Even sequences take the nearest links, so that what is for D alone goes there.
"""

import pytest

from byway.core.actions import Action, Send
from byway.core.backlogs import LinkBacklog, link_backlogs, sample_backlogs
from byway.core.broker_config import BrokerConfig
from byway.core.in_flight import COPY_BYTES
from byway.core.inputs import FrameReceived, LinkDown, LinkUp, NeighbourRemoved
from byway.core.invariants import validate
from byway.model import ANY
from byway.model.messages import Acknowledge, Hello, LinkKind, SelectiveAcknowledge, Unadvertise
from byway.sim.topology.tree import LinkSpec, Topology
from byway.trace import TraceBuffer
from tests.core_net import is_data
from tests.lone_broker import (
    Lone,
    acknowledged,
    advertise,
    data,
    entry,
    onward,
    publication,
    subscribe,
    unadvertise,
)
from tests.planners import SoftRoutes
from tests.steps import steps

TO_D, ALSO_TO_D = publication(2, D=1), publication(4, D=1)
TO_C = publication(5, C=1)
END = Unadvertise(entry("a"), ANY)


def with_soft_link(restored: bool = False, more: int = 0) -> Lone:
    """B, with a soft link to D; the publisher, far, is behind A. So many more neighbours have
    lower numbers than C."""
    links = LinkSpec("A", "B", 0), LinkSpec("B", "C", 0), LinkSpec("C", "D", 0)
    others = [f"A{number}" for number in range(more)]
    links += tuple(LinkSpec(other, "B", 0) for other in others)
    SoftRoutes.tree = Topology(("A", "B", "C", "D", *others), links)
    config = BrokerConfig(behaviours=(SoftRoutes.name,))
    lone = Lone("A", *others, "C", config=config)
    for other in others:
        lone.receive(other, subscribe(f"of {other}", "nothing > 0"))
    lone.restored = restored
    lone.receive("A", advertise("a"))
    lone.receive("C", subscribe("c", "C > 0"), subscribe("d", "D > 0"))
    lone.acknowledge("C", 0)
    lone.sent["D"] = [0, 0]
    lone.handle(LinkUp("D", Hello("D", 1, 0, 0, 0, 0, kind=LinkKind.SOFT)))
    return lone


@pytest.fixture(params=[False, True], ids=["", "restored"])
def lone(request: pytest.FixtureRequest) -> Lone:
    return with_soft_link(request.param)


def on_data(actions: list[Action]) -> list[Action]:
    """The data among these actions."""
    return [a for a in actions if isinstance(a, Send) and is_data(a.frame)]


def confirm(lone: Lone, link: str, number: int) -> list[Action]:
    return lone.handle(FrameReceived(link, Acknowledge(0, lone.broker.links[link].sent[1], number)))


def test_a_copy_takes_the_soft_link(lone):
    assert lone.receive("A", TO_D) == [data("D", 1, onward(TO_D))]
    assert confirm(lone, "D", 1) == [acknowledged("A", 5, data=1, confirmed=1)]


def test_a_publication_is_held_while_it_could_overtake(lone):
    lone.receive("A", TO_D)
    assert lone.receive("A", TO_C) == []
    assert (lone.broker.held, lone.broker.unconfirmed("C")) == (1, 0)
    assert validate(lone.broker) == []
    assert confirm(lone, "D", 1) == [
        acknowledged("A", 5, data=2, confirmed=1),
        data("C", 1, onward(TO_C)),
    ]
    assert lone.broker.held == 0
    assert lone.acknowledge("C", 1) == [acknowledged("A", 5, data=2, confirmed=2)]


def test_a_snapshot_has_what_is_held_for_one_of_many_targets():
    lone = with_soft_link(restored=True, more=70)
    assert lone.broker.context.numbers.number("C") > 64
    lone.receive("A", TO_D)
    assert on_data(lone.receive("A", TO_C)) == []
    assert lone.broker.held == 1
    lone._restore()
    (sent,) = on_data(confirm(lone, "D", 1))
    assert sent.link == "C"


def test_what_stands_behind_a_held_one_waits_too(lone):
    lone.receive("A", TO_D)
    lone.receive("A", TO_C)
    behind = publication(8, D=1)
    assert lone.receive("A", behind) == []
    assert confirm(lone, "D", 1) == [
        acknowledged("A", 5, data=3, confirmed=1),
        data("C", 1, onward(TO_C), onward(behind)),  # the open link lies before its target
    ]


def test_the_trace_tells_what_is_held(lone):
    lone.receive("A", TO_D)
    for number in (5, 7, 9):
        lone.receive("A", publication(number, C=number))
    lone.receive("A", unadvertise("a"))
    trace = TraceBuffer("B")
    sample_backlogs(lone.broker, trace, 7)
    batch, size = trace.drain(), len(TO_C.body)
    rows = [
        (
            batch.names["kind"][row["kind"] - 1],
            *(batch.names[name][row[name] - 1] for name in ("link", "publisher") if row[name]),
            row["count"],
            row["size_bytes"],
        )
        for row in batch.rows
    ]
    assert rows == [
        ("held", "C", 4, 3 * size),
        ("unconfirmed", "D", 1, size),
        ("publisher_unconfirmed", "far", 1, 0),
        ("publisher_held", "far", 4, 0),
    ]
    assert link_backlogs(lone.broker)[1] == LinkBacklog("C", 0, 4, None)


@pytest.mark.interpreted  # what is compiled takes no steps
def test_a_sample_takes_no_longer_with_more_that_is_held(lone):
    lone.receive("A", TO_D)
    counts = []
    for first in (5, 101):
        for number in range(first, 2 * first):
            lone.receive("A", publication(number, C=1))
        counts.append(steps(lambda: sample_backlogs(lone.broker, TraceBuffer("B"), 7)))
    assert lone.broker.held == 106
    assert counts[0] == counts[1]


def test_what_is_held_is_counted(lone):
    lone.receive("A", TO_D)
    lone.receive("A", TO_C)
    lone.broker.context.held.counts["C"] = 2
    size = COPY_BYTES + len(TO_C.body)
    counted = f"{{'C': 1}} messages of {{'C': {size}}} bytes are held, but {{'C': 2}} of"
    assert validate(lone.broker)[0].startswith(f"B: {counted}")


def test_another_publisher_does_not_wait(lone):
    lone.receive("A", TO_D)
    lone.receive("A", TO_C)
    other = publication(1, publisher="near", C=1)
    assert lone.receive("A", other) == [data("C", 1, onward(other))]


def test_a_confirmation_looks_only_at_what_it_can_let_go():
    """It takes no longer because more of other publishers is held in the branch."""
    counts = []
    for publishers in (20, 200):
        lone = with_soft_link()
        for number in range(publishers):
            lone.receive("A", publication(2, publisher=f"p{number}", D=1))
            lone.receive("A", publication(5, publisher=f"p{number}", C=1))
        counts.append(steps(lambda lone=lone: confirm(lone, "D", 1)))
        assert lone.broker.held == publishers - 1
        assert validate(lone.broker) == []
    assert counts[0] == counts[1]


def test_what_is_held_is_confirmed_by_a_run_meanwhile(lone):
    lone.receive("A", TO_D)
    lone.receive("A", TO_C)
    other = publication(1, publisher="near", C=1)
    lone.receive("A", other)
    early = SelectiveAcknowledge(5, 3, 0, ((3, 3),))
    assert lone.acknowledge("C", 1) == [Send("A", early)]


def test_the_end_of_an_advertisement_waits_behind_soft_links(lone):
    lone.receive("A", TO_D)
    assert on_data(lone.receive("A", unadvertise("a"))) == []
    assert lone.broker.held == 1
    assert on_data(confirm(lone, "D", 1)) == [data("C", 1, END)]


def test_an_advertisement_whose_end_is_held_counts_when_tables_are_compared(lone):
    lone.receive("A", TO_D)
    lone.receive("A", unadvertise("a"))
    lone.handle(LinkDown("C"))
    lone.meet("C", incarnation=2)
    expected, _, _ = lone.broker.sync._expected_at("C")
    assert list(expected) == [entry("a")]


def test_a_soft_link_that_goes_gives_its_copies_back(lone):
    lone.receive("A", TO_D)
    lone.receive("A", ALSO_TO_D)
    lone.receive("A", TO_C)
    lone.receive("A", unadvertise("a"))
    lone.handle(LinkDown("D"))
    assert lone.broker.unconfirmed("D") == 2
    # D says that the link is one of the tree, which it is not here: B forgets the soft one
    again = on_data(lone.handle(LinkUp("D", Hello("D", 1, 0, 0, 0, 0, kind=LinkKind.PRIMARY))))
    assert again == [data("C", 1, onward(TO_D), onward(ALSO_TO_D), onward(TO_C), END)]
    assert validate(lone.broker) == []
    assert lone.acknowledge("C", 4) == [acknowledged("A", 5, data=4, confirmed=4)]


def test_what_came_over_a_soft_link_does_not_go_back(lone):
    lone.receive("A", subscribe("b", "A > 0"))
    lone.acknowledge("A", 0)
    back = publication(2, publisher="at D", A=1, C=1)
    assert on_data(lone.receive("D", back)) == [data("A", 1, onward(back))]


def test_a_copy_that_comes_again_by_another_link_of_the_branch_waits_for_the_first(lone):
    lone.receive("A", subscribe("b", "A > 0"))
    lone.acknowledge("A", 0)
    message = publication(2, publisher="at D", A=1)
    lone.receive("D", message)
    longer = onward(message)
    assert lone.receive("C", longer) == []
    assert lone.acknowledge("A", 1) == [
        acknowledged("C", 6, data=1, confirmed=1),
        acknowledged("D", 0, data=1, confirmed=1),
    ]


def test_a_copy_that_comes_again_waits_for_one_that_is_held(lone):
    lone.receive("A", TO_D)
    lone.receive("A", TO_C)
    lone.handle(LinkDown("A"))
    lone.agree("A", incarnation=2)
    lone.receive("A", TO_D, TO_C)
    confirm(lone, "D", 1)
    assert lone.broker.unconfirmed("C") == 1
    assert lone.acknowledge("C", 1) == [acknowledged("A", 4, data=2, confirmed=2)]


def test_a_broker_that_plans_no_routes_any_more_sends_what_was_held(lone):
    lone.receive("A", TO_D)
    lone.receive("A", TO_C)
    stored = lone.broker.snapshot()
    plain = type(lone.broker).restore(stored, BrokerConfig())
    assert list(plain.unconfirmed_publications("C")) == [onward(TO_C)]
    assert validate(plain) == []


def test_what_was_for_a_neighbour_that_is_removed_is_given_up(lone):
    lone.receive("A", TO_D)
    lone.receive("A", TO_C)
    removed = lone.handle(NeighbourRemoved("C"))
    assert Send("A", SelectiveAcknowledge(5, 2, 0, ((2, 2),))) in removed
    assert (lone.broker.held, validate(lone.broker)) == (0, [])
    assert confirm(lone, "D", 1) == [acknowledged("A", 5, data=2, confirmed=2)]
