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
- *told*: all others have told their subscriptions, and the peer its advertisements, so the peer
  knows all subscriptions that concern it. It may send data.

Two steps, because subscriptions go where advertisements came from: a broker without state cannot
know that it has been told all subscriptions before the sender has seen all advertisements. (With
one step a publication passed a broker before the subscription that wanted it, in one of a thousand
runs with two neighbours down.)

A broker that starts without state waits for all its neighbours, but not for ever. One that has its
tables is complete at once, and a neighbour's restart takes nothing from them.
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
from byway.model.errors import RemoteProtocolError
from byway.model.messages import (
    DATA,
    Advertise,
    AdvertisementSettled,
    AdvertisementsTold,
    EntryId,
    NamesAsked,
    NamesHeld,
    Retire,
    Subscribe,
    SubscriptionsTold,
    TablesHeld,
    Unadvertise,
    Unsubscribe,
    in_parts,
)

BUCKETS: Final = 64
_WORD: Final = 1 << 64
_SETTLED: Final = 0x9E37_79B9_7F4A_7C15  # odd, so that no two digests become one
TIMER: Final = Timer("agreement")
STRANGERS_TIMER: Final = Timer("agreement", "strangers")
STRANGERS: Final = ""
"""Stands among the missing for neighbours that may come without being listed."""

Announcement = Advertise | Subscribe
Change = Advertise | AdvertisementSettled | Subscribe | Unsubscribe | Retire
Claims = dict[EntryId, tuple[Announcement, bool]]
"""What a neighbour should hold, and whether it is settled there as far as this end knows."""
_encode = msgspec.msgpack.Encoder().encode


class Phase(IntEnum):
    """How far this end is with telling."""

    SILENT = 0
    ASKED = 1
    TELLING = 2
    ADVERTISED = 3
    TOLD = 4


class Telling(msgspec.Struct):
    """What this end has to tell one neighbour, after their link started anew."""

    phase: Phase = Phase.SILENT
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


class Missing(IntEnum):
    """What a neighbour has not told yet."""

    SUBSCRIPTIONS = 1
    ALL = 2


class Agreement:
    """The phases of every link of one broker."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.telling: dict[str, Telling] = {}
        self.missing: dict[str, Missing] = {}
        """Neighbours that have not told their tables since this broker started without state."""
        self.answers: deque[tuple[Table, EntryId, str]] = deque()
        """What turned out to be settled behind a link; the tables' rules take it from here."""
        self.progressed = False
        """Whether a neighbour is no longer missing; subscriptions may have waited for it."""

    # --- beginnings ----------------------------------------------------------------------------

    def started(self) -> None:
        """The broker begins; it waits for its neighbours, but not for ever."""
        config, now_us = self._context.config, self._context.now_us
        if self.missing:
            self._context.out.do(SetTimer(TIMER, now_us + config.agreement_wait_us))
        if STRANGERS in self.missing:
            self._context.out.do(SetTimer(STRANGERS_TIMER, now_us + config.strangers_wait_us))

    def waited_enough(self, detail: str) -> None:
        """Who has not come by now is not waited for."""
        if detail == STRANGERS_TIMER.detail:
            self._is_here(STRANGERS)
        else:
            self.missing.clear()
            self.progressed = True
        self._complete()

    def came(self, link: str) -> None:
        """A neighbour that was not listed: while such are waited for, it has to tell its tables."""
        if STRANGERS in self.missing:
            self.missing[link] = Missing.ALL

    def knows_adverts_but(self, link: str | None) -> bool:
        """Whether all neighbours, or all but one, have told their advertisements. Before that
        nobody can say where a subscription has to go."""
        return not any(m is Missing.ALL for n, m in self.missing.items() if n != link)

    def _knows_all_but(self, link: str) -> bool:
        return not self.missing or self.missing.keys() == {link}

    def anew(self, link: str) -> None:
        """The ends of a link start anew: say what is held from there, and be silent."""
        context = self._context
        self.telling[link] = Telling()
        context.adverts.forget_claims(link)
        context.subscriptions.forget_claims(link)
        for entry in context.adverts:
            if entry.origin.link == link:
                entry.announced = 1
        held = [
            _digests((e.id, e.settled) for e in table if e.origin.link == link)
            for table in (context.adverts, context.subscriptions)
        ]
        context.out.send(link, TablesHeld(*held))

    def add_link(self, link: str) -> None:
        """There is a neighbour; nothing is told before it has said what it holds."""
        self.telling[link] = Telling()

    def forget(self, link: str) -> None:
        """A neighbour is none any more."""
        self.telling.pop(link, None)
        self._is_here(link)
        self._complete()

    # --- telling -------------------------------------------------------------------------------

    def tell(self, link: str, message: Change) -> None:
        """Tell a neighbour of a change, now or when it is the time. The answer to an advertisement
        must not come before subscriptions that it drew, and waits as they do."""
        telling = self.telling[link]
        if telling.phase is Phase.TOLD:
            self._context.out.send(link, message)
        elif telling.phase >= Phase.TELLING:
            self._tell_unless_held(link, telling, message)
        elif telling.phase is Phase.ASKED or isinstance(message, AdvertisementSettled):
            telling.waiting.append(message)

    def is_silent(self, link: str) -> bool:
        """Whether a neighbour is told nothing yet, and will therefore answer for nothing."""
        return self.telling[link].phase is Phase.SILENT

    def _tell_unless_held(self, link: str, telling: Telling, message: Change) -> None:
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
        elif self.telling[link].invited:
            self.answers.append((self._context.adverts, message.id, link))
        else:
            self.telling[link].settled_adverts.append(message.id)

    # --- comparing -----------------------------------------------------------------------------

    def on_held(self, link: str, message: TablesHeld) -> None:
        """The peer says what it holds: ask for names where that is not what it should hold."""
        telling = self.telling[link]
        if telling.phase is not Phase.SILENT:
            raise RemoteProtocolError(link, "says twice what it holds")
        for digests in (message.advertisements, message.subscriptions):
            if len(digests) not in (0, BUCKETS):
                raise RemoteProtocolError(link, f"sends {len(digests)} digests, not {BUCKETS}")
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
        telling.phase = Phase.ASKED
        holds_any = message.advertisements or message.subscriptions
        if holds_any and asked != ((), ()):
            self._context.out.send(link, NamesAsked(*asked))
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
            for table in (context.subscriptions, context.preserved)
            for e in table.went_to(link)
        }
        return adverts, subscriptions, repeated

    def on_asked(self, link: str, message: NamesAsked) -> None:
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
            context.out.send(link, NamesHeld(adverts_part, (), partial=True))
        *most, last = in_parts(subscriptions)
        for part in most:
            context.out.send(link, NamesHeld((), part, partial=True))
        context.out.send(link, NamesHeld(last_adverts, last))

    def on_names(self, link: str, message: NamesHeld) -> None:
        """The peer names what it holds."""
        telling = self.telling[link]
        if telling.phase is not Phase.ASKED:
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
        telling.phase = Phase.TELLING
        waiting, telling.waiting, telling.wanted, telling.repeated = telling.waiting, [], {}, []
        for change in waiting:
            self._tell_unless_held(link, telling, change)
        self._open_if_ready(link, telling)
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

    def on_advertisements_told(self, link: str) -> None:
        """The peer has told all its advertisements."""
        self.telling[link].peer_advertised = True
        if self.missing.get(link) is Missing.ALL:
            self.missing[link] = Missing.SUBSCRIPTIONS
            self.progressed = True
        self._complete()

    def on_subscriptions_told(self, link: str) -> None:
        """The peer has told everything, and takes data."""
        self._is_here(link)
        telling = self.telling[link]
        telling.invited = True
        ids, telling.settled_adverts = telling.settled_adverts, []
        self.answers.extend((self._context.adverts, id, link) for id in ids)
        self._open_if_ready(link, telling)
        self._complete()

    def _is_here(self, link: str) -> None:
        if link in self.missing:
            del self.missing[link]
            self.progressed = True
            if not self.missing:
                self._context.out.do(CancelTimer(TIMER))

    def _open_if_ready(self, link: str, telling: Telling) -> None:
        if telling.invited and telling.phase >= Phase.TELLING:
            self._context.out.opening[link] = None

    def _complete(self) -> None:
        """Conclude with every neighbour that all others have told their part."""
        for link in sorted(self.telling):
            telling = self.telling[link]
            if telling.phase is Phase.TELLING and self.knows_adverts_but(link):
                telling.phase = Phase.ADVERTISED
                ended = [i for i in telling.doubtful_adverts if i in telling.doubtful]
                for id in ended:
                    del telling.doubtful[id]
                self._tell_parts(link, AdvertisementsTold, sorted(ended))
            if (
                telling.phase is Phase.ADVERTISED
                and telling.peer_advertised
                and self._knows_all_but(link)
            ):
                telling.phase = Phase.TOLD
                ended, telling.doubtful = sorted(telling.doubtful), {}
                self._tell_parts(link, SubscriptionsTold, ended)

    def _tell_parts(
        self,
        link: str,
        kind: type[AdvertisementsTold | SubscriptionsTold],
        ended: Sequence[EntryId],
    ) -> None:
        *most, last = in_parts(ended)
        for part in most:
            self._context.out.send(link, kind(part, partial=True))
        self._context.out.send(link, kind(last))


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
