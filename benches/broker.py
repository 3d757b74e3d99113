"""The broker bench: `python -m benches.broker`."""

from benches.entry import Bench
from benches.sections import absorbing, drafts, handle, many_links, simulation, snapshots

BENCH = Bench(
    name="broker",
    about="Measure the broker and the simulator against their targets.",
    preface=[
        "Rates and times are of one core's processor time, the best of several rounds, "
        "collector off.",
    ],
    sections={
        "handle": handle.measure,
        "many-links": many_links.measure,
        "absorbing": absorbing.measure,
        "drafts": drafts.measure,
        "simulation": simulation.measure,
        "snapshots": snapshots.measure,
    },
)

if __name__ == "__main__":
    BENCH.start()
