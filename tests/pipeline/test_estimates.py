"""Estimates on hand-made frames."""

import json
from math import sqrt
from statistics import mean, stdev

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession

from byway.pipeline.claims import CLAIMS
from byway.pipeline.claims.claim import Claim, Measure, PaperValue, Size
from byway.pipeline.claims.estimates import differences, estimates, values
from byway.pipeline.papers import Paper
from byway.pipeline.schemas import ESTIMATES, MEASURED

USES = "claim string, at string, contender string, id string"


def claim(id: str, **measures: str) -> Claim:
    return Claim(
        id=id, title="", paper=Paper.INCREMENTAL, section="", setup="", scenario="none",
        contenders={"a": {}},
        measures=tuple(Measure(name=n, unit="s", value=sql) for n, sql in measures.items()),
        paper_values=(PaperValue(next(iter(measures)), "a", 1.0),), statements=(), assumed=(),
        quick=Size(),
    )  # fmt: skip


def untraced(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], MEASURED.spark_schema())


def found(frame: DataFrame) -> dict[tuple[str, ...], tuple[float, ...]]:
    assert set(frame.columns) == set(ESTIMATES.names)
    return {
        (row["claim"], row["measure"], row["at"], row["contender"]): (
            row["runs"], row["mean"], row["low"], row["high"]
        )
        for row in frame.collect()
    }  # fmt: skip


def test_means_and_intervals(spark: SparkSession) -> None:
    delays = [2.0, 4.0, 9.0]
    metrics = spark.createDataFrame(
        [(f"r{i}", value, 7) for i, value in enumerate(delays)] + [("other", 100.0, 1)],
        "id string, delay double, messages bigint",
    )
    uses = spark.createDataFrame(
        [("T1", "", "a", f"r{i}") for i in range(3)] + [("T2", "700", "a", "r0")], USES
    )
    claims = [claim("T1", delay="delay", load="2 * messages"), claim("T2", delay="delay")]
    answer = found(estimates(values(metrics, untraced(spark), uses, claims)))
    half = 4.303 * stdev(delays) / sqrt(3)
    assert answer == {
        ("T1", "delay", "", "a"): pytest.approx((3, mean(delays), 5 - half, 5 + half)),
        ("T1", "load", "", "a"): (3, 14.0, 14.0, 14.0),
        ("T2", "delay", "700", "a"): (1, 2.0, 2.0, 2.0),  # one run has no interval
    }


def test_many_seeds_have_normal_intervals(spark: SparkSession) -> None:
    metrics = spark.range(40).selectExpr("cast(id AS string) AS id", "cast(id AS double) AS delay")
    uses = metrics.selectExpr("'T1' AS claim", "'' AS at", "'a' AS contender", "id")
    claims = [claim("T1", delay="delay")]
    answer = found(estimates(values(metrics, untraced(spark), uses, claims)))
    half = 1.96 * stdev(range(40)) / sqrt(40)
    assert answer["T1", "delay", "", "a"] == pytest.approx((40, 19.5, 19.5 - half, 19.5 + half))


def test_what_a_run_does_not_have_is_left_out(spark: SparkSession) -> None:
    facts = [json.dumps({"measured": {"delays": {"mean_ms": value}}}) for value in (1500.5, None)]
    metrics = spark.createDataFrame(list(enumerate(facts)), "number int, facts string")
    metrics = metrics.selectExpr("cast(number AS string) AS id", "facts")
    uses = spark.createDataFrame([("U1", "", "lazy", "0"), ("U1", "", "active", "1")], USES)
    answer = found(estimates(values(metrics, untraced(spark), uses, [CLAIMS["U1"]])))
    assert answer == {("U1", "mean delay", "", "lazy"): (1, 1.5005, 1.5005, 1.5005)}


def test_the_value_of_a_trace_counts_and_must_be_that_of_the_counters(spark: SparkSession) -> None:
    metrics = spark.createDataFrame(
        [("r0", 2.0), ("r1", 4.0), ("r2", 6.0)], "id string, delay double"
    )
    traced = spark.createDataFrame(
        [("r0", {"delay": 2.0}), ("r1", {"delay": 5.0})], MEASURED.spark_schema()
    )
    uses = spark.createDataFrame([("T1", "", "a", f"r{i}") for i in range(3)], USES)
    both = Measure(name="delay", unit="s", value="delay", traced="measured['delay']")
    counted = Measure(name="counted", unit="s", value="delay")
    claims = [msgspec.structs.replace(claim("T1", delay="delay"), measures=(both, counted))]
    measured = values(metrics, traced, uses, claims)
    rows = {row["measure"]: row for row in estimates(measured).collect()}
    assert (rows["delay"]["mean"], rows["delay"]["runs"], rows["delay"]["traced"]) == (
        pytest.approx(13 / 3), 3, 2,
    )  # fmt: skip
    assert (rows["counted"]["mean"], rows["counted"]["traced"]) == (4.0, 0)
    differing = [tuple(row) for row in differences(measured).collect()]
    assert differing == [("T1", "delay", 1)]
