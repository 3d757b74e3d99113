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
    """The type of a column, as Spark names it."""

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
    """One column of a table; it is nullable where there may be no value."""

    name: str
    type: ColumnType
    nullable: bool
    meaning: str


class TableSchema(NamedTuple):
    """A declared table. A `lenient` one is read with unknown columns, which are left out, and in
    older versions, whose missing columns are null."""

    name: str
    version: int
    columns: tuple[Column, ...]
    lenient: bool = False

    @property
    def names(self) -> list[str]:
        """Names of the columns, in order."""
        return [column.name for column in self.columns]

    def spark_schema(self) -> StructType:
        """The Spark schema. All columns are nullable there: Spark cannot promise more of a file."""
        from pyspark.sql.types import StructType

        schema = StructType.fromDDL(self.ddl())
        assert isinstance(schema, StructType)
        return schema

    def ddl(self) -> str:
        """The columns as an SQL declaration."""
        return ", ".join(f"`{column.name}` {column.type}" for column in self.columns)

    def arrow_schema(self) -> Any:
        """The Arrow schema, with the version of the table in its metadata."""
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


def text(name: str, meaning: str, *, nullable: bool = False) -> Column:
    """A column of strings."""
    return Column(name, ColumnType.STRING, nullable, meaning)


def integer(name: str, meaning: str, *, nullable: bool = False) -> Column:
    """A column of 64-bit integers."""
    return Column(name, ColumnType.INT64, nullable, meaning)


def measure(name: str, meaning: str) -> Column:
    """A column of floating-point numbers, null where there is nothing to measure."""
    return Column(name, ColumnType.DOUBLE, True, meaning)


_RUN: Final = text("run", "the run")
_BROKER: Final = text("broker", "the broker")

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
    integer("matched_brokers", "(publication, broker) pairs with a local match"),
    integer("pure_forwarders", "the same without one, where the publication came from a neighbour"),
)
_UNWANTED: Final = (
    integer("false_positives", "publications from a neighbour that nobody wants, here or beyond"),
    integer("duplicates", "publications refused because the broker had them already"),
)
_SENT: Final = (
    integer("publications_sent", "copies of publications sent to brokers"),
    integer("publication_bytes", "their size"),
    integer("control_messages", "messages sent to brokers that are no publications"),
    integer("control_entries", "entries in them"),
    integer("control_bytes", "their size"),
)

SUMMARY: Final = TableSchema(
    "summary",
    1,
    (
        _RUN,
        integer("brokers", "brokers that wrote rows"),
        measure("span_s", "from the first row to the last"),
        integer("publications", "accepted by home brokers"),
        integer("publication_hops", "publications that brokers took from one another"),
        integer("deliveries", "(publication, client) pairs"),
        *_HANDLED,
        measure("yield", "matched brokers / (matched brokers + pure forwarders)"),
        *_UNWANTED,
        integer("dropped", "publications, or copies of one, that went no further"),
        measure("mean_hops", "broker-to-broker links, over deliveries"),
        Column("hops_max", _INT32, True, "the most of them"),
        measure("mean_delay_ms", "from the home broker to the subscriber, over deliveries"),
        measure("delay_ms_p50", "not exceeded by half of the deliveries"),
        measure("delay_ms_p95", "not exceeded by 95 % of them"),
        measure("delay_ms_p99", "not exceeded by 99 % of them"),
        measure("delay_ms_max", "the longest delay"),
        integer("messages", "publications and control messages sent to brokers"),
        Column("messages_by_kind", _COUNTS, False, "the same by kind"),
        *_SENT,
        measure("control_share", "control messages / messages"),
        measure("brokers_per_publication", "brokers in the delivery tree, in the mean"),
        integer("rows", "rows of the trace, samples of queues and tables apart"),
        integer("rows_lost", "rows that found no room in a broker's buffer"),
    ),
)

HOPS: Final = TableSchema(
    "hops",
    1,
    (
        _RUN,
        Column("hop", _INT32, False, "broker-to-broker links crossed"),
        integer("deliveries", "deliveries that crossed so many"),
        measure("share", "deliveries that crossed so many or fewer / deliveries"),
    ),
)

DELAYS: Final = TableSchema(
    "delays",
    1,
    (_RUN, integer("delay_us", "a delay"), integer("deliveries", "deliveries that took so long")),
)

BROKERS: Final = TableSchema(
    "brokers",
    1,
    (
        _RUN,
        _BROKER,
        integer("published", "publications of local clients"),
        integer("received", "publications from neighbours"),
        *_HANDLED,
        *_UNWANTED,
        integer("delivered", "publications given to local clients"),
        integer("dropped", "publications, or copies of one, that went no further"),
        integer("messages_in", "messages that brokers sent to it"),
        integer("bytes_in", "their size"),
        integer("messages_out", "messages that it sent to brokers"),
        integer("bytes_out", "their size"),
        measure("messages_in_per_s", "over the span of the run"),
        measure("messages_out_per_s", "over the span of the run"),
    ),
)

LINKS: Final = TableSchema(
    "links",
    1,
    (
        _RUN,
        _BROKER,
        text("link", "the neighbour it sent to"),
        *_SENT,
        measure("messages_per_s", "publications and control messages, over the span of the run"),
        measure("bytes_per_s", "their size, over the span of the run"),
    ),
)

CONTROL: Final = TableSchema(
    "control",
    1,
    (
        _RUN,
        text("kind", "the kind of message"),
        integer("messages", "sent to brokers"),
        integer("entries", "entries in them"),
        integer("bytes", "their size"),
    ),
)

SIZES: Final = TableSchema(
    "sizes",
    1,
    (
        _RUN,
        Column("t_s", _DOUBLE, False, "the start of an interval, on the brokers' clock"),
        text("what", "`queue` or `table`"),
        text("kind", "which queue or table"),
        integer("brokers", "brokers that were sampled; of each the last sample counts"),
        integer("count_total", "what was in it, summed over brokers"),
        integer("count_max", "what was in it at the broker that had the most"),
        integer("bytes_total", "the size of what was queued, summed over brokers", nullable=True),
    ),
)

_IDENTITY: Final = (
    _RUN,
    text("publisher", "the client that published"),
    integer("incarnation", "the publisher's incarnation"),
    integer("sequence", "the publisher's number for the publication"),
)

TREES: Final = TableSchema(
    "trees",
    1,
    (
        *_IDENTITY,
        text("home", "the publisher's broker, the root; null: not in the trace", nullable=True),
        integer("t_pub_us", "when it accepted the publication"),
        integer("brokers", "brokers that handled the publication"),
        Column("depth", _INT32, True, "the most links between the root and a broker"),
        *_HANDLED,
        *_UNWANTED,
        integer("bypassed", "brokers that soft links left out"),
        integer("deliveries", "clients that got it"),
        integer("delay_us_max", "until the last of them got it", nullable=True),
        integer("copies", "links that brokers chose to send it on"),
    ),
)

EDGES: Final = TableSchema(
    "edges",
    1,
    (
        *_IDENTITY,
        text("parent", "the broker the publication came from"),
        text("broker", "the broker it came to"),
        Column("hop", _INT32, False, "links between the root and that broker"),
        Column("span", _INT32, False, "primary hops of the link: 1 primary, more soft"),
        integer("t_us", "when it was handled there"),
    ),
)


# --- sweeps -----------------------------------------------------------------------------------

_PLANNED: Final = (
    text("id", "of the run: a hash of its scenario, settings and seed"),
    text("sweep", "the sweep it was first run for"),
    text("scenario", "the name of the scenario"),
    Column("settings", _WORDS, False, "what the sweep set in it, as `byway simulate --set` does"),
    integer("seed", "the seed"),
)

METRICS: Final = TableSchema(
    "metrics",
    1,
    (
        *_PLANNED,
        Column("ok", _BOOLEAN, False, "all checks held, and what was expected came"),
        integer("publications", "accepted by home brokers"),
        integer("deliveries", "(publication, client) pairs"),
        integer("missing", "deliveries that were owed and did not happen"),
        integer("spurious", "deliveries that no subscription of the client matches"),
        integer("duplicates", "deliveries that happened twice"),
        integer("out_of_order", "deliveries after a later one of the same publisher"),
        integer("messages", "broker to broker"),
        Column("messages_by_kind", _COUNTS, False, "the same by kind"),
        *_HANDLED,
        measure("yield", "matched brokers / (matched brokers + pure forwarders)"),
        measure("mean_hops", "broker-to-broker links, over deliveries"),
        measure("mean_delay_ms", "from the home broker to the subscriber, over deliveries"),
        measure("delay_ms_p50", "not exceeded by half of the deliveries"),
        measure("delay_ms_p95", "not exceeded by 95 % of them"),
        measure("delay_ms_p99", "not exceeded by 99 % of them"),
        measure("delay_ms_max", "the longest delay"),
        integer("bytes_sent", "broker to broker; null where nothing limits them", nullable=True),
        integer("publication_hops", "publications that brokers took from one another"),
        integer("subscription_hops", "subscriptions that brokers sent one another"),
        integer("peak_queue", "messages that waited at one broker at one time, at most"),
        integer("table_entries", "subscriptions in the tables of all brokers, in the end"),
        integer("table_entries_peak", "the same, at most"),
        integer("redelivered", "deliveries dropped by clients, sent again after a crash"),
        integer("lost_in_sessions", "deliveries that found no room in a session"),
        Column("violations_by_kind", _COUNTS, False, "what the checkers found"),
        Column("violations", _TEXTS, False, "the first of them in words"),
        integer("brokers", "brokers of the network"),
        integer("clients", "clients of the network"),
        measure("simulated_s", "until nothing was under way any more"),
        measure("wall_s", "what it took to simulate that"),
        text("facts", "all that `byway simulate --json` prints, as JSON"),
    ),
)

FAILURES: Final = TableSchema(
    "failures",
    1,
    (
        *_PLANNED,
        Column("attempt", _INT32, False, "how often it was tried by then"),
        text("error", "what happened, in a line"),
        text("details", "the traceback, if there was one"),
    ),
)


# --- claims -----------------------------------------------------------------------------------

ESTIMATES: Final = TableSchema(
    "estimates",
    1,
    (
        text("claim", "the claim"),
        text("measure", "what was measured"),
        text("unit", "its unit; empty: a number"),
        text("at", "the variation of the setup; empty: there is one only"),
        text("contender", "who was measured"),
        integer("runs", "runs, each with a seed of its own"),
        Column("mean", _DOUBLE, False, "their mean"),
        Column("low", _DOUBLE, False, "the lower end of its 95 % interval"),
        Column("high", _DOUBLE, False, "the upper end"),
    ),
)
