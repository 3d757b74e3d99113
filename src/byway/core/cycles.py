"""Cycles that an operator wired by mistake: found when a link comes up, and cut at one place.

The overlay must be a tree. Each end of a link that comes up sends a probe over it that every broker
passes on to its other neighbours, with the way it came. One that comes back names all brokers of a
cycle, and all of them would cut the same link: the last one by name. The cycle is told round until
it meets an end of that link, and its ends part with each other. A probe that meets another cycle
ends there, so nothing goes round for ever. Probes tell of links that are up: they do not wait for
one that is down, and only the last one sent over a link counts.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from byway.core.context import Context
from byway.model.messages import LinkProbe


class Cycles:
    """The probes of one broker."""

    def __init__(self, context: Context, part_with: Callable[[str, str], None]) -> None:
        self._context = context
        self._part_with = part_with
        self._number = 0
        self._sent: dict[str, int] = {}
        """By link, the number of the last probe over it."""

    def take_over(self, other: Cycles) -> None:
        """Go on with another's probes."""
        self._number, self._sent = other._number, dict(other._sent)

    def link_up(self, link: str) -> None:
        """See whether a link closes a cycle."""
        if self._context.config.probe_cycles:
            self._number += 1
            self._sent[link] = self._number
            probe = LinkProbe((self._context.name,), self._context.incarnation, self._number)
            self._context.out.send(link, probe)

    def on_probe(self, link: str, message: LinkProbe) -> None:
        """A probe came: it is our own, or it is passed on; or it names a cycle that was found."""
        context, path = self._context, message.path
        if len(path) > 1 and path[0] == path[-1]:
            self._found(message)
        elif path and path[0] == context.name:
            if self._is_fresh(message):
                self._found(_extended(message, context.name))
        elif context.name not in path and len(path) <= context.config.hops_max:
            for other, end in context.ends.items():
                if other != link and end.up:
                    context.out.send(other, _extended(message, context.name))

    def link_down(self, link: str) -> None:
        """What probes over it would tell is no longer so."""
        self._sent.pop(link, None)

    def _is_fresh(self, message: LinkProbe) -> bool:
        """Whether it is the last one sent over its link, and the link is still up."""
        first = message.path[1] if len(message.path) > 1 else ""
        last = self._sent.get(first)
        return (message.incarnation, message.number) == (self._context.incarnation, last)

    def _found(self, message: LinkProbe) -> None:
        """This is a cycle: part with the peer if its last link by name ends here, else tell the
        next broker on it, until one is found where it does."""
        here, ends, cycle = self._context.name, self._context.ends, message.path
        last = max(tuple(sorted(pair)) for pair in pairwise(cycle))
        if here in last:
            peer = last[1] if last[0] == here else last[0]
            if peer in ends and ends[peer].up:  # else the cycle is open there
                self._part_with(peer, f"the overlay has a cycle: {' – '.join(cycle)}")
        elif here in cycle:
            following = cycle[cycle.index(here) + 1]
            if following != cycle[0] and following in ends and ends[following].up:
                self._context.out.send(following, message)


def _extended(message: LinkProbe, broker: str) -> LinkProbe:
    return LinkProbe((*message.path, broker), message.incarnation, message.number)
