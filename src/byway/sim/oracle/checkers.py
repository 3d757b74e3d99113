"""Checkers of a world at rest: tables, leaks, and requests that were never answered.

The tables of brokers must be those of a reference network, and nothing may be left behind. That
clients got what they are owed is not checked here but as it happens, in `account`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.matching import MatchIndex
from byway.model import Filter
from byway.model.filters import covers
from byway.model.messages import LinkKind
from byway.sim.engine.client_watch import ClientWatch
from byway.sim.engine.nodes import Node
from byway.sim.engine.sim_client import SimClient
from byway.sim.oracle.reference_network import (
    Directions,
    Held,
    Path,
    Paths,
    reference_tables,
    tables_of,
)
from byway.sim.topology.tree import Topology

# --- tables ---------------------------------------------------------------------------------------


def table_faults(
    topology: Topology, nodes: Mapping[str, Node], sessions: Sequence[ClientWatch]
) -> Iterator[str]:
    """The faults in the tables of brokers that are all up and connected, in sentences."""
    configs = {name: node.config for name, node in nodes.items()}
    somebody_chooses = any(config.covering != "none" for config in configs.values())
    filter_faults = _filter_faults if all(map(_is_exact, configs.values())) else _cover_faults
    reference = reference_tables(topology, configs, sessions)
    origins = _Origins(topology, configs, sessions, nodes)
    for name, node in nodes.items():
        assert node.broker is not None
        found, expected = tables_of(node.broker), reference[name]
        yield from _differences(
            name, "advertisement", found.advertisements, expected.advertisements
        )
        if somebody_chooses:
            yield from origins.faults(name, found.subscriptions)
            yield from filter_faults(name, found.subscriptions, expected.subscriptions)
        else:
            yield from _differences(
                name, "subscription", found.subscriptions, expected.subscriptions
            )


def _is_exact(config: BrokerConfig) -> bool:
    """Whether the tables of a broker at rest do not depend on what happened before."""
    keeps = config.covering in ("incremental", "selective") and not config.retire_batch
    merges = config.covering != "none" and config.merging
    return config.covering != "lazy" and not keeps and not merges


def _differences(name: str, kind: str, found: Held, expected: Held) -> Iterator[str]:
    if found == expected:
        return
    for key in sorted(found.keys() | expected.keys()):
        if found.get(key) == expected.get(key):
            continue
        path, client, entry = key
        called = f"{kind} {client}/{entry} {_from(path) if path else 'of its own client'}"
        if key not in expected:
            yield f"{name} holds {called}: not in a fresh network"
        elif key not in found:
            yield f"{name} lacks {called}"
        else:
            yield f"{name} holds {called} with filter {found[key]} instead of {expected[key]}"


def _filter_faults(name: str, found: Held, expected: Held) -> Iterator[str]:
    """Compare filters by path only: which of equal filters is sent is the sender's choice."""
    here, there = _by_path(found), _by_path(expected)
    for path in sorted(here.keys() | there.keys()):
        origin = _from(path) if path else "of its own clients"
        for filter in _lacking(here.get(path, {}), there.get(path, {})):
            yield f"{name} holds a subscription {origin} to {filter}: not in a fresh network"
        for filter in _lacking(there.get(path, {}), here.get(path, {})):
            yield f"{name} lacks a subscription {origin} to {filter}"


def _cover_faults(name: str, found: Held, expected: Held) -> Iterator[str]:
    """Every filter of the reference must be held or covered by one whose path its own begins with;
    more may be held."""
    here, there = _by_path(found), _by_path(expected)
    for path, filters in there.items():
        ends = range(1, len(path) + 1) if path else (0,)
        held = [filter for end in ends for filter in here.get(path[:end], ())]
        missing = [filter for filter in filters if filter not in here.get(path, {})]
        index = _index_of(held if missing else ())
        for filter in missing:
            if not len(index.covering(filter)):
                origin = _from(path) if path else "of its own clients"
                yield f"{name} lacks a subscription {origin} to {filter}, and what covers it"


def _index_of(filters: Iterable[Filter]) -> MatchIndex:
    index = MatchIndex()
    for key, filter in enumerate(filters):
        index.add(key, filter)
    return index


def _by_path(held: Held) -> dict[Path, dict[Filter, None]]:
    found: dict[Path, dict[Filter, None]] = {}
    for (path, _, _), filter in held.items():
        found.setdefault(path, {})[filter] = None
    return found


def _from(path: Path) -> str:
    along = f" along {', '.join(path[1:])}" if len(path) > 1 else ""
    return f"from {path[0]}{along}"


def _lacking(filters: Mapping[Filter, None], others: Mapping[Filter, None]) -> Iterator[Filter]:
    """The filters that have no equal among others; filters that cover each other are equal."""
    for filter in filters:
        if filter not in others and not any(
            covers(filter, other) and covers(other, filter) for other in others
        ):
            yield filter


class _Origins:
    """The home broker and filter of each live subscription."""

    def __init__(
        self,
        topology: Topology,
        configs: Mapping[str, BrokerConfig],
        sessions: Sequence[ClientWatch],
        nodes: Mapping[str, Node],
    ) -> None:
        self._paths = Paths(Directions(topology), configs)
        self._preserved = {
            (entry.id.client, entry.id.name)
            for node in nodes.values()
            if node.broker is not None
            for entry in node.broker.placeholders
        }
        self._homes: dict[tuple[str, str], list[tuple[str, Filter]]] = {}
        """A client that went to another broker has the same names there."""
        for session in sessions:
            for entry in session.subscriptions:
                homes = self._homes.setdefault((session.client_name, entry.name), [])
                homes.append((session.broker_name, entry.filter))

    def faults(self, broker: str, held: Held) -> Iterator[str]:
        """The entries of a broker that no client wants, or that came along another path."""
        for (path, client, name), filter in held.items():
            called = f"subscription {client}/{name}"
            homes = self._homes.get((client, name), [])
            if (client, name) in self._preserved:
                continue
            if not homes:
                yield f"{broker} holds {called}, which has ended"
                continue
            if all(filter != wanted for _, wanted in homes):
                yield f"{broker} holds {called} with filter {filter} instead of {homes[0][1]}"
            expected = [self._paths.towards(home)[broker] for home, _ in homes]
            if path not in expected:
                ways = [_from(p) if p else "from its client" for p in (path, expected[0])]
                yield f"{broker} holds {called} {' instead of '.join(ways)}"


# --- leaks ----------------------------------------------------------------------------------------


def leaks(node: Node) -> Iterator[str]:
    """What a broker at rest, connected to all its neighbours, should not hold any more, in
    sentences."""
    broker = node.broker
    assert broker is not None
    if node.waiting:
        yield f"{node.name}: {node.waiting} messages wait in its input queue"
    for timer in sorted(node.timers):
        if timer.owner != "session" and not broker.has_behaviour(timer.owner):
            yield f"{node.name}: timer {timer.owner} {timer.detail} is set"
    if broker.held:
        yield f"{node.name}: {broker.held} data messages are held"
    if broker.parked:
        yield f"{node.name}: {broker.parked} data messages are parked"
    for link, facts in broker.links.items():
        for lane, kept in (("control", facts.unacknowledged), ("data", facts.unconfirmed)):
            if kept:
                yield f"{node.name}: {kept} {lane} messages are kept for {link}"
        if facts.finished_early:
            yield f"{node.name}: {facts.finished_early} messages of {link} finished early"
        both_ways = facts.kind is LinkKind.SOFT and node.config.mesh.delta == 1  # the mesh: one way
        takes_data = facts.kind is LinkKind.PRIMARY or (both_ways and facts.up)
        if takes_data and not facts.open:
            yield f"{node.name}: {link} does not take data"
    yield from _sync_leaks(node.name, broker)
    for kind, table in (("ad", broker.advertisements), ("sub", broker.subscriptions)):
        for entry in table:
            if entry.awaiting or entry.following or entry.followers or not entry.settled:
                yield f"{node.name}: {kind} {entry.id.client}/{entry.id.name} is not settled"


def _sync_leaks(name: str, broker: Broker) -> Iterator[str]:
    if broker.missing:
        yield f"{name}: it waits for the tables of {', '.join(sorted(broker.missing))}"
    for link, facts in sorted(broker.links.items()):
        if facts.comparing:
            yield f"{name}: the comparison of tables with {link} has not ended"


# --- answers --------------------------------------------------------------------------------------


def unanswered(client: SimClient) -> Iterator[str]:
    """What an attached client of a world at rest still waits for, in sentences."""
    if not client.attached:
        return
    for entry in client.watch.in_force.values():
        if not entry.is_settled:
            yield f"{client.name} was never told that {entry.name} is settled"
    yield from _not_as_wanted(client)
    if client.deliveries != client.given:
        yield f"{client.name} was given {client.deliveries} of {client.given} publications"
    if client.unconfirmed:
        yield f"{client.name} has {client.unconfirmed} publications unconfirmed"
    if not client.is_idle:
        yield f"{client.name} has something to say and cannot"


def _not_as_wanted(client: SimClient) -> Iterator[str]:
    """Where the home broker holds other filters than the application wants, in sentences."""
    watch = client.watch
    held = Counter((False, entry.filter) for entry in watch.advertisements)
    held.update((True, entry.filter) for entry in watch.subscriptions)
    wanted = Counter(client.wanted)
    for verb, found in (("holds", held - wanted), ("lacks", wanted - held)):
        for (is_subscription, filter), _ in sorted(found.items(), key=str):
            kind = "subscription" if is_subscription else "advertisement"
            yield f"{watch.broker_name} {verb} {kind} {filter} of {client.name}, at rest"
