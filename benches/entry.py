"""What every bench does: choose sections, run them, print each as it is done, write the results.

It measures nothing itself. A quick or partial run writes only where it is told to.
"""

import gc
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from benches.report import TEXT_WIDTH, Report, Section
from benches.run import Run

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class Bench:
    """A named bench and its sections."""

    name: str
    about: str
    preface: list[str]
    sections: dict[str, Callable[[Run], Section]]

    def start(self) -> None:
        """Read the command line and run."""
        some = f"Some sections only: {', '.join(self.sections)}."
        elsewhere = "Write the results there, not to benches/results."

        def main(
            quick: Annotated[bool, typer.Option(help="A twentieth of the sizes.")] = False,
            only: Annotated[list[str] | None, typer.Option(metavar="NAME", help=some)] = None,
            out: Annotated[Path | None, typer.Option(metavar="DIR", help=elsewhere)] = None,
        ) -> None:
            self.run(quick, only or [], out)

        app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        app.command(help=self.about)(main)
        app()

    def run(self, quick: bool, only: list[str], out: Path | None) -> None:
        """Run some sections, or all."""
        unknown = sorted(set(only) - set(self.sections))
        if unknown:
            raise typer.BadParameter(f"no such section: {', '.join(unknown)}", param_hint="--only")
        chosen = {name: m for name, m in self.sections.items() if not only or name in only}
        if out is None and not quick and not only:
            out = RESULTS
        console = Console(width=None if sys.stdout.isatty() else TEXT_WIDTH)
        report = Report(f"byway: {self.name}", quick, self.preface)
        console.print(report.head())
        gc.disable()  # it would walk a million live filters again and again
        _measure_all(console, report, chosen)
        console.print(report.verdict())
        if out is not None:
            report.write(out, self.name)
            written = f"{out / self.name}.json and {out / self.name}.txt"
            console.print(f"written to {written}", style="dim")


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
