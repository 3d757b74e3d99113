"""Which soft links a broker opens and drops, by what it has counted."""

from typing import Any

import pytest

from byway.core.mesh.link_manager import (
    PROMOTED_MAX,
    Decision,
    LinkManager,
    LinkManagerState,
    Neighbourhood,
    load_shares,
)
from byway.core.mesh.master_map import MasterMap
from byway.core.mesh.mesh_config import MeshConfig
from byway.model.messages import Load

S = 1_000_000
NOTHING = Decision((), ())
CHAIN = [("A", "1"), ("1", "2"), ("2", "3"), ("3", "4"), ("4", "5")]
STAR = [("A", "1"), *(("1", f"x{number:02}") for number in range(20))]


class Broker:
    """Broker A, its manager, and what the test says of the brokers near it."""

    def __init__(self, edges: list[tuple[str, str]], delta: int = 4, **options: Any) -> None:
        options = {"gain_min": 10, "interval_us": S, "window": 3, "stay_us": 5 * S, **options}
        self.config = MeshConfig(delta=delta, **options)
        self.manager = LinkManager(self.config)
        self.master = MasterMap("A", edges, delta)
        self.soft: dict[str, bool] = {}
        self.unreachable: set[str] = set()
        self.loads: dict[str, float] = {}
        self.round_trips_us: dict[str, int] = {}
        self.now_us = 0
        self.opened = 0

    @property
    def near(self) -> Neighbourhood:
        dialable = set(self.master.brokers) - {"undialable"}
        return Neighbourhood(self.master, self.soft, dialable, self.loads, self.round_trips_us)

    def interval(self, **publications: int) -> Decision:
        """An interval passes with these publications, and what is decided is done."""
        self.now_us += self.config.interval_us
        self.manager.count(publications)
        decision = self.manager.decide(self.now_us, self.near)
        for broker in decision.drop:
            del self.soft[broker]
        for broker in decision.promote:
            self.opened += 1
            self.soft[broker] = broker not in self.unreachable
        assert len(self.soft) + len(self.master.neighbours) <= max(
            self.config.fanout, len(self.master.neighbours)
        )
        links = {*self.master.neighbours, *self.soft, *self.manager.candidates}
        assert len(links) <= max(self.config.links_max, len(self.soft) + 1)
        assert list(self.manager.candidates) == sorted(set(self.manager.candidates))
        return decision


def state(**fields: Any) -> LinkManagerState:
    return LinkManagerState(**fields)


# --- gain --------------------------------------------------------------------------------------


def test_gain_is_publications_times_brokers_passed_by_as_a_mean_of_the_window() -> None:
    broker = Broker(CHAIN)
    broker.manager.state = state(counts={"1": [9], "2": [10, 20], "4": [2, 3, 4]})
    gains = {link: broker.manager.gain(link, broker.near) for link in ("1", "2", "3", "4")}
    assert gains == {"1": 0, "2": 15, "3": 0, "4": 9}


def test_loaded_brokers_that_are_passed_by_raise_the_gain() -> None:
    broker = Broker(CHAIN, load_threshold=0.5)
    broker.manager.state = state(counts={"2": [10], "4": [10]})
    broker.loads = {"1": 0.9, "2": 0.4, "3": 1.0, "4": 1.0}
    assert broker.manager.gain("2", broker.near) == pytest.approx(10 * 1.4)
    assert broker.manager.gain("4", broker.near) == pytest.approx(10 * 3 * 1.4 * 1.5)


def test_a_load_is_the_share_of_the_uplink_or_of_the_largest_output() -> None:
    def load(broker: str, out: float, uplink: float) -> Load:
        return Load(broker, 1, 0, 0.0, out, 0.0, 0, uplink)

    loads = {"X": load("X", 50, 0), "Y": load("Y", 200, 0), "Z": load("Z", 20, 0.7)}
    assert load_shares(loads) == {"X": 0.25, "Y": 1.0, "Z": 0.7}
    assert load_shares({"X": load("X", 0, 0)}) == {"X": 0.0}
    assert load_shares({}) == {}


# --- candidates --------------------------------------------------------------------------------


def test_candidates_are_neighbours_of_links_with_traffic() -> None:
    broker = Broker([("A", "1"), ("A", "2"), ("1", "11"), ("2", "21"), ("21", "211")])
    assert broker.interval() == NOTHING
    assert broker.manager.candidates == ()
    broker.interval(**{"2": 5})
    assert broker.manager.candidates == ("21",)
    broker.interval(**{"21": 5})
    assert broker.manager.candidates == ("21", "211")


def test_brokers_that_cannot_be_dialled_or_are_too_far_are_no_candidates() -> None:
    broker = Broker([("A", "1"), ("1", "2"), ("1", "undialable"), ("2", "3")], delta=2)
    for _ in range(3):
        broker.interval(**{"1": 5, "2": 1})
    assert broker.manager.candidates == ("2",)


def test_with_little_room_slow_links_and_loaded_brokers_come_first() -> None:
    edges = [("A", "1"), ("A", "2"), ("A", "3"), ("1", "11"), ("2", "21"), ("3", "31")]
    for facts, first in [
        ({}, "11"),
        ({"loads": {"2": 1.0}}, "21"),
        ({"round_trips_us": {"1": 5, "3": 90}}, "31"),
    ]:
        broker = Broker(edges, links_max=4)
        vars(broker).update(facts)
        broker.interval(**{"1": 7, "2": 7, "3": 7})
        assert broker.manager.candidates == (first,)


def test_new_candidates_take_the_place_of_the_weaker_half_when_links_max_is_reached() -> None:
    broker = Broker(STAR, links_max=5, fanout=2, gain_min=1_000)
    seen = [set(broker.manager.candidates)]
    for _ in range(24):
        broker.interval(**{"1": 50, "x01": 3})
        seen.append(set(broker.manager.candidates))
    assert seen[1] == {"x00", "x01", "x02", "x03"}
    assert seen[3] == {"x00", "x01", "x04", "x05"}, "two of those tried gave way"
    assert all("x01" in candidates for candidates in seen[1:])
    assert len(set().union(*seen)) == 20, "each has its turn before others come again"


def test_without_room_for_soft_links_nothing_is_profiled() -> None:
    broker = Broker(CHAIN, fanout=1)
    for _ in range(3):
        assert broker.interval(**{"1": 1_000}) == NOTHING
    assert broker.manager.candidates == ()


# --- promoting ---------------------------------------------------------------------------------


def test_the_farthest_broker_that_carries_it_is_promoted_not_those_on_the_way() -> None:
    broker = Broker(CHAIN)
    assert broker.interval(**{"1": 20}) == NOTHING
    assert broker.interval(**{"2": 20}) == NOTHING
    assert broker.interval(**{"3": 20}) == NOTHING
    assert broker.interval(**{"4": 20}) == NOTHING
    assert broker.interval(**{"4": 20}) == Decision(("4",), ())
    for _ in range(20):
        assert broker.interval(**{"4": 20}) == NOTHING


def test_a_candidate_below_the_least_gain_is_not_promoted() -> None:
    broker = Broker(CHAIN[:2])
    for _ in range(9):
        assert broker.interval(**{"1": 1, "2": 9}) == NOTHING
    assert broker.interval(**{"2": 90}).promote == ("2",)


def test_what_was_good_before_but_not_in_the_last_interval_is_not_promoted() -> None:
    broker = Broker(CHAIN[:2])
    broker.interval(**{"1": 10})
    broker.interval(**{"2": 1_000})
    assert broker.interval(**{"2": 5}) == NOTHING


def test_fanout_bounds_soft_links_and_ties_go_by_name() -> None:
    broker = Broker(STAR, fanout=4)
    traffic = {f"x{number:02}": 20 for number in range(20)}
    broker.interval(**{"1": 20})
    broker.interval(**traffic)
    assert broker.interval(**traffic) == Decision(("x00", "x01", "x02"), ())
    for _ in range(20):
        assert broker.interval(**traffic) == NOTHING


def test_a_few_links_are_opened_in_an_interval() -> None:
    broker = Broker(STAR)
    traffic = {f"x{number:02}": 20 for number in range(20)}
    broker.interval(**{"1": 20})
    broker.interval(**traffic)
    assert len(broker.interval(**traffic).promote) == PROMOTED_MAX
    for _ in range(2):
        broker.interval(**traffic)
    assert len(broker.soft) == 20


# --- dropping ----------------------------------------------------------------------------------


def full() -> Broker:
    """Fanout is reached, with soft links to x00 and x01."""
    broker = Broker(STAR, fanout=3)
    for traffic in ({"1": 20}, {"x00": 20, "x01": 20}, {"x00": 20, "x01": 20}):
        broker.interval(**traffic)
    assert list(broker.soft) == ["x00", "x01"]
    return broker


def test_a_candidate_must_be_better_by_a_factor_and_the_link_must_have_stayed() -> None:
    broker = full()
    for _ in range(6):
        assert broker.interval(x00=20, x01=20, x02=29) == NOTHING
    assert broker.interval(x00=20, x01=20, x02=31) == NOTHING, "not in the mean"
    assert broker.interval(x00=20, x01=20, x02=31) == Decision(("x02",), ("x01",))
    young = full()
    for _ in range(4):
        assert young.interval(x00=20, x01=20, x02=90) == NOTHING
    assert young.interval(x00=20, x01=20, x02=90) == Decision(("x02",), ("x01",))


def test_what_was_dropped_is_a_candidate_again() -> None:
    """Else what is for it would be counted for links before it."""
    broker = full()
    for _ in range(5):
        broker.interval(x00=20, x01=20, x02=90)
    assert list(broker.soft) == ["x00", "x02"]
    assert "x01" in broker.manager.candidates
    for _ in range(20):
        assert broker.interval(x00=20, x01=20, x02=90) == NOTHING


def test_what_was_dropped_is_not_opened_again_at_once() -> None:
    broker = full()
    for _ in range(5):
        broker.interval(x00=20, x01=20, x02=90)
    assert list(broker.soft) == ["x00", "x02"]
    begin_us = broker.now_us
    while "x01" not in broker.soft:
        broker.interval(**{"1": 5, "x00": 20, "x01": 500 * ("x01" in broker.manager.candidates)})
        assert broker.now_us < begin_us + 20 * S
    assert broker.now_us >= begin_us + broker.config.stay_us


def test_a_soft_link_without_traffic_is_dropped_after_its_time() -> None:
    broker = full()
    decisions = [broker.interval(x00=20) for _ in range(5)]
    assert decisions == [NOTHING] * 4 + [Decision((), ("x01",))]
    for _ in range(9):
        assert broker.interval(x00=8) == NOTHING, "within the hysteresis"
    for _ in range(3):
        decision = broker.interval(x00=6)
    assert decision == Decision((), ("x00",))


def test_links_beyond_fanout_are_dropped_at_once_the_weakest_first() -> None:
    broker = full()
    broker.manager.state.counts = {}
    broker.master = MasterMap("A", [*STAR, ("A", "2")], 4)
    assert broker.interval(x00=20, x01=21) == Decision((), ("x00",))


def test_links_that_the_broker_was_told_to_open_are_managed_like_others() -> None:
    broker = Broker(STAR)
    broker.soft["x07"] = True
    decisions = [broker.interval() for _ in range(6)]
    assert decisions == [NOTHING] * 5 + [Decision((), ("x07",))]


# --- failures ----------------------------------------------------------------------------------


def test_a_broker_that_is_not_reached_is_given_up_for_a_time_that_doubles() -> None:
    broker = Broker(CHAIN[:2], opening_us=2 * S, backoff_us=4 * S, backoff_us_max=20 * S, fanout=9)
    broker.unreachable.add("2")
    tries, given_up = [], []
    for second in range(1, 150):
        decision = broker.interval(**{"1": 20, "2": 20})
        assert decision.promote in ((), ("2",))
        tries += [second] * len(decision.promote)
        given_up += [second] * len(decision.drop)
    assert tries[0] == 3
    assert [b - a for a, b in zip(tries, given_up, strict=False)] == [2] * len(given_up)
    waits = [b - a for a, b in zip(given_up, tries[1:], strict=False)]
    assert waits[:4] == [6, 10, 18, 22], "with two intervals of trial"
    assert set(waits[3:]) == {22}


def test_jitter_shortens_the_time() -> None:
    manager = LinkManager(MeshConfig(backoff_us=8 * S, backoff_us_max=12 * S))
    waits = []
    for jitter in (0.0, 0.0, 1.0, 0.5):
        manager.on_failed(0, "X", jitter)
        waits.append(manager.state.failures["X"].until_us // S)
    assert waits == [8, 12, 6, 9]
    for _ in range(1_000):
        manager.on_failed(0, "X", 0.0)
    assert manager.state.failures["X"].until_us == 12 * S


def test_failures_are_forgotten_when_a_link_has_stayed_or_the_broker_is_gone() -> None:
    broker = full()
    broker.manager.on_failed(broker.now_us, "x09", 0.0)
    broker.manager.on_failed(broker.now_us, "x00", 0.0)
    for _ in range(6):
        broker.interval(x00=20, x01=20)
    assert list(broker.manager.state.failures) == ["x09"]
    broker.master = MasterMap("A", [("A", "1"), ("1", "x00"), ("1", "x01")], 4)
    broker.interval(x00=20, x01=20)
    assert broker.manager.state.failures == {}
    assert set(broker.manager.state.counts) == {"1", "x00", "x01"}


# --- settling ----------------------------------------------------------------------------------


def test_constant_traffic_settles() -> None:
    """Each link is opened once, whatever its rank."""
    broker = Broker(STAR, fanout=9, links_max=15, window=4, stay_us=3 * S)
    for _ in range(300):
        profile = {*broker.soft, *broker.manager.candidates}
        traffic = {f"x{n:02}": 20 + n for n in range(20) if f"x{n:02}" in profile}
        broker.interval(**{"1": 20 * (20 - len(traffic)), **traffic})
    last = broker.opened
    assert last <= 20
    for _ in range(300):
        profile = {*broker.soft, *broker.manager.candidates}
        traffic = {f"x{n:02}": 20 + n for n in range(20) if f"x{n:02}" in profile}
        broker.interval(**{"1": 20 * (20 - len(traffic)), **traffic})
    assert broker.opened == last


def test_equal_histories_give_equal_states() -> None:
    found = []
    for _ in range(2):
        broker = Broker(STAR, fanout=5, links_max=12)
        for second in range(60):
            broker.interval(**{f"x{(second * n) % 20:02}": 9 * n for n in range(7)}, **{"1": 4})
        found.append((broker.manager.state, broker.opened))
    assert found[0] == found[1]
    assert found[0][1] > 3
