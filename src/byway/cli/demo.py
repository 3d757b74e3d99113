"""`byway demo`: seven brokers at work, without a mesh, with one, and while one of them is dead,
then a storm of unsubscriptions, live and simulated, which Spark analyses; every number is measured
here.

Exit codes: 0 every subscriber received exactly what it should, once; 1 one did not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from rich.box import SIMPLE
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from byway.cli.app import Seconds, fail, new_app, time_option
from byway.model.errors import BywayError

if TYPE_CHECKING:  # brokers take long to import, and shells ask for options alone
    from byway.local.mesh_showcase import MeshOutcome
    from byway.local.outage_showcase import OutageOutcome
    from byway.local.showcase import Showcase, ShowcaseOutcome

WATCH_S = 0.25
"""How often the showcases call who watches them."""
MESH_LINE_S = 0.5

app = new_app(help="Show byway at work.", no_args_is_help=False)


@app.command()
def demo(
    seconds: Annotated[
        float, time_option("--seconds", help="For how long it publishes.", least=0.1, most=3_600)
    ] = Seconds(5),
    rate: Annotated[
        float,
        typer.Option(
            min=1, max=100_000, metavar="R", help="Quotes a second, all publishers together."
        ),
    ] = 900.0,
    brief: Annotated[
        bool, typer.Option("--brief", help="Leave out the storm, Spark and the report.")
    ] = False,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Directory of the traces and the report.")
    ] = Path("demo-report"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run seven brokers on loopback, publish stock quotes at three of them, subscribe at six.

    Then switch on the mesh, and show how brokers without subscribers are passed by, and that
    deliveries go on when one of them is killed. Then run a storm of unsubscriptions, live and
    simulated, under two covering policies, analyse it with Spark, and write a report.
    """
    from byway.local.showcase import SHAPE, Showcase
    from byway.matching import ensure_kernels

    console = Console(quiet=as_json, highlight=False)
    ensure_kernels()
    showcase = Showcase(rate)
    console.print(Text(f"Seven brokers on loopback ({SHAPE}), three of them with an exchange"))
    console.print(Text(showcase.picture, "cyan"))
    console.print()
    outcome = _run(showcase, seconds, console)
    _show(outcome, console)
    mesh = _run_mesh(console)
    facts: dict[str, Any] = msgspec.to_builtins(outcome)
    facts["mesh"] = msgspec.to_builtins(mesh) | {"finding": mesh.finding}
    outage = _run_outage(console)
    facts["outage"] = msgspec.to_builtins(outage) | {"finding": outage.finding}
    is_complete = outcome.is_complete and mesh.is_complete and outage.is_exact
    if not brief:
        storm = _run_storm(out, outcome, mesh, outage, console)
        facts |= {"storm": storm}
        is_complete &= storm["is_exact"]
    if as_json:
        typer.echo(msgspec.json.encode(facts))
    if not is_complete:
        fail("not every subscriber received exactly what it should")


# --- while it runs -------------------------------------------------------------------------------


def _run(showcase: Showcase, seconds: float, console: Console) -> ShowcaseOutcome:
    """Run it with a live table on a terminal, with a line each second elsewhere."""
    rates = Rates(showcase)
    if not console.is_terminal:
        return asyncio.run(showcase.run(seconds, lambda: rates.print_line(console)))
    with Live(console=console, auto_refresh=False, transient=True) as live:
        watch: Callable[[], None] = lambda: live.update(rates.table(), refresh=True)  # noqa: E731
        return asyncio.run(showcase.run(seconds, watch))


class Rates:
    """Rates since the last refresh."""

    def __init__(self, showcase: Showcase) -> None:
        self._showcase = showcase
        self._before: dict[str, int] = {}
        self._refreshed_s = 0.0
        self._printed_s = 0

    def table(self) -> Group:
        """All publishers and subscribers, each with its total and its rate."""
        sides = []
        passed_s = max(self._showcase.elapsed_s - self._refreshed_s, 0.05)
        self._refreshed_s = self._showcase.elapsed_s
        for title, everyone in (
            ("publishes", [(p.name, p.broker, p.published) for p in self._showcase.publishers]),
            ("gets", [(s.name, s.broker, s.received) for s in self._showcase.subscribers]),
        ):
            table = Table("who", "at", title, "a second", box=None, padding=(0, 3, 0, 0))
            for name, broker, total in everyone:
                rate = (total - self._before.get(name, 0)) / passed_s
                self._before[name] = total
                bar = "▬" * min(int(rate / 25), 40)
                table.add_row(name, broker, f"{total:,}", f"{rate:>7,.0f}  {bar}")
            sides.append(table)
        return Group(Text(f"{self._showcase.elapsed_s:.1f} s", "bold cyan"), *sides)

    def print_line(self, console: Console) -> None:
        """Print the totals of all, if a second has passed since the last line."""
        showcase = self._showcase
        if int(showcase.elapsed_s) <= self._printed_s:
            return
        self._printed_s = int(showcase.elapsed_s)
        published = sum(who.published for who in showcase.publishers)
        received = sum(who.received for who in showcase.subscribers)
        console.print(
            f"{self._printed_s:>4} s  {published:>9,} published  {received:>9,} delivered"
        )


# --- what came of it -----------------------------------------------------------------------------


def _show(outcome: ShowcaseOutcome, console: Console) -> None:
    title = "Events received by each subscriber, their latency and hops (on average)"
    table = Table(title=title, title_justify="left", title_style="bold cyan", box=SIMPLE)
    for name in ("who", "at", "filter"):
        table.add_column(name, overflow="fold")
    for name in ("expected", "got", "p50 ms", "p99 ms", "hops"):
        table.add_column(name, justify="right")
    for who in outcome.subscribers:
        got = f"{who.received:,}" + (f" +{who.unexpected:,}" if who.unexpected else "")
        table.add_row(
            who.name,
            who.broker,
            Text(who.filter),
            f"{who.expected:,}",
            Text(got, "green" if who.is_exact else "bold red"),
            f"{who.latency_ms_p50:,.1f}" if who.received else "",
            f"{who.latency_ms_p99:,.1f}" if who.received else "",
            who.hops_text,
        )
    console.print(table)
    published = ", ".join(f"{name} {count:,}" for name, count in outcome.published.items())
    console.print(f"published: {published}")
    if outcome.is_complete:
        console.print(Text("Every subscriber received exactly what it should, once.", "green"))


def _run_mesh(console: Console) -> MeshOutcome:
    from byway.local.mesh_showcase import MESH_PICTURE, MeshStep, show_mesh

    console.print()
    console.print(Text("The mesh: quotes pass by brokers that have no use for them", "bold cyan"))
    console.print(Text(MESH_PICTURE, "cyan"))
    console.print("subscribers at B4 to B7, nobody at B1, B2 and B3")

    def watch(has_mesh: bool, step: MeshStep) -> None:
        if int(step.t_s / MESH_LINE_S) > int((step.t_s - WATCH_S) / MESH_LINE_S):
            which = "with the mesh" if has_mesh else "without"
            console.print(
                f"{step.t_s:>5.1f} s  {which:13}  {step.forwarders:.2f} brokers only forward a "
                f"quote  {step.hops:.2f} hops a delivery"
            )

    outcome = show_mesh(watch)
    title = f"{outcome.with_mesh.soft_links} soft links are in use. {outcome.finding}"
    console.print(Text(title, "green" if outcome.is_complete else "bold red"), soft_wrap=True)
    if outcome.is_complete:
        console.print("Every subscriber received exactly what it should, once and in order.")
    return outcome


def _run_outage(console: Console) -> OutageOutcome:
    from byway.local.outage_showcase import DEAD, DEAD_S, show_outage

    console.print()
    console.print(Text("A dead broker: quotes go round it", "bold cyan"))
    console.print(
        f"{DEAD} is killed for {DEAD_S:.0f} s while quotes are published; there are no soft links, "
        "so all of them pass it"
    )
    logging.getLogger("byway.bypass").setLevel(logging.ERROR)  # its neighbours would all say so
    outcome = show_outage()
    style = "green" if outcome.is_exact else "bold red"
    console.print(Text(outcome.finding, style), soft_wrap=True)
    return outcome


def _run_storm(
    out: Path,
    showcase: ShowcaseOutcome,
    mesh: MeshOutcome,
    outage: OutageOutcome,
    console: Console,
) -> dict[str, Any]:
    try:
        from byway.pipeline.java import find_java
        from byway.pipeline.spark_session import need_spark

        need_spark()
        find_java()
    except BywayError as error:
        console.print(Text(f"The storm is left out: {error}", "yellow"))
        return {"is_exact": True, "finding": None, "runs": [], "report": None}
    from byway.pipeline.pipeline_errors import SessionError
    from byway.pipeline.storm.storm_report import report_storm

    console.print()
    console.print(Text("A storm of unsubscriptions", "bold cyan"))
    try:
        report = report_storm(out, lambda line: console.print(Text(line)), showcase, mesh, outage)
    except SessionError as error:
        fail(error)
    table = Table(box=SIMPLE)
    table.add_column("run")
    for name in ("mean delay ms", "p99 ms", "(un)subscriptions"):
        table.add_column(name, justify="right")
    for run in report.runs:
        figures = (f"{run[name]:,.1f}" for name in ("mean_delay_ms", "delay_ms_p99"))
        table.add_row(run["run"], *figures, f"{run['stirred']:,}")
    console.print(table)
    console.print(Text(report.finding, "green" if report.is_exact else "bold red"))
    console.print(f"report: {report.page}", soft_wrap=True)
    return {
        "is_exact": report.is_exact,
        "finding": report.finding,
        "runs": report.runs,
        "report": str(report.page),
    }
