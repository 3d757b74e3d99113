"""Judging: whether what was measured bears a claim out, by the rule at the top of the claims.

The order of the contenders is the document's with disjoint intervals, and gains are at least the
document's; or a deviation has a cause that was measured. It sees means and intervals only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import msgspec

from byway.pipeline.claims.claim import Bound, Claim, Gain, Growth, Order, Said, Statement

Key = tuple[str, str, str]
"""Measure, point, contender."""
RUNS_MIN: Final = 2
"""Fewer have no interval."""


class Estimate(NamedTuple):
    """The mean of a measure over the seeds of a contender, with its 95 % interval."""

    runs: int
    mean: float
    low: float
    high: float


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a statement."""

    statement: str
    holds: bool
    found: str
    """What was measured, in words."""
    cause: str = ""
    """If it does not hold: why, as far as something measured shows it."""

    @property
    def accepted(self) -> bool:
        """Whether it holds, or is known why not."""
        return self.holds or bool(self.cause)


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a claim is reproduced, and why."""

    reproduced: bool
    reason: str
    judgements: tuple[Judgement, ...]


def judge(claim: Claim, estimates: Mapping[Key, Estimate], faults: Iterable[str] = ()) -> Verdict:
    """The verdict on a claim. `faults`: what was wrong with its runs, which leaves no doubt."""
    judgements = tuple(_judgement(claim, said, estimates) for said in claim.said)
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


def _judgement(claim: Claim, said: Said, estimates: Mapping[Key, Estimate]) -> Judgement:
    wrong = list(_against(claim, said.statement, estimates))
    text = in_words(claim, said.statement)
    if not wrong:
        return Judgement(statement=text, holds=True, found=_shown(claim, said.statement, estimates))
    cause = ""
    if said.shown_by is not None and not list(_against(claim, said.shown_by, estimates)):
        cause = f"{said.cause} ({_shown(claim, said.shown_by, estimates)})"
    return Judgement(statement=text, holds=False, found="; ".join(wrong), cause=cause)


# --- statements against estimates -----------------------------------------------------------------


def _against(
    claim: Claim, statement: Statement, estimates: Mapping[Key, Estimate]
) -> Iterator[str]:
    """What speaks against a statement."""
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
                    yield f"{figure(mean)} {_unit(claim, statement.measure)}{_at(point)}".strip()


def _disorder(order: Order, point: str, estimates: Mapping[Key, Estimate]) -> Iterator[str]:
    for a, b in order.pairs():
        less, more = estimates[order.measure, point, a], estimates[order.measure, point, b]
        if min(less.runs, more.runs) < RUNS_MIN:
            yield f"of one run there is no interval{_at(point)}"
        elif not less.mean < more.mean:
            yield f"{a} {figure(less.mean)}, {b} {figure(more.mean)}{_at(point)}"
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
    """What has to be measured for a statement."""
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
    """From which point to which it is."""
    first, last = claim.points[0].name, claim.points[-1].name
    return (
        first if growth.start is None else growth.start,
        last if growth.end is None else growth.end,
    )


def _points(claim: Claim, at: str | None) -> list[str]:
    return [point.name for point in claim.points] if at is None else [at]


# --- in words -------------------------------------------------------------------------------------


def in_words(claim: Claim, statement: Statement) -> str:
    """A statement as people say it."""
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
    told = []
    if at_least is not None:
        told.append(f"at least {figure(at_least)}")
    if at_most is not None:
        told.append(f"at most {figure(at_most)}")
    return f"{' and '.join(told)} {unit}".strip()


def _shown(claim: Claim, statement: Statement, estimates: Mapping[Key, Estimate]) -> str:
    """What was measured where a statement holds."""
    match statement:
        case Order(measure, groups, at):
            names = [c for group in groups for c in group]
            rows = (
                ", ".join(f"{c} {figure(estimates[measure, p, c].mean)}" for c in names) + _at(p)
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
                figure(estimates[measure, p, contender].mean) + _at(p) for p in _points(claim, at)
            )
            return f"{measure} of {contender} {'; '.join(means)} {_unit(claim, measure)}".strip()


def _unit(claim: Claim, measure: str) -> str:
    return next(m.unit for m in claim.measures if m.name == measure)


def _at(point: str) -> str:
    return f" at {point}" if point else ""


def _percent(share: float, beside: float) -> str:
    """With as many digits as it takes to tell it from what it is compared with."""
    for digits in range(1, 6):
        told, other = f"{share:.{digits}%}", f"{beside:.{digits}%}"
        if told != other:
            break
    return told.replace("%", " %")


def figure(value: float) -> str:
    """A number as tables show it."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
