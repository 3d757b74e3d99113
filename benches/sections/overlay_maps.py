"""What a link that opens, closes or goes down costs: overlay maps made anew, and used.

The baseline does the same with a set of names for each set of links, and is asked the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

from benches.report import Figure, Section, at_most
from benches.run import Run
from benches.timing import best_of_each
from byway.core.mesh import MasterMap, NeighbourhoodRecords, OverlayMaps
from byway.model.messages import BrokerRecord, RecordUpdate, RelayedRecord

TITLE = "overlay maps and path computation (no network)"
FAN_OUT, DELTA = 3, 4
"""A full tree of this depth: its root has 120 brokers within Δ hops."""
SOFT = 32
"""Soft links beside the three of the tree: 35 links, as the paper has them."""
REBUILD_MS_MAX = 0.8
REPEATED = 50
ANCHORS, PUBLICATIONS = 10, 200


class SetMaps:
    """Working map and figures 5 and 6 with sets of names, Between and Beyond from paths."""

    def __init__(self, master: MasterMap, links: Iterable[str]) -> None:
        usable = set(links)
        paths = {
            broker: [b for b in master.path(broker) if b in usable] for broker in master.brokers
        }
        self.substitutes = {broker: path[-1] for broker, path in paths.items() if path}
        self.order = sorted(usable, key=lambda n: len(paths[n]))
        self.between = {n: set(paths[n]) for n in self.order}
        self.beyond = {n: {m for m in self.order if n in self.between[m]} for n in self.order}
        self.behind = {n: {m for m in self.order if paths[m][0] != paths[n][0]} for n in self.order}

    def s1(self, anchors: Iterable[str]) -> list[str]:
        """Figure 5."""
        left = {self.substitutes[anchor] for anchor in anchors}
        common: set[str] = set()
        for n in left:
            if common.isdisjoint(self.between[n]):
                common |= self.between[n]
            else:
                common &= self.between[n] | self.behind[n]
        chosen = []
        for n in reversed(self.order):
            if n in common and not left.isdisjoint(self.beyond[n]):
                chosen.append(n)
                left -= self.beyond[n]
        return sorted(chosen)

    def s2(self, anchors: Iterable[str]) -> list[str]:
        """Figure 6."""
        left = {self.substitutes[anchor] for anchor in anchors}
        chosen = []
        for n in self.order:
            if n in left:
                chosen.append(n)
                left -= self.beyond[n]
        return sorted(chosen)


def measure(run: Run) -> Section:
    """Maps of the root of a full tree."""
    rng = Random(1)
    edges = [(f"B{(n - 1) // FAN_OUT}", f"B{n}") for n in range(1, 121)]
    master = MasterMap("B0", edges, DELTA)
    far = [broker for broker in master.brokers if master.distance(broker) > 1]
    some = sorted(rng.sample(far, SOFT))
    anchors = [rng.sample(master.brokers, ANCHORS) for _ in range(PUBLICATIONS)]
    figures = []
    for name, soft in ((f"{SOFT} soft links", some), ("soft links to all", far)):
        run.step(name)
        figures += _maps_with(name, OverlayMaps(master, soft), soft, edges, anchors)
    run.step("records")
    figures.append(_record_passed_on(edges, master))
    sizes = {
        "brokers": len(master), "Δ": DELTA, "links": SOFT + FAN_OUT, "anchors": ANCHORS,
    }  # fmt: skip
    return Section("maps", TITLE, sizes, figures, [
        "sets: the same with a set of names for each Between, Beyond and Behind",
        "working map: what is made anew when a link changes; both maps: when the tree changes",
    ])  # fmt: skip


def _maps_with(
    name: str,
    maps: OverlayMaps,
    soft: list[str],
    edges: list[tuple[str, str]],
    anchors: list[list[str]],
) -> list[Figure]:
    master = maps.master
    links = (*master.neighbours, *soft)
    naive = SetMaps(master, links)
    _check(maps, naive, anchors)
    rebuilt, both, by_sets = (
        1e3 * spent / REPEATED
        for spent in best_of_each([
            _repeated(lambda: maps.with_links(soft)),
            _repeated(lambda: OverlayMaps.build("B0", edges, DELTA, soft)),
            _repeated(lambda: SetMaps(master, links)),
        ])
    )  # fmt: skip
    s1, s2, naive_s1, naive_s2 = (
        1e6 * spent / PUBLICATIONS
        for spent in best_of_each([
            lambda: [maps.forward(each, "S1") for each in anchors],
            lambda: [maps.forward(each, "S2") for each in anchors],
            lambda: [naive.s1(each) for each in anchors],
            lambda: [naive.s2(each) for each in anchors],
        ])
    )  # fmt: skip
    return [
        Figure(f"{name}: working map", rebuilt, "ms", at_most(REBUILD_MS_MAX), {"sets": by_sets}),
        Figure(f"{name}: both maps", both, "ms", at_most(REBUILD_MS_MAX)),
        Figure(f"{name}: S1 for a publication", s1, "µs", baselines={"sets": naive_s1}),
        Figure(f"{name}: S2 for a publication", s2, "µs", baselines={"sets": naive_s2}),
    ]


def _repeated(action: Callable[[], object]) -> Callable[[], None]:
    def act() -> None:
        for _ in range(REPEATED):
            action()

    return act


def _check(maps: OverlayMaps, naive: SetMaps, anchors: list[list[str]]) -> None:
    """The baseline gives the same answers, or the figures compare nothing."""
    for n in maps.order:
        sets = maps.between(n), maps.beyond(n), maps.behind(n)
        assert sets == (naive.between[n], naive.beyond[n], naive.behind[n])
    for each in anchors:
        assert maps.forward(each, "S1") == naive.s1(each)
        assert maps.forward(each, "S2") == naive.s2(each)


def _record_passed_on(edges: list[tuple[str, str]], master: MasterMap) -> Figure:
    """A record that changes: taken from one neighbour, told to the others, edges collected."""
    around: dict[str, list[str]] = {}
    for one, other in edges:
        around.setdefault(one, []).append(other)
        around.setdefault(other, []).append(one)
    records = NeighbourhoodRecords("B0", 1, DELTA, master.neighbours)

    def tell(broker: str, version: int) -> None:
        neighbours = tuple(sorted(around[broker]))
        record = BrokerRecord(broker, 1, version, neighbours, DELTA)
        relayed = RelayedRecord(record, master.distance(broker))
        records.receive(master.branch(broker), RecordUpdate(False, (), (relayed,)))

    for broker in master.brokers:
        tell(broker, 1)
    records.take_updates()
    changing = master.path(master.brokers[-1])[1]
    versions = iter(range(2, 1_000_000))

    def change() -> None:
        tell(changing, next(versions))
        assert len(records.take_updates()) == FAN_OUT - 1
        assert len(records.primary_edges) == len(edges)

    (spent,) = best_of_each([_repeated(change)])
    return Figure("a record changes", 1e3 * spent / REPEATED, "ms")
