"""`byway subscription`: look at the subscriptions at a broker.

Exit codes: 0 done, 1 the broker cannot be reached or refuses, 2 the input is not valid.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from byway.cli.app import Seconds, new_app, refuse
from byway.cli.client import show_cut, show_entries
from byway.cli.connecting import HTTP, HttpOption, JsonOption, LimitOption, TimeoutOption, explained

app = new_app(help="Look at the subscriptions at a broker.")


@app.callback()
def subscription() -> None:
    """Look at the subscriptions at a broker.

    The command goes to the operations port (http) of a broker on this machine.
    """


@app.command("list")
def list_(
    client: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only the subscriptions of this client.")
    ] = None,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Also the subscriptions that came from neighbours."),
    ] = False,
    http: HttpOption = HTTP,
    limit: LimitOption = 100,
    timeout: TimeoutOption = Seconds(10),
    as_json: JsonOption = False,
) -> None:
    """List the subscriptions of a broker's clients, client by client."""
    from byway.runtime.command_client import send_list_subscriptions

    if client is not None and everything:
        refuse("expected --client or --all, not both")
    with explained():
        found = send_list_subscriptions(http, client, everything, limit, timeout)
    if as_json:
        typer.echo(msgspec.json.encode(found))
        return
    if not found.subscriptions:
        whose = f"{client} has" if client is not None else f"clients of {found.broker} have"
        typer.echo(f"{found.broker} has no subscriptions" if everything else f"{whose} none")
        return
    heads = ("client", "name", *(("from",) if everything else ()), "settled", "filter")
    show_entries(found.subscriptions, heads)
    show_cut(len(found.subscriptions), found.total, "subscriptions")
