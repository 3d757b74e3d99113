"""What is counted of a network, each word defined once.

Brokers count it (`core.counters`), their traces hold it (`trace_schema`), the simulator and Spark
add it up: all of them mean what is declared here, and a test holds their numbers to each other.
How anything is counted is not known here. `docs/reference/measures.md` is the page about it.

Words about pairs count a broker once for each of its lives: one that restarts without its state is
a new participant (`incarnation`), and what it handles again counts again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from byway.model.messages import Publish, Subscribe, SubscribeAlong, SubscribeMany
from byway.model.trace_schema import DropReason, TraceEvent

PUBLICATION_KIND: Final = str(Publish.__struct_config__.tag)
"""The kind of a message that carries a publication."""
SUBSCRIPTION_KINDS: Final = tuple(
    str(message.__struct_config__.tag) for message in (Subscribe, SubscribeAlong, SubscribeMany)
)
"""The kinds of messages that carry subscriptions."""


class RowRule(NamedTuple):
    """Which rows of a trace count; a condition that is None is not looked at."""

    events: tuple[TraceEvent, ...]
    is_matched: bool | None = None
    """Whether the filter of a local client matched: `matches > 0`."""
    is_passed_on: bool | None = None
    """Whether the broker chose a link to send it on: `copies > 0`."""
    kind: str | None = None

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Whether a row with the columns of the trace counts."""
        return (
            row["event"] in self.events
            and (self.is_matched is None or (row["matches"] > 0) is self.is_matched)
            and (self.is_passed_on is None or (row["copies"] > 0) is self.is_passed_on)
            and (self.kind is None or row["kind"] == self.kind)
        )

    def __str__(self) -> str:
        """The rule as the page about measures has it."""
        names = " and ".join(f"`{event.name}`" for event in self.events)
        conditions = [
            *([] if self.is_matched is None else [_compared("matches", self.is_matched)]),
            *([] if self.is_passed_on is None else [_compared("copies", self.is_passed_on)]),
            *([] if self.kind is None else [f"`kind = '{self.kind}'`"]),
        ]
        return f"{names} rows" + (f" with {' and '.join(conditions)}" if conditions else "")


def _compared(column: str, is_positive: bool) -> str:
    return f"`{column} > 0`" if is_positive else f"`{column} = 0`"


class CountedWord(NamedTuple):
    """A word for something that is counted."""

    name: str
    meaning: str
    rows: RowRule
    """The rows of a trace that count."""
    counter: str
    """The attribute of a broker's counters that is raised with each of these rows."""


PUBLICATIONS: Final = CountedWord(
    "publications",
    "publications accepted by home brokers",
    RowRule((TraceEvent.PUBLISHED,)),
    "publications_published",
)
PUBLICATION_HOPS: Final = CountedWord(
    "publication_hops",
    "publications that brokers took from neighbours: neither duplicates nor beyond the limit of "
    "hops",
    RowRule((TraceEvent.RECEIVED,)),
    "publications_received",
)
MATCHED_BROKERS: Final = CountedWord(
    "matched_brokers",
    "pairs of a publication and a broker with a local match",
    RowRule((TraceEvent.PUBLISHED, TraceEvent.RECEIVED), is_matched=True),
    "matched",
)
PURE_FORWARDERS: Final = CountedWord(
    "pure_forwarders",
    "pairs of a publication and a broker that took it from a neighbour and had no local match",
    RowRule((TraceEvent.RECEIVED,), is_matched=False),
    "pure_forwarders",
)
FALSE_POSITIVES: Final = CountedWord(
    "false_positives",
    "pure forwarders that had no neighbour to forward the publication to",
    RowRule((TraceEvent.RECEIVED,), is_matched=False, is_passed_on=False),
    "false_positives",
)
DELIVERIES: Final = CountedWord(
    "deliveries",
    "pairs of a publication and a client",
    RowRule((TraceEvent.DELIVERED,)),
    "deliveries",
)
REFUSED_COPIES: Final = CountedWord(
    "duplicates",
    "publications refused because the broker had them already",
    RowRule((TraceEvent.DROPPED,), kind=DropReason.DUPLICATE.value),
    "duplicates",
)
COPIES: Final = CountedWord(
    "publications_sent",
    "copies of publications sent to brokers; one that is sent again counts again",
    RowRule((TraceEvent.FORWARDED,)),
    "copies",
)
CONTROL_MESSAGES: Final = CountedWord(
    "control_messages",
    "messages other than publications sent to brokers, without link acknowledgements; one that is "
    "sent again counts again",
    RowRule((TraceEvent.CONTROL_SENT,)),
    "control_messages",
)

COUNTED: Final = (
    PUBLICATIONS,
    PUBLICATION_HOPS,
    DELIVERIES,
    MATCHED_BROKERS,
    PURE_FORWARDERS,
    FALSE_POSITIVES,
    REFUSED_COPIES,
    COPIES,
    CONTROL_MESSAGES,
)
"""All words that rows of a trace and counters of a broker are both about."""

# --- words that follow from these ---------------------------------------------------------------

YIELD_MEANING: Final = "the share of matched brokers in matched brokers and pure forwarders"
HOPS_MEANING: Final = "broker-to-broker links crossed by a delivery"
MESSAGES_MEANING: Final = (
    "messages sent between brokers, publications among them, without link acknowledgements; one "
    "that is sent again counts again"
)
TABLE_ENTRIES_MEANING: Final = (
    "subscriptions in the tables of all brokers, placeholders not among them"
)
