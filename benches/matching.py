"""The matching bench: `python -m benches.matching`.

Runs the sections one after the other, prints each as it is done and writes what a complete run
found to `results/`; a quick or partial run writes only where `--out` says.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from benches.report import TEXT_WIDTH, Report, Section
from benches.run import Run
from benches.sections import (
    drift,
    growth,
    operators,
    parsing,
    relations,
    siena,
    startup,
    stocks,
    updates,
)

RESULTS = Path(__file__).parent / "results"
SECTIONS: dict[str, Callable[[Run], Section]] = {
    "startup": startup.measure,
    "parsing": parsing.measure,
    "siena": siena.measure,
    "stocks": stocks.measure,
    "updates": updates.measure,
    "relations": relations.measure,
    "drift": drift.measure,
    "operators": operators.measure,
    "growth": growth.measure,
}
PREFACE = [
    "naive: every filter asked in turn (NaiveIndex), on a sample, per publication.",
    "counting: satisfied predicates counted with numpy (CountingIndex), on the same sample.",
    "All of them gave the same answers on the sample. × tells how many times better byway is.",
    "Rates and times are of one core's processor time, the best of several rounds, collector off.",
    "On a busy machine the clock shows worse; figures by the clock say so.",
]


def main(
    quick: Annotated[bool, typer.Option("--quick", help="A twentieth of the sizes.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help=f"Some sections only: {', '.join(SECTIONS)}."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the results there, not to benches/results."),
    ] = None,
) -> None:
    """Measure matching against its targets and two baselines."""
    unknown = sorted(set(only or ()) - set(SECTIONS))
    if unknown:
        raise typer.BadParameter(f"no such section: {', '.join(unknown)}", param_hint="--only")
    chosen = {name: measure for name, measure in SECTIONS.items() if not only or name in only}
    if out is None and not quick and not only:
        out = RESULTS
    console = Console(width=None if sys.stdout.isatty() else TEXT_WIDTH)
    report = Report("byway: matching", quick, PREFACE)
    console.print(report.head())
    gc.disable()  # it would walk a million live filters again and again
    _measure_all(console, report, chosen)
    console.print(report.verdict())
    if out is not None:
        report.write(out, "matching")
        console.print(f"written to {out / 'matching.json'} and {out / 'matching.txt'}", style="dim")


def _measure_all(
    console: Console, report: Report, sections: dict[str, Callable[[Run], Section]]
) -> None:
    """Run the sections. The bar is drawn between steps only: no thread disturbs a measurement."""
    columns = (SpinnerColumn(), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, auto_refresh=False, transient=True) as progress:
        task = progress.add_task("", total=len(sections))
        for name, measure in sections.items():

            def step(text: str, name: str = name) -> None:
                progress.update(task, description=f"{name}: {text}", refresh=True)

            step("…")
            gc.collect()
            section = measure(Run(report.quick, step))
            report.sections.append(section)
            progress.print(section)
            progress.advance(task)


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(main)
    app()
