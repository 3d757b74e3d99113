"""Counts of what a broker did since it started. Nothing is decided by them.

What each word means is declared in `model.measurement`. Wherever one of these is counted a trace
row is written, so that both give the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from byway.model.measurement import PUBLICATION_KIND
from byway.model.messages import Batch, Message, Publish, Subscribe, SubscribeMany, entries_of
from byway.trace import TraceBuffer

_encode = msgspec.msgpack.Encoder().encode


class Counters:
    """What a broker did since it started."""

    __slots__ = (
        "control_sent",
        "deliveries",
        "duplicates",
        "false_positives",
        "matched",
        "preserved",
        "publications_published",
        "publications_received",
        "publications_sent",
        "pure_forwarders",
        "retired",
        "subscriptions_sent",
        "triggered",
    )

    def __init__(self) -> None:
        self.publications_published = 0
        """Publications accepted from local clients."""
        self.publications_received = 0
        """Publications of neighbours that were matched: not duplicates, nor what came too far."""
        self.duplicates = 0
        """Publications that a neighbour sent though they had been here before."""
        self.matched = 0
        """Publications that matched a local subscription."""
        self.pure_forwarders = 0
        """Publications from a neighbour that matched no local subscription."""
        self.false_positives = 0
        """Of these, publications that were not for any other neighbour either."""
        self.deliveries = 0
        """Deliveries to local clients."""
        self.triggered = 0
        """Subscriptions that were forwarded because another one that covered them went."""
        self.preserved = 0
        """Times that an unsubscription was not passed on over a link."""
        self.retired = 0
        """Times that a preserved subscription was withdrawn from a link in the end."""
        self.publications_sent: dict[str, int] = {}
        """By neighbour, the publications sent to it; one that is sent again counts again."""
        self.control_sent: dict[tuple[str, str], int] = {}
        """By neighbour and tag, the messages other than publications sent to it."""
        self.subscriptions_sent: dict[str, int] = {}
        """By neighbour, the subscriptions sent to it, each one of a pack counted."""

    def __repr__(self) -> str:
        return f"<Counters {' '.join(f'{n}={getattr(self, n)}' for n in self.__slots__)}>"

    # --- messages to neighbours ------------------------------------------------------------------

    def count_sent(
        self, link: str, batch: Batch, now_us: int, trace: TraceBuffer, span: int
    ) -> None:
        """Count and trace the messages of a frame that is sent over a link, whose other end is
        `span` hops of the tree away."""
        publications = 0
        for message in batch.messages:
            if type(message) is Publish:
                publications += 1
                if trace.enabled:
                    trace.forwarded(now_us, (link,), *columns_of(message), span)
            else:
                self._count_control(link, message, now_us, trace)
        if publications:
            self.count_publications(link, publications)

    def count_publications(self, link: str, count: int) -> None:
        """Count publications that are sent to a neighbour."""
        sent = self.publications_sent
        sent[link] = sent.get(link, 0) + count

    def _count_control(self, link: str, message: Message, now_us: int, trace: TraceBuffer) -> None:
        tag = message.__struct_config__.tag
        assert isinstance(tag, str)
        self.control_sent[link, tag] = self.control_sent.get((link, tag), 0) + 1
        if isinstance(message, Subscribe | SubscribeMany):
            count = self.subscriptions_sent.get(link, 0) + entries_of(message)
            self.subscriptions_sent[link] = count
        if trace.enabled:
            size, entries = len(_encode(message)), entries_of(message)
            trace.control_sent(now_us, link, tag, size, entries)

    @property
    def copies(self) -> int:
        """Publications sent to neighbours, all together."""
        return sum(self.publications_sent.values())

    @property
    def control_messages(self) -> int:
        """Messages other than publications sent to neighbours, all together."""
        return sum(self.control_sent.values())

    @property
    def messages_by_kind(self) -> dict[str, int]:
        """Messages sent to neighbours, by tag."""
        found: dict[str, int] = {}
        for _, tag, count in self.sent():
            found[tag] = found.get(tag, 0) + count
        return found

    def sent(self) -> Iterator[tuple[str, str, int]]:
        """Neighbour, tag and number of the messages sent to it."""
        for link, count in sorted(self.publications_sent.items()):
            yield link, PUBLICATION_KIND, count
        for (link, tag), count in sorted(self.control_sent.items()):
            yield link, tag, count


def columns_of(message: Publish) -> tuple[str, int, int, int, int, int, int]:
    """The columns of a publication that every trace row about it has."""
    return (
        message.publisher,
        message.incarnation,
        message.sequence,
        message.published_us,
        message.hop,
        message.distance,
        len(message.body),
    )
