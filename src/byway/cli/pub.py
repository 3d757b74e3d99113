"""`byway pub`: publish lines of JSON.

Exit codes: 0 every copy of every publication arrived, or with --wait and --no-wait the broker has
accepted every publication; 1 a publication was refused or did not arrive in time; 2 the input is
not valid.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterable, AsyncIterator, Sequence
from time import perf_counter
from typing import Annotated, Any

import msgspec
import typer

from byway.cli.app import Seconds, fail, new_app, refuse, time_option
from byway.cli.connecting import BROKER, BrokerOption, TimeoutOption, end_on_signals, explained
from byway.client.client import connect
from byway.client.event_lines import LineError, read_publication
from byway.client.feed import ADVERTISEMENTS_MAX, Feed, Line
from byway.client.standard_input import lines_of
from byway.model.errors import NotSettledError

app = new_app(help="Publish lines of JSON.", no_args_is_help=False)


@app.command()
def pub(
    publications: Annotated[
        list[str] | None, typer.Argument(metavar="[JSON...]", show_default=False)
    ] = None,
    broker: BrokerOption = BROKER,
    advertise: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILTER",
            help="What will be published; may be repeated. Without it, one advertisement for each "
            f"set of attributes, up to {ADVERTISEMENTS_MAX}, then ANY.",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The client's name; one client at a time may have it.")
    ] = None,
    wait: Annotated[
        float | None,
        time_option(
            "--wait",
            help="Publish after this time though some brokers do not know yet what is published, "
            "and end after this time though some copies have not arrived.",
        ),
    ] = None,
    no_wait: Annotated[
        bool,
        typer.Option(
            "--no-wait", help="Publish at once, and end when the broker has accepted everything."
        ),
    ] = False,
    mandatory: Annotated[
        bool,
        typer.Option("--mandatory", help="Refuse a publication that no client and no link wants."),
    ] = False,
    window: Annotated[
        int, typer.Option(min=1, metavar="N", help="Unconfirmed publications at a time.")
    ] = 4_096,
    timeout: TimeoutOption = Seconds(30),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Publish each JSON object, or each line of standard input if there are none, and wait until
    every copy has arrived.

    An object holds the attributes: '{"symbol": "IBM", "price": 9}'. With data it holds them as
    '{"attributes": {"symbol": "IBM"}, "data": "some text"}'; data that is not text goes under
    data_base64. This is also what byway sub --json prints.

    Before it publishes, the command waits until all brokers know what will be published. While one
    of them is down it publishes nothing and fails, unless --wait or --no-wait is given: then
    subscribers elsewhere may miss publications; none receives a publication twice.
    """
    if no_wait and wait is not None:
        refuse("expected --wait or --no-wait, found both")
    end_on_signals()
    options: dict[str, Any] = {"name": name, "window": window, "timeout": timeout}
    try:
        with explained():
            lines = _given(publications) if publications else lines_of(sys.stdin.fileno())
            done = asyncio.run(
                _publish(
                    broker, options, lines, advertise=advertise or (), mandatory=mandatory,
                    wait=0.0 if no_wait else wait, on_unsettled=_warn,
                )
            )  # fmt: skip
    except LineError as error:
        refuse(error)
    except KeyboardInterrupt:
        raise typer.Exit(1) from None
    _show(*done, as_json)
    raise typer.Exit(1 if done[0].refused else 0)


async def _publish(
    broker: str, options: dict[str, Any], lines: AsyncIterable[Sequence[Line]], **feeding: Any
) -> tuple[Feed, float]:
    """Publish the lines; the feed with its counts, and the time it took in seconds."""
    async with connect(broker, **options) as client:
        start = perf_counter()
        feed = Feed(client, **feeding)
        try:
            await feed.run(lines)
        except NotSettledError as error:
            fail(f"{error}\nuse --wait TIME or --no-wait to publish all the same")
        except LineError as error:
            _print_refusals(feed)
            verb = " is" if feed.confirmed == 1 else "s are"
            typer.echo(f"{feed.confirmed:,} publication{verb} confirmed before it", err=True)
            raise error
        return feed, perf_counter() - start


def _warn(error: NotSettledError) -> None:
    """Tell who may miss what is published now."""
    brokers = ", ".join(error.brokers) or "some brokers"
    typer.echo(
        f"warning: {brokers} not reached within {round(error.waited_s, 2):g} s: publishing all the "
        "same; subscribers there and behind may miss it",
        err=True,
    )


def _given(publications: Sequence[str]) -> AsyncIterator[Sequence[Line]]:
    """The publications among the arguments; all are checked before the first is published."""
    lines: list[Line] = list(enumerate(publications, 1))
    for number, text in lines:
        read_publication(text, number)

    async def once() -> AsyncIterator[Sequence[Line]]:
        yield lines

    return once()


def _show(feed: Feed, seconds: float, as_json: bool) -> None:
    _print_refusals(feed)
    if as_json:
        facts = {
            "confirmed": feed.confirmed,
            "unconfirmed": feed.unconfirmed,
            "unsettled": feed.unsettled,
            "refused": feed.refused,
            "refusals": feed.refusals,
            "advertisements": feed.advertisements,
            "seconds": round(seconds, 6),
        }
        typer.echo(msgspec.json.encode(facts))
    else:
        accepted = f", {feed.unconfirmed:,} accepted" if feed.unconfirmed else ""
        refused = f", {feed.refused:,} refused" if feed.refused else ""
        typer.echo(f"{feed.confirmed:,} confirmed{accepted}{refused}, in {seconds:.2f} s")


def _print_refusals(feed: Feed) -> None:
    for refusal in feed.refusals:
        typer.echo(f"line {refusal.line} was refused: {refusal.reason}", err=True)
    if feed.refused > len(feed.refusals):
        typer.echo(f"and {feed.refused - len(feed.refusals):,} more", err=True)
