"""Writes the report on claims: one HTML page, and the same numbers as JSON and CSV.

The page needs no other file, so it opens without a network connection; it links the tables beside
it. It begins with a summary of the verdicts; nothing is judged here.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import msgspec

from byway._version import __version__
from byway.pipeline.claims.catalogue import CLAIMS
from byway.pipeline.claims.claim_plots import plot
from byway.pipeline.claims.judging import number_text
from byway.pipeline.claims.reproduction import (
    TRACE_ROWS_MAX,
    ClaimResult,
    ClaimRow,
    Reproduction,
)
from byway.pipeline.pages import render
from byway.pipeline.papers import POLICIES_IN_A_LINE
from byway.pipeline.schemas import ESTIMATES, MEASURED, METRICS
from byway.pipeline.table_files import write_text

PAGE: Final = "report.html"
FACTS: Final = "results.json"
TABLE: Final = "results.csv"
BESIDE: Final = {
    TABLE: "every number of this page",
    FACTS: "the same, with the verdicts",
    ESTIMATES.name: "means and intervals over the runs",
    METRICS.name: "a row for each run",
    MEASURED.name: "what the trace of each run holds",
    "traces": "the traces",
}
LIKE: Final = 2
"""Two values are alike if neither is more than this many times the other."""


def write_report(found: Reproduction, directory: Path, command: str) -> Path:
    """Write page, JSON and CSV into a directory, and return the path of the page."""
    directory.mkdir(parents=True, exist_ok=True)
    data = msgspec.json.encode({"command": command, **facts(found)})
    write_text(f"{msgspec.json.format(data, indent=1).decode()}\n", directory / FACTS)
    write_text(_csv(found.results), directory / TABLE)
    page = directory / PAGE
    write_text(_page(found, command, tables_in(directory)), page)
    return page


def tables_in(directory: Path) -> dict[str, str]:
    """What is in each file and table beside the page that its numbers come from, by its name."""
    return {name: what for name, what in BESIDE.items() if (directory / name).exists()}


def facts(found: Reproduction) -> dict[str, Any]:
    """The results of all claims as plain data, as `results.json` has them."""
    return {
        "size": "full" if found.is_full else "quick",
        "changed": found.changed,
        "byway": __version__,
        "reproduced": sum(result.verdict.reproduced for result in found.results),
        "claims": [result.facts() for result in found.results],
    }


def _csv(results: Iterable[ClaimResult]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["claim", *ClaimRow.__struct_fields__])
    for result in results:
        for row in result.rows:
            writer.writerow([result.id, *(_cell(value) for value in msgspec.structs.astuple(row))])
    return text.getvalue()


def _cell(value: Any) -> Any:
    return f"{value:.6g}" if isinstance(value, float) else value


def _page(found: Reproduction, command: str, tables: dict[str, str]) -> str:
    return render(
        "claims",
        command=command,
        size="full" if found.is_full else "quick",
        changed=found.changed,
        version=__version__,
        tables=tables,
        summary=summary(found.results),
        likeness=likeness(found.results),
        policies=_policies(found.results),
        sections=[_section(result, found) for result in found.results],
        trace_rows_max=f"{TRACE_ROWS_MAX:,}",
        figure=_figure,
        interval=_interval,
    )


def summary(results: Sequence[ClaimResult]) -> str:
    """The verdicts in one sentence."""
    yes = [result.id for result in results if result.verdict.reproduced]
    no = [result.id for result in results if not result.verdict.reproduced]
    claims = "1 claim" if len(results) == 1 else f"{len(results)} claims"
    if not yes:
        return f"byway reproduces none of {claims} ({_listed(no)})."
    rest = f", but not {_listed(no)}" if no else ""
    return f"byway reproduces {len(yes)} of {claims} ({_listed(yes)}){rest}."


def likeness(results: Sequence[ClaimResult]) -> str:
    """How near byway's values are to those that the papers report, in one sentence."""
    pairs = [
        (row.mean, row.printed)
        for result in results
        for row in result.rows
        if row.mean is not None and row.printed is not None
    ]
    near = sum(ours <= LIKE * paper and paper <= LIKE * ours for ours, paper in pairs)
    return (
        f"Of the {len(pairs):,} values that the papers report and byway measured, {near:,} differ "
        f"by a factor of {LIKE} or less."
    )


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _policies(results: Sequence[ClaimResult]) -> dict[str, str]:
    """The policies that are compared, each in a line."""
    compared = {row.contender for result in results for row in result.rows}
    return {name: line for name, line in POLICIES_IN_A_LINE.items() if name in compared}


def _section(result: ClaimResult, found: Reproduction) -> dict[str, Any]:
    claim = CLAIMS[result.id]
    measures = [
        {"name": name, "rows": rows, "plot": plot(rows, claim.axis)}
        for name, rows in _by_measure(result.rows)
    ]
    return {
        "claim": claim,
        "result": result,
        "seeds": found.seeds[claim.id],
        "measures": measures,
        "has_points": len(claim.points) > 1,
    }


def _by_measure(rows: Sequence[ClaimRow]) -> list[tuple[str, list[ClaimRow]]]:
    return [(name, list(group)) for name, group in groupby(rows, key=lambda row: row.measure)]


def _figure(value: float | None) -> str:
    return "–" if value is None else number_text(value)


def _interval(row: ClaimRow) -> str:
    if row.low is None or row.high is None:
        return "–"
    return f"{number_text(max(row.low, 0.0))} … {number_text(row.high)}"
