"""Change-overs: when a publisher that takes a detour is kept back, so that it can leave it.

As long as a publisher has something unconfirmed on a link, links comparable to it are not used for
it, and what follows takes a *detour* over the same one (`mesh_planner`). A publisher that always
has something unconfirmed there would never leave it: a mesh would not relieve a network that was
congested before its soft links were open. So now and then publications of such a publisher are held
instead, until the detour has confirmed all of them, and then take the links of their plan. To hold
is always allowed, so this cannot reorder or lose anything; it costs a pause.

What limits the pause: it ends when nothing of the publisher has been confirmed there for a while
(`STALLED`), as where another broker waits for a dead one, and after `PAUSE_MAX` in any case. Such a
change-over has *failed*, and each one that fails doubles the time to the next.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from byway.core.held import Key

# all times in times of `mesh.detour_max`, after which a publisher is kept back for the first time
STALLED: Final = 8
"""A change-over fails if nothing has been confirmed for so long."""
PAUSE_MAX: Final = 64
"""A change-over fails after this in any case."""
REST: Final = 32
"""The shortest time from the end of a change-over to the next one."""
REST_OF_PAUSE: Final = 2
"""The rest is at least this many times as long as the change-over took."""
DOUBLINGS: Final = 6
"""How often failures double it."""
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
    failed: int = 0
    """How many change-overs failed one after another."""
    since_us: int | None = None
    """Since when it is kept back."""
    moved_us: int = 0
    """When something of it was confirmed last, while it is kept back."""

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
        self.kept_back = sum(one.since_us is not None for one in self._of.values())
        """How many publishers are kept back, by branch."""
        self.begun = self.failed = 0
        """How many change-overs began, and how many failed, since the broker started."""

    def __repr__(self) -> str:
        return f"<ChangeOvers: {self.kept_back} of {len(self._of)} kept back>"

    @property
    def state(self) -> list[ChangeOver]:
        """All that is remembered."""
        return list(self._of.values())

    def keeps_back(self, key: Key, now_us: int) -> bool:
        """Whether a publication that could take a detour is held; something of its publisher has
        just been confirmed, or it is a new one."""
        if not self._unit_us:
            return False
        one = self._of.get(key)
        if one is None:
            if len(self._of) < CHANGE_OVERS_MAX:
                self._of[key] = ChangeOver(*key, now_us + self._unit_us)
            return False
        if one.since_us is None:
            if now_us < one.next_us:
                return False
            one.since_us = now_us
            self.kept_back += 1
            self.begun += 1
        elif now_us >= self._fails_us(one):
            self._end(one, now_us, one.failed + 1)
            return False
        one.moved_us = now_us
        return True

    def on_free(self, key: Key, now_us: int) -> None:
        """A publication takes the links of its plan: if its publisher was kept back, it has changed
        over."""
        one = self._of.get(key)
        if one is not None and one.since_us is not None:
            self._end(one, now_us, failed=0)

    def next_us(self) -> int | None:
        """When the next change-over fails, if nothing is confirmed; None: nobody is kept back."""
        fails = (self._fails_us(one) for one in self._of.values() if one.since_us is not None)
        return min(fails, default=None)

    def end_failed(self, now_us: int) -> list[Key]:
        """End change-overs that have failed; of whom."""
        kept_back = [one for one in self._of.values() if one.since_us is not None]
        failed = [one for one in kept_back if self._fails_us(one) <= now_us]
        for one in failed:
            self._end(one, now_us, one.failed + 1)
        return [one.key for one in failed]

    def forget(self, now_us: int) -> None:
        """Forget publishers that take no detours any more."""
        self._of = {
            key: one
            for key, one in self._of.items()
            if one.since_us is not None or now_us < one.next_us + FORGOTTEN * self._unit_us
        }

    def _fails_us(self, one: ChangeOver) -> int:
        """When it is kept back no longer, if nothing more is confirmed."""
        assert one.since_us is not None, "it is not kept back"
        unit_us = self._unit_us
        return min(one.moved_us + STALLED * unit_us, one.since_us + PAUSE_MAX * unit_us)

    def _end(self, one: ChangeOver, now_us: int, failed: int) -> None:
        assert one.since_us is not None, "it is not kept back"
        rest_us = max(REST * self._unit_us, REST_OF_PAUSE * (now_us - one.since_us))
        one.next_us = now_us + (rest_us << min(failed, DOUBLINGS))
        one.failed, one.since_us = failed, None
        self.failed += failed > 0
        self.kept_back -= 1
