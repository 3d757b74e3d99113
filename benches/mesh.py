"""The mesh bench: `python -m benches.mesh`."""

from benches.entry import Bench
from benches.sections import overlay_maps, soft_links

BENCH = Bench(
    name="mesh",
    about="Measure the mesh against its targets.",
    preface=[
        "Times are of one core's processor time, the best of several rounds, collector off.",
    ],
    sections={"maps": overlay_maps.measure, "soft-links": soft_links.measure},
)

if __name__ == "__main__":
    BENCH.start()
