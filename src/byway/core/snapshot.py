"""A broker's whole state as bytes, and back.

Restored from it, a broker goes on as if nothing had happened: links resume by number, sessions and
unconfirmed publications are there. The layout has a version; older ones are converted (`layouts`),
any other is refused, never guessed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import msgspec

from byway.core import layouts
from byway.core.clients import ClientSession
from byway.core.context import Context, InFlight
from byway.core.links import LinkEnd, Outbox, Window
from byway.core.table_sync import Missing, SyncState, TableSync
from byway.core.tables import (
    Entry,
    LinkNumbers,
    Origin,
    Placeholder,
    PlaceholderKind,
    PlaceholderState,
    Table,
    Withdrawal,
    with_link,
)
from byway.model import Filter
from byway.model.errors import SnapshotError
from byway.model.messages import CONTROL, DATA, Delivery, EntryId, Hint, Message

if TYPE_CHECKING:
    from byway.core.broker import Broker

VERSION: Final = 5


class _State(msgspec.Struct, array_like=True):
    pass


class WindowState(_State, array_like=True):
    """A `Window`."""

    finished_up_to: int
    told: int
    early: list[int]


class LinkState(_State, array_like=True):
    """A `LinkEnd`, its connection apart."""

    peer: str
    peer_incarnation: int
    epoch: int
    open: bool
    control: list[Message]
    control_next: int
    data: list[Message]
    data_next: int
    arrived: list[int]
    told: list[int]
    window: WindowState
    unconfirmed: list[int]
    """By message of `data`, the number of what it is a copy of."""
    telling: SyncState


class InFlightState(_State, array_like=True):
    """A `InFlight`; `current` tells whether its window is still the one in use."""

    link: str | None
    client: str
    number: int
    left: int
    current: bool
    also: list[int]


class PlaceholderFields(_State, array_like=True):
    """A `Placeholder`, its state as the flags that snapshots have had from the beginning."""

    similarities: tuple[float, ...] = ()
    hints: tuple[Hint, ...] = ()
    retiring: bool = False
    postponed: bool = False
    merged: bool = False
    since_us: int = 0


class EntryState(_State, array_like=True):
    """An `Entry`; those that follow it by id."""

    id: EntryId
    filter: Filter
    origin: Origin
    key: int
    forwarded: list[str]
    awaiting: dict[str, int]
    following: dict[str, int]
    followers: dict[str, list[EntryId]]
    settled: bool
    announced: int
    placeholder: PlaceholderFields | None = None


class TableState(_State, array_like=True):
    """A `Table`."""

    entries: list[EntryState]
    free: list[int]
    claims: list[tuple[EntryId, dict[str, int]]]
    taken_back: list[tuple[EntryId, Filter]]


class ClientState(_State, array_like=True):
    """A `ClientSession`."""

    name: str
    incarnation: int
    ttl_us: int
    adverts: dict[str, EntryId]
    subscriptions: dict[str, EntryId]
    counter: int
    sequence: int
    accepted: int
    window: WindowState
    deliveries: int
    kept: list[Delivery]
    held: list[int]
    """Numbers of what the latest deliveries without room are copies of."""


class TableSyncState(_State, array_like=True):
    """What an `TableSync` knows beside the phases of its links."""

    missing: dict[str, Missing]
    forgetful: bool
    restarting: bool
    given_up: list[str]
    met: list[str]
    neighbours_of: dict[str, tuple[str, ...]]
    sifting: dict[str, int]


class ReachabilityState(_State, array_like=True):
    """A `Reachability`."""

    down: list[str]
    changed: dict[str, int]
    behind: dict[str, tuple[str, ...]]
    said: dict[str, tuple[str, ...]]


class BrokerState(_State, array_like=True):
    """Everything."""

    name: str
    incarnation: int
    link_numbers: list[str]
    """By number; a free one has an empty name."""
    links: list[LinkState]
    adverts: TableState
    subscriptions: TableState
    placeholders: TableState
    covering: tuple[str, Any]
    """The policy's name, and what it keeps."""
    clients: list[ClientState]
    pendings: list[InFlightState]
    seen: tuple[list[tuple[str, int, int]], list[tuple[str, int, int]]]
    agreement: TableSyncState
    behaviours: dict[str, Any]
    graceful: bool
    """Clients have time to come back after a restart."""
    reachability: ReachabilityState
    probes: tuple[int, dict[str, int]]
    """Number of the last probe for cycles, and the last one over each link."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(BrokerState).decode
_decode_envelope = msgspec.msgpack.Decoder(tuple[str, int, msgspec.Raw]).decode
_MAGIC: Final = "byway broker"


# --- taking ------------------------------------------------------------------------------------


def take(broker: Broker) -> bytes:
    """The state of a broker between two inputs."""
    context = broker.context
    pendings = _all_pendings(broker)
    numbers = {id(pending): number for number, pending in enumerate(pendings)}
    seen = broker.publications.seen
    state = BrokerState(
        name=context.name,
        incarnation=context.incarnation,
        link_numbers=context.numbers.names,
        links=[
            _link(end, [numbers[id(p)] for p in context.unconfirmed[peer]], broker)
            for peer, end in context.ends.items()
        ],
        adverts=_table(context.adverts, context.adverts),
        subscriptions=_table(context.subscriptions, context.subscriptions),
        placeholders=_table(context.placeholders, context.subscriptions),
        covering=(broker.policy.name, broker.policy.snapshot()),
        clients=[_client(client, numbers) for client in broker.clients.all.values()],
        pendings=[_pending(p, numbers, broker) for p in pendings],
        seen=(_sequences(seen.young), _sequences(seen.old)),
        agreement=_agreement(broker.agreement),
        behaviours={name: b.snapshot() for name, b in broker.behaviours.items()},
        graceful=broker.clients.graceful,
        reachability=ReachabilityState(*broker.reachability.snapshot()),
        probes=broker.cycles.snapshot(),
    )
    return _encode((_MAGIC, VERSION, state))


def _agreement(agreement: TableSync) -> TableSyncState:
    return TableSyncState(
        missing=agreement.missing,
        forgetful=agreement.forgetful,
        restarting=agreement.restarting,
        given_up=agreement.given_up,
        met=agreement.met,
        neighbours_of=agreement.neighbours_of,
        sifting=agreement.sifting,
    )


def _all_pendings(broker: Broker) -> list[InFlight]:
    found: dict[int, InFlight] = {}
    stack = [p for waiting in broker.context.unconfirmed.values() for p in reversed(waiting)]
    stack += [p for client in broker.clients.all.values() for p in client.held]
    while stack:
        pending = stack.pop()
        if id(pending) not in found:
            found[id(pending)] = pending
            stack += pending.also or ()
    return list(found.values())


def _pending(pending: InFlight, numbers: dict[int, int], broker: Broker) -> InFlightState:
    if pending.link is not None:
        end = broker.context.ends.get(pending.link)
        current = end is not None and end.window is pending.window
    else:
        client = broker.clients.all.get(pending.client)
        current = client is not None and client.window is pending.window
    also = [numbers[id(other)] for other in pending.also or ()]
    return InFlightState(pending.link, pending.client, pending.number, pending.left, current, also)


def _link(end: LinkEnd, unconfirmed: list[int], broker: Broker) -> LinkState:
    control, data = end.sent
    return LinkState(
        peer=end.peer,
        peer_incarnation=end.peer_incarnation,
        epoch=end.epoch,
        open=end.open,
        control=list(control.kept),
        control_next=control.next,
        data=list(data.kept),
        data_next=data.next,
        arrived=end.arrived,
        told=end.told,
        window=_window(end.window),
        unconfirmed=unconfirmed,
        telling=broker.agreement.telling[end.peer],
    )


def _window(window: Window) -> WindowState:
    return WindowState(window.finished_up_to, window.told, sorted(window.early))


def _table(table: Table, followers: Table) -> TableState:
    """A table; those that follow its entries are in `followers`."""
    return TableState(
        [_entry(entry, followers) for entry in table],
        table.free,
        list(table.claims.items()),
        list(table.taken_back.items()),
    )


def _entry(entry: Entry, table: Table) -> EntryState:
    return EntryState(
        id=entry.id,
        filter=entry.filter,
        origin=entry.origin,
        key=entry.key,
        forwarded=sorted(entry.forwarded),
        awaiting=entry.awaiting,
        following=entry.following,
        followers={
            link: [f.id for f in followers if table.holds(f)]
            for link, followers in entry.followers.items()
        },
        settled=entry.settled,
        announced=entry.announced,
        placeholder=_placeholder(entry.placeholder),
    )


def _placeholder(placeholder: Placeholder | None) -> PlaceholderFields | None:
    if placeholder is None:
        return None
    withdrawal = placeholder.withdrawal or Withdrawal()
    return PlaceholderFields(
        similarities=withdrawal.similarities,
        hints=withdrawal.hints,
        retiring=placeholder.is_retiring,
        postponed=placeholder.state is PlaceholderState.POSTPONED,
        merged=placeholder.kind is PlaceholderKind.MERGED,
        since_us=placeholder.since_us,
    )


def _client(client: ClientSession, numbers: dict[int, int]) -> ClientState:
    return ClientState(
        name=client.name,
        incarnation=client.incarnation,
        ttl_us=client.ttl_us,
        adverts=client.adverts,
        subscriptions=client.subscriptions,
        counter=client.counter,
        sequence=client.sequence,
        accepted=client.accepted,
        window=_window(client.window),
        deliveries=client.deliveries,
        kept=list(client.kept),
        held=[numbers[id(pending)] for pending in client.held],
    )


def _sequences(seen: dict[tuple[str, int], int]) -> list[tuple[str, int, int]]:
    return [(publisher, incarnation, last) for (publisher, incarnation), last in seen.items()]


# --- giving back -------------------------------------------------------------------------------


def read(data: bytes) -> BrokerState:
    """The state in bytes that `take` made. Raises `SnapshotError`."""
    try:
        magic, version, raw = _decode_envelope(data)
    except msgspec.DecodeError as error:
        raise SnapshotError(f"it is no broker's state: {error}") from error
    if magic != _MAGIC:
        raise SnapshotError(f"it begins with {magic!r}, expected {_MAGIC!r}")
    if not layouts.OLDEST <= version <= VERSION:
        expected = f"{layouts.OLDEST} to {VERSION}"
        raise SnapshotError(f"its layout has version {version}, expected {expected}")
    try:
        return _decode(raw if version == VERSION else _converted(raw, version))
    except msgspec.DecodeError as error:
        raise SnapshotError(f"it is damaged: {error}") from error


def _converted(raw: msgspec.Raw, version: int) -> bytes:
    state = msgspec.msgpack.decode(raw)
    try:
        return _encode(layouts.converted(state, version, VERSION))
    except (LookupError, TypeError, ValueError) as error:
        reason = f"its layout {version} cannot be converted to {VERSION}: {error!r}"
        raise SnapshotError(reason) from error


def put(state: BrokerState, broker: Broker) -> None:
    """Give a new broker, which has the links of the state, everything else of it."""
    context = broker.context
    context.numbers = LinkNumbers(state.link_numbers)
    context.adverts = _put_table(state.adverts, context.numbers)
    context.subscriptions = _put_table(state.subscriptions, context.numbers)
    context.placeholders = _put_table(state.placeholders, None, context.subscriptions)
    for name in context.numbers.names:
        if name and name not in broker.context.ends:  # as older versions left them
            context.numbers.release(name)
    if context.sent is not None:
        for entry in (*context.subscriptions, *context.placeholders):
            context.sent.update(entry)
    policy, kept = state.covering
    if policy == broker.policy.name and kept is not None:
        broker.policy.restore(kept)
    pendings = _put_pendings(state)
    for client in state.clients:
        broker.clients.all[client.name] = _put_client(client, pendings)
        broker.clients.held += len(client.held)
    broker.clients.recount()
    broker.clients.graceful = state.graceful
    for link in state.links:
        context.ends[link.peer] = _put_link(link, context)
        context.unconfirmed[link.peer] = deque(pendings[number] for number in link.unconfirmed)
        broker.agreement.telling[link.peer] = link.telling
    _put_windows(state, pendings, broker)
    young, old = state.seen
    broker.publications.seen.young = {(p, i): last for p, i, last in young}
    broker.publications.seen.old = {(p, i): last for p, i, last in old}
    _put_agreement(state.agreement, broker.agreement)
    reachability = state.reachability
    broker.reachability.restore(
        reachability.down, reachability.changed, reachability.behind, reachability.said
    )
    broker.cycles.restore(*state.probes)
    for name, behaviour in broker.behaviours.items():
        if name in state.behaviours:
            behaviour.restore(state.behaviours[name])


def _put_agreement(state: TableSyncState, agreement: TableSync) -> None:
    agreement.missing = state.missing
    agreement.forgetful, agreement.restarting = state.forgetful, state.restarting
    agreement.given_up, agreement.met = state.given_up, state.met
    agreement.neighbours_of, agreement.sifting = state.neighbours_of, state.sifting


def _put_table(
    state: TableState, numbers: LinkNumbers | None, followers: Table | None = None
) -> Table:
    """A table; those that follow its entries are in `followers`, or in itself."""
    table = Table(numbers)
    for stored in state.entries:
        entry = table.add(stored.id, stored.filter, stored.origin, stored.key)
        entry.forwarded = reduce(with_link, stored.forwarded, frozenset[str]())
        entry.awaiting = stored.awaiting
        entry.following = stored.following
        entry.settled, entry.announced = stored.settled, stored.announced
        entry.placeholder = _put_placeholder(stored.placeholder)
    _put_followers(state, table, table if followers is None else followers)
    table.free, table.claims = state.free, dict(state.claims)
    table.taken_back = dict(state.taken_back)
    return table


def _put_placeholder(stored: PlaceholderFields | None) -> Placeholder | None:
    if stored is None:
        return None
    if stored.postponed:
        withdrawal = Withdrawal(stored.similarities, stored.hints, stored.retiring)
        return Placeholder(PlaceholderState.POSTPONED, withdrawal, stored.since_us)
    if not stored.merged:
        return Placeholder(PlaceholderState.PRESERVED, since_us=stored.since_us)
    retiring = PlaceholderState.MERGED_RETIRING
    state = retiring if stored.retiring else PlaceholderState.MERGED
    return Placeholder(state, since_us=stored.since_us)


def _put_followers(state: TableState, table: Table, followers: Table) -> None:
    for stored in state.entries:
        leader = table.get(stored.id)
        assert leader is not None
        for link, ids in stored.followers.items():
            leader.followers[link] = _known(followers, ids)


def _known(table: Table, ids: Iterable[EntryId]) -> list[Entry]:
    found = (table.get(id) for id in ids)
    return [entry for entry in found if entry is not None]


def _put_client(state: ClientState, pendings: list[InFlight]) -> ClientSession:
    return ClientSession(
        name=state.name,
        incarnation=state.incarnation,
        ttl_us=state.ttl_us,
        attached=False,
        adverts=state.adverts,
        subscriptions=state.subscriptions,
        counter=state.counter,
        sequence=state.sequence,
        accepted=state.accepted,
        window=_put_window(state.window),
        deliveries=state.deliveries,
        kept=deque(state.kept),
        kept_bytes=sum(len(delivery.publication.body) for delivery in state.kept),
        held=deque(pendings[number] for number in state.held),
    )


def _put_window(state: WindowState) -> Window:
    window = Window()
    window.finished_up_to, window.told = state.finished_up_to, state.told
    window.early = set(state.early)
    return window


def _put_link(state: LinkState, context: Context) -> LinkEnd:
    end = LinkEnd(context.name, state.peer, context.incarnation)
    end.peer_incarnation, end.epoch = state.peer_incarnation, state.epoch
    end.open = state.open
    _put_outbox(end.sent[CONTROL], state.control, state.control_next)
    _put_outbox(end.sent[DATA], state.data, state.data_next)
    end.arrived, end.told = state.arrived, state.told
    end.window = _put_window(state.window)
    return end


def _put_outbox(box: Outbox, kept: list[Message], following: int) -> None:
    box.kept = deque(kept)
    box.next = following


def _put_pendings(state: BrokerState) -> list[InFlight]:
    pendings = [InFlight(Window(), p.number, p.link, p.client, p.left) for p in state.pendings]
    for pending, stored in zip(pendings, state.pendings, strict=True):
        if stored.also:
            pending.also = [pendings[number] for number in stored.also]
    return pendings


def _put_windows(state: BrokerState, pendings: list[InFlight], broker: Broker) -> None:
    for pending, stored in zip(pendings, state.pendings, strict=True):
        if not stored.current:
            continue
        if pending.link is not None:
            pending.window = broker.context.ends[pending.link].window
        else:
            pending.window = broker.clients.all[pending.client].window
