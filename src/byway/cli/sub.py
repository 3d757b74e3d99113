"""`byway sub`: subscribe, and print what comes.

Exit codes: 0 the number of events given with --count was received, or without it the command was
stopped or its --timeout was over; 1 the broker cannot be reached or refuses the subscription, or
fewer events came than --count says; 2 the input is not valid.
"""

from __future__ import annotations

import sys
from math import inf
from time import monotonic
from typing import Annotated

import typer

from byway.cli.app import Seconds, fail, new_app, time_option
from byway.cli.connecting import BROKER, BrokerOption, end_on_signals, explained
from byway.client import blocking
from byway.client.event_lines import Columns, json_line
from byway.session.events import Event

app = new_app(help="Subscribe, and print what comes.")

TOGETHER = 256
CONNECT_S = 5.0
"""How long to wait for an answer when connecting, if --timeout leaves that time."""
SETTLE_S = 30.0
"""How long to wait until the subscription is in force everywhere, if --timeout leaves that time."""


@app.command()
def sub(
    filters: Annotated[list[str], typer.Argument(metavar="FILTER...", show_default=False)],
    broker: BrokerOption = BROKER,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")] = False,
    count: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="End after N events.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The client's name; one client at a time may have it.")
    ] = None,
    session_ttl: Annotated[
        float,
        time_option(
            "--session-ttl", help="How long the broker keeps events if the connection breaks."
        ),
    ] = Seconds(0),
    timeout: Annotated[
        float | None,
        time_option(
            "--timeout", help="End after this time, whatever has come until then.", least=0.001
        ),
    ] = None,
) -> None:
    """Print every event that matches one of the filters, one a line, until Ctrl-C, or until --count
    events have come or --timeout is over.

    When the subscription is in force everywhere, a line that begins with `settled` is printed on
    stderr: everything published from then on is received.
    """
    end_on_signals()
    left, deadline = count, inf if timeout is None else monotonic() + timeout
    try:
        with (
            explained(),
            blocking.connect(
                broker,
                name=name,
                session_ttl=session_ttl,
                connect_timeout=min(CONNECT_S, timeout or inf),
            ) as client,
            client.subscribe(*filters, timeout=min(SETTLE_S, _until(deadline))) as subscription,
        ):
            typer.echo(f"settled at {client.status.broker}: {' | '.join(filters)}", err=True)
            columns = Columns()
            while (left is None or left > 0) and monotonic() < deadline:
                most = TOGETHER if left is None else min(left, TOGETHER)
                events = subscription.take(most, _until(deadline))
                _print(events, None if as_json else columns)
                left = None if left is None else left - len(events)
        if count is not None and left:
            fail(f"{count - left:,} of {count:,} events came within {timeout:g} s")
    except KeyboardInterrupt:
        raise typer.Exit(0 if count is None else 1) from None


def _until(deadline: float) -> float:
    """The seconds that are left."""
    return max(deadline - monotonic(), 0.0)


def _print(events: list[Event], columns: Columns | None) -> None:
    """Print events with one write, and flush."""
    if columns is None:
        lines = b"".join(json_line(event) + b"\n" for event in events)
    else:
        text = "".join(columns.line(event) + "\n" for event in events)
        lines = text.encode(errors="backslashreplace")
    sys.stdout.buffer.write(lines)
    sys.stdout.buffer.flush()
