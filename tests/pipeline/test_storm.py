"""The storm in a small size: deliveries are exact, and traces become a page of its own."""

import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from byway.local.mesh_showcase import MeshOutcome, MeshPhase, MeshStep
from byway.local.outage_showcase import OutageOutcome, OutageStep
from byway.local.showcase import ShowcaseAccount, ShowcaseOutcome
from byway.model.trace_schema import TraceEvent
from byway.pipeline.storm.finding import comparison, finding
from byway.pipeline.storm.script import BROAD, POLICIES, Script
from byway.pipeline.storm.storm_report import PAPERS, report_storm
from byway.pipeline.storm.time_series import (
    begin_of,
    control_over_time,
    delays_over_time,
    tables_over_time,
)
from byway.workload import CoveringDegree
from tests.pipeline.trace_rows import collected, frame, row

SMALL = {"roots": 4, "rate": 60, "seconds": 2.0}
SHOWCASE = ShowcaseOutcome(
    seconds=5.0,
    brokers=7,
    published={"Oslo": 1_500, "Rome": 1_501},
    subscribers=[
        ShowcaseAccount(
            name="penny", broker="B3", filter="close < 10", expected=1_234, received=1_234,
            unexpected=0, latency_ms_p50=1.25, latency_ms_p99=7.5, hops=[0, 617, 0, 617],
        ),
        ShowcaseAccount(
            name="idle", broker="B5", filter="symbol = 'NONE'", expected=0, received=0,
            unexpected=0, latency_ms_p50=0, latency_ms_p99=0, hops=[],
        ),
    ],
)  # fmt: skip

STEPS = [MeshStep(0.5, 0.7, 2.7), MeshStep(1.0, 0.7, 2.7)]
MESH = MeshOutcome(
    without=MeshPhase(
        mesh=False, published=800, is_exact=True, settled=STEPS[0], soft_links=0, steps=STEPS
    ),
    with_mesh=MeshPhase(
        mesh=True, published=2_001, is_exact=True, settled=MeshStep(5.0, 0.0, 0.8), soft_links=13,
        steps=STEPS,
    ),
)  # fmt: skip


OUTAGE = OutageOutcome(
    dead_s=3.0, crossed=1_357, pause_s=0.6, ways=4, is_exact=True,
    steps=[OutageStep(-0.1, 300.0), OutageStep(0.0, 0.0), OutageStep(0.1, 310.0)],
)  # fmt: skip


def test_the_script_is_the_same_every_time() -> None:
    one, two = Script(**SMALL), Script(**SMALL)
    assert one.subscriptions == two.subscriptions
    assert list(one.publications()) == list(two.publications())
    assert one.expected() == two.expected()


def test_what_ends_is_broad_and_far_away() -> None:
    script = Script(**SMALL)
    assert len(script.ending) == 4
    assert script.homes["broad"] == BROAD
    workload = CoveringDegree(seed=1, count=4 * 41, degree=40, ranges=1, spread=0.15, hit=1.0)
    assert {int(name[1:]) for name in script.ending} == set(workload.root_rows().tolist())


@pytest.mark.usefixtures("spark")
@pytest.mark.timeout(300)
def test_the_whole_storm(tmp_path: Path) -> None:
    lines: list[str] = []
    report = report_storm(tmp_path, lines.append, SHOWCASE, MESH, OUTAGE, Script(**SMALL))
    assert report.is_exact
    runs = {run["run"]: run for run in report.runs}
    assert set(runs) == {f"{how} {policy}" for how in ("live", "simulated") for policy in POLICIES}
    assert {run["publications"] for run in runs.values()} == {120}
    for how in ("live", "simulated"):
        active, selective = (runs[f"{how} {p}"]["stirred"] for p in POLICIES)
        assert selective < 0.5 * active
    assert lines[0].startswith("164 subscriptions at 15 brokers. 4 of them are broad")
    page = report.page.read_text()
    assert page.count("<svg") == 6
    assert report.finding.endswith("and every subscriber received exactly what it should.")
    text = re.sub(r"<[^>]*>", " ", page.partition("<body>")[2])
    assert re.sub(r"\s+", " ", text).strip().startswith(f"What the demo found {report.finding}")
    for words in (
        "penny",
        "close &lt; 10",
        "1,234",
        "1–3 (2.0)",
        "B1 Cairo",
        "Oslo 1,500",
        MESH.finding,
        OUTAGE.finding,
    ):
        assert words in page, words
    for policy in POLICIES:
        assert f"<dt>{policy}</dt><dd>A" in page
    for paper, _ in PAPERS:
        assert f"{paper.authors}: <em>{paper}</em>" in page
    assert not re.search(r'src=|href="(?!#|traces"|summary")', page), (
        "it opens without a network connection"
    )
    assert '<a href="traces">' in page
    assert '<a href="summary">' in page
    table = pq.read_table(tmp_path / "summary").to_pylist()
    assert {row["run"]: row["deliveries"] for row in table} == {
        name: run["deliveries"] for name, run in runs.items()
    }


# --- what was found -------------------------------------------------------------------------------


def runs(active: dict[str, Any], selective: dict[str, Any]) -> list[dict[str, Any]]:
    own = {"live active": active, "live selective": selective}
    return [{"run": name, "stirred": 0, "delay_ms_p99": 1.0, **own.get(name, {})}
            for name in ("live active", "live selective", "simulated active")]  # fmt: skip


def test_the_finding_is_one_sentence_of_measured_numbers() -> None:
    found = finding(
        runs({"stirred": 5_230, "delay_ms_p99": 690.4}, {"stirred": 523, "delay_ms_p99": 69.04}),
        40,
        is_exact=True,
    )
    assert found == (
        "When 40 broad subscriptions ended, brokers with selective pruning sent one another 523 "
        "subscriptions and unsubscriptions where those with active covering sent 5,230 (90 % "
        "fewer), the 99th percentile of the delay was 69 ms instead of 690 ms (90 % less), and "
        "every subscriber received exactly what it should."
    )


def test_a_finding_that_is_not_the_hoped_for_one_is_told() -> None:
    found = finding(
        runs({"stirred": 100, "delay_ms_p99": None}, {"stirred": 300}), 4, is_exact=False
    )
    assert "(200 % more)" in found
    assert "percentile" not in found
    assert found.endswith("and not every subscriber received exactly what it should.")


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_comparison_says_which_is_less(value: int, other: int) -> None:
    words = comparison(value, other, "fewer")
    expected = "fewer" if value < other else "more" if value > other else "the same"
    assert words.endswith(expected)
    if other and value != other:
        share = float(words.split(" %")[0].replace(",", "")) / 100
        assert share == pytest.approx(abs(value - other) / other, rel=0.01, abs=0.005)


# --- what is asked of traces ----------------------------------------------------------------------

SECOND = 1_000_000
START = 100 * SECOND


def test_control_messages_a_second(spark: SparkSession) -> None:
    sent = [(0.1, "sub", 1), (0.2, "unsub", 3), (0.3, "sub", 1), (0.1, "held", 9), (-0.1, "sub", 9)]
    rows = [row(TraceEvent.PUBLISHED, t_us=START), row(TraceEvent.PUBLISHED, t_us=START + SECOND)]
    rows += [
        row(TraceEvent.CONTROL_SENT, t_us=START + int(at_s * SECOND), kind=kind, count=count)
        for at_s, kind, count in sent
    ]
    trace = frame(spark, rows)
    assert collected(control_over_time(trace, begin_of(trace), 0.25), "t_s") == [
        {"run": "r", "t_s": 0.0, "value": 16.0},
        {"run": "r", "t_s": 0.25, "value": 4.0},
    ]


def test_delays_by_when_a_publication_was_made(spark: SparkSession) -> None:
    rows = [row(TraceEvent.PUBLISHED, t_us=START)]
    rows += [
        row(TraceEvent.DELIVERED, t_pub_us=START + made_us, t_us=START + made_us + delay_us)
        for made_us, delay_us in ((0, 1_000), (10, 3_000), (SECOND, 5_000_000))
    ]
    trace = frame(spark, rows)
    assert collected(delays_over_time(trace, begin_of(trace), 0.5), "t_s") == [
        {"run": "r", "t_s": 0.0, "value": 2.0},
        {"run": "r", "t_s": 1.0, "value": 5_000.0},
    ]


def test_tables_count_with_the_last_sample_of_each_broker(spark: SparkSession) -> None:
    samples = [
        (-1.0, "A", "subscriptions", 5),
        (-0.5, "B", "subscriptions", 2),
        (0.1, "B", "advertisements", 9),
        (0.2, "B", "subscriptions", 4),
        (0.7, "A", "subscriptions", 1),
        (0.8, "B", "subscriptions", 6),
        (2.1, "A", "subscriptions", 0),
    ]
    rows = [row(TraceEvent.PUBLISHED, t_us=START)]
    rows += [
        row(TraceEvent.TABLE_SAMPLED, t_us=START + int(at_s * SECOND), broker=b, kind=k, count=c)
        for at_s, b, k, c in samples
    ]
    trace = frame(spark, rows)
    assert collected(tables_over_time(trace, begin_of(trace), 0.5), "t_s") == [
        {"run": "r", "t_s": 0.0, "value": 9.0},
        {"run": "r", "t_s": 0.5, "value": 7.0},
        {"run": "r", "t_s": 2.0, "value": 6.0},
    ]
