"""The pruning policies on networks of brokers: the examples of the two papers on filter
aggregation, and brokers that restart with and without what they preserved."""

from collections import defaultdict

import pytest

from byway.core.broker_config import BrokerConfig
from byway.core.inputs import FrameReceived
from byway.core.invariants import validate
from byway.core.subscriptions import TIMER
from byway.model.messages import (
    Batch,
    Delivery,
    EntryId,
    Hint,
    Publish,
    Unsubscribe,
)
from byway.model.tree_shapes import chain_links
from tests.core_net import Net
from tests.unit.core.pruning_scenes import few

SIMILARITIES = (0.6, 0.9)
SECOND_US = 1_000_000


# --- the examples, on networks -------------------------------------------------------------------


class Watched(Net):
    """A network that keeps what came to each broker."""

    def __init__(self, edges: list[tuple[str, str]], config: BrokerConfig) -> None:
        self.came: dict[str, list[object]] = defaultdict(list)
        super().__init__(edges, config)

    def do(self, broker: str, event: object) -> None:
        if isinstance(event, FrameReceived) and isinstance(event.frame, Batch):
            self.came[broker].extend(event.frame.messages)
        super().do(broker, event)

    def headers(self, broker: str) -> list[tuple[int, int]]:
        """Distance and count of the publications that came to a broker."""
        return [(m.distance, m.count) for m in self.came[broker] if isinstance(m, Publish)]

    def ended(self, broker: str) -> list[Unsubscribe]:
        """The unsubscriptions that came to a broker."""
        return [m for m in self.came[broker] if isinstance(m, Unsubscribe)]

    def holders(self, client: str) -> str:
        """Brokers that hold a subscription of a client, as they think a live one."""
        return " ".join(b for b in sorted(self.brokers) if (client, "s") in self.entries(b))

    def preserving(self) -> dict[str, str]:
        """Where subscriptions are preserved, by broker: for which links."""
        return {
            name: " ".join(sorted(link for e in broker.placeholders for link in e.forwarded))
            for name, broker in sorted(self.brokers.items())
            if len(broker.placeholders)
        }

    def clients(self, **homes: str) -> None:
        for client, broker in homes.items():
            self.attach(client, broker)

    def rows(self, broker: str) -> list[tuple[str, int, int]]:
        """Publisher, distance and count of what a broker's own subscriptions received."""
        statistics = self.brokers[broker].policy.statistics
        assert statistics is not None
        rows = [row for part in (statistics.old, statistics.young) for row in part.values()]
        return [row[:3] for few in rows for row in few]

    def retire_all(self) -> None:
        """Let time pass until nothing is preserved any more."""
        for _ in range(100):
            self.settle()
            due = sorted(broker for broker, timer in self.timers if timer == TIMER)
            if not due:
                return
            for broker in due:
                self.fire(broker, TIMER)
        raise AssertionError("it never ends")


FIGURE_4_OF_003 = [*chain_links("B1 B2 B3 B4 B5 B6 B7 B8".split()), ("B3", "B11")]


def figure_4_of_003(config: BrokerConfig) -> Watched:
    """A publisher at B1; S at B8, S1 behind B11 and S2 at B7, which S covers."""
    net = Watched(FIGURE_4_OF_003, config)
    net.clients(P="B1", S="B8", S1="B11", S2="B7")
    net.advertise("P", "ANY")
    net.settle()
    net.subscribe("S", "p > 0")
    net.settle()
    net.subscribe("S1", "p > 0 AND near3 = 1")
    net.subscribe("S2", "p > 0 AND near7 = 1")
    net.settle()
    return net


def publish_table_i_of_003(net: Watched) -> None:
    for near3, near7 in ((1, 1), (1, 0), (0, 1), (0, 1), (0, 0)):
        net.publish("P", p=1, near3=near3, near7=near7)
    net.settle()


@pytest.mark.parametrize("covering", ["active", "incremental", "selective"])
def test_figure_4_of_003(covering):
    """B3 and B7 match others too: it arrives at B6 with distance 3, at B8 with 1."""
    net = figure_4_of_003(few(covering))
    net.publish("P", p=1, near3=1, near7=1)
    net.settle()
    distances = {broker: net.headers(broker)[0][0] for broker in net.brokers if broker != "B1"}
    assert distances == {
        "B2": 1, "B3": 2, "B4": 1, "B11": 1, "B5": 2, "B6": 3, "B7": 4, "B8": 1,
    }  # fmt: skip


def test_table_i_of_003():
    net = figure_4_of_003(few("incremental"))
    publish_table_i_of_003(net)
    assert [row[:2] for row in net.rows("B8")] == [
        ("P", 1), ("P", 5), ("P", 1), ("P", 1), ("P", 7),
    ]  # fmt: skip


def test_the_unsubscription_of_003_tells_both_critical_distances():
    """1 for 0.6, and 7 for 0.9, from B8; B7 is one hop on."""
    net = figure_4_of_003(few("incremental", incremental_bursts=(1, 9)))
    publish_table_i_of_003(net)
    net.unsubscribe("S")
    net.settle()
    (message,) = net.ended("B7")
    assert message == Unsubscribe((EntryId("S", "s", 1, 1),), SIMILARITIES, ((Hint("P", (0, 6)),),))
    assert net.rows("B8") == []


def test_a_small_burst_asks_for_more_similarity_than_there_is_before_the_publisher():
    """0.9 is reached at B1 only: S goes everywhere."""
    net = figure_4_of_003(few("incremental", incremental_bursts=(1, 9)))
    publish_table_i_of_003(net)
    net.unsubscribe("S")
    net.settle()
    told = {broker: net.ended(broker)[0].hints[0][0].distances for broker in net.brokers
            if net.ended(broker)}  # fmt: skip
    assert told == {
        "B7": (0, 6), "B6": (0, 5), "B5": (0, 4), "B4": (0, 3), "B3": (0, 2), "B2": (0, 1),
        "B1": (0, 0),
    }  # fmt: skip
    assert (net.holders("S"), net.preserving()) == ("", {})
    assert net.holders("S2") == "B1 B2 B3 B4 B5 B6 B7"


def test_a_large_burst_is_stopped_where_the_smaller_similarity_is_reached():
    """With more than none released, 0.6 will do, one hop away: at B7. B1 to B6 do not know."""
    net = figure_4_of_003(few("incremental", incremental_bursts=(1, 0)))
    publish_table_i_of_003(net)
    net.unsubscribe("S")
    net.settle()
    assert net.holders("S") == "B1 B2 B3 B4 B5 B6"
    assert net.preserving() == {"B7": "B6"}
    assert net.holders("S2") == "B7"
    net.retire_all()
    assert (net.holders("S"), net.preserving()) == ("", {})
    assert net.holders("S2") == "B1 B2 B3 B4 B5 B6 B7"


def figure_4_of_004(config: BrokerConfig) -> Watched:
    """A publisher at A; S at I, which covers others at K, G and B."""
    net = Watched([*chain_links("ABCDEFGHI"), *chain_links("CJK")], config)
    net.clients(P="A", S="I", atK="K", atG="G", atB="B")
    net.advertise("P", "ANY")
    net.settle()
    for client, wanted in (
        ("S", "p > 0"), ("atK", "p > 0 AND k = 1"), ("atG", "p > 0 AND g = 1"),
        ("atB", "p > 0 AND b = 1"),
    ):  # fmt: skip
        net.subscribe(client, wanted)
        net.settle()
    return net


def publish_table_i_of_004(net: Watched) -> None:
    for k, g, b in ((1, 0, 0), (1, 1, 0), (1, 1, 0), (1, 0, 0), (0, 0, 1)):
        net.publish("P", p=1, k=k, g=g, b=b)
    net.settle()


@pytest.mark.parametrize("covering", ["active", "incremental", "selective"])
def test_figure_4_of_004(covering):
    """C and G match two: at K distance 2 and count 1, at I both 2."""
    net = figure_4_of_004(few(covering))
    net.publish("P", p=1, k=1, g=1, b=0)
    net.settle()
    headers = {broker: net.headers(broker)[0] for broker in net.brokers if broker != "A"}
    assert headers == {
        "B": (1, 0), "C": (2, 0), "J": (1, 1), "K": (2, 1), "D": (1, 1), "E": (2, 1), "F": (3, 1),
        "G": (4, 1), "H": (1, 2), "I": (2, 2),
    }  # fmt: skip


def test_table_i_of_004():
    net = figure_4_of_004(few("selective"))
    publish_table_i_of_004(net)
    assert net.rows("I") == [
        ("P", 6, 1), ("P", 2, 2), ("P", 2, 2), ("P", 6, 1), ("P", 7, 1),
    ]  # fmt: skip
    assert net.rows("K") == [("P", 2, 1)] * 4


@pytest.mark.parametrize(
    ("similarity", "holders", "preserving"),
    [
        (0.4, "A B C D E F", {"G": "F"}),
        (0.8, "A B", {"C": "B"}),
        (0.85, "A", {"B": "A"}),
    ],
)
def test_the_critical_brokers_of_004(similarity, holders, preserving):
    """2, 6 and 7 hops from I."""
    net = figure_4_of_004(few("selective", selective_similarity=similarity))
    publish_table_i_of_004(net)
    net.unsubscribe("S")
    net.settle()
    assert (net.holders("S"), net.preserving()) == (holders, preserving)
    net.retire_all()
    assert (net.holders("S"), net.preserving()) == ("", {})


@pytest.mark.parametrize(("count_min", "stops"), [(2, True), (3, False)])
def test_a_small_count_is_no_reason_to_prune(count_min, stops):
    """The largest count that S met is 2."""
    net = figure_4_of_004(few("selective", selective_similarity=0.4, selective_count_min=count_min))
    publish_table_i_of_004(net)
    net.unsubscribe("S")
    net.settle()
    assert bool(net.preserving()) is stops
    assert bool(net.ended("H")[0].hints) is stops


def test_counts_are_of_all_that_want_it():
    """Not one more for each broker, as the text of "Selective filter aggregation" has it: its
    `count` is to estimate how many subscriptions there are."""
    net = Watched(chain_links("ABC"), few("selective"))
    net.clients(P="A", S="C", **{f"other{n}": "B" for n in range(5)})
    net.advertise("P", "ANY")
    net.settle()
    for client in ("S", *(f"other{n}" for n in range(5))):
        net.subscribe(client, "p > 0")
    net.settle()
    net.publish("P", p=1)
    net.settle()
    assert net.headers("C") == [(1, 5)]


# --- property 2: fig. 11 of the incremental paper, fig. 2 of the selective one -------------------

FIGURE_11_OF_003 = [
    *chain_links("ABCDE"), ("B", "F"), ("F", "I"), ("F", "J"), ("C", "G"), ("G", "K"), ("D", "H"),
    ("H", "L"), ("H", "M"),
]  # fmt: skip
"""The drawing is not in the text; this is the tree that its words allow: A to E in a row, and the
publishers' brokers I to M behind B, C and D, over F, G and H."""
PUBLISHERS = dict(zip(("A1", "A2", "A3", "A4", "A5"), "IJKLM", strict=True))


def figure_11_of_003(config: BrokerConfig) -> Watched:
    net = Watched(FIGURE_11_OF_003, config)
    net.clients(**PUBLISHERS, root="A", other="E")
    for number, publisher in enumerate(PUBLISHERS, 1):
        net.advertise(publisher, f"p > 0 AND by = {number}")
    net.settle()
    return net


ROOT, OTHER = "p > 0", "p > 0 AND (by = 1 OR by = 3 OR by = 5)"


@pytest.mark.parametrize("first", ["root", "other"])
@pytest.mark.parametrize("covering", ["active", "packing", "incremental", "selective"])
def test_property_2(covering, first):
    """The root goes to every publisher; the other one from E to where it meets it, in a line."""
    net = figure_11_of_003(few(covering))
    wanted = {"root": ROOT, "other": OTHER}
    for client in sorted(wanted, key=lambda client: client != first):
        net.subscribe(client, wanted[client])
        net.settle()
    assert net.holders("root") == "A B C D F G H I J K L M"
    assert net.holders("other") == "B C D E"
    net.unsubscribe("root")
    net.settle()
    assert (net.holders("root"), net.holders("other")) == ("", "B C D E F G H I K M")


def test_property_2_when_the_other_one_was_first_and_covering_is_lazy():
    net = figure_11_of_003(few("lazy"))
    net.subscribe("other", OTHER)
    net.settle()
    net.subscribe("root", ROOT)
    net.settle()
    assert net.holders("other") == "B C D E F G H I K M"


def test_without_covering_both_are_trees():
    """Property 1."""
    net = figure_11_of_003(few("none"))
    net.subscribe("root", ROOT)
    net.subscribe("other", OTHER)
    net.settle()
    assert net.holders("root") == "A B C D F G H I J K L M"
    assert net.holders("other") == "B C D E F G H I K M"


@pytest.mark.parametrize("covering", ["incremental", "selective"])
def test_several_publishers_behind_each_link(covering):
    """A hop from A the interests of A1 meet (at B), two hops those of A3 (C), three those of A5
    (D); nobody else wants A2 and A4. So the root's unsubscription goes to J and L; it is stopped at
    F for I, at C for K, and at H for M, which are as far or farther than need be."""
    net = figure_11_of_003(few(covering, incremental_bursts=(0, 0)))
    net.subscribe("root", ROOT)
    net.settle()
    net.subscribe("other", OTHER)
    net.settle()
    for number, publisher in enumerate(PUBLISHERS, 1):
        net.publish(publisher, p=1, by=number)
    net.settle()
    assert sorted(net.rows("A")) == [
        ("A1", 1, 1), ("A2", 3, 0), ("A3", 2, 1), ("A4", 5, 0), ("A5", 3, 1),
    ]  # fmt: skip
    net.unsubscribe("root")
    net.settle()
    assert net.preserving() == {"C": "G", "F": "I", "H": "M"}
    assert net.holders("root") == "G I K M"
    assert net.holders("other") == "B C D E F H"
    for number, publisher in enumerate(PUBLISHERS, 1):
        net.publish(publisher, p=1, by=number)
    net.settle()
    assert len(net.got("other", Delivery)) == 3 + 3
    net.retire_all()
    assert (net.holders("root"), net.holders("other")) == ("", "B C D E F G H I K M")


# --- restarts -------------------------------------------------------------------------------------


def three(covering: str = "selective") -> Watched:
    """A, B, C with a publisher at A; S at C was preserved at B for A, in favour of one at B."""
    net = Watched(chain_links("ABC"), few(covering, incremental_bursts=(1, 3)))
    net.clients(P="A", S="C", other="B")
    net.advertise("P", "ANY")
    net.settle()
    net.subscribe("S", "p > 0")
    net.subscribe("other", "p > 5")
    net.settle()
    net.publish("P", p=6)
    net.settle()
    net.unsubscribe("S")
    net.settle()
    assert net.preserving() == {"B": "A"}
    assert net.holders("S") == "A"
    return net


def delivered(net: Watched) -> int:
    net.publish("P", p=7)
    net.settle()
    return len(net.got("other", Delivery))


def check_all(net: Watched) -> None:
    for broker in net.brokers.values():
        assert validate(broker) == []


@pytest.mark.parametrize("covering", ["incremental", "selective"])
@pytest.mark.parametrize("stored", [True, False])
def test_a_neighbour_that_restarts_holds_it_again(covering, stored):
    net = three(covering)
    net.restart("A", stored)
    if not stored:
        net.attach("P", "A", 2)
        net.sequence["P"] = 0
        net.settle()
        net.advertise("P", "ANY")
    net.settle()
    check_all(net)
    if stored:
        assert (net.preserving(), net.holders("S")) == ({"B": "A"}, "A")
    assert delivered(net) == 2
    net.retire_all()
    assert (net.preserving(), net.holders("S"), net.holders("other")) == ({}, "", "A B")
    assert delivered(net) == 3


@pytest.mark.parametrize("covering", ["incremental", "selective"])
def test_a_broker_that_restarts_with_its_state_preserves_on(covering):
    net = three(covering)
    net.restart("B", stored=True)
    net.settle()
    check_all(net)
    assert (net.preserving(), net.holders("S")) == ({"B": "A"}, "A")
    assert ("B", TIMER) in net.timers
    net.attach("other", "B")
    assert delivered(net) == 2
    net.retire_all()
    assert (net.preserving(), net.holders("S"), net.holders("other")) == ({}, "", "A B")


def test_a_broker_that_restarts_without_state_has_nothing_preserved():
    net = three()
    net.restart("B", stored=False)
    net.settle()
    check_all(net)
    assert (net.preserving(), net.holders("S")) == ({}, "")
    net.attach("other", "B", 2)
    net.subscribe("other", "p > 5")
    net.settle()
    assert net.holders("other") == "A B"


def test_a_link_that_is_lost_meanwhile_agrees_afterwards():
    """S is unsubscribed, and retired, while A is away."""
    net = three()
    net.disconnect("A", "B")
    net.retire_all()
    assert net.preserving() == {}
    net.connect("A", "B")
    net.settle()
    check_all(net)
    assert (net.preserving(), net.holders("S"), net.holders("other")) == ({}, "", "A B")
