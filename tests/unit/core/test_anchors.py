"""Paths of subscriptions: what neighbours are told, who may quench whom, and which numbers the
anchors have.

Broker B has subscribers behind A and clients of its own, and C advertises.
"""

import pytest

from byway.core import link_numbers
from byway.core.actions import Action, Send, SetTimer, Timer
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import LinkDown, NeighbourRemoved, TimerFired
from byway.core.invariants import validate
from byway.core.link_numbers import LinkNumbers
from byway.core.mesh.mesh_config import MeshConfig
from byway.core.origin import Origin
from byway.core.table_digests import digests, path_hash
from byway.model import parse
from byway.model.messages import (
    EntryId,
    Subscribe,
    SubscribeAlong,
    SubscribeRequest,
    SubscriptionsSettled,
    SyncDigest,
    SyncNames,
    SyncNamesAlong,
    SyncRequest,
    Unsubscribe,
)
from tests.core_net import Net
from tests.lone_broker import (
    NAMES,
    NOTHING,
    Lone,
    advertise,
    entry,
    subscribe,
    twin_of,
    without_acknowledgements,
)

COVERING_TIMER = Timer("covering")
MERGED = EntryId("merge@B", "1", 1, 1)


def config_of(delta: int, covering: str = "active", **options) -> BrokerConfig:
    """The configuration of a broker that knows so many hops around it."""
    return BrokerConfig(mesh=MeshConfig(delta=delta, interval_us=0), covering=covering, **options)


def fed(delta: int = 4, *links: str, **options) -> Lone:
    """A broker with neighbours A and C, and these; C advertises prices."""
    lone = Lone("A", "C", *links, config=config_of(delta, **options))
    lone.receive("C", advertise("of C", "p > 0"))
    lone.attach("here")
    return lone


def said(actions: list[Action]) -> list[object]:
    """All actions but acknowledgements; of a frame, the messages, each with its receiver."""
    found: list[object] = []
    for action in without_acknowledgements(actions):
        if isinstance(action, Send):
            found += [(action.link, message) for message in action.frame.messages]
        else:
            found.append(action)
    return found


def along(name: str, wanted: str, *path: str) -> Subscribe:
    """A subscription that came along a path behind its sender."""
    return SubscribeAlong(entry(name), parse(wanted), path) if path else subscribe(name, wanted)


def gone(*names: str) -> Unsubscribe:
    return Unsubscribe(tuple(entry(name) for name in names))


def settled(*names: str) -> SubscriptionsSettled:
    return SubscriptionsSettled(tuple(entry(name) for name in names))


def paths(broker: Broker) -> dict[str, tuple[str, ...]]:
    return {e.id.name: e.origin.path for e in broker.subscriptions}


# --- what is told -------------------------------------------------------------------------------


CHAIN = [("B1", "B2"), ("B2", "B3"), ("B3", "B4"), ("B4", "B5")]


@pytest.mark.parametrize(
    ("deltas", "expected"),
    [
        ("11111", [(), ("B1",), ("B2",), ("B3",), ("B4",)]),
        ("22222", [(), ("B1",), ("B2", "B1"), ("B3", "B2"), ("B4", "B3")]),
        (
            "44444",
            [(), ("B1",), ("B2", "B1"), ("B3", "B2", "B1"), ("B4", "B3", "B2", "B1")],
        ),
        # each sender cuts to its own Δ: what B3 forgets, B4 does not know
        ("44244", [(), ("B1",), ("B2", "B1"), ("B3", "B2"), ("B4", "B3", "B2")]),
        ("44144", [(), ("B1",), ("B2", "B1"), ("B3",), ("B4", "B3")]),
        ("11114", [(), ("B1",), ("B2",), ("B3",), ("B4",)]),
    ],
)
def test_paths_in_a_chain(deltas, expected):
    configs = {f"B{n}": config_of(int(delta), "none") for n, delta in enumerate(deltas, 1)}
    net = Net(CHAIN, configs)
    net.attach("pub", "B5")
    net.attach("sub", "B1")
    net.advertise("pub", "p > 0")
    net.settle()
    net.subscribe("sub", "p > 1")
    net.settle()
    found = [[e.origin.path for e in broker.subscriptions] for broker in net.brokers.values()]
    assert found == [[path] for path in expected]


@pytest.mark.parametrize(
    ("delta", "told"),
    [(1, ()), (2, ("A",)), (3, ("A", "X")), (4, ("A", "X", "Y")), (5, ("A", "X", "Y"))],
)
def test_the_path_is_cut_to_the_senders_neighbourhood(delta, told):
    lone = fed(delta)
    assert said(lone.receive("A", along("s", "p > 1", "X", "Y"))) == [
        ("C", along("s", "p > 1", *told))
    ]


def test_without_a_path_the_receiver_knows_of_the_sender_alone():
    lone = fed(4)
    assert said(lone.receive("A", subscribe("s", "p > 1"))) == [("C", along("s", "p > 1", "A"))]
    assert paths(lone.broker) == {"s": ("A",)}


def test_one_of_a_local_client_is_told_without_a_path():
    lone = fed(4)
    ((link, message),) = said(lone.ask("here", SubscribeRequest("s", parse("p > 1"))))
    assert (link, type(message)) == ("C", Subscribe)


# --- who may quench whom ------------------------------------------------------------------------


def local(lone: Lone, name: str, wanted: str) -> list[object]:
    return said(lone.ask("here", SubscribeRequest(name, parse(wanted))))


def test_a_broad_one_of_a_local_client_quenches_all():
    lone = fed(4)
    ((_, wide),) = local(lone, "wide", "p > 1")
    assert said(lone.receive("A", along("s", "p > 2", "X"))) == []
    lone.receive("C", SubscriptionsSettled((wide.id,)))
    assert said(lone.receive("A", subscribe("t", "p > 3"))) == [("A", settled("t"))]


def test_one_from_elsewhere_quenches_only_what_comes_the_same_way():
    lone = fed(4, "D")
    lone.receive("A", along("wide", "p > 1", "X"))
    assert said(lone.receive("A", along("same", "p > 2", "X", "Y"))) == []
    assert said(lone.receive("A", along("beside", "p > 2", "Z"))) == [
        ("C", along("beside", "p > 2", "A", "Z"))
    ]
    assert said(lone.receive("D", along("other", "p > 2", "X"))) == [
        ("C", along("other", "p > 2", "D", "X"))
    ]
    assert said(lone.receive("A", along("nearer", "p > 3"))) == [
        ("C", along("nearer", "p > 3", "A"))
    ]
    assert local(lone, "own", "p > 4")[0][0] == "C"
    assert list(validate(lone.broker)) == []


def test_with_a_neighbourhood_of_one_hop_any_quenches_any():
    lone = fed(1, "D")
    lone.receive("A", along("wide", "p > 1", "X"))
    assert said(lone.receive("D", along("other", "p > 2", "Z"))) == []


def test_only_the_path_that_is_told_counts():
    """B tells one broker behind itself, so it may quench what parts further on."""
    lone = fed(2)
    lone.receive("A", along("wide", "p > 1", "X"))
    assert said(lone.receive("A", along("beside", "p > 2", "Z"))) == []


def test_of_equal_filters_the_one_that_was_sent_stays_if_it_may_quench_the_other():
    lone = fed(4)
    lone.receive("A", along("far", "p > 1", "X"))
    assert said(lone.receive("A", along("twin", "p > 1", "X"))) == []
    assert said(lone.receive("A", along("near", "p > 1"))) == [
        ("C", along("near", "p > 1", "A")),
        ("C", gone("far")),
    ]


def test_a_broader_one_replaces_what_it_may_quench_and_releases_it_when_it_ends():
    lone = fed(4)
    lone.receive("A", along("beyond", "p > 5", "X", "Y"), along("beside", "p > 5", "Z"))
    assert said(lone.receive("A", along("wide", "p > 1", "X"))) == [
        ("C", along("wide", "p > 1", "A", "X")),
        ("C", gone("beyond")),
    ]
    assert said(lone.receive("A", gone("wide"))) == [
        ("A", settled("wide")),
        ("C", along("beyond", "p > 5", "A", "X", "Y")),
        ("C", gone("wide")),
    ]
    assert list(validate(lone.broker)) == []


def test_one_that_ends_releases_none_that_another_one_quenches():
    lone = fed(4)
    lone.receive("A", along("one", "p > 1", "X"), along("two", "p > 2", "X"))
    lone.receive("A", along("beyond", "p > 5", "X", "Y"))
    assert said(lone.receive("A", gone("one"))) == [
        ("A", settled("one")),
        ("C", along("two", "p > 2", "A", "X")),
        ("C", gone("one")),
    ]


# --- known ids with another path ----------------------------------------------------------------


def test_a_known_one_with_another_path_is_told_on():
    lone = fed(4)
    lone.receive("A", along("s", "p > 1", "X"))
    assert said(lone.receive("A", along("s", "p > 1", "Y"))) == [
        ("A", settled("s")),
        ("C", along("s", "p > 1", "A", "Y")),
    ]
    assert paths(lone.broker) == {"s": ("A", "Y")}
    assert said(lone.receive("C", settled("s"))) == []  # the answer for the first path
    assert said(lone.receive("C", settled("s"))) == [("A", settled("s"))]


def test_what_it_may_no_longer_quench_goes_first():
    lone = fed(4)
    lone.receive("A", along("wide", "p > 1", "X"), along("beyond", "p > 5", "X", "Y"))
    assert said(lone.receive("A", along("wide", "p > 1", "Z"))) == [
        ("A", settled("wide")),
        ("C", along("beyond", "p > 5", "A", "X", "Y")),
        ("C", along("wide", "p > 1", "A", "Z")),
    ]
    assert list(validate(lone.broker)) == []


def test_one_that_comes_another_way_may_be_quenched_there():
    lone = fed(4)
    lone.receive("A", along("wide", "p > 1", "X"), along("narrow", "p > 5", "Z"))
    assert said(lone.receive("A", along("narrow", "p > 5", "X", "Y"))) == [
        ("A", settled("narrow")),
        ("C", gone("narrow")),
    ]


def test_one_that_comes_another_way_may_quench_there():
    lone = fed(4)
    lone.receive("A", along("wide", "p > 1", "X"), along("narrow", "p > 5", "Z"))
    assert said(lone.receive("A", along("wide", "p > 1"))) == [
        ("A", settled("wide")),
        ("C", along("wide", "p > 1", "A")),
        ("C", gone("narrow")),
    ]


def test_a_path_that_differs_beyond_the_neighbourhood_is_not_told_on():
    lone = fed(2)
    lone.receive("A", along("s", "p > 1", "X"))
    assert said(lone.receive("A", along("s", "p > 1", "Y"))) == [("A", settled("s"))]


def test_an_equal_one_is_a_breach():
    lone = fed(4)
    lone.receive("A", along("s", "p > 1", "X"))
    (*_, last) = lone.receive("A", along("s", "p > 1", "X"))
    assert last.fault
    assert "again" in last.reason


# --- placeholders -------------------------------------------------------------------------------


def test_merged_ones_have_the_path_of_their_parts_which_is_equal():
    lone = fed(4, merging=True)
    lone.receive(
        "A",
        along("low", "p >= 0 AND p < 10", "X"),
        along("middle", "p >= 10 AND p < 20", "X"),
        along("high", "p >= 20 AND p < 30", "Z"),
    )
    lone.receive("C", settled("high", "low", "middle"))
    lone.now_us += 1_000_000
    assert said(lone.handle(TimerFired(COVERING_TIMER))) == [
        SetTimer(COVERING_TIMER, 2_000_000),
        ("C", SubscribeAlong(MERGED, parse("p >= 0 AND p < 20"), ("A", "X"))),
        ("C", gone("low", "middle")),
    ]
    assert [e.origin for e in lone.broker.placeholders] == [Origin(behind=("A", "X"))]
    # and it quenches what comes the same way, nothing else
    assert said(lone.receive("A", along("d", "p = 5", "X", "Y"))) == []
    assert said(lone.receive("A", along("e", "p = 5", "Z"))) == [
        ("C", along("e", "p = 5", "A", "Z"))
    ]


# --- tables that are compared --------------------------------------------------------------------


def reconnected(lone: Lone, *held: tuple[str, tuple[str, ...], bool]) -> list[object]:
    """C comes back with other numbers and holds these; what B says when it has named them."""
    lone.handle(LinkDown("C"))
    lone.meet("C", incarnation=2)
    sums = digests((entry(name), path, ok) for name, path, ok in held)
    asked = said(lone.receive("C", SyncDigest((), sums), NAMES))
    if not any(isinstance(m, SyncRequest) for _, m in asked):
        return asked
    ids = tuple((entry(name), ok) for name, _, ok in held)
    hashes = tuple(path_hash(path) for _, path, _ in held)
    names = SyncNamesAlong((), ids, False, hashes) if any(hashes) else SyncNames((), ids)
    return said(lone.receive("C", names))


def test_one_that_is_held_with_another_path_is_told_again_alone():
    lone = fed(4)
    lone.receive("A", along("s", "p > 1", "X"), along("t", "p < 9", "X"))
    lone.receive("C", settled("s"), settled("t"))
    told = reconnected(lone, ("s", ("A", "X"), True), ("t", ("A", "Z"), True))
    assert [m for _, m in told if isinstance(m, Subscribe)] == [along("t", "p < 9", "A", "X")]


def test_one_that_is_held_without_a_path_is_told_again():
    lone = fed(4)
    lone.receive("A", along("s", "p > 1", "X"))
    lone.receive("C", settled("s"))
    told = reconnected(lone, ("s", (), True))
    assert [m for _, m in told if isinstance(m, Subscribe)] == [along("s", "p > 1", "A", "X")]


def test_equal_tables_are_told_by_their_digests():
    lone = fed(4)
    lone.receive("A", along("s", "p > 1", "X"))
    lone.receive("C", settled("s"))
    told = reconnected(lone, ("s", ("A", "X"), True))
    assert [m for _, m in told if isinstance(m, Subscribe | SyncRequest)] == []


def test_names_that_are_asked_for_come_with_their_paths():
    lone = fed(4)
    lone.receive("A", along("s", "p > 1", "X"), subscribe("t", "p < 9"))
    lone.receive("C", settled("s"), settled("t"))
    lone.handle(LinkDown("A"))
    lone.meet("A", incarnation=2)
    buckets = tuple(range(len(digests([(entry("s"), (), True)]))))
    told = said(lone.receive("A", NOTHING, NAMES, SyncRequest((), buckets)))
    (names,) = [m for _, m in told if isinstance(m, SyncNames)]
    assert names == SyncNamesAlong(
        (), ((entry("s"), True), (entry("t"), True)), False, (path_hash(("X",)), 0)
    )


def test_alternates_keep_their_path():
    """D tells what A has told; when A is removed, the subscription goes on from D."""
    lone = fed(4, "D")
    lone.receive("A", along("s", "p > 1", "X"))
    lone.receive("D", along("s", "p > 1", "Y"))
    assert paths(lone.broker) == {"s": ("A", "X")}
    twin = twin_of(lone.broker)
    assert twin.snapshot() == lone.broker.snapshot()
    told = said(lone.handle(NeighbourRemoved("A")))
    assert paths(lone.broker) == {"s": ("D", "Y")}
    assert ("C", along("s", "p > 1", "D", "Y")) in told


# --- numbers of anchors ---------------------------------------------------------------------------


def test_numbers_of_anchors_are_given_back():
    lone = fed(3)
    numbers = lone.broker.context.numbers
    lone.receive("A", along("near", "p > 9"))
    before = list(numbers.names)
    lone.receive("A", along("s", "p > 1", "X"), along("t", "p > 2", "X", "Y"))
    assert [n for n in numbers.names if n not in before] == ["X", "Y"]
    lone.receive("A", along("s", "p > 1", "Z"))  # the number of X is free, and taken again
    assert sorted(n for n in numbers.names if n not in before) == ["Y", "Z"]
    lone.receive("A", gone("s", "t"))
    assert [n for n in numbers.names if n] == [n for n in before if n]


@pytest.mark.interpreted
def test_beyond_the_bound_anchors_count_as_their_neighbour(monkeypatch):
    monkeypatch.setattr(link_numbers, "ANCHORS_MAX", 2)
    numbers = LinkNumbers(delta=3)
    origins = [Origin("A", behind=(name,)) for name in "XYZ"]
    first, second, third = map(numbers.enter, origins)
    assert [first, second, third] == [(0, 1), (0, 2), (0, 0)]
    numbers.leave(third[1])
    numbers.leave(first[1])
    assert numbers.enter(origins[2]) == (0, 1)
    assert numbers.names == ["A", "Z", "Y"]


# --- restarts ------------------------------------------------------------------------------------


def test_a_snapshot_has_paths_and_numbers():
    lone = fed(4, merging=True)
    lone.receive("A", along("s", "p > 1", "X", "Y"), along("t", "p > 5", "X"))
    twin = twin_of(lone.broker)
    assert twin.snapshot() == lone.broker.snapshot()
    assert paths(twin) == paths(lone.broker)
    assert twin.context.numbers.names == lone.broker.context.numbers.names
    assert list(validate(twin)) == []


@pytest.mark.parametrize("before", [1, 2, 4])
@pytest.mark.parametrize("after", [1, 2, 4])
@pytest.mark.parametrize("covering", ["none", "active"])
def test_neighbours_are_told_other_paths_after_a_restart_with_another_delta(
    before, after, covering
):
    """B3, in the middle of a chain, restarts with its state; B4 must hold what a network holds that
    always had this Δ, also what was quenched before."""

    def chain(delta: int) -> Net:
        configs = {f"B{n}": config_of(4, covering) for n in range(1, 6)}
        net = Net(CHAIN, configs | {"B3": config_of(delta, covering)})
        for client, home in (("pub", "B5"), ("wide", "B1"), ("narrow", "B3"), ("other", "B2")):
            net.attach(client, home, ttl_us=10**9)
        net.advertise("pub", "p > 0")
        net.settle()
        for client, text in (("wide", "p > 1"), ("narrow", "p > 5"), ("other", "p > 3")):
            net.subscribe(client, text)
            net.settle()
        return net

    net, expected = chain(before), chain(after)
    net.configs["B3"] = config_of(after, covering)
    net.restart("B3", stored=True)
    net.settle()
    for name in ("B4", "B5"):
        held, wanted = (
            {e.id.client: e.origin.path for e in n.brokers[name].subscriptions}
            for n in (net, expected)
        )
        assert {client: held.get(client) for client in wanted} == wanted
        assert before <= after or held.keys() >= wanted.keys()
    for broker in net.brokers.values():
        assert list(validate(broker)) == []
        assert all(e.settled and not e.awaiting for e in broker.subscriptions)
        assert not broker.missing


@pytest.mark.parametrize("delta", [1, 2, 3, 5])
def test_a_broker_that_restarts_with_another_neighbourhood_numbers_other_anchors(delta):
    lone = fed(4)
    lone.receive("A", along("s", "p > 1", "X", "Y", "Z"))
    broker = Broker.restore(lone.broker.snapshot(), config_of(delta))
    assert list(validate(broker)) == []
    anchors = [name for name in broker.context.numbers.names if name not in ("A", "C", "")]
    assert anchors == ["X", "Y", "Z"][max(delta - 2, 0) : delta - 1][:1] or delta == 5
    assert delta < 5 or anchors == ["Z"]
