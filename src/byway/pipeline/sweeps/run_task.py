"""What a worker does with one run: simulate it, and write its metrics or its failure to a file.

A run has a process of its own: if it runs out of memory or crashes, the sweep goes on, and its
memory is returned. It leaves a file of metrics or a file with the reason why there is none, both
under their names only when they are complete; a trace is in its place before the metrics are.
"""

from __future__ import annotations

import os
import shutil
import traceback
from collections.abc import Iterator, Sequence
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from uuid import uuid4

import msgspec

from byway.pipeline.schemas import FAILURES, METRICS, REQUESTS, TableSchema
from byway.pipeline.sweeps.plan import Run
from byway.pipeline.table_files import PARTIAL, SUFFIX, write_file
from byway.trace.trace_directories import listed, run_directory

Item = TypeVar("Item")


class Done(msgspec.Struct, frozen=True):
    """A run is over; its results are in files."""

    id: str


class RunPlaces(NamedTuple):
    """Paths of the files of a sweep."""

    directory: str

    def metrics(self, run: str) -> Path:
        """The file with the metrics of a run."""
        return Path(self.directory, "runs", f"{run}{SUFFIX}")

    def failure(self, run: str) -> Path:
        """The file with the reason why a run failed."""
        return Path(self.directory, "failures", f"{run}{SUFFIX}")

    def trace(self, run: str) -> Path:
        """The directory with the trace files of a run."""
        return run_directory(Path(self.directory, "traces"), run)

    def requests(self, run: str) -> Path:
        """The file with the times at which the clients of a run with a trace were to publish."""
        return Path(self.directory, "requests", f"{run}{SUFFIX}")

    def listed(self, kind: str) -> set[str]:
        """The runs that have a file of `runs`, `failures` or `requests`, by one listing."""
        with os.scandir(Path(self.directory, kind)) as entries:
            names = [entry.name for entry in entries]
        return {n.removesuffix(SUFFIX) for n in names if n.endswith(SUFFIX) and n[0] not in "._"}

    def listed_traces(self) -> set[str]:
        """The runs that have a directory of traces, by one listing."""
        with os.scandir(Path(self.directory, "traces")) as entries:
            return {e.name.removeprefix("run=") for e in entries if e.name.startswith("run=")}


def chunks(items: Sequence[Item], size: int) -> Iterator[Sequence[Item]]:
    """The items in order, at most so many at a time."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


class Task(NamedTuple):
    """What all runs that are started together have in common."""

    places: RunPlaces
    sweep: str
    traces: bool
    attempt: int
    trace_rows_max: int | None = None

    def do(self, run: Run) -> Done:
        """Run in a worker: do one run, and write its metrics or its failure."""
        warm_up()
        failure = in_a_process(self._simulate, run)
        if failure is None:
            self.places.failure(run.id).unlink(missing_ok=True)
        else:
            error, details = failure
            facts = {"attempt": self.attempt, "error": error, "details": details}
            _write(FAILURES, planned(run, self.sweep) | facts, self.places.failure(run.id))
        return Done(run.id)

    def _simulate(self, run: Run) -> None:
        from byway.sim.run import run_scenario

        final = self.places.trace(run.id)
        partial = final.with_name(f".{final.name}.{uuid4().hex}{PARTIAL}")
        trace = partial if self.traces else None
        result = run_scenario(
            run.scenario, run.seed, trace, run=run.id, trace_rows_max=self.trace_rows_max
        )
        if self.traces:
            self._write_requests(run)
            shutil.rmtree(final, ignore_errors=True)
            if listed(partial):  # else it had too many rows
                run_directory(partial, run.id).rename(final)
            shutil.rmtree(partial, ignore_errors=True)
        row = metrics_of(run, self.sweep, result.facts())
        _write(METRICS, row, self.places.metrics(run.id))

    def _write_requests(self, run: Run) -> None:
        """Write when clients were to publish, which measured delays begin with."""
        from byway.sim.scenario.build import plan_of
        from byway.sim.scenario.measure import part_of

        part = part_of(plan_of(run.scenario, run.seed))
        requests_us = {} if part is None else part.requests_us
        rows = [
            {"run": run.id, "publisher": publisher, "sequence": sequence, "t_us": t_us}
            for publisher, times_us in requests_us.items()
            for sequence, t_us in enumerate(times_us, start=1)
        ]
        _write_rows(REQUESTS, rows, self.places.requests(run.id))


def planned(run: Run, sweep: str) -> dict[str, Any]:
    """What is known of a run before it begins, as columns."""
    return {
        "id": run.id,
        "sweep": sweep,
        "scenario": run.scenario.name,
        "settings": list(run.settings.items()),
        "seed": run.seed,
    }


def metrics_of(run: Run, sweep: str, facts: dict[str, Any]) -> dict[str, Any]:
    """The row of a run in the table of metrics, from the facts of its result."""
    counts = {
        column: list(facts[column].items()) for column in ("messages_by_kind", "violations_by_kind")
    }
    row = facts | planned(run, sweep) | counts
    row["facts"] = msgspec.json.encode(facts).decode()
    return {column.name: row[column.name] for column in METRICS.columns}


def _write(table: TableSchema, row: dict[str, Any], path: Path) -> None:
    values = {column.name: row[column.name] for column in table.columns}
    _write_rows(table, [values], path)


def _write_rows(table: TableSchema, rows: list[dict[str, Any]], path: Path) -> None:
    import pyarrow as pa

    write_file(pa.Table.from_pylist(rows, table.arrow_schema()), path)


@cache
def warm_up() -> None:
    """Load the simulator and its kernels once, for all processes that this one starts."""
    from byway.matching import MatchIndex, Vocabulary
    from byway.model import parse
    from byway.sim import run  # noqa: F401

    index = MatchIndex(Vocabulary())
    index.add(1, parse("a > 1"))
    index.match({"a": 2})


def in_a_process(function: Any, *arguments: Any) -> tuple[str, str] | None:
    """Call a function in a process of its own; the error there in one line and in full, or None."""
    context = get_context("fork")
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=_call, args=(writer, function, arguments))
    process.start()
    writer.close()
    try:
        failure: tuple[str, str] | None = reader.recv()
    except EOFError:
        process.join()
        code = process.exitcode or 0
        ended = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        failure = f"the process of the run {ended}", ""
    process.join()
    return failure


def _call(writer: Any, function: Any, arguments: tuple[Any, ...]) -> None:
    try:
        function(*arguments)
    except Exception as error:
        message = f"{type(error).__name__}: {error}".partition("\n")[0]
        writer.send((message, traceback.format_exc()))
    else:
        writer.send(None)
