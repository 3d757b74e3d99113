"""The files in deploy/: the systemd unit is accepted by systemd and its commands run a broker; the
Containerfile is built where there is a builder, and its steps are carried out where there is none.

Without a builder the steps run on this machine, as the users they name, with a directory in the
place of the container's root: `/opt`, `/src` and `/var` are below it.
"""

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

import byway
from tests.installed import ROOT, environment
from tests.integration.processes import READY, WAIT_S

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

UNIT = ROOT / "deploy/byway@.service"
CONTAINERFILE = ROOT / "deploy/Containerfile"
PROGRAM = Path(sys.executable).with_name("byway")
EXPOSURE_MAX = 20
"""In tenths of what systemd prints, from 0 to 100."""
START_S = 600
BUILD_S = 1_800
READS = "dac_read_search"
AS_A_USER = [
    "setpriv", "--clear-groups", "--regid=10001", "--no-new-privs", f"--inh-caps=-all,+{READS}",
    f"--ambient-caps=-all,+{READS}", f"--bounding-set=-all,+{READS}",
]  # fmt: skip
"""Another user, who may look into root's directories: the Python of this machine may be there."""


def carries_a_publication(url: str) -> None:
    with (
        byway.blocking.connect(url) as publisher,
        byway.blocking.connect(url) as subscriber,
        publisher.advertise("x >= 0", timeout=10),
        subscriber.subscribe("x > 1", timeout=10) as subscription,
    ):
        publisher.publish({"x": 2}, timeout=10)
        assert subscription.next(timeout=10).attributes == {"x": 2}


def url_of(process: subprocess.Popen[str]) -> str:
    """The address of a broker that has just been started, when it is ready."""
    assert process.stdout is not None
    line = process.stdout.readline()
    found = READY.match(line)
    assert found is not None, line
    return f"byway://127.0.0.1:{found[3]}"


# --- systemd ------------------------------------------------------------------------------------


def settings_of(unit: Path) -> dict[str, list[str]]:
    """By key, the values of a unit file."""
    found: dict[str, list[str]] = {}
    for line in unit.read_text().splitlines():
        key, is_setting, value = line.partition("=")
        if is_setting and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit of one broker, with the `byway` of this environment."""
    own = tmp_path / "byway@hub.service"
    own.write_text(UNIT.read_text().replace("/opt/byway/bin/byway", str(PROGRAM)))
    return own


needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze"
)


@needs_systemd
def test_systemd_accepts_the_unit(unit: Path) -> None:
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    own = [line for line in done.stderr.splitlines() if "byway" in line]
    assert (done.returncode, own) == (0, [])


@needs_systemd
def test_systemd_finds_an_error_in_a_unit(unit: Path) -> None:
    unit.write_text(unit.read_text().replace("Type=exec", "Type=exek"))
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "byway@hub.service" in done.stderr


@needs_systemd
def test_the_service_is_exposed_to_little(unit: Path) -> None:
    command = ["systemd-analyze", "security", "--no-pager", "--offline=yes", str(unit)]
    done = subprocess.run(
        [*command, f"--threshold={EXPOSURE_MAX}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_commands_of_the_unit_run_a_broker(tmp_path: Path) -> None:
    settings = settings_of(UNIT)
    assert settings["DynamicUser"] == ["yes"]
    assert settings["CacheDirectory"] == ["byway"]
    assert settings["Environment"] == ["NUMBA_CACHE_DIR=%C/byway"]
    assert settings["StateDirectory"] == ["byway/%i"]
    state = tmp_path / "state"
    state.mkdir()
    (tmp_path / "hub.toml").write_text('id = "hub"\nlisten = "127.0.0.1:0"\n')
    (start,), (reload,) = settings["ExecStart"], settings["ExecReload"]
    start = start.replace("/opt/byway/bin/byway", str(PROGRAM)).replace("/etc/byway", str(tmp_path))
    start = start.replace("%i", "hub").replace("${STATE_DIRECTORY}", str(state))
    with subprocess.Popen(
        shlex.split(start),
        env={**os.environ, "BYWAY_LOG": "json"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            carries_a_publication(url_of(process))
            subprocess.run(shlex.split(reload.replace("$MAINPID", str(process.pid))), check=True)
            assert process.stderr is not None
            logged = (json.loads(line) for line in process.stderr)
            assert any("reload" in json.dumps(line) for line in logged)
            process.send_signal(signal.SIGTERM)
            assert process.wait(int(settings["TimeoutStopSec"][0])) == 0
        finally:
            process.kill()
    assert (state / "state").is_file()


def test_settings_that_cannot_be_used_are_not_tried_again() -> None:
    done = subprocess.run(
        [str(PROGRAM), "broker", "--log", "loud"], capture_output=True, check=False
    )
    assert settings_of(UNIT)["RestartPreventExitStatus"] == [str(done.returncode)]


def test_the_page_names_files_that_are_there() -> None:
    page = (ROOT / "docs/guide/deploying.md").read_text()
    named = set(re.findall(r"\b(?:deploy|examples)/[\w@./-]+[\w]", page))
    assert {"deploy/Containerfile", "deploy/byway@.service"} < named
    assert all((ROOT / name).is_file() for name in named)


# --- the container ------------------------------------------------------------------------------


class Step(NamedTuple):
    word: str
    rest: str


def steps() -> list[Step]:
    """The instructions of the Containerfile."""
    lines = [
        line for line in CONTAINERFILE.read_text().splitlines() if line and not line.startswith("#")
    ]
    joined = "\n".join(lines).replace("\\\n", " ").splitlines()
    return [Step(*line.split(maxsplit=1)) for line in joined]


def the(word: str) -> str:
    """What the last instruction of this kind says."""
    return [step.rest for step in steps() if step.word == word][-1]


def test_what_is_copied_is_there_and_not_ignored() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split("\n")
    kept = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    copied = set()
    for step in steps():
        if step.word == "COPY" and not step.rest.startswith("--from"):
            *sources, _ = step.rest.split()
            copied |= {source.split("/")[0] for source in sources}
            assert all((ROOT / source).exists() for source in sources), step
    assert copied == kept


def test_a_container_has_an_unprivileged_user_and_keeps_data_in_a_volume() -> None:
    user, group = the("USER").split(":")
    assert int(user) > 1_000 < int(group)
    variables = dict(re.findall(r"(\w+)=(\S+)", the("ENV")))
    assert variables["BYWAY_DATA"] == the("VOLUME")
    assert variables["BYWAY_LISTEN"].endswith(f":{the('EXPOSE')}")
    words = [step.word for step in steps()]
    assert words.index("USER") < len(words) - words[::-1].index("RUN")  # the kernels are the user's


def builder() -> str | None:
    """A program here that can build images."""
    for name in ("podman", "docker", "buildah"):
        found = shutil.which(name)
        if (
            found
            and not subprocess.run([found, "info"], capture_output=True, check=False).returncode
        ):
            return found
    return None


@pytest.mark.slow
@pytest.mark.timeout(BUILD_S + 300)
def test_the_image_is_built_and_runs() -> None:
    program = builder()
    if program is None:
        pytest.skip("there is no podman, docker or buildah that works")
    build = [program, "build", "-f", str(CONTAINERFILE), "-t", "byway-test", str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True, timeout=BUILD_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    if Path(program).name == "buildah":
        return  # it runs none
    run = [program, "run", "--rm", "-e", "BYWAY_ID=A", "-p", "127.0.0.1::7001", "-d", "byway-test"]
    container = subprocess.run(run, capture_output=True, text=True, check=True).stdout.strip()
    try:
        port = subprocess.run(
            [program, "port", container, "7001"], capture_output=True, text=True, check=True
        )
        deadline = time.monotonic() + START_S
        health = ["inspect", "-f", "{{.State.Health.Status}}", container]
        while subprocess.run(
            [program, *health], capture_output=True, text=True, check=True
        ).stdout.strip() != "healthy":  # fmt: skip
            assert time.monotonic() < deadline
            time.sleep(1)
        carries_a_publication(f"byway://{port.stdout.split()[-1]}")
    finally:
        subprocess.run([program, "stop", container], capture_output=True, check=False)


class Container:
    """The steps of the Containerfile, carried out below a directory of this machine."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.variables = environment(root, PATH=os.environ["PATH"])
        self.variables.pop("VIRTUAL_ENV", None)
        self.user: int | None = None
        self.directory = root

    def moved(self, text: str) -> str:
        """A text in which the directories of the container are those below the root."""
        return re.sub(r"(?<![\w.])/(opt|src|var)\b", rf"{self.root}/\1", text)

    def build(self) -> None:
        """Carry out each step."""
        for word, rest in steps():
            if word == "COPY" and not rest.startswith("--from"):
                *sources, target = rest.split()
                for source in sources:
                    self._copy(ROOT / source, self.directory / target)
            elif word == "RUN":
                self.done("bash", "-c", self.moved(rest))
            elif word == "WORKDIR":
                self.directory = Path(self.moved(rest))
                self.directory.mkdir(parents=True, exist_ok=True)
            elif word in ("ENV", "ARG"):
                given = dict(re.findall(r"(\w+)=(\S+)", rest))
                self.variables |= {key: self.moved(value) for key, value in given.items()}
            elif word == "USER":
                self.user = int(rest.split(":")[0])
            else:
                assert word in "FROM COPY VOLUME EXPOSE HEALTHCHECK STOPSIGNAL ENTRYPOINT CMD"

    def _copy(self, source: Path, target: Path) -> None:
        if source.is_dir():
            leave = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source, target, ignore=leave, dirs_exist_ok=True)
        else:
            shutil.copy2(source, target / source.name)

    def popen(self, *command: str, **variables: str) -> subprocess.Popen[str]:
        """A command that runs as the container's user."""
        variables = self.variables | variables
        program = shutil.which(command[0], path=variables["PATH"])
        assert program is not None, command
        as_whom = [] if self.user is None else [*AS_A_USER, f"--reuid={self.user}"]
        return subprocess.Popen(
            [*as_whom, program, *command[1:]],
            env=variables,
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def done(self, *command: str, **variables: str) -> None:
        """Run a command, which must end well."""
        with self.popen(*command, **variables) as process:
            said = process.communicate(timeout=BUILD_S)
            assert process.returncode == 0, (command, said)


def free_address() -> str:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.mark.slow
@pytest.mark.timeout(2 * BUILD_S)
@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="only root acts as others"
)
def test_the_steps_of_the_container_make_a_broker(tmp_path: Path) -> None:
    container = Container(tmp_path)
    container.build()
    compiled = set((tmp_path / "var/cache/byway").rglob("kernels-*.o"))
    assert compiled
    anywhere = {"BYWAY_ID": "A", "BYWAY_LISTEN": "127.0.0.1:0", "BYWAY_HTTP": free_address()}
    command = [*json.loads(the("ENTRYPOINT")), *json.loads(the("CMD"))]
    with container.popen(*command, **anywhere) as process:
        try:
            carries_a_publication(url_of(process))
            test = json.loads(the("HEALTHCHECK").partition("CMD ")[2])
            container.done(*test, **anywhere)
            process.send_signal(getattr(signal, the("STOPSIGNAL")))
            assert process.wait(WAIT_S) == 0
        finally:
            process.kill()
    assert set((tmp_path / "var/cache/byway").rglob("kernels-*.o")) == compiled
    assert (tmp_path / "var/lib/byway/state").is_file()
