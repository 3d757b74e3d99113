"""Synchronisation of tables between two neighbours whose link starts from number 1.

When a link comes back and one end lost its numbers, what one end holds from the other is compared
with what it should hold, by digest, and only the difference is sent. This part decides what of the
tables is sent to a link and when; the tables' rules know nothing of it.

Each end goes through the same phases (`SyncPhase`) with what it has to send:

- *awaiting digest*: the peer has not said yet what it holds. Changes are not sent: the comparison
  will see them.
- *awaiting names*: digests differ, the names in question are on their way. Changes wait.
- *sending*: what the peer lacked was sent, changes are sent as they come. What the peer holds and
  nobody has announced to this broker yet is *unclaimed*: a broker that lost its state learns only
  from its other neighbours what the peer rightly holds, so nothing is withdrawn before they have
  sent their tables. Nor is what was announced since: if it ends before, it is unclaimed again. For
  it may have quenched what a neighbour has not sent yet, which the peer therefore lacks.
- *adverts synced*: all others have sent their advertisements, so the peer knows them all; those
  that stayed unclaimed have ended.
- *synced*: all others have sent their subscriptions, and this end knows the peer's advertisements,
  so the peer knows all subscriptions that it needs.

Publications from the peer's side that are unconfirmed here may come again through a peer without
state. The subscriptions that wanted them may have been withdrawn since, here or further on, because
their advertisement has ended. A peer that concluded that nobody wants them would confirm them too
early. So this end names them first (`PublicationsUnconfirmed`), and the peer sends it their copies.

Two steps, because subscriptions go where advertisements came from: a broker without state cannot
know that it has all subscriptions before the sender has seen all advertisements. (With one step a
publication passed a broker before the subscription that wanted it, in one of a thousand runs with
two neighbours down.) A broker that has its tables knows them, and sends at once. For whom a broker
without state waits is decided in `recovery`. Neighbours that its operator did not name to it are
named by the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace

from byway.core.context import Context
from byway.core.links import UNLISTED
from byway.core.recovery import Recovery
from byway.core.sync_state import Announcement, Change, Expected, Missing, SyncPhase, SyncState
from byway.core.table_digests import BUCKETS, bucket_of, differing, digests, path_hash
from byway.model.bounds import NEIGHBOURS_MAX
from byway.model.errors import RemoteProtocolError
from byway.model.messages import (
    Advertise,
    AdvertisementSettled,
    AdvertisementsSynced,
    EntryId,
    NeighbourNames,
    PublicationsUnconfirmed,
    Retire,
    Subscribe,
    SubscriptionsSynced,
    SyncDigest,
    SyncNames,
    SyncNamesAlong,
    SyncRequest,
    Unadvertise,
    Unsubscribe,
    in_parts,
    path_of,
    subscribe_along,
)


class TableSync:
    """The phases of every link of one broker."""

    def __init__(self, context: Context, recovery: Recovery) -> None:
        self._context = context
        self._recovery = recovery
        self.states: dict[str, SyncState] = {}
        self.neighbours_of: dict[str, tuple[str, ...]] = {}
        """By neighbour, the names of its own neighbours, to be given back should it lose them."""
        self.settled: deque[tuple[type[Announcement], EntryId, str]] = deque()
        """Entries that turned out to be settled behind a link, and how each was announced; the
        tables' rules take them from here."""
        self.unconfirmed_from: Callable[[str], Sequence[tuple[str, int, int]]] = lambda _link: ()
        """By publisher and incarnation, up to which sequence publications that came from a
        neighbour's side are unconfirmed here."""

    # --- links ---------------------------------------------------------------------------------

    def add_link(self, link: str) -> None:
        """There is a new neighbour; nothing is sent before it has said what it holds."""
        self.states[link] = SyncState()

    def remove_link(self, link: str) -> None:
        """Forget a neighbour that was removed, and tell the others."""
        self.states.pop(link, None)
        self.neighbours_of.pop(link, None)
        self._recovery.remove_link(link)
        self.advance()
        self.send_names_to_all()

    def replace_link(self, old: str, new: str) -> None:
        """A neighbour has another name, and so has its state. The names of its neighbours are those
        of the other one, unless it is among them: then they are of one before it, which was between
        it and this broker, and it has never told its own."""
        self.states[new] = self.states.pop(old)
        names = self.neighbours_of.pop(old, ())
        if names and old not in names:
            self.neighbours_of[new] = names
        for kind, id, link in list(self.settled):
            self.settled.popleft()
            self.settled.append((kind, id, new if link == old else link))
        self.send_names_to_all()

    def learn_names(self, link: str, names: Iterable[str]) -> None:
        """These are further neighbours of a neighbour, if it is known what neighbours it has."""
        known = self.neighbours_of.get(link, ())
        if known:
            self.neighbours_of[link] = tuple(sorted({*known, *names}))

    def on_link_reset(self, link: str) -> None:
        """Both ends of a link count from 1 again: send the digest of what is held from there, and
        await the peer's."""
        context, routing = self._context, self._context.routing
        self.states[link] = SyncState()
        routing.remove_alternates(link)
        routing.advertisement_rules.link_anew(link)
        adverts, subscriptions = (
            digests((e.id, e.origin.behind, e.settled) for e in table if e.origin.link == link)
            for table in (routing.adverts, routing.subscriptions)
        )
        names = self.neighbours_of.get(link, ())
        restarting = self._recovery.restarting
        context.out.send(link, SyncDigest(adverts, subscriptions, names, restarting))

    def on_link_resumed(self, link: str) -> None:
        """Both ends of a link go on where they were. One that went on from a state of an earlier
        version has not sent the names; one that has not heard what the peer holds will."""
        state = self.states[link]
        if state.phase is not SyncPhase.AWAITING_DIGEST and not state.names_sent:
            self.send_names(link)

    # --- recovery ------------------------------------------------------------------------------

    def on_timer(self) -> None:
        """Neighbours that have not come by now are not waited for."""
        if self._recovery.give_up_missing():
            self.advance()

    def on_restart_detected(self) -> None:
        """Something shows that this broker ran before."""
        if self._recovery.begin_restart():
            self.send_names_to_all()
            self.advance()

    def on_succession(self, link: str, old: str) -> None:
        """This broker takes the place of one that a neighbour had."""
        if self._recovery.begin_in_place_of_another(link, old):
            self.send_names_to_all()
            self.advance()

    def unknown_neighbours(self, link: str, message: SyncDigest) -> list[str]:
        """Neighbours of this broker that it does not know of, by what one that it compares tables
        with for the first time holds from it. Nothing is known of them yet but that they have to
        send everything."""
        recovery = self._recovery
        if link in recovery.compared_with:
            return []
        recovery.compared_with = sorted([*recovery.compared_with, link])
        if not recovery.lost_state:
            return []
        holds_any = message.advertisements or message.subscriptions or message.neighbours
        if holds_any or message.restarting:
            self.on_restart_detected()
        tree, former, replaced = self._context.tree, self._context.former, recovery.in_place_of
        known = {*tree, *former, *replaced.values()}
        return sorted({*message.neighbours} - known)

    # --- names of neighbours -------------------------------------------------------------------

    def on_neighbour_names(self, link: str, message: NeighbourNames) -> None:
        """A neighbour names its own, and takes data from now on."""
        self.neighbours_of[link] = message.names
        self.states[link].peer_takes_data = True
        if message.restarting:
            self.on_restart_detected()
        self._open_if_ready(link)

    def send_names_to_all(self) -> None:
        """Send the names, which have changed, to all neighbours that have said what they hold."""
        for link, state in self.states.items():
            if state.phase is not SyncPhase.AWAITING_DIGEST:
                self.send_names(link)

    def send_names(self, link: str) -> None:
        """Send one neighbour the names of all neighbours."""
        self.states[link].names_sent = True
        names = tuple(name for name in self._context.tree if name != UNLISTED)[:NEIGHBOURS_MAX]
        if self._recovery.nobody_named:
            names = ()  # others would take them for all
        self._context.out.send(link, NeighbourNames(names, self._recovery.restarting))

    # --- changes -------------------------------------------------------------------------------

    def send(self, link: str, message: Change) -> None:
        """Send a change to a neighbour, now or when its phase allows. The answer to an
        advertisement must not come before subscriptions that it drew, and waits as they do."""
        state = self.states[link]
        if state.phase is SyncPhase.SYNCED:
            self._context.out.send(link, message)
        elif state.phase >= SyncPhase.SENDING:
            self._send_unless_held(link, state, message)
        elif state.phase is SyncPhase.AWAITING_NAMES or isinstance(message, AdvertisementSettled):
            state.waiting.append(message)

    def awaits_digest(self, link: str) -> bool:
        """Whether a neighbour is sent nothing yet, and will therefore answer for nothing."""
        return self.states[link].phase is SyncPhase.AWAITING_DIGEST

    def _send_unless_held(self, link: str, state: SyncState, message: Change) -> None:
        if isinstance(message, Unsubscribe | Retire):
            self._withdraw_unless_held(link, state, message)
        elif isinstance(message, Advertise | Subscribe) and message.id in state.unclaimed:
            is_settled = state.unclaimed.pop(message.id)
            if not _holds_path(state, message):
                self._announce(link, state, message)
            elif is_settled:
                self._note_settled(message, link)
        elif isinstance(message, Advertise | Subscribe):
            self._announce(link, state, message)
        else:
            self._context.out.send(link, message)

    def _announce(self, link: str, state: SyncState, message: Announcement) -> None:
        if message.id in state.held:
            state.held[message.id] = path_hash(path_of(message))
        self._context.out.send(link, message)

    def _withdraw_unless_held(
        self, link: str, state: SyncState, message: Unsubscribe | Retire
    ) -> None:
        """Withdraw subscriptions, but for those that the peer held when tables were compared: they
        may have quenched, in an earlier life, what a missing neighbour wants. What was announced
        since quenches only what is known, or what the peer holds besides."""
        if self._recovery.knows_all_except(link):
            self._context.out.send(link, message)
            return
        kept = [id for id in message.ids if id in state.held]
        # an answer that is still due is counted where the subscription is, should it be sent again
        state.unclaimed |= dict.fromkeys(kept, True)
        rest = [at for at, id in enumerate(message.ids) if id not in state.held]
        if rest:
            ids = tuple(message.ids[at] for at in rest)
            hints = message.hints if isinstance(message, Unsubscribe) else ()
            if hints:
                message = replace(message, hints=tuple(hints[at] for at in rest))
            self._context.out.send(link, replace(message, ids=ids))

    def is_synced(self, link: str) -> bool:
        """Whether a neighbour has sent all its tables since the numbers of its link started."""
        return link in self.states and self.states[link].peer_synced

    def settle_unclaimed(self, link: str, id: EntryId) -> None:
        """The peer answers for an entry that this end has not announced: it may be unclaimed."""
        state = self.states[link]
        if id in state.unclaimed:
            state.unclaimed[id] = True

    def _note_settled(self, message: Announcement, link: str) -> None:
        if isinstance(message, Subscribe):
            self.settled.append((Subscribe, message.id, link))
        elif self.states[link].peer_synced:
            self.settled.append((Advertise, message.id, link))
        else:
            self.states[link].settled_adverts.append(message.id)

    # --- comparison ----------------------------------------------------------------------------

    def check_digest(self, link: str, message: SyncDigest) -> None:
        """Raise `RemoteProtocolError` unless the peer may send this digest now."""
        if self.states[link].phase is not SyncPhase.AWAITING_DIGEST:
            raise RemoteProtocolError(link, "says twice what it holds")
        for sums in (message.advertisements, message.subscriptions):
            if len(sums) not in (0, BUCKETS):
                raise RemoteProtocolError(link, f"sends {len(sums)} digests, not {BUCKETS}")

    def on_digest(self, link: str, message: SyncDigest) -> None:
        """The peer says what it holds: ask for names where that is not what it should hold."""
        state = self.states[link]
        adverts, subscriptions, state.repeated = self._expected_at(link)
        buckets = (
            differing(message.advertisements, adverts),
            differing(message.subscriptions, subscriptions),
        )
        for entries, differ in zip((adverts, subscriptions), map(set, buckets), strict=True):
            for id, entry in entries.items():
                if bucket_of(id) in differ:
                    state.expected[id] = entry
                elif entries is subscriptions:
                    state.held[id] = path_hash(path_of(entry[0]))
        state.phase = SyncPhase.AWAITING_NAMES
        self.send_names(link)
        holds_any = message.advertisements or message.subscriptions
        if holds_any and buckets != ((), ()):
            self._context.out.send(link, SyncRequest(*buckets))
        else:
            self._send_difference(link, {}, ())

    def _expected_at(self, link: str) -> tuple[Expected, Expected, list[Advertise]]:
        """What a neighbour should hold from here. An advertisement whose end is still on its way
        counts: publications before it are on their way too."""
        context, routing = self._context, self._context.routing
        adverts: Expected = {
            e.id: (Advertise(e.id, e.filter), link not in e.awaiting)
            for e in routing.adverts.went_to(link)
        }
        repeated = []
        held = context.held.held_in(link) if context.held is not None else ()
        for message in (*context.ends[link].copies.messages, *held):
            if isinstance(message, Unadvertise):
                announcement = Advertise(message.id, message.filter)
                if message.id in adverts:
                    repeated.append(announcement)
                else:
                    adverts[message.id] = announcement, False
        told_path = routing.subscription_rules.told_path
        subscriptions: Expected = {
            e.id: (subscribe_along(e.id, e.filter, told_path(e.origin)), link not in e.awaiting)
            for table in (routing.subscriptions, routing.placeholders)
            for e in table.went_to(link)
        }
        return adverts, subscriptions, repeated

    def on_request(self, link: str, message: SyncRequest) -> None:
        """The peer asks for the names of what is held from it in some buckets."""
        context, routing = self._context, self._context.routing
        alternates = routing.subscriptions.alternates
        for id in alternates.announced_by(link):  # its origin was this peer in the digest
            if bucket_of(id) in message.subscriptions:
                alternates.end(id, link)  # the peer will announce it, if it has it
        adverts, subscriptions = (
            [e for e in table.came_from(link) if bucket_of(e.id) in buckets]
            for table, buckets in (
                (routing.adverts, set(message.advertisements)),
                (routing.subscriptions, set(message.subscriptions)),
            )
        )
        paths = {e.id: path_hash(e.origin.behind) for e in subscriptions if e.origin.behind}
        *most_adverts, last_adverts = in_parts([(e.id, e.settled) for e in adverts])
        for adverts_part in most_adverts:
            context.out.send(link, SyncNames(adverts_part, (), partial=True))
        *most, last = in_parts([(e.id, e.settled) for e in subscriptions])
        for part in most:
            context.out.send(link, _names((), part, paths, partial=True))
        context.out.send(link, _names(last_adverts, last, paths, partial=False))

    def on_names(self, link: str, message: SyncNames) -> None:
        """The peer names what it holds in the buckets that differ."""
        state = self.states[link]
        if state.phase is not SyncPhase.AWAITING_NAMES:
            raise RemoteProtocolError(link, "names what it holds without being asked")
        state.named_adverts |= dict(message.advertisements)
        state.named |= dict(message.subscriptions)
        state.held |= dict.fromkeys(dict(message.subscriptions), 0)
        if isinstance(message, SyncNamesAlong):
            along = zip(message.subscriptions, message.paths, strict=False)
            state.held |= {id: path for (id, _), path in along}
        if not message.partial:
            adverts, named = state.named_adverts, state.named
            state.named_adverts, state.named = {}, {}
            self._send_difference(link, adverts | named, tuple(adverts))

    def _send_difference(
        self, link: str, named: dict[EntryId, bool], adverts: tuple[EntryId, ...]
    ) -> None:
        """Send what the peer lacks, and what has changed meanwhile."""
        state = self.states[link]
        for id, (announcement, settled) in state.expected.items():
            if id not in named or not _holds_path(state, announcement):
                named.pop(id, None)
                self._await_answer(announcement, link)
                self._announce(link, state, announcement)
            elif named.pop(id):
                self._note_settled(announcement, link)
            elif settled:
                self._await_answer(announcement, link)
        for announcement in state.repeated:
            self._context.out.send(link, announcement)
        state.unclaimed = named
        state.unclaimed_adverts = adverts
        state.phase = SyncPhase.SENDING
        waiting, state.waiting, state.expected, state.repeated = state.waiting, [], {}, []
        for change in waiting:
            self._send_unless_held(link, state, change)
        self._open_if_ready(link)
        self.advance()

    def _await_answer(self, announcement: Announcement, link: str) -> None:
        """An answer is due for an announcement, whatever was answered before."""
        routing = self._context.routing
        is_advert = isinstance(announcement, Advertise)
        rules = routing.advertisement_rules if is_advert else routing.subscription_rules
        rules.await_answer(announcement.id, link)

    # --- conclusion ----------------------------------------------------------------------------

    def on_advertisements_synced(self, link: str, provisional: bool) -> None:
        """The peer has sent all its advertisements."""
        if self._recovery.will_be_repeated(link, provisional):
            return
        self.states[link].peer_advertised = True
        self._recovery.on_adverts_synced(link)
        self.advance()

    def on_subscriptions_synced(self, link: str, provisional: bool) -> None:
        """The peer has sent everything."""
        if self._recovery.will_be_repeated(link, provisional):
            return
        state = self.states[link]
        state.peer_synced = True
        ids, state.settled_adverts = state.settled_adverts, []
        self.settled.extend((Advertise, id, link) for id in ids)
        self._recovery.on_synced(link, provisional)
        self.advance()

    def on_rechecked(self, link: str) -> None:
        """All publications that were kept for a neighbour have been rechecked."""
        del self._recovery.rechecking[link]
        self._recovery.successors.pop(link, None)
        self._open_if_ready(link)

    def _open_if_ready(self, link: str) -> None:
        """Send data to the peer, if it takes data, was sent the tables that the data depends on,
        and has sent what it wants."""
        recovery = self._recovery
        if link in recovery.missing or link in recovery.rechecking or link in recovery.successors:
            return
        state = self.states[link]
        if state.peer_takes_data and state.phase >= SyncPhase.SENDING:
            self._context.out.opening[link] = None

    def advance(self) -> None:
        """Conclude a phase with every neighbour for which all others have sent their part."""
        recovery = self._recovery
        for link in sorted(self.states):
            state = self.states[link]
            is_provisional = recovery.is_provisional_for(link)
            if state.provisional and (recovery.restarting or not is_provisional):
                state.provisional = False
                state.phase = min(state.phase, SyncPhase.SENDING)  # it is concluded once more
            if state.phase is SyncPhase.SENDING and recovery.knows_adverts_except(link):
                state.phase = SyncPhase.ADVERTS_SYNCED
                state.provisional = is_provisional
                ended = [i for i in state.unclaimed_adverts if i in state.unclaimed]
                for id in ended:
                    del state.unclaimed[id]
                self._send_synced(link, AdvertisementsSynced, sorted(ended))
            if (
                state.phase is SyncPhase.ADVERTS_SYNCED
                and (state.peer_advertised or recovery.missing.get(link) is not Missing.ALL)
                and recovery.knows_all_except(link)
            ):
                state.phase = SyncPhase.SYNCED
                state.provisional = is_provisional
                ended, state.unclaimed, state.held = sorted(state.unclaimed), {}, {}
                unconfirmed = self.unconfirmed_from(link)
                for part in in_parts(unconfirmed) if unconfirmed else ():
                    self._context.out.send(link, PublicationsUnconfirmed(part))
                self._send_synced(link, SubscriptionsSynced, ended)

    def _send_synced(
        self,
        link: str,
        kind: type[AdvertisementsSynced | SubscriptionsSynced],
        ended: Sequence[EntryId],
    ) -> None:
        """Say that a table was sent, and which of the peer's entries have ended."""
        *most, last = in_parts(ended)
        for part in most:
            self._context.out.send(link, kind(part, partial=True))
        provisional = self.states[link].provisional
        self._context.out.send(link, kind(last, provisional=provisional))


def _names(
    adverts: tuple[tuple[EntryId, bool], ...],
    subscriptions: tuple[tuple[EntryId, bool], ...],
    paths: dict[EntryId, int],
    *,
    partial: bool,
) -> SyncNames:
    """The message that names entries, with the paths of subscriptions if any has one."""
    along = tuple(paths.get(id, 0) for id, _ in subscriptions) if paths else ()
    if any(along):
        return SyncNamesAlong(adverts, subscriptions, partial, along)
    return SyncNames(adverts, subscriptions, partial)


def _holds_path(state: SyncState, announcement: Announcement) -> bool:
    """Whether the peer holds an entry, which it named, with the path that it is announced with."""
    return state.held.get(announcement.id, 0) == path_hash(path_of(announcement))
