"""Every public function of `byway.pipeline`, on hand-made frames, in a session of the caller's own.

A program: `python -m tests.pipeline.own_session DIRECTORY [--master URL | --remote URL]`. Workers
need no more than byway. Without a place the session is on this machine, with settings of its own
that differ from byway's wherever results could depend on them.
"""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession

from byway.model import parse
from byway.pipeline import (
    analyse,
    computed_once,
    match,
    match_counts,
    open_session,
    publications_from,
    read_sweep,
    read_table,
    read_traces,
    subscriptions_from,
    sweep,
    workload,
    write_table,
)
from byway.pipeline.jobs import run_action
from byway.pipeline.schemas import SUMMARY
from byway.pipeline.sweeps import run_sweep
from byway.pipeline.traces import write_tables
from byway.pipeline.workload_schemas import PAIRS, PUBLICATIONS
from byway.sim.run import run_scenario
from byway.sim.scenario import read_scenario

CHAIN = Path(__file__).parents[2] / "examples/scenarios/small-chain.toml"
MOUNT = "spark.hadoop.fs.viewfs.mounttable.own"
QUOTES = [(1, "IBM", 1.5, 7, None), (2, "", 2.5, None, True), (3, "SAP", None, 9, False)]
FILTERS = ["price > 1", "name = 'SAP'", "volume >= 7 AND name = 'IBM'", "price >", None]


def settings(directory: Path) -> dict[str, str]:
    """Settings on which no result may depend."""
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.default.parallelism": "3",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.session.timeZone": "Asia/Tokyo",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.caseSensitive": "true",
        "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
        "spark.sql.sources.default": "orc",
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
        "spark.sql.parquet.compression.codec": "gzip",
        "spark.sql.files.maxPartitionBytes": "4096",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "7",
        "spark.sql.execution.arrow.useLargeVarTypes": "true",
        "spark.sql.warehouse.dir": (directory / "warehouse").as_uri(),
        "spark.hadoop.fs.defaultFS": "viewfs://own/",
        f"{MOUNT}.link./": directory.as_uri(),
    }


def main(directory: Path, where: dict[str, str]) -> None:
    """Do all of it; an assertion tells what differs."""
    builder = SparkSession.builder
    if "--remote" in where:
        builder = builder.remote(where["--remote"])
    elif "--master" in where:
        builder = builder.master(where["--master"])
    else:
        builder = builder.master("local[2]")
        for key, value in settings(directory).items():
            builder = builder.config(key, value)
    theirs = builder.getOrCreate()
    before = _state(theirs)
    with open_session() as spark:
        assert spark is theirs
        for step in (_frames, _workloads, _traces, _sweeps, _stops):
            step(spark, directory)
    assert theirs.range(3).count() == 3  # it still runs
    assert _state(theirs) == before
    theirs.stop()


def _state(spark: SparkSession) -> dict[str, str | None]:
    """What is set in a session, as far as somebody could have changed it."""
    return {name: spark.conf.get(name, None) for name in (*settings(Path("/")), "spark.app.name")}


def _no_jobs(spark: SparkSession, make: Callable[[], Any]) -> Any:
    """What `make` returns, which starts no job. Connect does not tell."""
    context = getattr(spark, "sparkContext", None)
    if context is None:
        return make()
    jobs = context._jsc.sc().dagScheduler().numTotalJobs
    before = jobs()
    made = make()
    assert jobs() == before
    return made


def _frames(spark: SparkSession, directory: Path) -> None:
    quotes = spark.createDataFrame(
        QUOTES, "n int, name string, price double, volume int, own boolean"
    )
    filters = spark.createDataFrame(list(enumerate(FILTERS)), "n int, asks string")
    columns = ["name", "price", "volume", "own"]
    published = _no_jobs(spark, lambda: publications_from(quotes, columns, id="n"))
    subscribed = _no_jobs(spark, lambda: subscriptions_from(filters, "asks", id="n"))
    found = {
        row["id"]: {**row["integers"], **row["numbers"], **row["strings"], **row["booleans"]}
        for row in published.rows.collect()
    }
    assert found == {
        1: {"name": "IBM", "price": 1.5, "volume": 7},
        2: {"price": 2.5, "own": True},
        3: {"name": "SAP", "volume": 9, "own": False},
    }
    assert published.rejects.count() == 0
    reasons = {row["n"]: row["reason"] for row in subscribed.rejects.collect()}
    assert set(reasons) == {3, 4}
    assert reasons[4] == "asks: there is no filter"
    as_numbers = publications_from(quotes, {"name": "number", "n": "integer"})
    assert sorted(row["n"] for row in as_numbers.rejects.collect()) == [1, 3]
    expected = {(1, 0), (2, 0), (3, 1), (1, 2)}
    pairs = _no_jobs(spark, lambda: match(published.rows, subscribed.rows))
    assert set(map(tuple, pairs.collect())) == expected
    counts = _no_jobs(spark, lambda: match_counts(published.rows, subscribed.rows))
    assert {(row["side"], row["id"]): row["matches"] for row in counts.collect()} == {
        ("publication", 1): 2, ("publication", 2): 1, ("publication", 3): 1,
        ("subscription", 0): 2, ("subscription", 1): 1, ("subscription", 2): 1,
    }  # fmt: skip
    for place in (f"file://{directory}/pairs", "catalog:own_pairs"):
        told: list[tuple[int, int, str]] = []
        write_table(pairs, PAIRS, place, lambda *facts, told=told: told.append(facts))
        assert told, place
        assert set(map(tuple, read_table(spark, PAIRS, place).collect())) == expected
    spark.sql("DROP TABLE own_pairs")


def _workloads(spark: SparkSession, directory: Path) -> None:
    tables = _no_jobs(spark, lambda: workload(spark, "dt1", size=300, publications=200))
    wanted = {row["id"]: parse(row["filter"]) for row in tables.subscriptions.collect()}
    rows = {row["id"]: row for row in tables.publications.collect()}
    expected = {
        (number, other)
        for number, row in rows.items()
        for other, filter in wanted.items()
        if filter.matches({**row["integers"], **row["strings"]})
    }
    assert expected
    found = match(tables.publications, tables.subscriptions)
    assert set(map(tuple, found.collect())) == expected
    place = f"file://{directory}/published"
    write_table(tables.publications, PUBLICATIONS, place)
    again = match_counts(read_table(spark, PUBLICATIONS, place), tables.subscriptions)
    assert sum(row["matches"] for row in again.collect()) == 2 * len(expected)


def _traces(spark: SparkSession, directory: Path) -> None:
    traces = directory / "own-traces"
    facts = run_scenario(read_scenario(CHAIN), 1, traces, run="first").facts()
    run_scenario(read_scenario(CHAIN), 2, traces, run="second")
    trace = read_traces(spark, f"file://{traces}")
    tables = _no_jobs(spark, lambda: analyse(trace))
    first, second = sorted(tables.summary.collect(), key=lambda row: row["run"])
    assert (first["run"], second["run"]) == ("first", "second")
    for name in ("deliveries", "yield", "mean_hops", "messages_by_kind", "delay_ms_max"):
        assert first[name] == facts[name], name
    own = spark.createDataFrame(trace.collect(), trace.schema)  # a frame, from nowhere
    with computed_once(own.drop("distance", "operation")) as same:
        assert sorted(same.summary.collect()) == [first, second]
        assert same.trees.count() == tables.trees.count()
        write_tables(same, f"file://{directory}/tables", with_edges=True)
    assert read_table(spark, SUMMARY, f"file://{directory}/tables/summary").count() == 2


def _sweeps(spark: SparkSession, directory: Path) -> None:
    file = directory / "own.toml"
    file.write_text(f'scenario = "{CHAIN}"\nseeds = 2\n')
    plan = read_sweep(file)
    expected = {run.id: run_scenario(run.scenario, run.seed).facts() for run in plan.runs}
    lazy = _no_jobs(spark, lambda: sweep(spark, plan))
    assert {row["id"]: row["deliveries"] for row in lazy.collect()} == {
        id: facts["deliveries"] for id, facts in expected.items()
    }
    told: list[tuple[int, int, str]] = []
    out = directory / "own-sweep"
    outcome = run_sweep(spark, plan, out, lambda *facts: told.append(facts))
    assert (outcome.made, outcome.ok) == (2, True)
    assert (2, 2, plan.name) in told
    assert all(done <= total for done, total, _ in told)


def _stops(spark: SparkSession, directory: Path) -> None:
    """Of two jobs the first is not ours; the second is stopped while both run."""
    end, begun = directory / "end", [directory / "theirs", directory / "ours"]

    def waiting(started: Path, until: Path) -> Callable[[Iterator[Any]], Iterator[Any]]:
        def wait(batches: Iterator[Any]) -> Iterator[Any]:
            import time

            for batch in batches:
                started.touch()
                while not until.exists():
                    time.sleep(0.05)
                yield batch

        return wait

    theirs, ours = (
        spark.range(0, 1, 1, 1).mapInArrow(waiting(started, until), "id bigint")
        for started, until in zip(begun, (end, directory / "never"), strict=True)
    )

    def stop_when_both_run(*_: object) -> None:
        if all(path.exists() for path in begun):
            raise LookupError

    with ThreadPoolExecutor(1) as thread:
        other = thread.submit(inheritable_thread_target(spark)(theirs.collect))
        try:
            run_action(spark, ours.collect, stop_when_both_run)
            raise AssertionError("it was not stopped")
        except LookupError:
            pass
        finally:
            end.touch()
        assert len(other.result()) == 1


if __name__ == "__main__":
    main(Path(sys.argv[1]), dict([sys.argv[2:4]]) if sys.argv[2:] else {})
    print("done")
