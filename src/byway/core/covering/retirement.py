"""Retirement: placeholders go in small steps, so that what they quenched is no burst.

What only a retiring placeholder quenches on a link is sent, a few entries at a time; when nothing
is left that only it quenches, it is withdrawn there. The next broker decides for itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from byway.core.tables import Entry, PlaceholderKind, Withdrawal
from byway.model.messages import EntryId

if TYPE_CHECKING:
    from byway.core.covering.active import Active

EXAMINED_MAX: Final = 256
"""Entries covered by placeholders that are examined in one step."""
VISIT_COST: Final = 8
"""What it costs to visit a placeholder without finishing it, in examined entries."""


class Cursor(msgspec.Struct, array_like=True):
    """How far the retirement of one placeholder is on a link."""

    key: int = -1
    """The key of the last covered entry that was examined."""
    again: set[int] = msgspec.field(default_factory=set)
    """Keys up to there of entries that have to be examined again, or came later."""


class Budget(msgspec.Struct):
    """What may still be done in one step."""

    forwards: int
    """Subscriptions that may be sent."""
    examined: int = EXAMINED_MAX
    """Entries that may be examined."""

    def __bool__(self) -> bool:
        """Whether anything may still be done."""
        return self.forwards > 0 and self.examined > 0

    def half(self) -> Budget:
        """A budget of half of it, rounded up."""
        return Budget((self.forwards + 1) // 2, (self.examined + 1) // 2)

    def whole(self) -> Budget:
        """A budget of the same size."""
        return Budget(self.forwards, self.examined)

    def spend(self, given: Budget, left: Budget) -> None:
        """Take off what was used of a share: the difference of what was `given` and is `left`."""
        self.forwards -= given.forwards - left.forwards
        self.examined -= given.examined - left.examined


class RetirementState(msgspec.Struct, array_like=True):
    """What of a `Retirement` survives a restart."""

    cursors: list[tuple[EntryId, str, Cursor]]
    left: int
    filled_us: int


class Retirement:
    """Takes back the retiring placeholders of one broker."""

    def __init__(self, policy: Active) -> None:
        self._policy = policy
        self._cursors: dict[tuple[EntryId, str], Cursor] = {}
        self.left = 0
        """Subscriptions that may still be sent in this interval."""
        self._filled_us = -policy.config.retire_interval_us

    def allowance(self, now_us: int) -> int:
        """How many subscriptions may be sent now in the place of placeholders."""
        config = self._policy.config
        if now_us - self._filled_us >= config.retire_interval_us:
            self.left, self._filled_us = config.retire_batch, now_us
        return self.left

    def allows(self, burst: int, now_us: int) -> bool:
        """Whether `burst` subscriptions may be sent now; if so, the allowance is less by these."""
        if burst > self.allowance(now_us):
            return False
        self.left -= burst
        return True

    def disturb(self, link: str, placeholder: Entry, entry: Entry) -> None:
        """Have an entry examined again that a placeholder quenches on a link from now on."""
        cursor = self._cursors.get((placeholder.id, link))
        if cursor is not None and entry.key <= cursor.key:
            cursor.again.add(entry.key)

    def on_started(self, now_us: int) -> None:
        """The broker starts, or restarts. Its clock may be behind the one that the kept times are
        of, so times in the future count as now."""
        self._filled_us = min(self._filled_us, now_us)
        for entry in self._policy.ops.placeholders():
            placeholder = entry.placeholder
            if placeholder is not None and placeholder.since_us > now_us:
                restated = msgspec.structs.replace(placeholder, since_us=now_us)
                self._policy.ops.restate(entry, restated)

    def step(self, budget: Budget) -> None:
        """Retire as much as the budget allows. No placeholder has more than half of it, as long as
        others wait, and each comes first in its turn."""
        ops, config = self._policy.ops, self._policy.config
        retiring = [e for e in ops.placeholders() if e.placeholder and e.placeholder.is_retiring]
        there = {(entry.id, link) for entry in retiring for link in entry.forwarded}
        self._cursors = {key: cursor for key, cursor in self._cursors.items() if key in there}
        going = {id(entry) for entry in retiring}
        ready = self._ready(retiring)
        turn = ops.now_us // max(config.retire_interval_us, 1) % max(len(ready), 1)
        waiting = [
            (entry, link)
            for entry in (*ready[turn:], *ready[:turn])
            for link in sorted(entry.forwarded - entry.awaiting.keys())
        ]
        for share in (Budget.half, Budget.whole):
            waiting = [
                (entry, link)
                for entry, link in waiting
                if not budget or not self._visit(entry, link, budget, share(budget), going)
            ]

    def _ready(self, retiring: list[Entry]) -> list[Entry]:
        """Merged ones, and those that have been preserved long enough."""
        before_us = self._policy.ops.now_us - self._policy.config.retire_after_us
        return [
            e
            for e in retiring
            if e.placeholder
            and (
                e.placeholder.kind is PlaceholderKind.MERGED or e.placeholder.since_us <= before_us
            )
        ]

    def _visit(
        self, entry: Entry, link: str, budget: Budget, share: Budget, going: set[int]
    ) -> bool:
        """Spend a share of the budget on a placeholder. Whether it is withdrawn from the link."""
        given = share.whole()
        self._retire(entry, link, share, going)
        budget.spend(given, share)
        if link not in entry.forwarded:
            return True
        budget.examined -= VISIT_COST
        return False

    def _retire(self, entry: Entry, link: str, budget: Budget, going: set[int]) -> None:
        """Send what only this one quenches there, or others that go too, as far as the budget
        allows; if that is all, withdraw it. What was examined once needs no placeholder any more,
        until `disturb` tells otherwise."""
        ops = self._policy.ops
        cursor = self._cursors.setdefault((entry.id, link), Cursor())
        covered = ops.covered_by(entry.filter, entry.origin)
        waiting = {id(e): e for e in covered if link not in e.forwarded and link != e.origin.link}
        for other in covered:
            if id(other) not in waiting or (
                other.key <= cursor.key and other.key not in cursor.again
            ):
                continue
            if not budget:
                return
            budget.examined -= 1
            cursor.again.discard(other.key)
            cursor.key = max(cursor.key, other.key)
            if ops.concerns(other, link):
                self._forward_alone(other, going, link, waiting, budget)
                if link not in entry.forwarded:  # what was sent took its place
                    return
        del self._cursors[entry.id, link]
        self._policy.withdraw([entry], link, {entry.id: Withdrawal(retired=True)})

    def _forward_alone(
        self, other: Entry, going: set[int], link: str, waiting: dict[int, Entry], budget: Budget
    ) -> None:
        """Forward one of the broadest that only placeholders quench, if it covers `other`."""
        policy = self._policy
        release = policy.released([policy.broadest(other, waiting)], link, going)
        policy.carry_out(release, link)
        for entry in release.forwarded:
            for narrow in policy.ops.covered_by(entry.filter, entry.origin):
                waiting.pop(id(narrow), None)
        policy.ops.count_triggered(len(release.forwarded))
        budget.forwards -= len(release.forwarded)

    def copy_from(self, other: Retirement, without: frozenset[str]) -> None:
        """Go on where another one is, on all links but those `without`."""
        self._cursors = {
            (id, link): Cursor(cursor.key, set(cursor.again))
            for (id, link), cursor in other._cursors.items()
            if link not in without
        }
        self.left, self._filled_us = other.left, other._filled_us

    def snapshot(self) -> RetirementState:
        """The cursors and the allowance."""
        cursors = [(id, link, cursor) for (id, link), cursor in self._cursors.items()]
        return RetirementState(cursors, self.left, self._filled_us)

    def restore(self, state: RetirementState) -> None:
        """Go on from what `snapshot` returned before a restart."""
        self._cursors = {(id, link): cursor for id, link, cursor in state.cursors}
        self.left, self._filled_us = state.left, state.filled_us
