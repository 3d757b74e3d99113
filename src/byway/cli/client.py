"""`byway client`: look at the clients of a broker, and disconnect one.

Exit codes: 0 done, 1 the broker cannot be reached or refuses, 2 the input is not valid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from byway.cli.app import Seconds, counted, new_app
from byway.cli.columns import columns, printable
from byway.cli.connecting import HTTP, HttpOption, JsonOption, LimitOption, TimeoutOption, explained
from byway.model.durations import format_duration

if TYPE_CHECKING:
    from byway.runtime.client_reports import ClientReport, Disconnected, EntryReport

app = new_app(help="Look at the clients of a broker, and disconnect one.")

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The name of the client.")]


@app.callback()
def client() -> None:
    """Look at the clients of a broker, and disconnect one.

    The commands go to the operations port (http) of a broker on this machine.
    """


@app.command("list")
def list_(
    http: HttpOption = HTTP,
    limit: LimitOption = 100,
    timeout: TimeoutOption = Seconds(10),
    as_json: JsonOption = False,
) -> None:
    """List the clients that are connected or whose session is kept, in the order in which their
    sessions began."""
    from byway.runtime.command_client import send_list_clients

    with explained():
        found = send_list_clients(http, limit, timeout)
    if as_json:
        typer.echo(msgspec.json.encode(found))
        return
    if not found.clients:
        typer.echo(f"{found.broker} has no clients")
        return
    heads = (
        "client", "state", "address", "session", "subscriptions", "advertisements", "published",
        "kept", "waiting",
    )  # fmt: skip
    for line in columns(heads, map(_row, found.clients), right=heads[4:]):
        typer.echo(line)
    show_cut(len(found.clients), found.total, "clients")


@app.command()
def show(
    name: NameArgument,
    http: HttpOption = HTTP,
    limit: LimitOption = 100,
    timeout: TimeoutOption = Seconds(10),
    as_json: JsonOption = False,
) -> None:
    """Show a client, with what it advertises and subscribes to."""
    from byway.runtime.command_client import send_show_client

    with explained():
        found = send_show_client(http, name, limit, timeout)
    if as_json:
        typer.echo(msgspec.json.encode(found))
        return
    for line in columns(("client", printable(found.client.client)), _facts(found.client)):
        typer.echo(line)
    total = found.client.subscriptions + found.client.advertisements
    if found.entries:
        typer.echo()
        show_entries(found.entries, ("kind", "name", "settled", "filter"))
    show_cut(len(found.entries), total, "advertisements and subscriptions")


@app.command()
def disconnect(
    name: NameArgument,
    end_session: Annotated[
        bool,
        typer.Option(
            "--end-session",
            help="End its session too, and tell the client not to come back.",
        ),
    ] = False,
    http: HttpOption = HTTP,
    timeout: TimeoutOption = Seconds(10),
    as_json: JsonOption = False,
) -> None:
    """Disconnect a client; it may reconnect.

    A session with a time to live is kept for it; without one, its subscriptions and advertisements
    end at once. With --end-session they end in any case, and what was kept for the client is
    dropped.
    """
    from byway.runtime.command_client import send_disconnect

    with explained():
        report = send_disconnect(http, name, end_session, timeout)
    if as_json:
        typer.echo(msgspec.json.encode(report))
    else:
        for line in _said(report):
            typer.echo(line)


def _row(client: ClientReport) -> tuple[str, ...]:
    return (
        client.client,
        "connected" if client.connected else "away",
        client.address or "-",
        _session(client),
        f"{client.subscriptions:,}",
        f"{client.advertisements:,}",
        f"{client.published:,}",
        f"{client.kept:,}",
        f"{client.waiting:,}",
    )


def _facts(client: ClientReport) -> list[tuple[str, str]]:
    blocked = f", not reading for {client.blocked_s:.1f} s" if client.blocked_s else ""
    facts = [
        ("state", f"connected from {client.address}" if client.connected else "away"),
        ("incarnation", str(client.incarnation)),
        ("session", "ends with the connection" if not client.session_ttl_s else _kept(client)),
        ("subscriptions", f"{client.subscriptions:,}"),
        ("advertisements", f"{client.advertisements:,}"),
        ("published", f"{client.published:,}"),
        ("kept", f"{client.kept:,} deliveries, {client.kept_bytes:,} bytes"),
        ("waiting", f"{client.waiting:,} deliveries, {client.waiting_bytes:,} bytes{blocked}"),
        ("requests", f"{client.requests:,} wait"),
    ]
    if client.dropped:
        facts.append(("dropped", f"{client.dropped:,} deliveries, since it read slowly"))
    return facts


def _session(client: ClientReport) -> str:
    return _time(client.session_ttl_s) if client.session_ttl_s else "-"


def _kept(client: ClientReport) -> str:
    return f"kept for {_session(client)} when the client vanishes"


def _time(seconds: float) -> str:
    return format_duration(round(seconds * 1e6))


def _said(report: Disconnected) -> list[str]:
    held = (
        f"{counted(report.subscriptions, 'subscription')}, "
        f"{counted(report.advertisements, 'advertisement')}, "
        f"{counted(report.deliveries, 'unacknowledged delivery')}"
    )
    name = printable(report.client)
    verb = "has disconnected" if report.was_connected else "has ended the session of"
    lines = [f"{report.broker} {verb} {name}"]
    if report.session_ended:
        lines.append(f"ended: its session, with {held}")
    else:
        lines.append(f"kept for {_time(report.kept_s)}: its session, with {held}")
    if report.may_return:
        lines.append("it may reconnect, as the byway client does (--end-session tells it not to)")
    elif report.was_connected:
        lines.append("it was told not to reconnect")
    return lines


def show_entries(entries: list[EntryReport], heads: tuple[str, ...]) -> None:
    """Print subscriptions and advertisements, one a line, with the columns asked for."""
    rows = []
    for entry in entries:
        facts = {
            "client": entry.client,
            "name": entry.name,
            "kind": entry.kind,
            "from": f"link {entry.link}" if entry.link else "client",
            "settled": "yes" if entry.settled else "no",
            "filter": entry.filter,
        }
        rows.append([facts[head] for head in heads])
    for line in columns(heads, rows):
        typer.echo(line)


def show_cut(shown: int, total: int, what: str) -> None:
    """Say on stderr that not everything was printed, if that is so."""
    if shown < total:
        note = f"{shown:,} of {total:,} {what} are shown (--limit N shows up to 1,000)"
        typer.echo(note, err=True)
