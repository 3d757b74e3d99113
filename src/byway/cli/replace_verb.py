"""`byway topology replace` at several brokers: one report for all, and whom else to tell."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import msgspec
import typer

from byway.cli.app import fail
from byway.model.errors import BywayError, CommandFailedError
from byway.model.status import succession_words
from byway.runtime.command_client import send_list_clients, send_replace
from byway.runtime.replacing import Replaced

ASK_S = 0.2
"""How often brokers are asked how far they are, while the command waits."""


def replace_everywhere(
    neighbour: str, by: str, ports: Sequence[str], wait_s: float, timeout_s: float, *, as_json: bool
) -> None:
    """Give the command at each port, wait if that is wanted, and print what became of it. A broker
    that refuses does not keep the others from being told. Each is told who the others are, since
    it may not have heard of them."""
    reports, failed = _tell(neighbour, by, ports, timeout_s)
    deadline = time.monotonic() + wait_s
    try:
        _wait(reports, neighbour, by, deadline, timeout_s)
    except BywayError as error:
        failed["the wait"] = str(error)
    if as_json:
        typer.echo(msgspec.json.encode(list(reports.values())))
    else:
        for report in reports.values():
            _print(report)
        _print_untold(reports, neighbour, by)
    late = [report.broker for report in reports.values() if not report.succession.done]
    if wait_s and late:
        successor = by.partition("@")[0]
        failed["late"] = f"{successor} has not told {', '.join(late)} what it wants in this time"
    if failed:
        fail("\n".join(failed.values()))


def _tell(
    neighbour: str, by: str, ports: Sequence[str], timeout_s: float
) -> tuple[dict[str, Replaced], dict[str, str]]:
    """What the brokers at these ports report, and why some did not."""
    reports: dict[str, Replaced] = {}
    failed: dict[str, str] = {}
    names: dict[str, str] = {}
    for port in ports if len(ports) > 1 else ():
        try:
            names[port] = send_list_clients(port, 1, timeout_s).broker
        except BywayError as error:
            failed[port] = _reason(port, error)
    for port in [port for port in ports if port not in failed]:
        try:
            reports[port] = send_replace(port, neighbour, by, timeout_s, list(names.values()))
        except BywayError as error:
            failed[port] = _reason(port, error)
    if any(not report.again for report in reports.values()):
        for port in [port for port in names if port in failed]:
            failed[port] += (
                f"\nthe others take {names[port]} for one of them: if it was no neighbour of "
                f"{neighbour}, have {by.partition('@')[0]} forget it, once that waits for it"
            )
    return reports, failed


def _reason(port: str, error: BywayError) -> str:
    if isinstance(error, CommandFailedError) and port not in str(error):
        return f"{port}: {error}"
    return str(error)


def _wait(
    reports: dict[str, Replaced], neighbour: str, by: str, deadline: float, timeout_s: float
) -> None:
    while time.monotonic() < deadline:
        late = [port for port, report in reports.items() if not report.succession.done]
        if not late:
            return
        time.sleep(ASK_S)
        for port in late:
            found = send_replace(port, neighbour, by, timeout_s)
            reports[port] = msgspec.structs.replace(found, again=reports[port].again)


def _print(report: Replaced) -> None:
    succession = report.succession
    typer.echo(f"{report.broker}: {succession_words(succession)}")
    if not succession.done:
        typer.echo(f"  {report.waiting:,} messages wait")
    if report.not_dialled:
        typer.echo(
            f"  {report.broker} does not dial {succession.successor} ({report.not_dialled}): list "
            f"{report.broker} as a neighbour of {succession.successor}, or the other way round"
        )
    old = succession.neighbour
    if report.cannot_name:
        typer.echo(
            f"  {report.broker} does not know the other neighbours of {old}, if any: "
            f"{succession.successor} waits until a broker that does is linked with it, or lists "
            "them"
        )
    if report.listed:
        typer.echo(f"  {report.broker} still lists {old} as a neighbour: take it off the list")


def _print_untold(reports: Mapping[str, Replaced], neighbour: str, by: str) -> None:
    """Who else has to be told, as far as those who were know."""
    told = {report.broker for report in reports.values()}
    untold = {name for report in reports.values() for name in report.neighbours} - told
    if untold:
        typer.echo(f"{', '.join(sorted(untold))}: if not done yet, run there")
        typer.echo(f"  byway topology replace {neighbour} --by {by}")
