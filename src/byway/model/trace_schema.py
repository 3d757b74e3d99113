"""The schema of the trace: one flat table of a broker's work, live or simulated.

This file defines the events, the columns, and which event fills which columns. It is the only place
that does: buffers and files are made from it, and the documentation is tested against it. It must
not know how a trace is stored or read. Numbers of events, names and types of columns are never
changed or reused; new ones are added (docs/reference/trace.md has the promise).
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Final, NamedTuple

SCHEMA_VERSION: Final = 1


class TraceEvent(IntEnum):
    """The event of a row. The numbers are in files: a number is never given to another event."""

    PUBLISHED = 1
    RECEIVED = 2
    FORWARDED = 3
    DELIVERED = 4
    DROPPED = 5
    QUEUE_SAMPLED = 6
    TABLE_SAMPLED = 7
    CONTROL_SENT = 8
    LINK_CHANGED = 9
    RECONFIGURED = 10
    TRACE_LOST = 11


class TraceColumnType(StrEnum):
    """The type of a column; a string column is dictionary-encoded."""

    INT8 = "int8"
    INT32 = "int32"
    INT64 = "int64"
    STRING = "string"


class TraceColumn(NamedTuple):
    """One column of the trace; `meaning` holds for every event that fills it."""

    name: str
    type: TraceColumnType
    nullable: bool
    meaning: str


_INT8, _INT32, _INT64, _STRING = TraceColumnType

COLUMNS: Final = (
    TraceColumn("run", _STRING, False, "the run the row belongs to"),
    TraceColumn("broker", _STRING, False, "the broker that wrote the row"),
    TraceColumn("event", _INT8, False, "the number of the event"),
    TraceColumn("t_us", _INT64, False, "when it happened, microseconds on the broker's clock"),
    TraceColumn("publisher", _STRING, True, "the client that published"),
    TraceColumn(
        "incarnation", _INT64, True, "the publisher's incarnation, within which `sequence` counts"
    ),
    TraceColumn("sequence", _INT64, True, "the publisher's number for the publication"),
    TraceColumn(
        "t_pub_us", _INT64, True, "when the publisher's home broker accepted the publication"
    ),
    TraceColumn("hop", _INT32, True, "broker-to-broker links crossed to reach this broker"),
    TraceColumn("distance", _INT32, True, "primary hops since it last matched two entries or more"),
    TraceColumn("link", _STRING, True, "the broker at the other end of the link"),
    TraceColumn("span", _INT32, True, "primary hops of the link: 1 primary, more soft, 0 unknown"),
    TraceColumn("client", _STRING, True, "the local client concerned"),
    TraceColumn("matches", _INT32, True, "local clients whose filters matched"),
    TraceColumn("copies", _INT32, True, "links the broker chose to send the publication on"),
    TraceColumn(
        "size_bytes", _INT64, True, "encoded size: of the message, or of all that is queued"
    ),
    TraceColumn("kind", _STRING, True, "the message, reason, queue, table, change or operation"),
    TraceColumn("count", _INT64, True, "how many: entries of a message or table, messages, rows"),
    TraceColumn(
        "operation", _STRING, True, "id of the reconfiguration, the same at all its brokers"
    ),
    TraceColumn("phase", _STRING, True, "the step of the reconfiguration that was reached"),
)


class Filled(NamedTuple):
    """The nullable columns an event fills: the required always, the optional where they apply.

    All others are null. Only strings are optional.
    """

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()


_IDENTITY = ("publisher", "incarnation", "sequence")
_PUBLICATION = (*_IDENTITY, "t_pub_us", "hop", "distance", "size_bytes")

FILLED: Final[dict[TraceEvent, Filled]] = {
    TraceEvent.PUBLISHED: Filled((*_PUBLICATION, "matches", "copies")),
    TraceEvent.RECEIVED: Filled((*_PUBLICATION, "link", "span", "matches", "copies")),
    TraceEvent.FORWARDED: Filled((*_PUBLICATION, "link", "span")),
    TraceEvent.DELIVERED: Filled((*_PUBLICATION, "client")),
    TraceEvent.DROPPED: Filled((*_PUBLICATION, "kind"), ("link", "client")),
    TraceEvent.QUEUE_SAMPLED: Filled(("kind", "count", "size_bytes"), ("link", "publisher")),
    TraceEvent.TABLE_SAMPLED: Filled(("kind", "count"), ("link",)),
    TraceEvent.CONTROL_SENT: Filled(("kind", "link", "count", "size_bytes")),
    TraceEvent.LINK_CHANGED: Filled(("kind", "link", "span")),
    TraceEvent.RECONFIGURED: Filled(("kind", "operation", "phase"), ("link", "publisher")),
    TraceEvent.TRACE_LOST: Filled(("count",)),
}


class DropReason(StrEnum):
    """The values of `kind` in DROPPED rows."""

    DUPLICATE = "duplicate"  # the broker had this publication already
    NONCONFORMING = "nonconforming"  # its publisher advertised nothing it conforms to
    QUEUE_FULL = "queue_full"
    LINK_LOST = "link_lost"
    CLIENT_GONE = "client_gone"
    HOP_LIMIT = "hop_limit"  # it travelled too far: the overlay has a cycle
    UNWANTED = "unwanted"  # kept for a neighbour until that said that it does not want it
    DISCARDED = "discarded"  # it could not be handled, and an operator gave it up


class Queue(StrEnum):
    """The values of `kind` in QUEUE_SAMPLED rows; with a link, the queue of that link. Those of
    publishers have words of their own, since the same messages are in the queues of links."""

    INPUT = "input"
    INPUT_PEAK = "input_peak"  # the most that were in it since measuring began; simulated only
    OUTPUT = "output"
    HELD = "held"  # kept back for the order of a publisher
    UNCONFIRMED = "unconfirmed"  # sent, and kept until confirmed
    PARKED = "parked"  # kept for a dead neighbour, or until there is a way round it
    PUBLISHER_UNCONFIRMED = "publisher_unconfirmed"
    PUBLISHER_HELD = "publisher_held"
    PUBLISHER_PARKED = "publisher_parked"


QUEUES_OF_PUBLISHERS: Final = (
    Queue.PUBLISHER_UNCONFIRMED,
    Queue.PUBLISHER_HELD,
    Queue.PUBLISHER_PARKED,
)
"""Those that have a row for each of the publishers with the most."""


class TableKind(StrEnum):
    """The values of `kind` in TABLE_SAMPLED rows; with a link, only what is kept for that link."""

    SUBSCRIPTIONS = "subscriptions"
    ADVERTISEMENTS = "advertisements"
    FORWARDED = "forwarded"  # subscriptions sent on over a link
    PRESERVED = "preserved"  # subscriptions that ended, and stand for others on some links
    MERGED = "merged"  # filters that stand for several subscriptions


class LinkChange(StrEnum):
    """The values of `kind` in LINK_CHANGED rows."""

    OPENED = "opened"
    CLOSED = "closed"
    LOST = "lost"
    RESUMED = "resumed"


class Reconfiguration(StrEnum):
    """The values of `kind` in RECONFIGURED rows."""

    EXCHANGE = "exchange"  # of a primary link
    MIGRATION = "migration"  # of a publisher
    BYPASS = "bypass"  # of a dead neighbour
