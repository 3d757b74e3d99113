"""A sweep as a frame: a row for each run, made when Spark needs it, without a file.

Nothing is kept: every action on the frame simulates again. `run_sweep` keeps results in files and
goes on where it was stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from byway.pipeline.schemas import METRICS
from byway.pipeline.sweeps.plan import Run, Sweep
from byway.pipeline.sweeps.run_task import metrics_of, planned, warm_up

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS: Final = f"{METRICS.ddl()}, `error` string"
"""Those of the table `metrics`, and why a run failed; null: it did not."""


def sweep(spark: SparkSession, plan: Sweep) -> DataFrame:
    """The metrics of all runs of a plan, in tasks of one run each. A run that fails has its
    identity and its `error`, and no metrics. No trace is kept. The driver holds the scenarios of
    all runs at once; `run_sweep` hands them out in rounds."""
    rows = [(number, msgspec.json.encode(run).decode()) for number, run in enumerate(plan.runs)]
    frame = spark.createDataFrame(rows, "number bigint, run string")
    # by range: hashes would put several into one task
    tasks = frame.repartitionByRange(max(1, len(rows)), "number")
    return tasks.mapInArrow(partial(_simulate, plan.name), COLUMNS)


def _simulate(name: str, batches: Iterator[Any]) -> Iterator[Any]:
    """Run in a worker: simulate the runs of a partition, which has one."""
    import pyarrow as pa

    schema = METRICS.arrow_schema().remove_metadata()
    columns = [field.with_nullable(True) for field in schema] + [pa.field("error", pa.string())]
    warm_up()
    for batch in batches:
        for text in batch.column("run").to_pylist():
            row = _row(name, msgspec.json.decode(text, type=Run))
            yield pa.RecordBatch.from_pylist([row], pa.schema(columns))


def _row(name: str, run: Run) -> dict[str, Any]:
    from byway.sim.run import run_scenario

    try:
        result = run_scenario(run.scenario, run.seed, run=run.id)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".partition("\n")[0]
        return planned(run, name) | {"error": reason}
    return metrics_of(run, name, result.facts()) | {"error": None}
