"""Duplicates: publications that come again, and what each waits for before it is confirmed.

A publication that was here before is not routed again. It is confirmed when the first one is,
whatever link that came by: the first may be unconfirmed because a broker behind is dead, and
whoever sends it again must keep it until then.

One that came round a cycle is confirmed at once, or the first would wait for itself. It comes from
where copies of the first one were sent, and are unconfirmed. In a ring of several brokers it may
come from a third side, and has then travelled further than these copies.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from byway.core.client_session import ClientSession
from byway.core.context import Context
from byway.core.copies import CopyQueue
from byway.core.in_flight import InFlight
from byway.core.outgoing import Outgoing
from byway.model.messages import Publish

Key = tuple[str, int, int]


class _First(msgspec.Struct, eq=False):
    """A publication that is in flight."""

    source: InFlight
    hop: int = 0
    """How far its copies for other brokers have travelled when they arrive there."""
    links: list[str] = msgspec.field(default_factory=list)
    """The links that have such copies."""


class Duplicates:
    """Finds what the duplicates of one broker have to wait for.

    What is in flight is indexed when the first duplicate of a call of `handle` comes; for further
    ones only what is new since.
    """

    def __init__(self, context: Context, sessions: dict[str, ClientSession]) -> None:
        self._context = context
        self._sessions = sessions
        self._found: dict[Key, _First] = {}
        self._indexed: dict[str, tuple[int, int]] = {}
        """By link, the generation of its queue, and the number after the last copy indexed."""
        self._out: Outgoing | None = None
        """The call of `handle` that the index belongs to."""

    def take(self, message: Publish, link: str, pending: InFlight) -> None:
        """Finish a duplicate that came over a link, or let it wait for the first one."""
        first = self._first(message)
        if first is None or not first.source.left or self._came_round(message, link, first):
            self._context.finish(pending)
        elif first.source.duplicates is None:
            first.source.duplicates = [pending]
        else:
            self._wait(first.source.duplicates, pending)

    def _wait(self, waiting: list[InFlight], pending: InFlight) -> None:
        """Let one more duplicate wait. Of those that came over one link the latest is enough to
        have the sender keep it, so a peer that repeats itself takes no room."""
        for place, earlier in enumerate(waiting):
            if earlier.window is pending.window:
                waiting[place] = pending
                self._context.finish(earlier)
                return
        waiting.append(pending)

    def in_flight(self) -> Iterator[InFlight]:
        """What is in flight, for each of its copies."""
        context = self._context
        for queue in context.copies.links.values():
            for _, source in queue:
                yield source
        if context.held is not None:
            for waiting in (*context.held.queues.values(), *context.held.parked.queues.values()):
                for held in waiting:
                    yield held.source
        for session in self._sessions.values():
            if session.held:
                for _, source in session.held_deliveries:
                    yield source

    def _first(self, message: Publish) -> _First | None:
        self._index()
        found, held = self._found.get(_key(message)), self._context.held
        if found is None and held is not None:
            source = held.source_of(message)
            return None if source is None else _First(source)
        return found

    def _came_round(self, message: Publish, link: str, first: _First) -> bool:
        """Whether a duplicate may stem from copies of the first one that it would wait for."""
        source, branch_of = first.source, self._context.branch_of
        stream = source.stream
        sent_into = {branch_of(x) for x in first.links if stream is not None and x in stream.open}
        branch = branch_of(link)
        if not sent_into or (source.link is not None and branch == branch_of(source.link)):
            return False
        if branch in sent_into:
            return True
        has_gone = source.link is not None and source.link not in self._context.ends
        return message.hop > first.hop and not has_gone  # else it was routed anew, over the tree

    def _index(self) -> None:
        context = self._context
        if self._out is not context.out:
            self._out = context.out
            self._found, self._indexed = {}, {}
            self._index_held()
        for link, queue in context.copies.links.items():
            state = queue.generation, queue.next
            if self._indexed.get(link) != state:
                self._index_link(link, queue)
                self._indexed[link] = state

    def _index_link(self, link: str, queue: CopyQueue) -> None:
        generation, after = self._indexed.get(link, (0, 0))
        for message, source in queue.since(after if generation == queue.generation else 0):
            if isinstance(message, Publish):
                first = self._found.setdefault(_key(message), _First(source))
                first.hop = message.hop
                first.links.append(link)

    def _index_held(self) -> None:
        """Deliveries that wait for room in a session are copies too."""
        for session in self._sessions.values():
            if session.held:
                for delivery, source in session.held_deliveries:
                    self._found.setdefault(_key(delivery.publication), _First(source))


def _key(publication: Publish) -> Key:
    return publication.publisher, publication.incarnation, publication.sequence
