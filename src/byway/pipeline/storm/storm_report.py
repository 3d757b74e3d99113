"""Runs the storm live and simulated under each policy, analyses the traces with Spark, and writes
the report page."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from math import nan
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from byway.pipeline.pages import render
from byway.pipeline.papers import Paper
from byway.pipeline.schemas import TRACE
from byway.pipeline.spark_session import open_session
from byway.pipeline.storm.live import run_live
from byway.pipeline.storm.script import BROKERS, DEGREE, POLICIES, Script
from byway.pipeline.storm.simulated import run_simulated
from byway.pipeline.storm.storm_plots import Line, draw
from byway.pipeline.storm.time_series import (
    begin_of,
    control_over_time,
    delays_over_time,
    tables_over_time,
)
from byway.pipeline.table_files import read_table
from byway.pipeline.traces import analyse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVERY_S: Final = 0.25
REPORTED: Final = (
    ("publications", "publications"),
    ("deliveries", "deliveries"),
    ("yield", "yield: share of brokers that handled a publication and had a match for it"),
    ("mean_delay_ms", "mean delay, ms"),
    ("delay_ms_p99", "99th percentile of the delay, ms"),
    ("false_positives", "publications received where nobody wanted them"),
    ("stirred", "subscriptions and unsubscriptions between brokers since the first publication"),
)


class StormReport(NamedTuple):
    """The results of a storm, and where its page is."""

    runs: list[dict[str, Any]]
    """The summary of each run."""
    is_exact: bool
    """Whether every subscriber received exactly the publications it should, in every run."""
    page: Path


def report_storm(
    directory: Path, say: Callable[[str], None], script: Script | None = None
) -> StormReport:
    """Run the storm live and simulated under each policy, and write the report into `directory`.

    `say` is called with a line about each step that is done.
    """
    script = script or Script()
    traces = directory / "traces"
    shutil.rmtree(traces, ignore_errors=True)
    summary = (
        f"{len(script.subscriptions):,} subscriptions at {BROKERS} brokers. {script.roots} of them "
        f"are broad, and each stands for {DEGREE} others; after {script.seconds / 2:g} s they end, "
        "one after another, while publishing goes on."
    )
    say(summary)
    expected, is_exact = script.expected(), True
    for policy in POLICIES:
        began_s = monotonic()
        is_exact &= asyncio.run(run_live(script, policy, traces / f"live-{policy}")) == expected
        say(f"live, {policy}: {monotonic() - began_s:.1f} s")
    for policy in POLICIES:
        began_s = monotonic()
        is_exact &= run_simulated(script, policy, traces / f"simulated-{policy}")
        say(f"simulated, {policy}: {monotonic() - began_s:.1f} s")
    page = directory / "report.html"
    began_s = monotonic()
    with open_session() as spark:
        runs = write_page(spark, traces, page, _remarks(summary, is_exact))
    say(f"analysed by Spark: {monotonic() - began_s:.1f} s")
    return StormReport(runs, is_exact, page)


def _remarks(summary: str, is_exact: bool) -> dict[str, str]:
    return {
        "script": summary,
        "exact": "Every subscriber received exactly what it should, live and simulated."
        if is_exact
        else "Not every subscriber received exactly what it should.",
        "live": f"{BROKERS} brokers in one process, over TCP on loopback.",
        "simulated": "the same brokers under a simulated clock, as slow as those of "
        f"“{Paper.INCREMENTAL}”.",
    }


def write_page(
    spark: SparkSession, directory: Path, page: Path, remarks: dict[str, str]
) -> list[Any]:
    """Analyse the traces below a directory, write the page, and return a summary of each run."""
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
            "storm",
            remarks=remarks,
            runs=[s["run"] for s in summaries],
            rows=[(label, [s[name] for s in summaries]) for name, label in REPORTED],
            plots=[
                draw(control, "control messages a second"),
                draw(delays, "mean delay, ms"),
                draw(tables, "entries in all tables"),
            ],
        )
    )
    return summaries


def _lines(frame: DataFrame, empty: float | None = None) -> list[Line]:
    """One line for each run, from a frame of a few hundred rows. `empty` is the value of intervals
    that have none."""
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
