"""`byway reproduce`: repeat the measurements of the papers, with a verdict on each claim.

Exit codes: 0 done, whatever the verdicts; 1 a run failed or its checks did not hold, or Spark
failed; 2 there is no such claim.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from byway.cli.app import new_app, refuse
from byway.cli.spark import AsJson, Master, Remote, progress_bar, spark_session
from byway.pipeline.pipeline_errors import SweepError, TableError

if TYPE_CHECKING:
    from byway.pipeline.claims import Claim, Reproduction
    from byway.pipeline.claims.claim import Settings

WIDTH = 100
"""Columns of the terminal that the tables take at least."""

app = new_app(help="Repeat the measurements of the papers.", no_args_is_help=False)


@app.command()
def reproduce(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[IDS]...", help="Claims, such as U1; all without it."),
    ] = None,
    full: Annotated[
        bool,
        typer.Option("--full/--quick", help="Published sizes, or small ones that take minutes."),
    ] = False,
    out: Annotated[
        str, typer.Option(metavar="DIR", help="Directory of the runs and the report.")
    ] = "reproduction",
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1, max=1_000, help="Seeds of each contender; by default 3, or as the claim sets."
        ),
    ] = None,
    changed: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Set a key of the scenario in all runs, as byway simulate does; the report says "
            "so.",
        ),
    ] = None,
    only_list: Annotated[
        bool, typer.Option("--list", help="List the claims, and run nothing.")
    ] = False,
    as_json: AsJson = False,
    master: Master = None,
    remote: Remote = None,
) -> None:
    """Run the setups of the papers, and report whether their results are reproduced.

    A second start runs only what is missing.
    """
    from byway.pipeline.claims.catalogue import CLAIMS

    chosen = _chosen(CLAIMS, ids or [])
    if only_list:
        _list(chosen, as_json)
        return
    from byway.pipeline.claims import reproduce as reproduced
    from byway.pipeline.claims.report import facts, write_report
    from byway.pipeline.claims.reproduction import plan_runs
    from byway.pipeline.sweeps import sweep_directory

    settings = _settings(changed or [])
    try:
        directory = sweep_directory(out)
        total = len(plan_runs(chosen, full=full, seeds=seeds, changed=settings).sweep.runs)
    except (SweepError, TableError) as error:
        refuse(error)
    with spark_session(master, remote) as spark, progress_bar("runs", total) as progress:
        found = reproduced(
            spark, chosen, directory, full=full, seeds=seeds, changed=settings, progress=progress
        )
    page = write_report(found, directory, _command(ids or [], full, seeds, settings))
    if as_json:
        typer.echo(msgspec.json.encode(facts(found) | {"report": str(page)}))
    else:
        _show(found)
        Console(highlight=False).print(f"report: {page}", soft_wrap=True)
    raise typer.Exit(0 if found.outcome.ok else 1)


def _chosen(claims: dict[str, Claim], ids: Sequence[str]) -> list[Claim]:
    wanted = [id.upper() for id in ids]
    for id in wanted:
        if id not in claims:
            refuse(f"there is no claim {id!r}; expected some of {', '.join(claims)}")
    return [claim for id, claim in claims.items() if not wanted or id in wanted]


def _settings(changed: Sequence[str]) -> Settings:
    """Keys and their TOML values; a text without `=` is refused."""
    from byway.sim.scenario import ScenarioError
    from byway.sim.scenario.read import parse_setting

    try:
        settings = [parse_setting(text) for text in changed]
    except ScenarioError as error:
        refuse(error)
    return {".".join(s.path): s.text.partition("=")[2].strip() for s in settings}


def _command(ids: Sequence[str], full: bool, seeds: int | None, settings: Settings) -> str:
    words = ["byway reproduce", *(id.upper() for id in ids), "--full" if full else "--quick"]
    if seeds is not None:
        words.append(f"--seeds {seeds}")
    words += (f"--set {shlex.quote(f'{key}={value}')}" for key, value in settings.items())
    return " ".join(words)


def _list(claims: Sequence[Claim], as_json: bool) -> None:
    if as_json:
        rows = [{"id": c.id, "title": c.title, "document": c.reference} for c in claims]
        typer.echo(msgspec.json.encode(rows))
        return
    width = max(len(claim.title) for claim in claims)
    for paper, own in groupby(claims, lambda claim: claim.paper):
        typer.echo(paper)
        for claim in own:
            typer.echo(f"  {claim.id:3} {claim.title:{width}}  {claim.section}")


def _show(found: Reproduction) -> None:
    console = Console(highlight=False)
    console.width = max(console.width, WIDTH)
    for result in found.results:
        yes = result.verdict.reproduced
        console.print(Text(f"{result.id}  {result.title}", "bold cyan"))
        console.print(_rows(result))
        for judgement in result.verdict.judgements:
            mark = Text("✔ ", "green") if judgement.holds else Text("✘ ", "red")
            if judgement.accepted and not judgement.holds:
                mark = Text("~ ", "yellow")
            line = f"{judgement.statement} ({judgement.found})"
            console.print(mark + Text(line), soft_wrap=True)
        verdict = "reproduced" if yes else f"not reproduced: {result.verdict.reason}"
        console.print(Text(verdict, "bold green" if yes else "bold red"), soft_wrap=True)
        console.print()


def _rows(result: object) -> Table:
    from byway.pipeline.claims.judging import number_text
    from byway.pipeline.claims.reproduction import ClaimResult

    assert isinstance(result, ClaimResult)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name in ("measure", "contender"):
        table.add_column(name)
    for name in ("paper", "byway", "95 % interval"):
        table.add_column(name, justify="right")
    for row in result.rows:
        ours, interval = "-", "-"
        if row.mean is not None and row.low is not None and row.high is not None:
            ours = f"{number_text(row.mean)} {row.unit}".strip()
            interval = f"{number_text(max(row.low, 0.0))} … {number_text(row.high)}"
        reported = "" if row.printed is None else row.printed_text or number_text(row.printed)
        contender = " at ".join(part for part in (row.contender, row.at) if part)
        table.add_row(row.measure, contender, reported, ours, interval)
    return table
