"""`byway pipeline workload`, `import` and `match`: tables of subscriptions and publications.

Exit codes: 0 done, 1 rows were rejected, or Spark failed, 2 the input is not valid.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console

from byway.cli.app import refuse
from byway.cli.spark import AsJson, Master, Remote, progress_bar, spark_session
from byway.pipeline.pipeline_errors import WorkloadRequestError

if TYPE_CHECKING:
    from byway.pipeline.bulk_matching import MatchOutcome
    from byway.pipeline.importing import ImportOptions, ImportOutcome


def add_to(app: typer.Typer) -> None:
    """Add the commands of this file to `app`."""
    app.command()(workload)
    app.command("import")(import_)
    app.command()(match)


def workload(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="uniform, zipf, siena, covering, clustered, stocks, dt1, dt2, dt3, mobile or "
            "workflow.",
        ),
    ],
    out: Annotated[str, typer.Option(metavar="DIR", help="Write the tables there.")],
    size: Annotated[
        int | None,
        typer.Option(help="Number of subscriptions; by default all there are, or 10,000."),
    ] = None,
    publications: Annotated[int, typer.Option(help="Number of publications.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Seed of the random generator.")] = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a parameter of the generator, such as values=1000; may be repeated.",
        ),
    ] = None,
    as_json: AsJson = False,
    master: Master = None,
    remote: Remote = None,
) -> None:
    """Generate subscriptions and publications, and a schedule for mobile kinds, as tables.

    The same kind, parameters, sizes and seed give the same rows, however many cores there are.
    """
    from byway.pipeline.table_files import below
    from byway.pipeline.workloads import generate, request_of

    try:
        request = request_of(kind, size, publications, seed, settings or [])
    except WorkloadRequestError as error:
        refuse(error)
    with spark_session(master, remote) as spark, progress_bar(kind) as progress:
        description = generate(spark, request, out, progress)
    if as_json:
        typer.echo(msgspec.json.encode(description))
        return
    console = Console(highlight=False)
    for name, table in description.tables.items():
        console.print(f"{name}: {table.rows:,} rows in {below(out, name)}", soft_wrap=True)


# --- import -----------------------------------------------------------------------------------


class Kind(StrEnum):
    """What the rows of an imported table are."""

    PUBLICATIONS = "publications"
    SUBSCRIPTIONS = "subscriptions"


def import_(
    kind: Annotated[Kind, typer.Argument(help="What the rows are.")],
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILES...", help="CSV or Parquet files, or directories of them."),
    ],
    out: Annotated[
        str, typer.Option(metavar="DIR", help="Write the table there, and one of rejected rows.")
    ],
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            metavar="COLUMN=TYPE",
            help="integer, number, string, boolean, or skip: leave it out; may be repeated.",
        ),
    ] = None,
    filter: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column with filters.")
    ] = None,
    id: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The column with ids; by default rows are numbered."),
    ] = None,
    broker: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column with brokers.")
    ] = None,
    delimiter: Annotated[str, typer.Option(help="The delimiter of CSV cells.")] = ",",
    multiline: Annotated[
        bool,
        typer.Option(
            "--multiline", help="Cells of CSV may have line breaks; one core reads a file."
        ),
    ] = False,
    as_json: AsJson = False,
    master: Master = None,
    remote: Remote = None,
) -> None:
    """Import CSV or Parquet files as a table of publications or of subscriptions.

    Every column of a publication is an attribute, every filter a subscription. A row that is
    neither goes to a table of rejects with its place and the reason. The exit code is 0 if there
    are no rejects, 1 if there are some, 2 if the input is not valid.
    """
    from byway.pipeline.importing import load, plan_load

    options = _options(types or [], filter, id, broker, delimiter, multiline=multiline)
    with spark_session(master, remote) as spark, progress_bar(kind) as progress:
        outcome = load(spark, plan_load(spark, kind.value, files, options), out, progress)
    if as_json:
        typer.echo(msgspec.json.encode(outcome))
    else:
        _show_import(kind, outcome)
    raise typer.Exit(1 if outcome.rejected else 0)


def _options(
    types: list[str],
    filter: str | None,
    id: str | None,
    broker: str | None,
    delimiter: str,
    *,
    multiline: bool,
) -> ImportOptions:
    from byway.pipeline.importing import ImportOptions, Type

    declared = {}
    for text in types:
        name, _, type_ = text.rpartition("=")
        if not name or type_ not in list(Type):
            refuse(f"--type {text}: expected COLUMN=TYPE, the type one of {', '.join(Type)}")
        declared[name] = Type(type_)
    if len(delimiter) != 1 or delimiter in '"\r\n':
        refuse(f"--delimiter {delimiter!r}: expected one character")
    return ImportOptions(
        id=id,
        broker=broker,
        filter=filter,
        types=declared,
        delimiter=delimiter,
        multiline=multiline,
    )


def _show_import(kind: str, outcome: ImportOutcome) -> None:
    console = Console(highlight=False, soft_wrap=True, markup=False)
    console.print(f"{kind}: {outcome.rows:,} rows in {outcome.table}")
    if outcome.types:
        console.print(f"types: {', '.join(f'{n} {type_}' for n, type_ in outcome.types.items())}")
    if outcome.unread:
        console.print(f"columns not read: {', '.join(outcome.unread)}")
    console.print(f"rejected: {outcome.rejected:,} rows in {outcome.rejects}")
    for reason in outcome.reasons:
        console.print(f"  {reason}")


# --- match ------------------------------------------------------------------------------------

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}


def match(
    publications: Annotated[
        list[str], typer.Option(metavar="PATH", help="Publications; may be repeated.")
    ],
    subscriptions: Annotated[
        list[str], typer.Option(metavar="PATH", help="Subscriptions; may be repeated.")
    ],
    out: Annotated[str, typer.Option(metavar="DIR", help="Write the results there.")],
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Write the pairs that match, too, not only the counts.")
    ] = False,
    memory: Annotated[
        str,
        typer.Option(metavar="SIZE", help="Largest size of an index, such as 512m or 2g."),
    ] = "1g",
    as_json: AsJson = False,
    master: Master = None,
    remote: Remote = None,
) -> None:
    """Match a table of publications with a table of subscriptions, however large they are.

    Writes the number of matching subscriptions for every publication, and the number of matching
    publications for every subscription; with --pairs also the pairs.
    """
    from byway.pipeline.bulk_matching import match_tables
    from byway.pipeline.table_files import read_table
    from byway.pipeline.workload_schemas import PUBLICATIONS, SUBSCRIPTIONS

    memory_bytes = _bytes(memory)
    with spark_session(master, remote) as spark, progress_bar("match") as bar:
        outcome = match_tables(
            spark,
            read_table(spark, PUBLICATIONS, *publications),
            read_table(spark, SUBSCRIPTIONS, *subscriptions),
            out,
            pairs=pairs,
            memory_bytes=memory_bytes,
            progress=bar,
        )
    if as_json:
        typer.echo(msgspec.json.encode(outcome))
    else:
        _show_match(outcome)


def _bytes(text: str) -> int:
    from byway.pipeline.bulk_matching.index_parts import MEMORY_MIN

    found = re.fullmatch(r"(\d{1,15})([kmg]?)b?", text.strip().lower())
    if found is None or int(found[1]) * _UNITS[found[2]] < MEMORY_MIN:
        refuse(f"--memory {text}: expected a size of at least 1m, such as 512m or 2g")
    return int(found[1]) * _UNITS[found[2]]


def _show_match(outcome: MatchOutcome) -> None:
    console = Console(highlight=False, soft_wrap=True, markup=False)
    without = f"{outcome.publications_without:,} of them match none"
    console.print(f"publications: {outcome.publications:,}, {without}")
    without = f"{outcome.subscriptions_without:,} of them are matched by none"
    console.print(f"subscriptions: {outcome.subscriptions:,}, {without}")
    console.print(f"pairs: {outcome.pairs:,}")
    for table in outcome.tables:
        console.print(f"table: {table}")
