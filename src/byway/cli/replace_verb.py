"""`byway topology replace` at several brokers: one report for all, and whom else to tell."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import msgspec
import typer

from byway.cli.app import fail
from byway.model.errors import BywayError, CommandFailedError
from byway.model.status import succession_words
from byway.runtime.command_client import send_replace
from byway.runtime.replacing import Replaced

ASK_S = 0.2
"""How often brokers are asked how far they are, while the command waits."""


def replace_everywhere(
    neighbour: str, by: str, ports: Sequence[str], wait_s: float, timeout_s: float, *, as_json: bool
) -> None:
    """Give the command at each port, wait if that is wanted, and print what became of it. A broker
    that refuses does not keep the others from being told."""
    reports: dict[str, Replaced] = {}
    failed: dict[str, str] = {}
    for port in ports:
        try:
            reports[port] = send_replace(port, neighbour, by, timeout_s)
        except BywayError as error:
            failed[port] = _reason(port, error)
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
            f"  {report.broker} has lost its state, and cannot name other neighbours of {old}: "
            f"{succession.successor} waits until one that can is linked with it, or lists them"
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
