"""Which brokers cannot be reached, so that whoever waits can be told for whom.

A broker whose link stays down for a while tells its other neighbours, and they tell theirs. It is
news for people only: nothing is routed by it.
"""

from __future__ import annotations

from typing import Final

from byway.core.actions import SetTimer, Timer
from byway.core.context import Context
from byway.core.links import UNLISTED
from byway.model.messages import BrokersUnreachable

TIMER: Final = Timer("reachability")
DELAY_US: Final = 2_000_000
"""A link that is down for less is not reported."""
NAMES_MAX: Final = 64
"""Brokers that are named; with more, the first of them by name."""
_Names = dict[str, tuple[str, ...]]


class Reachability:
    """What one broker knows of brokers that are away."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._down: set[str] = set()
        """Neighbours that have been away for a while."""
        self._changed: dict[str, int] = {}
        """When links came up or went down that have not stayed so for a while."""
        self._behind: dict[str, tuple[str, ...]] = {}
        """By neighbour, brokers behind it that it cannot reach."""
        self._said: dict[str, tuple[str, ...]] = {}
        """By neighbour, what it was told last."""

    def behind(self, link: str) -> tuple[str, ...]:
        """Brokers that cannot be reached in the direction of a neighbour, itself included."""
        if not self._is_up(link):
            return (link,)
        return self._behind.get(link, ())

    def away(self) -> list[str]:
        """All brokers that are known to be out of reach."""
        links = (link for link in self._context.tree if link != UNLISTED)
        return sorted({name for link in links for name in self.behind(link)})

    def on_link_changed(self, link: str, reset: bool = False) -> None:
        """A link came up or went down, or a neighbour was removed. After a `reset` the neighbour
        knows nothing of what it was told."""
        if reset:
            self._said.pop(link, None)
        if link not in self._context.tree or reset:
            self._behind.pop(link, None)
        self._changed[link] = self._context.now_us
        self._wait()

    def replace_link(self, old: str, new: str) -> None:
        """A neighbour has another name; its link is down."""
        self._behind.pop(old, None)
        self._said.pop(old, None)
        self._changed.pop(old, None)
        if old in self._down:
            self._down.remove(old)
            self._down.add(new)
        self.on_link_changed(new)

    def _wait(self) -> None:
        """Look again when the first of the links that changed has stayed so for a while, whatever
        others do."""
        if self._changed:
            at_us = max(min(self._changed.values()) + DELAY_US, self._context.now_us)
            self._context.out.do(SetTimer(TIMER, at_us))

    def on_started(self) -> None:
        """The broker begins: neighbours have a while to come."""
        self._changed = dict.fromkeys(self._context.tree, self._context.now_us)

    def snapshot(self) -> tuple[list[str], dict[str, int], _Names, _Names]:
        """Neighbours that are down, links that changed, what is behind others, and what each was
        told."""
        return sorted(self._down), self._changed, self._behind, self._said

    def restore(
        self, down: list[str], changed: dict[str, int], behind: _Names, said: _Names
    ) -> None:
        """Go on from what `snapshot` gave."""
        self._down, self._changed, self._behind, self._said = set(down), changed, behind, said

    def on_timer(self) -> None:
        """Judge links that have not changed for a while; what was said of the others stands."""
        since_us = self._context.now_us - DELAY_US
        self._changed = {link: at for link, at in self._changed.items() if at > since_us}
        self._down = {
            link
            for link in self._context.tree
            if (link in self._down if link in self._changed else not self._is_up(link))
        }
        self._tell()
        self._wait()

    def on_unreachable(self, link: str, message: BrokersUnreachable) -> None:
        """A neighbour tells of brokers behind it."""
        here = self._context.name
        names = tuple(sorted({name for name in message.brokers if name != here}))
        if self._behind.get(link, ()) != names:
            self._behind[link] = names
            self._tell()

    def _tell(self) -> None:
        """Tell each neighbour what cannot be reached beyond this broker, if that is news."""
        for link in self._context.tree:
            if self._is_up(link):
                names = self._beyond(link)
                if names != self._said.get(link, ()):
                    self._said[link] = names
                    self._context.out.send(link, BrokersUnreachable(names))

    def _is_up(self, link: str) -> bool:
        """Whether a broker is a neighbour whose link is up."""
        return link in self._context.tree and self._context.ends[link].up

    def _beyond(self, link: str) -> tuple[str, ...]:
        found: set[str] = set()
        for other in self._context.tree:
            if other in (link, UNLISTED):
                continue
            if other in self._down:
                found.add(other)
            else:
                found.update(self._behind.get(other, ()))
        return tuple(sorted(found)[:NAMES_MAX])
