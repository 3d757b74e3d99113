"""Plots of the demonstration: lines over time, one for each run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from byway.local.mesh_showcase import MeshOutcome
from byway.local.outage_showcase import DEAD, OutageOutcome
from byway.pipeline.drawing import COLORS, figure

_POLICY_COLORS: Final = {"selective": COLORS[0], "active": COLORS[1]}


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
                color=_POLICY_COLORS.get(policy, COLORS[2]), label=line.run, linewidth=1.5,
            )  # fmt: skip
        axes.set_xlabel("seconds since the first publication")
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    return svg.text


def draw_mesh(outcome: MeshOutcome) -> list[str]:
    """What the mesh changes, as SVG: brokers that only forward, and hops."""
    labels = ("brokers that only forward a quote", "hops of a delivery")
    drawn = []
    for number, label in enumerate(labels, start=1):
        with figure() as (axes, svg):
            for phase in (outcome.without, outcome.with_mesh):
                axes.plot(
                    [step.t_s for step in phase.steps], [step[number] for step in phase.steps],
                    color=COLORS[0 if phase.mesh else 1], linewidth=1.5,
                    label="with the mesh" if phase.mesh else "without",
                )  # fmt: skip
            axes.set_xlabel("seconds since the first quote")
            axes.set_ylabel(label)
            axes.set_ylim(bottom=0)
        drawn.append(svg.text)
    return drawn


def draw_outage(outcome: OutageOutcome) -> str:
    """The events that cross the place of the dead broker, as SVG; it is dead where it is grey."""
    with figure() as (axes, svg):
        times, rates = zip(*outcome.steps, strict=True) if outcome.steps else ((), ())
        axes.axvspan(0, outcome.dead_s, color="#dddddd", label=f"{DEAD} is dead")
        axes.plot(times, rates, color=COLORS[0], linewidth=1.5, label="events that cross its place")
        axes.set_xlabel(f"seconds since {DEAD} was killed")
        axes.set_ylabel("events a second")
        axes.set_ylim(bottom=0)
    return svg.text
