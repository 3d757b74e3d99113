"""Makes the Typer apps of the command line, and ends commands with an exit code and plain text."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import typer

from byway.model.durations import format_duration, parse_duration
from byway.model.errors import InvalidValueError, MissingExtraError, shortened


def new_app(**settings: Any) -> typer.Typer:
    """A Typer app with the settings that all verbs share; `settings` are Typer's own."""
    defaults = {
        "add_completion": False,
        "no_args_is_help": True,
        "pretty_exceptions_enable": False,
        "rich_markup_mode": None,
    }
    return typer.Typer(**{**defaults, **settings})


class Seconds(float):
    """A default of an option for times, which `--help` shows as people type it."""

    def __str__(self) -> str:
        return _shown(self)


def time_option(*flags: str, help: str, least: float = 0.0, most: float = math.inf) -> Any:
    """An option whose value is a time such as 10s or 250ms, or a number of seconds."""

    def parse(text: str | float) -> float:
        if not isinstance(text, str):
            return float(text)  # a default
        try:
            seconds = parse_duration(text)
        except InvalidValueError as error:
            raise typer.BadParameter(str(error)) from None
        if not least <= seconds <= most:
            bounds = f"of at least {_shown(least)}"
            if most < math.inf:
                bounds = f"from {_shown(least)} to {_shown(most)}"
            raise typer.BadParameter(f"expected a time {bounds}, found {shortened(repr(text))}")
        return seconds

    return typer.Option(*flags, metavar="TIME", parser=parse, help=help)


def _shown(seconds: float) -> str:
    return format_duration(round(seconds * 1e6))


def counted(number: int, what: str) -> str:
    """How many there are of a thing, as `1 publication` or `3 deliveries`."""
    plural = f"{what.removesuffix('y')}ies" if what.endswith("y") else f"{what}s"
    return f"{number:,} {what if number == 1 else plural}"


def refuse(reason: object) -> NoReturn:
    """End with `reason` on stderr and exit code 2: the input is not valid."""
    if isinstance(reason, MissingExtraError):
        raise reason  # `main` says which verb needs it
    typer.echo(reason, err=True)
    raise typer.Exit(2)


def fail(reason: object) -> NoReturn:
    """End with `reason` on stderr and exit code 1: the input is valid, but the command failed."""
    typer.echo(reason, err=True)
    raise typer.Exit(1)


def answer(verdict: bool, *, yes: str, no: str) -> NoReturn:
    """End with the answer to a question as text and as exit code: 0 for yes, 1 for no."""
    typer.echo(yes if verdict else no)
    raise typer.Exit(0 if verdict else 1)
