"""What a bench found: figures with targets and baselines, as tables, as text and as JSON.

Decides how a figure is judged and shown. It measures nothing and knows nothing of matching.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from io import StringIO
from pathlib import Path
from typing import Any, Literal

import msgspec
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

TEXT_WIDTH = 132
MET, MISSED = "✔", "✘"


@dataclass(frozen=True)
class Target:
    """A bound that a figure must keep."""

    relation: Literal["≤", "<", "≥"]
    bound: float

    def __str__(self) -> str:
        return f"{self.relation} {_number(self.bound)}"

    def met(self, value: float) -> bool:
        """Whether the value keeps the bound."""
        if self.relation == "≥":
            return value >= self.bound
        return value < self.bound if self.relation == "<" else value <= self.bound


def at_most(bound: float) -> Target:
    """The target ≤ bound."""
    return Target("≤", bound)


def below(bound: float) -> Target:
    """The target < bound."""
    return Target("<", bound)


def at_least(bound: float) -> Target:
    """The target ≥ bound."""
    return Target("≥", bound)


@dataclass(frozen=True)
class Figure:
    """One measured value and, in the same unit, what each baseline needed for the same."""

    name: str
    value: float
    unit: str
    target: Target | None = None
    baselines: Mapping[str, float] = field(default_factory=dict)
    more_is_better: bool = False

    def advantage(self, baseline: str) -> float:
        """How many times better than the baseline; below 1: worse."""
        theirs, ours = self.baselines[baseline], self.value
        if self.more_is_better:
            theirs, ours = ours, theirs
        return theirs / ours if ours else float("inf")

    @property
    def met(self) -> bool | None:
        """Whether the target is kept; None without one."""
        return None if self.target is None else self.target.met(self.value)

    def facts(self) -> dict[str, Any]:
        """The figure for JSON."""
        return {
            "value": self.value,
            "unit": self.unit,
            "target": self.target,
            "met": self.met,
            "baselines": {
                name: {"value": value, "advantage": self.advantage(name)}
                for name, value in self.baselines.items()
            },
        }


@dataclass(frozen=True)
class Section:
    """The figures of one named thing, the sizes it was measured with, and how."""

    name: str
    title: str
    sizes: Mapping[str, float | str]
    figures: list[Figure]
    notes: list[str] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        """The section for JSON."""
        return {
            "title": self.title,
            "sizes": self.sizes,
            "figures": {figure.name: figure.facts() for figure in self.figures},
            "notes": self.notes,
        }

    def __rich__(self) -> RenderableType:
        named = dict.fromkeys(["naive", "counting"]) | dict.fromkeys(
            name for figure in self.figures for name in figure.baselines
        )
        baselines = [name for name in named if any(name in f.baselines for f in self.figures)]
        table = Table(
            title=f"{self.name}: {self.title}", title_justify="left", title_style="bold cyan"
        )
        table.add_column("figure", no_wrap=True)
        table.add_column("byway", justify="right", style="bold", no_wrap=True)
        table.add_column("target", justify="right", no_wrap=True)
        table.add_column("")
        for baseline in baselines:
            table.add_column(baseline, justify="right")
            table.add_column("×", justify="right", style="dim")
        for figure in self.figures:
            table.add_row(*_cells(figure, baselines))
        sizes = ", ".join(f"{name} {_number(size)}" for name, size in self.sizes.items())
        notes = [Text(f"  {note}", style="dim") for note in (sizes, *self.notes)]
        return Group(table, *notes, Text())


def _cells(figure: Figure, baselines: list[str]) -> Iterator[RenderableType]:
    yield figure.name
    yield f"{_number(figure.value)} {figure.unit}".rstrip()
    yield "" if figure.target is None else str(figure.target)
    marks = {None: Text(), True: Text(MET, "green"), False: Text(MISSED, "bold red")}
    yield marks[figure.met]
    for baseline in baselines:
        if baseline in figure.baselines:
            yield _number(figure.baselines[baseline])
            yield _number(figure.advantage(baseline))
        else:
            yield from ("–", "")


def _number(value: float | str) -> str:
    """Three digits that matter; whole numbers and large ones with separators."""
    if isinstance(value, str):
        return value
    if value == int(value) or abs(value) >= 1_000:
        return f"{value:,.0f}"
    if abs(value) < 0.001:
        return "< 0.001"
    return f"{value:.{2 - len(str(int(abs(value)))) + 1}f}"


@dataclass
class Report:
    """All sections of a run and what it ran on."""

    title: str
    quick: bool
    preface: list[str]
    sections: list[Section] = field(default_factory=list)

    @property
    def machine(self) -> dict[str, Any]:
        """What may explain a difference between two reports; nothing that names the machine."""
        return {
            "cpus": os.cpu_count(),
            "python": platform.python_version(),
            "numpy": version("numpy"),
            "numba": version("numba"),
            "byway": version("byway"),
        }

    def judged(self) -> list[tuple[Section, Figure]]:
        """The figures that have a target."""
        return [(s, f) for s in self.sections for f in s.figures if f.met is not None]

    def head(self) -> RenderableType:
        """What to know before reading the tables."""
        machine = ", ".join(f"{name} {value}" for name, value in self.machine.items())
        lines = [machine, *self.preface]
        if self.quick:
            lines.append("QUICK RUN: sizes are a twentieth, so targets are marked but mean little.")
        title = Text(self.title, style="bold")
        return Group(title, *(Text(f"  {line}", style="dim") for line in lines), Text())

    def verdict(self) -> RenderableType:
        """How many targets are met, and which are not."""
        judged = self.judged()
        missed = [(s, f) for s, f in judged if not f.met]
        summary = Text(f"{len(judged) - len(missed)} of {len(judged)} targets met", style="bold")
        lines = [Text(_shortfall(s, f), style="red") for s, f in missed]
        return Group(summary, *lines)

    def text(self) -> str:
        """The whole report as plain text."""
        stream = StringIO()
        console = Console(file=stream, width=TEXT_WIDTH, color_system=None)
        console.print(self.head(), *self.sections, self.verdict(), sep="\n")
        return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"

    def json(self) -> bytes:
        """The whole report as JSON."""
        facts = {
            "title": self.title,
            "quick": self.quick,
            "machine": self.machine,
            "sections": {section.name: section.facts() for section in self.sections},
        }
        return msgspec.json.format(msgspec.json.encode(facts), indent=2) + b"\n"

    def write(self, directory: Path, name: str) -> None:
        """`name.json` and `name.txt` in the directory."""
        directory.mkdir(parents=True, exist_ok=True)
        (directory / f"{name}.json").write_bytes(self.json())
        (directory / f"{name}.txt").write_text(self.text())


def _shortfall(section: Section, figure: Figure) -> str:
    measured = f"{_number(figure.value)} {figure.unit}".rstrip()
    return f"  {MISSED} {section.name}: {figure.name} {measured}, wanted {figure.target}"
