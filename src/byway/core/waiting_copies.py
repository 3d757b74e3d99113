"""Copies that wait for neighbours whose tables are missing, which count as wanting everything.

A neighbour that turns out to be missing gets what waits for others that are, in order. What was
kept for one that turns out not to want it is dropped and confirmed. Which neighbours are missing is
for `recovery` to say.
"""

from __future__ import annotations

from collections.abc import Callable

from byway.core.bodies import routes_of
from byway.core.context import Context
from byway.core.in_flight import InFlight
from byway.core.recovery import Recovery
from byway.core.streams import Stream
from byway.model.messages import Message, Publish
from byway.model.trace_schema import DropReason

Drop = Callable[[Publish, DropReason, str | None], None]
"""Traces that a publication is dropped."""
Lose = Callable[[str, Publish], None]
"""Notes that a publication that was kept for a successor is lost."""


class WaitingCopies:
    """What waits for the missing neighbours of one broker."""

    def __init__(self, context: Context, recovery: Recovery, drop: Drop) -> None:
        self._context = context
        self._recovery = recovery
        self._drop = drop

    def copy_to(self, newcomer: str) -> None:
        """Copy to a neighbour that turns out to be missing what waits for others that are.

        All publications of one publisher came over one link, so each of these queues has all of
        them, in order, or none; or the latest, if its neighbour was given up in between, and has
        confirmed some.
        """
        context = self._context
        copies = context.copies.links
        has = {id(source) for _, source in copies[newcomer]}
        found: dict[int, tuple[Publish, InFlight]] = {}
        for link in sorted(self._recovery.missing):
            if link != newcomer:
                for message, source in copies[link]:
                    if not isinstance(message, Publish) or source.link == newcomer:
                        continue
                    if id(source) not in has:
                        found.setdefault(id(source), (message, source))
        if found:
            self._put_in_order(newcomer, list(found.values()))

    def copy_to_missing_again(self) -> None:
        """Copy what waits for missing neighbours to those that are missing again."""
        links, self._recovery.missing_again = self._recovery.missing_again, []
        for link in links:
            self.copy_to(link)

    def _put_in_order(self, link: str, more: list[tuple[Publish, InFlight]]) -> None:
        """Add copies to what waits for a neighbour, so that each publisher's are in order; after
        what it was sent already."""
        context = self._context
        queue = context.copies.links[link]
        for late, source in sorted(more, key=_by_publisher):
            context.copies.append(link, late, source)
        if context.ends[link].open:
            context.out.touched[link] = None
            return
        publications: list[tuple[Publish, InFlight]] = []
        others: list[tuple[Message, InFlight]] = []
        for message, source in queue:
            if isinstance(message, Publish):
                publications.append((message, source))
            else:  # an Unadvertise may come late, but not early
                others.append((message, source))
        queue.replace([*sorted(publications, key=_by_publisher), *others])

    def recheck(self, link: str, position: int, room: int, lose: Lose) -> tuple[int, int]:
        """Drop and confirm what was kept for a neighbour that turns out not to want it. Of a
        neighbour that has taken another's place, the other one did, and it is lost.

        The oldest `position` messages have been rechecked; at most `room` more are now. Returns how
        many were, and the new position.
        """
        context = self._context
        queue = context.copies.links[link]
        if context.ends[link].open:  # no longer missing, and missing again: it was sent
            return 0, len(queue)
        copies = list(queue)
        wanted, unwanted = position, []
        last = min(position + room, len(copies))
        for copy in copies[position:last]:
            message, source = copy
            if isinstance(message, Publish) and not self._is_wanted(message, source.stream, link):
                unwanted.append(source)
                if link in self._recovery.successors:
                    lose(link, message)
                    self._drop(message, DropReason.LINK_LOST, link)
                else:
                    self._drop(message, DropReason.UNWANTED, link)
            else:
                copies[wanted] = copy
                wanted += 1
        del copies[wanted:last]
        queue.replace(copies)
        context.confirmed(link, unwanted)
        return last - position, wanted

    def _is_wanted(self, message: Publish, stream: Stream | None, link: str) -> bool:
        context = self._context
        if stream is not None and stream.is_owed(link, message.sequence):
            return True
        mask, _, _, _ = routes_of(message.body, context.routing.subscriptions.index, None)
        return link in context.numbers.links(mask)


def _by_publisher(item: tuple[Publish, InFlight]) -> tuple[str, int, int]:
    """In order of their sequences, publisher by publisher."""
    message, _ = item
    return message.publisher, message.incarnation, message.sequence
