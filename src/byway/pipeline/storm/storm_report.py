"""Runs the storm live and simulated under each policy, analyses the traces with Spark, and writes
the report page."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Mapping, Sequence
from math import nan
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from byway.local.mesh_showcase import MESH_PICTURE, MeshOutcome
from byway.local.outage_showcase import BYPASS_AFTER_US, DEAD, OutageOutcome
from byway.local.showcase import PICTURE, ShowcaseOutcome
from byway.pipeline.pages import render
from byway.pipeline.papers import POLICIES_IN_A_LINE, Paper
from byway.pipeline.schemas import SUMMARY
from byway.pipeline.spark_session import open_session
from byway.pipeline.storm.finding import finding
from byway.pipeline.storm.live import run_live
from byway.pipeline.storm.script import BROKERS, DEGREE, POLICIES, Script
from byway.pipeline.storm.simulated import run_simulated
from byway.pipeline.storm.storm_plots import Line, draw, draw_mesh, draw_outage
from byway.pipeline.storm.time_series import (
    begin_of,
    control_over_time,
    delays_over_time,
    tables_over_time,
)
from byway.pipeline.table_files import on_this_machine, read_table, write_table
from byway.pipeline.traces import analyse, read_traces

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TRACES: Final = "traces"
EVERY_S: Final = 0.25
REPORTED: Final = (
    ("publications", "publications"),
    ("deliveries", "deliveries"),
    ("yield", "yield: of the brokers that handled a publication, the share that had a match"),
    ("mean_delay_ms", "mean delay, ms"),
    ("delay_ms_p99", "99th percentile of the delay, ms"),
    ("false_positives", "publications received where nobody wanted them"),
    ("stirred", "control messages between brokers since the first publication"),
)


PAPERS: Final = (
    (Paper.INCREMENTAL, "describes the burst and active covering, and is where the brokers' times "
     "per message in the simulation come from"),
    (Paper.SELECTIVE, "proposes selective pruning"),
    (Paper.MULTIPATH, "proposes the mesh"),
    (Paper.PLACEMENT, "is where the stock quotes of the seven brokers come from"),
)  # fmt: skip
"""The papers behind the demonstration, each with what it is used for."""


class StormReport(NamedTuple):
    """The results of a storm, and where its page is."""

    finding: str
    """What was found, in one sentence."""
    runs: list[dict[str, Any]]
    """The summary of each run."""
    is_exact: bool
    """Whether every subscriber received exactly the publications it should, in every run."""
    page: Path


def report_storm(
    directory: Path,
    say: Callable[[str], None],
    showcase: ShowcaseOutcome,
    mesh: MeshOutcome,
    outage: OutageOutcome,
    script: Script | None = None,
) -> StormReport:
    """Run the storm live and simulated under each policy, and write the report into `directory`.

    `say` is called with a line about each step that is done; the page also has the outcomes of
    `showcase`, `mesh` and `outage`.
    """
    script = script or Script()
    traces = directory / TRACES
    shutil.rmtree(traces, ignore_errors=True)
    setup = _setup(script)
    say(setup)
    expected, is_exact = script.expected(), True
    for policy in POLICIES:
        began_s = monotonic()
        is_exact &= asyncio.run(run_live(script, policy, traces / f"live-{policy}")) == expected
        say(f"live, {policy}: {monotonic() - began_s:.1f} s")
    for policy in POLICIES:
        began_s = monotonic()
        is_exact &= run_simulated(script, policy, traces / f"simulated-{policy}")
        say(f"simulated, {policy}: {monotonic() - began_s:.1f} s")
    began_s = monotonic()
    with open_session() as spark:
        runs, plots = measure(spark, traces, directory / SUMMARY.name)
    say(f"analysed by Spark: {monotonic() - began_s:.1f} s")
    found = finding(runs, script.roots, is_exact)
    page = directory / "report.html"
    page.write_text(demo_page(found, setup, runs, plots, showcase, mesh, outage))
    return StormReport(found, runs, is_exact, page)


def _setup(script: Script) -> str:
    return (
        f"{len(script.subscriptions):,} subscriptions at {BROKERS} brokers. {script.roots} of them "
        f"are broad, and each covers {DEGREE} others; after {script.seconds / 2:g} s they end, "
        "one after another, while publishing goes on."
    )


def measure(
    spark: SparkSession, directory: Path, target: Path
) -> tuple[list[dict[str, Any]], list[str]]:
    """A summary of each run whose trace is below a directory, which is written as a table, too, and
    plots of all of them."""
    trace = read_traces(spark, on_this_machine(directory))
    table = on_this_machine(target)
    write_table(analyse(trace).summary, SUMMARY, table)
    written = read_table(spark, SUMMARY, table).orderBy("run")
    summaries = [row.asDict() for row in written.collect()]
    begin = begin_of(trace)
    control = _lines(control_over_time(trace, begin, EVERY_S), empty=0.0)
    delays = _lines(delays_over_time(trace, begin, EVERY_S), empty=nan)
    tables = _lines(tables_over_time(trace, begin, EVERY_S))
    stirred = {line.run: round(sum(line.values) * EVERY_S) for line in control}
    for summary in summaries:
        summary["stirred"] = stirred.get(summary["run"], 0)
    return summaries, [
        draw(control, "control messages a second"),
        draw(delays, "mean delay, ms"),
        draw(tables, "entries in all tables"),
    ]


def demo_page(
    found: str,
    setup: str,
    runs: Sequence[Mapping[str, Any]],
    plots: Sequence[str],
    showcase: ShowcaseOutcome,
    mesh: MeshOutcome,
    outage: OutageOutcome,
) -> str:
    """The page of the demonstration: the finding, the storm, the seven brokers, the mesh, the dead
    broker, the papers."""
    return render(
        "storm",
        traces=TRACES,
        summary=SUMMARY.name,
        finding=found,
        setup=setup,
        policies={policy: POLICIES_IN_A_LINE[policy] for policy in POLICIES},
        runs=[run["run"] for run in runs],
        rows=[(label, [run[name] for run in runs]) for name, label in REPORTED],
        plots=plots,
        brokers=BROKERS,
        showcase=showcase,
        picture=PICTURE,
        mesh=mesh,
        mesh_picture=MESH_PICTURE,
        mesh_plots=draw_mesh(mesh),
        outage=outage,
        outage_plot=draw_outage(outage),
        dead=DEAD,
        bypass_after_s=BYPASS_AFTER_US / 1e6,
        papers=PAPERS,
    )


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
