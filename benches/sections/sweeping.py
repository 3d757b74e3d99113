"""Sweeping: 64 small runs on one core and on two."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from benches.report import Figure, Section
from benches.run import Run
from benches.spark import Spent, of_all_processes
from byway.pipeline.spark_session import open_session
from byway.pipeline.sweeps import Sweep, read_sweep, run_sweep

TITLE = "64 small runs of the simulator, each a task"
RUNS = 64
SCENARIO = Path(__file__).parents[2] / "examples/scenarios/load.toml"
SWEEP = """
scenario = "{scenario}"
seeds = {seeds}
[set]
duration_s = 4
topology.brokers = 9
workload.publishers_at = "random"
"""


def measure(run: Run) -> Section:
    """The same sweep with one core and with two."""
    runs = max(4, run.scaled(RUNS))
    with TemporaryDirectory() as directory:
        file = Path(directory, "sweep.toml")
        file.write_text(SWEEP.format(scenario=SCENARIO, seeds=runs))
        sweep = read_sweep(file)
        spent = {}
        for cores in (1, 2):
            run.step(f"{cores} cores")
            spent[cores] = _sweep(sweep, Path(directory, str(cores)), cores)
    one, two = spent[1].clock_s, spent[2].clock_s
    figures = [
        Figure("sweep on two cores", two, "s", baselines={"one core": one}),
        Figure("ratio to one core", one / two, "×", more_is_better=True),
        Figure("on two cores, processor time", spent[2].processor_s, "s"),
        Figure("cores in use", spent[2].processor_s / two, ""),
    ]
    return Section("sweeping", TITLE, {"runs": runs}, figures, [
        "a first sweep of two runs loads the simulator in each worker",
    ])  # fmt: skip


def _sweep(sweep: Sweep, out: Path, cores: int) -> Spent:
    with open_session(f"local[{cores}]") as spark:
        first = Sweep(name="first", source="", traces=False, runs=sweep.runs[:2])
        run_sweep(spark, first, out / "first")
        return of_all_processes(lambda: run_sweep(spark, sweep, out / "all"))
