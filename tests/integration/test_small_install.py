"""byway installed from a wheel with no extra, or one: the client and the command line work against
a broker, and whatever needs more says which extra to install.

Programs run as a user without privileges, whose home is empty, and outside the repository.
"""

import json
import os
import re
import runpy
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path

import pytest

from tests.installed import (
    ROOT,
    WRITES_NOTHING,
    Installed,
    as_a_user,
    build_wheel,
    done,
    environment,
)
from tests.integration.processes import BrokerProcess, brokers

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

CLIENT_MB_MAX = 32
RUN_S = 60
KERNELS = ROOT / "src/byway/matching/kernels"
SCENARIO = str(ROOT / "examples/scenarios/small-chain.toml")
IMPORTS = """
import importlib, json, pathlib, sys
import byway
root = pathlib.Path(byway.__file__).parent
found = {}
for file in sorted(root.rglob("*.py")):
    parts = file.relative_to(root.parent).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    if name == "byway.__main__":
        continue
    try:
        importlib.import_module(name)
        found[name] = ""
    except byway.MissingExtraError as error:
        found[name] = error.extra
print(json.dumps(found))
"""
CLIENTS = """
import asyncio, sys, byway

async def main(url):
    async with (
        byway.connect(url) as publisher,
        byway.connect(url) as subscriber,
        publisher.advertise("x >= 0", timeout=10),
        subscriber.subscribe("x > 1", timeout=10) as subscription,
    ):
        await publisher.publish({"x": 2}, timeout=10)
        assert (await subscription.next(timeout=10)).attributes == {"x": 2}

asyncio.run(main(sys.argv[1]))
with (
    byway.blocking.connect(sys.argv[1]) as publisher,
    byway.blocking.connect(sys.argv[1]) as subscriber,
    publisher.advertise("x >= 0", timeout=10),
    subscriber.subscribe("x > 1", timeout=10) as subscription,
):
    publisher.publish({"x": 3}, timeout=10)
    assert subscription.next(timeout=10).attributes == {"x": 3}
print(sorted({"numpy", "numba", "pyarrow", "uvloop"} & sys.modules.keys()))
"""

NAMES = """
import sys, byway
for statement in sys.argv[1:]:
    try:
        exec(statement)
    except ImportError as error:
        print(error)
"""
EXTRA_OF = {
    "byway.MatchIndex": "broker",
    "byway.LocalOverlay": "broker",
    "byway.blocking.LocalOverlay": "broker",
    "from byway import MatchIndex": "broker",
    "from byway.matching import MatchIndex": "broker",
    "from byway.workload import Siena": "broker",
    "from byway.sim.run import run_scenario": "broker",
    "from byway.trace import TraceBuffer": "broker",
    "from byway.story.trace_steps import read_trace_steps": "trace",
    "from byway.pipeline import schemas": "pipeline",
    "from byway.pipeline.spark_session import open_session": "pipeline",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Installed:
    return Installed(tmp_path_factory.mktemp("small"), wheel)


@pytest.fixture(scope="module")
def broker_only(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Installed:
    return Installed(tmp_path_factory.mktemp("broker"), wheel, "broker")


@pytest.fixture(scope="module")
def trace_only(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Installed:
    return Installed(tmp_path_factory.mktemp("trace"), wheel, "trace")


@pytest.fixture(scope="module")
def hub() -> Iterator[BrokerProcess]:
    """A broker of this environment, with an operations port."""
    anywhere = "127.0.0.1:0"
    with brokers() as started:
        yield started.start("--id", "hub", "--listen", anywhere, "--http", anywhere).ready()


def run(installed: Installed, home: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A program of the environment's, `byway` or `python`, done."""
    program, *arguments = command
    return subprocess.run(
        as_a_user(WRITES_NOTHING, installed.python.with_name(program), *arguments),
        env=environment(home, NUMBA_CACHE_DIR=str(home)),
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )


def extras_asked_for(installed: Installed, home: Path) -> dict[str, str]:
    """By module of byway, the extra that importing it asks for, or nothing."""
    ended = run(installed, home, "python", "-c", IMPORTS)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, str] = json.loads(ended.stdout)
    assert len(found) > 250
    return found


# --- the wheel ----------------------------------------------------------------------------------


def test_the_wheel_describes_itself(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        told = message_from_bytes(archive.read(metadata))
    assert told["Description-Content-Type"] == "text/markdown"
    assert told.get_payload(decode=True) == (ROOT / "README.md").read_bytes()
    assert told["License-Expression"] == "Apache-2.0"
    extras = {"broker", "trace", "pipeline", "all", "dev", "bench", "docs"}
    assert set(told.get_all("Provides-Extra", [])) == extras
    classifiers = " ".join(told.get_all("Classifier", []))
    versions = re.findall(r"Python :: (3\.\d+)", classifiers)
    assert versions == list(runpy.run_path(str(ROOT / ".ci/pythons.py"))["VERSIONS"])
    assert "byway/py.typed" in names
    kernels = {f"byway/matching/kernels/{file.name}" for file in KERNELS.glob("*.py")}
    assert kernels <= names
    assert not [name for name in names if not name.startswith(("byway/", "byway-"))]


# --- without extras -----------------------------------------------------------------------------


def test_the_wheel_asks_for_little(small: Installed) -> None:
    done(str(small.python), "-m", "compileall", "-q", str(small.package))  # as pip does
    sizes = {
        entry.name: sum(
            file.stat().st_size
            for file in ([entry] if entry.is_file() else entry.rglob("*"))
            if file.is_file()
        )
        for entry in small.packages.iterdir()
    }
    assert {"byway", "msgspec", "typer", "rich"} <= sizes.keys()
    assert not {"numpy", "numba", "pyarrow", "pyspark"} & sizes.keys()
    assert sum(sizes.values()) <= CLIENT_MB_MAX * 1_000_000, sizes


def test_a_module_without_its_extra_asks_for_it(small: Installed, tmp_path: Path) -> None:
    asked = extras_asked_for(small, tmp_path)
    assert set(asked.values()) == {"", "broker", "trace", "pipeline"}
    light = ("byway.client", "byway.transport", "byway.wire", "byway.model", "byway.blocking")
    heavy = {name for name in asked if name.startswith(light) and asked[name]}
    assert heavy == {"byway.client.load_test"}
    verbs = {name for name in asked if name.startswith("byway.cli.") and not asked[name]}
    wanted = "broker config connecting filter main pub sub topology trace"
    assert {f"byway.cli.{name}" for name in wanted.split()} <= verbs


@pytest.mark.parametrize(
    ("verb", "extra"),
    [
        (["broker", "--id", "A", "--listen", "127.0.0.1:0"], "broker"),
        (["simulate", SCENARIO], "broker"),
        (["demo"], "broker"),
        (["bench"], "broker"),
        (["pipeline", "analyse", "traces"], "pipeline"),
        (["pipeline", "--help"], "pipeline"),
        (["reproduce", "--list"], "pipeline"),
    ],
)
def test_a_verb_without_its_extra_names_it(
    small: Installed, tmp_path: Path, verb: list[str], extra: str
) -> None:
    ended = run(small, tmp_path, "byway", *verb)
    assert (ended.returncode, ended.stdout) == (2, "")
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"byway {verb[0]} needs numpy")
    assert line.endswith(f"not installed; install with: pip install 'byway[{extra}]'")


def test_a_name_without_its_extra_names_it(small: Installed, tmp_path: Path) -> None:
    ended = run(small, tmp_path, "python", "-c", NAMES, *EXTRA_OF)
    assert (ended.returncode, ended.stderr) == (0, "")
    for line, (statement, extra) in zip(ended.stdout.splitlines(), EXTRA_OF.items(), strict=True):
        command = f"pip install 'byway[{extra}]'"
        assert line.endswith(f"not installed; install with: {command}"), statement


def test_clients_need_no_extra(small: Installed, tmp_path: Path, hub: BrokerProcess) -> None:
    ended = run(small, tmp_path, "python", "-c", CLIENTS, f"byway://{hub.address}")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "[]\n", "")


def test_the_command_line_needs_no_extra(
    small: Installed, tmp_path: Path, hub: BrokerProcess
) -> None:
    at = ("--broker", f"byway://{hub.address}")
    with subprocess.Popen(
        [str(small.byway), "sub", *at, "price > 18", "--count", "1", "--json"],
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as sub:
        try:
            assert sub.stderr is not None
            assert sub.stderr.readline().startswith("settled at hub")
            published = run(small, tmp_path, "byway", "pub", *at, '{"price": 19}')
            assert published.returncode == 0, published.stderr
            received, _ = sub.communicate(timeout=RUN_S)
        finally:
            sub.kill()
    assert json.loads(received)["attributes"] == {"price": 19}
    settings = tmp_path / "a.toml"
    settings.write_text('id = "A"\nlisten = "127.0.0.1:7001"\n')
    for arguments in (
        ("topology", "show", *at),
        ("config", "check", str(settings)),
        ("filter", "check", "price > 18"),
        ("broker", "--help"),
        ("--help",),
        ("--version",),
    ):
        ended = run(small, tmp_path, "byway", *arguments)
        assert (ended.returncode, bool(ended.stdout)) == (0, True), (arguments, ended.stderr)
    http = hub.http.removeprefix("http://")
    ended = run(small, tmp_path, "byway", "topology", "forget", "west", "--http", http)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("west is not a neighbour of hub")  # so the broker has answered


# --- with one extra -----------------------------------------------------------------------------


def test_a_broker_needs_one_extra(broker_only: Installed, tmp_path: Path) -> None:
    asked = extras_asked_for(broker_only, tmp_path)
    assert set(asked.values()) == {"", "trace", "pipeline"}
    assert not asked["byway.runtime.process"]
    assert not any(asked[name] for name in asked if name.startswith("byway.sim"))


def test_traces_of_a_broker_need_another_one(broker_only: Installed, tmp_path: Path) -> None:
    broker = ("broker", "--id", "A", "--listen", "127.0.0.1:0", "--trace", str(tmp_path / "t"))
    for verb in (broker, ("simulate", SCENARIO, "--trace", str(tmp_path / "t"))):
        ended = run(broker_only, tmp_path, "byway", *verb)
        assert (ended.returncode, ended.stdout) == (2, "")
        wanted = f"byway {verb[0]} needs pyarrow, which is not installed; "
        assert ended.stderr == f"{wanted}install with: pip install 'byway[trace]'\n"
    assert not (tmp_path / "t").exists()


def test_reading_traces_needs_one_extra(trace_only: Installed, tmp_path: Path) -> None:
    traces, data = tmp_path / "traces", tmp_path / "data"
    done(sys.executable, "-c", WRITE_TRACE, str(traces))
    story = ("byway", "trace", "story", "ticker/1")
    of_trace = run(trace_only, tmp_path, *story, str(traces))
    assert of_trace.returncode == 0, of_trace.stderr
    assert "ticker" in of_trace.stdout
    data.mkdir()
    (data / "state").touch()
    of_data = run(trace_only, tmp_path, *story, str(data))
    assert of_data.returncode == 2
    assert of_data.stderr.startswith("byway trace needs numba, llvmlite, which are not installed")


WRITE_TRACE = """
import sys
from byway.sim.run import run_scenario
from byway.sim.scenario import read_scenario
run_scenario(read_scenario("examples/scenarios/small-chain.toml"), trace_dir=sys.argv[1])
"""


def test_the_pipeline_brings_the_other_extras(
    tmp_path_factory: pytest.TempPathFactory, wheel: Path, tmp_path: Path
) -> None:
    whole = Installed(tmp_path_factory.mktemp("pipeline"), wheel, "pipeline")
    assert set(extras_asked_for(whole, tmp_path).values()) == {""}


# --- slow ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_pip_installs_little(wheel: Path, tmp_path: Path) -> None:
    """The same with what pip resolves and downloads today, rather than what is pinned here."""
    place = tmp_path / "environment"
    done(sys.executable, "-m", "venv", str(place))
    (packages,) = place.glob("lib/python*/site-packages")
    own = {entry.name for entry in packages.iterdir()}
    done(str(place / "bin" / "pip"), "install", "--quiet", str(wheel), seconds=600)
    brought = [entry for entry in packages.iterdir() if entry.name not in own]
    sizes = {
        entry.name: sum(
            Path(root, name).stat().st_size for root, _, names in os.walk(entry) for name in names
        )
        for entry in brought
    }
    assert sum(sizes.values()) <= CLIENT_MB_MAX * 1_000_000, sizes
    assert "filter " in done(str(place / "bin" / "byway"), "filter", "check", "price > 18")
