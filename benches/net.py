"""The network bench: `python -m benches.net`."""

from benches.entry import Bench
from benches.net_sections import SECTIONS

BENCH = Bench(
    name="net",
    about="Measure live brokers over loopback TCP against their targets.",
    preface=["Brokers, publishers and subscribers are processes of their own on one machine."],
    sections=SECTIONS,
)

if __name__ == "__main__":
    BENCH.start()
