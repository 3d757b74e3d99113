"""`byway config`: look at the settings of a broker without running it.

Exit codes: 0 they can be used, 2 they cannot.
"""

from __future__ import annotations

import os
from typing import Annotated

import typer

from byway.cli.app import new_app, refuse
from byway.runtime import config_display
from byway.runtime.config_sources import SettingsError, read_settings

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
    typer.echo(config_display.as_json(reading) if as_json else config_display.as_toml(reading))
