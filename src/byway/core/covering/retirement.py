"""Retirement: stand-ins go in small steps, so that what they stood for is no burst.

A stand-in is an entry that is forwarded though nobody wants it any more as it is: a preserved
subscription, or a merger. What only it quenches on a link is sent, a few entries at a time; when
nothing is left that only it quenches, it is taken back there. The next broker decides for itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from byway.core.tables import Ending, Entry
from byway.model.messages import EntryId

if TYPE_CHECKING:
    from byway.core.covering.active import Active

EXAMINED_MAX: Final = 256
"""Entries behind stand-ins that are looked at in one step."""


class Place(msgspec.Struct, array_like=True):
    """How far the retirement of one is on a link."""

    key: int = -1
    """The last entry behind it that was looked at."""
    clean: bool = True
    """Whether nothing was found since the round began."""


class Room(msgspec.Struct):
    """What may still be done in one step."""

    forwards: int
    examined: int = EXAMINED_MAX

    def __bool__(self) -> bool:
        return self.forwards > 0 and self.examined > 0


class RetirementState(msgspec.Struct, array_like=True):
    """What survives a restart."""

    places: list[tuple[EntryId, str, Place]]
    left: int
    filled_us: int


class Retirement:
    """The stand-ins of one broker that are to go."""

    def __init__(self, policy: Active) -> None:
        self._policy = policy
        self._places: dict[tuple[EntryId, str], Place] = {}
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

    def disturb(self, link: str, standing: Entry | None = None) -> None:
        """A stand-in, or any on a link, may quench more alone than it did: what was found of it so
        far does not hold."""
        for (id, place_link), place in self._places.items():
            if place_link == link and (standing is None or standing.id == id):
                place.clean = False

    def step(self, room: Room) -> None:
        """Retire as much as there is room for, the oldest first."""
        standing = self._policy.moves.preserved()
        if not standing:
            self._places.clear()
        before_us = self._policy.moves.now_us - self._policy.config.retire_after_us
        for entry in standing:
            ending = entry.ending
            if ending is None or not ending.retired:
                continue
            if ending.merged or ending.since_us <= before_us:
                for link in sorted(entry.forwarded - entry.awaiting.keys()):
                    if room:
                        self._retire(entry, link, room)

    def _retire(self, entry: Entry, link: str, room: Room) -> None:
        """Send what only this one quenches there, as far as there is room; if that is all, it
        goes. It is all when nothing was found in a whole round."""
        moves = self._policy.moves
        place = self._places.setdefault((entry.id, link), Place())
        behind = moves.covered_by(entry.filter)
        waiting = {id(e): e for e in behind if link not in e.forwarded and link != e.origin.link}
        found = 0
        for other in behind:
            if other.key <= place.key or id(other) not in waiting:
                continue
            if not room:
                place.clean = place.clean and not found
                return
            room.examined -= 1
            place.key = other.key
            if moves.concerns(other, link):
                found += self._forward_alone(other, entry, link, waiting, room)
                if link not in entry.forwarded:  # what was sent took its place
                    break
        del self._places[entry.id, link]
        if place.clean and not found:
            self._policy.withdraw([entry], link, {entry.id: Ending(retired=True)})

    def _forward_alone(
        self, other: Entry, standing: Entry, link: str, waiting: dict[int, Entry], room: Room
    ) -> int:
        """Forward one of the broadest that only the stand-in stands for, if `other` is behind such
        a one; how many that were."""
        policy = self._policy
        release = policy.released([policy.broadest(other, waiting)], link, going={id(standing)})
        policy.carry_out(release, link)
        for entry in release.forwarded:
            for narrow in policy.moves.covered_by(entry.filter):
                waiting.pop(id(narrow), None)
        policy.moves.triggered(len(release.forwarded))
        room.forwards -= len(release.forwarded)
        return len(release.forwarded)

    def snapshot(self) -> RetirementState:
        """How far it is."""
        places = [(id, link, place) for (id, link), place in self._places.items()]
        return RetirementState(places, self.left, self._filled_us)

    def restore(self, state: RetirementState) -> None:
        """Go on."""
        self._places = {(id, link): place for id, link, place in state.places}
        self.left, self._filled_us = state.left, state.filled_us
