"""The matching bench: `python -m benches.matching`."""

from benches.entry import Bench
from benches.sections import (
    drift,
    growth,
    operators,
    parsing,
    relations,
    siena,
    startup,
    stocks,
    updates,
)

BENCH = Bench(
    name="matching",
    about="Measure matching against its targets and two baselines.",
    preface=[
        "naive: every filter asked in turn (NaiveIndex), on a sample, per publication.",
        "counting: satisfied predicates counted with numpy (CountingIndex), on the same sample.",
        "All of them gave the same answers on the sample. × tells how many times better byway is.",
        "Rates and times are of one core's processor time, the best of several rounds, "
        "collector off.",
        "On a busy machine the clock shows worse; figures by the clock say so.",
    ],
    sections={
        "startup": startup.measure,
        "parsing": parsing.measure,
        "siena": siena.measure,
        "stocks": stocks.measure,
        "updates": updates.measure,
        "relations": relations.measure,
        "drift": drift.measure,
        "operators": operators.measure,
        "growth": growth.measure,
    },
)

if __name__ == "__main__":
    BENCH.start()
