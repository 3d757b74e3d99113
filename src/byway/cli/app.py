"""Makes the Typer apps of the command line, and ends commands with an exit code and plain text."""

from __future__ import annotations

from typing import Any, NoReturn

import typer

from byway.model.errors import MissingExtraError


def new_app(**settings: Any) -> typer.Typer:
    """A Typer app with the settings that all verbs share; `settings` are Typer's own."""
    defaults = {
        "add_completion": False,
        "no_args_is_help": True,
        "pretty_exceptions_enable": False,
        "rich_markup_mode": None,
    }
    return typer.Typer(**{**defaults, **settings})


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
