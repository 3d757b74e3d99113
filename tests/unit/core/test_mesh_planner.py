"""The planner of the mesh: which links it may use for a publisher, and for whom a copy was."""

import random
from collections.abc import Iterator

import pytest

from byway.core.actions import Action, Send
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import LinkDown, LinkUp, LoadSampled
from byway.core.invariants import validate
from byway.core.mesh import OverlayMaps
from byway.core.mesh.mesh_config import MeshConfig
from byway.core.origin import Origin
from byway.model.messages import (
    BrokerRecord,
    Hello,
    LinkKind,
    RecordUpdate,
    RelayedRecord,
    SpanTaken,
    SubscribeAlong,
    Unsubscribe,
)
from tests.core_net import is_data
from tests.lone_broker import Lone, advertise, entry, publication, subscribe
from tests.mesh_oracle import Graph, random_edges
from tests.unit.core.mesh_parts import mesh_of

DELTA = 9


class Planned:
    """A broker of a random tree, with soft links."""

    def __init__(self, rng: random.Random) -> None:
        edges = random_edges(rng, rng.randint(3, 9))
        self.tree = tree = Graph(edges)
        self.at = rng.choice(sorted({broker for edge in edges for broker in edge}))
        others = sorted({broker for edge in edges for broker in edge} - {self.at})
        self.ways = {other: tree.path(self.at, other)[1:] for other in others}
        neighbours = [other for other in others if len(self.ways[other]) == 1]
        soft = [x for x in others if x not in neighbours and rng.random() < 0.5]
        self.strategy = rng.choice(("S1", "S2"))
        mesh = MeshConfig(delta=DELTA, strategy=self.strategy, interval_us=0)
        broker = Broker(self.at, neighbours, BrokerConfig(mesh=mesh))
        self.planner = mesh_of(broker).planner()
        self.maps = OverlayMaps.build(self.at, edges, DELTA, soft=soft)
        self.planner.use_maps(self.maps, {link: self.ways[link][0] for link in soft})
        self.links = sorted([*neighbours, *soft])
        self.numbers = broker.context.numbers
        self.branch = rng.choice(neighbours)
        inside = [other for other in others if self.ways[other][0] == self.branch]
        self.targets = [x for x in inside if rng.random() < 0.4] or [self.branch]

    def mask(self) -> int:
        """The targets as the numbers of their anchors."""
        mask = 0
        for target in self.targets:
            way = self.ways[target]
            entered = self.numbers.enter(Origin(way[0], behind=tuple(way[1:])))
            assert entered is not None
            mask |= 1 << entered[1]
        return mask

    def chosen(self, open_links: list[str]) -> list[str] | None:
        """The links that get a copy, by the rule itself; None: it is held."""
        wanted = self.maps.forward(self.targets, self.strategy)
        if not any(self.are_comparable(x, y) for x in wanted for y in open_links):
            return wanted
        before_all = [
            x
            for x in open_links
            if all(x in self.ways[y] for y in wanted)
            and not any(self.are_comparable(x, y) for y in open_links)
        ]
        assert len(before_all) <= 1, "two on one way are comparable"
        return before_all or None

    def are_comparable(self, one: str, other: str) -> bool:
        return one != other and (one in self.ways[other] or other in self.ways[one])


def runs() -> Iterator[tuple[Planned, list[str]]]:
    rng = random.Random(1)
    for _ in range(400):
        planned = Planned(rng)
        for _ in range(5):
            yield planned, [x for x in planned.links if rng.random() < 0.4]


def test_links_are_chosen_by_the_rule():
    """Also where comparable links are open, which nothing leads to while maps stay: a copy over one
    of them could overtake what is on the other."""
    held = round_about = with_comparable = 0
    for planned, open_links in runs():
        unconfirmed = dict.fromkeys(open_links, 1)
        copies = planned.planner.plan(
            planned.branch, planned.mask(), publication(1), unconfirmed, 0
        )
        links = None if copies is None else [copy.link for copy in copies]
        assert links == planned.chosen(open_links), (planned.ways, planned.targets, open_links)
        held += links is None
        wanted = planned.maps.forward(planned.targets, planned.strategy)
        round_about += links is not None and links != wanted
        inside = [x for x in open_links if any(planned.are_comparable(x, y) for y in open_links)]
        with_comparable += any(all(x in planned.ways[y] for y in wanted) for x in inside)
    assert min(held, round_about, with_comparable) > 50, (held, round_about, with_comparable)


def records(*told: tuple[int, str, tuple[str, ...]], gone: tuple[str, ...] = ()) -> RecordUpdate:
    found = (BrokerRecord(name, 1, 1, to, 4, f"at {name}") for _, name, to in told)
    hops = (hops for hops, _, _ in told)
    return RecordUpdate(not gone, gone, tuple(map(RelayedRecord, found, hops)))


def test_what_a_link_on_no_map_had_goes_to_all_of_its_branch_that_want_it():
    """B has a soft link to D, past C and M. Then the tree changes: D is on no map any more, and the
    link is drained. When it breaks, its copy must go where entries of D may be now."""
    mesh = MeshConfig(delta=4, strategy="S2", interval_us=0)
    lone = Lone("A", "C", config=BrokerConfig(mesh=mesh))
    lone.receive("A", advertise("a"))
    lone.receive("C", records((1, "C", ("B", "M")), (2, "M", ("C", "D")), (3, "D", ("M",))))
    filter = subscribe("d").filter
    lone.receive("C", SubscribeAlong(subscribe("d").id, filter, ("M", "D")))
    assert mesh_of(lone.broker).open_soft("D")
    window = lone.broker.config.publisher_window
    lone.sent["D"] = [0, 0]
    lone.handle(LinkUp("D", Hello("D", 1, 0, 0, 0, 0, publisher_window=window, kind=LinkKind.SOFT)))
    lone.receive("D", SpanTaken(("C", "M")))
    sent = [send.link for send in data_of(lone.receive("A", publication(1, p=5)))]
    assert sent == ["D"]
    lone.receive("C", records((1, "C", ("B",)), gone=("D", "M")))
    assert "D" not in mesh_of(lone.broker).master
    assert lone.broker.unconfirmed("D") == 1
    sent = [send.link for send in data_of(lone.handle(LinkDown("D")))]
    assert sent == ["C"]
    assert lone.broker.unconfirmed("C") == 1
    assert validate(lone.broker) == []


@pytest.mark.parametrize("strategy", ["SH", "S2"])
def test_a_busy_uplink_has_a_broker_send_fewer_copies(strategy):
    """From 80 to 70 % it goes on as before."""
    fork = Fork(strategy)
    used = []
    for uplink in (0.8, 0.81, 0.7, 0.69, 0.8):
        fork.lone.handle(LoadSampled(0, (), uplink))
        used.append(mesh_of(fork.lone.broker).planner().strategy)
        assert fork.publish(p=1, q=1) == (["C"] if used[-1] == "S1" else ["D", "E"])
        for link in ("C", "D", "E"):
            if fork.lone.broker.unconfirmed(link):
                fork.lone.acknowledge(link, fork.lone.broker.links[link].sent[1])
    hybrid = ["S2", "S1", "S1", "S2", "S2"]
    assert used == (hybrid if strategy == "SH" else ["S2"] * 5)


class Fork:
    """B has soft links past C: to G, which is before D, to D, and to E. The tree is
    A – B – C – G – D, and E behind C. D wants what has p, and E what has q."""

    def __init__(self, strategy: str = "S2") -> None:
        mesh = MeshConfig(delta=4, strategy=strategy, interval_us=0)
        self.lone = lone = Lone("A", "C", config=BrokerConfig(mesh=mesh))
        lone.receive("A", advertise("a"))
        told = (1, "C", ("B", "E", "G")), (2, "E", ("C",)), (2, "G", ("C", "D")), (3, "D", ("G",))
        lone.receive("C", records(*told))
        self.subscribe("d", "p > 0", "G", "D")
        self.subscribe("e", "q > 0", "E")
        for link, *span in (("G", "C"), ("D", "C", "G"), ("E", "C")):
            assert mesh_of(lone.broker).open_soft(link)
            window = lone.broker.config.publisher_window
            lone.sent[link] = [0, 0]
            hello = Hello(link, 1, 0, 0, 0, 0, publisher_window=window, kind=LinkKind.SOFT)
            lone.handle(LinkUp(link, hello))
            lone.receive(link, SpanTaken(tuple(span)))
        self.last = 0

    def subscribe(self, name: str, filter: str, *behind: str) -> None:
        message = subscribe(name, filter)
        self.lone.receive("C", SubscribeAlong(message.id, message.filter, behind))

    def publish(self, **attributes: int) -> list[str]:
        """The links that the next publication takes."""
        self.last += 1
        return links_of(self.lone.receive("A", publication(self.last, **attributes)))


def test_what_a_link_had_goes_to_those_behind_it_only():
    """E has a copy of its own, over a link that lives."""
    fork = Fork()
    assert fork.publish(p=1, q=1) == ["D", "E"]
    assert links_of(fork.lone.handle(LinkDown("D"))) == ["G"]
    assert fork.lone.broker.unconfirmed("E") == 1
    assert validate(fork.lone.broker) == []


def test_what_a_link_had_goes_to_a_broker_before_it_that_has_quenched_those_behind():
    """C has a client that wants it too now, and tells of no entry of D any more."""
    fork = Fork()
    assert fork.publish(p=1) == ["D"]
    fork.subscribe("c", "p > 0")
    fork.lone.receive("C", Unsubscribe((entry("d"),), (), ((),)))
    assert links_of(fork.lone.handle(LinkDown("D"))) == ["C"]
    assert validate(fork.lone.broker) == []


def test_a_link_is_not_used_while_one_that_may_lie_on_the_same_way_is_open():
    """D is on no map any more, and is being drained; for all that B knows it is behind E now. A
    copy for E could overtake what comes to it from D, though E is open itself."""
    fork = Fork()
    assert fork.publish(p=1, q=1) == ["D", "E"]
    fork.lone.receive("C", records((2, "G", ("C",)), gone=("D",)))
    assert "D" not in mesh_of(fork.lone.broker).master
    assert fork.publish(q=1) == []
    assert links_of(fork.lone.acknowledge("D", 1)) == ["E"]
    assert validate(fork.lone.broker) == []


def links_of(actions: list[Action]) -> list[str]:
    """The links that data is sent over."""
    return sorted(send.link for send in data_of(actions))


def data_of(actions: list[Action]) -> list[Send]:
    return [a for a in actions if isinstance(a, Send) and is_data(a.frame)]


@pytest.mark.parametrize("several", [False, True])
def test_a_copy_says_whether_several_match_beyond(several):
    """The link is two hops of the tree, and the publication has come one."""
    mesh = MeshConfig(delta=4, strategy="S2", interval_us=0)
    lone = Lone("A", "C", config=BrokerConfig(mesh=mesh))
    lone.receive("A", advertise("a"))
    lone.receive("C", records((1, "C", ("B", "D")), (2, "D", ("C",))))
    filter = subscribe("d").filter
    for name in ("d", "d too")[: several + 1]:
        lone.receive("C", SubscribeAlong(subscribe(name).id, filter, ("D",)))
    assert mesh_of(lone.broker).open_soft("D")
    window = lone.broker.config.publisher_window
    lone.sent["D"] = [0, 0]
    lone.handle(LinkUp("D", Hello("D", 1, 0, 0, 0, 0, publisher_window=window, kind=LinkKind.SOFT)))
    lone.receive("D", SpanTaken(("C",)))
    (sent,) = data_of(lone.receive("A", publication(1, p=5)))
    (message,) = sent.frame.messages
    assert (sent.link, message.distance) == ("D", 1 if several else 3)
