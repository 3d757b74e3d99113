"""Claims without Spark: their vocabulary, the rule of the verdict, plans, plots and the report."""

import re

import msgspec
import pytest

from byway.pipeline.claims import CLAIMS, plan_runs
from byway.pipeline.claims.claim import (
    Bound,
    Claim,
    Gain,
    Growth,
    Measure,
    Order,
    PaperStatement,
    PaperValue,
    Point,
    Size,
    Statement,
)
from byway.pipeline.claims.claim_plots import plot
from byway.pipeline.claims.judging import (
    Estimate,
    Judgement,
    Key,
    Verdict,
    in_words,
    judge,
    number_text,
)
from byway.pipeline.claims.report import likeness, summary
from byway.pipeline.claims.reproduction import ClaimResult, ClaimRow
from byway.pipeline.papers import Paper
from byway.pipeline.pipeline_errors import SweepError

DELAY = Measure(name="delay", unit="s", value="mean_delay_ms / 1000")
LOAD = Measure(name="load", unit="", value="messages")


def claim(*statements: Statement | PaperStatement, points: tuple[Point, ...] = (Point(),)) -> Claim:
    stated = tuple(
        s if isinstance(s, PaperStatement) else PaperStatement(statement=s) for s in statements
    )
    return Claim(
        id="T1",
        title="A is better than B",
        paper=Paper.INCREMENTAL,
        section="section 0",
        setup="none",
        scenario="pruning/004-clustered",
        contenders={"a": {}, "b": {}, "c": {}},
        measures=(DELAY, LOAD),
        paper_values=(PaperValue("delay", "a", 1.0, points[0].name),),
        statements=stated,
        assumed=("nothing",),
        quick=Size(),
        points=points,
        axis="a number",
    )


def found(**means: float) -> dict[Key, Estimate]:
    """Delays at the only point, each with an interval of 10 % to both sides."""
    return {("delay", "", name): near(mean) for name, mean in means.items()}


def near(mean: float) -> Estimate:
    return Estimate(3, mean, 0.9 * mean, 1.1 * mean)


def only(of: Claim, estimates: dict[Key, Estimate]) -> Judgement:
    (judgement,) = judge(of, estimates).judgements
    return judgement


# --- the rule -------------------------------------------------------------------------------------


def test_an_order_needs_disjoint_intervals() -> None:
    order = claim(Order("delay", (("a",), ("b",))))
    assert only(order, found(a=1, b=2)).holds
    assert not only(order, found(a=2, b=1)).holds
    close = only(order, found(a=1, b=1.15))
    assert not close.holds
    assert close.found == "the intervals of a and b overlap"


def test_within_a_group_any_order_will_do() -> None:
    order = claim(Order("delay", (("a", "b"), ("c",))))
    assert only(order, found(a=1, b=2, c=3)).holds
    assert only(order, found(a=2, b=1, c=3)).holds
    assert not only(order, found(a=1, b=3, c=3)).holds


def test_a_gain_is_a_share_of_the_worse() -> None:
    gain = claim(Gain("delay", "a", "b", 0.75))
    assert only(gain, found(a=1, b=4)).holds
    wrong = only(gain, found(a=1.1, b=4))
    assert not wrong.holds
    assert wrong.found == "72.5 % less"


def test_a_gain_over_nothing_is_none() -> None:
    assert not only(claim(Gain("delay", "a", "b", 0.1)), found(a=0, b=0)).holds


@pytest.mark.parametrize(
    ("growth", "holds"),
    [
        (Growth("delay", "a", at_least=2), True),
        (Growth("delay", "a", at_least=3.1), False),
        (Growth("delay", "a", at_most=3), True),
        (Growth("delay", "a", at_most=2.9), False),
    ],
)
def test_growth_is_from_the_first_point_to_the_last(growth: Growth, holds: bool) -> None:
    points = (Point(name="1"), Point(name="2"), Point(name="3"))
    estimates = {("delay", at, "a"): near(mean) for at, mean in (("1", 1), ("2", 9), ("3", 3))}
    assert only(claim(growth, points=points), estimates).holds is holds


def test_growth_between_two_points() -> None:
    points = (Point(name="1"), Point(name="2"), Point(name="3"))
    estimates = {("delay", at, "a"): near(mean) for at, mean in (("1", 1), ("2", 9), ("3", 3))}
    first = Growth("delay", "a", at_least=9, end="2")
    assert only(claim(first, points=points), estimates).holds
    second = Growth("delay", "a", at_most=0.34, start="2")
    assert only(claim(second, points=points), estimates).holds


def test_one_run_shows_no_order() -> None:
    estimates = {("delay", "", "a"): Estimate(1, 1, 1, 1), ("delay", "", "b"): near(2)}
    told = only(claim(Order("delay", (("a",), ("b",)))), estimates)
    assert not told.holds
    assert told.found == "of one run there is no interval"


def test_growth_from_nothing() -> None:
    points = (Point(name="1"), Point(name="2"))
    flat = claim(Growth("delay", "a", at_most=1.5), points=points)
    at = {("delay", "1", "a"): near(0), ("delay", "2", "a"): near(0)}
    assert only(flat, at).holds
    assert not only(flat, at | {("delay", "2", "a"): near(1)}).holds


def test_bounds() -> None:
    assert only(claim(Bound("delay", "a", at_most=1)), found(a=1)).holds
    assert not only(claim(Bound("delay", "a", at_most=1)), found(a=1.01)).holds
    assert not only(claim(Bound("delay", "a", at_least=1)), found(a=0.99)).holds


def test_without_a_point_a_statement_is_about_all() -> None:
    points = (Point(name="1"), Point(name="2"))
    order = claim(Order("delay", (("a",), ("b",))), points=points)
    good = {("delay", at, name): near(mean) for at in "12" for name, mean in (("a", 1), ("b", 2))}
    assert only(order, good).holds
    bad = good | {("delay", "2", "a"): near(5)}
    assert only(order, bad).found == "a 5, b 2 at 2"
    here = claim(Order("delay", (("a",), ("b",)), at="1"), points=points)
    assert only(here, bad).holds


def test_what_was_not_measured_does_not_hold() -> None:
    missing = only(claim(Order("delay", (("a",), ("b",)))), found(a=1))
    assert not missing.holds
    assert missing.found == "b was not measured"


def test_a_cause_counts_only_if_it_is_measured() -> None:
    stated = PaperStatement(
        statement=Gain("delay", "a", "b", 0.9),
        cause="b never waits",
        evidence=Bound("delay", "b", at_most=1),
    )
    seen = judge(claim(stated), found(a=0.5, b=1))
    assert seen.reproduced
    assert seen.judgements[0].cause == "b never waits (delay of b 1 s)"
    assert "because b never waits" in seen.reason
    unseen = judge(claim(stated), found(a=0.5, b=1.2))
    assert not unseen.reproduced
    assert unseen.judgements[0].cause == ""


def test_a_verdict_needs_all_statements() -> None:
    both = claim(Order("delay", (("a",), ("b",))), Gain("delay", "a", "b", 0.9))
    verdict = judge(both, found(a=1, b=2))
    assert not verdict.reproduced
    assert verdict.reason == "delay: a at least 90 % less than b: 50.0 % less"
    assert judge(both, found(a=1, b=20)).reason == "all 2 statements hold"


def test_faulty_runs_reproduce_nothing() -> None:
    verdict = judge(claim(Bound("delay", "a", at_most=1)), found(a=1), ["a run of a failed: it"])
    assert not verdict.reproduced
    assert verdict.reason == "a run of a failed: it"


@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        (Order("weight", (("a",), ("b",))), "measure 'weight'"),
        (Order("delay", (("a",), ("d",))), "contender 'd'"),
        (Gain("delay", "d", "b", 0.5), "contender 'd'"),
        (Growth("delay", "d"), "contender 'd'"),
        (Growth("delay", "a", end="9"), "point '9'"),
        (Bound("delay", "a", at_most=1, at="700"), "point '700'"),
    ],
)
def test_names_are_checked(statement: Statement, fault: str) -> None:
    with pytest.raises(ValueError, match=f"claim T1: there is no {fault}"):
        claim(statement)


def test_shares_are_told_with_the_digits_it_takes() -> None:
    wrong = only(claim(Gain("delay", "a", "b", 0.9996)), found(a=0.05, b=100))
    assert wrong.found == "99.95 % less"


# --- the catalogue --------------------------------------------------------------------------------


@pytest.mark.parametrize("id", CLAIMS)
def test_a_claim_decides_by_what_the_paper_reports(id: str) -> None:
    """With the values of the paper itself every statement about them holds."""
    published = CLAIMS[id]
    assert published.id == id
    values = {
        (p.measure, p.at, p.contender): Estimate(3, p.value, p.value, p.value)
        for p in published.paper_values
    }
    verdict = judge(published, values)
    for judgement in verdict.judgements:
        assert judgement.holds or "not measured" in judgement.found, judgement
    if published.paper_values:  # the paper has M3 as curves
        assert any(judgement.holds for judgement in verdict.judgements)


@pytest.mark.parametrize("full", [False, True])
def test_all_runs_can_be_planned(full: bool) -> None:
    planned = plan_runs(CLAIMS.values(), full=full)
    alone = sum(len(plan_runs([c], full=full).sweep.runs) for c in CLAIMS.values())
    assert len(planned.sweep.runs) < alone, "claims that compare the same runs share them"
    assert {use[3] for use in planned.uses} == {run.id for run in planned.sweep.runs}
    for published in CLAIMS.values():
        seeds = (published.full if full else published.quick).seeds
        uses = [use for use in planned.uses if use[0] == published.id]
        assert len(uses) == len(published.points) * len(published.contenders) * seeds
        assert seeds >= 3


def test_settings_that_are_changed_replace_those_of_all_claims() -> None:
    claims = [CLAIMS["M1"], CLAIMS["M3"]]
    planned = plan_runs(claims, full=True, seeds=1, changed={"duration_s": "300"})
    assert {run.scenario.duration_s for run in planned.sweep.runs} == {300}
    assert all(run.settings["duration_s"] == "300" for run in planned.sweep.runs)
    apart = sum(len(plan_runs([c], full=True, seeds=1).sweep.runs) for c in claims)
    assert len(planned.sweep.runs) < apart, "they still share runs"
    with pytest.raises(SweepError, match=r"claim M1: duration_s: expected a number"):
        plan_runs(claims, full=True, changed={"duration_s": "-1"})


def test_small_runs_are_not_the_large_ones() -> None:
    small, large = (plan_runs(CLAIMS.values(), full=full).sweep.runs for full in (False, True))
    assert not {run.id for run in small} & {run.id for run in large}


# --- showing --------------------------------------------------------------------------------------


def row(contender: str, mean: float | None, at: str = "", printed: float | None = None) -> ClaimRow:
    return ClaimRow(
        measure="delay", unit="s", at=at, contender=contender, printed=printed, printed_text="",
        runs=3, mean=mean, low=mean, high=None if mean is None else 1.1 * mean,
    )  # fmt: skip


@pytest.mark.parametrize(
    "rows",
    [
        [row("a", 1.0, printed=2.0), row("b", 2.0)],
        [row("a", 1.0), row("b", None)],
        [row("a", 0.0), row("b", 0.0)],
        [row("a", 0.001), row("b", 1000.0)],
        [row("a", 1.0, at="1", printed=3.0), row("a", 2.0, at="2"), row("b", 5.0, at="2")],
    ],
    ids=["bars", "nothing measured", "zeros", "wide", "lines"],
)
def test_the_same_rows_give_the_same_plot(rows: list[ClaimRow]) -> None:
    drawing = plot(rows, "a number")
    assert drawing.startswith("<svg")
    assert drawing == plot(rows, "a number")
    assert "delay, s" in drawing
    assert not re.search(r'(?:href|src)="(?!#)', drawing)


def result(id: str, *rows: ClaimRow, reproduced: bool = True) -> ClaimResult:
    verdict = Verdict(reproduced=reproduced, reason="", judgements=())
    return ClaimResult(id=id, title="", verdict=verdict, rows=rows)


def test_the_report_begins_with_the_verdicts() -> None:
    one, two, three = result("U1"), result("U2"), result("U3", reproduced=False)
    assert summary([one, two, three]) == "byway reproduces 2 of 3 claims (U1 and U2), but not U3."
    assert summary([one]) == "byway reproduces 1 of 1 claim (U1)."
    assert summary([three]) == "byway reproduces none of 1 claim (U3)."


def test_the_report_says_how_far_the_numbers_are_from_the_papers() -> None:
    rows = [row("a", 1.0, printed=2.0), row("b", 2.5, printed=1.0), row("c", 0.0, printed=0.0)]
    rows += [row("d", None, printed=1.0), row("e", 1.0), row("f", 0.0, printed=1.0)]
    assert likeness([result("U1", *rows)]) == (
        "Of the 4 values that the papers report and byway measured, 2 differ by a factor of 2 or "
        "less."
    )


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (0.00482, "0.00482"), (50.92, "50.9"), (21_346.4, "21,346")]
)
def test_figures(value: float, text: str) -> None:
    assert number_text(value) == text


@pytest.mark.parametrize(
    ("runs", "traced", "words"),
    [(3, 3, "traces"), (3, 0, "counters"), (3, 2, "traces of 2, counters of 1"), (0, 0, "–")],
)
def test_a_row_says_where_its_number_comes_from(runs: int, traced: int, words: str) -> None:
    assert msgspec.structs.replace(row("a", 1.0), runs=runs, traced=traced).source == words


def test_statements_in_words() -> None:
    order = Order("delay", (("a",), ("b", "c")))
    assert in_words(claim(order), order) == "delay: a < b and c"
    growth = Growth("delay", "a", at_least=2, at_most=3)
    points = (Point(name="1"), Point(name="2"))
    assert in_words(claim(growth, points=points), growth) == (
        "delay: a grows by at least 2 and at most 3 from 1 to 2"
    )
    bound = Bound("delay", "a", at_most=0.5)
    assert in_words(claim(bound), bound) == "delay: a at most 0.5 s"
