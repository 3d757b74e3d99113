"""Where the time of a publication goes, step by step: `python -m benches.steps`."""

from benches.entry import Bench
from benches.sections import live_steps, simulated_steps

BENCH = Bench(
    name="steps",
    about="Measure the steps of a publication, through live brokers and simulated ones.",
    preface=["Microseconds of one core's processor time for one publication."],
    sections={"live": live_steps.measure, "simulated": simulated_steps.measure},
)

if __name__ == "__main__":
    BENCH.start()
