"""The `byway` command itself: the table of verbs, and nothing that a verb does.

A verb is a module of this package with a Typer `app`. It is imported only when it is called, so a
verb may import heavy packages at its top and `byway --help` stays quick.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from byway._version import __version__
from byway.cli.app import new_app, refuse
from byway.cli.usage_errors import USAGE_ERROR, show_usage_error
from byway.model.errors import MissingExtraError

VERBS = {
    "bench": "Measure a running broker.",
    "broker": "Run a broker.",
    "client": "Look at the clients of a broker, and disconnect one.",
    "config": "Check a broker's settings.",
    "demo": "Show byway at work.",
    "filter": "Check, try and compare filters without a network.",
    "pipeline": "Analyse traces, run sweeps and match workloads, on Spark.",
    "pub": "Publish lines of JSON.",
    "reproduce": "Repeat the measurements of the papers, on Spark.",
    "simulate": "Run a scenario file in the simulator.",
    "sub": "Subscribe, and print what comes.",
    "subscription": "Look at the subscriptions at a broker.",
    "topology": "Look at the network, and change who is a neighbour.",
    "trace": "Follow one subscription or publication through brokers.",
    "warm": "Compile the matching kernels beforehand.",
}


class Verbs(TyperGroup):
    """Lists the verbs of the table above, and imports the one that is called."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: TyperCommand(name, help=line) for name, line in VERBS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None:
            ctx.invoked_subcommand = name  # also if it cannot be imported
            command = get_command(import_module(f"byway.cli.{command.name}").app)
        return name, command, rest

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the command, and end the process; wrong arguments are explained in our words."""
        try:
            done = super().main(args, prog_name, complete_var, False, windows_expand_args, **extra)
        except USAGE_ERROR as error:
            if not standalone_mode:
                raise
            show_usage_error(error)
            done = 2
        if standalone_mode:
            sys.exit(done if isinstance(done, int) else 0)
        return done

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except MissingExtraError as error:
            refuse(error.told(f"byway {ctx.invoked_subcommand}"))


app = new_app(cls=Verbs, add_completion=True)


def _print_version(wanted: bool) -> None:
    if wanted:
        compiled = any(Path(__file__).parents[1].glob("core/broker.*.so"))
        typer.echo(f"byway {__version__}{' (compiled)' if compiled else ''}")
        raise typer.Exit


@app.callback()
def byway(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """A content-based publish/subscribe network of brokers."""
