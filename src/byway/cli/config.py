"""`byway config`: look at the settings of a broker without running it.

Exit codes: 0 they can be used, 2 they cannot.
"""

from __future__ import annotations

import os
from typing import Annotated, Any

import msgspec
import typer

from byway.cli.app import new_app, refuse
from byway.runtime.config_sources import Reading, SettingsError, plain, read_settings

app = new_app(help="Check a broker's settings.")


@app.callback()
def config() -> None:
    """Look at the settings of a broker without running it."""


@app.command()
def check(
    file: Annotated[str, typer.Argument(metavar="FILE.toml")],
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Any setting, as for byway broker; may be repeated."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print the settings that a broker would run with, or all that is wrong with them.

    Variables such as BYWAY_LISTEN count, as they would for the broker.
    """
    try:
        reading = read_settings(file, os.environ, {}, settings or ())
    except SettingsError as error:
        refuse(error)
    for note in reading.notes:
        typer.echo(f"warning: {note}", err=True)
    tables = _tables(reading)
    if as_json:
        typer.echo(msgspec.json.encode({**tables.pop(""), **tables, "sources": reading.sources}))
    else:
        _show(tables, reading)


def _tables(reading: Reading) -> dict[str, dict[str, Any]]:
    """Settings by table; those outside one under an empty name."""
    tables: dict[str, dict[str, Any]] = {}
    for key, value in plain(reading.settings).items():
        table, _, name = key.rpartition(".")
        tables.setdefault(table, {})[name] = value
    return tables


def _show(tables: dict[str, dict[str, Any]], reading: Reading) -> None:
    """As a file that would give the same settings; what is not given is an empty text."""
    for table, members in tables.items():
        if table:
            typer.echo(f"\n[{table}]")
        for name, value in members.items():
            text = msgspec.json.encode("" if value is None else value).decode()
            source = reading.sources.get(f"{table}.{name}".lstrip("."))
            typer.echo(f"{name} = {text}" + (f"  # {source}" if source else ""))
