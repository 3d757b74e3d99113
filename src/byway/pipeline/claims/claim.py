"""What a claim consists of: contenders, where they are compared, what is measured, the values that
the paper reports, and the statements that decide.

Nothing is run or judged here. A *point* is a variation of the setup that all contenders go through;
most claims have one. Statements speak of measures, contenders and points by name, and those names
are checked when the claim is made.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import msgspec

from byway.pipeline.papers import Paper

Settings = dict[str, str]
"""Key and TOML value, as `byway simulate --set` takes them."""


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """The size of the setup: the published one, or one that takes minutes."""

    settings: Settings = {}
    seeds: int = 3


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """One variation of the setup that all contenders go through."""

    name: str = ""
    full: Settings = {}
    quick: Settings = {}


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """A number that every run gives; less of it is better."""

    name: str
    unit: str
    value: str
    """An SQL expression over the table of metrics, which come from counters."""
    traced: str | None = None
    """The same over the table `measured`, which comes from traces; None: traces do not hold it."""


class PaperValue(msgspec.Struct, frozen=True):
    """The value of a measure that the paper reports for a contender."""

    measure: str
    contender: str
    value: float
    at: str = ""
    text: str = ""
    """The words of the paper, where they are not a plain number."""


# --- statements -----------------------------------------------------------------------------------


class Order(msgspec.Struct, frozen=True):
    """Contenders from the least to the most of a measure, with disjoint intervals; those of one
    group may come in any order. Without a point, at every one."""

    measure: str
    groups: tuple[tuple[str, ...], ...]
    at: str | None = None

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Each pair of contenders of which the first must have less than the second."""
        for less, more in pairwise(self.groups):
            for a in less:
                for b in more:
                    yield a, b


class Gain(msgspec.Struct, frozen=True):
    """The winner's margin is at least the one the paper reports."""

    measure: str
    better: str
    worse: str
    share: float
    """The margin, as a share of the worse contender's value."""
    at: str | None = None


class Growth(msgspec.Struct, frozen=True):
    """A measure of a contender grows by a factor within these limits from one point to another."""

    measure: str
    contender: str
    at_least: float | None = None
    at_most: float | None = None
    start: str | None = None
    """The first point, if it is not the claim's first."""
    end: str | None = None
    """The other, if it is not the claim's last."""


class Bound(msgspec.Struct, frozen=True):
    """A measure of a contender is within these limits."""

    measure: str
    contender: str
    at_most: float | None = None
    at_least: float | None = None
    at: str | None = None


Statement = Order | Gain | Growth | Bound


class PaperStatement(msgspec.Struct, frozen=True, kw_only=True):
    """A statement of the paper, and why it may fail here."""

    statement: Statement
    cause: str = ""
    """Why it does not hold, where something measured shows that this is the reason."""
    evidence: Statement | None = None
    """The statement that shows the cause in the same runs. The cause counts only if this holds."""


# --- claims ---------------------------------------------------------------------------------------


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement of a paper: how to repeat it, and what decides whether it is reproduced."""

    id: str
    title: str
    paper: Paper
    section: str
    """Where in the paper the measurement is."""
    setup: str
    scenario: str
    """The file of `examples/scenarios` it is run with, without its ending."""
    contenders: dict[str, Settings]
    measures: tuple[Measure, ...]
    paper_values: tuple[PaperValue, ...]
    statements: tuple[PaperStatement, ...]
    assumed: tuple[str, ...]
    """What the paper leaves open and was chosen here."""
    full: Size = Size()
    quick: Size
    points: tuple[Point, ...] = (Point(),)
    axis: str = ""
    """The quantity that varies from point to point."""

    def __post_init__(self) -> None:
        for stated in self.statements:
            for statement in (stated.statement, stated.evidence):
                if statement is not None:
                    self._check(statement)
        for value in self.paper_values:
            self._check_names(value.measure, [value.contender], value.at)

    @property
    def reference(self) -> str:
        """The title of the paper, and the section."""
        return f"{self.paper}, {self.section}"

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
        """The settings of the scenario for the runs of a contender at a point."""
        size = self.full if full else self.quick
        varied = point.full if full else point.quick
        return {**size.settings, **varied, **self.contenders[contender]}
