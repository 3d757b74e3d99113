"""Change-overs: when a publisher that takes a detour is kept back, so that it can leave it.

As long as a publisher has something unconfirmed on a link, links comparable to it are not used for
it, and what follows takes a *detour* over the same one (`mesh_planner`). A publisher that always
has something unconfirmed there would never leave it: a mesh would not relieve a network that was
congested before its soft links were open. So now and then publications of such a publisher are held
instead, until the detour has confirmed all of them, and then take the links of their plan. To hold
is always allowed, so this cannot reorder or lose anything; it costs a pause.

A pause may be in vain: where a receiver is slow, and not the way to it, the links of the plan are
no faster, and meanwhile other receivers wait. A broker cannot tell beforehand. So a change-over
*fails* when nothing of the publisher has been confirmed there for a while (`STALLED`), as where
another broker waits for a dead one; when it is seen that it would take longer than `PAUSE_MAX`; and
then in any case. Each that fails doubles the time to the next; and so does a long one that succeeds
though it is not much shorter than the last, since that one has not helped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from byway.core.held import Key

# all times in times of `mesh.detour_max`, after which a publisher is kept back for the first time
STALLED: Final = 16
"""A change-over fails if nothing has been confirmed for so long."""
PAUSE_MAX: Final = 64
"""A change-over fails after this in any case; and after `STALLED` already, if it would take longer
at the pace at which publications have been confirmed."""
SHORT: Final = 1
"""A change-over that takes no longer counts as one that has helped."""
REST: Final = 32
"""The shortest time from the end of a change-over to the next one."""
REST_OF_PAUSE: Final = 2
"""The rest is at least this many times as long as the change-over took."""
DOUBLINGS: Final = 6
"""How often those that were in vain double it."""
FORGOTTEN: Final = 120
"""A publisher that could have been kept back for so long, and was not, is forgotten."""
CHANGE_OVERS_MAX: Final = 65_536
"""Publishers and branches that are remembered; others stay on their detour."""


class ChangeOver(msgspec.Struct):
    """What is known of one publisher in one branch, where it took a detour."""

    publisher: str
    incarnation: int
    branch: str
    next_us: int
    """When it is kept back, if it still takes a detour."""
    in_vain: int = 0
    """How many change-overs, one after another, failed or have not helped."""
    took_us: int = 0
    """How long the last one that succeeded took; 0 if there was none."""
    since_us: int | None = None
    """Since when it is kept back."""
    moved_us: int = 0
    """When something of it was confirmed last, while it is kept back."""
    first: int = 0
    """How many of its publications were unconfirmed there when that began."""
    left: int = 0
    """How many of these still were when it was looked at last."""

    @property
    def key(self) -> Key:
        """The publisher and the branch."""
        return self.publisher, self.incarnation, self.branch


class ChangeOvers:
    """Decides for one broker."""

    def __init__(self, detour_us_max: int, state: Iterable[ChangeOver] = ()) -> None:
        """`detour_us_max`: how long publishers take detours at first; 0: nobody is kept back."""
        self._unit_us = detour_us_max
        self._of = {one.key: one for one in state}
        self.kept_back = {one.key: one for one in self._of.values() if one.since_us is not None}
        """Those that are kept back, by publisher and branch."""
        self.begun = self.failed = 0
        """How many change-overs began, and how many failed, since the broker started."""

    def __repr__(self) -> str:
        return f"<ChangeOvers: {len(self.kept_back)} of {len(self._of)} kept back>"

    @property
    def state(self) -> list[ChangeOver]:
        """All that is remembered."""
        return list(self._of.values())

    def keeps_back(self, key: Key, now_us: int, left: int, *, may_begin: bool = True) -> bool:
        """Whether a publication that could take a detour is held. `left`: how many of its
        publisher are unconfirmed in the branch; while it is kept back, none are added.
        `may_begin`: whether there is room for what would be held."""
        if not self._unit_us:
            return False
        one = self._of.get(key)
        if one is None:
            if self._has_room(now_us):
                self._of[key] = ChangeOver(*key, now_us + self._unit_us)
            return False
        if one.since_us is None:
            if now_us < one.next_us or not may_begin:
                return False
            one.since_us = one.moved_us = now_us
            one.first = one.left = left
            self.kept_back[key] = one
            self.begun += 1
            return True
        if left < one.left:
            one.left, one.moved_us = left, now_us
        if not may_begin or self._has_failed(one, now_us):
            self._end(one, now_us, succeeded=False)
            return False
        return True

    def on_free(self, key: Key, now_us: int) -> None:
        """A publication takes the links of its plan: if its publisher was kept back, it has changed
        over."""
        one = self.kept_back.get(key)
        if one is not None:
            self._end(one, now_us, succeeded=True)

    def next_us(self, now_us: int) -> int | None:
        """When to look again whether change-overs have failed, if nothing is confirmed; None:
        nobody is kept back. All of them are looked at, so that is not done too often."""
        fails_us = min(map(self._fails_us, self.kept_back.values()), default=None)
        return None if fails_us is None else max(fails_us, now_us + self._unit_us)

    def end_failed(self, now_us: int) -> list[Key]:
        """End change-overs that have failed; of whom."""
        failed = [one for one in self.kept_back.values() if self._has_failed(one, now_us)]
        for one in failed:
            self._end(one, now_us, succeeded=False)
        return [one.key for one in failed]

    def forget(self, now_us: int) -> None:
        """Forget publishers that take no detours any more."""
        self._of = {key: one for key, one in self._of.items() if not self._is_gone(one, now_us)}

    def _has_room(self, now_us: int) -> bool:
        """Whether one more may be remembered; another one makes room if it is gone."""
        if len(self._of) < CHANGE_OVERS_MAX:
            return True
        key, oldest = next(iter(self._of.items()))
        del self._of[key]
        if self._is_gone(oldest, now_us):
            return True
        self._of[key] = oldest  # the next one has its turn next time
        return False

    def _is_gone(self, one: ChangeOver, now_us: int) -> bool:
        return one.since_us is None and now_us >= one.next_us + FORGOTTEN * self._unit_us

    def _fails_us(self, one: ChangeOver) -> int:
        """When it is kept back no longer, if nothing more is confirmed."""
        assert one.since_us is not None, "it is not kept back"
        unit_us = self._unit_us
        return min(one.moved_us + STALLED * unit_us, one.since_us + PAUSE_MAX * unit_us)

    def _has_failed(self, one: ChangeOver, now_us: int) -> bool:
        if now_us >= self._fails_us(one):
            return True
        assert one.since_us is not None, "it is not kept back"
        took_us, confirmed = now_us - one.since_us, one.first - one.left
        is_clear = took_us >= STALLED * self._unit_us
        return is_clear and took_us * one.first > PAUSE_MAX * self._unit_us * confirmed

    def _end(self, one: ChangeOver, now_us: int, *, succeeded: bool) -> None:
        assert one.since_us is not None, "it is not kept back"
        took_us = now_us - one.since_us
        has_helped = succeeded
        if succeeded:
            if one.took_us and took_us > SHORT * self._unit_us:
                has_helped = 2 * took_us <= one.took_us
            one.took_us = took_us
        one.in_vain = 0 if has_helped else one.in_vain + 1
        rest_us = max(REST * self._unit_us, REST_OF_PAUSE * took_us)
        one.next_us = now_us + (rest_us << min(one.in_vain, DOUBLINGS))
        one.since_us = None
        del self.kept_back[one.key]
        self.failed += not succeeded
