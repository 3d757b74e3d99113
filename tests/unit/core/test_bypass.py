"""A neighbour that stays away is bypassed: what goes round it, what is parked, and for how long.

The tree is B1 – B2 – B3 – B4; B2 dies. Its client wants high prices, that of B4 more. The golden
scenes of the mesh show the same frame by frame.
"""

import logging

import pytest

from byway.core.actions import OpenLink, SetTimer
from byway.core.backlogs import LinkBacklog, link_backlogs, publisher_backlogs, sample_backlogs
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import (
    NeighbourRemoved,
    NeighbourReplaced,
    Started,
)
from byway.core.invariants import validate
from byway.core.mesh.bypass import Bypass
from byway.core.mesh.master_map import MasterMap
from byway.core.mesh.mesh_config import MeshConfig
from byway.model.messages import Delivery, LinkKind
from byway.runtime.bypass_log import BypassLog
from byway.trace import TraceBuffer
from tests.golden.scene import Scene
from tests.unit.core.mesh_parts import mesh_of

LONG = [("B1", "B2"), ("B2", "B3"), ("B3", "B4")]
AFTER_US = 500_000


class Chain(Scene):
    """Four brokers; `restored`: B1 is restored from its snapshot before every input."""

    def __init__(self, restored: bool = False, **mesh) -> None:
        self.restored = False
        options = {"delta": 3, "strategy": "S2", "interval_us": 0, "bypass_after_us": AFTER_US}
        config = BrokerConfig(mesh=MeshConfig(**options | mesh), link_bytes_max=1_000)
        super().__init__(LONG, config)
        for client, broker in (("pub", "B1"), ("near", "B2"), ("far", "B4")):
            self.attach(client, broker)
        self.advertise("pub", "price > 0")
        self.settle()
        self.subscribe("near", "price > 150")
        self.subscribe("far", "price > 80")
        self.settle()
        self.actions: list[object] = []
        self.restored = restored

    def do(self, broker: str, event: object) -> None:
        event = Started(0, f"at {broker}") if isinstance(event, Started) else event
        if broker == "B1" and self.restored:
            old = self.brokers["B1"]
            up = [link for link in old.context.ends if old.context.ends[link].up]
            attached = [name for name, one in old.clients.sessions.items() if one.attached]
            state = old.snapshot()
            self.brokers["B1"] = Broker.restore(state, old.config, up=up, attached=attached)
            assert self.brokers["B1"].snapshot() == state
        super().do(broker, event)
        assert validate(self.brokers[broker]) == []

    def perform(self, broker: str, action: object) -> None:
        if broker == "B1" and hasattr(self, "actions"):
            self.actions.append(action)
        super().perform(broker, action)

    def reaches(self, broker: str) -> None:
        """A soft link of B1 comes up."""
        self.flying["B1", broker], self.flying[broker, "B1"] = [], []
        self.connect("B1", broker)
        self.settle()

    def opened(self) -> list[str]:
        """The soft links that B1 has opened."""
        return [a.link for a in self.actions if isinstance(a, OpenLink) and a.kind is LinkKind.SOFT]

    def got_by(self, client: str) -> list[int]:
        """The sequences of what a client got."""
        deliveries = (one for one in self.told[client] if isinstance(one, Delivery))
        return [delivery.publication.sequence for delivery in deliveries]

    @property
    def b1(self) -> Broker:
        return self.brokers["B1"]

    def prices_published(self, *prices: int) -> None:
        for price in prices:
            self.publish("pub", price=price)
            self.settle()


@pytest.fixture(params=[False, True], ids=["", "restored"])
def chain(request: pytest.FixtureRequest) -> Chain:
    return Chain(request.param)


def test_what_a_dead_neighbour_had_not_confirmed_goes_round_it(chain):
    chain.dies("B2")
    chain.prices_published(120)
    assert chain.b1.unconfirmed("B2") == 1
    chain.wait(AFTER_US)
    assert chain.opened() == ["B3"]
    assert (chain.b1.unconfirmed("B2"), chain.b1.parked) == (0, 1)  # until B3 is reached
    chain.reaches("B3")
    assert (chain.b1.parked, chain.got_by("far")) == (0, [1])
    assert chain.b1.ways_round() == {"B3": ("B2",)}


def test_only_what_its_own_clients_want_is_parked(chain):
    stored = chain.dies("B2")
    chain.wait(AFTER_US)
    chain.prices_published(120)
    chain.reaches("B3")
    chain.prices_published(200, 130)
    assert chain.got_by("far") == [1, 2, 3]
    parked = chain.b1.parked_publications("B2")
    assert [publication.sequence for publication in parked] == [2]
    chain.is_back("B2", stored)
    chain.attach("near", "B2", resumes=True)
    chain.settle()
    assert (chain.b1.parked, chain.b1.bypassed, chain.b1.ways_round()) == (0, {}, {})
    assert (chain.got_by("near"), chain.got_by("far")) == ([2], [1, 2, 3])
    assert "B3" not in chain.b1.links


def test_people_see_what_is_parked_and_since_when(chain):
    chain.dies("B2")
    chain.wait(AFTER_US)
    chain.prices_published(200)
    begun_us = chain.now_us
    assert dict(chain.b1.bypassed) == {"B2": begun_us}
    chain.reaches("B3")
    assert link_backlogs(chain.b1) == [
        LinkBacklog("B2", 0, 0, None, parked=1, oldest_parked_us=begun_us),
        LinkBacklog("B3", 0, 0, None),
    ]
    _, (backlog,) = publisher_backlogs(chain.b1, 10)
    assert (backlog.parked, backlog.held, backlog.unconfirmed) == ((("B2", 1),), 0, 1)
    assert backlog.oldest_us == begun_us
    trace = TraceBuffer("B1")
    sample_backlogs(chain.b1, trace, 7)
    batch = trace.drain()
    assert [batch.names["kind"][row["kind"] - 1] for row in batch.rows] == [
        "parked",
        "publisher_unconfirmed",
        "publisher_parked",
    ]
    facts = {fact.broker: fact for fact in mesh_of(chain.b1).facts().links}
    assert (facts["B3"].round, facts["B2"].bypassed_us) == (("B2",), begun_us)


def test_the_log_has_a_line_for_each_of_these(caplog):
    chain, told = Chain(), BypassLog()

    def lines():
        caplog.clear()
        told.tell(chain.b1)
        return [record.getMessage() for record in caplog.records]

    caplog.set_level(logging.INFO, "byway.bypass")
    stored = chain.dies("B2")
    chain.prices_published(120)
    assert lines() == []
    chain.wait(AFTER_US)
    chain.reaches("B3")
    begun = "B2 is away: publications go round it; 0 wait for it or for a way round it"
    assert lines() == [begun]
    chain.prices_published(200, 210)
    parked = "publication 2 of pub is parked until B2 is back or there is a way round it"
    assert lines() == [f"{parked}; further ones are not logged"]
    assert lines() == []
    chain.is_back("B2", stored)
    chain.attach("near", "B2", resumes=True)
    chain.settle()
    assert lines() == ["publications go round B2 no more"]


def test_what_is_parked_counts_for_the_bound_of_its_branch(chain):
    chain.dies("B2")
    chain.wait(AFTER_US)
    chain.prices_published(200)
    chain.reaches("B3")
    assert chain.b1.reads_data_from(None)
    chain.prices_published(201, 202, 203)
    assert chain.b1.back_pressure.full_branches == {"B2"}
    assert not chain.b1.reads_data_from(None)
    assert chain.b1.reads_data_from("B2")


def test_a_neighbour_that_is_removed_takes_what_is_parked_with_it(chain):
    chain.dies("B2")
    chain.wait(AFTER_US)
    chain.prices_published(200, 201)
    assert chain.b1.parked == 2
    chain.closed = lambda *_: None
    chain.do("B1", NeighbourRemoved("B2"))
    assert (chain.b1.parked, chain.b1.bypassed) == (0, {})
    assert chain.b1.publication_room("pub") == chain.b1.config.publisher_window


def test_who_takes_its_place_gets_what_is_parked(chain):
    chain.dies("B2")
    chain.wait(AFTER_US)
    chain.prices_published(200, 201)
    chain.closed = lambda *_: None
    chain.do("B1", NeighbourReplaced("B2", "B9", "at B9"))
    assert (chain.b1.parked, chain.b1.bypassed) == (0, {})
    kept = chain.b1.unconfirmed_publications("B9")
    assert [publication.sequence for publication in kept] == [1, 2]


def test_without_a_mesh_after_a_restart_all_of_it_waits_for_the_neighbour_in_order():
    chain = Chain()
    chain.dies("B2")
    chain.wait(AFTER_US)
    chain.prices_published(120)
    chain.reaches("B3")
    for price in (130, 200, 131, 201):  # B3 confirms none of them
        chain.publish("pub", price=price)
    assert (chain.b1.parked, chain.b1.unconfirmed("B3")) == (2, 4)
    plain = Broker.restore(chain.b1.snapshot(), BrokerConfig())
    kept = plain.unconfirmed_publications("B2")
    assert [publication.sequence for publication in kept] == [2, 3, 4, 5]
    assert validate(plain) == []


def test_with_a_bound_on_links_what_is_behind_is_parked():
    chain = Chain(links_max=1)
    chain.dies("B2")
    chain.prices_published(120)
    chain.wait(AFTER_US)
    assert (chain.opened(), chain.b1.parked) == ([], 1)


@pytest.mark.parametrize("options", [{"bypass_after_us": 0}, {"delta": 1}])
def test_without_a_bypass_the_link_keeps_all(options):
    chain = Chain(**options)
    chain.dies("B2")
    chain.prices_published(120)
    chain.wait(AFTER_US)
    assert (chain.opened(), chain.b1.parked, chain.b1.unconfirmed("B2")) == ([], 0, 1)
    assert not any(isinstance(a, SetTimer) and a.timer.owner == "mesh" for a in chain.actions)


def test_a_neighbour_that_nobody_is_behind_is_not_bypassed():
    chain = Chain()
    chain.dies("B4")
    chain.prices_published(120)
    chain.wait(2 * AFTER_US)
    assert not chain.brokers["B3"].bypassed
    assert chain.brokers["B3"].unconfirmed("B4") == 1


def test_one_whose_tables_are_missing_is_not_bypassed():
    chain = Chain()
    chain.dies("B2")
    chain.wait(AFTER_US // 2)
    broker = Broker("B1", ["B2"], chain.configs["B1"], 2, restarting=True)
    chain.brokers["B1"] = broker
    chain.do("B1", Started())
    chain.timers = {key: at for key, at in chain.timers.items() if key[1].owner == "mesh"}
    chain.wait(3 * AFTER_US)
    assert not broker.bypassed


# --- links that are required ----------------------------------------------------------------------

FORK = MasterMap("A", [("A", "X"), ("X", "Y"), ("X", "Z"), ("Y", "W")], 4)


class Opened:
    """Links that a bypass has opened."""

    def __init__(self, *refused: str) -> None:
        self.links: list[str] = []
        self._refused = refused

    def __call__(self, broker: str) -> bool:
        self.links.append(broker)
        return broker not in self._refused


def dead(*anchors: str) -> tuple[Bypass, Opened]:
    """The bypass of X, which seeks links to these anchors."""
    bypass, opened = Bypass(10), Opened()
    bypass.on_down(0, "X")
    assert bypass.on_timer(10, FORK, lambda _: True, ()) == ["X"]
    bypass.seek(10, FORK, anchors, (), opened)
    return bypass, opened


def test_the_first_broker_behind_has_its_turn_and_then_the_next():
    bypass, opened = dead("W")
    assert opened.links == ["Y"]
    assert bypass.next_us(()) == 20
    bypass.on_timer(20, FORK, lambda _: True, ())
    bypass.seek(20, FORK, (), (), opened)
    assert opened.links == ["Y", "W"]


def test_what_is_parked_for_the_dead_one_seeks_all_behind_it():
    _, opened = dead("X")
    assert opened.links == ["Y", "Z"]


def test_a_link_in_use_is_no_reason_to_look_further():
    bypass, opened = dead("W")
    bypass.on_timer(20, FORK, lambda _: True, ("Y",))
    bypass.seek(20, FORK, (), ("Y",), opened)
    assert opened.links == ["Y"]
    assert bypass.next_us(("Y",)) is None


def test_one_that_refuses_is_left_alone_for_a_while():
    bypass, opened = dead("Y")
    bypass.on_lost(12, "Y", was_taken=False)
    bypass.seek(12, FORK, (), (), opened)
    assert opened.links == ["Y", "W"]  # Y may have quenched W
    assert bypass.next_us(()) == 22
    bypass.on_timer(22, FORK, lambda _: True, ())
    bypass.seek(22, FORK, (), (), opened)
    assert opened.links == ["Y", "W", "Y"]


def test_one_that_was_in_use_is_opened_again_at_once():
    bypass, opened = dead("Y")
    bypass.on_lost(12, "Y", was_taken=True)
    bypass.seek(12, FORK, (), (), opened)
    assert opened.links == ["Y", "Y"]


def test_what_a_bypass_needed_is_dropped_with_it():
    bypass, _ = dead("W", "Z")
    assert bypass.unneeded(FORK) == []
    assert bypass.end(["X"], lambda _: True, lambda _: True) == ["X"]
    assert bypass.unneeded(FORK) == ["Y", "Z"]
