"""Options and error handling of the verbs that talk to a running broker."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from byway.cli.app import fail, refuse, time_option
from byway.model import FilterError
from byway.model.addresses import BROKER_VARIABLE, OPERATIONS_PORT, PORT, SCHEME
from byway.model.errors import ClientError, ConfigError, ConnectError

BrokerOption = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT",
        envvar=BROKER_VARIABLE,
        help="The broker to connect to, such as localhost:7001.",
    ),
]
BROKER = f"{SCHEME}127.0.0.1:{PORT}"
TimeoutOption = Annotated[
    float,
    time_option("--timeout", help="How long to wait for an answer from the broker.", least=0.001),
]
HttpOption = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT",
        envvar="BYWAY_HTTP",
        help="The operations port of the broker, which must be on this machine.",
    ),
]
LimitOption = Annotated[
    int, typer.Option(min=1, max=1_000, metavar="N", help="How many to list at most.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
HTTP = f"127.0.0.1:{OPERATIONS_PORT}"


@contextmanager
def explained() -> Iterator[None]:
    """End with exit code 2 if the input is not valid, with 1 if the broker failed or refused."""
    try:
        yield
    except (ConfigError, FilterError) as error:
        refuse(error)
    except ConnectError as error:
        is_refused = any("refused" in reason for _, reason in error.attempts)
        hint = "\nis a broker running there? byway broker starts one on this machine"
        fail(f"{error}{hint if is_refused else ''}")
    except ClientError as error:
        fail(error)


def end_on_signals() -> None:
    """Make SIGTERM end the program as Ctrl-C does."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
