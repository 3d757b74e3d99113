"""Sweeping: a large grid planned, and 64 small runs on one core and on two."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from benches.report import Figure, Section, at_most
from benches.run import Run
from benches.spark import Spent, of_all_processes
from benches.timing import seconds
from byway.pipeline.spark_session import open_session
from byway.pipeline.sweeps import Sweep, read_sweep, run_sweep
from byway.sim.scenario import read_scenario

TITLE = "a large grid planned, and 64 small runs of the simulator, each a task"
RUNS = 64
SIDE = 200
SAMPLE = 500
"""Points of the grid whose scenario is read from its file, for comparison."""
SCENARIOS = Path(__file__).parents[2] / "examples/scenarios"
SCENARIO = SCENARIOS / "load.toml"
GRID_SCENARIO = SCENARIOS / "small-chain.toml"
SWEEP = """
scenario = "{scenario}"
seeds = {seeds}
[set]
duration_s = 4
topology.brokers = 9
workload.publishers_at = "random"
"""
GRID = """
scenario = "{scenario}"
set.expect = {{}}
grid.network.latency_ms = {values}
grid.quiet_s = {values}
"""


def measure(run: Run) -> Section:
    """The same sweep with one core and with two."""
    runs = max(4, run.scaled(RUNS))
    with TemporaryDirectory() as directory:
        run.step("planning")
        side = max(20, run.scaled(SIDE))
        planning_us, reading_us = _plan(Path(directory, "grid.toml"), side)
        file = Path(directory, "sweep.toml")
        file.write_text(SWEEP.format(scenario=SCENARIO, seeds=runs))
        sweep = read_sweep(file)
        spent = {}
        for cores in (1, 2):
            run.step(f"{cores} cores")
            spent[cores] = _sweep(sweep, Path(directory, str(cores)), cores)
    one, two = spent[1].clock_s, spent[2].clock_s
    figures = [
        Figure(
            "planning a point, processor time",
            planning_us,
            "µs",
            at_most(60),
            {"reading its file": reading_us},
        ),
        Figure("sweep on two cores", two, "s", baselines={"one core": one}),
        Figure("ratio to one core", one / two, "×", more_is_better=True),
        Figure("on two cores, processor time", spent[2].processor_s, "s"),
        Figure("cores in use", spent[2].processor_s / two, ""),
    ]
    sizes: dict[str, float | str] = {"points of the grid": side * side, "runs": runs}
    return Section("sweeping", TITLE, sizes, figures, [
        "a first sweep of two runs loads the simulator in each worker",
    ])  # fmt: skip


def _plan(file: Path, side: int) -> tuple[float, float]:
    """Processor time for a point of a square grid in microseconds, and for its scenario alone if it
    is read from its file for each point."""
    file.write_text(GRID.format(scenario=GRID_SCENARIO, values=list(range(1, side + 1))))
    runs = read_sweep(file).runs  # what is loaded once
    planning_s = seconds(lambda: read_sweep(file)) / len(runs)

    def read_each() -> None:
        for number in range(SAMPLE):
            settings = runs[number % len(runs)].settings
            read_scenario(GRID_SCENARIO, [f"{key}={text}" for key, text in settings.items()])

    return 1e6 * planning_s, 1e6 * seconds(read_each) / SAMPLE


def _sweep(sweep: Sweep, out: Path, cores: int) -> Spent:
    with open_session(f"local[{cores}]") as spark:
        first = Sweep(name="first", source="", traces=False, runs=sweep.runs[:2])
        run_sweep(spark, first, out / "first")
        return of_all_processes(lambda: run_sweep(spark, sweep, out / "all"))
