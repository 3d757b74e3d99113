"""Gives a new broker the state of a snapshot."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable
from functools import reduce
from typing import TYPE_CHECKING

import msgspec

from byway.core.client_session import REFUSED_KEPT, ClientSession
from byway.core.context import Context
from byway.core.copies import Copies
from byway.core.held import Held, Key
from byway.core.in_flight import COPY_BYTES, InFlight
from byway.core.link_numbers import LinkNumbers
from byway.core.links import LinkEnd, Outbox
from byway.core.mesh.mesh_behaviour import Mesh, told_spans
from byway.core.snapshot.state import (
    BrokerState,
    ClientState,
    HeldState,
    LinkState,
    PlaceholderFields,
    TableState,
    TableSyncState,
    WindowState,
)
from byway.core.streams import Publisher, Stream, Streams
from byway.core.tables import Entry, Placeholder, PlaceholderState, Table, Withdrawal, with_link
from byway.core.window import Runs, Window
from byway.model.messages import EntryId, LinkKind, Message, Publish, Unadvertise

if TYPE_CHECKING:
    from byway.core.broker import Broker


def restore(state: BrokerState, broker: Broker) -> None:
    """Give a new broker, which has the links of the state, everything else of it."""
    context, routing = broker.context, broker.context.routing
    context.numbers.restore(state.link_numbers, state.links_of)
    routing.adverts = _restore_table(state.adverts, context.numbers)
    routing.subscriptions = _restore_table(state.subscriptions, context.numbers)
    routing.placeholders = _restore_table(state.placeholders, None, routing.subscriptions)
    if routing.sent is not None:
        for entry in (*routing.subscriptions, *routing.placeholders):
            routing.sent.update(entry)
    policy, kept = state.covering
    if policy == routing.policy.name and kept is not None:
        routing.policy.restore(kept)
    pendings = _restore_in_flight(state)
    for client in state.clients:
        session = broker.clients.sessions[client.name] = _restore_client(client, pendings)
        for delivery, source in session.held_deliveries:
            source.bytes = COPY_BYTES + len(delivery.publication.body)
            broker.deliveries.held += 1
            broker.deliveries.held_bytes += source.bytes
    broker.clients.recount()
    broker.deliveries.in_grace = state.in_grace
    for link in state.links:
        if link.sync is None:
            context.add_link(link.peer, link.kind)
        else:
            broker.sync.states[link.peer] = link.sync
        end = context.ends[link.peer] = _restore_link(link, context)
        context.copies.add_link(link.peer, end.copies)
    context.former = state.former
    _restore_windows(state, pendings, broker)
    young, old = state.seen
    streams = broker.publications.streams
    masks = {(p, i): mask for p, i, mask in state.masks}
    streams.young = _restore_streams(young, masks, streams)
    streams.old = _restore_streams(old, masks, streams)
    for publisher, incarnation, ended in state.ended:
        streams.known(publisher, incarnation).ended = ended
    for publisher, incarnation, neighbour, last in state.owed:
        streams.known(publisher, incarnation).owe(neighbour, last)
    for link in state.links:
        _restore_copies(link, context.copies, pendings, streams)
    held = [_restore_held(one, pendings[one.source], broker) for one in state.held]
    if context.held is None:
        _send_over_tree([*held, *_end_soft_links(state, broker)], context)
    for (key, one), stored in zip(held, state.held, strict=True):
        if context.held is not None:
            context.held.restore(key, one, parked=stored.parked)
    # as older versions left them; anchors too, and what is held for them, if Δ is another one now
    context.numbers.release_unused(context.ends)
    _restore_sync(state.sync, broker)
    reachability = state.reachability
    broker.reachability.restore(
        reachability.down, reachability.changed, reachability.behind, reachability.said
    )
    broker.cycles.restore(*state.probes)
    context.chance.restore(*state.chance)
    context.load = state.load
    context.listing = state.listing
    context.told_delta = state.told_delta
    broker.successions.known = state.successions
    broker.recovery.successors = state.successors
    context.hooks.watch(routing)
    for name, behaviour in broker.behaviours.items():
        if name in state.behaviours:
            behaviour.restore(state.behaviours[name])


def _restore_streams(
    seen: list[tuple[str, int, int]], masks: dict[Publisher, bytes], streams: Streams
) -> dict[Publisher, Stream]:
    """Streams with what was seen of them: where no mask tells, everything up to the last one."""
    restored = {}
    for publisher, incarnation, last in seen:
        mask = masks.get((publisher, incarnation))
        known = None if mask is None else int.from_bytes(mask, "big")
        restored[publisher, incarnation] = streams.new(last, known)
    return restored


def _restore_sync(state: TableSyncState, broker: Broker) -> None:
    recovery = broker.recovery
    recovery.missing = state.missing
    recovery.lost_state, recovery.restarting = state.lost_state, state.restarting
    recovery.given_up, recovery.compared_with = state.given_up, state.compared_with
    recovery.rechecking, recovery.nobody_named = state.rechecking, state.nobody_named
    recovery.in_place_of = state.in_place_of
    broker.sync.neighbours_of = state.neighbours_of


def _restore_table(
    state: TableState, numbers: LinkNumbers | None, followers: Table | None = None
) -> Table:
    """A table with its entries; those that follow them are in `followers`, or in itself."""
    table = Table(numbers)
    for stored in state.entries:
        entry = table.add(stored.id, stored.filter, stored.origin, stored.key)
        entry.forwarded = reduce(with_link, stored.forwarded, frozenset[str]())
        entry.awaiting = stored.awaiting
        entry.following = stored.following
        entry.settled, entry.announced = stored.settled, stored.announced
        entry.placeholder = _restore_placeholder(stored.placeholder)
    _restore_followers(state, table, table if followers is None else followers)
    table.keys.free = array("q", state.free)
    table.alternates.links = dict(state.alternate_origins)
    table.alternates.behind = {(id, link): path for id, link, path in state.alternate_paths}
    table.alternates.pending_takeover = dict(state.pending_takeover)
    return table


def _restore_placeholder(stored: PlaceholderFields | None) -> Placeholder | None:
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


def _restore_followers(state: TableState, table: Table, followers: Table) -> None:
    for stored in state.entries:
        leader = table.get(stored.id)
        assert leader is not None
        for link, ids in stored.followers.items():
            leader.followers[link] = _known(followers, ids)


def _known(table: Table, ids: Iterable[EntryId]) -> list[Entry]:
    found = (table.get(id) for id in ids)
    return [entry for entry in found if entry is not None]


def _restore_client(state: ClientState, pendings: list[InFlight]) -> ClientSession:
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
        window=_restore_window(state.window, Window()),
        deliveries=state.deliveries,
        kept=deque(state.kept),
        kept_bytes=sum(len(delivery.publication.body) for delivery in state.kept),
        held=deque(pendings[number] for number in state.held),
        refused=deque(state.refused, maxlen=REFUSED_KEPT),
    )


def _restore_window(state: WindowState, window: Window) -> Window:
    window.finished_up_to, window.told = state.finished_up_to, state.told
    window.early = Runs(state.early)
    return window


def _restore_link(state: LinkState, context: Context) -> LinkEnd:
    end = context.new_end(state.peer, soft=state.kind is LinkKind.SOFT)
    end.address, end.dials = state.address, state.dials
    end.peer_incarnation, end.epoch = state.peer_incarnation, state.epoch
    end.open = state.open
    _restore_outbox(end.control, state.control, state.control_next)
    end.arrived_control, end.arrived_data = state.arrived
    end.told_control, end.told_data = state.told
    _restore_window(state.window, end.window)
    return end


def _restore_outbox(box: Outbox, kept: list[Message], following: int) -> None:
    box.kept = deque(kept)
    box.next = following


def _restore_copies(
    state: LinkState, copies: Copies, pendings: list[InFlight], streams: Streams
) -> None:
    queue = copies.links[state.peer]
    sources = [pendings[number] for number in state.unconfirmed]
    queue.restore(list(zip(state.data, sources, strict=True)), state.data_next, state.numbers)
    for message, source in queue:
        if isinstance(message, Publish):
            source.stream = stream = streams.known(message.publisher, message.incarnation)
            stream.see(message.sequence)
            source.bytes = COPY_BYTES + len(message.body)
            stream.count(state.peer)
        queue.bytes += source.bytes
        copies.bytes += source.bytes


def _end_soft_links(state: BrokerState, broker: Broker) -> list[tuple[Key, Held]]:
    """What soft links have not confirmed goes back into the branches that they led into, at a
    broker that has no mesh any more."""
    context, found = broker.context, []
    if Mesh.name not in state.behaviours:
        return []
    spans = told_spans(state.behaviours[Mesh.name])
    for link in state.links:
        if link.kind is LinkKind.SOFT:
            span = spans.get(link.peer, ())
            for message, source in context.remove_link(link.peer):
                assert isinstance(message, Publish), "nothing else goes over soft links"
                if not span or span[0] not in context.ends:
                    context.finish(source)  # the neighbour was removed
                    continue
                distance = max(message.distance - len(span), 1)
                message = msgspec.structs.replace(message, distance=distance)
                key = message.publisher, message.incarnation, span[0]
                found.append((key, Held(message, 0, source, message.sequence)))
    return found


def _send_over_tree(found: list[tuple[Key, Held]], context: Context) -> None:
    """A broker that plans no routes any more sends what it held, what was parked and what soft
    links have not confirmed over the links of their branches, each publisher's in order: nothing
    later of the same publishers has gone there. Of copies of one message one is enough."""
    sent: set[tuple[str, int]] = set()
    for (_, _, branch), held in sorted(found, key=lambda item: (item[0], item[1].place)):
        held.source.left -= 1  # its place is taken by the copy
        if (branch, id(held.source)) not in sent:
            sent.add((branch, id(held.source)))
            context.copies.append(branch, held.message, held.source)
            context.copies.links[branch].post()


def _restore_held(state: HeldState, source: InFlight, broker: Broker) -> tuple[Key, Held]:
    """What was held or parked."""
    message = state.message
    assert isinstance(message, Publish | Unadvertise)
    stream = broker.publications.streams.known(state.publisher, state.incarnation)
    if isinstance(message, Publish):
        source.stream = stream
        source.bytes = COPY_BYTES + len(message.body)
    targets, reached = int.from_bytes(state.targets, "big"), frozenset(state.reached)
    key = state.publisher, state.incarnation, state.branch
    return key, Held(message, targets, source, state.sequence, reached)


def _restore_in_flight(state: BrokerState) -> list[InFlight]:
    pendings = [InFlight(Window(), p.number, p.link, p.client, p.left) for p in state.in_flight]
    for pending, stored in zip(pendings, state.in_flight, strict=True):
        pending.several = int.from_bytes(stored.several, "big")
        if stored.duplicates:
            pending.duplicates = [pendings[number] for number in stored.duplicates]
    return pendings


def _restore_windows(state: BrokerState, pendings: list[InFlight], broker: Broker) -> None:
    for pending, stored in zip(pendings, state.in_flight, strict=True):
        if not stored.current:
            continue
        if pending.link is not None:
            pending.window = broker.context.ends[pending.link].window
        else:
            pending.window = broker.clients.sessions[pending.client].window
