"""What the parts of one broker share: its tables, its links, the time, and what is to be done.

It decides nothing. Parts change it through its few methods, and see one another only where one
hands work to the next.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import msgspec

from byway.core.actions import SetTimer, Timer
from byway.core.bodies import Bodies
from byway.core.broker_config import BrokerConfig
from byway.core.links import LinkEnd, Window
from byway.core.outgoing import Outgoing
from byway.core.tables import Entry, LinkNumbers, Sent, Table, with_link, without_link
from byway.model.messages import EntryId, Message, entries_of
from byway.trace import TraceBuffer

_encode = msgspec.msgpack.Encoder().encode


TAKEOVER_TIMER: Final = Timer("takeover")
TAKEOVER_WAIT_US: Final = 1_000_000


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
        """Accepted from local clients."""
        self.publications_received = 0
        """Taken from neighbours, duplicates apart."""
        self.duplicates = 0
        self.matched = 0
        """Publications with a local match."""
        self.pure_forwarders = 0
        """Publications from a neighbour without a local match."""
        self.deliveries = 0
        self.copies = 0
        """Publications sent to neighbours."""
        self.triggered = 0
        """Subscriptions that were sent because another one that covered them went."""
        self.preserved = 0
        """Times that an unsubscription was not passed on over a link."""
        self.retired = 0
        """Times that it was in the end."""
        self.messages_sent: dict[str, int] = {}
        """Other messages sent to neighbours, by tag."""

    def __repr__(self) -> str:
        return f"<Counters {' '.join(f'{n}={getattr(self, n)}' for n in self.__slots__)}>"


class InFlight(msgspec.Struct, eq=False):
    """A data message that waits for its copies to be confirmed."""

    window: Window
    number: int
    """Of the link's lane, or the client's sequence."""
    link: str | None
    """Where it came from; None: from a local client."""
    client: str
    left: int
    also: list[InFlight] | None = None
    """Copies of the same that came again and wait for the same."""


class Context:
    """The shared state of one broker."""

    def __init__(
        self,
        name: str,
        incarnation: int,
        config: BrokerConfig,
        trace: TraceBuffer,
        bodies: Bodies,
    ) -> None:
        self.name = name
        self.incarnation = incarnation
        self.config = config
        self.trace = trace
        self.bodies = bodies
        self.counters = Counters()
        self.now_us = 0
        self.out = Outgoing()
        self.ends: dict[str, LinkEnd] = {}
        self.numbers = LinkNumbers()
        self.adverts = Table(self.numbers)
        self.subscriptions = Table(self.numbers)
        self.placeholders = Table()
        """Subscriptions that ended, and stand for others on links that do not know it."""
        self.sent: Sent | None = None if config.covering == "none" else Sent()
        """Of both tables, what is forwarded anywhere; not kept where nobody looks for covering."""
        self.unconfirmed: dict[str, deque[InFlight]] = {}
        """By link, for each message its outbox keeps, what it is a copy of."""

    def add_link(self, link: str) -> None:
        """There is a neighbour."""
        self.ends[link] = LinkEnd(self.name, link, self.incarnation)
        self.ends = dict(sorted(self.ends.items()))
        self.unconfirmed[link] = deque()
        self.unconfirmed = dict(sorted(self.unconfirmed.items()))  # as after `restore`

    def subscription(self, id: EntryId) -> Entry | None:
        """The subscription or placeholder with this id."""
        return self.subscriptions.get(id) or self.placeholders.get(id)

    def sent_to(self, entry: Entry, link: str) -> None:
        """A subscription is forwarded to a link."""
        entry.forwarded = with_link(entry.forwarded, link)
        if self.sent is not None:
            self.sent.update(entry)

    def taken_from(self, entry: Entry, link: str) -> None:
        """It is not any more."""
        entry.forwarded = without_link(entry.forwarded, link)
        if self.sent is not None:
            self.sent.update(entry)

    def take_back(self, table: Table, entry: Entry) -> None:
        """An entry ended of which another neighbour still tells: see in a while."""
        table.taken_back[entry.id] = entry.filter
        self.out.do(SetTimer(TAKEOVER_TIMER, self.now_us + TAKEOVER_WAIT_US))

    def nobody(self) -> InFlight:
        """Where data messages come from that nobody waits for."""
        return InFlight(Window(), 1, None, "", 1)

    def count_control(self, link: str, message: Message) -> None:
        """Count and trace a message to a neighbour that is no publication."""
        tag = message.__struct_config__.tag
        assert isinstance(tag, str)
        sent = self.counters.messages_sent
        sent[tag] = sent.get(tag, 0) + 1
        if self.trace.enabled:
            size, entries = len(_encode(message)), entries_of(message)
            self.trace.control_sent(self.now_us, link, tag, size, entries)

    def finish(self, pending: InFlight) -> None:
        """One copy of a data message is confirmed, or need not be."""
        pending.left -= 1
        if pending.left:
            return
        pending.window.finish(pending.number)
        if pending.link in self.ends:
            self.out.touched[pending.link] = None
        elif pending.client:
            self.out.confirming[pending.client] = None
        for other in pending.also or ():
            self.finish(other)
