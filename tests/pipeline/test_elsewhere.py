"""The same on a cluster, a master and two workers on loopback, and over Spark Connect.

Each starts the real thing with the scripts of the pyspark package, and uses it through the command
line, as a user does.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pyarrow.parquet as pq
import pyspark
import pytest

from byway.model import parse
from byway.pipeline.java import java_home
from byway.sim.run import run_scenario
from byway.sim.scenario import read_scenario
from byway.workload import Feeds

ROOT = Path(__file__).parents[2]
SPARK_HOME = Path(pyspark.__file__).parent
CHAIN = ROOT / "examples/scenarios/small-chain.toml"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def configuration(directory: Path) -> Path:
    """What Spark itself is told: a machine as small as this needs no 200 partitions."""
    (directory / "spark-defaults.conf").write_text("spark.sql.shuffle.partitions 2\n")
    return directory


@contextmanager
def spark_class(directory: Path, *arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """A process of Spark's own, until the block ends."""
    environment = os.environ | {
        "SPARK_CONF_DIR": str(configuration(directory)),
        "SPARK_HOME": str(SPARK_HOME),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
    }
    program, *rest = map(str, arguments)
    with (
        (directory / "spark.log").open("ab") as log,
        subprocess.Popen(
            [SPARK_HOME / "bin" / program, *rest],
            cwd=directory, env=environment, stdout=log, stderr=log,
        ) as process,
    ):  # fmt: skip
        try:
            yield process
        finally:
            process.terminate()


def wait_for(what: str, holds: object) -> None:
    assert callable(holds)
    for _ in range(1_200):
        if holds():
            return
        time.sleep(0.1)
    pytest.fail(f"{what} did not come up")


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def workers(port: int) -> int:
    try:
        with urlopen(f"http://127.0.0.1:{port}/json/", timeout=5) as answer:
            told = json.load(answer)
    except (URLError, OSError, ValueError):  # at first it answers with a page
        return 0
    return sum(worker["state"] == "ALIVE" for worker in told["workers"])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """A master and two workers with a core each."""
    directory = tmp_path_factory.mktemp("cluster")
    port, web = free_port(), free_port()
    master = f"spark://127.0.0.1:{port}"
    here = ("--host", "127.0.0.1")
    with java_home(), ExitStack() as stack:
        stack.enter_context(
            spark_class(
                directory, "spark-class", "org.apache.spark.deploy.master.Master", *here,
                "--port", port, "--webui-port", web,
            )
        )  # fmt: skip
        wait_for("the master", lambda: listens(port))
        for number in range(2):
            stack.enter_context(
                spark_class(
                    directory, "spark-class", "org.apache.spark.deploy.worker.Worker", *here,
                    "--cores", 1, "--memory", "1g", "--webui-port", 0,
                    "--work-dir", directory / str(number), master,
                )
            )  # fmt: skip
        wait_for("the workers", lambda: workers(web) == 2)
        yield ["--master", master]


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """A server of Spark Connect."""
    port = free_port()
    with (
        java_home(),
        spark_class(
            tmp_path_factory.mktemp("connect"), "spark-submit",
            "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
            "--master", "local[2]", "--conf", f"spark.connect.grpc.binding.port={port}",
            "--conf", "spark.ui.enabled=false", "spark-internal",
        ),
    ):  # fmt: skip
        wait_for("Spark Connect", lambda: listens(port))
        yield ["--remote", f"sc://127.0.0.1:{port}"]


@pytest.fixture(params=["cluster", "connect"])
def elsewhere(request: pytest.FixtureRequest) -> list[str]:
    where: list[str] = request.getfixturevalue(request.param)
    return where


@contextmanager
def empty_cluster(directory: Path) -> Iterator[str]:
    """A master without a worker."""
    port = free_port()
    with (
        java_home(),
        spark_class(
            directory, "spark-class", "org.apache.spark.deploy.master.Master",
            "--host", "127.0.0.1", "--port", port, "--webui-port", free_port(),
        ),
    ):  # fmt: skip
        wait_for("the master", lambda: listens(port))
        yield f"spark://127.0.0.1:{port}"


def byway(directory: Path, *arguments: object) -> dict[str, object]:
    environment = os.environ | {
        "SPARK_CONF_DIR": str(configuration(directory)),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [sys.executable, "-m", "byway", *map(str, arguments), "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def test_sweeps_and_traces_are_the_same(elsewhere: list[str], tmp_path: Path) -> None:
    sweep, out = tmp_path / "try.toml", tmp_path / "out"
    sweep.write_text(f'scenario = "{CHAIN}"\nseeds = 3\ntraces = true')
    first = byway(tmp_path, "pipeline", "sweep", sweep, "--out", out, *elsewhere)
    assert (first["ok"], first["made"], first["found"]) == (True, 3, 0)
    second = byway(tmp_path, "pipeline", "sweep", sweep, "--out", out, *elsewhere)
    assert (second["ok"], second["made"], second["found"]) == (True, 0, 3)
    tables = tmp_path / "tables"
    told = byway(
        tmp_path, "pipeline", "analyse", out / "traces", "--out", tables, "--edges", *elsewhere
    )
    runs = told["runs"]
    assert isinstance(runs, list)
    traced = sorted(path.name.removeprefix("run=") for path in (out / "traces").iterdir())
    assert [run["run"] for run in runs] == traced
    facts = run_scenario(read_scenario(CHAIN), 3).facts()
    for name in ("deliveries", "yield", "mean_hops", "messages_by_kind", "delay_ms_max"):
        assert runs[2][name] == facts[name], name
    assert len(list(tables.iterdir())) == 9


def test_workloads_own_tables_and_matching_are_the_same(
    elsewhere: list[str], tmp_path: Path
) -> None:
    made = tmp_path / "made"
    told = byway(
        tmp_path, "pipeline", "workload", "dt1", "--publications", 500, "--out", made, *elsewhere
    )
    rows = Feeds().take_publications(500)
    found = pq.read_table(made / "publications").sort_by("id").to_pylist()
    assert [dict(row["integers"] + row["strings"]) for row in found] == rows
    assert told["kind"] == "dt1"
    (tmp_path / "filters.csv").write_text("filter\nitem < 5\nfeed = 'B001'\n")
    own = tmp_path / "own"
    told = byway(
        tmp_path,
        "pipeline",
        "import",
        "subscriptions",
        tmp_path / "filters.csv",
        "--out",
        own,
        *elsewhere,
    )
    assert (told["rows"], told["rejected"]) == (2, 0)
    tables = ("--publications", made / "publications", "--subscriptions", own / "subscriptions")
    told = byway(
        tmp_path, "pipeline", "match", *tables, "--out", tmp_path / "out", "--pairs", *elsewhere
    )
    wanted = [parse("item < 5"), parse("feed = 'B001'")]
    assert told["pairs"] == sum(filter.matches(row) for filter in wanted for row in rows)


def test_claims_are_the_same(elsewhere: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    told = byway(tmp_path, "reproduce", "U9", "--out", out, *elsewhere)
    claims = told["claims"]
    assert isinstance(claims, list)
    assert [(claim["id"], claim["reproduced"]) for claim in claims] == [("U9", True)]
    assert len(list((out / "runs").glob("*.parquet"))) == 6
    assert "<svg" in (out / "report.html").read_text()


def run(directory: Path, *arguments: object, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env=os.environ
        | {"SPARK_CONF_DIR": str(configuration(directory)), "SPARK_LOCAL_IP": "127.0.0.1"}
        | environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_frames_of_a_session_that_is_there_are_the_same(
    elsewhere: list[str], tmp_path: Path
) -> None:
    program = ("-m", "tests.pipeline.own_session")
    with java_home():
        told = run(tmp_path, *program, tmp_path, *elsewhere, PYSPARK_PYTHON=sys.executable)
    assert told == "done\n"


def test_workers_have_the_environment_that_is_shipped(cluster: list[str], tmp_path: Path) -> None:
    """The archive has no more than a program that starts this Python, and tells that it did."""
    (tmp_path / "env/bin").mkdir(parents=True)
    program = tmp_path / "env/bin/python"
    program.write_text(f'#!/bin/sh\ntouch {tmp_path}/started\nexec {sys.executable} "$@"\n')
    program.chmod(0o755)
    archive = tmp_path / "env.tar.gz"
    subprocess.run(["tar", "-czf", archive, "-C", tmp_path / "env", "bin"], check=True)
    shipped = {
        "PYSPARK_PYTHON": "./environment/bin/python",
        "PYSPARK_SUBMIT_ARGS": f"--conf spark.archives={archive}#environment pyspark-shell",
    }
    arguments = ["pipeline", "workload", "dt1", "--publications", "5", "--out", tmp_path / "w"]
    command = "import sys; from byway.cli.main import app; app(sys.argv[1:])"
    told = run(tmp_path, "-c", command, *arguments, *cluster, **shipped)
    assert "publications: 5 rows" in told
    assert (tmp_path / "started").exists()


def workload_of(directory: Path, master: str) -> list[str | Path]:
    command = [sys.executable, "-m", "byway", "pipeline", "workload", "dt1"]
    return [*command, "--publications", "5", "--out", directory / "w", "--master", master]


def test_a_cluster_without_workers_is_told(tmp_path: Path) -> None:
    """Spark waits for them, and says so; Ctrl-C ends that."""
    environment = os.environ | {
        "SPARK_CONF_DIR": str(configuration(tmp_path)),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    said = tmp_path / "stderr"
    with empty_cluster(tmp_path) as master, said.open("wb") as stderr:
        command = workload_of(tmp_path, master)
        with subprocess.Popen(command, env=environment, stderr=stderr) as process:
            told = "Initial job has not accepted any resources"
            wait_for("the warning", lambda: told in said.read_text())
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) != 0
    assert "Traceback" not in said.read_text()


def test_what_listens_but_is_no_master_is_told(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        master = f"spark://127.0.0.1:{other.getsockname()[1]}"
        done = subprocess.run(
            workload_of(tmp_path, master),
            env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    told = f"no Spark answers at {master}: what listens there is no master"
    assert told in " ".join(done.stderr.split())
