"""What others may see of a broker: frozen facts, and queries that cost no more than their answer.

Drivers, pages and checkers read a broker through this file alone. Nothing here changes the broker,
and what is returned does not change with it, tables apart: these are to be read between two inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, cast

import msgspec

from byway.core.back_pressure import BackPressure
from byway.core.behaviours import Behaviour, LoadExchange
from byway.core.broker_config import BrokerConfig
from byway.core.client_session import ClientSession
from byway.core.clients import Clients
from byway.core.context import Context
from byway.core.counters import Counters
from byway.core.covering import Covering
from byway.core.kind_mismatches import KindMismatches
from byway.core.links import UNLISTED, LinkEnd
from byway.core.mesh.mesh_behaviour import Mesh, MeshFacts, MeshTables
from byway.core.reachability import Reachability
from byway.core.recovery import Recovery
from byway.core.session_deliveries import SessionDeliveries
from byway.core.successions import Succession, Successions
from byway.core.sync_state import Missing, SyncPhase, SyncState
from byway.core.table_sync import TableSync
from byway.core.tables import Entry, Table
from byway.model.addresses import Listing
from byway.model.errors import RemoteProtocolError
from byway.model.messages import Delivery, EntryId, Hello, LinkKind, Load, Publish

_NOTHING_TO_SYNC: Final = SyncState(SyncPhase.SYNCED, peer_synced=True)
"""Of a link outside the tree."""


class LinkFacts(msgspec.Struct, frozen=True):
    """One link of a broker."""

    neighbour: str
    """The broker at the other end; it is a neighbour only if the link is one of the tree."""
    kind: LinkKind
    address: str
    """Where that broker says it can be dialled; empty if it does not."""
    up: bool
    """Whether the neighbour is connected."""
    open: bool
    """Whether the neighbour takes data."""
    unconfirmed: int
    """Data messages kept until the neighbour confirms them."""
    unacknowledged: int
    """Control messages kept until the neighbour acknowledges them."""
    sent: tuple[int, int]
    """Numbers of the last messages sent, control and data."""
    received: tuple[int, int]
    """Numbers of the last messages received, control and data."""
    finished_early: int
    """Data messages from the neighbour that finished before an earlier one."""
    sync_phase: SyncPhase
    """How far this broker is with sending its tables."""
    peer_synced: bool
    """Whether the neighbour has sent all its tables."""
    comparing: bool
    """Whether the comparison of tables has not ended, on either side."""
    missing: Missing | None
    """Which tables of the neighbour a broker that started without state lacks."""
    unreachable: tuple[str, ...]
    """Brokers that cannot be reached in this direction, as far as is known."""


class SessionFacts(msgspec.Struct, frozen=True):
    """The session of one client."""

    client: str
    incarnation: int
    attached: bool
    """Whether the client is connected."""
    ttl_us: int
    sequence: int
    """The sequence of the client's last publication."""
    entries: int
    """Subscriptions and advertisements that the client holds."""
    kept: int
    """Deliveries kept until the client acknowledges them."""
    kept_bytes: int
    subscriptions: int = 0
    """Subscriptions among the entries."""


class SessionTotals(msgspec.Struct, frozen=True):
    """All sessions of a broker together."""

    attached: int = 0
    """Clients that are connected."""
    away: int = 0
    """Clients that are not, and whose session is kept."""
    kept: int = 0
    """Deliveries kept until clients acknowledge them."""
    kept_bytes: int = 0

    @property
    def sessions(self) -> int:
        """Number of sessions, of clients that are connected or away."""
        return self.attached + self.away


class BrokerFacts(msgspec.Struct, frozen=True):
    """How a broker is between two inputs."""

    name: str
    incarnation: int
    links: tuple[LinkFacts, ...]
    """All links, in the order of the neighbours' names."""
    sessions: SessionTotals
    advertisements: int
    subscriptions: int
    restarting: bool
    """Whether the broker, which ran before, waits for tables without a time limit."""
    recovered: bool
    """Whether the broker has the tables of all its neighbours."""
    unreachable: tuple[str, ...]
    """Brokers that are known to be out of reach."""
    held_deliveries: int
    """Deliveries beyond the bounds of sessions that wait for clients to come back."""


class BrokerQueries:
    """The part of a broker that answers questions about it."""

    name: str
    context: Context
    recovery: Recovery
    sync: TableSync
    clients: Clients
    deliveries: SessionDeliveries
    reachability: Reachability
    behaviours: dict[str, Behaviour]
    back_pressure: BackPressure
    successions: Successions

    def status(self) -> BrokerFacts:
        """Everything at once. Where one number is wanted there is a query for it."""
        return BrokerFacts(
            name=self.name,
            incarnation=self.incarnation,
            links=tuple(self.links.values()),
            sessions=self.session_totals(),
            advertisements=len(self.advertisements),
            subscriptions=len(self.subscriptions),
            restarting=self.is_restarting,
            recovered=self.is_recovered,
            unreachable=tuple(self.unreachable),
            held_deliveries=self.deliveries.held,
        )

    # --- the broker ----------------------------------------------------------------------------

    @property
    def incarnation(self) -> int:
        """Which of its lives the broker is in; a later one is higher."""
        return self.context.incarnation

    @property
    def config(self) -> BrokerConfig:
        """The settings of the broker."""
        return self.context.config

    @property
    def counters(self) -> Counters:
        """What the broker did since it started."""
        return self.context.counters

    @property
    def is_restarting(self) -> bool:
        """Whether the broker, which ran before, waits for tables without a time limit."""
        return self.recovery.restarting

    @property
    def is_recovered(self) -> bool:
        """Whether the broker has the tables of all its neighbours, or never lacked them."""
        return not self.recovery.lost_state

    def has_behaviour(self, name: str) -> bool:
        """Whether this broker has a behaviour."""
        return name in self.behaviours

    def loads_behind(self, link: str) -> list[Load]:
        """The loads that are known of brokers behind a link, the nearest first; none unless loads
        are exchanged."""
        exchange = self.behaviours.get(LoadExchange.name)
        return [] if exchange is None else cast(LoadExchange, exchange).behind(link)

    def mesh(self) -> MeshFacts | None:
        """What the mesh does, if there is one."""
        mesh = self.behaviours.get(Mesh.name)
        return None if mesh is None else cast(Mesh, mesh).facts()

    def mesh_tables(self) -> MeshTables | None:
        """What the mesh goes by, if there is one."""
        mesh = self.behaviours.get(Mesh.name)
        return None if mesh is None else cast(Mesh, mesh).tables()

    # --- tables --------------------------------------------------------------------------------

    @property
    def advertisements(self) -> Table:
        """The advertisement table, to be read."""
        return self.context.routing.adverts

    @property
    def subscriptions(self) -> Table:
        """The subscription table, to be read."""
        return self.context.routing.subscriptions

    @property
    def placeholders(self) -> Table:
        """Entries that are forwarded though nobody subscribes to them as they are."""
        return self.context.routing.placeholders

    @property
    def policy(self) -> Covering:
        """The covering policy, which decides which subscriptions are forwarded."""
        return self.context.routing.policy

    # --- links ---------------------------------------------------------------------------------

    @property
    def neighbours(self) -> tuple[str, ...]:
        """The names of all neighbours, in order."""
        return tuple(link for link in self.context.tree if link != UNLISTED)

    def is_neighbour(self, name: str) -> bool:
        """Whether a broker is a neighbour."""
        return name in self.context.tree

    def has_link(self, name: str) -> bool:
        """Whether there is a link of any kind to a broker, up or down."""
        return name in self.context.ends

    def dials(self, name: str) -> bool:
        """Whether this broker dials another one though it may not be listed: the link was decided
        on while one of both ran, or this broker went on from an older state and waits for the
        tables of that neighbour, which may not be one any more and will say so."""
        end = self.context.ends.get(name)
        if end is None:
            return False
        return end.dials or (self.recovery.restarting and name in self.recovery.missing)

    def learnt_addresses(self) -> dict[str, str]:
        """By neighbour that was decided on while this broker or that one ran, the address that it
        said; empty if it said none."""
        ends = self.context.ends
        return {link: ends[link].address for link in self.context.tree if ends[link].dials}

    @property
    def former(self) -> Mapping[str, str]:
        """By broker that was a neighbour and may not become one again before an operator says so,
        the reason."""
        return MappingProxyType(self.context.former)

    @property
    def listing(self) -> Listing | None:
        """The neighbours that the settings list, as the driver told last; None: it has not told."""
        return self.context.listing

    @property
    def succession_of(self) -> Mapping[str, Succession]:
        """By former neighbour whose place another broker has taken here, what became of that."""
        return MappingProxyType(self.successions.known)

    def reason_not_to_replace(self, old: str, successor: str) -> str:
        """Why a broker cannot take the place of a neighbour here; empty if it can."""
        return self.successions.reason_against(old, successor)

    def link(self, neighbour: str) -> LinkFacts | None:
        """The link to a broker; None if there is none."""
        end = self.context.ends.get(neighbour)
        return None if end is None else self._link(end)

    @property
    def links(self) -> dict[str, LinkFacts]:
        """All links by broker, in the order of their names."""
        ends = self.context.ends
        return {name: self._link(end) for name, end in ends.items() if name != UNLISTED}

    @property
    def links_up(self) -> list[str]:
        """The names of brokers that are connected, by links of any kind."""
        return [link for link, end in self.context.ends.items() if end.up]

    def unconfirmed(self, link: str) -> int:
        """How many data messages a neighbour has not confirmed; 0 for a broker that is none."""
        return len(self.context.copies.links.get(link, ()))

    def unconfirmed_of_clients(self) -> int:
        """How many publications of local clients are not confirmed, or data messages that follow
        from what they asked for. It goes through everything that is in flight."""
        return self.successions.unconfirmed_of_clients()

    def reads_data_from(self, link: str | None) -> bool:
        """Whether publications of a neighbour, or of clients (None), may be handed in: there is
        room for copies into all other branches. Control messages always may, and what comes from a
        full branch too, so that brokers do not wait for each other in a ring."""
        return self.back_pressure.reads_data_from(link)

    @property
    def limits_publications(self) -> bool:
        """Whether a driver has to ask how many publications of a client it may hand in."""
        return self.back_pressure.limits_publications

    def publication_room(self, client: str) -> int:
        """How many publications of a client may be handed in: what `publisher_window` leaves."""
        return self.back_pressure.publication_room(client)

    @property
    def held(self) -> int:
        """How many data messages wait for their turn in a branch, see `branch_queues`."""
        return 0 if self.context.held is None else len(self.context.held)

    @property
    def parked(self) -> int:
        """How many data messages wait for dead neighbours, or for ways round them, see `parked`."""
        return 0 if self.context.held is None else len(self.context.held.parked)

    @property
    def bypassed(self) -> Mapping[str, int]:
        """By neighbour that is dead and bypassed, since when."""
        mesh = self.behaviours.get(Mesh.name)
        since = {} if mesh is None else cast(Mesh, mesh).bypass.state.since
        return MappingProxyType(since)

    def ways_round(self) -> dict[str, tuple[str, ...]]:
        """By soft link that publications take round dead brokers, the brokers that it passes."""
        mesh = self.behaviours.get(Mesh.name)
        return {} if mesh is None else cast(Mesh, mesh).ways_round()

    def parked_publications(self, link: str) -> Iterator[Publish]:
        """Publications that are parked for a neighbour, publisher by publisher."""
        held = self.context.held
        for one in () if held is None else held.parked.in_branch(link):
            if isinstance(one.message, Publish):
                yield one.message

    def unconfirmed_publications(self, link: str) -> Iterator[Publish]:
        """Publications that a neighbour has not confirmed, the oldest first."""
        kept = self.context.copies.links[link]
        return (message for message, _ in kept if isinstance(message, Publish))

    def hello(self, link: str) -> Hello:
        """What to say first over a new connection to a broker. Of one that is not known, only the
        greeting tells what it wants."""
        end = self.context.ends.get(link)
        if end is None:
            return self.context.new_end(link, soft=False).hello()
        hello, old = end.hello(self.context.kind(link)), self.recovery.successors.get(link)
        return hello if old is None else msgspec.structs.replace(hello, in_place_of=old)

    def check_hello(self, link: str, hello: Hello, said: Hello | None) -> None:
        """Raise `RemoteProtocolError` if there could be no link to a broker that has none yet with
        this greeting, answered by `said`."""
        refusal = self.successions.reason_to_refuse(link, hello)
        if refusal:
            raise RemoteProtocolError(link, refusal)
        self.context.new_end(link, soft=hello.kind is LinkKind.SOFT).meet(hello, said)

    def meets_late(self, link: str, hello: Hello) -> bool:
        """Whether a neighbour of the broker whose place this one has taken comes when this one
        waits for nobody any more."""
        return self.successions.is_late(link, hello)

    def _link(self, end: LinkEnd) -> LinkFacts:
        link, state = end.peer, self.sync.states.get(end.peer, _NOTHING_TO_SYNC)
        control, copies = end.control, end.copies
        return LinkFacts(
            neighbour=link,
            kind=self.context.kind(link),
            address=end.address,
            up=end.up,
            open=end.open,
            unconfirmed=len(copies),
            unacknowledged=len(control.kept),
            sent=(control.next - 1, copies.posted),
            received=(end.arrived_control, end.arrived_data),
            finished_early=end.window.early.numbers,
            sync_phase=state.phase,
            peer_synced=state.peer_synced,
            comparing=bool(
                state.expected or state.waiting or state.unclaimed or not state.peer_synced
            ),
            missing=self.recovery.missing.get(link),
            unreachable=self.reachability.behind(link) if link in self.context.tree else (),
        )

    # --- tables that are missing, brokers out of reach -----------------------------------------

    @property
    def missing(self) -> Mapping[str, Missing]:
        """Neighbours whose tables are missing since this broker started without state."""
        return MappingProxyType(self.recovery.missing)

    def has_compared_with(self, neighbour: str) -> bool:
        """Whether tables were compared with a neighbour since the broker started."""
        return neighbour in self.recovery.compared_with

    def neighbours_of(self, neighbour: str) -> tuple[str, ...]:
        """The names of a neighbour's own neighbours, as it gave them."""
        return self.sync.neighbours_of.get(neighbour, ())

    @property
    def unreachable(self) -> list[str]:
        """All brokers that are known to be out of reach."""
        return self.reachability.away()

    def unreachable_behind(self, link: str) -> tuple[str, ...]:
        """Brokers that cannot be reached in the direction of a neighbour, itself included."""
        return self.reachability.behind(link)

    @property
    def uses_load(self) -> bool:
        """Whether anything here goes by the driver's load samples."""
        return bool(self.behaviours) or self.policy.statistics is not None

    # --- clients -------------------------------------------------------------------------------

    def session(self, client: str) -> SessionFacts | None:
        """The session of a client; None if there is none."""
        session = self.clients.sessions.get(client)
        return None if session is None else _session(session)

    @property
    def sessions(self) -> dict[str, SessionFacts]:
        """All sessions by the name of the client."""
        return {name: _session(session) for name, session in self.clients.sessions.items()}

    def each_session(self) -> Iterator[SessionFacts]:
        """The sessions one by one, in the order in which they began."""
        return map(_session, self.clients.sessions.values())

    def advertisements_of(self, client: str) -> Iterator[Entry]:
        """The advertisements of a client here, the oldest first; none if it is not known."""
        session = self.clients.sessions.get(client)
        return _known(self.advertisements, () if session is None else session.adverts.values())

    def subscriptions_of(self, client: str) -> Iterator[Entry]:
        """The subscriptions of a client here, the oldest first; none if it is not known."""
        session = self.clients.sessions.get(client)
        held = () if session is None else session.subscriptions.values()
        return _known(self.subscriptions, held)

    def each_local_subscription(self) -> Iterator[Entry]:
        """The subscriptions of all clients here, client by client."""
        for client in self.clients.sessions:
            yield from self.subscriptions_of(client)

    @property
    def local_subscriptions(self) -> int:
        """Number of subscriptions of clients here."""
        return sum(len(session.subscriptions) for session in self.clients.sessions.values())

    def session_totals(self) -> SessionTotals:
        """What all sessions hold together, in one pass."""
        attached = kept = kept_bytes = 0
        for session in self.clients.sessions.values():
            attached += session.attached
            kept += len(session.kept)
            kept_bytes += session.kept_bytes
        return SessionTotals(attached, len(self.clients.sessions) - attached, kept, kept_bytes)

    @property
    def clients_attached(self) -> list[str]:
        """The names of clients that are connected."""
        return [name for name, session in self.clients.sessions.items() if session.attached]

    @property
    def sessions_stale(self) -> bool:
        """Whether the sessions may be older than what their clients were told."""
        return self.clients.sessions_stale

    @property
    def held_deliveries(self) -> int:
        """Deliveries beyond the bounds of sessions that wait for clients to come back."""
        return self.deliveries.held

    def kept_deliveries(self, client: str) -> tuple[Delivery, ...]:
        """Deliveries kept for a client, the oldest first."""
        return tuple(self.clients.sessions[client].kept)

    @property
    def kind_mismatches(self) -> KindMismatches:
        """Comparisons of local subscriptions whose attributes come as values of another kind, as
        far as sampled publications show; to be read."""
        return self.context.kind_mismatches

    def unsettled(self) -> Iterator[Entry]:
        """Advertisements and subscriptions of clients here that are not settled."""
        for session in self.clients.sessions.values():
            for table, held in (
                (self.advertisements, session.adverts),
                (self.subscriptions, session.subscriptions),
            ):
                for id in held.values():
                    entry = table.get(id)
                    if entry is not None and not entry.settled:
                        yield entry


def _known(table: Table, ids: Iterable[EntryId]) -> Iterator[Entry]:
    return (entry for id in ids if (entry := table.get(id)) is not None)


def _session(session: ClientSession) -> SessionFacts:
    return SessionFacts(
        client=session.name,
        incarnation=session.incarnation,
        attached=session.attached,
        ttl_us=session.ttl_us,
        sequence=session.sequence,
        entries=session.entries,
        kept=len(session.kept),
        kept_bytes=session.kept_bytes,
        subscriptions=len(session.subscriptions),
    )
