"""Matching at scale gives the answers of the cross join, in parts and in pieces."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from byway.cli.main import app
from byway.model import Filter, FilterError, Value, parse
from byway.pipeline.bulk_matching.filter_texts import FilterTexts
from byway.pipeline.bulk_matching.match_tables import match_tables
from byway.pipeline.bulk_matching.match_task import (
    MatchPiece,
    MatchPlaces,
    SumPiece,
    match_piece,
    sum_up,
)
from byway.pipeline.bulk_matching.parts import (
    MEMORY_MIN,
    BuildPiece,
    IndexPart,
    build_parts,
    part_rows,
)
from byway.pipeline.bulk_matching.rows import batches_of, encoded, grouped, publications
from byway.pipeline.table_files import SUFFIX, check_file, write_file
from byway.pipeline.workload_schemas import (
    PAIRS,
    PUBLICATION_MATCHES,
    PUBLICATIONS,
    SUBSCRIPTION_MATCHES,
    SUBSCRIPTIONS,
)
from byway.workload import CoveringDegree, Generator, Siena, StockQuotes, Workflow
from tests import strategies

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


def test_row_groups_are_kept_together(tmp_path: Path) -> None:
    file = tmp_path / "p.parquet"
    table = publication_table([{"a": n} for n in range(10)])
    with pq.ParquetWriter(file, table.schema) as out:
        for start, size in ((0, 2), (2, 2), (4, 5), (9, 1)):
            out.write_table(table.slice(start, size))
    found = grouped([file, file], 4)
    assert [(g.first, g.last, g.rows) for g in found[:3]] == [(0, 2, 4), (2, 3, 5), (3, 4, 1)]
    assert len(found) == 6
    ids = [batch.column("id").to_pylist() for batch in batches_of(found[1], ["id"], 3)]
    assert ids == [[4, 5, 6], [7, 8]]


# --- without Spark


class MatchResult:
    """The answers to small tables, made in this process, in pieces of so many rows."""

    def __init__(
        self, place: Path, rows: Publications, texts: list[str], piece: int, memory: int = 2**30
    ) -> None:
        for number, start in enumerate(range(0, len(rows), piece)):
            table = publication_table(rows[start : start + piece], start)
            write_file(table, place / f"p{number:03}.parquet")
        write_file(subscription_table(texts), place / "s.parquet")
        groups = grouped(sorted(place.glob("p*.parquet")), 1)
        wanted = grouped([place / "s.parquet"], 1)
        sample = groups[0] if groups else None
        self.parts = build_parts(BuildPiece(wanted, sample, str(place / "part"), memory)).parts
        places = MatchPlaces(str(place), str(place))
        counted = MatchPlaces(str(place), None)
        for part_number, part in enumerate(self.parts):
            for number, some in enumerate(groups):
                task = MatchPiece(part_number, part, number, some)
                assert match_piece(places, task) == match_piece(counted, task)
        sums = [
            SumPiece(str(place / f"P{number:03}"), number, len(self.parts), groups=some)
            for number, some in enumerate(groups)
        ] + [
            SumPiece(str(place / f"S{number:03}"), number, len(groups), part=part)
            for number, part in enumerate(self.parts)
        ]
        for one in sums:
            sum_up(places, one)
        self.pairs = sorted(
            (row["publication"], row["subscription"])
            for file in place.glob(f"part-*{SUFFIX}")
            for row in pq.read_table(file).to_pylist()
        )
        self.publications = self._totals(place, "P*")
        self.subscriptions = self._totals(place, "S*")

    def _totals(self, place: Path, pattern: str) -> list[tuple[int, int]]:
        files = sorted(place.glob(pattern))
        return [(*row.values(),) for file in files for row in pq.read_table(file).to_pylist()]

    def check(self, rows: Publications, wanted: list[Filter]) -> None:
        pairs = expected_pairs(rows, wanted)
        assert self.pairs == pairs
        counts = [sum(p == number for p, _ in pairs) for number in range(len(rows))]
        assert self.publications == list(enumerate(counts))
        counts = [sum(s == number for _, s in pairs) for number in range(len(wanted))]
        assert self.subscriptions == list(enumerate(counts))


@settings(max_examples=30)
@given(
    st.lists(strategies.publications(), min_size=1, max_size=8),
    st.lists(strategies.filters(), min_size=1, max_size=8),
    st.integers(1, 8),
)
def test_answers_are_those_of_the_cross_join(
    tmp_path_factory: pytest.TempPathFactory, rows: Publications, wanted: list[Filter], piece: int
) -> None:
    place = tmp_path_factory.mktemp("match")
    MatchResult(place, rows, [str(filter) for filter in wanted], piece).check(rows, wanted)


@pytest.mark.parametrize(
    "generator",
    [Siena(seed=2, names=30), StockQuotes(seed=2, symbols=5), Workflow(seed=2, instances=1)],
    ids=lambda generator: type(generator).__name__,
)
def test_workloads_are_matched(generator: Generator, tmp_path: Path) -> None:
    wanted = generator.take_filters(400)
    rows = generator.take_publications(60)
    found = MatchResult(tmp_path, rows, [str(f) for f in wanted], 25)
    found.check(rows, wanted)
    assert found.pairs


def test_parts_are_no_larger_than_the_bound(tmp_path: Path) -> None:
    generator = CoveringDegree(seed=2, count=12_000)
    texts = [text for chunk in range(3) for text in generator.subscriptions(chunk).texts()]
    rows = generator.take_publications(300)
    (tmp_path / "one").mkdir()
    (tmp_path / "many").mkdir()
    one = MatchResult(tmp_path / "one", rows, texts, 300)
    many = MatchResult(tmp_path / "many", rows, texts, 100, memory=MEMORY_MIN)
    assert len(one.parts) == 1
    assert len(many.parts) > 2
    assert max(part.size_bytes for part in many.parts) <= MEMORY_MIN
    assert max(part.index.stat().st_size for part in many.parts) <= MEMORY_MIN
    assert (one.pairs, one.publications) == (many.pairs, many.publications)
    assert one.subscriptions == many.subscriptions
    assert len(one.pairs) > 1_000


def parts_of(place: Path, texts: list[str]) -> list[IndexPart]:
    write_file(subscription_table(texts), place / "s.parquet")
    groups = grouped([place / "s.parquet"], 1)
    return build_parts(BuildPiece(groups, None, str(place / "part"), MEMORY_MIN)).parts


def test_parts_of_large_filters_are_no_larger_than_the_bound(tmp_path: Path) -> None:
    texts = [
        " OR ".join(f"a{m} = {40 * n + m} AND b{m} > {n}" for m in range(40)) for n in range(300)
    ]
    parts = parts_of(tmp_path, texts)
    assert len(parts) > 1
    assert max(part.index.stat().st_size for part in parts) <= MEMORY_MIN
    assert [part.size_bytes for part in parts] == [part.index.stat().st_size for part in parts]
    ids = np.concatenate([np.load(part.ids) for part in parts])
    assert ids.tolist() == list(range(300))
    assert [part.rows for part in parts] == [len(np.load(part.ids)) for part in parts]


def test_a_part_exceeds_the_bound_by_one_filter_at_most(tmp_path: Path) -> None:
    """Filters that are as large as they may be; even so, one alone is smaller than any bound."""
    values = ",".join(map(str, range(0, 80, 2)))
    texts = [" AND ".join(f"a{n}_{m} IN ({values})" for m in range(45)) for n in range(12)]
    (tmp_path / "one").mkdir()
    (alone,) = parts_of(tmp_path / "one", texts[:1])
    parts = parts_of(tmp_path, texts)
    assert alone.size_bytes < MEMORY_MIN
    assert len(parts) > 1
    assert max(part.size_bytes for part in parts) <= MEMORY_MIN + alone.size_bytes
    assert sum(part.rows for part in parts) == len(texts)


def test_parts_are_built_side_by_side() -> None:
    assert part_rows(10) == part_rows(900_000) == 250_000
    assert part_rows(2_000_000) == 500_000
    assert part_rows(50_000_000) == 1_000_000


# --- on Spark


def pipeline(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["pipeline", *map(str, arguments)], catch_exceptions=False)


def test_the_answer_is_that_of_spark_itself(spark: SparkSession, tmp_path: Path) -> None:
    """Spark joins by what the filters of one kind say; byway reads the filters."""
    from pyspark.sql import functions as F

    made = pipeline("workload", "dt1", "--size", 1_500, "--publications", 700, "--out", tmp_path)
    assert made.exit_code == 0
    tables = [f"--{name}={tmp_path}/{name}" for name in ("publications", "subscriptions")]
    out = tmp_path / "matched"
    done = pipeline("match", *tables, "--out", out, "--pairs", "--memory", "1m", "--json")
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
    for table in (PAIRS, PUBLICATION_MATCHES, SUBSCRIPTION_MATCHES):
        for file in (out / table.name).iterdir():
            check_file(table, file)
    counts = pq.read_table(out / "subscription_matches").to_pandas()
    assert counts["matches"].sum() == told["pairs"]
    assert (counts["matches"] == 0).sum() == told["subscriptions_without"]
    assert not list(out.glob(".match*"))


def test_a_second_match_in_the_same_place_has_its_own_answer(
    spark: SparkSession, tmp_path: Path
) -> None:
    """So many tasks that every worker has a part in both."""
    published = [tmp_path / f"p{number}.parquet" for number in range(10)]
    for number, file in enumerate(published):
        write_file(publication_table([{"a": number}], number), file)
    found = []
    for number, text in enumerate(("a < 3", "a >= 3")):
        write_file(subscription_table([text]), tmp_path / f"s{number}.parquet")
        subscribed = [tmp_path / f"s{number}.parquet"]
        match_tables(spark, published, subscribed, tmp_path / "out", pairs=True)
        rows = pq.read_table(tmp_path / "out/pairs").to_pylist()
        found.append(sorted(row["publication"] for row in rows))
    assert found == [[0, 1, 2], [3, 4, 5, 6, 7, 8, 9]]


def test_tables_without_rows_have_answers_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    write_file(publication_table([]), tmp_path / "p.parquet")
    write_file(subscription_table(["a = 1"]), tmp_path / "s.parquet")
    files = [tmp_path / "p.parquet"], [tmp_path / "s.parquet"]
    outcome = match_tables(spark, *files, tmp_path / "out", pairs=True)
    assert (outcome.publications, outcome.subscriptions, outcome.pairs) == (0, 1, 0)
    assert pq.read_table(tmp_path / "out/pairs").num_rows == 0
    assert pq.read_table(tmp_path / "out/subscription_matches").to_pylist() == [
        {"subscription": 0, "matches": 0}
    ]


@pytest.mark.usefixtures("spark")
def test_what_cannot_be_matched_is_told(tmp_path: Path) -> None:
    write_file(publication_table([{"a": 1}]), tmp_path / "p.parquet")
    write_file(subscription_table(["a = 1", "a ="], 7), tmp_path / "s.parquet")
    tables = ["--publications", tmp_path / "p.parquet", "--subscriptions", tmp_path / "s.parquet"]
    done = pipeline("match", *tables, "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert done.stderr.startswith(f"{tmp_path}/s.parquet: subscription 8: at character 4: expected")
    assert list((tmp_path / "out").iterdir()) == []
    done = pipeline("match", *tables, "--out", tmp_path / "out", "--memory", "12")
    assert done.exit_code == 2
    assert done.stderr.startswith("--memory 12: expected a size of at least 1m")
    done = pipeline("match", *tables[:2], "--subscriptions", tmp_path / "p.parquet", "--out", "o")
    assert done.exit_code == 2
    assert "expected a subscriptions table" in done.stderr
