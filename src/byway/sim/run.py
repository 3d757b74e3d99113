"""Running: a scenario and a seed become a result.

A result depends on the scenario and the seed alone, but for the time the run takes: nothing is kept
between runs, and scenario and result may be sent to another process.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from math import inf
from time import perf_counter, process_time
from typing import Any, Final

import msgspec

from byway.sim.huge_pages import use_huge_pages
from byway.sim.meters import Measures
from byway.sim.oracle.violations import Report
from byway.sim.run_metrics import RunMetrics
from byway.sim.run_summary import numbers_of, unmet_expectations
from byway.sim.scenario.build import build, plan_of
from byway.sim.scenario.measure import start_meter
from byway.sim.scenario.schema import Scenario
from byway.sim.scenario.value_types import microseconds

Progress = Callable[[int], None]
"""A function that is called now and then with the simulated time, in microseconds."""
LONG_S: Final = 30.0
"""The processor time after which a run is long."""


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one run."""

    scenario: str
    seed: int
    brokers: int
    clients: int
    simulated_s: float
    """The simulated time until nothing was under way any more."""
    wall_s: float
    """The real time that the run took."""
    metrics: RunMetrics
    report: Report
    measures: Measures | None = None
    """The measures of a part of the run; None: the scenario asks for none."""
    trace_rows: int | None = None
    """The rows of its trace; None: none was written."""
    unmet_expectations: tuple[str, ...] = ()
    """The expectations of the scenario that were not met, in sentences."""

    @property
    def ok(self) -> bool:
        """Whether there was no violation and every expectation was met."""
        return not self.violations

    @property
    def violations(self) -> list[str]:
        """The violations and the unmet expectations, in sentences."""
        return [*self.report.violations, *self.unmet_expectations]

    def facts(self) -> dict[str, Any]:
        """The result as plain data."""
        return {
            "scenario": self.scenario,
            "seed": self.seed,
            "ok": self.ok,
            **numbers_of(self.metrics, self.report),
            "measured": msgspec.to_builtins(self.measures),
            "violations": self.violations,
            "brokers": self.brokers,
            "clients": self.clients,
            "simulated_s": self.simulated_s,
            "wall_s": self.wall_s,
            "trace_rows": self.trace_rows,
        }


class _LongRun:
    """Watches the progress of a run, and gives it huge pages once if it takes long: they make the
    rest faster, and what it takes to gather them is little by then."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._gather_at_s = process_time() + LONG_S

    def __call__(self, now_us: int) -> None:
        if process_time() >= self._gather_at_s:
            self._gather_at_s = inf
            use_huge_pages()
        if self._progress is not None:
            self._progress(now_us)


def run_scenario(
    scenario: Scenario,
    seed: int | None = None,
    trace_dir: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    run: str | None = None,
    trace_rows_max: int | None = None,
) -> RunResult:
    """Run a scenario with a seed (its own unless given) and check all that can be checked.

    The name of the run in the trace is `run`, or made of those of scenario and seed. A trace with
    more than `trace_rows_max` rows is removed, and its rows are only counted.
    Raises `ScenarioError` before anything happens if the scenario does not fit its topology.
    """
    seed = scenario.seed if seed is None else seed
    start = perf_counter()
    plan = plan_of(scenario, seed)
    with ExitStack() as stack:
        trace = None
        if trace_dir is not None:
            from byway.trace import TraceWriter  # it needs pyarrow, which takes 30 MiB

            name = f"{scenario.name}-{seed}" if run is None else run
            trace = stack.enter_context(TraceWriter(trace_dir, name, rows_max=trace_rows_max))
        world, clients = build(plan, trace)
        meter = start_meter(plan, world)
        world.run(microseconds(scenario.duration_s), _LongRun(progress))
        is_quiet = not scenario.drain or world.quiet(microseconds(scenario.quiet_s))
        measures = None if meter is None else meter.measures()
        report = world.check(tables=scenario.compare_tables)
        metrics = world.metrics()
    received = {name: client.deliveries for name, client in clients.items()}
    unmet = list(unmet_expectations(scenario.expect, numbers_of(metrics, report), received))
    if not is_quiet:
        unmet.append(f"something is still under way {scenario.quiet_s:g} s after the end")
    return RunResult(
        scenario=scenario.name,
        seed=seed,
        brokers=len(world.topology),
        clients=len(world.clients),
        simulated_s=world.now_us / 1_000_000,
        wall_s=perf_counter() - start,
        metrics=metrics,
        report=report,
        measures=measures,
        trace_rows=None if trace is None else trace.rows,
        unmet_expectations=tuple(unmet),
    )
