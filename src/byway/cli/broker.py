"""`byway broker`: run a broker until it is told to stop.

Exit codes: 0 it was told to stop, 1 it could not go on, 2 the settings cannot be understood.
"""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from byway.cli.app import new_app, refuse
from byway.runtime.config_sources import Reading, SettingsError, read_settings

app = new_app(help="Run a broker.")


@app.command()
def broker(
    config: Annotated[
        str | None, typer.Option(metavar="FILE.toml", help="Settings; flags are stronger.")
    ] = None,
    id: Annotated[str | None, typer.Option(help="The name of this broker.")] = None,
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where brokers and clients connect to."),
    ] = None,
    neighbour: Annotated[
        list[str] | None,
        typer.Option(metavar="[ID@]HOST:PORT", help="A broker to connect to; may be repeated."),
    ] = None,
    data: Annotated[
        str | None, typer.Option(metavar="DIR", help="Where state is kept over a restart.")
    ] = None,
    state_dir: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="Where the names of neighbours are kept, without other state."
        ),
    ] = None,
    http: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where metrics and health are told.")
    ] = None,
    trace: Annotated[
        str | None, typer.Option(metavar="DIR", help="Write what the broker does, as Parquet.")
    ] = None,
    log: Annotated[
        str | None, typer.Option(metavar="FORM", help="The form of the log: human or json.")
    ] = None,
    stale: Annotated[
        bool,
        typer.Option(
            "--stale",
            help="Go on from a journal of another version, or a damaged one, as far as it goes.",
        ),
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Any setting, such as limits.keepalive_ms=500; may be repeated.",
        ),
    ] = None,
) -> None:
    """Run a broker until SIGTERM or SIGINT; SIGHUP reloads limits, neighbours and the log's form.

    One line on stdout says that it is ready; the log goes to stderr. Settings come from the file,
    from variables such as BYWAY_LISTEN, and from flags, each stronger than those before.
    """
    flags: dict[str, Any] = {
        "id": id, "listen": listen, "neighbours": neighbour or None, "data": data,
        "state_dir": state_dir, "http": http, "trace": trace, "log": log,
    }  # fmt: skip
    given = {key: value for key, value in flags.items() if value is not None}

    def read() -> Reading:
        return read_settings(config, os.environ, given, settings or ())

    try:
        reading = read()
    except SettingsError as error:
        refuse(error)
    from byway.runtime.process import run  # after what can be refused at once

    raise typer.Exit(run(reading, read, stale))
