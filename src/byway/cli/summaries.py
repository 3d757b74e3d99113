"""Shows the summaries of runs: a few beside one another, many a line each.

Many runs are shown by what differs between them: what all have in common comes first, then a line
for each run with the columns that differ, as many as the terminal is wide, then, if there are more
runs than are shown, how far apart all of them are. What is left out is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median_low
from typing import Any, Final

from rich.cells import cell_len

from byway.cli.columns import columns, printable

GAP: Final = 2
"""Blanks between columns."""
RUNS_BESIDE: Final = 4
"""Runs of which each has a column, if all of them fit beside one another."""
LINES_MAX: Final = 40
"""Runs that have a line of their own."""

_FIRST: Final = (
    *("rows_lost", "dropped", "duplicates", "deliveries", "yield", "mean_hops", "mean_delay_ms"),
    *("delay_ms_p99", "messages", "control_share", "false_positives", "delay_ms_max"),
)
"""The columns that are shown first if not all fit."""

Summary = Mapping[str, Any]


def shown(summaries: Sequence[Summary], names: Sequence[str], width: int) -> list[str]:
    """The lines for summaries with these columns, on a terminal of this width."""
    figures = {summary["run"]: _figures(summary, summaries, names) for summary in summaries}
    if len(figures) <= RUNS_BESIDE:
        lines = _beside(figures)
        if len(figures) == 1 or max(map(cell_len, lines)) <= width:
            return lines
    return list(_by_line(figures, width))


Figures = dict[str, Any]


def _figures(summary: Summary, summaries: Sequence[Summary], names: Sequence[str]) -> Figures:
    """The values of one run by label; a kind of messages has a label of its own."""
    found: Figures = {}
    for name in names:
        if name == "messages_by_kind":
            for kind in sorted({kind for other in summaries for kind in other[name]}):
                found[f"{kind} messages"] = summary[name].get(kind, 0)
        elif name != "run":
            found[_label(name)] = summary[name]
    return found


def _label(name: str) -> str:
    return name.replace("_", " ")


def _beside(figures: Mapping[str, Figures]) -> list[str]:
    """A column for each run."""
    runs = list(figures)
    labels = list(next(iter(figures.values()), {}))
    heads = ["run", *map(printable, runs)]
    rows = [[label, *(figure(figures[run][label]) for run in runs)] for label in labels]
    return columns(heads, rows, right=heads[1:])


def _by_line(figures: Mapping[str, Figures], width: int) -> Iterator[str]:
    """A line for each run, with what differs."""
    runs = list(figures)
    labels = list(figures[runs[0]])
    differing = [name for name in labels if len({figures[run][name] for run in runs}) > 1]
    same = [name for name in labels if name not in differing]
    yield f"{len(runs):,} runs"
    if same:
        yield ""
        yield "the same in all of them:"
        yield from _wrapped([f"{name} {figure(figures[runs[0]][name])}" for name in same], width)
    if not differing:
        return
    first = list(map(_label, _FIRST))
    ordered = sorted(differing, key=lambda n: first.index(n) if n in first else len(first))
    lines = runs if len(runs) <= LINES_MAX else runs[:LINES_MAX]
    chosen = _fitting(figures, lines, ordered, width)
    yield ""
    yield from _table(figures, lines, chosen)
    if len(lines) < len(runs):
        yield f"… and {len(runs) - len(lines):,} more runs"
        yield ""
        yield from _spread(figures, ordered)
    elif len(chosen) < len(ordered):
        others = [name for name in ordered if name not in chosen]
        yield ""
        yield "these differ, too; --json and --out have all:"
        yield from _wrapped(others, width)


def _fitting(
    figures: Mapping[str, Figures], runs: Sequence[str], ordered: Sequence[str], width: int
) -> list[str]:
    """As many columns as fit beside the names of the runs, at least one."""
    used = max(map(cell_len, map(printable, runs)))
    chosen: list[str] = []
    for name in ordered:
        used += GAP + _width(figures, runs, name)
        if chosen and used > width:
            break
        chosen.append(name)
    return chosen


def _width(figures: Mapping[str, Figures], runs: Sequence[str], name: str) -> int:
    cells = [figure(figures[run][name]) for run in runs]
    return max(map(cell_len, [*name.split(), *cells]))


def _table(
    figures: Mapping[str, Figures], runs: Sequence[str], chosen: Sequence[str]
) -> Iterator[str]:
    """Runs by line; the words of a heading stand above one another."""
    heads = [["run"], *(name.split() for name in chosen)]
    height = max(map(len, heads))
    above = [[""] * (height - len(words)) + words for words in heads]
    rows = [[printable(run), *(figure(figures[run][name]) for name in chosen)] for run in runs]
    table = [list(row) for row in zip(*above, strict=True)] + rows
    widths = [max(map(cell_len, column)) for column in zip(*table, strict=True)]
    for row in table:
        name, *cells = row
        line = name + " " * (widths[0] - cell_len(name))
        for cell, size in zip(cells, widths[1:], strict=True):
            line += " " * (GAP + size - cell_len(cell)) + cell
        yield line.rstrip()


def _spread(figures: Mapping[str, Figures], ordered: Sequence[str]) -> list[str]:
    """The lowest, the median and the highest value of what differs, over all runs."""
    heads = ["over all runs", "lowest", "median", "highest"]
    rows = []
    for name in ordered:
        values = sorted(f[name] for f in figures.values() if f[name] is not None)
        low, middle, high = values[0], median_low(values), values[-1]
        rows.append([name, figure(low), figure(middle), figure(high)])
    return columns(heads, rows, right=heads[1:])


def _wrapped(parts: Sequence[str], width: int) -> Iterator[str]:
    """Parts with commas between them, in lines that are no longer than the terminal is wide."""
    line = ""
    for number, part in enumerate(parts):
        text = part if number == len(parts) - 1 else f"{part},"
        if line and cell_len(line) + 1 + cell_len(text) > width - GAP:
            yield f"{' ' * GAP}{line}"
            line = ""
        line = f"{line} {text}" if line else text
    if line:
        yield f"{' ' * GAP}{line}"


def figure(value: Any) -> str:
    """A number as people read it."""
    if value is None:
        return "-"
    return f"{value:,.3f}" if isinstance(value, float) else f"{value:,}"
