"""Agreement of tables between two neighbours whose link starts anew.

When a link comes back and one end lost its numbers, what one end holds from the other is compared
with what it should hold, by digest, and only the difference is told. It decides what of the tables
is told to a link and when; the tables' rules know nothing of it.

Each end goes through the same phases for what it has to tell:

- *silent*: the peer has not said yet what it holds. Changes are not told: the comparison sees them.
- *asked*: digests differ, the names in question are on their way. Changes wait.
- *telling*: what the peer lacked was told, changes are told as they come. What it holds and nobody
  has claimed yet is *doubtful*: a broker that lost its state learns only from its other neighbours
  what the peer rightly holds, so nothing is taken back before they have told.
- *advertised*: all others have told their advertisements, so the peer knows them all; those that
  stayed doubtful have ended.
- *told*: all others have told their subscriptions, and this end knows the peer's advertisements, so
  the peer knows all subscriptions that concern it.

Two steps, because subscriptions go where advertisements came from: a broker without state cannot
know that it has been told all subscriptions before the sender has seen all advertisements. (With
one step a publication passed a broker before the subscription that wanted it, in one of a thousand
runs with two neighbours down.) A broker that has its tables knows them, and tells at once.

A broker that starts without state is *complete* when every neighbour has told everything. Data is
taken before: until then **a neighbour that has not told counts as wanting everything**, and its
copies wait, unconfirmed, for what it has to tell. Narrower rules lose what was confirmed as soon as
a subscription that is told anew hides one that is not. (Twenty thousand runs of a model.)

A broker that starts for the first time waits no longer than `sync_wait_us`. One that is
*restarting* waits until each neighbour that it has or had has told everything, or is forgotten by
an operator. It is restarting if it knows so when it starts, if a neighbour holds something from it
that it never told, if a client comes back to a session, or if a neighbour is restarting itself;
whenever it learns that. Neighbours that it was not told of by its operator are named by the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from enum import IntEnum
from hashlib import blake2b
from typing import Final

import msgspec

from byway.core.actions import CancelTimer, SetTimer, Timer
from byway.core.context import Context
from byway.core.tables import Entry, Table
from byway.model.bounds import NEIGHBOURS_MAX
from byway.model.errors import RemoteProtocolError
from byway.model.messages import (
    DATA,
    Advertise,
    AdvertisementSettled,
    AdvertisementsSynced,
    EntryId,
    NeighbourNames,
    Retire,
    Subscribe,
    SubscriptionsSynced,
    SyncDigest,
    SyncNames,
    SyncRequest,
    Unadvertise,
    Unsubscribe,
    in_parts,
)

BUCKETS: Final = 64
_WORD: Final = 1 << 64
_SETTLED: Final = 0x9E37_79B9_7F4A_7C15  # odd, so that no two digests become one
TIMER: Final = Timer("table-sync")

Announcement = Advertise | Subscribe
Change = Advertise | AdvertisementSettled | Subscribe | Unsubscribe | Retire
Claims = dict[EntryId, tuple[Announcement, bool]]
"""What a neighbour should hold, and whether it is settled there as far as this end knows."""
_encode = msgspec.msgpack.Encoder().encode


class SyncPhase(IntEnum):
    """How far this end is with telling."""

    SILENT = 0
    ASKED = 1
    TELLING = 2
    ADVERTISED = 3
    TOLD = 4


class SyncState(msgspec.Struct):
    """What this end has to tell one neighbour, after their link started anew."""

    phase: SyncPhase = SyncPhase.SILENT
    wanted: Claims = msgspec.field(default_factory=dict)
    """While asked: what the peer should hold in the buckets that differ."""
    repeated: list[Advertise] = msgspec.field(default_factory=list)
    """While asked: what will be taken back more than once, and must be told as often."""
    waiting: list[Change] = msgspec.field(default_factory=list)
    """While asked: changes, in order. While silent: answers."""
    named_adverts: dict[EntryId, bool] = msgspec.field(default_factory=dict)
    named: dict[EntryId, bool] = msgspec.field(default_factory=dict)
    """While asked: what the peer has named so far."""
    doubtful: dict[EntryId, bool] = msgspec.field(default_factory=dict)
    """From telling on: what the peer holds and nobody has claimed, and whether it is settled."""
    doubtful_adverts: tuple[EntryId, ...] = ()
    """Which of these are advertisements."""
    peer_advertised: bool = False
    """Whether the peer has told all its advertisements."""
    settled_adverts: list[EntryId] = msgspec.field(default_factory=list)
    """Held by the peer and settled there, which counts once it has told its subscriptions."""
    invited: bool = False
    """Whether the peer takes data. It is sent only after what it rests on was told: an Unadvertise
    must not come before its Advertise."""
    peer_told: bool = False
    """Whether the peer has told everything."""
    provisional: bool = False
    """Whether what the peer was told is taken back if this broker turns out to be restarting."""
    told_names: bool = False
    """Whether the peer was told the names of this broker's neighbours."""


class Missing(IntEnum):
    """What a neighbour has not told yet."""

    SUBSCRIPTIONS = 1
    ALL = 2


class TableSync:
    """The phases of every link of one broker."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.telling: dict[str, SyncState] = {}
        self.missing: dict[str, Missing] = {}
        """Neighbours that have not told everything since this broker started without state."""
        self.forgetful = True
        """Whether this broker started without state, or with an older one, and is not complete."""
        self.restarting = False
        """Whether it is known that it was here before, so that no timer ends a wait."""
        self.given_up: list[str] = []
        """Neighbours that were not waited for any longer, or that had given up others themselves
        when they told. Until they have told, what this broker tells is provisional."""
        self.met: list[str] = []
        """Neighbours that this broker has compared tables with since it started."""
        self.neighbours_of: dict[str, tuple[str, ...]] = {}
        """By neighbour, the names of its own neighbours, to be given back should it forget."""
        self.answers: deque[tuple[Table, EntryId, str]] = deque()
        """What turned out to be settled behind a link; the tables' rules take it from here."""
        self.progressed = False
        """Whether a neighbour is no longer missing; subscriptions may have waited for it."""
        self.returned: list[str] = []
        """Neighbours that were given up and are missing again: the broker copies for them what
        waits for others."""
        self.sifting: dict[str, int] = {}
        """Neighbours that are no longer missing: what was kept for them in case they want it is
        looked through by the broker, and so many have been; then data is sent."""

    # --- beginnings ----------------------------------------------------------------------------

    def started(self) -> None:
        """The broker begins, and waits for its neighbours."""
        self._wait()

    def _wait(self) -> None:
        """Neighbours are missing: unless it was here before, the broker does not wait for ever."""
        if self.missing and not self.restarting:
            wait_us = self._context.config.sync_wait_us
            self._context.out.do(SetTimer(TIMER, self._context.now_us + wait_us))

    def waited_enough(self) -> None:
        """Who has not come by now is not waited for."""
        if self.restarting:
            return
        missing, self.missing = self.missing, {}
        self.given_up = sorted({*self.given_up, *missing})
        self.sifting |= dict.fromkeys(missing, 0)
        self.progressed = True
        self._complete()

    def came(self, link: str) -> None:
        """A neighbour that was not known of. A broker that is not complete has to be told
        everything by it, too."""
        if self.forgetful:
            is_first = not self.missing
            self.missing[link] = Missing.ALL
            if is_first:
                self._wait()

    def was_here(self) -> None:
        """It shows that this broker was here before, and so restarts without its state: it waits
        for everybody, also for those whom it had given up."""
        if not self.forgetful or self.restarting:
            return
        self.restarting = True
        self._context.out.do(CancelTimer(TIMER))
        self.missing |= dict.fromkeys(self.given_up, Missing.ALL)
        for link in self.given_up:
            self.sifting.pop(link, None)
            self.returned.append(link)
        self.given_up = []
        self.tell_names()
        self._complete()

    def unknown_names(self, link: str, message: SyncDigest) -> list[str]:
        """Neighbours of this broker that it does not know of, by what one that it meets for the
        first time holds from it; nothing is known of them yet but that they have to tell
        everything."""
        if link in self.met:
            return []
        self.met = sorted([*self.met, link])
        if not self.forgetful:
            return []
        if message.advertisements or message.subscriptions or message.neighbours:
            self.was_here()
        if message.restarting:
            self.was_here()
        known = self._context.ends
        return [n for n in sorted(set(message.neighbours)) if n not in known]

    # --- names of neighbours -------------------------------------------------------------------

    def on_neighbour_names(self, link: str, message: NeighbourNames) -> None:
        """A neighbour names its own, and takes data."""
        self.neighbours_of[link] = message.names
        self.telling[link].invited = True
        if message.restarting:
            self.was_here()
        self._open_if_ready(link)

    def tell_names(self) -> None:
        """Tell everybody who has said what it holds that the names have changed."""
        for link, telling in self.telling.items():
            if telling.phase is not SyncPhase.SILENT:
                self.tell_names_to(link)

    def tell_names_to(self, link: str) -> None:
        """Tell one neighbour the names of all."""
        self.telling[link].told_names = True
        names = tuple(self._context.ends)[:NEIGHBOURS_MAX]
        self._context.out.send(link, NeighbourNames(names, self.restarting))

    def resumed(self, link: str) -> None:
        """The ends of a link go on where they were. One that went on from a state of an earlier
        version has not told the names; one that has not heard what the peer holds will."""
        telling = self.telling[link]
        if telling.phase is not SyncPhase.SILENT and not telling.told_names:
            self.tell_names_to(link)

    def knows_adverts_but(self, link: str | None) -> bool:
        """Whether all neighbours, or all but one, have told their advertisements. Before that
        nobody can say where a subscription has to go."""
        return not any(m is Missing.ALL for n, m in self.missing.items() if n != link)

    def _knows_all_but(self, link: str) -> bool:
        return not self.missing or self.missing.keys() == {link}

    def anew(self, link: str) -> None:
        """The ends of a link start anew: say what is held from there, and be silent."""
        context = self._context
        self.telling[link] = SyncState()
        context.adverts.forget_claims(link)
        context.subscriptions.forget_claims(link)
        for entry in context.adverts:
            if entry.origin.link == link:
                entry.announced = 1
        adverts, subscriptions = (
            _digests((e.id, e.settled) for e in table if e.origin.link == link)
            for table in (context.adverts, context.subscriptions)
        )
        names = self.neighbours_of.get(link, ())
        context.out.send(link, SyncDigest(adverts, subscriptions, names, self.restarting))

    def add_link(self, link: str) -> None:
        """There is a neighbour; nothing is told before it has said what it holds."""
        self.telling[link] = SyncState()

    def forget(self, link: str) -> None:
        """A neighbour is none any more."""
        self.telling.pop(link, None)
        self.neighbours_of.pop(link, None)
        self.sifting.pop(link, None)
        for names in (self.given_up, self.met):
            if link in names:
                names.remove(link)
        self._is_here(link)
        self._complete()
        self.tell_names()

    # --- telling -------------------------------------------------------------------------------

    def tell(self, link: str, message: Change) -> None:
        """Tell a neighbour of a change, now or when it is the time. The answer to an advertisement
        must not come before subscriptions that it drew, and waits as they do."""
        telling = self.telling[link]
        if telling.phase is SyncPhase.TOLD:
            self._context.out.send(link, message)
        elif telling.phase >= SyncPhase.TELLING:
            self._tell_unless_held(link, telling, message)
        elif telling.phase is SyncPhase.ASKED or isinstance(message, AdvertisementSettled):
            telling.waiting.append(message)

    def is_silent(self, link: str) -> bool:
        """Whether a neighbour is told nothing yet, and will therefore answer for nothing."""
        return self.telling[link].phase is SyncPhase.SILENT

    def _tell_unless_held(self, link: str, telling: SyncState, message: Change) -> None:
        if isinstance(message, Advertise | Subscribe) and message.id in telling.doubtful:
            if telling.doubtful.pop(message.id):
                self._is_settled(message, link)
        else:
            self._context.out.send(link, message)

    def settled(self, link: str, id: EntryId) -> None:
        """The peer answers for something that this end has not claimed."""
        telling = self.telling[link]
        if id in telling.doubtful:
            telling.doubtful[id] = True

    def _is_settled(self, message: Announcement, link: str) -> None:
        if isinstance(message, Subscribe):
            self.answers.append((self._context.subscriptions, message.id, link))
        elif self.telling[link].peer_told:
            self.answers.append((self._context.adverts, message.id, link))
        else:
            self.telling[link].settled_adverts.append(message.id)

    # --- comparing -----------------------------------------------------------------------------

    def check_held(self, link: str, message: SyncDigest) -> None:
        """Whether the peer may say this now. Raises `RemoteProtocolError`."""
        if self.telling[link].phase is not SyncPhase.SILENT:
            raise RemoteProtocolError(link, "says twice what it holds")
        for digests in (message.advertisements, message.subscriptions):
            if len(digests) not in (0, BUCKETS):
                raise RemoteProtocolError(link, f"sends {len(digests)} digests, not {BUCKETS}")

    def on_held(self, link: str, message: SyncDigest) -> None:
        """The peer says what it holds: ask for names where that is not what it should hold."""
        telling = self.telling[link]
        adverts, subscriptions, telling.repeated = self._should_hold(link)
        asked = (
            _differing(message.advertisements, adverts),
            _differing(message.subscriptions, subscriptions),
        )
        for items, buckets in zip((adverts, subscriptions), asked, strict=True):
            doubted = set(buckets)
            telling.wanted |= {
                i: item for i, item in items.items() if _hash(i) % BUCKETS in doubted
            }
        telling.phase = SyncPhase.ASKED
        self.tell_names_to(link)
        holds_any = message.advertisements or message.subscriptions
        if holds_any and asked != ((), ()):
            self._context.out.send(link, SyncRequest(*asked))
        else:
            self._compared(link, {}, ())

    def _should_hold(self, link: str) -> tuple[Claims, Claims, list[Advertise]]:
        """What a neighbour should hold from here. An advertisement whose end is still on its way
        counts: publications before it are on their way too."""
        context = self._context
        adverts: Claims = {
            e.id: (Advertise(e.id, e.filter), link not in e.awaiting)
            for e in context.adverts.went_to(link)
        }
        repeated = []
        collected = context.out.messages.get(link)  # by earlier inputs of the same batch
        for message in (
            *context.ends[link].sent[DATA].kept,
            *(collected[DATA] if collected else ()),
        ):
            if isinstance(message, Unadvertise):
                announcement = Advertise(message.id, message.filter)
                if message.id in adverts:
                    repeated.append(announcement)
                else:
                    adverts[message.id] = announcement, False
        subscriptions: Claims = {
            e.id: (Subscribe(e.id, e.filter), link not in e.awaiting)
            for table in (context.subscriptions, context.placeholders)
            for e in table.went_to(link)
        }
        return adverts, subscriptions, repeated

    def on_asked(self, link: str, message: SyncRequest) -> None:
        """The peer asks for names."""
        context = self._context
        adverts, subscriptions = (
            [(e.id, e.settled) for e in table.came_from(link) if _hash(e.id) % BUCKETS in buckets]
            for table, buckets in (
                (context.adverts, set(message.advertisements)),
                (context.subscriptions, set(message.subscriptions)),
            )
        )
        *most_adverts, last_adverts = in_parts(adverts)
        for adverts_part in most_adverts:
            context.out.send(link, SyncNames(adverts_part, (), partial=True))
        *most, last = in_parts(subscriptions)
        for part in most:
            context.out.send(link, SyncNames((), part, partial=True))
        context.out.send(link, SyncNames(last_adverts, last))

    def on_names(self, link: str, message: SyncNames) -> None:
        """The peer names what it holds."""
        telling = self.telling[link]
        if telling.phase is not SyncPhase.ASKED:
            raise RemoteProtocolError(link, "names what it holds without being asked")
        telling.named_adverts |= dict(message.advertisements)
        telling.named |= dict(message.subscriptions)
        if not message.partial:
            adverts, named = telling.named_adverts, telling.named
            telling.named_adverts, telling.named = {}, {}
            self._compared(link, adverts | named, tuple(adverts))

    def _compared(self, link: str, held: dict[EntryId, bool], adverts: tuple[EntryId, ...]) -> None:
        """Tell what the peer lacks, and what has changed meanwhile."""
        telling = self.telling[link]
        for id, (announcement, settled) in telling.wanted.items():
            if id not in held:
                self._told_again(announcement, link)
                self._context.out.send(link, announcement)
            elif held.pop(id):
                self._is_settled(announcement, link)
            elif settled:
                self._told_again(announcement, link)
        for announcement in telling.repeated:
            self._context.out.send(link, announcement)
        telling.doubtful = held
        telling.doubtful_adverts = adverts
        telling.phase = SyncPhase.TELLING
        waiting, telling.waiting, telling.wanted, telling.repeated = telling.waiting, [], {}, []
        for change in waiting:
            self._tell_unless_held(link, telling, change)
        self._open_if_ready(link)
        self._complete()

    def _told_again(self, announcement: Announcement, link: str) -> None:
        """An answer is due for it, whatever was answered before."""
        entry = self._entry(announcement)
        if entry is not None and link in entry.forwarded:
            entry.awaiting[link] = max(entry.awaiting.get(link, 0), 1)

    def _entry(self, announcement: Announcement) -> Entry | None:
        if isinstance(announcement, Advertise):
            return self._context.adverts.get(announcement.id)
        return self._context.subscription(announcement.id)

    # --- ends ----------------------------------------------------------------------------------

    def on_advertisements_told(self, link: str, provisional: bool) -> None:
        """The peer has told all its advertisements."""
        if self._is_taken_back(link, provisional):
            return
        self.telling[link].peer_advertised = True
        if self.missing.get(link) is Missing.ALL:
            self.missing[link] = Missing.SUBSCRIPTIONS
            self.progressed = True
        self._complete()

    def on_subscriptions_told(self, link: str, provisional: bool) -> None:
        """The peer has told everything."""
        if self._is_taken_back(link, provisional):
            return
        telling = self.telling[link]
        telling.peer_told = True
        ids, telling.settled_adverts = telling.settled_adverts, []
        self.answers.extend((self._context.adverts, id, link) for id in ids)
        if link in self.given_up and not provisional:
            self.given_up.remove(link)
        self._is_here(link)
        self._complete()

    def _is_taken_back(self, link: str, provisional: bool) -> bool:
        """Whether what the peer tells will be told again, because this broker is restarting, which
        the peer is about to learn. If it is not, it may turn out to be."""
        if provisional and self.forgetful:
            if self.restarting:
                return True
            if link not in self.given_up:
                self.given_up = sorted([*self.given_up, link])
        return False

    def _is_here(self, link: str) -> None:
        """A neighbour has told everything, or is none any more. If nobody is left who has not, and
        was not merely given up, the broker is complete."""
        if link in self.missing:
            del self.missing[link]
            self.progressed = True
            if link in self.telling:
                self.sifting[link] = 0
            if not self.missing:
                self._context.out.do(CancelTimer(TIMER))
        if not self.missing and not self.given_up:
            self.forgetful = self.restarting = False

    def sifted(self, link: str) -> None:
        """All that was kept for a neighbour has been looked through."""
        del self.sifting[link]
        self._open_if_ready(link)

    def _open_if_ready(self, link: str) -> None:
        """Send data to the peer, if it takes data, was told what that rests on, and has told what
        it wants."""
        if link in self.missing or link in self.sifting:
            return
        telling = self.telling[link]
        if telling.invited and telling.phase >= SyncPhase.TELLING:
            self._context.out.opening[link] = None

    def _complete(self) -> None:
        """Conclude with every neighbour that all others have told their part."""
        for link in sorted(self.telling):
            telling = self.telling[link]
            is_provisional = any(name != link for name in self.given_up)
            if telling.provisional and (self.restarting or not is_provisional):
                telling.provisional = False
                telling.phase = min(telling.phase, SyncPhase.TELLING)  # it is told once more
            if telling.phase is SyncPhase.TELLING and self.knows_adverts_but(link):
                telling.phase = SyncPhase.ADVERTISED
                telling.provisional = is_provisional
                ended = [i for i in telling.doubtful_adverts if i in telling.doubtful]
                for id in ended:
                    del telling.doubtful[id]
                self._tell_parts(link, AdvertisementsSynced, sorted(ended))
            if (
                telling.phase is SyncPhase.ADVERTISED
                and (telling.peer_advertised or self.missing.get(link) is not Missing.ALL)
                and self._knows_all_but(link)
            ):
                telling.phase = SyncPhase.TOLD
                telling.provisional = is_provisional
                ended, telling.doubtful = sorted(telling.doubtful), {}
                self._tell_parts(link, SubscriptionsSynced, ended)

    def _tell_parts(
        self,
        link: str,
        kind: type[AdvertisementsSynced | SubscriptionsSynced],
        ended: Sequence[EntryId],
    ) -> None:
        *most, last = in_parts(ended)
        for part in most:
            self._context.out.send(link, kind(part, partial=True))
        provisional = self.telling[link].provisional
        self._context.out.send(link, kind(last, provisional=provisional))


def _hash(id: EntryId) -> int:
    return int.from_bytes(blake2b(_encode(id), digest_size=8).digest(), "big")


def _digests(items: Iterable[tuple[EntryId, bool]]) -> tuple[int, ...]:
    sums = [0] * BUCKETS
    found = False
    for id, settled in items:
        value = _hash(id)
        sums[value % BUCKETS] += value * _SETTLED if settled else value
        found = True
    return tuple(value % _WORD for value in sums) if found else ()


def _differing(held: tuple[int, ...], wanted: Claims) -> tuple[int, ...]:
    ours = _digests((id, settled) for id, (_, settled) in wanted.items())
    ours, theirs = ours or (0,) * BUCKETS, held or (0,) * BUCKETS
    return tuple(i for i in range(BUCKETS) if ours[i] != theirs[i])
