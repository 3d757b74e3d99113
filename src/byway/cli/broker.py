"""`byway broker`: run a broker until it is told to stop.

Exit codes: 0 it was told to stop, 1 it could not go on, 2 the settings cannot be understood.
"""

from __future__ import annotations

import inspect
import os
from typing import Annotated, Any

import typer
from msgspec.inspect import LiteralType

from byway.cli.app import new_app, refuse
from byway.model.options import Option
from byway.runtime.config_sources import Reading, SettingsError, read_settings
from byway.runtime.settings import SETTINGS

app = new_app(help="Run a broker.")


def broker(
    config: Annotated[
        str | None,
        typer.Option(metavar="FILE.toml", help="A file with settings; flags override it."),
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
            help="Any setting, such as limits.keepalive=500ms; may be repeated.",
        ),
    ] = None,
    **flags: str | list[str] | None,
) -> None:
    """Run a broker until SIGTERM or SIGINT; SIGHUP reloads limits, neighbours and the log's form.

    One line on stdout says that it is ready; the log goes to stderr. Settings come from the file,
    from variables such as BYWAY_LISTEN, and from flags, each stronger than those before.
    """
    given = {key: value for key, value in flags.items() if value is not None and value != []}

    def read() -> Reading:
        return read_settings(config, os.environ, given, settings or ())

    try:
        reading = read()
    except SettingsError as error:
        refuse(error)
    from byway.runtime.process import run  # after what can be refused at once

    raise typer.Exit(run(reading, read, stale))


def _flag(option: Option) -> inspect.Parameter:
    """The parameter for an option that declares a flag; its help is the option's first sentence."""
    facts = option.kind.facts
    name, _, metavar = facts["flag"].partition(" ")
    if isinstance(option.kind.type, LiteralType):
        metavar = "|".join(map(str, option.kind.type.values))
    repeated = isinstance(option.default, tuple)
    sentence = facts["about"].partition(". ")[0].removesuffix(".")
    help = f"{sentence}; may be repeated." if repeated else f"{sentence}."
    annotation: Any = list[str] | None if repeated else str | None
    return inspect.Parameter(
        option.key,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[annotation, typer.Option(name, metavar=metavar, help=help)],
    )


def _declare_flags() -> None:
    """Give the command a parameter for each flag, after the first, where Typer looks for them."""
    signature = inspect.signature(broker, eval_str=True)
    first, *others = (p for p in signature.parameters.values() if p.name != "flags")
    flags = [_flag(option) for option in SETTINGS.values() if "flag" in option.kind.facts]
    rest = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in others]
    parameters = [first, *flags, *rest]
    broker.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    broker.__annotations__ = {p.name: p.annotation for p in parameters}


_declare_flags()
app.command()(broker)
