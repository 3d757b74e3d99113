"""A broker without its state is told that a subscription has ended, before a neighbour has told it
what that one quenched: nobody is to give up what the neighbour wants."""

from collections.abc import Callable
from itertools import product

import pytest

from byway.core.actions import Action, Send
from byway.core.broker_config import BrokerConfig
from byway.core.invariants import validate
from byway.core.mesh.mesh_config import MeshConfig
from byway.core.table_digests import digests, path_hash
from byway.model import ANY, parse
from byway.model.messages import (
    Advertise,
    AdvertisementsSynced,
    Delivery,
    Hint,
    Message,
    Retire,
    Settled,
    Subscribe,
    SubscriptionsSettled,
    SubscriptionsSynced,
    SyncDigest,
    SyncNamesAlong,
    Unsubscribe,
    path_of,
    subscribe_along,
)
from tests.lone_broker import (
    NOTHING,
    TOLD,
    Lone,
    advertise,
    entry,
    subscribe,
    without_acknowledgements,
)
from tests.unit.core.test_successions import STAR, Successor

NARROW, WIDE, ALL = "n > 5", "n > 0", "TRUE"
CHANGES = (NARROW, WIDE, ALL, "link", "restart")
"""A filter: whoever subscribes to it unsubscribes, or the other way round. The link to the
publisher starts anew; the broker in the middle restarts with its state."""


class Star(Successor):
    """A publisher behind a, a subscriber behind c, and one behind e, whom that one's subscription
    quenches on the way to a. The link between d, in the middle, and e is down."""

    def __init__(self, config: BrokerConfig) -> None:
        super().__init__(STAR, config)
        for client, broker in (("pa", "a"), ("sc", "c"), ("se", "e")):
            self.attach(client, broker, ttl_us=10**9)
        self.advertise("pa", "ANY")
        self.settle()
        self.wanted: set[str] = set()
        self.change(WIDE)
        self.subscribe("se", "n > 10", "mine")
        self.settle()
        assert Settled("mine") in self.told["se"]
        self.middle = "d"

    def change(self, what: str) -> None:
        if what == "link":
            self.disconnect("a", self.middle)
            self.brokers["a"].context.ends[self.middle].distrusted()
            self.connect("a", self.middle)
        elif what == "restart":
            self.restart(self.middle, stored=True, down=[(self.middle, "e")])
        elif what in self.wanted:
            self.unsubscribe("sc", what)
            self.wanted.remove(what)
        else:
            self.subscribe("sc", what, what)
            self.wanted.add(what)

    def publish_to_all(self) -> None:
        self.publish("pa", n=11)
        self.settle()

    def end(self) -> None:
        """The other neighbour comes, and all that was published has reached it once, in order."""
        assert self.confirmed("pa") == 0
        self.meet("e", self.middle)
        self.settle()
        last = self.sequence["pa"]
        assert self.events("se") == [*range(1, last + 1)]
        assert self.confirmed("pa") == last
        assert all(Settled(name) in self.told["sc"] for name in self.wanted)
        for broker in self.brokers.values():
            assert validate(broker) == []
        present = {("sc", name) for name in self.wanted} | {("se", "mine")}
        at_a = {(e.id.client, e.id.name) for e in self.brokers["a"].subscriptions}
        assert at_a <= present, "what has ended is known to have ended in the end"


def forgets(net: Star) -> None:
    """The middle restarts without its state."""
    net.disconnect("d", "e")
    net.restart("d", stored=False, down=[("d", "e")])
    net.settle()


def is_replaced(net: Star) -> None:
    """Another broker takes the place of the middle."""
    net.kill("d")
    net.replace("d", "b")
    net.begin("b")
    net.neighbours["b"], net.configs["b"] = net.neighbours.pop("d"), net.configs.pop("d")
    net.middle = "b"
    for name in ("a", "c"):
        net.meet(name, "b")
    net.settle()


BEGINNINGS = (forgets, is_replaced)
CONFIGS = {name: BrokerConfig(covering=name) for name in ("none", "active", "packing", "lazy")} | {
    "merging": BrokerConfig(covering="active", merging=True),
    "anchors": BrokerConfig(covering="active", mesh=MeshConfig(delta=3)),
}


@pytest.mark.parametrize("begin", BEGINNINGS)
def test_what_an_ended_subscription_had_quenched_arrives(begin: Callable[[Star], None]) -> None:
    net = Star(BrokerConfig(covering="active"))
    (quencher,) = net.brokers["a"].subscriptions
    begin(net)
    net.change(WIDE)
    net.settle()
    assert list(net.brokers["c"].subscriptions) == []
    assert [e.id for e in net.brokers["a"].subscriptions] == [quencher.id]
    net.publish_to_all()
    assert net.got("se", Delivery) == []
    net.end()
    assert [e.id.client for e in net.brokers["a"].subscriptions] == ["se"]


@pytest.mark.parametrize("begin", BEGINNINGS)
@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("at_once", [False, True])
def test_whatever_changes_before_all_have_told(
    begin: Callable[[Star], None], config: str, at_once: bool
) -> None:
    """All sequences of three changes, each arriving before the next, or all on their way."""
    for steps in product(CHANGES, repeat=3):
        net = Star(CONFIGS[config])
        begin(net)
        for what in steps:
            net.change(what)
            if not at_once:
                net.publish_to_all()
        net.publish_to_all()
        try:
            net.end()
        except AssertionError as error:
            error.add_note(f"{steps}")
            raise


# --- what is said meanwhile ----------------------------------------------------------------------


def to_a(actions: list[Action]) -> list[Message]:
    sends = [a for a in without_acknowledgements(actions) if isinstance(a, Send) and a.link == "A"]
    return [message for send in sends for message in send.frame.messages]


def waiting_for(*links: str, settled: bool = True, delta: int = 1, covering: str = "none") -> Lone:
    """B has lost its state, A held S from it, and C has told S anew; `links` have not come yet."""
    config = BrokerConfig(covering=covering, mesh=MeshConfig(delta=delta))
    lone = Lone("A", "C", *links, agreed=False, restored=True, config=config)
    lone.meet("A")
    told = subscribe_along(entry("S"), parse(NARROW), ("C",) * (delta - 1))
    lone.receive("A", digest_of(told, settled))
    along = (path_hash(("C",)),) if delta > 1 else ()
    lone.receive("A", SyncNamesAlong((), ((entry("S"), settled),), False, along))
    lone.receive("A", advertise("of A"), *TOLD)
    lone.meet("C")
    assert to_a(lone.receive("C", NOTHING, subscribe("S", NARROW))) == []
    return lone


def digest_of(message: Subscribe, settled: bool) -> SyncDigest:
    return SyncDigest((), digests([(message.id, path_of(message), settled)]))


def test_what_ends_is_withdrawn_when_all_have_told() -> None:
    lone = waiting_for("D")
    assert to_a(lone.receive("C", Unsubscribe((entry("S"),)))) == []
    lone.receive("C", *TOLD)
    lone.meet("D")
    assert to_a(lone.receive("D", NOTHING)) == []
    assert to_a(lone.receive("D", *TOLD)) == [
        AdvertisementsSynced(),
        SubscriptionsSynced((entry("S"),)),
    ]


def test_what_ends_when_all_have_told_goes_at_once() -> None:
    lone = waiting_for()
    assert to_a(lone.receive("C", Unsubscribe((entry("S"),)))) == []
    assert to_a(lone.receive("C", subscribe("S", NARROW))) == []
    lone.receive("C", *TOLD)
    assert to_a(lone.receive("C", Unsubscribe((entry("S"),)))) == [Unsubscribe((entry("S"),))]


def test_what_was_announced_since_is_withdrawn_at_once() -> None:
    lone = waiting_for("D")
    assert to_a(lone.receive("C", subscribe("T"))) == [subscribe("T")]
    ended = Unsubscribe((entry("S"), entry("T")))
    assert to_a(lone.receive("C", ended)) == [Unsubscribe((entry("T"),))]


def test_hints_go_with_what_is_withdrawn() -> None:
    lone = waiting_for("D")
    lone.receive("A", Advertise(entry("all", "far"), ANY))
    assert to_a(lone.receive("C", subscribe("T"))) == [subscribe("T")]
    hints = ((Hint("far", (5,)),), (Hint("far", (7,)),))
    told = to_a(lone.receive("C", Unsubscribe((entry("S"), entry("T")), (0.5,), hints)))
    assert told == [Unsubscribe((entry("T"),), (0.5,), ((Hint("far", (6,)),),))]


def test_what_is_retired_waits_too() -> None:
    lone = waiting_for("D")
    lone.receive("C", subscribe("T"))
    assert to_a(lone.receive("C", Retire((entry("S"), entry("T"))))) == [Retire((entry("T"),))]


def test_what_begins_again_is_not_announced_again() -> None:
    lone = waiting_for("D")
    lone.receive("C", Unsubscribe((entry("S"),)))
    assert to_a(lone.receive("C", subscribe("S", NARROW))) == []
    lone.receive("C", *TOLD)
    lone.meet("D")
    assert to_a(lone.receive("D", NOTHING, *TOLD)) == list(TOLD)
    assert [(e.id, e.settled) for e in lone.broker.subscriptions] == [(entry("S"), True)]


def test_an_answer_comes_though_it_was_covered_meanwhile() -> None:
    lone = waiting_for("D", settled=False, covering="active")
    wide = subscribe("wide", "n != 0 OR n = 0")
    assert to_a(lone.receive("C", wide)) == [wide]
    assert to_a(lone.receive("C", Unsubscribe((wide.id,)))) == [Unsubscribe((wide.id,))]
    lone.receive("C", *TOLD)
    lone.meet("D")
    lone.receive("D", NOTHING, *TOLD)
    assert [(e.forwarded, e.settled) for e in lone.broker.subscriptions] == [({"A"}, False)]
    lone.receive("A", SubscriptionsSettled((wide.id, entry("S"))))
    assert [(e.forwarded, e.settled) for e in lone.broker.subscriptions] == [({"A"}, True)]


def test_what_begins_again_another_way_is_announced() -> None:
    lone = waiting_for("D", delta=2)
    lone.receive("C", Unsubscribe((entry("S"),)))
    lone.receive("C", *TOLD)
    lone.meet("D")
    (told,) = to_a(lone.receive("D", NOTHING, subscribe("S", NARROW)))
    assert told == subscribe_along(entry("S"), parse(NARROW), ("D",))
    lone.receive("D", Unsubscribe((entry("S"),)))
    assert to_a(lone.receive("D", subscribe("S", NARROW))) == []
