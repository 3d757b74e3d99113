"""Overlay maps by example: the trees F, G and T21, and what is not on a map."""

import re
from typing import Any

import pytest

from byway.core.mesh import MasterMap, OverlayMaps
from tests.mesh_oracle import Walk


def edges(text: str) -> list[tuple[str, str]]:
    return [(one, other) for one, _, other in (edge.partition("-") for edge in text.split())]


F = edges("A-1 1-2 2-3 2-4 4-5 4-6")
G = edges("A-11 11-12 12-13 A-21 21-22 22-23 22-24")
T21 = edges(
    "10-9 9-0 0-3 0-12 9-18 18-6 18-15 10-19 19-7 19-16 10-1 1-4 1-13 10-11 11-2 2-5 2-14 "
    "11-20 20-8 20-17"
)
MATCH_F = ["3", "5", "6"]


def f(soft: str = "", candidates: str = "", down: str = "") -> OverlayMaps:
    return OverlayMaps.build("A", F, 4, soft.split(), candidates.split(), down.split())


# --- worked cases ----------------------------------------------------------------------------


def test_without_soft_links_everything_goes_to_the_neighbour() -> None:
    maps = f()
    assert [maps.substitute(broker) for broker in "123456"] == ["1"] * 6
    for strategy in ("S0", "S1", "S2"):
        assert maps.forward(MATCH_F, strategy) == ["1"]


def test_soft_links_to_all() -> None:
    maps = f("2 3 4 5 6")
    assert maps.forward(MATCH_F, "S0") == ["1"]
    assert maps.forward(MATCH_F, "S1") == ["2"]
    assert maps.forward(MATCH_F, "S2") == ["3", "5", "6"]
    assert maps.order == ("1", "2", "3", "4", "5", "6")
    assert maps.between("5") == {"1", "2", "4", "5"}
    assert maps.beyond("4") == {"4", "5", "6"}
    assert maps.behind("4") == set()


@pytest.mark.parametrize("soft", ["2", "2 3"])
def test_a_soft_link_that_lies_before_all(soft: str) -> None:
    maps = f(soft)
    assert {broker: maps.substitute(broker) for broker in "12456"} == {
        "1": "1", "2": "2", "4": "2", "5": "2", "6": "2",
    }  # fmt: skip
    assert maps.substitute("3") == ("3" if "3" in soft else "2")
    assert maps.forward(MATCH_F, "S1") == maps.forward(MATCH_F, "S2") == ["2"]


def test_nothing_goes_over_a_candidate() -> None:
    maps = f("4 5", candidates="6")
    assert [maps.substitute(broker) for broker in "123456"] == ["1", "1", "1", "4", "5", "4"]
    assert maps.order == ("1", "4", "5")
    assert maps.forward(MATCH_F, "S1") == maps.forward(MATCH_F, "S2") == ["1"]
    assert maps.forward(["5", "6"], "S1") == maps.forward(["5", "6"], "S2") == ["4"]
    assert maps.profile(["5", "6"], "S1") == ["4"]
    assert maps.profile(["5", "6"], "S2") == ["5", "6"]
    with pytest.raises(ValueError, match="'A' has no link to '6' that can carry a copy"):
        maps.between("6")


def test_two_branches() -> None:
    maps = OverlayMaps.build("A", G, 4, ["13", "22", "23", "24"])
    match = ["13", "23", "24"]
    assert maps.forward(match, "S0") == ["11", "21"]
    assert maps.forward(match, "S1") == ["13", "22"]
    assert maps.forward(match, "S2") == ["13", "23", "24"]
    assert maps.behind("23") == {"11", "13"}
    assert maps.forward(match, "S2", came_from="21") == ["13"]
    assert maps.order == ("11", "21", "22", "13", "23", "24")


@pytest.mark.parametrize(
    ("mesh", "strategy", "sends", "pure_forwarders"),
    [(False, "S0", 13, 8), (False, "S2", 13, 8), (True, "S1", 9, 4), (True, "S2", 7, 2)],
)
def test_a_walk_through_21_brokers(
    mesh: bool, strategy: str, sends: int, pure_forwarders: int
) -> None:
    brokers = {broker for edge in T21 for broker in edge}
    maps = {at: OverlayMaps.build(at, T21, 4, brokers if mesh else ()) for at in brokers}
    walk = Walk(T21, dict.fromkeys(brokers, 4), {"7", "12", "14", "15", "17"})
    walk.publish("3", lambda at, anchors, came: maps[at].forward(anchors, strategy, came))
    assert (len(walk.sends), walk.pure_forwarders) == (sends, pure_forwarders)
    assert walk.delivered == dict.fromkeys(("7", "12", "14", "15", "17"), 1)
    assert not walk.unserved


# --- links that are down ---------------------------------------------------------------------


def test_beside_a_dead_primary_link_soft_links_are_branches_of_their_own() -> None:
    maps = f("3 4 5", down="1")
    assert maps.unreachable(["1", "2", "3", "5", "6", "A"]) == ["1", "2"]
    assert [maps.substitute(broker) for broker in "123456"] == [None, None, "3", "4", "5", "4"]
    assert maps.behind("3") == {"4", "5"}
    assert maps.between("5") == {"4", "5"}
    assert maps.forward(["2", *MATCH_F], "S0") == ["3", "4"]
    assert maps.forward(["2", *MATCH_F], "S1") == ["3", "4"]
    assert maps.forward(["2", *MATCH_F], "S2") == ["3", "4"]


def test_a_dead_soft_link_is_as_good_as_none() -> None:
    maps = f("2 4", down="4")
    assert maps.order == ("1", "2")
    assert maps.substitute("5") == "2"


def test_all_of_a_branch_is_upstream_whatever_link_the_copy_came_by() -> None:
    for came_from in ("1", "4"):
        assert f("3 4 5", down="1").forward(MATCH_F, "S2", came_from) == []


# --- what is not on the map ------------------------------------------------------------------


def test_an_anchor_outside_the_map_is_unreachable() -> None:
    maps = OverlayMaps.build("A", F, 3, ["4"])
    assert maps.unreachable(["4", "5", "Z"]) == ["5", "Z"]
    assert maps.forward(["5", "Z"], "S2") == []
    assert maps.substitute("5") is None


def test_a_soft_link_outside_the_map_is_not_used() -> None:
    maps = OverlayMaps.build("A", F, 3, ["5", "4"], candidates=["Y"])
    assert maps.order == ("1", "4")
    assert maps.unplaced == ("5", "Y")
    with pytest.raises(ValueError, match="no link to '5'"):
        maps.beyond("5")


def test_the_broker_itself_stands_for_itself_and_gets_no_copy() -> None:
    assert f().substitute("A") == "A"
    assert f().forward(["A", "3"], "S1") == ["1"]
    assert f().unreachable(["A"]) == []


def test_a_copy_from_nowhere_is_refused() -> None:
    for unknown in ("Z", "A"):
        with pytest.raises(ValueError, match=f"'{unknown}' is not on the map of 'A'"):
            f().forward(["3"], "S1", came_from=unknown)


def test_there_are_three_strategies() -> None:
    with pytest.raises(ValueError, match=r"\['S1'\] is no strategy"):
        f().forward(["5"], ["S1"])
    with pytest.raises(ValueError, match="'SH' is no strategy"):
        f().forward(["3"], "SH")  # type: ignore[arg-type]


def test_a_broker_alone_has_an_empty_map() -> None:
    maps = OverlayMaps.build("A", [], 4)
    assert maps.order == ()
    assert maps.forward(["1"], "S1") == []


# --- the master map --------------------------------------------------------------------------


def test_the_master_map_is_the_tree_within_delta() -> None:
    master = MasterMap("2", [(b, a) for a, b in F], 2)
    assert master.brokers == ("1", "3", "4", "5", "6", "A")
    assert master.neighbours == ("1", "3", "4")
    assert [master.distance(b) for b in ("2", "1", "A", "5")] == [0, 1, 2, 2]
    assert master.path("A") == ("1", "A")
    assert master.path("2") == ()
    assert master.branch("A") == "1"
    assert "A" in master
    assert "A" not in MasterMap("2", F, 1)


@pytest.mark.parametrize("delta", [0, -1, 4.0, "4", None])
def test_delta_is_a_whole_number_of_at_least_1(delta: Any) -> None:
    with pytest.raises(ValueError, match=f"a whole number of at least 1, not {delta!r}"):
        MasterMap("A", F, delta)


def test_a_map_that_is_complete_takes_no_time_for_a_larger_delta() -> None:
    assert MasterMap("A", F, 10**12).brokers == MasterMap("A", F, 4).brokers


@pytest.mark.parametrize("edge", [("A",), ("A", "1", "2"), "A1", []])
def test_an_edge_is_a_pair(edge: Any) -> None:
    with pytest.raises(ValueError, match=re.escape(f"a pair of brokers, not {edge!r}")):
        OverlayMaps.build("A", [edge], 4)


@pytest.mark.parametrize("field", ["soft", "candidates", "down"])
def test_a_name_in_the_place_of_several_is_refused(field: str) -> None:
    with pytest.raises(ValueError, match="not the string '13'"):
        OverlayMaps.build("A", F, 4, **{field: "13"})
    maps = OverlayMaps.build("A", F, 4)
    for method in (
        maps.unreachable,
        lambda x: maps.forward(x, "S1"),
        lambda x: maps.profile(x, "S1"),
    ):
        with pytest.raises(ValueError, match="not the string '13'"):
            method("13")


@pytest.mark.parametrize(
    ("path", "anchor"),
    [
        (["1", "2", "4"], "4"),
        (["1", "2", "9"], "2"),  # the map has not heard of 9
        (["1", "4"], "1"),  # the path skips a broker of the map
        (["9", "2"], None),
        (["2"], None),  # not a neighbour
        ([], None),
    ],
)
def test_an_anchor_is_as_far_as_map_and_path_agree(path: list[str], anchor: str | None) -> None:
    assert MasterMap("A", F, 4).anchor(path) == anchor


def test_a_cycle_gives_shortest_paths_whatever_the_order_of_edges() -> None:
    cycle = edges("A-1 1-2 2-3 3-A 3-4 1-4")
    for given in (cycle, cycle[::-1]):
        master = MasterMap("A", given, 3)
        assert [master.path(broker) for broker in ("2", "4")] == [("1", "2"), ("1", "4")]


def test_links_change_and_the_master_map_stays() -> None:
    before = f()
    after = before.with_links(["2"], candidates=["4"])
    assert after.master is before.master
    assert before.order == ("1",)
    assert after.order == ("1", "2")
    assert repr(after) == (
        "OverlayMaps(at='A', delta=4, brokers=6, order=('1', '2'), candidates=['4'], unplaced=())"
    )
