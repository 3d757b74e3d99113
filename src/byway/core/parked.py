"""Parked messages: what waits for a neighbour that is dead, or for a way round it.

A branch whose neighbour is dead is *bypassed*: publications go round it, over links to brokers
behind. What no link leads to is parked here, in order, by publisher. It does not keep later
publications of its publisher from going round, and nobody upstream is told that it is confirmed:
so the window of the publisher bounds it, and its bytes count for the bound of the branch as what is
held does. When a link comes, it goes back into the queue of its branch (`branch_queues`).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from operator import attrgetter

from byway.core.held import Held, Key
from byway.model.messages import Publish

_place = attrgetter("place")


class Parked:
    """What one broker has parked."""

    def __init__(self) -> None:
        self.queues: dict[Key, list[Held]] = {}
        """By publisher and branch, in the order of their places."""
        self.counts: dict[str, int] = {}
        """By branch, how many messages are parked there, where there are any."""
        self.bytes: dict[str, int] = {}
        """By branch, what they take, as the bounds count it."""

    def __len__(self) -> int:
        """Number of messages that are parked."""
        return sum(self.counts.values())

    def __repr__(self) -> str:
        return f"<Parked: {len(self)} of {len(self.queues)} publishers and branches>"

    def add(self, key: Key, held: Held) -> None:
        """Park a message; what it is a copy of waits for it already."""
        insort(self.queues.setdefault(key, []), held, key=_place)
        branch = key[2]
        self.counts[branch] = self.counts.get(branch, 0) + 1
        self.bytes[branch] = self.bytes.get(branch, 0) + held.source.bytes

    def take(self, key: Key) -> list[Held]:
        """Remove and return all messages of a publisher in a branch, in order."""
        taken, branch = self.queues.pop(key, []), key[2]
        if taken:
            self.counts[branch] -= len(taken)
            self.bytes[branch] -= sum(held.source.bytes for held in taken)
            if not self.counts[branch]:
                del self.counts[branch], self.bytes[branch]
        return taken

    def keys_in(self, branch: str) -> list[Key]:
        """The keys of what is parked in a branch."""
        return [key for key in self.queues if key[2] == branch] if branch in self.counts else []

    def in_branch(self, branch: str) -> Iterator[Held]:
        """What is parked in a branch, publisher by publisher."""
        for key in self.keys_in(branch):
            yield from self.queues[key]

    def find(self, key: Key, sequence: int) -> Held | None:
        """The publication with this sequence, if it is parked."""
        queue = self.queues.get(key, [])
        place = bisect_left(queue, (sequence, False), key=_place)
        if place == len(queue) or queue[place].sequence != sequence:
            return None
        return queue[place] if isinstance(queue[place].message, Publish) else None
