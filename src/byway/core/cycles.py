"""Cycles that an operator wired by mistake: found when a link comes up, and cut at one place.

The overlay must be a tree. Each end of a link that comes up sends a probe over it that every broker
passes on to its other neighbours, with the way it came. One that comes back names all brokers of a
cycle, and all of them would cut the same link: the last one by name. Both its ends part with each
other. A probe that meets a cycle elsewhere ends there, so nothing goes round for ever. Probes tell
of links that are up: they do not wait for one that is down, and only the last one sent counts.
"""

from __future__ import annotations

from collections.abc import Callable

from byway.core.context import Context
from byway.model.messages import LinkProbe


class Cycles:
    """The probes of one broker."""

    def __init__(self, context: Context, part_with: Callable[[str, str], None]) -> None:
        self._context = context
        self._part_with = part_with
        self._number = 0

    def link_up(self, link: str) -> None:
        """See whether a link closes a cycle."""
        if self._context.config.probe_cycles:
            self._number += 1
            probe = LinkProbe((self._context.name,), self._context.incarnation, self._number)
            self._context.out.send(link, probe)

    def on_probe(self, link: str, message: LinkProbe) -> None:
        """A probe came: it is our own, or it is passed on."""
        context, path = self._context, message.path
        if path and path[0] == context.name:
            if (message.incarnation, message.number) == (context.incarnation, self._number):
                self._cut(path)
        elif context.name not in path and len(path) <= context.config.hops_max:
            onward = LinkProbe((*path, context.name), message.incarnation, message.number)
            for other, end in context.ends.items():
                if other != link and end.up:
                    context.out.send(other, onward)

    def _cut(self, path: tuple[str, ...]) -> None:
        """Our own probe came back: this is the cycle."""
        pairs = [tuple(sorted(pair)) for pair in zip(path, (*path[1:], path[0]), strict=True)]
        first, second = max(pairs)
        here = self._context.name
        peer = second if first == here else first
        if here in (first, second) and peer in self._context.ends:
            self._part_with(peer, f"the overlay has a cycle: {' – '.join((*path, path[0]))}")
