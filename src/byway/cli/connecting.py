"""Options and error handling of the verbs that talk to a running broker."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from byway.cli.app import fail, refuse
from byway.model import FilterError
from byway.model.errors import ClientError, ConfigError

BrokerOption = Annotated[
    str, typer.Option(metavar="URL", help="The broker to connect to, as byway://host:port.")
]
TimeoutOption = Annotated[
    float, typer.Option(metavar="SECONDS", help="How long to wait for an answer from the broker.")
]
BROKER = "byway://127.0.0.1:7001"
HttpOption = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT",
        envvar="BYWAY_HTTP",
        help="The operations port of the broker, which must be on this machine.",
    ),
]
HTTP = "127.0.0.1:9001"


@contextmanager
def explained() -> Iterator[None]:
    """End with exit code 2 if the input is not valid, with 1 if the broker failed or refused."""
    try:
        yield
    except (ConfigError, FilterError) as error:
        refuse(error)
    except ClientError as error:
        fail(error)


def end_on_signals() -> None:
    """Make SIGTERM end the program as Ctrl-C does."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
