"""A broker whose planner plans the tree does what one does that has none."""

from hypothesis import given
from hypothesis import strategies as st

import tests.planners  # registers the behaviour
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import FrameReceived, LinkDown, NeighbourRemoved
from byway.core.invariants import validate
from byway.model.messages import Acknowledge, SelectiveAcknowledge, SubscribeRequest
from tests.lone_broker import (
    Lone,
    advertise,
    publication,
    subscribe,
    unadvertise,
)

LINKS = ("A", "C", "D", "E")
STEPS = st.one_of(
    st.tuples(st.just("publish"), st.sampled_from(LINKS), st.integers(1, 5)),
    st.tuples(st.just("again"), st.sampled_from(LINKS), st.integers(0, 3)),
    st.tuples(st.just("subscribe"), st.sampled_from(LINKS), st.integers(0, 5)),
    st.tuples(st.just("advertise"), st.sampled_from(LINKS), st.integers(0, 2)),
    st.tuples(st.just("unadvertise"), st.sampled_from(LINKS), st.integers(0, 2)),
    st.tuples(st.just("confirm"), st.sampled_from(LINKS), st.integers(0, 3)),
    st.tuples(st.just("early"), st.sampled_from(LINKS), st.integers(0, 3)),
    st.tuples(st.just("restart"), st.sampled_from(LINKS), st.just(0)),
    st.tuples(st.just("remove"), st.just("E"), st.just(0)),
    st.tuples(st.just("restart here"), st.just("A"), st.just(0)),
)


class Script:
    """Plays the neighbours of one broker."""

    def __init__(self, *behaviours: str) -> None:
        self.lone = Lone(*LINKS, config=BrokerConfig(behaviours=behaviours))
        self.lone.attach("c", ttl_us=10)
        self.lone.ask("c", SubscribeRequest("s", subscribe("s", "p > 3").filter))
        self.sequence = 0
        self.incarnations = dict.fromkeys(LINKS, 1)

    def play(self, what: str, link: str, detail: int) -> list[object]:
        lone = self.lone
        if link not in lone.broker.links:
            return []
        sent = lone.broker.links[link].sent
        unconfirmed = lone.broker.unconfirmed(link)
        match what:
            case "publish":
                self.sequence += 1
                message = publication(self.sequence, p=detail)
                return lone.receive(link, message)
            case "again":
                return lone.receive(link, publication(max(self.sequence - detail, 1), p=1))
            case "subscribe":
                name = f"of {link} {detail} {lone.sent[link][0]}"
                return lone.receive(link, subscribe(name, f"p > {detail}"))
            case "advertise":
                return lone.receive(link, advertise(f"{link} {detail}"))
            case "unadvertise":
                return lone.receive(link, unadvertise(f"{link} {detail}"))
            case "confirm":
                confirmed = sent[1] - max(unconfirmed - detail, 0)
                return lone.handle(FrameReceived(link, Acknowledge(*sent, confirmed)))
            case "early":
                runs = ((sent[1], sent[1]),) if sent[1] and unconfirmed > detail else ()
                frame = SelectiveAcknowledge(*sent, 0, runs)
                return lone.handle(FrameReceived(link, frame))
            case "restart":
                self.incarnations[link] += 1
                return [*lone.handle(LinkDown(link)), *lone.agree(link, self.incarnations[link])]
            case "remove":
                return lone.handle(NeighbourRemoved(link))
            case "restart here":
                lone._restore()
        return []


@given(st.lists(STEPS, max_size=40))
def test_planning_the_tree_changes_nothing(steps):
    plain, planned = Script(), Script(tests.planners.PlannedTree.name)
    assert planned.lone.broker.has_behaviour(tests.planners.PlannedTree.name)
    for step in steps:
        assert planned.play(*step) == plain.play(*step)
    for script in (plain, planned):
        assert validate(script.lone.broker) == []
        assert script.lone.broker.held == 0
