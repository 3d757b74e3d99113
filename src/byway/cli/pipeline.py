"""`byway pipeline`: traces and sweeps on Spark; `pipeline_tables` has the commands on tables.

Exit codes: 0 done, 1 a run failed or its checks did not hold, or Spark failed, 2 the input is not
valid.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from byway.cli import pipeline_tables as tables
from byway.cli.app import Seconds, new_app, refuse, time_option
from byway.cli.spark import AsJson, Master, Remote, progress_bar, spark_session
from byway.pipeline.pipeline_errors import SweepError

if TYPE_CHECKING:
    from byway.pipeline.sweeps import Sweep, SweepOutcome

PADDING = 2
"""Blanks between the columns of a table."""
EVERY_S_MIN = 0.000001
EVERY_S_MAX = 1_000_000_000.0

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
    from byway.pipeline.schemas import SUMMARY, TRACE
    from byway.pipeline.table_files import read_table

    with spark_session(master, remote) as spark:
        from byway.pipeline.traces import analyse as analysed

        analysis = analysed(read_table(spark, TRACE, *traces), every_s=every_s, with_edges=edges)
        summaries = [row.asDict() for row in analysis.summary.orderBy("run").collect()]
        if out is not None:
            analysis.write(out)
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
    """Print a table with one column for each run; runs that do not fit beside one another come in
    a further table below."""
    console = Console(highlight=False)
    labels, cells = ["run"], [[summary["run"]] for summary in summaries]
    for name in names:
        if name not in ("run", "messages_by_kind"):
            labels.append(name.replace("_", " "))
            for column, summary in zip(cells, summaries, strict=True):
                column.append(_figure(summary[name]))
        elif name == "messages_by_kind":
            for kind in sorted({kind for s in summaries for kind in s[name]}):
                labels.append(f"  {kind}")
                for column, summary in zip(cells, summaries, strict=True):
                    column.append(_figure(summary[name].get(kind, 0)))
    widths = [max(cell_len(cell) for cell in column) + PADDING for column in cells]
    first = max(map(len, labels)) + PADDING
    room = console.width - first
    for number, chosen in enumerate(side_by_side(widths, room)):
        console.width = first + max(room, sum(widths[chosen]))  # a long name does not wrap either
        if number:
            console.print()
        table = Table(box=None, padding=(0, PADDING, 0, 0), pad_edge=False)
        table.add_column(labels[0], no_wrap=True)
        for column in cells[chosen]:
            table.add_column(Text(column[0]), justify="right", no_wrap=True)
        for row in zip(labels[1:], *(column[1:] for column in cells[chosen]), strict=True):
            table.add_row(*row)
        console.print(table)


def side_by_side(widths: Sequence[int], width: int) -> Iterator[slice]:
    """Parts of a row of columns, in order: each as many columns as fit into `width`, at least
    one."""
    begin, used = 0, 0
    for number, own in enumerate(widths):
        if number > begin and used + own > width:
            yield slice(begin, number)
            begin, used = number, 0
        used += own
    if widths:
        yield slice(begin, len(widths))


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

    The exit code is 0 if all runs are there and their checks held, 1 if not, 2 if the input is not
    valid.
    """
    try:
        from byway.pipeline.sweeps import read_sweep, run_sweep

        plan = read_sweep(file)
    except SweepError as error:
        refuse(error)
    with (
        spark_session(master, remote) as spark,
        progress_bar(plan.name, len(plan.runs)) as progress,
    ):
        outcome = run_sweep(spark, plan, out, progress)
    if as_json:
        typer.echo(msgspec.json.encode({"sweep": plan.name, **outcome.facts()}))
    else:
        _show_outcome(plan, outcome)
    raise typer.Exit(0 if outcome.ok else 1)


def _show_outcome(plan: Sweep, outcome: SweepOutcome) -> None:
    console = Console(highlight=False)
    console.print(Text(f"{plan.name}: {len(plan.runs):,} runs", "bold cyan"))
    console.print(f"{outcome.made:,} made, {outcome.found:,} found, {len(outcome.failed):,} failed")
    for run, error in outcome.failed:
        settings = " ".join(f"{key}={value}" for key, value in run.settings.items())
        console.print(Text(f"  {settings} seed {run.seed}: {error}", "red"), soft_wrap=True)
    if outcome.violated:
        warning = f"In {outcome.violated:,} runs a check did not hold: see `violations`."
        console.print(Text(warning, "bold red"))
    console.print(f"metrics: {outcome.metrics}", soft_wrap=True)


tables.add_to(app)
