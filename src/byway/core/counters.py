"""Counts of what a broker did since it started. Nothing is decided by them."""

from __future__ import annotations

import msgspec

from byway.model.messages import Message, entries_of
from byway.trace import TraceBuffer

_encode = msgspec.msgpack.Encoder().encode


class Counters:
    """What a broker did since it started."""

    __slots__ = (
        "copies",
        "deliveries",
        "duplicates",
        "matched",
        "messages_sent",
        "preserved",
        "publications_published",
        "publications_received",
        "pure_forwarders",
        "retired",
        "triggered",
    )

    def __init__(self) -> None:
        self.publications_published = 0
        """Publications accepted from local clients."""
        self.publications_received = 0
        """Publications taken from neighbours, without duplicates."""
        self.duplicates = 0
        """Publications that a neighbour sent though they had been here before."""
        self.matched = 0
        """Publications that matched a local subscription."""
        self.pure_forwarders = 0
        """Publications from a neighbour that matched no local subscription."""
        self.deliveries = 0
        """Deliveries to local clients."""
        self.copies = 0
        """Publications sent to neighbours, one for each neighbour."""
        self.triggered = 0
        """Subscriptions that were forwarded because another one that covered them went."""
        self.preserved = 0
        """Times that an unsubscription was not passed on over a link."""
        self.retired = 0
        """Times that a preserved subscription was withdrawn from a link in the end."""
        self.messages_sent: dict[str, int] = {}
        """Messages other than publications sent to neighbours, by tag."""

    def __repr__(self) -> str:
        return f"<Counters {' '.join(f'{n}={getattr(self, n)}' for n in self.__slots__)}>"

    def count_control(self, message: Message, link: str, now_us: int, trace: TraceBuffer) -> None:
        """Count and trace a message to a neighbour that is no publication."""
        tag = message.__struct_config__.tag
        assert isinstance(tag, str)
        self.messages_sent[tag] = self.messages_sent.get(tag, 0) + 1
        if trace.enabled:
            size, entries = len(_encode(message)), entries_of(message)
            trace.control_sent(now_us, link, tag, size, entries)
