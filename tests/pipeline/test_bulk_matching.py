"""Matching at scale gives the answers of the cross join, in parts and in pieces."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from typer.testing import CliRunner, Result

from byway.cli.main import app
from byway.model import Filter, FilterError, Value, parse
from byway.pipeline.bulk_matching import match, match_counts
from byway.pipeline.bulk_matching.blocks import (
    encoded,
    publication_blocks,
    publications,
    subscription_blocks,
)
from byway.pipeline.bulk_matching.filter_texts import FilterTexts
from byway.pipeline.bulk_matching.index_parts import MEMORY_MIN, build
from byway.pipeline.bulk_matching.match_frames import _arriving, parts_and_slices
from byway.pipeline.bulk_matching.match_task import counts, pairs
from byway.pipeline.pipeline_errors import TableError
from byway.pipeline.table_files import read_table, write_file
from byway.pipeline.workload_schemas import (
    PAIRS,
    PUBLICATION_MATCHES,
    PUBLICATIONS,
    SUBSCRIPTION_MATCHES,
    SUBSCRIPTIONS,
)
from byway.pipeline.workloads import workload
from byway.workload import CoveringDegree, Generator, Siena, StockQuotes, Workflow
from tests import strategies

COUNTS = (PUBLICATION_MATCHES, SUBSCRIPTION_MATCHES)
Publications = list[dict[str, Value]]
MAPS: dict[str, type] = {"integers": int, "numbers": float, "strings": str, "booleans": bool}


def publication_table(rows: Publications, first: int = 0) -> Any:
    made = [
        {
            "id": first + number,
            "broker": None,
            **{
                name: [(n, v) for n, v in row.items() if type(v) is kind]
                for name, kind in MAPS.items()
            },
        }
        for number, row in enumerate(rows)
    ]
    return pa.Table.from_pylist(made, PUBLICATIONS.arrow_schema())


def subscription_table(texts: list[str], first: int = 0) -> Any:
    made = [{"id": first + n, "broker": None, "filter": text} for n, text in enumerate(texts)]
    return pa.Table.from_pylist(made, SUBSCRIPTIONS.arrow_schema())


def expected_pairs(rows: Publications, wanted: list[Filter]) -> list[tuple[int, int]]:
    return [(p, s) for p, row in enumerate(rows) for s, f in enumerate(wanted) if f.matches(row)]


# --- texts


def comparisons() -> st.SearchStrategy[str]:
    """Plain ones, and others that look like them."""
    names = st.sampled_from(["a", "b", "c1", "x.y", "not", "NOT", "IN", "é", '"a"'])
    values = st.sampled_from(
        ["1", "-2", "3.50", "1e3", "'x'", "'it''s'", "' AND '", "' BETWEEN 1 AND 2'", "TRUE"]
    )
    simple = st.builds("{} {} {}".format, names, st.sampled_from(["=", "<", "<=", "<>"]), values)
    between = st.builds("{} BETWEEN {} AND {}".format, names, values, values)
    nested = st.builds("({} OR {})".format, simple, simple)
    return st.one_of(simple, simple, simple, between, nested)


@settings(max_examples=300)
@given(
    st.lists(comparisons(), min_size=1, max_size=4),
    st.sampled_from([" AND ", " AND ", " AND ", " OR ", " and ", "  AND "]),
    st.sampled_from(["", "", "NOT "]),
)
def test_texts_are_read_as_the_parser_does(pieces: list[str], joint: str, before: str) -> None:
    text = before + joint.join(pieces)
    reader = FilterTexts()
    try:
        expected = parse(text)
    except FilterError as error:
        for _ in range(2):
            with pytest.raises(type(error)):
                reader.read(text)
        return
    for _ in range(2):  # the second time its comparisons are known
        assert reader.read(text) == expected


@given(strategies.filters())
def test_any_filter_is_read_as_the_parser_does(filter: Filter) -> None:
    reader = FilterTexts()
    assert reader.read(str(filter)) == reader.read(str(filter)) == filter


def test_names_and_comparisons_are_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = FilterTexts()
    texts = Siena().subscriptions(0).texts()[:500]
    expected = [reader.read(text) for text in texts]
    monkeypatch.setattr("byway.pipeline.bulk_matching.filter_texts.parse", None)
    assert [reader.read(text) for text in texts] == expected


# --- rows


@given(st.lists(strategies.publications(), min_size=1, max_size=20), st.data())
def test_slices_of_batches_are_read(rows: Publications, data: st.DataObject) -> None:
    from byway.matching.vocabulary import Vocabulary

    vocabulary = Vocabulary()
    for name in ("n", "s", "b"):
        vocabulary.use_name(name)
    vocabulary.string("a")
    (batch,) = publication_table(rows).combine_chunks().to_batches()
    start = data.draw(st.integers(0, len(rows) - 1))
    some = batch.slice(start, data.draw(st.integers(1, len(rows) - start)))
    kept = rows[start : start + some.num_rows]
    assert repr(sorted_rows(publications(some))) == repr(sorted_rows(kept))
    (alone,) = publication_table(kept).combine_chunks().to_batches()
    for one, other in zip(encoded(some, vocabulary), encoded(alone, vocabulary), strict=True):
        assert np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


def sorted_rows(rows: Publications) -> list[list[tuple[str, Value]]]:
    return [sorted(row.items()) for row in rows]


def test_values_that_are_null_are_not_there() -> None:
    schema = PUBLICATIONS.arrow_schema()
    row = {"id": 1, "broker": None, "numbers": [], "booleans": []}
    row |= {"integers": [("a", None), ("b", 2)], "strings": [("c", "x"), ("d", None)]}
    (batch,) = pa.Table.from_pylist([row], schema).to_batches()
    from byway.matching.vocabulary import Vocabulary

    vocabulary = Vocabulary()
    numbers = [vocabulary.use_name(name) for name in "abcd"]
    found = encoded(batch, vocabulary)
    assert (found.codes & 0xFFFFFFFF).tolist() == [numbers[1], numbers[2]]


# --- without Spark


def batches(table: Any, rows: int) -> list[Any]:
    """The rows as a task gets them, in batches of so many."""
    columns = table.drop_columns("broker").combine_chunks()
    return [batch for batch in columns.to_batches(rows) if batch.num_rows]


def row(**columns: Any) -> Any:
    """A batch of one row."""
    arrays = [
        pa.array([value], pa.binary() if isinstance(value, bytes) else pa.int32())
        for value in columns.values()
    ]
    return pa.record_batch(arrays, list(columns))


class MatchResult:
    """The answers to small tables, made in this process, in so many parts and slices."""

    def __init__(
        self,
        rows: Publications,
        texts: list[str],
        parts: int = 1,
        slices: int = 1,
        memory: int = 2**30,
    ) -> None:
        blocks = [
            (batch.column("slice")[0].as_py(), batch.column("block")[0].as_py())
            for batch in publication_blocks(slices, iter(batches(publication_table(rows), 3)))
        ]
        subscribed = [
            (part, block)
            for batch in subscription_blocks(parts, iter(batches(subscription_table(texts), 500)))
            for part, block in zip(*(column.to_pylist() for column in batch.columns), strict=True)
        ]
        self.sizes: list[int] = []
        self.rows: list[int] = []
        self.pairs: list[tuple[int, int]] = []
        found: list[tuple[int, int, int]] = []
        for part in range(parts):
            sample = [row(part=part, step=0, block=block) for _, block in blocks[:1]]
            own = [row(part=part, step=1, block=block) for p, block in subscribed if p == part]
            pieces = list(build(memory, iter(sample + own)))
            self._measure(pieces)
            for slice_ in range(slices):
                place = {"part": part, "slice": slice_}
                arriving = [
                    row(
                        **place,
                        step=0,
                        number=piece.column("number")[0].as_py(),
                        piece=piece.column("piece")[0].as_py(),
                        block=piece.column("block")[0].as_py(),
                    )
                    for piece in pieces
                ] + [
                    row(**place, step=1, number=0, piece=0, block=block)
                    for s, block in blocks
                    if s == slice_
                ]
                self.pairs += _rows(pairs(iter(arriving)))
                found += _rows(counts(iter(arriving)))
        self.pairs.sort()
        self.publications = _summed(found, 0)
        self.subscriptions = _summed(found, 1)

    def _measure(self, pieces: list[Any]) -> None:
        """Take down the size of each index, and how many subscriptions it has."""
        for piece in pieces:
            size = len(piece.column("block")[0].as_py())
            if piece.column("piece")[0].as_py() == 0:
                self.rows.append(size // 8)
                self.sizes.append(0)
            else:
                self.sizes[-1] += size

    def check(self, rows: Publications, wanted: list[Filter]) -> None:
        expected = expected_pairs(rows, wanted)
        assert self.pairs == expected
        found = [sum(p == number for p, _ in expected) for number in range(len(rows))]
        assert self.publications == list(enumerate(found))
        found = [sum(s == number for _, s in expected) for number in range(len(wanted))]
        assert self.subscriptions == list(enumerate(found))


def _rows(made: Iterator[Any]) -> list[Any]:
    return [(*values.values(),) for batch in made for values in batch.to_pylist()]


def _summed(found: list[tuple[int, int, int]], side: int) -> list[tuple[int, int]]:
    total: dict[int, int] = {}
    for of, number, matches in found:
        if of == side:
            total[number] = total.get(number, 0) + matches
    return sorted(total.items())


@settings(max_examples=30)
@given(
    st.lists(strategies.publications(), min_size=1, max_size=8),
    st.lists(strategies.filters(), min_size=1, max_size=8),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_answers_are_those_of_the_cross_join(
    rows: Publications, wanted: list[Filter], parts: int, slices: int
) -> None:
    MatchResult(rows, [str(filter) for filter in wanted], parts, slices).check(rows, wanted)


@pytest.mark.parametrize(
    "generator",
    [Siena(seed=2, names=30), StockQuotes(seed=2, symbols=5), Workflow(seed=2, instances=1)],
    ids=lambda generator: type(generator).__name__,
)
def test_workloads_are_matched(generator: Generator) -> None:
    wanted = generator.take_filters(400)
    rows = generator.take_publications(60)
    found = MatchResult(rows, [str(f) for f in wanted], 2, 3)
    found.check(rows, wanted)
    assert found.pairs
    assert len(found.sizes) == 2


def test_indexes_are_no_larger_than_the_bound() -> None:
    generator = CoveringDegree(seed=2, count=12_000)
    texts = [text for chunk in range(3) for text in generator.subscriptions(chunk).texts()]
    rows = generator.take_publications(300)
    one = MatchResult(rows, texts)
    many = MatchResult(rows, texts, slices=2, memory=MEMORY_MIN)
    assert len(one.sizes) == 1
    assert len(many.sizes) > 2
    assert max(many.sizes) <= MEMORY_MIN
    assert (one.pairs, one.publications) == (many.pairs, many.publications)
    assert one.subscriptions == many.subscriptions
    assert len(one.pairs) > 1_000


def test_indexes_of_large_filters_are_no_larger_than_the_bound() -> None:
    texts = [
        " OR ".join(f"a{m} = {40 * n + m} AND b{m} > {n}" for m in range(40)) for n in range(300)
    ]
    found = MatchResult([], texts, memory=MEMORY_MIN)
    assert len(found.sizes) > 1
    assert max(found.sizes) <= MEMORY_MIN
    assert sum(found.rows) == 300


def test_an_index_exceeds_the_bound_by_one_filter_at_most() -> None:
    """Filters that are as large as they may be; even so, one alone is smaller than any bound."""
    values = ",".join(map(str, range(0, 80, 2)))
    texts = [" AND ".join(f"a{n}_{m} IN ({values})" for m in range(45)) for n in range(12)]
    (alone,) = MatchResult([], texts[:1], memory=MEMORY_MIN).sizes
    found = MatchResult([], texts, memory=MEMORY_MIN)
    assert alone < MEMORY_MIN
    assert len(found.sizes) > 1
    assert max(found.sizes) <= MEMORY_MIN + alone
    assert sum(found.rows) == len(texts)


def test_tasks_are_as_many_as_cores_can_use() -> None:
    assert parts_and_slices(1) == (1, 4)
    assert parts_and_slices(2) == (2, 4)
    assert parts_and_slices(100) == (20, 20)


# --- on Spark


def pipeline(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["pipeline", *map(str, arguments)], catch_exceptions=False)


def test_the_answer_is_that_of_spark_itself(spark: SparkSession, tmp_path: Path) -> None:
    """Spark joins by what the filters of one kind say; byway reads the filters."""
    from pyspark.sql import functions as F

    made = pipeline("workload", "dt1", "--size", 1_500, "--publications", 700, "--out", tmp_path)
    assert made.exit_code == 0
    made_tables = [f"--{name}={tmp_path}/{name}" for name in ("publications", "subscriptions")]
    out = tmp_path / "matched"
    done = pipeline("match", *made_tables, "--out", out, "--pairs", "--memory", "1m", "--json")
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    published = spark.read.parquet(str(tmp_path / "publications"))
    subscribed = spark.read.parquet(str(tmp_path / "subscriptions"))
    text = F.concat(
        F.lit("feed = '"), published.strings["feed"], F.lit("' AND item = "),
        published.integers["item"].cast("string"),
    )  # fmt: skip
    joined = published.withColumn("wanted", text).join(
        subscribed, F.col("wanted") == subscribed["filter"]
    )
    expected = sorted((*row,) for row in joined.select(published.id, subscribed.id).collect())
    found = spark.read.parquet(str(out / "pairs")).collect()
    assert sorted((row["publication"], row["subscription"]) for row in found) == expected
    assert told["pairs"] == len(expected) > 100
    assert (told["publications"], told["subscriptions"]) == (700, 1_500)
    tables = {t: read_table(spark, t, out / t.name) for t in (*COUNTS, PAIRS)}
    matches = [row["matches"] for row in tables[SUBSCRIPTION_MATCHES].collect()]
    assert sum(matches) == told["pairs"]
    assert matches.count(0) == told["subscriptions_without"]
    # the counts are the same without the pairs
    paired = [sorted(tables[table].collect()) for table in COUNTS]
    done = pipeline("match", *made_tables, "--out", out, "--json")
    assert json.loads(done.stdout) == told | {"tables": told["tables"][:2]}
    assert [sorted(read_table(spark, t, out / t.name).collect()) for t in COUNTS] == paired
    assert read_table(spark, PAIRS, out / PAIRS.name).count() == 0


Frames = tuple[DataFrame, DataFrame]


def frames(spark: SparkSession, rows: Publications, texts: list[str]) -> Frames:
    published = [
        {name: dict(value) if name in MAPS else value for name, value in row.items()}
        for row in publication_table(rows).to_pylist()
    ]
    return (
        spark.createDataFrame(published, PUBLICATIONS.spark_schema()),
        spark.createDataFrame(subscription_table(texts).to_pylist(), SUBSCRIPTIONS.spark_schema()),
    )


def test_frames_are_matched(spark: SparkSession) -> None:
    """Frames of the caller's own: more columns, narrower types, several partitions."""
    published, subscribed = frames(
        spark, [{"a": n, "s": "x"} for n in range(9)], ["a < 3", "a >= 3 AND s = 'y'", "TRUE"]
    )
    published = published.withColumn("id", published["id"].cast("int")).withColumn("more", F.lit(1))
    found = match(published.repartition(3), subscribed.drop("broker"))
    assert found.dtypes == [("publication", "bigint"), ("subscription", "bigint")]
    expected = [(n, s) for n in range(9) for s in ((0, 2) if n < 3 else (2,))]
    assert sorted(map(tuple, found.collect())) == expected
    counted = match_counts(published, subscribed, cores=3)
    assert counted.dtypes == [("side", "string"), ("id", "bigint"), ("matches", "bigint")]
    assert {(side, number): n for side, number, n in counted.collect()} == {
        **{("publication", n): 2 if n < 3 else 1 for n in range(9)},
        **{("subscription", n): matches for n, matches in enumerate((3, 0, 9))},
    }


def test_nothing_is_computed_before_it_is_used(spark: SparkSession) -> None:
    jobs = spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs
    before = jobs()
    published, subscribed = frames(spark, [{"a": 1}], ["a ="])
    match(published, subscribed)
    found = match_counts(published, subscribed)
    assert jobs() == before
    with pytest.raises(PySparkException, match="subscription 0: at character 4: expected"):
        found.collect()


def test_tables_without_rows_have_answers_without_rows(spark: SparkSession) -> None:
    for rows, texts in (([], ["a = 1"]), ([{"a": 1}], []), ([], [])):
        published, subscribed = frames(spark, rows, texts)  # type: ignore[arg-type]
        assert match(published, subscribed).collect() == []
        found = match_counts(published, subscribed).collect()
        assert [row["matches"] for row in found] == [0] * len(rows + texts)  # type: ignore[operator]


def test_a_match_has_tasks_for_all_cores(spark: SparkSession) -> None:
    tables = workload(spark, "uniform", size=400, publications=6_000)
    arriving = _arriving(tables.publications, tables.subscriptions, 2**30, 100)
    assert arriving.rdd.getNumPartitions() == 400
    used = arriving.where("step = 0").groupBy(F.spark_partition_id()).count().collect()
    assert len(used) == 400  # an index is in each


def test_frames_that_are_no_such_tables_are_refused(spark: SparkSession) -> None:
    published, subscribed = frames(spark, [{"a": 1}], ["a = 1"])
    with pytest.raises(TableError, match=r"the subscriptions: .* columns are missing: filter"):
        match(published, published)
    with pytest.raises(TableError, match="the publications: column integers is string, expected"):
        match(published.withColumn("integers", F.lit("x")), subscribed)
    without = published.withColumn("id", F.lit(None).cast("bigint"))
    with pytest.raises(PySparkException, match="a publication has no id"):
        match(without, subscribed).collect()
    without = subscribed.withColumn("filter", F.lit(None).cast("string"))
    with pytest.raises(PySparkException, match="subscription 0: it has no filter"):
        match(published, without).collect()
    with pytest.raises(ValueError, match="memory_bytes: expected at least 1,048,576, found 5"):
        match(published, subscribed, memory_bytes=5)


@pytest.mark.usefixtures("spark")
def test_what_cannot_be_matched_is_told(tmp_path: Path) -> None:
    write_file(publication_table([{"a": 1}]), tmp_path / "p.parquet")
    write_file(subscription_table(["a = 1", "a ="], 7), tmp_path / "s.parquet")
    tables = ["--publications", tmp_path / "p.parquet", "--subscriptions", tmp_path / "s.parquet"]
    done = pipeline("match", *tables, "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1].startswith("subscription 8: at character 4: expected")
    done = pipeline("match", *tables, "--out", tmp_path / "out", "--memory", "12")
    assert done.exit_code == 2
    assert done.stderr.startswith("--memory 12: expected a size of at least 1m")
    done = pipeline("match", *tables[:2], "--subscriptions", tmp_path / "p.parquet", "--out", "o")
    assert done.exit_code == 2
    assert "expected a subscriptions table, but columns are missing: filter" in done.stderr
