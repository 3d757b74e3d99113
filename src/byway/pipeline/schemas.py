"""Schemas: every table of the pipeline, its version, its columns and what they mean.

Nothing is read, written or computed here. The trace's columns are the model's; the others are
declared below, those of workloads in `workload_schemas`. A changed or new column raises the version
of its table.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from byway.model import trace_schema as trace
from byway.model.measurement import (
    CONTROL_MESSAGES,
    COPIES,
    DELIVERIES,
    FALSE_POSITIVES,
    HOPS_MEANING,
    MATCHED_BROKERS,
    MESSAGES_MEANING,
    PUBLICATION_HOPS,
    PUBLICATIONS,
    PURE_FORWARDERS,
    REFUSED_COPIES,
    TABLE_ENTRIES_MEANING,
    YIELD_MEANING,
    CountedWord,
)

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


def counted(word: CountedWord) -> Column:
    """A column of how often something was counted."""
    return integer(word.name, word.meaning)


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

_HANDLED: Final = (counted(MATCHED_BROKERS), counted(PURE_FORWARDERS))
_UNWANTED: Final = (counted(FALSE_POSITIVES), counted(REFUSED_COPIES))
_SENT: Final = (
    counted(COPIES),
    integer("publication_bytes", "their size"),
    counted(CONTROL_MESSAGES),
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
        counted(PUBLICATIONS),
        counted(PUBLICATION_HOPS),
        counted(DELIVERIES),
        *_HANDLED,
        measure("yield", YIELD_MEANING),
        *_UNWANTED,
        integer("dropped", "publications dropped, or their copies for one link or client"),
        measure("mean_hops", f"{HOPS_MEANING}, on average"),
        Column("hops_max", _INT32, True, "the most links crossed by a delivery"),
        measure("mean_delay_ms", "delay from the home broker to the subscriber, on average"),
        measure("delay_ms_p50", "median of the delay"),
        measure("delay_ms_p95", "95th percentile of the delay"),
        measure("delay_ms_p99", "99th percentile of the delay"),
        measure("delay_ms_max", "the longest delay"),
        integer("messages", MESSAGES_MEANING),
        Column("messages_by_kind", _COUNTS, False, "the same by kind"),
        *_SENT,
        measure("control_share", "control messages / messages"),
        measure("brokers_per_publication", "brokers in the delivery tree, on average"),
        integer("rows", "rows of the trace, without samples of queues and tables"),
        integer("rows_lost", "rows lost because a broker's buffer was full"),
    ),
)

HOPS: Final = TableSchema(
    "hops",
    1,
    (
        _RUN,
        Column("hop", _INT32, False, "broker-to-broker links crossed"),
        integer("deliveries", "deliveries that crossed this many links"),
        measure("share", "deliveries that crossed this many links or fewer / all deliveries"),
    ),
)

DELAYS: Final = TableSchema(
    "delays",
    1,
    (
        _RUN,
        integer("delay_us", "delay from the home broker to the subscriber"),
        integer("deliveries", "deliveries with this delay"),
    ),
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
        integer("dropped", "publications dropped, or their copies for one link or client"),
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
        integer("brokers", "brokers that were sampled; the last sample of each counts"),
        integer("count_total", "messages or entries in it, summed over brokers"),
        integer("count_max", "messages or entries in it, at the broker with the most"),
        integer("bytes_total", "bytes of the queued messages, summed over brokers", nullable=True),
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
        integer("t_pub_us", "when the publisher's broker accepted the publication"),
        integer("brokers", "brokers that handled the publication"),
        Column("depth", _INT32, True, "the most links between the root and a broker"),
        *_HANDLED,
        *_UNWANTED,
        integer("bypassed", "brokers that soft links left out"),
        integer("deliveries", "clients that received it"),
        integer(
            "delay_us_max",
            "the longest delay of its deliveries; null: there is none",
            nullable=True,
        ),
        integer("copies", "links that brokers chose to forward it over"),
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
    text("id", "the run's id: a hash of its scenario, settings and seed"),
    text("sweep", "the sweep it was first run for"),
    text("scenario", "the name of the scenario"),
    Column("settings", _WORDS, False, "options that the sweep set, as `byway simulate --set` does"),
    integer("seed", "the seed"),
)

METRICS: Final = TableSchema(
    "metrics",
    2,
    (
        *_PLANNED,
        Column("ok", _BOOLEAN, False, "all checks held, and so did the scenario's expectations"),
        counted(PUBLICATIONS),
        counted(DELIVERIES),
        integer("missing", "required deliveries that did not happen"),
        integer("spurious", "deliveries that no subscription of the client matches"),
        integer("duplicates", "deliveries that happened twice"),
        integer("out_of_order", "deliveries after a later publication of the same publisher"),
        integer("messages", MESSAGES_MEANING),
        Column("messages_by_kind", _COUNTS, False, "the same by kind"),
        *_HANDLED,
        counted(FALSE_POSITIVES),
        measure("yield", YIELD_MEANING),
        measure("mean_hops", f"{HOPS_MEANING}, on average"),
        measure("mean_delay_ms", "delay from the home broker to the subscriber, on average"),
        measure("delay_ms_p50", "median of the delay"),
        measure("delay_ms_p95", "95th percentile of the delay"),
        measure("delay_ms_p99", "99th percentile of the delay"),
        measure("delay_ms_max", "the longest delay"),
        integer(
            "bytes_sent",
            "bytes sent between brokers; null where nothing limits them",
            nullable=True,
        ),
        counted(PUBLICATION_HOPS),
        integer(
            "subscription_hops",
            "subscriptions that brokers sent one another, each one of a pack counted",
        ),
        integer("peak_queue", "the most messages that waited at one broker at one time"),
        integer("table_entries", f"{TABLE_ENTRIES_MEANING}, at the end"),
        integer("table_entries_peak", "the same, at its peak"),
        integer("redelivered", "deliveries repeated after a crash, which clients dropped"),
        integer("lost_in_sessions", "deliveries dropped because a session was full"),
        Column("violations_by_kind", _COUNTS, False, "violations that the checkers found"),
        Column("violations", _TEXTS, False, "the first violations, a sentence each"),
        integer("brokers", "brokers of the network"),
        integer("clients", "clients of the network"),
        measure("simulated_s", "simulated time until the network was idle"),
        measure("wall_s", "real time that the simulation took"),
        integer("trace_rows", "rows of its trace; null: none was written", nullable=True),
        text("facts", "all that `byway simulate --json` prints, as JSON"),
    ),
)

REQUESTS: Final = TableSchema(
    "requests",
    1,
    (
        _RUN,
        text("publisher", "the client that was to publish"),
        integer("sequence", "its number for the publication"),
        integer("t_us", "when the scenario let it publish"),
    ),
)

FAILURES: Final = TableSchema(
    "failures",
    1,
    (
        *_PLANNED,
        Column("attempt", _INT32, False, "number of attempts so far"),
        text("error", "the error, in one line"),
        text("details", "the traceback, if there was one"),
    ),
)


# --- claims -----------------------------------------------------------------------------------

MEASURED: Final = TableSchema(
    "measured",
    1,
    (
        _RUN,
        Column(
            "measured",
            ColumnType.MEASURES,
            False,
            "by the path that `byway simulate --json` has below `measured`, the value in its trace",
        ),
    ),
)

ESTIMATES: Final = TableSchema(
    "estimates",
    2,
    (
        text("claim", "the claim"),
        text("measure", "what was measured"),
        text("unit", "its unit; empty: a number"),
        text("at", "the variation of the setup; empty: there is one only"),
        text("contender", "the contender that was measured, such as a policy"),
        integer("runs", "runs, each with a seed of its own"),
        integer("traced", "runs of these whose trace was measured; of the others, counters were"),
        Column("mean", _DOUBLE, False, "mean over the runs"),
        Column("low", _DOUBLE, False, "lower end of the mean's 95 % interval"),
        Column("high", _DOUBLE, False, "upper end of the mean's 95 % interval"),
    ),
)
