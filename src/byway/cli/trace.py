"""`byway trace`: follow one subscription or publication through brokers.

Exit codes: 0 it was found, 1 it was not, 2 the input cannot be understood or read.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from byway.cli.app import counted, new_app, refuse
from byway.model import BywayError

if TYPE_CHECKING:  # reading takes long to import, and shells ask for options alone
    from byway.story import Source, Story, StoryStep

SIMULATED_US_MAX = 1_000_000_000_000_000
"""Times up to this, the year 2001, are of a simulation, which begins at 0."""

app = new_app(help="Follow one subscription or publication through brokers.")


@app.callback()
def trace() -> None:
    """Follow one subscription or publication through brokers."""


@app.command()
def story(
    id: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="CLIENT/NAME of a subscription or advertisement, PUBLISHER/SEQUENCE or "
            "PUBLISHER/INCARNATION/SEQUENCE of a publication.",
        ),
    ],
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...", help="Directories of trace files, and data directories of brokers."
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print what touched a subscription or publication, broker by broker, in order.

    Trace files tell of publications. Data directories (byway broker --data) tell of subscriptions,
    advertisements and publications, as far as the journal since the last snapshot goes. They are
    only read: the brokers may run.
    """
    from byway.story import read_story

    try:
        found = read_story(id, paths)
    except BywayError as error:
        refuse(error)
    if as_json:
        typer.echo(msgspec.json.encode(found))
    else:
        _show(found)
    raise typer.Exit(0 if found.steps else 1)


def _show(found: Story) -> None:
    stderr = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)
    if found.steps:
        Console(highlight=False).print(Text(_title(found), "bold cyan"), _table(found.steps))
    else:
        stderr.print(f"nothing about {found.id} was found")
    for source in found.sources:
        stderr.print(f"searched {_source(source)}")
        for note in source.notes:
            stderr.print(f"  {note}")


def _title(found: Story) -> str:
    return ", ".join(dict.fromkeys(step.id for step in found.steps))


def _table(steps: tuple[StoryStep, ...]) -> Table:
    """One line a step; a broker is named in its first line, and a column that says the same
    everywhere is left out."""
    columns: dict[str, list[str]] = {
        "run": [step.run for step in steps],
        "broker": [step.broker for step in steps],
        "hop": ["" if step.hop is None else str(step.hop) for step in steps],
        "time": [_time(step.at_us) for step in steps],
        "what": [step.what for step in steps],
        "from or to": [_way(step) for step in steps],
        "id": [step.id for step in steps],
        "detail": [step.detail for step in steps],
        "in": [str(step.evidence) for step in steps],
    }
    for name in ("run", "id", "in"):
        if len(set(columns[name]) - {""}) < 2:
            del columns[name]
    if not any(columns["hop"]):
        del columns["hop"]
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name in columns:
        table.add_column(name, overflow="fold", no_wrap=name == "time")
    groups = [(step.run if "run" in columns else "", step.broker) for step in steps]
    for number, group in enumerate(groups):
        row = {name: cells[number] for name, cells in columns.items()}
        if number and group == groups[number - 1]:
            row["broker"] = ""
        table.add_row(*map(Text, row.values()))
    return table


def _way(step: StoryStep) -> str:
    ways = (("from", step.origin), ("to", step.target))
    return ", ".join(f"{word} {name}" for word, name in ways if name)


def _time(at_us: int | None) -> str:
    if at_us is None:
        return "before"
    if at_us <= SIMULATED_US_MAX:
        return f"{at_us / 1e6:.6f} s"
    moment = datetime.fromtimestamp(at_us // 1_000_000, UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{at_us % 1_000_000:06}"


def _source(source: Source) -> str:
    if source.kind == "trace":
        files = counted(source.files, "file")
        return f"{source.path}: a trace of {counted(source.records, 'row')} in {files}"
    inputs, journals = counted(source.records, "input"), counted(source.files, "journal")
    return f"{source.path}: broker {source.broker}, its snapshot and {inputs} in {journals}"
