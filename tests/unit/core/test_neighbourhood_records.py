"""Records of the neighbourhood: who is told what, what is taken back, what is refused."""

import msgspec
import pytest

from byway.core.mesh import NeighbourhoodRecords, RecordsState
from byway.model.bounds import DELTA_MAX, NAMED_MAX, NEIGHBOURS_MAX, RECORDS_BYTES_MAX, RECORDS_MAX
from byway.model.errors import RemoteProtocolError
from byway.model.messages import BrokerRecord, RecordUpdate, RelayedRecord


def record(
    broker: str, neighbours: str = "", version: int = 1, incarnation: int = 1, delta: int = 4
) -> BrokerRecord:
    return BrokerRecord(broker, incarnation, version, tuple(sorted(neighbours.split())), delta)


def update(
    *told: tuple[BrokerRecord, int], gone: tuple[str, ...] = (), anew: bool = False
) -> RecordUpdate:
    return RecordUpdate(anew, gone, tuple(RelayedRecord(each, hops) for each, hops in told))


def settled(delta: int = 4, neighbours: str = "L R") -> NeighbourhoodRecords:
    """The records of B; its neighbours have told their own record and have been told."""
    records = NeighbourhoodRecords("B", 7, delta, neighbours.split(), address="b:1")
    for name in neighbours.split():
        records.receive(name, update((record(name, "B"), 1), anew=True))
    records.take_updates()
    return records


# --- what is told ----------------------------------------------------------------------------


def test_at_first_a_neighbour_is_told_who_this_is() -> None:
    records = NeighbourhoodRecords("B", 7, 4, ["R", "L"], address="b:1")
    own = BrokerRecord("B", 7, 2, ("L", "R"), 4, "b:1")
    assert records.own == own
    told = RecordUpdate(True, (), (RelayedRecord(own, 1),))
    assert records.take_updates() == [("L", told), ("R", told)]
    assert records.take_updates() == []
    assert records.primary_edges == (("B", "L"), ("B", "R"))


def test_a_neighbour_that_says_who_it_is_is_told_the_rest() -> None:
    records = NeighbourhoodRecords("B", 7, 4, ["L", "R"])
    records.take_updates()
    l_record, x_record = record("L", "B X"), record("X", "L")
    records.receive("L", update((l_record, 1), (x_record, 2), anew=True))
    assert records.take_updates() == []  # R may have Δ = 1
    records.receive("R", update((record("R", "B", delta=2), 1), anew=True))
    assert records.take_updates() == [
        ("L", update((record("R", "B", delta=2), 2))),
        ("R", update((l_record, 2))),  # X would be three hops away
    ]
    assert records.primary_edges == (("B", "L"), ("B", "R"), ("L", "X"))


def test_a_record_is_not_told_back() -> None:
    records = settled()
    records.receive("L", update((record("X", "L"), 2)))
    assert records.take_updates() == [("R", update((record("X", "L"), 3)))]


def test_delta_of_the_relay_bounds_a_record() -> None:
    records = settled(delta=3)
    near, far, farther = record("X", "L"), record("Y", "X"), record("Z", "Y")
    records.receive("L", update((near, 2), (far, 3), (farther, 4)))
    assert records.take_updates() == [("R", update((near, 3)))]
    assert records.brokers == ("L", "R", "X", "Y")
    assert records.record("Z") is None


def test_a_change_of_version_or_distance_is_told() -> None:
    records = settled()
    records.receive("L", update((record("X", "L"), 2), (record("Y", "X"), 3)))
    records.take_updates()
    records.receive("L", update((record("X", "L Q", version=2), 2)))
    assert records.take_updates() == [("R", update((record("X", "L Q", version=2), 3)))]
    records.receive("L", update((record("Y", "X"), 2)))
    assert records.take_updates() == [("R", update((record("Y", "X"), 3)))]
    records.receive("L", update((record("Y", "X"), 2)))
    assert records.take_updates() == []


def test_what_is_taken_back_is_taken_back_from_others() -> None:
    records = settled()
    records.receive("L", update((record("X", "L"), 2)))
    records.take_updates()
    records.receive("L", update(gone=("X", "never heard of")))
    assert records.take_updates() == [("R", update(gone=("X",)))]
    assert records.record("X") is None


def test_an_update_that_starts_anew_replaces_all() -> None:
    records = settled()
    records.receive("L", update((record("X", "L"), 2)))
    records.take_updates()
    again = record("L", "B", incarnation=2)
    records.receive("L", update((again, 1), anew=True))
    assert records.take_updates() == [("R", update(gone=("X",))), ("R", update((again, 2)))]


def test_changes_of_several_inputs_are_told_at_once() -> None:
    records = settled()
    records.receive("L", update((record("X", "L"), 2)))
    records.receive("L", update((record("X", "L Y", version=2), 2)))
    records.receive("L", update((record("Y", "X"), 3)))
    assert records.take_updates() == [
        ("R", update((record("X", "L Y", version=2), 3), (record("Y", "X"), 4)))
    ]


def test_with_delta_1_nothing_is_told() -> None:
    records = settled(delta=1)
    records.set_address("elsewhere:1")
    assert records.take_updates() == []
    assert records.primary_edges == (("B", "L"), ("B", "R"))


# --- neighbours come and go ------------------------------------------------------------------


def test_a_neighbour_that_left_takes_its_side_along() -> None:
    records = settled()
    records.receive("L", update((record("X", "L"), 2)))
    records.take_updates()
    records.set_neighbours(["R", "N"])
    own = BrokerRecord("B", 7, 3, ("N", "R"), 4, "b:1")
    assert records.take_updates() == [
        ("N", update((own, 1), anew=True)),
        ("R", update(gone=("L", "X"))),
        ("R", update((own, 1))),
    ]
    assert records.primary_edges == (("B", "N"), ("B", "R"))


def test_after_a_reset_everything_is_told_anew() -> None:
    records = settled()
    records.on_link_reset("L")
    assert records.take_updates() == [
        ("L", update((records.own, 1), anew=True)),
        ("R", update(gone=("L",))),
    ]
    records.receive("L", update((record("L", "B", incarnation=2), 1), anew=True))
    assert records.take_updates() == [
        ("L", update((record("R", "B"), 2))),
        ("R", update((record("L", "B", incarnation=2), 2))),
    ]


def test_the_version_counts_changes_only() -> None:
    records = settled()
    records.set_neighbours(["R", "L"])
    records.set_address("b:1")
    assert records.own.version == 2
    records.set_address("b:2")
    assert (records.own.version, records.own.address) == (3, "b:2")


def test_restored_records_go_on_where_they_were() -> None:
    records = settled()
    records.receive("L", update((record("X", "L"), 2)))
    state = msgspec.msgpack.decode(msgspec.msgpack.encode(records.snapshot()), type=RecordsState)
    restored = NeighbourhoodRecords.restore(state, 7, 4, "b:1")
    assert restored.snapshot() == records.snapshot()
    assert restored.take_updates() == records.take_updates() != []
    other = NeighbourhoodRecords.restore(records.snapshot(), 7, 1, "b:1")
    assert other.own.age == (7, 3)
    assert other.take_updates() == [
        ("L", update(gone=("B", "R"))),
        ("R", update(gone=("B", "L", "X"))),
    ]


# --- edges -----------------------------------------------------------------------------------


def test_an_edge_stands_while_either_end_names_it() -> None:
    records = settled()
    records.receive("L", update((record("L", "B X", version=2), 1), (record("X", "L"), 2)))
    assert ("L", "X") in records.primary_edges
    records.receive("L", update((record("L", "B", version=3), 1)))
    assert ("L", "X") in records.primary_edges
    records.receive("L", update((record("X", "Q", version=2), 2)))
    assert ("L", "X") not in records.primary_edges


def test_a_broker_knows_its_own_edges() -> None:
    records = settled()
    records.receive("L", update((record("X", "B L"), 2), (record("L", "", version=2), 1)))
    assert records.primary_edges == (("B", "L"), ("B", "R"), ("L", "X"))


# --- while the tree changes, two neighbours tell of one broker ---------------------------------


@pytest.mark.parametrize("first", ["L", "R"])
def test_the_newest_record_counts_and_the_shortest_way(first: str) -> None:
    records = settled(neighbours="L N R")
    second = "LR".replace(first, "")
    old, new = record("X", "L", version=9), record("X", "R", incarnation=2)
    records.receive(first, update((old, 2)))
    records.receive(second, update((new, 3)))
    assert records.record("X") == new
    told = dict(records.take_updates())
    assert told == {
        "N": update((new, 3)),  # by the shorter way
        first: update((new, 4)),
        second: update((old, 3)),
    }
    records.receive(second, update(gone=("X",)))
    assert records.record("X") == old


# --- lies and bounds -------------------------------------------------------------------------


def test_a_neighbour_speaks_for_itself() -> None:
    records = settled(neighbours="L N R")
    records.receive("L", update((record("R", "L Q", incarnation=9), 2)))
    assert records.record("R") == record("R", "B")
    assert records.take_updates() == []


def test_nobody_speaks_for_this_broker() -> None:
    records = settled()
    records.receive("L", update((record("B", "Q", incarnation=9), 3)))
    assert records.record("B") == records.own
    assert records.take_updates() == []


@pytest.mark.parametrize(
    ("told", "hops", "reason"),
    [
        (record("X", "L"), 1, "tells a record of 'X' that has travelled 1 hops"),
        (record("L", "B"), 2, "tells a record of 'L' that has travelled 2 hops"),
        (record("X", "L X"), 2, "names 'X' as a neighbour of itself"),
        (record("X", "L L"), 2, "names neighbours of 'X' in no order"),
        (BrokerRecord("X", 1, 1, ("Q", "L"), 4), 2, "names neighbours of 'X' in no order"),
    ],
)
def test_a_record_that_cannot_be_is_refused(told: BrokerRecord, hops: int, reason: str) -> None:
    records = settled()
    before = records.snapshot()
    with pytest.raises(RemoteProtocolError) as raised:
        records.receive("L", update((record("Y", "L"), 2), (told, hops)))
    assert (raised.value.peer, raised.value.reason) == ("L", reason)
    assert records.snapshot() == before
    assert records.take_updates() == []


def test_only_neighbours_tell() -> None:
    with pytest.raises(RemoteProtocolError, match="Z: tells records and is no primary neighbour"):
        settled().receive("Z", update((record("Z", "B"), 1)))


def test_a_broker_is_no_neighbour_of_itself() -> None:
    with pytest.raises(ValueError, match="'B' is no neighbour of itself"):
        NeighbourhoodRecords("B", 1, 4, ["B"])


@pytest.mark.parametrize("delta", [0, DELTA_MAX + 1])
def test_delta_is_bounded(delta: int) -> None:
    with pytest.raises(ValueError, match="Δ is from 1 to"):
        NeighbourhoodRecords("B", 1, delta)


def names(count: int, prefix: str = "n") -> str:
    return " ".join(f"{prefix}{number:06}" for number in range(count))


def test_more_records_than_the_bound_are_refused() -> None:
    records = settled()
    many = [(record(name, "L"), 3) for name in names(RECORDS_MAX - 1).split()]
    records.receive("L", update(*many))
    reason = f"tells {RECORDS_MAX + 1} records that name {RECORDS_MAX + 1} neighbours"
    with pytest.raises(RemoteProtocolError, match=reason):
        records.receive("L", update((record("one more", "L"), 3)))
    wide = [(record(f"w{n}", names(NAMED_MAX // 8)), 2) for n in range(8)]
    with pytest.raises(RemoteProtocolError, match="that name 8193 neighbours"):
        settled().receive("L", update(*wide))


def test_of_more_records_than_the_bound_the_nearest_are_told() -> None:
    records = settled(neighbours="L N R")
    half = RECORDS_MAX // 2
    records.receive("L", update(*((record(x, "L"), 3) for x in names(half, "far").split())))
    records.receive("N", update(*((record(x, "N"), 2) for x in names(half, "near").split())))
    ((_, told),) = [each for each in records.take_updates() if each[0] == "R"]
    # R holds those of B, L and N; of the far ones three do not fit.
    assert len(told.records) == RECORDS_MAX - 3
    assert {each.hops for each in told.records[:half]} == {3}
    assert told.records[-1].record.broker == f"far{half - 4:06}"


def test_of_more_neighbours_than_the_bound_the_first_are_named() -> None:
    listed = names(NEIGHBOURS_MAX + 5).split()
    records = NeighbourhoodRecords("B", 1, 4, listed)
    assert records.own.neighbours == tuple(listed[:NEIGHBOURS_MAX])
    assert len(records.primary_edges) == NEIGHBOURS_MAX + 5


def test_long_updates_are_split() -> None:
    records = settled()
    wide = [(record(f"w{n}", names(1_000, "x" * 200)), 2) for n in range(3)]
    records.receive("L", update(*wide))
    updates = records.take_updates()
    assert [neighbour for neighbour, _ in updates] == ["R", "R", "R"]
    told = [each for _, each in updates]
    assert [[r.record.broker for r in each.records] for each in told] == [["w0"], ["w1"], ["w2"]]
    assert not any(each.anew or each.gone for each in told)
    assert 2 * wide[0][0].text_bytes > RECORDS_BYTES_MAX


def test_repr_tells_the_state() -> None:
    assert repr(settled()) == (
        "NeighbourhoodRecords('B', delta=4, age=(7, 2), neighbours=['L', 'R'], records=2)"
    )
