"""Telling: what Spark finds in the traces of the storm, and the page that shows it.

Frames in, frames out, and one page. Times count from the first publication of a run.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from math import nan
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from byway.model.trace_schema import Event
from byway.pipeline.pages import render
from byway.pipeline.schemas import TRACE
from byway.pipeline.spark_session import open_session
from byway.pipeline.storm import live, simulated
from byway.pipeline.storm.script import BROKERS, DEGREE, POLICIES, Script
from byway.pipeline.storm.storm_plots import Line, draw
from byway.pipeline.table_files import read_table
from byway.pipeline.traces import analyse
from byway.pipeline.traces.tallies import is_event

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVERY_S: Final = 0.25
SHOWN: Final = (
    ("publications", "publications"),
    ("deliveries", "deliveries"),
    ("yield", "yield: useful among brokers that handled a publication"),
    ("mean_delay_ms", "mean delay, ms"),
    ("delay_ms_p99", "delay not exceeded by 99 %, ms"),
    ("false_positives", "publications that nobody wanted where they came"),
    ("stirred", "subscriptions and unsubscriptions between brokers since the first publication"),
)


class Told(NamedTuple):
    """What came of the story."""

    runs: list[dict[str, Any]]
    """The summary of each."""
    is_exact: bool
    """Whether everyone got what it had to."""
    page: Path


def tell_all(directory: Path, say: Callable[[str], None], script: Script | None = None) -> Told:
    """Let the storm happen live and simulated under each policy, and tell what Spark finds."""
    script = script or Script()
    traces = directory / "traces"
    shutil.rmtree(traces, ignore_errors=True)
    summary = (
        f"{len(script.subscriptions):,} subscriptions at {BROKERS} brokers. {script.roots} of them "
        f"are broad, and each stands for {DEGREE} others; after {script.seconds / 2:g} s they end, "
        "one after the other, while publications go on."
    )
    say(summary)
    expected, is_exact = script.expected(), True
    for policy in POLICIES:
        began_s = monotonic()
        is_exact &= asyncio.run(live.play(script, policy, traces / f"live-{policy}")) == expected
        say(f"live, {policy}: {monotonic() - began_s:.1f} s")
    for policy in POLICIES:
        began_s = monotonic()
        is_exact &= simulated.play(script, policy, traces / f"simulated-{policy}").ok
        say(f"simulated, {policy}: {monotonic() - began_s:.1f} s")
    page = directory / "report.html"
    began_s = monotonic()
    with open_session() as spark:
        runs = tell(spark, traces, page, _remarks(summary, is_exact))
    say(f"analysed by Spark: {monotonic() - began_s:.1f} s")
    return Told(runs, is_exact, page)


def _remarks(summary: str, is_exact: bool) -> dict[str, str]:
    return {
        "script": summary,
        "exact": "Everyone got what it had to, live and simulated."
        if is_exact
        else "Not everyone got what it had to.",
        "live": f"{BROKERS} brokers in one process, over TCP on loopback.",
        "simulated": "the same brokers under a simulated clock, as slow as those of document 003.",
    }


def tell(spark: SparkSession, directory: Path, page: Path, remarks: dict[str, str]) -> list[Any]:
    """Analyse the traces below a directory, write the page; the summaries, a run each."""
    trace = read_table(spark, TRACE, directory)
    analysis = analyse(trace, every_s=EVERY_S)
    summaries = [row.asDict() for row in analysis.summary.orderBy("run").collect()]
    begin = begin_of(trace)
    control = _lines(control_over_time(trace, begin, EVERY_S), empty=0.0)
    delays = _lines(delays_over_time(trace, begin, EVERY_S), empty=nan)
    tables = _lines(tables_over_time(trace, begin, EVERY_S))
    analysis.release()
    stirred = {line.run: round(sum(line.values) * EVERY_S) for line in control}
    for summary in summaries:
        summary["stirred"] = stirred.get(summary["run"], 0)
    page.write_text(
        render(
            "story",
            remarks=remarks,
            runs=[s["run"] for s in summaries],
            rows=[(label, [s[name] for s in summaries]) for name, label in SHOWN],
            plots=[
                draw(control, "control messages a second"),
                draw(delays, "mean delay, ms"),
                draw(tables, "entries in all tables"),
            ],
        )
    )
    return summaries


# --- what is asked --------------------------------------------------------------------------------


def begin_of(trace: DataFrame) -> DataFrame:
    """By run, when the first publication was made."""
    from pyspark.sql import functions as f

    published = trace.where(is_event(Event.PUBLISHED))
    return published.groupBy("run").agg(f.min("t_us").alias("begin_us"))


def control_over_time(trace: DataFrame, begin: DataFrame, every_s: float) -> DataFrame:
    """Subscriptions and unsubscriptions that brokers sent one another, a second."""
    from pyspark.sql import functions as f

    sent = trace.where(is_event(Event.CONTROL_SENT) & f.col("kind").isin("sub", "subs", "unsub"))
    return (
        sent.join(begin, "run")
        .where("t_us >= begin_us")
        .groupBy("run", _interval("t_us", every_s).alias("t_s"))
        .agg((f.sum("count") / every_s).alias("value"))
    )


def delays_over_time(trace: DataFrame, begin: DataFrame, every_s: float) -> DataFrame:
    """How long publications of an interval took, in the mean."""
    from pyspark.sql import functions as f

    return (
        trace.where(is_event(Event.DELIVERED))
        .join(begin, "run")
        .groupBy("run", _interval("t_pub_us", every_s).alias("t_s"))
        .agg((f.avg(f.col("t_us") - f.col("t_pub_us")) / 1000).alias("value"))
    )


def tables_over_time(trace: DataFrame, begin: DataFrame, every_s: float) -> DataFrame:
    """Entries of all subscription tables at the end of each interval, as far as they were sampled.

    Brokers are sampled at their own times, so that each counts with its last sample.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    samples = trace.where(is_event(Event.TABLE_SAMPLED) & (f.col("kind") == "subscriptions"))
    of_broker = Window.partitionBy("run", "broker").orderBy("t_us")
    of_run = Window.partitionBy("run").orderBy("t_us")
    grown = f.col("count") - f.coalesce(f.lag("count").over(of_broker), f.lit(0))
    return (
        samples.select("run", "t_us", grown.alias("grown"))
        .select("run", "t_us", f.sum("grown").over(of_run).alias("entries"))
        .join(begin, "run")
        .where("t_us >= begin_us")
        .groupBy("run", _interval("t_us", every_s).alias("t_s"))
        .agg(f.max_by("entries", "t_us").cast("double").alias("value"))
    )


def _interval(column: str, every_s: float) -> Any:
    from pyspark.sql import functions as f

    return f.floor((f.col(column) - f.col("begin_us")) / (every_s * 1_000_000)) * every_s


def _lines(frame: DataFrame, empty: float | None = None) -> list[Line]:
    """One line a run, of a frame of a few hundred rows; `empty` is the value of intervals without
    one."""
    found: dict[str, dict[int, float]] = {}
    for row in frame.orderBy("run", "t_s").collect():
        found.setdefault(row["run"], {})[round(row["t_s"] / EVERY_S)] = float(row["value"])
    until = max((number for values in found.values() for number in values), default=-1) + 1
    lines = []
    for run, values in sorted(found.items()):
        if empty is not None:
            values = {number: values.get(number, empty) for number in range(until)}
        lines.append(Line(run, [n * EVERY_S for n in values], list(values.values())))
    return lines
