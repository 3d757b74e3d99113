"""Which brokers cannot be reached, so that whoever waits can be told for whom.

A broker whose link stays down for a while tells its other neighbours, and they tell theirs. It is
news for people only: nothing is routed by it.
"""

from __future__ import annotations

from typing import Final

from byway.core.actions import SetTimer, Timer
from byway.core.context import Context
from byway.model.messages import BrokersUnreachable

TIMER: Final = Timer("reachability")
DELAY_US: Final = 2_000_000
"""A link that is down for less is not worth a word."""
NAMES_MAX: Final = 64
"""Brokers that are named; with more, the first of them by name."""


class Reachability:
    """What one broker knows of brokers that are away."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._down: set[str] = set()
        """Neighbours that have been away for a while."""
        self._behind: dict[str, tuple[str, ...]] = {}
        """By neighbour, brokers behind it that it cannot reach."""
        self._said: dict[str, tuple[str, ...]] = {}
        """By neighbour, what it was told last."""

    def behind(self, link: str) -> tuple[str, ...]:
        """Brokers that cannot be reached in the direction of a neighbour, itself included."""
        end = self._context.ends.get(link)
        if end is None or not end.up:
            return (link,)
        return self._behind.get(link, ())

    def away(self) -> list[str]:
        """All brokers that are known to be out of reach."""
        return sorted({name for link in self._context.ends for name in self.behind(link)})

    def link_changed(self, link: str, anew: bool = False) -> None:
        """A link came up or went down, or a neighbour is none any more. One whose numbers start
        anew knows nothing of what it was told."""
        if anew:
            self._said.pop(link, None)
        if link not in self._context.ends or anew:
            self._behind.pop(link, None)
        self._context.out.do(SetTimer(TIMER, self._context.now_us + DELAY_US))

    def snapshot(self) -> tuple[list[str], dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]]:
        """Neighbours that are down, what is behind others, and what each was told."""
        return sorted(self._down), self._behind, self._said

    def restore(
        self,
        down: list[str],
        behind: dict[str, tuple[str, ...]],
        said: dict[str, tuple[str, ...]],
    ) -> None:
        """Go on from a snapshot."""
        self._down, self._behind, self._said = set(down), behind, said

    def waited_enough(self) -> None:
        """Links that are down now have been so for a while, or flap."""
        self._down = {link for link, end in self._context.ends.items() if not end.up}
        self._tell()

    def on_unreachable(self, link: str, message: BrokersUnreachable) -> None:
        """A neighbour tells of brokers behind it."""
        here = self._context.name
        names = tuple(sorted({name for name in message.brokers if name != here}))
        if self._behind.get(link, ()) != names:
            self._behind[link] = names
            self._tell()

    def _tell(self) -> None:
        """Tell each neighbour what cannot be reached beyond this broker, if that is news."""
        for link, end in self._context.ends.items():
            if end.up:
                names = self._beyond(link)
                if names != self._said.get(link, ()):
                    self._said[link] = names
                    self._context.out.send(link, BrokersUnreachable(names))

    def _beyond(self, link: str) -> tuple[str, ...]:
        found: set[str] = set()
        for other, end in self._context.ends.items():
            if other == link:
                continue
            if not end.up:
                found |= {other} & self._down
            else:
                found.update(self._behind.get(other, ()))
        return tuple(sorted(found)[:NAMES_MAX])
