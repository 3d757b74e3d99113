"""The session is made, or taken, and what is wrong is told."""

import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from byway.pipeline import spark_session
from byway.pipeline.pipeline_errors import SessionError
from byway.pipeline.spark_session import open_session


def test_an_active_session_is_taken_and_left_alone(spark: SparkSession) -> None:
    with open_session() as session:
        assert session is spark
    assert spark.range(3).count() == 3


def test_it_is_taken_on_its_own_master_too(spark: SparkSession) -> None:
    with open_session("local[2]", settings={"spark.sql.shuffle.partitions": "3"}) as session:
        assert session is spark
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.range(3).count() == 3


def test_in_another_thread_it_is_taken_too(spark: SparkSession) -> None:
    def open_and_close() -> SparkSession:
        with open_session() as session:
            return session

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(open_and_close).result() is spark
    assert spark.range(3).count() == 3


def test_a_session_elsewhere_is_refused_while_one_is_active(spark: SparkSession) -> None:
    told = r"a session on local\[2\] is active, and there can be no other on local\[1\]: stop it"
    with pytest.raises(SessionError, match=told), open_session("local[1]"):
        pass
    with socket.create_server(("127.0.0.1", 0)) as server:
        remote = f"sc://127.0.0.1:{server.getsockname()[1]}"
        told = rf"a session on local\[2\] is active, and there can be no other on {remote}"
        with pytest.raises(SessionError, match=told), open_session(remote=remote):
            pass
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.range(3).count() == 3


def test_settings(spark: SparkSession) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"  # the tests' own stand above


def test_a_master_and_a_remote_do_not_go_together() -> None:
    with pytest.raises(SessionError, match="not both"), open_session("local", "sc://localhost"):
        pass


@pytest.mark.parametrize("remote", ["http://localhost", "localhost:15002", "sc://"])
def test_a_remote_is_an_address_of_connect(remote: str) -> None:
    told = pytest.raises(SessionError, match="expected an address such as sc://host:15002")
    with told, open_session(remote=remote):
        pass


def test_nobody_at_the_address() -> None:
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        remote = f"sc://127.0.0.1:{taken.getsockname()[1]}"
        told = pytest.raises(SessionError, match=f"no Spark answers at {remote}")
        with told, open_session(remote=remote):
            pass


def test_somebody_else_at_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if one named the port of a page. Asked below `open_session`, for a session is active."""
    monkeypatch.setattr(spark_session, "ANSWER_S", 0.5)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        remote = f"sc://127.0.0.1:{other.getsockname()[1]}"
        told = f"no Spark answers at {remote}: what listens there is no server of Spark Connect"
        with pytest.raises(SessionError, match=told):
            spark_session._connect(remote, {})


def test_a_session_is_refused_before_spark_starts_if_no_master_answers(tmp_path: Path) -> None:
    """Without a session, so in a process of its own. All addresses are tried."""
    with socket.socket() as one, socket.socket() as two:  # bound, and nobody listens
        for taken in (one, two):
            taken.bind(("127.0.0.1", 0))
        places = [f"127.0.0.1:{taken.getsockname()[1]}" for taken in (one, two)]
        master = f"spark://{','.join(places)}"
        done = subprocess.run(
            [
                sys.executable, "-m", "byway", "pipeline", "workload", "uniform",
                "--out", str(tmp_path / "out"), "--master", master,
            ],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    told = " ".join(done.stderr.split())
    assert f"no Spark answers at {master} ({places[0]}: " in told
    assert f"; {places[1]}: " in told
    assert "is the master running there?" in told


def test_without_spark_one_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    told = pytest.raises(SessionError, match=r"pandas is not .* pip install 'byway\[pipeline\]'")
    with told, open_session():
        pass
