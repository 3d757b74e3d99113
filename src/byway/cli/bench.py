"""`byway bench`: measure a running broker.

Exit codes: 0 everything arrived, 1 something did not, 2 the input cannot be understood.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from byway.cli.app import fail, new_app
from byway.cli.connecting import BROKER, BrokerOption, explained
from byway.client.load_test import LoadTestPlan, Measured, MeasuringError, measure
from byway.session.client_options import BrokerUrl

app = new_app(help="Measure a running broker.", no_args_is_help=False)


class Attributes(StrEnum):
    """The attributes of the publications."""

    quotes = "quotes"
    number = "number"


@app.command()
def bench(
    broker: BrokerOption = BROKER,
    to: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The subscriber's broker, if it is another one."),
    ] = None,
    publications: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of publications.")
    ] = 50_000,
    rate: Annotated[
        float,
        typer.Option(
            min=0, metavar="R", help="Publications a second; 0: as fast as the broker takes them."
        ),
    ] = 0.0,
    window: Annotated[
        int, typer.Option(min=1, metavar="N", help="Unconfirmed publications at a time.")
    ] = 4_096,
    attributes: Annotated[
        Attributes, typer.Option(help="Stock quotes of twelve attributes, or one number.")
    ] = Attributes.quotes,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Publish to a broker, subscribe in another process, and print throughput and latency.

    Publications carry a mark of this run, so only its own subscriber and those that subscribe to
    everything receive them. At full speed latency is mostly queueing: give a rate to measure the
    latency of a single publication.
    """
    with explained():
        for url in (broker, to or broker):
            BrokerUrl.parse(url)
        plan = LoadTestPlan(
            publish_to=broker,
            subscribe_at=to or broker,
            publications=publications,
            rate=rate,
            window=window,
            content=attributes.value,
        )
        try:
            measured = measure(plan)
        except MeasuringError as error:
            fail(error)
    if as_json:
        typer.echo(msgspec.json.encode(measured))
    else:
        _show(measured)
    if measured.received < measured.publications:
        fail(f"{measured.publications - measured.received:,} publications did not arrive")


def _show(measured: Measured) -> None:
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column()
    table.add_column(justify="right")
    asked = f"{measured.rate:,.0f} /s" if measured.rate else "as fast as they are taken"
    table.add_row("publications", f"{measured.publications:,}")
    table.add_row("  attributes of each", f"{measured.attributes}")
    table.add_row("  bytes of each", f"{measured.body_bytes:,}")
    table.add_row("  window", f"{measured.window:,}")
    table.add_row("  rate", asked)
    table.add_row("received", f"{measured.received:,}")
    table.add_row("  hops", f"{measured.hops}")
    table.add_row("  in", f"{measured.seconds:,.2f} s")
    table.add_row("  rate", f"{measured.per_second:,.0f} /s")
    if measured.latency_ms is not None:
        table.add_row("latency")
        for name, value in msgspec.structs.asdict(measured.latency_ms).items():
            table.add_row(f"  {name}", f"{value:,.2f} ms")
    Console(highlight=False).print(table)
