"""Sweeps: the simulator run for every point of a grid, with every seed, each run a Spark task.

`plan` reads a sweep file, `run_task` is what a worker does with one run, `run_sweep` starts the
runs that are missing and keeps their results, `sweep_frame` makes a frame of them.
"""

from byway.pipeline.sweeps.plan import Run, Sweep, read_sweep
from byway.pipeline.sweeps.run_sweep import SweepOutcome, run_sweep, sweep_directory
from byway.pipeline.sweeps.sweep_frame import sweep

__all__ = [
    "Run", "Sweep", "SweepOutcome", "read_sweep", "run_sweep", "sweep", "sweep_directory",
]  # fmt: skip
