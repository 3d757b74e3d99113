"""`byway pipeline`: traces and sweeps on Spark; `pipeline_tables` has the commands on tables.

Exit codes: 0 done, 1 a run failed or its checks did not hold, or Spark failed, 2 the input is not
valid.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from byway.cli import pipeline_tables
from byway.cli.app import Seconds, new_app, refuse, time_option
from byway.cli.spark import AsJson, Master, Remote, progress_bar, spark_session
from byway.cli.summaries import shown
from byway.pipeline.pipeline_errors import SweepError, TableError

if TYPE_CHECKING:
    from byway.pipeline.sweeps import Sweep, SweepOutcome

FAILURES_SHOWN = 20
"""Runs that failed, of which the command prints why."""
SIZE_MAX_MIB = 4_096
EVERY_S_MIN = 0.000001
EVERY_S_MAX = 1_000_000_000.0

FORMATS = ("%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S")
Since = Annotated[
    datetime | None,
    typer.Option(metavar="TIME", formats=list(FORMATS), help="Rows from this time on, in UTC."),
]
Until = Annotated[
    datetime | None,
    typer.Option(metavar="TIME", formats=list(FORMATS), help="Rows before this time, in UTC."),
]

app = new_app(help="Analyse traces, run sweeps and match workloads, on Spark.")


# --- analyse ----------------------------------------------------------------------------------


@app.command()
def analyse(
    traces: Annotated[
        list[str], typer.Argument(metavar="TRACES...", help="Trace files, or directories of them.")
    ],
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Write all tables there as Parquet.")
    ] = None,
    since: Since = None,
    until: Until = None,
    every_s: Annotated[
        float,
        time_option(
            "--every",
            help="Interval of queue and table sizes.",
            least=EVERY_S_MIN,
            most=EVERY_S_MAX,
        ),
    ] = Seconds(1),
    edges: Annotated[
        bool,
        typer.Option(
            "--edges", help="Write a table of the links that every publication crossed, too."
        ),
    ] = False,
    as_json: AsJson = False,
    master: Master = None,
    remote: Remote = None,
) -> None:
    """Analyse the traces of live or simulated brokers."""
    from byway.pipeline.schemas import SUMMARY

    if since is not None and until is not None and since >= until:
        refuse(f"--until {until:%Y-%m-%dT%H:%M:%S}: expected a time after --since")

    with (
        spark_session(master, remote) as spark,
        progress_bar("analysing") as progress,
    ):
        from byway.pipeline.jobs import run_action
        from byway.pipeline.table_files import check_place
        from byway.pipeline.traces import computed_once, read_traces, write_tables

        if out is not None:
            check_place(spark, out)
        trace = read_traces(spark, *traces, since=since, until=until)
        with computed_once(trace, every_s) as tables:
            ordered = tables.summary.orderBy("run")
            rows = run_action(spark, ordered.collect, progress, SUMMARY.name)
            if out is not None:
                write_tables(tables, out, with_edges=edges, progress=progress)
    summaries = [row.asDict() for row in rows]
    if as_json:
        typer.echo(msgspec.json.encode({"runs": summaries}))
    elif not summaries:
        chosen = " in this time" if since is not None or until is not None else ""
        typer.echo(f"the trace has no rows{chosen}")
    else:
        console = Console(highlight=False)
        for line in shown(summaries, SUMMARY.names, console.width):
            console.print(Text(line), soft_wrap=True)
    if out is not None:
        Console(stderr=True, highlight=False).print(f"tables: {out}", soft_wrap=True)
    lost = sum(summary["rows_lost"] for summary in summaries)
    if lost:
        Console(stderr=True).print(f"{lost:,} rows were lost: the traces are not complete.")


# --- compact ----------------------------------------------------------------------------------


@app.command()
def compact(
    traces: Annotated[
        str, typer.Argument(metavar="DIR", help="A directory of traces; all workers must see it.")
    ],
    size_mib: Annotated[
        int,
        typer.Option(
            "--size", metavar="MIB", min=1, max=SIZE_MAX_MIB, help="The largest file to make."
        ),
    ] = 128,
    keep_s: Annotated[
        float,
        time_option(
            "--keep",
            help="How long replaced files stay for readers that have listed them.",
            most=EVERY_S_MAX,
        ),
    ] = Seconds(3_600),
    as_json: AsJson = False,
    master: Master = None,
    remote: Remote = None,
) -> None:
    """Merge the small trace files of live brokers, while they write and others read."""
    with (
        spark_session(master, remote) as spark,
        progress_bar("merging") as progress,
    ):
        from byway.pipeline.traces import compact as compacted

        outcome = compacted(
            spark, traces, target_bytes=size_mib * 2**20, keep_s=keep_s, progress=progress
        )
    if as_json:
        typer.echo(msgspec.json.encode(outcome.facts()))
        return
    console = Console(highlight=False)
    console.print(
        f"{outcome.merged:,} files with {outcome.rows:,} rows became {outcome.into:,}; "
        f"{outcome.removed:,} replaced files were removed",
        soft_wrap=True,
    )


# --- sweep ------------------------------------------------------------------------------------


@app.command()
def sweep(
    file: Annotated[Path, typer.Argument(metavar="SWEEP.toml", help="The sweep.")],
    out: Annotated[
        str,
        typer.Option(
            metavar="DIR",
            help="Keep runs, metrics and traces there; all workers must see the directory.",
        ),
    ],
    as_json: AsJson = False,
    master: Master = None,
    remote: Remote = None,
) -> None:
    """Run a scenario for every point of a grid and every seed; a second start runs what is missing.

    The exit code is 0 if all runs are there and their checks held, 1 if not, 2 if the input is not
    valid.
    """
    try:
        from byway.pipeline.sweeps import read_sweep, run_sweep, sweep_directory

        directory = sweep_directory(out)
        with progress_bar("planning") as planned:
            plan = read_sweep(file, planned)
    except (SweepError, TableError) as error:
        refuse(error)
    with (
        spark_session(master, remote) as spark,
        progress_bar(plan.name, len(plan.runs)) as progress,
    ):
        outcome = run_sweep(spark, plan, directory, progress)
    if as_json:
        typer.echo(msgspec.json.encode({"sweep": plan.name, **outcome.facts()}))
    else:
        _show_outcome(plan, outcome)
    raise typer.Exit(0 if outcome.ok else 1)


def _show_outcome(plan: Sweep, outcome: SweepOutcome) -> None:
    console = Console(highlight=False)
    console.print(Text(f"{plan.name}: {len(plan.runs):,} runs", "bold cyan"))
    console.print(f"{outcome.made:,} made, {outcome.found:,} found, {len(outcome.failed):,} failed")
    for run, error in outcome.failed[:FAILURES_SHOWN]:
        settings = " ".join(f"{key}={value}" for key, value in run.settings.items())
        console.print(Text(f"  {settings} seed {run.seed}: {error}", "red"), soft_wrap=True)
    if len(outcome.failed) > FAILURES_SHOWN:
        console.print(f"  and {len(outcome.failed) - FAILURES_SHOWN:,} more: see `failures`")
    if outcome.violated:
        warning = f"In {outcome.violated:,} runs a check did not hold: see `violations`."
        console.print(Text(warning, "bold red"))
    console.print(f"metrics: {outcome.metrics}", soft_wrap=True)


pipeline_tables.add_to(app)
