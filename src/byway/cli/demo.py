"""`byway demo`: filters are read, indexed and matched at speed; every number is measured here."""

from __future__ import annotations

from time import perf_counter
from typing import Annotated, Final

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from byway.cli.app import new_app
from byway.matching import MatchIndex, Vocabulary
from byway.model import Attributes, FilterSyntaxError, parse
from byway.workload import StockQuotes

app = new_app(help="Show byway at work.")

SUBSCRIPTIONS: Final = 10_000
PUBLICATIONS: Final = 100_000
SHOWN: Final = 5

TEXTS: Final = (
    "class = 'STOCK' AND price BETWEEN 18 AND 20",
    "NOT (volume <= 1000 OR symbol = 'IBM')",
    "price = 1 OR price = 2 OR price > 5 OR price > 7",
    "symbol LIKE 'YH%' AND closed IS NULL",
    "[class,=,'STOCK'],[price,>,18]",
)
WRONG_TEXT: Final = "price > 18 AND symbol LIKE OR volume > 0"


class Read(msgspec.Struct, frozen=True):
    """A text and the filter it says."""

    text: str
    filter: str


class Speed(msgspec.Struct, frozen=True):
    """What was done with the stock quotes, and how fast."""

    subscriptions: int
    publications: int
    parsed_per_second: float
    added_per_second: float
    matched_per_second: float
    matches_per_publication: float
    candidates_per_match: float
    memory_bytes: int


class Delivery(msgspec.Struct, frozen=True):
    """A publication and the subscriptions it goes to."""

    quote: Attributes
    count: int
    some: list[Read]
    """Subscriber and subscription of the first few."""


class Covering(msgspec.Struct, frozen=True):
    """How a filter that is not stored relates to those that are."""

    filter: str
    covers: int
    covered_by: int
    microseconds: float


class Shown(msgspec.Struct, frozen=True):
    """All that the demo shows."""

    filters: list[Read]
    error: str
    kernels_ready_seconds: float
    speed: Speed
    delivery: Delivery
    coverings: list[Covering]


@app.command()
def demo(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Read some filters, index ten thousand, match a hundred thousand stock quotes."""
    console = Console(quiet=as_json)
    filters, error = [Read(text, str(parse(text))) for text in TEXTS], _error_of(WRONG_TEXT)
    _show_filters(console, filters, error)
    ready = _load_kernels(console)
    workload = StockQuotes(seed=1)
    index = MatchIndex(Vocabulary())
    speed = _at_speed(console, workload, index)
    _show_speed(console, speed)
    delivery = _delivery(workload, index)
    _show_delivery(console, delivery)
    coverings = _coverings(workload.symbol_names()[0], index)
    _show_coverings(console, coverings)
    if as_json:
        typer.echo(msgspec.json.encode(Shown(filters, error, ready, speed, delivery, coverings)))


# --- doing it ----------------------------------------------------------------------------------


def _error_of(text: str) -> str:
    try:
        parse(text)
    except FilterSyntaxError as error:
        return str(error)
    raise AssertionError(f"this was meant to be wrong: {text}")


def _load_kernels(console: Console) -> float:
    """Use what the demo uses once, so that the numbers are those of a broker that runs."""
    start = perf_counter()
    with console.status("Loading the matching kernels; the very first time compiles them…"):
        index = MatchIndex(Vocabulary())
        wanted = parse(TEXTS[0])
        index.add(0, wanted)
        index.match_batch([{"price": 19}])
        index.match({"price": 19})
        index.covering(wanted)
        index.covered_by(wanted)
    return perf_counter() - start


def _at_speed(console: Console, workload: StockQuotes, index: MatchIndex) -> Speed:
    """Parse and index the subscriptions, then match the publications, chunk by chunk."""
    texts = [text for chunk in workload.filter_chunks(SUBSCRIPTIONS) for text in chunk.texts()]
    start = perf_counter()
    filters = [parse(text) for text in texts]
    parsed = perf_counter()
    for key, filter in enumerate(filters):
        index.add(key, filter)
    added = perf_counter()
    matching = 0.0
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("Matching stock quotes", total=PUBLICATIONS)
        for chunk in workload.publication_chunks(PUBLICATIONS):
            publications = chunk.publications()
            before = perf_counter()
            index.match_batch(publications)
            matching += perf_counter() - before
            progress.advance(task, len(publications))
    done = index.statistics()
    return Speed(
        subscriptions=len(index),
        publications=done.publications,
        parsed_per_second=len(texts) / (parsed - start),
        added_per_second=len(texts) / (added - parsed),
        matched_per_second=done.publications / matching,
        matches_per_publication=done.matches / done.publications,
        candidates_per_match=done.candidates / done.matches,
        memory_bytes=index.memory_bytes,
    )


def _delivery(workload: StockQuotes, index: MatchIndex) -> Delivery:
    quote = workload.take_publications(1)[0]
    keys = sorted(index.match(quote).tolist())
    some = [Read(f"subscriber {key}", str(index[key])) for key in keys[:SHOWN]]
    return Delivery(quote, len(keys), some)


def _coverings(symbol: str, index: MatchIndex) -> list[Covering]:
    """A filter wider than most of its symbol's, and one narrower."""
    coverings = []
    for condition in ("", " AND highLow%Diff > 0.5 AND volume > 10000000"):
        filter = parse(f"class = 'STOCK' AND symbol = '{symbol}'{condition}")
        index.covered_by(filter)  # the first such question makes the index ready for them
        start = perf_counter()
        covers, covered_by = len(index.covered_by(filter)), len(index.covering(filter))
        spent = perf_counter() - start
        coverings.append(Covering(str(filter), covers, covered_by, 1e6 * spent))
    return coverings


# --- showing it --------------------------------------------------------------------------------


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold cyan")
    for column in columns:
        table.add_column(column)
    return table


def _show_filters(console: Console, filters: list[Read], error: str) -> None:
    table = _table("A filter is read once and kept in one normal form", "text", "normal form")
    for read in filters:
        table.add_row(Text(read.text), Text(read.filter, "green"))
    console.print(table)
    console.print(Text("What is wrong is pointed at:", "bold cyan"))
    console.print(Text(error, "red"))
    console.print()


def _show_speed(console: Console, speed: Speed) -> None:
    table = _table("Stock quotes, on one core", "what", "measured")
    table.columns[1].justify = "right"
    for what, measured in (
        ("subscriptions", f"{speed.subscriptions:,}"),
        ("  parsed", f"{speed.parsed_per_second:,.0f} /s"),
        ("  indexed", f"{speed.added_per_second:,.0f} /s"),
        ("  memory of the index", f"{speed.memory_bytes / speed.subscriptions:,.0f} bytes each"),
        ("publications", f"{speed.publications:,}"),
        ("  matched", f"{speed.matched_per_second:,.0f} /s"),
        ("  matches of each", f"{speed.matches_per_publication:,.1f}"),
        ("  subscriptions looked at for a match", f"{speed.candidates_per_match:,.2f}"),
    ):
        table.add_row(what, measured)
    console.print(table)
    console.print()


def _show_delivery(console: Console, delivery: Delivery) -> None:
    console.print(Text("A quote, and who gets it", "bold cyan"))
    console.print(Text(", ".join(f"{name}: {value}" for name, value in delivery.quote.items())))
    for read in delivery.some:
        console.print(Text.assemble("  → ", (read.text, "green"), f"  {read.filter}"))
    console.print(Text(f"  and {delivery.count - len(delivery.some)} more"))
    console.print()


def _show_coverings(console: Console, coverings: list[Covering]) -> None:
    table = _table(
        "What a broker need not forward: filters that another one covers",
        "filter", "covers", "is covered by", "both asked in",
    )  # fmt: skip
    for one in coverings:
        took = f"{one.microseconds:,.0f} µs"
        table.add_row(Text(one.filter), str(one.covers), str(one.covered_by), took)
    console.print(table)
