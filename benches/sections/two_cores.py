"""The analysis of a trace, and matching, on one processor and on two."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from benches.report import Figure, Section, at_least
from benches.run import Run
from benches.sections.analysing import ROWS, make_trace
from benches.spark import Spent, of_all_processes
from byway.pipeline.bulk_matching import match_tables
from byway.pipeline.spark_session import open_session
from byway.pipeline.table_files import read_table
from byway.pipeline.traces import computed_once, read_traces, write_tables
from byway.pipeline.workload_schemas import PUBLICATIONS, SUBSCRIPTIONS
from byway.pipeline.workloads import generate, request_of

TITLE = "the same work on one processor and on two"
MATCH_ROWS = 1_000_000
ROUNDS = 2
"""Of each number of processors, in turn."""
WANTED = 1.8


def measure(run: Run) -> Section:
    """All tables of a trace, and counts of SIENA's workload, each with one processor and two."""
    rows, matched = run.scaled(ROWS), run.scaled(MATCH_ROWS)
    with TemporaryDirectory() as directory:
        place = Path(directory)
        run.step("make the trace")
        traced = make_trace(place / "seed", place / "traces", rows)
        run.step("make the workload")
        with open_session() as spark:
            for size, name in ((matched, "workload"), (max(matched // 20, 1_000), "warm")):
                generate(spark, request_of("siena", size, size, seed=1), place / name)
        spent: dict[int, list[dict[str, Spent]]] = {1: [], 2: []}
        for number in range(ROUNDS):
            for cores in spent:
                run.step(f"{cores} of 2 processors, round {number + 1}")
                spent[cores].append(_of_child(place, cores))
    figures = []
    for name in ("all tables", "match"):
        one, two = (
            min((found[name] for found in spent[cores]), key=lambda x: x.clock_s)
            for cores in (1, 2)
        )
        ratio = one.clock_s / two.clock_s
        wanted = None if run.quick else at_least(WANTED)
        figures += [
            Figure(f"{name}, on two", two.clock_s, "s", baselines={"on one": one.clock_s}),
            Figure(f"{name}, times as fast", ratio, "×", wanted, more_is_better=True),
            Figure(
                f"{name}, processor time",
                two.processor_s,
                "s",
                baselines={"on one": one.processor_s},
            ),
        ]
    sizes = {"rows of the trace": traced, "publications and subscriptions": matched}
    return Section("two_cores", TITLE, sizes, figures, [
        "on one: `local[1]`, with all its processes kept to one processor, garbage collection and "
        "compilation too; on two: `local[2]`, free to use both",
        f"the best of {ROUNDS} rounds each, in turn, each in a process of its own that does the "
        "work once, in a smaller size for matching, before it is measured",
    ])  # fmt: skip


def _of_child(place: Path, cores: int) -> dict[str, Spent]:
    command = [sys.executable, "-m", "benches.sections.two_cores", str(place), str(cores)]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return {name: Spent(*spent) for name, spent in json.loads(told.splitlines()[-1]).items()}


def _measure_here(place: Path, cores: int) -> dict[str, tuple[float, float]]:
    usable = sorted(os.sched_getaffinity(0))[:cores]
    assert len(usable) == cores, f"there are not {cores} processors"
    os.sched_setaffinity(0, usable)  # whatever is started from here inherits it
    with open_session(f"local[{cores}]") as spark:

        def write_all_tables() -> None:
            with computed_once(read_traces(spark, place / "traces")) as tables:
                write_tables(tables, place / "tables")

        def match(name: str) -> None:
            workload = place / name
            tables = (
                read_table(spark, table, workload / table.name)
                for table in (PUBLICATIONS, SUBSCRIPTIONS)
            )
            match_tables(spark, *tables, workload / "matched", pairs=False)

        write_all_tables()
        tables = of_all_processes(write_all_tables)
        match("warm")
        matched = of_all_processes(lambda: match("workload"))
    found = {"all tables": tables, "match": matched}
    return {name: (spent.clock_s, spent.processor_s) for name, spent in found.items()}


if __name__ == "__main__":
    print(json.dumps(_measure_here(Path(sys.argv[1]), int(sys.argv[2]))))
