"""Plots of the storm: lines over time, one for each run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from byway.pipeline.drawing import figure

_COLORS: Final = {"active": "#e8590c", "selective": "#0b7285"}


class Line(NamedTuple):
    """The values of one run."""

    run: str
    times_s: list[float]
    values: list[float]


def draw(lines: Sequence[Line], label: str) -> str:
    """The lines as SVG: one colour for each policy, live runs solid, simulated ones dashed."""
    with figure() as (axes, svg):
        for line in lines:
            how, _, policy = line.run.partition(" ")
            axes.plot(
                line.times_s, line.values, "-" if how == "live" else "--",
                color=_COLORS.get(policy, "#495057"), label=line.run, linewidth=1.5,
            )  # fmt: skip
        axes.set_xlabel("seconds")
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
        axes.legend(frameon=False, fontsize=9)
    return svg.text
