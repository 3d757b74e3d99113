"""`byway warm`: compile the matching kernels beforehand, as an installation or an image does."""

from __future__ import annotations

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from byway.cli.app import fail, new_app
from byway.matching import CompilingError, ensure_kernels
from byway.matching.building import COMPILING, load_kernels

app = new_app(no_args_is_help=False)


@app.command()
def warm() -> None:
    """Compile the matching kernels, unless that was done before.

    A broker that finds them starts in less than a second. They are compiled once for each version
    of byway and each kind of processor. Set NUMBA_CACHE_DIR to the directory to keep them in.
    """
    if load_kernels():
        typer.echo("kernels are compiled already")
        return
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True)) as shown:
        task = shown.add_task(COMPILING, total=None)
        try:
            ensure_kernels(lambda done, total: shown.update(task, completed=done, total=total))
        except CompilingError as error:
            fail(error)
    typer.echo("kernels are compiled")
