"""Reproduces claims: runs all that they compare as one sweep, measures, then estimates and judges.

Claims that compare the same runs share them, because a run is identified by its content. A second
start runs only what is missing. Runs are measured by their traces on Spark, and by the counters of
their brokers where a trace would be too long. What a claim states is in the catalogue, how it is
decided in `judging`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from byway.pipeline.claims.claim import Claim, PaperValue, Settings
from byway.pipeline.claims.estimates import differences, estimates, values
from byway.pipeline.claims.judging import Estimate, Key, Verdict, judge
from byway.pipeline.jobs import Progress
from byway.pipeline.pipeline_errors import SweepError
from byway.pipeline.schemas import ESTIMATES, MEASURED, METRICS, REQUESTS
from byway.pipeline.sweeps import Sweep, SweepOutcome, run_sweep
from byway.pipeline.sweeps.plan import Run, runs_of
from byway.pipeline.sweeps.run_sweep import is_traced
from byway.pipeline.sweeps.run_task import RunPlaces
from byway.pipeline.table_files import on_this_machine, read_pieces, read_table, write_table
from byway.sim.scenario import Scenario, ScenarioError, read_scenario
from byway.sim.scenario.build import plan_of
from byway.sim.scenario.measure import part_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_INSTALLED: Final = Path(__file__).with_name("scenarios")
_CHECKED_OUT: Final = Path(__file__).parents[4] / "examples/scenarios"


TRACE_ROWS_MAX: Final = 10_000_000
"""Rows that a trace may have to be measured: a run with more is measured by its counters."""


class ClaimRow(msgspec.Struct, frozen=True, kw_only=True):
    """One number of a claim: the paper's value (`printed`) beside the measured one."""

    measure: str
    unit: str
    at: str
    contender: str
    printed: float | None
    printed_text: str
    runs: int
    mean: float | None
    low: float | None
    high: float | None
    traced: int = 0
    """Runs that were measured by their traces; the others were by the counters of their brokers."""

    @property
    def source(self) -> str:
        """Where the measured value comes from, in words."""
        counted = self.runs - self.traced
        if not self.runs:
            return "–"
        if self.traced and counted:
            return f"traces of {self.traced}, counters of {counted}"
        return "traces" if self.traced else "counters"


class ClaimResult(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one claim, and its numbers."""

    id: str
    title: str
    verdict: Verdict
    rows: tuple[ClaimRow, ...]

    def facts(self) -> dict[str, Any]:
        """The result as plain data, as `results.json` has it."""
        return {
            "id": self.id,
            "title": self.title,
            "reproduced": self.verdict.reproduced,
            "reason": self.verdict.reason,
            "statements": msgspec.to_builtins(self.verdict.judgements),
            "rows": msgspec.to_builtins(self.rows),
        }


class Planned(NamedTuple):
    """The runs of some claims, and which claim uses which run."""

    sweep: Sweep
    uses: tuple[tuple[str, str, str, str], ...]
    """Claim, point, contender, id of the run."""


class Reproduction(NamedTuple):
    """The results of some claims, and of the sweep that was run for them."""

    results: tuple[ClaimResult, ...]
    outcome: SweepOutcome
    is_full: bool
    seeds: dict[str, int]
    """Number of seeds, by claim."""
    changed: Settings
    """Settings that replaced those of the claims in all runs."""


# --- planning -------------------------------------------------------------------------------------


def plan_runs(
    claims: Iterable[Claim],
    *,
    full: bool,
    seeds: int | None = None,
    changed: Settings | None = None,
) -> Planned:
    """All runs of the claims, each once, with settings `changed` in all of them. Raises
    `SweepError` if a setting does not fit."""
    claims = tuple(claims)
    runs: dict[str, Run] = {}
    uses = []
    for claim in claims:
        for point, contender, run in _runs(claim, changed or {}, full=full, seeds=seeds):
            runs.setdefault(run.id, run)
            uses.append((claim.id, point, contender, run.id))
    name = "reproduce, full" if full else "reproduce, quick"
    sweep = Sweep(
        name=name,
        source="claims",
        traces=any(m.traced is not None for claim in claims for m in claim.measures),
        runs=tuple(runs.values()),
        trace_rows_max=TRACE_ROWS_MAX,
    )
    return Planned(sweep, tuple(uses))


def _runs(
    claim: Claim, changed: Settings, *, full: bool, seeds: int | None
) -> Iterator[tuple[str, str, Run]]:
    size = claim.full if full else claim.quick
    for point in claim.points:
        for contender in claim.contenders:
            settings = {**claim.settings(contender, point, full=full), **changed}
            scenario = _scenario(claim, settings)
            for run in runs_of(scenario, settings, list(range(1, (seeds or size.seeds) + 1)), True):
                yield point.name, contender, run


def _scenario(claim: Claim, settings: dict[str, str]) -> Scenario:
    directory = _INSTALLED if _INSTALLED.is_dir() else _CHECKED_OUT
    try:
        return read_scenario(
            directory / f"{claim.scenario}.toml",
            [f"{key}={value}" for key, value in settings.items()],
        )
    except ScenarioError as error:
        raise SweepError.of(f"claim {claim.id}", error.problems) from None


# --- doing ----------------------------------------------------------------------------------------


def reproduce(
    spark: SparkSession,
    claims: Sequence[Claim],
    directory: Path,
    *,
    full: bool,
    seeds: int | None = None,
    changed: Settings | None = None,
    progress: Progress | None = None,
) -> Reproduction:
    """Run what is missing in `directory`, write the estimates there, and judge the claims. The
    settings `changed` replace those of the claims in all runs."""
    planned = plan_runs(claims, full=full, seeds=seeds, changed=changed)
    sizes = {c.id: seeds or (c.full if full else c.quick).seeds for c in claims}
    outcome = run_sweep(spark, planned.sweep, directory, progress)
    found: dict[str, dict[Key, Estimate]] = {claim.id: {} for claim in claims}
    faults = _failures(planned, outcome)
    if outcome.metrics.exists():
        metrics = read_table(spark, METRICS, on_this_machine(outcome.metrics))
        uses = spark.createDataFrame(list(planned.uses), _USES)
        traced = measure_traces(spark, planned.sweep, directory, progress)
        measured = values(metrics, traced, uses, claims).persist()
        table = on_this_machine(directory / ESTIMATES.name)
        write_table(estimates(measured).coalesce(1), ESTIMATES, table, progress)
        for row in read_table(spark, ESTIMATES, table).collect():
            key = row["measure"], row["at"], row["contender"]
            found[row["claim"]][key] = Estimate(
                row["runs"], row["mean"], row["low"], row["high"], row["traced"]
            )
        for id, fault in (*_inexact(metrics, uses), *_contradicted(measured)):
            faults.setdefault(id, []).append(fault)
        measured.unpersist()
        for id, fault in _unmeasured(claims, found, sizes):
            faults.setdefault(id, []).append(fault)
    results = tuple(
        ClaimResult(
            id=claim.id,
            title=claim.title,
            verdict=judge(claim, found[claim.id], faults.get(claim.id, ())),
            rows=tuple(_rows(claim, found[claim.id])),
        )
        for claim in claims
    )
    return Reproduction(results, outcome, full, sizes, changed or {})


def measure_traces(
    spark: SparkSession, sweep: Sweep, directory: Path, progress: Progress | None = None
) -> DataFrame:
    """Write and return the measures of all runs that have a trace."""
    from byway.pipeline.traces import read_traces
    from byway.pipeline.traces.part_measures import PARTS, part_measures

    places = RunPlaces(str(directory.absolute()))
    runs = [run for run in sweep.runs if is_traced(places, run.id)]
    table = on_this_machine(directory / MEASURED.name)
    if runs:
        # of all runs; `parts` chooses some
        trace = read_traces(spark, on_this_machine(directory / "traces"))
        requests = read_pieces(spark, REQUESTS, on_this_machine(directory / "requests"))
        parts = spark.createDataFrame([row for run in runs for row in _parts(run)], PARTS)
        measures = part_measures(trace, parts, requests)
        write_table(measures.coalesce(1), MEASURED, table, progress)
    else:
        write_table(spark.createDataFrame([], MEASURED.spark_schema()), MEASURED, table)
    return read_table(spark, MEASURED, table)


def _parts(run: Run) -> Iterator[tuple[str, int, int, str, str]]:
    """The brokers of every group that is measured in a run."""
    part = part_of(plan_of(run.scenario, run.seed))
    if part is not None:
        for name, brokers in part.groups.items():
            for broker in brokers:
                yield run.id, part.from_us, part.to_us, name, broker


_USES: Final = "claim string, at string, contender string, id string"


def _failures(planned: Planned, outcome: SweepOutcome) -> dict[str, list[str]]:
    """By claim, the runs of it that failed."""
    errors = {failure.run.id: failure.error for failure in outcome.failed}
    faults: dict[str, list[str]] = {}
    for claim, point, contender, id in planned.uses:
        if id in errors:
            where = " at ".join(part for part in (contender, point) if part)
            faults.setdefault(claim, []).append(f"a run of {where} failed: {errors[id]}")
    return faults


def _inexact(metrics: DataFrame, uses: DataFrame) -> Iterator[tuple[str, str]]:
    """By claim, the number of runs in which a check did not hold: losing deliveries is no gain."""
    wrong = uses.join(metrics.where("NOT ok").select("id"), "id").groupBy("claim").count()
    for row in wrong.orderBy("claim").collect():
        yield row["claim"], f"in {row['count']} runs a check did not hold"


def _contradicted(measured: DataFrame) -> Iterator[tuple[str, str]]:
    """By claim, the measures that traces and counters give different values for."""
    for row in differences(measured).collect():
        yield row["claim"], f"{row['measure']}: traces and counters differ in {row['count']} runs"


def _unmeasured(
    claims: Iterable[Claim], found: dict[str, dict[Key, Estimate]], seeds: dict[str, int]
) -> Iterator[tuple[str, str]]:
    """By claim, the measures that some of its complete runs have no value for."""
    for claim in claims:
        for (measure, point, contender), estimate in found[claim.id].items():
            if estimate.runs < seeds[claim.id]:
                where = " at ".join(part for part in (contender, point) if part)
                runs = f"{estimate.runs} of {seeds[claim.id]} runs"
                yield claim.id, f"{measure} of {where}: only {runs} have it"


def _rows(claim: Claim, found: dict[Key, Estimate]) -> Iterator[ClaimRow]:
    reported = {(v.measure, v.at, v.contender): v for v in claim.paper_values}
    for measure in claim.measures:
        for point in claim.points:
            for contender in claim.contenders:
                key = measure.name, point.name, contender
                yield _row(key, measure.unit, reported.get(key), found.get(key))


def _row(key: Key, unit: str, reported: PaperValue | None, ours: Estimate | None) -> ClaimRow:
    return ClaimRow(
        measure=key[0],
        unit=unit,
        at=key[1],
        contender=key[2],
        printed=None if reported is None else reported.value,
        printed_text="" if reported is None else reported.text,
        runs=0 if ours is None else ours.runs,
        mean=None if ours is None else ours.mean,
        traced=0 if ours is None else ours.traced,
        low=None if ours is None else ours.low,
        high=None if ours is None else ours.high,
    )
