"""What the revision of the code depends on."""

import re
import shutil
from pathlib import Path

import pytest

import byway
from byway.sim.revision import PACKAGES, revision, revision_of

PACKAGE = Path(byway.__file__).parent


def imported_by(package: str) -> set[str]:
    """Packages of byway that any module of a package imports."""
    found: set[str] = set()
    for path in (PACKAGE / package).rglob("*.py"):
        found |= set(re.findall(r"^\s*(?:from|import) byway\.(\w+)", path.read_text(), re.M))
    return {name for name in found if (PACKAGE / name).is_dir()}


def test_every_package_that_a_run_uses_counts() -> None:
    used, todo = set[str](), {"sim"}
    while todo:
        used |= todo
        todo = set().union(*map(imported_by, todo)) - used
    assert sorted(used) == sorted(PACKAGES)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for package in PACKAGES:
        shutil.copytree(
            PACKAGE / package, tmp_path / package, ignore=lambda _, n: {"__pycache__"} & {*n}
        )
    (tmp_path / "cli").mkdir()
    return tmp_path


def test_the_same_code_has_the_same_wherever_it_is(copy: Path) -> None:
    assert revision_of(copy) == revision()


@pytest.mark.parametrize("name", ["core/broker.py", "sim/profiles/paper.toml", "model/new.py"])
def test_other_code_has_another(copy: Path, name: str) -> None:
    with (copy / name).open("a") as file:
        file.write("# another line\n")
    assert revision_of(copy) != revision()


def test_what_computes_nothing_does_not_count(copy: Path) -> None:
    (copy / "cli/new.py").write_text("nothing = 1\n")
    (copy / "core/__pycache__").mkdir()
    (copy / "core/__pycache__/broker.pyc").write_bytes(b"1")
    assert revision_of(copy) == revision()
