"""Claims from runs to verdicts, in the smallest size there is."""

from pathlib import Path

import msgspec
import pytest
from pyspark.sql import SparkSession

from byway.pipeline.claims import CLAIMS, Claim, reproduce
from byway.pipeline.claims.claim import Measure, Order, PaperStatement, Size
from byway.pipeline.claims.report import facts, write_report

TINY = {
    **CLAIMS["U9"].quick.settings,
    "workload.subscriptions": "310",
    "workload.parameters.hot": "5",
    "unsubscribe.0.count": "5",
}


def changed(**changes: object) -> Claim:
    return msgspec.structs.replace(CLAIMS["U9"], quick=Size(settings=TINY), **changes)  # type: ignore[arg-type]


def test_a_run_that_is_not_exact_reproduces_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """One contender expects what does not happen."""
    contenders = {
        "active": {"brokers.covering": '"active"'},
        "selective": {"brokers.covering": '"selective"', "expect.deliveries": "1"},
    }
    stated = (
        PaperStatement(statement=Order("core tables in the end", (("selective",), ("active",)))),
    )
    wrong = Measure(
        name="wrong", unit="", value="messages", traced="measured['groups.all.publications']"
    )
    claim = changed(
        contenders=contenders, statements=stated, measures=(*CLAIMS["U9"].measures, wrong)
    )
    found = reproduce(spark, [claim], tmp_path, full=False, seeds=1)
    (result,) = found.results
    assert not found.outcome.ok
    assert not result.verdict.reproduced
    assert result.verdict.reason == (
        "in 1 runs a check did not hold; wrong: traces and counters differ in 2 runs"
    )
    assert [row.runs for row in result.rows] == [1, 1, 1, 1, 1, 1]
    assert {row.source for row in result.rows} == {"traces"}
    shown = facts(found)
    assert shown["reproduced"] == 0
    assert shown["claims"][0]["reproduced"] is False
    assert {row["contender"] for row in shown["claims"][0]["rows"]} == {"active", "selective"}
    page = write_report(found, tmp_path, "byway reproduce U9").read_text()
    assert "Not reproduced" in page
    assert "byway reproduces none of 1 claim (U9)." in page
    assert "Why a claim can be reproduced though the numbers differ" in page
    assert page.count('<td class="text">traces</td>') == 6
    assert "at most 10,000,000 rows" in page
    assert page.count("<dt>") == 2, "the two policies, each in a line"
    lines = (tmp_path / "results.csv").read_text().splitlines()
    assert lines[0].startswith("claim,measure,unit,at,contender,printed")
    assert len(lines) == 7

    again = reproduce(spark, [claim], tmp_path, full=False, seeds=1)
    assert (again.outcome.found, again.outcome.made) == (2, 0)
    assert again.results == found.results


def test_a_measure_that_some_runs_do_not_tell_reproduces_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """These runs have more rows than a trace may have, so that their counters are measured."""
    monkeypatch.setattr("byway.pipeline.claims.reproduction.TRACE_ROWS_MAX", 1_000)
    measures = (
        *CLAIMS["U9"].measures,
        Measure(name="odd", unit="", value="CASE WHEN seed = 2 THEN messages END"),
    )
    told = reproduce(spark, [changed(measures=measures)], tmp_path, full=False, seeds=2)
    (result,) = told.results
    assert not result.verdict.reproduced
    assert "odd of active: only 1 of 2 runs have it" in result.verdict.reason
    assert {row.source for row in result.rows} == {"counters"}
    assert not any((tmp_path / "traces").iterdir())
