"""`byway pipeline`: traces and sweeps on Spark.

Exit codes: 0 done, 1 a run failed or its checks did not hold, or Spark could not do it, 2 the input
cannot be understood.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from byway.cli.app import fail, new_app, refuse
from byway.pipeline.errors import SessionError, SweepError, TableError
from byway.pipeline.session import need_spark, open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from byway.pipeline.sweeps import Outcome, Sweep

app = new_app(help="Analyse traces and run sweeps, on Spark.")

Master = Annotated[
    str | None, typer.Option(metavar="URL", help="A cluster; not given: this machine, local[*].")
]
Remote = Annotated[
    str | None, typer.Option(metavar="sc://HOST:PORT", help="Spark Connect instead of a cluster.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@contextmanager
def _spark(master: str | None, remote: str | None) -> Iterator[SparkSession]:
    """A session; what goes wrong in it is told in a line."""
    try:
        need_spark()
    except SessionError as error:
        fail(error)
    from pyspark.errors import PySparkException

    try:
        with open_session(master, remote) as session:
            yield session
    except (SweepError, TableError) as error:
        refuse(error)
    except SessionError as error:
        fail(error)
    except PySparkException as error:
        fail(f"Spark failed: {str(error).partition(chr(10))[0]}")


# --- analyse ----------------------------------------------------------------------------------


@app.command()
def analyse(
    traces: Annotated[
        list[Path], typer.Argument(metavar="TRACES...", help="Trace files, or directories of them.")
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write all tables there, as Parquet.")
    ] = None,
    every_s: Annotated[
        float,
        typer.Option("--every", min=0.000001, help="Seconds between two sizes of a queue."),
    ] = 1.0,
    edges: Annotated[
        bool, typer.Option("--edges", help="Write the steps of every publication, too.")
    ] = False,
    as_json: AsJson = False,
    master: Master = None,
    remote: Remote = None,
) -> None:
    """Tell what brokers did, live or simulated, from the traces they wrote."""
    from byway.pipeline.schemas import SUMMARY, TRACE
    from byway.pipeline.tables import checked_files, read_files, write_table

    try:
        files = checked_files(TRACE, *traces)
    except TableError as error:
        refuse(error)
    with _spark(master, remote) as spark:
        from byway.pipeline.traces import analyse as analysed

        analysis = analysed(read_files(spark, TRACE, files), every_s=every_s, with_edges=edges)
        summaries = [row.asDict() for row in analysis.summary.orderBy("run").collect()]
        if out is not None:
            for table, frame in analysis.tables.items():
                write_table(frame, table, out / table.name)
        analysis.release()
    if as_json:
        typer.echo(msgspec.json.encode({"runs": summaries}))
    else:
        _show_summaries(summaries, [column.name for column in SUMMARY.columns])
    if out is not None:
        Console(stderr=True, highlight=False).print(f"tables: {out}", soft_wrap=True)
    lost = sum(summary["rows_lost"] for summary in summaries)
    if lost:
        Console(stderr=True).print(f"{lost:,} rows were lost: the traces are not complete.")


def _show_summaries(summaries: list[dict[str, Any]], names: list[str]) -> None:
    """One column a run."""
    console = Console(highlight=False)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("run")
    for summary in summaries:
        table.add_column(summary["run"], justify="right")
    for name in names:
        if name not in ("run", "messages_by_kind"):
            table.add_row(name.replace("_", " "), *(_figure(s[name]) for s in summaries))
        elif name == "messages_by_kind":
            for kind in sorted({kind for s in summaries for kind in s[name]}):
                table.add_row(f"  {kind}", *(_figure(s[name].get(kind, 0)) for s in summaries))
    console.print(table)


def _figure(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,.3f}" if isinstance(value, float) else f"{value:,}"


# --- sweep ------------------------------------------------------------------------------------


@app.command()
def sweep(
    file: Annotated[Path, typer.Argument(metavar="SWEEP.toml", help="The sweep.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Keep runs, metrics and traces there.")],
    as_json: AsJson = False,
    master: Master = None,
    remote: Remote = None,
) -> None:
    """Run a scenario for every point of a grid and every seed; a second start runs what is missing.

    The exit code is 0 if all runs are there and their checks held, 1 if not, 2 if the input cannot
    be understood.
    """
    try:
        from byway.pipeline.sweeps import read_sweep, run_sweep

        plan = read_sweep(file)
    except SweepError as error:
        refuse(error)
    with _spark(master, remote) as spark, _bar(plan) as progress:
        outcome = run_sweep(spark, plan, out, progress)
    if as_json:
        typer.echo(msgspec.json.encode({"sweep": plan.name, **outcome.facts()}))
    else:
        _show_outcome(plan, outcome)
    raise typer.Exit(0 if outcome.ok else 1)


@contextmanager
def _bar(plan: Sweep) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(plan.name, total=len(plan.runs))
        yield lambda done: bar.update(task, completed=done)


def _show_outcome(plan: Sweep, outcome: Outcome) -> None:
    console = Console(highlight=False)
    console.print(Text(f"{plan.name}: {len(plan.runs):,} runs", "bold cyan"))
    console.print(f"{outcome.made:,} made, {outcome.found:,} found, {len(outcome.failed):,} failed")
    for run, error in outcome.failed:
        settings = " ".join(f"{key}={value}" for key, value in run.settings.items())
        console.print(Text(f"  {settings} seed {run.seed}: {error}", "red"), soft_wrap=True)
    if outcome.violated:
        told = f"In {outcome.violated:,} runs a check did not hold: see `violations`."
        console.print(Text(told, "bold red"))
    console.print(f"metrics: {outcome.metrics}", soft_wrap=True)
