"""Judging: decides whether the measured means and intervals reproduce a claim.

They do if the order of the contenders is the paper's with disjoint intervals and the winner's
margin is at least the one the paper reports; or if a deviation has a cause that was measured. It
sees means and intervals only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from byway.pipeline.claims.claim import Bound, Claim, Gain, Growth, Order, PaperStatement, Statement

Key = tuple[str, str, str]
"""Measure, point, contender."""
RUNS_MIN: Final = 2
"""Runs of a contender that an interval needs at least."""


class Estimate(NamedTuple):
    """The mean of a measure over the seeds of a contender, with its 95 % interval."""

    runs: int
    mean: float
    low: float
    high: float
    traced: int = 0
    """Runs whose trace was measured; of the others, counters were."""


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a statement holds, and what was measured."""

    statement: str
    holds: bool
    found: str
    """The measured values, in words."""
    cause: str = ""
    """Why the statement does not hold, if a measurement shows the reason."""

    @property
    def accepted(self) -> bool:
        """Whether the statement holds, or fails for a known cause."""
        return self.holds or bool(self.cause)


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a claim is reproduced, and why."""

    reproduced: bool
    reason: str
    judgements: tuple[Judgement, ...]


def judge(claim: Claim, estimates: Mapping[Key, Estimate], faults: Iterable[str] = ()) -> Verdict:
    """The verdict on a claim. With `faults`, which say what was wrong with its runs, it is not
    reproduced."""
    judgements = tuple(_judgement(claim, stated, estimates) for stated in claim.statements)
    faults = tuple(faults)
    failed = [j for j in judgements if not j.accepted]
    explained = [j for j in judgements if j.cause]
    if faults:
        return Verdict(reproduced=False, reason="; ".join(faults), judgements=judgements)
    if failed:
        reason = "; ".join(f"{j.statement}: {j.found}" for j in failed)
        return Verdict(reproduced=False, reason=reason, judgements=judgements)
    reason = f"all {len(judgements)} statements hold"
    if explained:
        causes = "; ".join(f"{j.statement}: {j.found}, because {j.cause}" for j in explained)
        reason = f"{len(judgements) - len(explained)} statements hold; {causes}"
    return Verdict(reproduced=True, reason=reason, judgements=judgements)


def _judgement(
    claim: Claim, stated: PaperStatement, estimates: Mapping[Key, Estimate]
) -> Judgement:
    wrong = list(_against(claim, stated.statement, estimates))
    text = in_words(claim, stated.statement)
    if not wrong:
        return Judgement(
            statement=text, holds=True, found=_measured(claim, stated.statement, estimates)
        )
    cause = ""
    if stated.evidence is not None and not list(_against(claim, stated.evidence, estimates)):
        cause = f"{stated.cause} ({_measured(claim, stated.evidence, estimates)})"
    return Judgement(statement=text, holds=False, found="; ".join(wrong), cause=cause)


# --- statements against estimates -----------------------------------------------------------------


def _against(
    claim: Claim, statement: Statement, estimates: Mapping[Key, Estimate]
) -> Iterator[str]:
    """The measured values that contradict a statement, in words."""
    for key in keys_of(claim, statement):
        if key not in estimates:
            yield f"{key[2]}{_at(key[1])} was not measured"
            return
    match statement:
        case Order():
            for point in _points(claim, statement.at):
                yield from _disorder(statement, point, estimates)
        case Gain():
            for point in _points(claim, statement.at):
                share = _gain(statement, point, estimates)
                if share < statement.share:
                    yield f"{_percent(share, statement.share)} less{_at(point)}"
        case Growth():
            factor = _growth(claim, statement, estimates)
            if _is_outside(factor, statement.at_least, statement.at_most):
                yield f"grows by {factor:.3g}"
        case Bound():
            for point in _points(claim, statement.at):
                mean = estimates[statement.measure, point, statement.contender].mean
                if _is_outside(mean, statement.at_least, statement.at_most):
                    unit = _unit(claim, statement.measure)
                    yield f"{number_text(mean)} {unit}{_at(point)}".strip()


def _disorder(order: Order, point: str, estimates: Mapping[Key, Estimate]) -> Iterator[str]:
    for a, b in order.pairs():
        less, more = estimates[order.measure, point, a], estimates[order.measure, point, b]
        if min(less.runs, more.runs) < RUNS_MIN:
            yield f"of one run there is no interval{_at(point)}"
        elif not less.mean < more.mean:
            yield f"{a} {number_text(less.mean)}, {b} {number_text(more.mean)}{_at(point)}"
        elif not less.high < more.low:
            yield f"the intervals of {a} and {b} overlap{_at(point)}"


def _gain(gain: Gain, point: str, estimates: Mapping[Key, Estimate]) -> float:
    worse = estimates[gain.measure, point, gain.worse].mean
    return 1 - estimates[gain.measure, point, gain.better].mean / worse if worse else 0.0


def _growth(claim: Claim, growth: Growth, estimates: Mapping[Key, Estimate]) -> float:
    first, last = (
        estimates[growth.measure, point, growth.contender].mean for point in _ends(claim, growth)
    )
    if not first:
        return 1.0 if not last else float("inf")
    return last / first


def _is_outside(value: float, at_least: float | None, at_most: float | None) -> bool:
    return (at_least is not None and value < at_least) or (at_most is not None and value > at_most)


def keys_of(claim: Claim, statement: Statement) -> Iterator[Key]:
    """The estimates that a statement needs."""
    match statement:
        case Order(measure, groups, at):
            names = [(c, p) for p in _points(claim, at) for group in groups for c in group]
        case Gain(measure, better, worse, _, at):
            names = [(c, p) for p in _points(claim, at) for c in (better, worse)]
        case Growth(measure, contender):
            names = [(contender, point) for point in _ends(claim, statement)]
        case Bound(measure, contender, at=at):
            names = [(contender, p) for p in _points(claim, at)]
    for contender, point in names:
        yield measure, point, contender


def _ends(claim: Claim, growth: Growth) -> tuple[str, str]:
    """The points that a growth is measured between."""
    first, last = claim.points[0].name, claim.points[-1].name
    return (
        first if growth.start is None else growth.start,
        last if growth.end is None else growth.end,
    )


def _points(claim: Claim, at: str | None) -> list[str]:
    return [point.name for point in claim.points] if at is None else [at]


# --- in words -------------------------------------------------------------------------------------


def in_words(claim: Claim, statement: Statement) -> str:
    """A statement as a sentence of the report."""
    match statement:
        case Order(measure, groups, at):
            names = " < ".join(" and ".join(group) for group in groups)
            return f"{measure}: {names}{_at(at or '')}"
        case Gain(measure, better, worse, share, at):
            least = f"{100 * share:.4g} %"
            return f"{measure}: {better} at least {least} less than {worse}{_at(at or '')}"
        case Growth(measure, contender, at_least, at_most):
            what = _limits(at_least, at_most, "")
            start, end = _ends(claim, statement)
            return f"{measure}: {contender} grows by {what} from {start} to {end}"
        case Bound(measure, contender, at_most, at_least, at):
            what = _limits(at_least, at_most, _unit(claim, measure))
            return f"{measure}: {contender} {what}{_at(at or '')}"


def _limits(at_least: float | None, at_most: float | None, unit: str) -> str:
    limits = []
    if at_least is not None:
        limits.append(f"at least {number_text(at_least)}")
    if at_most is not None:
        limits.append(f"at most {number_text(at_most)}")
    return f"{' and '.join(limits)} {unit}".strip()


def _measured(claim: Claim, statement: Statement, estimates: Mapping[Key, Estimate]) -> str:
    """The values that a statement is about, in words."""
    match statement:
        case Order(measure, groups, at):
            names = [c for group in groups for c in group]
            rows = (
                ", ".join(f"{c} {number_text(estimates[measure, p, c].mean)}" for c in names)
                + _at(p)
                for p in _points(claim, at)
            )
            return f"{'; '.join(rows)} {_unit(claim, measure)}".strip()
        case Gain():
            shares = (
                f"{_percent(_gain(statement, p, estimates), statement.share)} less{_at(p)}"
                for p in _points(claim, statement.at)
            )
            return "; ".join(shares)
        case Growth():
            return f"grows by {_growth(claim, statement, estimates):.3g}"
        case Bound(measure, contender, at=at):
            means = (
                number_text(estimates[measure, p, contender].mean) + _at(p)
                for p in _points(claim, at)
            )
            return f"{measure} of {contender} {'; '.join(means)} {_unit(claim, measure)}".strip()


def _unit(claim: Claim, measure: str) -> str:
    return next(m.unit for m in claim.measures if m.name == measure)


def _at(point: str) -> str:
    return f" at {point}" if point else ""


def _percent(share: float, beside: float) -> str:
    """A share in per cent, with enough digits to tell it from the share it is compared with."""
    for digits in range(1, 6):
        text, other = f"{share:.{digits}%}", f"{beside:.{digits}%}"
        if text != other:
            break
    return text.replace("%", " %")


def number_text(value: float) -> str:
    """A number as the tables of the report show it."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
