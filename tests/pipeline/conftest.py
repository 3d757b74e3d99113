"""One Spark for all tests of the room, so that they wait for it once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from byway.pipeline.spark_session import open_session

HERE = Path(__file__).parent
MOUNT = "spark.hadoop.fs.viewfs.mounttable.tests"
SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    "spark.driver.memory": "1g",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.pipeline)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """`viewfs://tests/tables` is a filesystem of Hadoop that is not local, though it ends up in a
    directory here."""
    places = {
        f"{MOUNT}.link./tables": tmp_path_factory.mktemp("viewfs").as_uri(),
        "spark.sql.warehouse.dir": tmp_path_factory.mktemp("warehouse").as_uri(),
    }
    with open_session("local[2]", settings=SETTINGS | places) as session:
        yield session
