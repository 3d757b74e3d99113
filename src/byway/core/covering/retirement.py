"""Retirement: stand-ins go in small steps, so that what they stood for is no burst.

A stand-in is an entry that is forwarded though nobody wants it any more as it is: a preserved
subscription, or a merger. What only it quenches on a link is sent, a few entries at a time; when
nothing is left that only it quenches, it is taken back there. The next broker decides for itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from byway.core.tables import Entry, Withdrawal
from byway.model.messages import EntryId

if TYPE_CHECKING:
    from byway.core.covering.active import Active

EXAMINED_MAX: Final = 256
"""Entries behind stand-ins that are looked at in one step."""
VISIT_COST: Final = 8
"""What it takes to come to a stand-in and not to the end of what is behind it, in entries."""


class Cursor(msgspec.Struct, array_like=True):
    """How far the retirement of one is on a link."""

    key: int = -1
    """The last entry behind it that was looked at."""
    again: set[int] = msgspec.field(default_factory=set)
    """Those up to there that have to be looked at again, or were not there."""


class Budget(msgspec.Struct):
    """What may still be done in one step."""

    forwards: int
    examined: int = EXAMINED_MAX

    def __bool__(self) -> bool:
        return self.forwards > 0 and self.examined > 0

    def half(self) -> Budget:
        """Half of it, and never nothing."""
        return Budget((self.forwards + 1) // 2, (self.examined + 1) // 2)

    def spend(self, given: Budget, left: Budget) -> None:
        """Of what was `given` away, so much came back."""
        self.forwards -= given.forwards - left.forwards
        self.examined -= given.examined - left.examined


class RetirementState(msgspec.Struct, array_like=True):
    """What survives a restart."""

    places: list[tuple[EntryId, str, Cursor]]
    left: int
    filled_us: int


class Retirement:
    """The stand-ins of one broker that are to go."""

    def __init__(self, policy: Active) -> None:
        self._policy = policy
        self._places: dict[tuple[EntryId, str], Cursor] = {}
        self.left = 0
        """Of what may be sent in one interval."""
        self._filled_us = -policy.config.retire_interval_us

    def allowance(self, now_us: int) -> int:
        """How many may be sent now in the place of stand-ins."""
        config = self._policy.config
        if now_us - self._filled_us >= config.retire_interval_us:
            self.left, self._filled_us = config.retire_batch, now_us
        return self.left

    def allows(self, burst: int, now_us: int) -> bool:
        """Whether so many may be sent now; if so, they are."""
        if burst > self.allowance(now_us):
            return False
        self.left -= burst
        return True

    def disturb(self, link: str, standing: Entry, entry: Entry) -> None:
        """A stand-in quenches one more on a link."""
        place = self._places.get((standing.id, link))
        if place is not None and entry.key <= place.key:
            place.again.add(entry.key)

    def started(self, now_us: int) -> None:
        """The broker begins, or goes on; the clock may be behind what it was before."""
        self._filled_us = min(self._filled_us, now_us)
        for entry in self._policy.moves.preserved():
            if entry.ending is not None and entry.ending.since_us > now_us:
                entry.ending = msgspec.structs.replace(entry.ending, since_us=now_us)

    def step(self, room: Budget) -> None:
        """Retire as much as there is room for. None has more than half of it, as long as others
        wait, and each comes first in its turn."""
        moves, config = self._policy.moves, self._policy.config
        standing = [e for e in moves.preserved() if e.ending is not None and e.ending.retired]
        there = {(entry.id, link) for entry in standing for link in entry.forwarded}
        self._places = {key: place for key, place in self._places.items() if key in there}
        going = {id(entry) for entry in standing}
        before_us = moves.now_us - config.retire_after_us
        ready = [
            e for e in standing if e.ending and (e.ending.merged or e.ending.since_us <= before_us)
        ]
        turn = moves.now_us // max(config.retire_interval_us, 1) % max(len(ready), 1)
        waiting = [
            (entry, link)
            for entry in (*ready[turn:], *ready[:turn])
            for link in sorted(entry.forwarded - entry.awaiting.keys())
        ]
        for share in (Budget.half, _whole):
            waiting = [
                (entry, link)
                for entry, link in waiting
                if not room or not self._visit(entry, link, room, share(room), going)
            ]

    def _visit(self, entry: Entry, link: str, room: Budget, share: Budget, going: set[int]) -> bool:
        """Whether it is gone from there."""
        given = Budget(share.forwards, share.examined)
        self._retire(entry, link, share, going)
        room.spend(given, share)
        if link not in entry.forwarded:
            return True
        room.examined -= VISIT_COST
        return False

    def _retire(self, entry: Entry, link: str, room: Budget, going: set[int]) -> None:
        """Send what only this one quenches there, or others that go too, as far as there is room;
        if that is all, it goes. What was looked at once needs no stand-in any more, until `disturb`
        tells otherwise."""
        moves = self._policy.moves
        place = self._places.setdefault((entry.id, link), Cursor())
        behind = moves.covered_by(entry.filter)
        waiting = {id(e): e for e in behind if link not in e.forwarded and link != e.origin.link}
        for other in behind:
            if id(other) not in waiting or (
                other.key <= place.key and other.key not in place.again
            ):
                continue
            if not room:
                return
            room.examined -= 1
            place.again.discard(other.key)
            place.key = max(place.key, other.key)
            if moves.concerns(other, link):
                self._forward_alone(other, going, link, waiting, room)
                if link not in entry.forwarded:  # what was sent took its place
                    return
        del self._places[entry.id, link]
        self._policy.withdraw([entry], link, {entry.id: Withdrawal(retired=True)})

    def _forward_alone(
        self, other: Entry, going: set[int], link: str, waiting: dict[int, Entry], room: Budget
    ) -> None:
        """Forward one of the broadest that only stand-ins stand for, if `other` is behind such a
        one."""
        policy = self._policy
        release = policy.released([policy.broadest(other, waiting)], link, going)
        policy.carry_out(release, link)
        for entry in release.forwarded:
            for narrow in policy.moves.covered_by(entry.filter):
                waiting.pop(id(narrow), None)
        policy.moves.triggered(len(release.forwarded))
        room.forwards -= len(release.forwarded)

    def snapshot(self) -> RetirementState:
        """How far it is."""
        places = [(id, link, place) for (id, link), place in self._places.items()]
        return RetirementState(places, self.left, self._filled_us)

    def restore(self, state: RetirementState) -> None:
        """Go on."""
        self._places = {(id, link): place for id, link, place in state.places}
        self.left, self._filled_us = state.left, state.filled_us


def _whole(room: Budget) -> Budget:
    return Budget(room.forwards, room.examined)
