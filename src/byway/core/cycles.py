"""Cycles that an operator wired by mistake: found when a link comes up, and cut at one place.

The overlay must be a tree. Each end of a link that comes up sends a probe over it, which every
broker passes on to its other neighbours with the path it took. One that comes back names all
brokers of a cycle, and all of them would cut the same link: the last one by name. The cycle is
passed round until it meets an end of that link, and its ends disconnect from each other. A probe
that meets another cycle ends there, so nothing goes round for ever. Probes travel over links that
are up: they do not wait for one that is down, and only the last one sent over a link counts.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from byway.core.context import Context
from byway.model.bounds import PATH_MAX, REASON_LENGTH_MAX
from byway.model.errors import shortened
from byway.model.messages import LinkProbe


class Cycles:
    """The probes of one broker."""

    def __init__(self, context: Context, disconnect: Callable[[str, str], None]) -> None:
        self._context = context
        self._disconnect = disconnect
        self._number = 0
        self._sent: dict[str, int] = {}
        """By link, the number of the last probe over it."""

    def snapshot(self) -> tuple[int, dict[str, int]]:
        """The number of the last probe, and of the last one over each link."""
        return self._number, self._sent

    def restore(self, number: int, sent: dict[str, int]) -> None:
        """Go on from what `snapshot` gave."""
        self._number, self._sent = number, sent

    def on_link_up(self, link: str) -> None:
        """Send a probe over a link that came up, to see whether it closes a cycle."""
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
        elif context.name not in path and len(path) <= min(context.config.hops_max, PATH_MAX - 2):
            for other in context.tree:
                if other != link and context.ends[other].up:
                    context.out.send(other, _extended(message, context.name))

    def on_link_down(self, link: str) -> None:
        """A link went down: probes that were sent over it do not count any more."""
        self._sent.pop(link, None)

    def _is_fresh(self, message: LinkProbe) -> bool:
        """Whether it is the last one sent over its link, and the link is still up."""
        first = message.path[1] if len(message.path) > 1 else ""
        last = self._sent.get(first)
        return (message.incarnation, message.number) == (self._context.incarnation, last)

    def _found(self, message: LinkProbe) -> None:
        """This is a cycle: disconnect the peer if its last link by name ends here, else send the
        probe to the next broker on the cycle, until one is found where it does."""
        here, cycle = self._context.name, message.path
        last = max(tuple(sorted(pair)) for pair in pairwise(cycle))
        if here in last:
            peer = last[1] if last[0] == here else last[0]
            if self._is_up(peer):  # else the cycle is open there
                reason = f"the overlay has a cycle: {' – '.join(cycle)}"
                self._disconnect(peer, shortened(reason, REASON_LENGTH_MAX))
        elif here in cycle:
            following = cycle[cycle.index(here) + 1]
            if following != cycle[0] and self._is_up(following):
                self._context.out.send(following, message)

    def _is_up(self, peer: str) -> bool:
        """Whether a broker is a neighbour whose link is up."""
        return peer in self._context.tree and self._context.ends[peer].up


def _extended(message: LinkProbe, broker: str) -> LinkProbe:
    return LinkProbe((*message.path, broker), message.incarnation, message.number)
