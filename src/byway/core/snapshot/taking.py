"""Takes the state of a broker between two inputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from byway.core.branch_queues import BranchQueues
from byway.core.client_session import ClientSession
from byway.core.copies import CopyQueue
from byway.core.held import Held, Key
from byway.core.in_flight import InFlight
from byway.core.links import LinkEnd
from byway.core.recovery import Recovery
from byway.core.snapshot.state import (
    BrokerState,
    ClientState,
    EntryState,
    HeldState,
    InFlightState,
    LinkState,
    PlaceholderFields,
    ReachabilityState,
    TableState,
    TableSyncState,
    WindowState,
    encode,
)
from byway.core.streams import Stream
from byway.core.table_sync import TableSync
from byway.core.tables import (
    Entry,
    Placeholder,
    PlaceholderKind,
    PlaceholderState,
    Table,
    Withdrawal,
)
from byway.core.window import Window

if TYPE_CHECKING:
    from byway.core.broker import Broker


def take(broker: Broker) -> bytes:
    """The state of a broker between two inputs."""
    context, routing = broker.context, broker.context.routing
    pendings = all_in_flight(broker)
    numbers = {id(pending): number for number, pending in enumerate(pendings)}
    seen = broker.publications.streams
    state = BrokerState(
        name=context.name,
        incarnation=context.incarnation,
        link_numbers=context.numbers.names,
        links=[
            _link(end, [numbers[id(source)] for _, source in end.copies], broker)
            for end in context.ends.values()
        ],
        adverts=_table(routing.adverts, routing.adverts),
        subscriptions=_table(routing.subscriptions, routing.subscriptions),
        placeholders=_table(routing.placeholders, routing.subscriptions),
        covering=(routing.policy.name, routing.policy.snapshot()),
        clients=[_client(client, numbers) for client in broker.clients.sessions.values()],
        in_flight=[_in_flight(p, numbers, broker) for p in pendings],
        seen=(_sequences(seen.young), _sequences(seen.old)),
        sync=_sync(broker.recovery, broker.sync),
        behaviours={name: b.snapshot() for name, b in broker.behaviours.items()},
        in_grace=broker.deliveries.in_grace,
        reachability=ReachabilityState(*broker.reachability.snapshot()),
        probes=broker.cycles.snapshot(),
        former=context.former,
        held=_held(context.held, numbers),
        chance=(context.chance.seed, context.chance.draws),
        load=context.load,
        listing=context.listing,
        links_of=context.numbers.links_of,
        told_delta=context.told_delta,
        masks=[*_masks(seen.young), *_masks(seen.old)],
        successions=broker.successions.known,
        successors=broker.recovery.successors,
        ended=[(*key, s.ended) for key, s in (*seen.young.items(), *seen.old.items()) if s.ended],
        owed=[
            (*key, link, last)
            for key, s in (*seen.young.items(), *seen.old.items())
            for link, last in (s.owed or {}).items()
        ],
    )
    return encode(state)


def _sync(recovery: Recovery, sync: TableSync) -> TableSyncState:
    return TableSyncState(
        missing=recovery.missing,
        lost_state=recovery.lost_state,
        restarting=recovery.restarting,
        given_up=recovery.given_up,
        compared_with=recovery.compared_with,
        neighbours_of=sync.neighbours_of,
        rechecking=recovery.rechecking,
        nobody_named=recovery.nobody_named,
        in_place_of=recovery.in_place_of,
    )


def all_in_flight(broker: Broker) -> list[InFlight]:
    """Everything that waits for a confirmation."""
    found: dict[int, InFlight] = {}
    queues = broker.context.copies.links.values()
    stack = [source for queue in queues for _, source in reversed(list(queue))]
    stack += [p for client in broker.clients.sessions.values() for p in client.held]
    held = broker.context.held
    if held is not None:
        waiting = (*held.queues.values(), *held.parked.queues.values())
        stack += [one.source for queue in waiting for one in queue]
    while stack:
        pending = stack.pop()
        if id(pending) not in found:
            found[id(pending)] = pending
            stack += pending.duplicates or ()
    return list(found.values())


def _in_flight(pending: InFlight, numbers: dict[int, int], broker: Broker) -> InFlightState:
    if pending.link is not None:
        end = broker.context.ends.get(pending.link)
        current = end is not None and end.window is pending.window
    else:
        client = broker.clients.sessions.get(pending.client)
        current = client is not None and client.window is pending.window
    duplicates = [numbers[id(other)] for other in pending.duplicates or ()]
    return InFlightState(
        pending.link, pending.client, pending.number, pending.left, current, duplicates,
        _bytes(pending.several),
    )  # fmt: skip


def _link(end: LinkEnd, unconfirmed: list[int], broker: Broker) -> LinkState:
    control, copies = end.control, end.copies
    return LinkState(
        peer=end.peer,
        peer_incarnation=end.peer_incarnation,
        epoch=end.epoch,
        open=end.open,
        control=list(control.kept),
        control_next=control.next,
        data=copies.messages,
        data_next=copies.next,
        arrived=[end.arrived_control, end.arrived_data],
        told=[end.told_control, end.told_data],
        window=_window(end.window),
        unconfirmed=unconfirmed,
        sync=broker.sync.states.get(end.peer),
        kind=broker.context.kind(end.peer),
        address=end.address,
        dials=end.dials,
        numbers=_numbers(copies),
    )


def _held(queues: BranchQueues | None, numbers: dict[int, int]) -> list[HeldState]:
    if queues is None:
        return []
    return [
        *_held_states(queues.parked.queues, numbers, parked=True),
        *_held_states(queues.queues, numbers, parked=False),
    ]


def _held_states(
    queues: Mapping[Key, Iterable[Held]], numbers: dict[int, int], *, parked: bool
) -> Iterator[HeldState]:
    for key, queue in queues.items():
        for held in queue:
            source, reached = numbers[id(held.source)], tuple(sorted(held.reached))
            yield HeldState(
                *key, held.message, _bytes(held.targets), source, held.sequence, parked, reached
            )


def _numbers(copies: CopyQueue) -> list[int]:
    """The numbers of copies, unless they follow one another up to the last one."""
    numbers = copies.numbers
    return [] if not numbers or numbers[0] == copies.next - len(numbers) else numbers


def _window(window: Window) -> WindowState:
    return WindowState(window.finished_up_to, window.told, list(window.early))


def _table(table: Table, followers: Table) -> TableState:
    """The state of a table; those that follow its entries are in the table `followers`."""
    return TableState(
        [_entry(entry, followers) for entry in table],
        table.keys.free_but_for(table),
        list(table.alternates.links.items()),
        list(table.alternates.pending_takeover.items()),
        [(id, link, path) for (id, link), path in table.alternates.behind.items()],
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
        refused=list(client.refused),
    )


def _sequences(streams: dict[tuple[str, int], Stream]) -> list[tuple[str, int, int]]:
    return [(publisher, incarnation, s.last) for (publisher, incarnation), s in streams.items()]


def _masks(streams: dict[tuple[str, int], Stream]) -> Iterator[tuple[str, int, bytes]]:
    for (publisher, incarnation), stream in streams.items():
        if stream.seen is not None:
            yield publisher, incarnation, _bytes(stream.seen.mask)


def _bytes(mask: int) -> bytes:
    return mask.to_bytes((mask.bit_length() + 7) // 8, "big")
