"""`byway simulate`: run a scenario file in the simulator, and print a summary.

Exit codes: 0 all checks held, 1 a check or an expectation failed, 2 the input is not valid.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from byway.cli.app import new_app, refuse
from byway.model import BywayError

if TYPE_CHECKING:  # the simulator takes long to import, and shells ask for options alone
    from byway.sim.run import RunResult
    from byway.sim.scenario import Scenario

app = new_app(help="Run a scenario file in the simulator.")


@app.command()
def simulate(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="The scenario.")],
    seed: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Seed of the run; by default the one in the file."),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write a trace of all brokers there, as Parquet."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a key of the file, such as network.latency_ms=5; may be repeated.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run the scenario in FILE.toml and print a summary.

    Every publication must reach each client with a matching subscription, once, in the order of its
    publisher, and in the end every broker must hold what it would in a network started afresh. The
    exit code is 0 if all of that held, and what the file expects came; 1 if not; 2 if the input
    cannot be understood. The same file and seed give the same run.
    """
    from byway.sim.scenario import ScenarioError, read_scenario
    from byway.sim.scenario.read import blamed, parse_setting
    from byway.sim.scenario.value_types import SEED_MAX

    if seed is not None and seed > SEED_MAX:
        refuse(f"--seed: expected a number from 0 to {SEED_MAX}, found {seed}")
    given = settings or []
    try:
        changes = [parse_setting(text) for text in given]
    except ScenarioError as error:
        refuse(error)
    try:
        scenario = read_scenario(file, given)
        result = _run(scenario, seed, trace)
    except ScenarioError as error:
        refuse(blamed(error, str(file), changes))
    except (BywayError, OSError) as error:
        refuse(error)
    if as_json:
        typer.echo(msgspec.json.encode(result.facts()))
    else:
        show(result, scenario.about)
    raise typer.Exit(0 if result.ok else 1)


def _run(scenario: Scenario, seed: int | None, trace: Path | None) -> RunResult:
    """Run the scenario, with a progress bar on a terminal."""
    from byway.sim.run import run_scenario

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(scenario.name, total=scenario.duration_s)
        return run_scenario(
            scenario, seed, trace, lambda now_us: bar.update(task, completed=now_us / 1_000_000)
        )


# --- showing it --------------------------------------------------------------------------------


def show(result: RunResult, about: str) -> None:
    """Print the summary of a run, and what was wrong with it."""
    console = Console(highlight=False)
    console.print(Text(f"{result.scenario}, seed {result.seed}", "bold cyan"))
    if about:
        console.print(Text(about))
    console.print(_table(result))
    if result.ok:
        console.print(Text("All checks held.", "green"))
        return
    console.print(Text(f"{_found(result)}:", "bold red"))
    for sentence in result.violations:
        console.print(Text(f"  {sentence}"), soft_wrap=True)


def _table(result: RunResult) -> Table:
    from byway.sim.run_summary import rows_of

    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_row("brokers", f"{result.brokers:,}")
    table.add_row("clients", f"{result.clients:,}")
    table.add_row("simulated time", f"{result.simulated_s:,.2f} s")
    table.add_row("took", f"{result.wall_s:,.2f} s")
    for group in rows_of(result.metrics, result.report, result.measures):
        table.add_row()
        for word, measured in group:
            table.add_row(word, measured)
    return table


def _found(result: RunResult) -> str:
    counts = {
        **result.facts()["violations_by_kind"],
        "expectations": len(result.unmet_expectations),
    }
    return ", ".join(f"{kind}: {count:,}" for kind, count in counts.items() if count)
