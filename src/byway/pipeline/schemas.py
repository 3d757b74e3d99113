"""Schemas: every table of the pipeline, its version, its columns and what they mean.

Nothing is read, written or computed here. The trace's columns are the model's; the others are
declared below, those of workloads in `workload_schemas`. A changed or new column raises the version
of its table.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from byway.model import trace_schema as trace

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class ColumnType(StrEnum):
    """How a column is stored, in Spark's words."""

    BOOLEAN = "boolean"
    INT8 = "tinyint"
    INT32 = "int"
    INT64 = "bigint"
    DOUBLE = "double"
    STRING = "string"
    TEXTS = "array<string>"
    WORDS = "map<string,string>"
    COUNTS = "map<string,bigint>"
    MEASURES = "map<string,double>"
    FLAGS = "map<string,boolean>"


class Column(NamedTuple):
    """One column; `nullable` where there may be nothing to measure."""

    name: str
    type: ColumnType
    nullable: bool
    meaning: str


class TableSchema(NamedTuple):
    """A declared table. A `lenient` one is read with columns it does not know, which are left out,
    and in older versions, whose missing columns are null."""

    name: str
    version: int
    columns: tuple[Column, ...]
    lenient: bool = False

    @property
    def names(self) -> list[str]:
        """Of its columns, in order."""
        return [column.name for column in self.columns]

    def spark_schema(self) -> StructType:
        """For Spark. Everything is nullable there: Spark cannot promise more of a file."""
        from pyspark.sql.types import StructType

        schema = StructType.fromDDL(self.ddl())
        assert isinstance(schema, StructType)
        return schema

    def ddl(self) -> str:
        """The columns as SQL declares them."""
        return ", ".join(f"`{column.name}` {column.type}" for column in self.columns)

    def arrow_schema(self) -> Any:
        """For pyarrow, with the version in its metadata."""
        import pyarrow as pa

        from byway.trace.parquet_footer import version_key

        types = {
            ColumnType.BOOLEAN: pa.bool_(),
            ColumnType.INT8: pa.int8(),
            ColumnType.INT32: pa.int32(),
            ColumnType.INT64: pa.int64(),
            ColumnType.DOUBLE: pa.float64(),
            ColumnType.STRING: pa.string(),
            ColumnType.TEXTS: pa.list_(pa.string()),
            ColumnType.WORDS: pa.map_(pa.string(), pa.string()),
            ColumnType.COUNTS: pa.map_(pa.string(), pa.int64()),
            ColumnType.MEASURES: pa.map_(pa.string(), pa.float64()),
            ColumnType.FLAGS: pa.map_(pa.string(), pa.bool_()),
        }
        fields = [pa.field(c.name, types[c.type], nullable=c.nullable) for c in self.columns]
        return pa.schema(fields, metadata={version_key(self.name): str(self.version).encode()})


_BOOLEAN, _INT8, _INT32, _INT64, _DOUBLE, _STRING, _TEXTS, _WORDS, _COUNTS, *_ = ColumnType
_RUN: Final = Column("run", _STRING, False, "the run")
_BROKER: Final = Column("broker", _STRING, False, "the broker")


def _count(name: str, meaning: str) -> Column:
    return Column(name, _INT64, False, meaning)


def _measure(name: str, meaning: str) -> Column:
    return Column(name, _DOUBLE, True, meaning)


# --- traces -----------------------------------------------------------------------------------

_TRACE_TYPES: Final = {
    trace.TraceColumnType.INT8: _INT8,
    trace.TraceColumnType.INT32: _INT32,
    trace.TraceColumnType.INT64: _INT64,
    trace.TraceColumnType.STRING: _STRING,
}

TRACE: Final = TableSchema(
    "trace",
    trace.SCHEMA_VERSION,
    tuple(Column(c.name, _TRACE_TYPES[c.type], c.nullable, c.meaning) for c in trace.COLUMNS),
    lenient=True,
)

_HANDLED: Final = (
    _count("matched_brokers", "(publication, broker) pairs with a local match"),
    _count("pure_forwarders", "the same without one, where the publication came from a neighbour"),
)
_UNWANTED: Final = (
    _count("false_positives", "publications from a neighbour that nobody wants, here or beyond"),
    _count("duplicates", "publications refused because the broker had them already"),
)
_SENT: Final = (
    _count("publications_sent", "copies of publications sent to brokers"),
    _count("publication_bytes", "their size"),
    _count("control_messages", "messages sent to brokers that are no publications"),
    _count("control_entries", "entries in them"),
    _count("control_bytes", "their size"),
)

SUMMARY: Final = TableSchema(
    "summary",
    1,
    (
        _RUN,
        _count("brokers", "brokers that wrote rows"),
        _measure("span_s", "from the first row to the last"),
        _count("publications", "accepted by home brokers"),
        _count("publication_hops", "publications that brokers took from one another"),
        _count("deliveries", "(publication, client) pairs"),
        *_HANDLED,
        _measure("yield", "matched brokers / (matched brokers + pure forwarders)"),
        *_UNWANTED,
        _count("dropped", "publications, or copies of one, that went no further"),
        _measure("mean_hops", "broker-to-broker links, over deliveries"),
        Column("hops_max", _INT32, True, "the most of them"),
        _measure("mean_delay_ms", "from the home broker to the subscriber, over deliveries"),
        _measure("delay_ms_p50", "not exceeded by half of the deliveries"),
        _measure("delay_ms_p95", "not exceeded by 95 % of them"),
        _measure("delay_ms_p99", "not exceeded by 99 % of them"),
        _measure("delay_ms_max", "the longest delay"),
        _count("messages", "publications and control messages sent to brokers"),
        Column("messages_by_kind", _COUNTS, False, "the same by kind"),
        *_SENT,
        _measure("control_share", "control messages / messages"),
        _measure("brokers_per_publication", "brokers in the delivery tree, in the mean"),
        _count("rows", "rows of the trace, samples of queues and tables apart"),
        _count("rows_lost", "rows that found no room in a broker's buffer"),
    ),
)

HOPS: Final = TableSchema(
    "hops",
    1,
    (
        _RUN,
        Column("hop", _INT32, False, "broker-to-broker links crossed"),
        _count("deliveries", "deliveries that crossed so many"),
        _measure("share", "deliveries that crossed so many or fewer / deliveries"),
    ),
)

DELAYS: Final = TableSchema(
    "delays",
    1,
    (_RUN, _count("delay_us", "a delay"), _count("deliveries", "deliveries that took so long")),
)

BROKERS: Final = TableSchema(
    "brokers",
    1,
    (
        _RUN,
        _BROKER,
        _count("published", "publications of local clients"),
        _count("received", "publications from neighbours"),
        *_HANDLED,
        *_UNWANTED,
        _count("delivered", "publications given to local clients"),
        _count("dropped", "publications, or copies of one, that went no further"),
        _count("messages_in", "messages that brokers sent to it"),
        _count("bytes_in", "their size"),
        _count("messages_out", "messages that it sent to brokers"),
        _count("bytes_out", "their size"),
        _measure("messages_in_per_s", "over the span of the run"),
        _measure("messages_out_per_s", "over the span of the run"),
    ),
)

LINKS: Final = TableSchema(
    "links",
    1,
    (
        _RUN,
        _BROKER,
        Column("link", _STRING, False, "the neighbour it sent to"),
        *_SENT,
        _measure("messages_per_s", "publications and control messages, over the span of the run"),
        _measure("bytes_per_s", "their size, over the span of the run"),
    ),
)

CONTROL: Final = TableSchema(
    "control",
    1,
    (
        _RUN,
        Column("kind", _STRING, False, "the kind of message"),
        _count("messages", "sent to brokers"),
        _count("entries", "entries in them"),
        _count("bytes", "their size"),
    ),
)

SIZES: Final = TableSchema(
    "sizes",
    1,
    (
        _RUN,
        Column("t_s", _DOUBLE, False, "the start of an interval, on the brokers' clock"),
        Column("what", _STRING, False, "`queue` or `table`"),
        Column("kind", _STRING, False, "which queue or table"),
        _count("brokers", "brokers that were sampled; of each the last sample counts"),
        _count("count_total", "what was in it, summed over brokers"),
        _count("count_max", "what was in it at the broker that had the most"),
        Column("bytes_total", _INT64, True, "the size of what was queued, summed over brokers"),
    ),
)

_IDENTITY: Final = (
    _RUN,
    Column("publisher", _STRING, False, "the client that published"),
    _count("incarnation", "the publisher's incarnation"),
    _count("sequence", "the publisher's number for the publication"),
)

TREES: Final = TableSchema(
    "trees",
    1,
    (
        *_IDENTITY,
        Column("home", _STRING, True, "the publisher's broker, the root; null: not in the trace"),
        _count("t_pub_us", "when it accepted the publication"),
        _count("brokers", "brokers that handled the publication"),
        Column("depth", _INT32, True, "the most links between the root and a broker"),
        *_HANDLED,
        *_UNWANTED,
        _count("bypassed", "brokers that soft links left out"),
        _count("deliveries", "clients that got it"),
        Column("delay_us_max", _INT64, True, "until the last of them got it"),
        _count("copies", "links that brokers chose to send it on"),
    ),
)

EDGES: Final = TableSchema(
    "edges",
    1,
    (
        *_IDENTITY,
        Column("parent", _STRING, False, "the broker the publication came from"),
        Column("broker", _STRING, False, "the broker it came to"),
        Column("hop", _INT32, False, "links between the root and that broker"),
        Column("span", _INT32, False, "primary hops of the link: 1 primary, more soft"),
        Column("t_us", _INT64, False, "when it was handled there"),
    ),
)


# --- sweeps -----------------------------------------------------------------------------------

_PLANNED: Final = (
    Column("id", _STRING, False, "of the run: a hash of its scenario, settings and seed"),
    Column("sweep", _STRING, False, "the sweep it was first run for"),
    Column("scenario", _STRING, False, "the name of the scenario"),
    Column("settings", _WORDS, False, "what the sweep set in it, as `byway simulate --set` does"),
    Column("seed", _INT64, False, "the seed"),
)

METRICS: Final = TableSchema(
    "metrics",
    1,
    (
        *_PLANNED,
        Column("ok", _BOOLEAN, False, "all checks held, and what was expected came"),
        _count("publications", "accepted by home brokers"),
        _count("deliveries", "(publication, client) pairs"),
        _count("missing", "deliveries that were owed and did not happen"),
        _count("spurious", "deliveries that no subscription of the client matches"),
        _count("duplicates", "deliveries that happened twice"),
        _count("out_of_order", "deliveries after a later one of the same publisher"),
        _count("messages", "broker to broker"),
        Column("messages_by_kind", _COUNTS, False, "the same by kind"),
        *_HANDLED,
        _measure("yield", "matched brokers / (matched brokers + pure forwarders)"),
        _measure("mean_hops", "broker-to-broker links, over deliveries"),
        _measure("mean_delay_ms", "from the home broker to the subscriber, over deliveries"),
        _measure("delay_ms_p50", "not exceeded by half of the deliveries"),
        _measure("delay_ms_p95", "not exceeded by 95 % of them"),
        _measure("delay_ms_p99", "not exceeded by 99 % of them"),
        _measure("delay_ms_max", "the longest delay"),
        Column("bytes_sent", _INT64, True, "broker to broker; null where nothing limits them"),
        _count("publication_hops", "publications that brokers took from one another"),
        _count("subscription_hops", "subscriptions that brokers sent one another"),
        _count("peak_queue", "messages that waited at one broker at one time, at most"),
        _count("table_entries", "subscriptions in the tables of all brokers, in the end"),
        _count("table_entries_peak", "the same, at most"),
        _count("redelivered", "deliveries dropped by clients, sent again after a crash"),
        _count("lost_in_sessions", "deliveries that found no room in a session"),
        Column("violations_by_kind", _COUNTS, False, "what the checkers found"),
        Column("violations", _TEXTS, False, "the first of them in words"),
        _count("brokers", "brokers of the network"),
        _count("clients", "clients of the network"),
        _measure("simulated_s", "until nothing was under way any more"),
        _measure("wall_s", "what it took to simulate that"),
        Column("facts", _STRING, False, "all that `byway simulate --json` prints, as JSON"),
    ),
)

FAILURES: Final = TableSchema(
    "failures",
    1,
    (
        *_PLANNED,
        Column("attempt", _INT32, False, "how often it was tried by then"),
        Column("error", _STRING, False, "what happened, in a line"),
        Column("details", _STRING, False, "the traceback, if there was one"),
    ),
)


# --- claims -----------------------------------------------------------------------------------

ESTIMATES: Final = TableSchema(
    "estimates",
    1,
    (
        Column("claim", _STRING, False, "the claim"),
        Column("measure", _STRING, False, "what was measured"),
        Column("unit", _STRING, False, "its unit; empty: a number"),
        Column("at", _STRING, False, "the variation of the setup; empty: there is one only"),
        Column("contender", _STRING, False, "who was measured"),
        _count("runs", "runs, each with a seed of its own"),
        Column("mean", _DOUBLE, False, "their mean"),
        Column("low", _DOUBLE, False, "the lower end of its 95 % interval"),
        Column("high", _DOUBLE, False, "the upper end"),
    ),
)
