"""The bypass of dead neighbours: whom copies go round, and which links that takes.

A neighbour whose link has been down for `mesh.bypass_after` is bypassed if the map has brokers
behind it, until it takes data again. For each anchor that no link leads to, a link is opened to the
first broker behind the dead one on the way there. One that takes no publications after
`bypass_after` counts as dead too: its link goes on opening, and the next broker on the way has its
turn. Where all of the way is dead, the brokers behind it are next, since the dead one may have
quenched them. These *required* links are opened whatever they gain, beyond `mesh.fanout` but within
`mesh.links_max`; at that bound no more are, and what is for others is parked until their neighbour
is back. They are dropped when the bypass ends.

It decides; `Mesh` has the links and the maps. Everything kept is about brokers on the map.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import msgspec

from byway.core.mesh.master_map import MasterMap

Open = Callable[[str], bool]
"""Opens a soft link to a broker; whether that may be."""


class BypassState(msgspec.Struct):
    """All that a `Bypass` remembers."""

    down: dict[str, int] = {}
    """By neighbour whose link is down, since when."""
    since: dict[str, int] = {}
    """By neighbour that is bypassed, since when."""
    sought: list[str] = []
    """Anchors behind these that no link led to, in the order of their names."""
    asked: dict[str, int] = {}
    """By broker that a link is required to, when that began to open."""
    dead: list[str] = []
    """Which of these count as dead, in the order of their names."""
    resting: dict[str, int] = {}
    """By broker that refused such a link, until when it is left alone."""
    timer_us: int = 0
    """When the timer fires; 0 if none is set."""


class Bypass:
    """Decides for one broker."""

    def __init__(self, after_us: int, state: BypassState | None = None) -> None:
        """`after_us`: how long a link has to be down; 0: nobody is bypassed."""
        self.after_us = after_us
        self.state = state or BypassState()

    def __repr__(self) -> str:
        state = self.state
        return f"<Bypass of {sorted(state.since)}, links to {sorted(state.asked)}>"

    @property
    def bypassed(self) -> frozenset[str]:
        """The neighbours that are bypassed."""
        return frozenset(self.state.since)

    def is_required(self, broker: str) -> bool:
        """Whether a link to a broker was opened for a bypass."""
        return broker in self.state.asked

    # --- neighbours ----------------------------------------------------------------------------

    def on_down(self, now_us: int, neighbour: str) -> None:
        """The link of a neighbour went down, or was so when the broker started."""
        if self.after_us:
            self.state.down.setdefault(neighbour, now_us)

    def on_up(self, neighbour: str) -> None:
        """The link of a neighbour came up. A bypass lasts until it takes data."""
        self.state.down.pop(neighbour, None)

    def on_restarted(self, now_us: int, down: Iterable[str]) -> None:
        """The broker starts again: these neighbours are away, and have a while to come; those that
        were bypassed stay so."""
        state = self.state
        state.down, state.asked, state.dead, state.resting = {}, {}, [], {}
        state.timer_us = 0
        for neighbour in down:
            self.on_down(now_us, neighbour)
        if not self.after_us:
            state.since = {}

    def on_timer(
        self,
        now_us: int,
        master: MasterMap,
        is_known: Callable[[str], bool],
        taken: Collection[str],
    ) -> list[str]:
        """Time has passed: the neighbours that are bypassed from now on, in the order of their
        names. One that nobody is behind is not; nor is one whose tables are missing, since what is
        behind it is not known. Such a one is looked at again after a while."""
        state, begun = self.state, []
        state.timer_us = 0
        for neighbour, since_us in sorted(state.down.items()):
            if neighbour in state.since or now_us - since_us < self.after_us:
                continue
            if _behind(neighbour, master) and is_known(neighbour):
                state.since[neighbour] = now_us
                begun.append(neighbour)
            else:
                state.down[neighbour] = now_us
        asked = [(b, at) for b, at in sorted(state.asked.items()) if b not in taken]
        late = [broker for broker, at_us in asked if now_us - at_us >= self.after_us]
        state.dead = sorted({*state.dead, *late})
        state.resting = {b: until for b, until in state.resting.items() if until > now_us}
        return begun

    def end(
        self,
        tree: Collection[str],
        is_open: Callable[[str], bool],
        is_known: Callable[[str], bool],
    ) -> list[str]:
        """The neighbours that are bypassed no more, in the order of their names: those that take
        data again, were removed, or lack what they have told, since this broker forgot it."""
        ended = [
            neighbour
            for neighbour in sorted(self.state.since)
            if neighbour not in tree or is_open(neighbour) or not is_known(neighbour)
        ]
        for neighbour in ended:
            del self.state.since[neighbour]
        self.state.down = {n: at for n, at in self.state.down.items() if n in tree}
        return ended

    # --- links ---------------------------------------------------------------------------------

    def on_lost(self, now_us: int, broker: str, *, was_taken: bool) -> None:
        """A required link was lost, or refused. It is opened again at once if it was in use."""
        if broker in self.state.asked:
            self.on_dropped(broker)
            if not was_taken:
                self.state.resting[broker] = now_us + self.after_us

    def on_dropped(self, broker: str) -> None:
        """A soft link is dropped, whoever wanted it."""
        self._forget(broker)

    def _forget(self, broker: str) -> None:
        self.state.asked.pop(broker, None)
        if broker in self.state.dead:
            self.state.dead.remove(broker)

    def note(self, anchors: Iterable[str]) -> None:
        """Remember anchors that no link leads to."""
        self.state.sought = sorted({*self.state.sought, *anchors})

    def seek(
        self,
        now_us: int,
        master: MasterMap,
        anchors: Iterable[str],
        taken: Collection[str],
        open_link: Open,
    ) -> None:
        """Open what is required; without news that changes nothing. `anchors`: further ones that no
        link leads to; `taken`: soft links whose other end takes publications."""
        state = self.state
        self.note(anchors)
        state.sought = [
            anchor
            for anchor in state.sought
            if anchor in master and master.branch(anchor) in state.since
        ]
        for anchor in state.sought:
            way = master.path(anchor)[1:]
            if not any(self._leads(now_us, broker, taken, open_link) for broker in way):
                behind = _behind(anchor, master)
                while behind:
                    broker = behind.pop(0)
                    if not self._leads(now_us, broker, taken, open_link):
                        behind += _behind(broker, master)

    def _leads(self, now_us: int, broker: str, taken: Collection[str], open_link: Open) -> bool:
        """Whether a link leads to a broker, or may soon."""
        state = self.state
        if broker in taken:
            if broker in state.dead:
                state.dead.remove(broker)
            return True
        if broker in state.resting:
            return False
        if broker not in state.asked:
            if not open_link(broker):
                return False
            state.asked[broker] = now_us
        return broker not in state.dead

    def unneeded(self, master: MasterMap) -> list[str]:
        """The required links that no bypass needs any more, in the order of the names; they are
        required no more."""
        state = self.state
        found = [
            b for b in sorted(state.asked) if b not in master or master.branch(b) not in state.since
        ]
        for broker in found:
            self._forget(broker)
        return found

    def next_us(self, taken: Collection[str]) -> int | None:
        """When to look again if nothing happens; None: not before."""
        state, opening = self.state, {*self.state.asked}.difference(self.state.dead, taken)
        times = [at + self.after_us for n, at in state.down.items() if n not in state.since]
        times += [state.asked[broker] + self.after_us for broker in opening]
        times += state.resting.values()
        return min(times, default=None)


def _behind(broker: str, master: MasterMap) -> list[str]:
    """The brokers right behind one, in the order of their names."""
    if broker not in master:
        return []
    number = master.number(broker)
    return [b for b, parent in zip(master.brokers, master.parents, strict=True) if parent == number]
