"""Records: what brokers say of themselves, and how far it travels.

Each broker has one record: its primary neighbours, where it can be dialled, its Δ. Neighbours tell
each other the records that they know, each with the hops it has travelled, and take back what they
told when it no longer holds. From the records a broker knows the primary tree near it.

**How far.** A broker tells a neighbour the records of brokers that lie at most Δ − 1 hops from
itself, and not in the branch of that neighbour; its own is one of them. So Δ of each broker that
*relays* a record bounds it, and Δ of the receiver, which has no use for more and says so in its own
record; not Δ of the broker that the record is of. This is the bound of the paths in subscriptions,
which each sender cuts to its own Δ, counted with itself: every broker that such a path names is
on the receiver's map, and few others are. With the originator's Δ, a broker of small Δ would be
missing from maps though anchors name it; with the receiver's alone, brokers between would have to
know who is how far behind them. A broker with Δ = 1 tells nothing. Its neighbours name it, so maps
have it; a neighbour that has told nothing yet, or never will, is told one record, the sender's own.

**What is kept.** By neighbour, what it has told and not taken back: the latest update replaces what
came before, since a link keeps the order of its messages. What comes over different links may come
in any order. If two neighbours tell of one broker, as may be while the tree changes, the newest
record counts (incarnation, then version) and the shortest way. A broker that restarted without its
state has a higher incarnation, so its records outrank older ones. When a neighbour is removed, what
it told is forgotten and taken back from the others; so records of a broker that left, or that is
now too far away, vanish. Nothing expires by time: a link that is down changes nothing.

On a tree this settles: a record is only passed on by who has it from another neighbour, so each
rests on a chain that ends at its own broker. On a cycle, which is there for a while or by mistake,
hops count up to Δ and end.

**Edges.** An edge stands while either end names it, so a map does not wait for both ends. The edges
of this broker itself are those that it has, whoever names it.

**Trust.** A record is not signed: a broker can lie about those behind it. It cannot lie about this
broker or about other neighbours of it, and not beyond the bounds: updates that no correct broker
sends raise `RemoteProtocolError`, which costs the connection.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import msgspec

from byway.model.bounds import (
    DELTA_MAX,
    NAMED_MAX,
    NEIGHBOURS_MAX,
    RECORDS_BYTES_MAX,
    RECORDS_MAX,
)
from byway.model.errors import RemoteProtocolError
from byway.model.messages import BrokerRecord, RecordUpdate, RelayedRecord

_Sent = tuple[int, int, int]
"""Incarnation, version and hops of a record as it was told."""


class RecordsState(msgspec.Struct, frozen=True):
    """All that `NeighbourhoodRecords` must remember to go on over links that resume."""

    own: BrokerRecord
    neighbours: tuple[str, ...]
    received: dict[str, tuple[RelayedRecord, ...]]
    sent: dict[str, dict[str, _Sent]]
    fresh: tuple[str, ...]


class NeighbourhoodRecords:
    """The records that one broker knows. Changes are collected; `take_updates` returns what they
    make it tell its neighbours."""

    def __init__(
        self,
        broker: str,
        incarnation: int,
        delta: int,
        neighbours: Iterable[str] = (),
        address: str = "",
    ) -> None:
        if not 1 <= delta <= DELTA_MAX:
            raise ValueError(f"Δ is from 1 to {DELTA_MAX}, not {delta}")
        self._neighbours: set[str] = set()
        self._own = BrokerRecord(broker, incarnation, 1, (), delta, address)
        self._received: dict[str, dict[str, RelayedRecord]] = {}
        """By neighbour and broker, what the neighbour has told and not taken back."""
        self._sent: dict[str, dict[str, _Sent]] = {}
        """By neighbour and broker, what it was told and holds."""
        self._fresh: set[str] = set()
        """Neighbours that may hold something that nobody here remembers."""
        self._known: dict[str, BrokerRecord] | None = None
        self._changed = True
        self._join(neighbours)

    def __repr__(self) -> str:
        own = self._own
        return (
            f"NeighbourhoodRecords({own.broker!r}, delta={own.delta}, age={own.age}, "
            f"neighbours={sorted(self._neighbours)}, records={len(self._chosen())})"
        )

    # --- what this broker says of itself ------------------------------------------------------

    @property
    def own(self) -> BrokerRecord:
        """The record of this broker."""
        return self._own

    def set_neighbours(self, neighbours: Iterable[str]) -> None:
        """These are the primary neighbours from now on. What the others told is forgotten."""
        wanted = set(neighbours)
        for name in self._neighbours - wanted:
            del self._received[name], self._sent[name]
            self._fresh.discard(name)
        self._neighbours &= wanted
        self._join(wanted)

    def _join(self, neighbours: Iterable[str]) -> None:
        for name in neighbours:
            if name == self._own.broker:
                raise ValueError(f"{name!r} is no neighbour of itself")
            if name not in self._neighbours:
                self._neighbours.add(name)
                self._received[name], self._sent[name] = {}, {}
                self._fresh.add(name)
        named = tuple(sorted(self._neighbours)[:NEIGHBOURS_MAX])
        self._restate(neighbours=named)

    def set_address(self, address: str) -> None:
        """The broker can be dialled here from now on."""
        self._restate(address=address)

    def _restate(self, **fields: object) -> None:
        """Count the version up, if the record changes."""
        own = msgspec.structs.replace(self._own, **fields)
        if own != self._own:
            self._own = msgspec.structs.replace(own, version=own.version + 1)
        self._note_change()

    # --- what neighbours say -------------------------------------------------------------------

    def on_link_reset(self, neighbour: str) -> None:
        """The link to a neighbour starts anew: messages may be lost, or the neighbour's memory."""
        self._received[neighbour], self._sent[neighbour] = {}, {}
        self._fresh.add(neighbour)
        self._note_change()

    def receive(self, neighbour: str, update: RecordUpdate) -> None:
        """Take what a neighbour tells. Raises `RemoteProtocolError`, and changes nothing, if no
        correct broker would."""
        if neighbour not in self._neighbours:
            raise RemoteProtocolError(neighbour, "tells records and is no primary neighbour")
        held = {} if update.anew else dict(self._received[neighbour])
        for name in update.gone:
            held.pop(name, None)
        for relayed in update.records:
            _check(neighbour, relayed)
            if relayed.record.broker != self._own.broker:  # round a cycle it comes back
                held[relayed.record.broker] = relayed
        named = sum(len(relayed.record.neighbours) for relayed in held.values())
        if len(held) > RECORDS_MAX or named > NAMED_MAX:
            reason = f"tells {len(held)} records that name {named} neighbours"
            raise RemoteProtocolError(neighbour, reason)
        self._received[neighbour] = held
        self._note_change()

    def _note_change(self) -> None:
        self._changed = True
        self._known = None

    # --- what the maps are made of -------------------------------------------------------------

    def record(self, broker: str) -> BrokerRecord | None:
        """The record of a broker within Δ hops, or of this one; None if it has told none."""
        return self._own if broker == self._own.broker else self._chosen().get(broker)

    @property
    def brokers(self) -> tuple[str, ...]:
        """The other brokers whose record is known, by name."""
        return tuple(sorted(self._chosen()))

    @property
    def primary_edges(self) -> tuple[tuple[str, str], ...]:
        """The edges that the known records name, each once, sorted."""
        here = self._own.broker
        edges = {_edge(here, name) for name in self._neighbours}
        for broker, record in self._chosen().items():
            edges.update(_edge(broker, name) for name in record.neighbours if name != here)
        return tuple(sorted(edges))

    def denies(self, way: Sequence[str]) -> bool:
        """Whether brokers along a way are not neighbours, as far as is known: of two in a row, one
        has told its record, and none names the other. A record that is full may leave one out."""
        records = [self.record(broker) for broker in way]
        for (one, other), (here, there) in zip(pairwise(way), pairwise(records), strict=True):
            told = [(r, b) for r, b in ((here, other), (there, one)) if r is not None]
            if told and not any(b in r.neighbours or _is_full(r) for r, b in told):
                return True
        return False

    def _chosen(self) -> Mapping[str, BrokerRecord]:
        """By broker, the record that counts."""
        if self._known is None:
            known: dict[str, RelayedRecord] = {}
            for relayed in self._told(self._own.delta):
                name = relayed.record.broker
                if name not in known or _prefer(relayed, known[name]):
                    known[name] = relayed
            self._known = {name: relayed.record for name, relayed in known.items()}
        return self._known

    def _told(self, hops_max: int, without: str | None = None) -> Iterator[RelayedRecord]:
        """What neighbours but one have told of brokers at most so far away. A neighbour speaks for
        itself: what others say of it does not count."""
        for neighbour in sorted(self._received):
            if neighbour != without:
                for name, relayed in self._received[neighbour].items():
                    if relayed.hops <= hops_max and (
                        name == neighbour or name not in self._neighbours
                    ):
                        yield relayed

    # --- what neighbours are told --------------------------------------------------------------

    def take_updates(self) -> list[tuple[str, RecordUpdate]]:
        """By neighbour, in the order to send them, what has changed since the last call. Called
        once for a batch of inputs, it tells the outcome of all. Costs one pass over the known
        records a neighbour, and nothing if nothing has changed."""
        if not self._changed:
            return []
        self._changed = False
        return [
            (neighbour, update)
            for neighbour in sorted(self._neighbours)
            for update in self._updates_for(neighbour)
        ]

    def _updates_for(self, neighbour: str) -> Iterator[RecordUpdate]:
        offered = self._offered(neighbour)
        sent = self._sent[neighbour]
        gone = tuple(sorted(sent.keys() - offered.keys()))
        news = [
            relayed for name, relayed in offered.items()
            if sent.get(name) != (*relayed.record.age, relayed.hops)
        ]  # fmt: skip
        anew = neighbour in self._fresh and self._own.delta > 1
        self._fresh.discard(neighbour)
        self._sent[neighbour] = {
            name: (*relayed.record.age, relayed.hops) for name, relayed in offered.items()
        }
        packs = list(_packed(news))
        if anew or gone:
            yield RecordUpdate(anew, gone, packs.pop(0) if packs and not gone else ())
        for pack in packs:
            yield RecordUpdate(False, (), pack)

    def _offered(self, neighbour: str) -> dict[str, RelayedRecord]:
        """What a neighbour should hold of this broker's side, nearest first, within the bounds."""
        here = self._own.broker
        if self._own.delta == 1:
            return {}
        hops_max = min(self._own.delta, self._delta_of(neighbour))
        best: dict[str, RelayedRecord] = {here: RelayedRecord(self._own, 1)}
        for relayed in self._told(hops_max - 1, without=neighbour):
            name = relayed.record.broker
            onward = RelayedRecord(relayed.record, relayed.hops + 1)
            other = best.get(name)
            if other is not None:
                newer = onward if _prefer(onward, other) else other
                onward = RelayedRecord(newer.record, min(onward.hops, other.hops))
            best[name] = onward
        offered: dict[str, RelayedRecord] = {}
        named = 0
        for name in sorted(best, key=lambda name: (best[name].hops, name)):
            named += len(best[name].record.neighbours)
            if len(offered) == RECORDS_MAX or named > NAMED_MAX:
                break
            offered[name] = best[name]
        return offered

    def _delta_of(self, neighbour: str) -> int:
        """Δ of a neighbour; 1 for one that has told nothing."""
        relayed = self._received[neighbour].get(neighbour)
        return 1 if relayed is None else relayed.record.delta

    # --- snapshots -----------------------------------------------------------------------------

    def snapshot(self) -> RecordsState:
        """What `restore` goes on from. Updates that were not taken are made again."""
        return RecordsState(
            self._own,
            tuple(sorted(self._neighbours)),
            {name: tuple(held.values()) for name, held in sorted(self._received.items())},
            {name: dict(held) for name, held in sorted(self._sent.items())},
            tuple(sorted(self._fresh)),
        )

    @classmethod
    def restore(
        cls, state: RecordsState, incarnation: int, delta: int, address: str = ""
    ) -> NeighbourhoodRecords:
        """The records of a broker that restarts with its state, perhaps with another Δ or address,
        or under a new incarnation. Links that start anew are told by `on_link_reset`."""
        own = state.own
        records = cls(own.broker, incarnation, delta)
        records._own = own
        records._neighbours = set(state.neighbours)
        records._received = {
            name: {relayed.record.broker: relayed for relayed in held}
            for name, held in state.received.items()
        }
        records._sent = {name: dict(held) for name, held in state.sent.items()}
        records._fresh = set(state.fresh)
        records._restate(incarnation=incarnation, delta=delta, address=address)
        return records


def _edge(one: str, other: str) -> tuple[str, str]:
    return (one, other) if one < other else (other, one)


def _is_full(record: BrokerRecord) -> bool:
    return len(record.neighbours) == NEIGHBOURS_MAX


def _prefer(one: RelayedRecord, other: RelayedRecord) -> bool:
    """Whether the first of two records of one broker counts. Two of one age that differ are a lie
    or a fault; the nearer one counts, and the first that was compared."""
    return (one.record.age, -one.hops) > (other.record.age, -other.hops)


def _check(neighbour: str, relayed: RelayedRecord) -> None:
    """Raise `RemoteProtocolError` for a record that no correct broker passes on."""
    record, name = relayed.record, relayed.record.broker
    if (relayed.hops == 1) != (name == neighbour):
        reason = f"tells a record of {name!r} that has travelled {relayed.hops} hops"
        raise RemoteProtocolError(neighbour, reason)
    if name in record.neighbours:
        raise RemoteProtocolError(neighbour, f"names {name!r} as a neighbour of itself")
    if any(a >= b for a, b in zip(record.neighbours, record.neighbours[1:], strict=False)):
        raise RemoteProtocolError(neighbour, f"names neighbours of {name!r} in no order")


def _packed(records: Iterable[RelayedRecord]) -> Iterator[tuple[RelayedRecord, ...]]:
    """Records in packs of at most `RECORDS_BYTES_MAX`."""
    pack: list[RelayedRecord] = []
    size = 0
    for relayed in records:
        size += relayed.record.text_bytes
        if pack and size > RECORDS_BYTES_MAX:
            yield tuple(pack)
            pack, size = [], relayed.record.text_bytes
        pack.append(relayed)
    if pack:
        yield tuple(pack)
