"""How every app of the command line is made, and how it ends: plain text, clear exit codes."""

from __future__ import annotations

from typing import Any, NoReturn

import typer


def new_app(**settings: Any) -> typer.Typer:
    """A Typer app with the house's settings; `settings` are Typer's own."""
    defaults = {
        "add_completion": False,
        "no_args_is_help": True,
        "pretty_exceptions_enable": False,
        "rich_markup_mode": None,
    }
    return typer.Typer(**{**defaults, **settings})


def refuse(reason: object) -> NoReturn:
    """End with `reason` on stderr and exit code 2: the input cannot be understood."""
    typer.echo(reason, err=True)
    raise typer.Exit(2)


def fail(reason: object) -> NoReturn:
    """End with `reason` on stderr and exit code 1: it was understood, but it cannot be done."""
    typer.echo(reason, err=True)
    raise typer.Exit(1)


def answer(verdict: bool, *, yes: str, no: str) -> NoReturn:
    """End with the answer to a question in words and as exit code: 0 for yes, 1 for no."""
    typer.echo(yes if verdict else no)
    raise typer.Exit(0 if verdict else 1)
