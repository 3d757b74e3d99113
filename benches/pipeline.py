"""The pipeline bench: `python -m benches.pipeline`."""

from benches.entry import Bench
from benches.sections import (
    analysing,
    engines,
    generating,
    importing,
    matching_scale,
    sweeping,
    two_cores,
)

BENCH = Bench(
    name="pipeline",
    about="Measure the analysis of traces, sweeps, workloads and matching, on Spark.",
    preface=[
        "Times are by the clock, the best of several rounds after one that warms Spark up.",
        "Processor time is of all processes, so half of it is what two free cores need at best.",
    ],
    sections={
        "analysing": analysing.measure,
        "engines": engines.measure,
        "sweeping": sweeping.measure,
        "generating": generating.measure,
        "importing": importing.measure,
        "matching_scale": matching_scale.measure,
        "two_cores": two_cores.measure,
    },
)

if __name__ == "__main__":
    BENCH.start()
