"""What the verbs on Spark share: options, the session, a progress bar, and error handling."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Protocol

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from byway.cli.app import fail, refuse
from byway.pipeline.failures import explained
from byway.pipeline.pipeline_errors import RowError, SessionError, SweepError, TableError
from byway.pipeline.spark_session import need_spark, open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Master = Annotated[
    str | None, typer.Option(metavar="URL", help="A cluster; by default this machine, local[*].")
]
Remote = Annotated[
    str | None, typer.Option(metavar="sc://HOST:PORT", help="Spark Connect instead of a cluster.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@contextmanager
def spark_session(master: str | None, remote: str | None) -> Iterator[SparkSession]:
    """A Spark session; an error in it ends the command with one line."""
    try:
        need_spark()
    except SessionError as error:
        fail(error)
    try:
        with open_session(master, remote) as session:
            yield session
    except (RowError, SweepError, TableError) as error:
        refuse(error)
    except SessionError as error:
        fail(error)
    except Exception as error:
        reason = explained(error)
        if reason is None:
            raise
        refuse(reason) if isinstance(reason, TableError | RowError) else fail(reason)


class Bar(Protocol):
    """Updates a progress bar with the number done, and with a new total or title if given."""

    def __call__(self, done: int, total: int | None = None, what: str | None = None) -> None: ...


@contextmanager
def progress_bar(what: str, total: int | None = None) -> Iterator[Bar]:
    """A progress bar on a terminal; does nothing elsewhere."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(what, total=total)

        def show(done: int, total: int | None = None, what: str | None = None) -> None:
            bar.update(task, completed=done, total=total, description=what)

        yield show
