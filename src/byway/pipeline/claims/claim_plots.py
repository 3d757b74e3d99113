"""Plots of claims: the paper's values beside the measured. The same rows give the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10
from typing import Any, Final

from byway.pipeline.claims.reproduction import ClaimRow
from byway.pipeline.drawing import COLORS, figure

_OURS: Final = COLORS[0]
_PAPER: Final = COLORS[1]


def plot(rows: Sequence[ClaimRow], axis: str = "") -> str:
    """One measure as SVG: a bar for each contender, or a line if there are several points."""
    with figure() as (axes, svg):
        if len({row.at for row in rows}) > 1:
            _lines(axes, rows)
            axes.set_xlabel(axis)
        else:
            _bars(axes, rows)
        axes.set_ylabel(", ".join(part for part in (rows[0].measure, rows[0].unit) if part))
        _scale(axes, rows)
    return svg.text


def _bars(axes: Any, rows: Sequence[ClaimRow]) -> None:
    ours = [(i, row) for i, row in enumerate(rows) if row.mean is not None]
    axes.bar(
        [i for i, _ in ours],
        [row.mean for _, row in ours],
        yerr=_errors([row for _, row in ours]),
        width=0.6,
        color=_OURS,
        capsize=3,
        label="byway, 95 % interval",
    )
    printed = [(i, row.printed) for i, row in enumerate(rows) if row.printed is not None]
    if printed:
        axes.plot(
            [i for i, _ in printed], [value for _, value in printed], "D", color=_PAPER,
            markersize=7, label="paper",
        )  # fmt: skip
    axes.set_xticks(range(len(rows)), [row.contender for row in rows])


def _lines(axes: Any, rows: Sequence[ClaimRow]) -> None:
    points = list(dict.fromkeys(row.at for row in rows))
    for number, contender in enumerate(dict.fromkeys(row.contender for row in rows)):
        own = [row for row in rows if row.contender == contender and row.mean is not None]
        color = COLORS[number % len(COLORS)]
        axes.errorbar(
            [points.index(row.at) for row in own], [row.mean for row in own], yerr=_errors(own),
            fmt="o-", color=color, capsize=3, label=contender,
        )  # fmt: skip
        printed = [r for r in rows if r.contender == contender and r.printed is not None]
        if printed:
            axes.plot(
                [points.index(row.at) for row in printed], [row.printed for row in printed], "D",
                markerfacecolor="none", markeredgecolor=color, label=f"{contender}, paper",
            )  # fmt: skip
    axes.set_xticks(range(len(points)), points)


def _errors(rows: Sequence[ClaimRow]) -> list[list[float]]:
    below = [max(0.0, (row.mean or 0) - (row.low or 0)) for row in rows]
    above = [max(0.0, (row.high or 0) - (row.mean or 0)) for row in rows]
    return [below, above]


def _scale(axes: Any, rows: Sequence[ClaimRow]) -> None:
    """Make the axis logarithmic where the smallest value would not be visible; it still has a
    zero."""
    values = [value for row in rows for value in (row.mean, row.printed) if value is not None]
    positive = [value for value in values if value > 0]
    is_wide = bool(positive) and max(positive) > 50 * min(positive)
    if is_wide:
        # A power of ten: the axis has a mark there, and none between it and zero.
        axes.set_yscale("symlog", linthresh=10 ** floor(log10(min(positive))))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    top = max([*positive, *(row.high or 0 for row in rows)]) or 1
    axes.set_ylim(0, top * (4 if is_wide else 1.15))
