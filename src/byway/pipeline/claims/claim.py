"""What a claim consists of: contenders, where they are compared, what is measured, what was
printed, and the statements that decide.

Nothing is run or judged here. A *point* is a variation of the setup that all contenders go through;
most claims have one. Statements speak of measures, contenders and points by name, and those names
are checked when the claim is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import msgspec

Settings = dict[str, str]
"""Key and TOML value, as `byway simulate --set` takes them."""


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """How large the setup is: the published size, or one that takes minutes."""

    settings: Settings = {}
    seeds: int = 3


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One variation of the setup."""

    name: str = ""
    full: Settings = {}
    quick: Settings = {}


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """A number that every run gives; less of it is better."""

    name: str
    unit: str
    value: str
    """SQL over the table of metrics."""


class Printed(msgspec.Struct, frozen=True):
    """A number of the document."""

    measure: str
    contender: str
    value: float
    at: str = ""
    text: str = ""
    """What is printed, if that is no plain number."""


# --- statements -----------------------------------------------------------------------------------


class Order(msgspec.Struct, frozen=True):
    """Contenders from the least to the most of a measure, with disjoint intervals; those of one
    group may come in any order. Without a point, at every one."""

    measure: str
    groups: tuple[tuple[str, ...], ...]
    at: str | None = None

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Who must have less than whom."""
        for less, more in pairwise(self.groups):
            for a in less:
                for b in more:
                    yield a, b


class Gain(msgspec.Struct, frozen=True):
    """One contender has less than another by at least the share that the document prints."""

    measure: str
    better: str
    worse: str
    share: float
    """Of the worse one's."""
    at: str | None = None


class Growth(msgspec.Struct, frozen=True):
    """From one point to another a measure of a contender grows by these factors."""

    measure: str
    contender: str
    at_least: float | None = None
    at_most: float | None = None
    start: str | None = None
    """The first point, if it is not the claim's first."""
    end: str | None = None
    """The other, if it is not the claim's last."""


class Bound(msgspec.Struct, frozen=True):
    """A contender has at most so much, or at least."""

    measure: str
    contender: str
    at_most: float | None = None
    at_least: float | None = None
    at: str | None = None


Statement = Order | Gain | Growth | Bound


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """A statement of the document, and why it may fail here."""

    statement: Statement
    cause: str = ""
    """Why it does not hold, where something measured shows that this is the reason."""
    shown_by: Statement | None = None
    """What is measured then. The cause counts only if this holds."""


# --- claims ---------------------------------------------------------------------------------------


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the list of claims."""

    id: str
    title: str
    document: str
    """Which one, and where in it."""
    setup: str
    scenario: str
    """The file of `examples/scenarios` it is run with, without its ending."""
    contenders: dict[str, Settings]
    measures: tuple[Measure, ...]
    printed: tuple[Printed, ...]
    said: tuple[Said, ...]
    assumed: tuple[str, ...]
    """What the document leaves open, and was chosen."""
    full: Size = Size()
    quick: Size
    points: tuple[Point, ...] = (Point(),)
    axis: str = ""
    """What varies from point to point."""

    def __post_init__(self) -> None:
        for said in self.said:
            for statement in (said.statement, said.shown_by):
                if statement is not None:
                    self._check(statement)
        for printed in self.printed:
            self._check_names(printed.measure, [printed.contender], printed.at)

    def _check(self, statement: Statement) -> None:
        match statement:
            case Order(measure, groups, at):
                self._check_names(measure, [c for group in groups for c in group], at)
            case Gain(measure, better, worse, _, at):
                self._check_names(measure, [better, worse], at)
            case Growth(measure, contender, start=start, end=end):
                self._check_names(measure, [contender], start)
                self._check_names(measure, [contender], end)
            case Bound(measure, contender, at=at):
                self._check_names(measure, [contender], at)

    def _check_names(self, measure: str, contenders: list[str], at: str | None) -> None:
        known = [
            ("measure", measure, [m.name for m in self.measures]),
            ("point", at, [None, *(p.name for p in self.points)]),
            *(("contender", contender, list(self.contenders)) for contender in contenders),
        ]
        for kind, name, names in known:
            if name not in names:  # type: ignore[operator]
                raise ValueError(f"claim {self.id}: there is no {kind} {name!r}")

    def settings(self, contender: str, point: Point, *, full: bool) -> Settings:
        """What a run of a contender sets in the scenario."""
        size = self.full if full else self.quick
        varied = point.full if full else point.quick
        return {**size.settings, **varied, **self.contenders[contender]}
