"""The memory bench: `python -m benches.memory`."""

from benches.entry import Bench
from benches.memory_sections import SECTIONS

BENCH = Bench(
    name="memory",
    about="Measure what live brokers hold after subscriptions, advertisements and clients went.",
    preface=[
        "Two linked brokers are processes of their own; everything comes to the second one.",
        "Memory is what the operating system counts (RSS), once it becomes no less for 15 s.",
    ],
    sections=SECTIONS,
)

if __name__ == "__main__":
    BENCH.start()
