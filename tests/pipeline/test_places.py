"""Commands on filesystems that are not local, and on places where they cannot work."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from typer.testing import CliRunner, Result

from byway.cli.main import app
from byway.pipeline.schemas import SIZES, SUMMARY, TREES
from byway.pipeline.sweeps import read_sweep, run_sweep
from byway.pipeline.table_files import TableError, read_table, shared_directory
from byway.pipeline.workload_schemas import PAIRS, PUBLICATION_MATCHES, REJECTS
from byway.sim.run import run_scenario
from byway.sim.scenario import read_scenario
from tests.pipeline.conftest import MOUNT

ROOT = Path(__file__).parents[2]
CHAIN = ROOT / "examples/scenarios/small-chain.toml"
QUOTES = "name,price\nIBM,5\nSAP,7.5\nSAP\n"
FAR = "viewfs://tests/tables/far"


def byway(*arguments: object) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=False)


@pytest.fixture
def far(spark: SparkSession) -> Iterator[Path]:
    """Where the files of `FAR` really are."""
    link = spark.sparkContext.getConf().get(f"{MOUNT}.link./tables")
    assert link is not None
    place = Path("/", link.removeprefix("file:").lstrip("/"), "far")
    place.mkdir()
    yield place
    shutil.rmtree(place)


def test_all_commands_work_on_a_filesystem_that_is_not_local(
    spark: SparkSession, far: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (far / "quotes.csv").write_text(QUOTES)
    (far / "filters.csv").write_text("filter\nprice > 6\nname = 'IBM'\n")
    done = byway("pipeline", "import", "publications", f"{FAR}/quotes.csv", "--out", f"{FAR}/own")
    assert done.exit_code == 1
    assert "publications: 2 rows in" in done.stdout
    (reject,) = read_table(spark, REJECTS, f"{FAR}/own/publications_rejects").collect()
    assert (reject["file"], reject["row"]) == (f"{FAR}/quotes.csv", 3)
    done = byway("pipeline", "import", "subscriptions", f"{FAR}/filters.csv", "--out", f"{FAR}/own")
    assert done.exit_code == 0, done.output
    tables = [f"--{name}={FAR}/own/{name}" for name in ("publications", "subscriptions")]
    done = byway("pipeline", "match", *tables, "--out", f"{FAR}/matched", "--pairs")
    assert done.exit_code == 0, done.output
    pairs = read_table(spark, PAIRS, f"{FAR}/matched/pairs")
    assert sorted(map(tuple, pairs.collect())) == [(1, 2), (2, 1)]
    done = byway("pipeline", "workload", "stocks", "--size", 20, "--publications", 30,
                 "--out", f"{FAR}/stocks")  # fmt: skip
    assert done.exit_code == 0, done.output
    tables = [f"--{name}={FAR}/stocks/{name}" for name in ("publications", "subscriptions")]
    assert byway("pipeline", "match", *tables, "--out", f"{FAR}/counted").exit_code == 0
    assert (
        read_table(spark, PUBLICATION_MATCHES, f"{FAR}/counted/publication_matches").count() == 30
    )
    assert list(tmp_path.iterdir()) == []


def test_traces_are_analysed_on_a_filesystem_that_is_not_local(
    spark: SparkSession, far: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    facts = run_scenario(read_scenario(CHAIN), 1, far / "traces", run="far").facts()
    options = ("--until", "1970-01-01T12:00", "--out", f"{FAR}/tables", "--edges")
    done = byway("pipeline", "analyse", f"{FAR}/traces", *options)
    assert done.exit_code == 0, done.output
    (summary,) = read_table(spark, SUMMARY, f"{FAR}/tables/summary").collect()
    for name in ("deliveries", "yield", "mean_hops", "messages_by_kind", "delay_ms_max"):
        assert summary[name] == facts[name], name
    assert read_table(spark, TREES, f"{FAR}/tables/trees").count() == facts["publications"]
    assert read_table(spark, SIZES, f"{FAR}/tables/sizes").where(F.col("t_s") < 0).count() == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "arguments",
    [
        ("pipeline", "workload", "stocks", "--size", 5, "--publications", 5, "--out", "s3a://b/w"),
        ("pipeline", "import", "publications", "quotes.csv", "--out", "s3a://b/w"),
        ("pipeline", "import", "publications", "s3a://b/quotes.csv", "--out", "w"),
        ("pipeline", "analyse", "s3a://b/traces"),
        ("pipeline", "analyse", "traces", "--out", "s3a://b/w"),
        ("pipeline", "match", "--publications=s3a://b/p", "--subscriptions=s3a://b/s", "--out=w"),
        ("pipeline", "compact", "s3a://b/traces"),
        ("pipeline", "sweep", "sweep.toml", "--out", "s3a://b/w"),
        ("reproduce", "U9", "--out", "s3a://b/w"),
    ],
    ids=lambda arguments: " ".join(map(str, arguments)),
)
def test_a_place_that_cannot_be_reached_is_told_and_nothing_written_here(
    arguments: tuple[object, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("quotes.csv").write_text(QUOTES)
    Path("sweep.toml").write_text(f'scenario = "{CHAIN}"\n')
    run_scenario(read_scenario(CHAIN), 1, Path("traces"))
    done = byway(*arguments)
    assert done.exit_code == 2, done.output
    told = " ".join(done.stderr.split())
    place = next(str(word) for word in arguments if "s3a://" in str(word)).partition("=")[2]
    assert told.startswith(place or "s3a://b/")
    assert "this Spark cannot read or write there (" in told or "all workers mount" in told
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"quotes.csv", "sweep.toml", "traces"}


def test_directories_that_workers_share() -> None:
    for place in ("file:///a/b c", "file://localhost/a/b c", "file:/a/b c", "/a/b c"):
        assert shared_directory(place, "they are") == Path("/a/b c")
    assert shared_directory("a", "they are") == shared_directory(Path("a"), "they are") == Path("a")
    for place in ("catalog:a", "hdfs://host/a", "s3a:/a"):
        with pytest.raises(TableError, match=rf"{place}: they are in a directory that this mach"):
            shared_directory(place, "they are")


def test_a_sweep_is_kept_at_the_address_of_a_file(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(f'scenario = "{CHAIN}"\n')
    outcome = run_sweep(spark, read_sweep(tmp_path / "a.toml"), f"file://{tmp_path}/a %20 b")
    assert (outcome.made, outcome.metrics) == (1, tmp_path / "a %20 b" / "metrics")
    assert outcome.metrics.is_dir()
