"""Reproduces claims: runs all that they compare as one sweep, then estimates and judges.

Claims that compare the same runs share them, because a run is identified by its content. A second
start runs only what is missing. What a claim states is in the catalogue, how it is decided in
`judging`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from byway.pipeline.claims.claim import Claim, PaperValue
from byway.pipeline.claims.estimates import estimates
from byway.pipeline.claims.judging import Estimate, Key, Verdict, judge
from byway.pipeline.pipeline_errors import SweepError
from byway.pipeline.schemas import ESTIMATES, METRICS
from byway.pipeline.sweeps import Sweep, SweepOutcome, run_sweep
from byway.pipeline.sweeps.plan import Run, runs_of
from byway.pipeline.sweeps.run_sweep import Progress
from byway.pipeline.table_files import read_table, write_table
from byway.sim.scenario import Scenario, ScenarioError, read_scenario

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_INSTALLED: Final = Path(__file__).with_name("scenarios")
_CHECKED_OUT: Final = Path(__file__).parents[4] / "examples/scenarios"


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


# --- planning -------------------------------------------------------------------------------------


def plan_runs(claims: Iterable[Claim], *, full: bool, seeds: int | None = None) -> Planned:
    """All runs of the claims, each once. Raises `SweepError` if a setting does not fit."""
    runs: dict[str, Run] = {}
    uses = []
    for claim in claims:
        for point, contender, run in _runs(claim, full=full, seeds=seeds):
            runs.setdefault(run.id, run)
            uses.append((claim.id, point, contender, run.id))
    name = "reproduce, full" if full else "reproduce, quick"
    sweep = Sweep(name=name, source="claims", traces=False, runs=tuple(runs.values()))
    return Planned(sweep, tuple(uses))


def _runs(claim: Claim, *, full: bool, seeds: int | None) -> Iterator[tuple[str, str, Run]]:
    size = claim.full if full else claim.quick
    for point in claim.points:
        for contender in claim.contenders:
            settings = claim.settings(contender, point, full=full)
            scenario = _scenario(claim, settings)
            for run in runs_of(
                scenario, settings, list(range(1, (seeds or size.seeds) + 1)), False
            ):
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
    progress: Progress | None = None,
) -> Reproduction:
    """Run what is missing in `directory`, write the estimates there, and judge the claims."""
    planned = plan_runs(claims, full=full, seeds=seeds)
    sizes = {c.id: seeds or (c.full if full else c.quick).seeds for c in claims}
    outcome = run_sweep(spark, planned.sweep, directory, progress)
    found: dict[str, dict[Key, Estimate]] = {claim.id: {} for claim in claims}
    faults = _failures(planned, outcome)
    if outcome.metrics.exists():
        metrics = read_table(spark, METRICS, outcome.metrics)
        uses = spark.createDataFrame(list(planned.uses), _USES)
        table = directory / ESTIMATES.name
        write_table(estimates(metrics, uses, claims).coalesce(1), ESTIMATES, table)
        for row in read_table(spark, ESTIMATES, table).collect():
            key = row["measure"], row["at"], row["contender"]
            found[row["claim"]][key] = Estimate(row["runs"], row["mean"], row["low"], row["high"])
        for id, fault in _inexact(metrics, uses):
            faults.setdefault(id, []).append(fault)
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
    return Reproduction(results, outcome, full, sizes)


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
        low=None if ours is None else ours.low,
        high=None if ours is None else ours.high,
    )
