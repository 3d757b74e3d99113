"""Where compiled kernels are kept, and that a kernel is compiled where they cannot be.

Every case is a process, since the place is chosen once in each.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.installed import ROOT, WRITES, WRITES_NOTHING, as_a_user, environment

PROGRAM = """
import logging, sys
logging.basicConfig(format="%(levelname)s %(message)s", level="INFO")
from byway.matching.kernels.caching import PLACE, kernel

@kernel
def twice(number):
    return 2 * number

@kernel
def more(number):
    return twice(number) + 1

print(PLACE.directory)
print(more(20))
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return path


def read_only(path: Path) -> Path:
    path.mkdir(mode=0o555, parents=True)
    return path


class Outcome:
    """What a process found."""

    def __init__(self, program: Path, what: str, home: Path, **variables: str) -> None:
        done = subprocess.run(
            as_a_user(what, sys.executable, program),
            env=environment(home, PYTHONPATH=str(variables.pop("source", ROOT / "src")))
            | variables,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=100,
            check=True,
        )
        place, answer = done.stdout.split()
        assert answer == "41"
        self.place = None if place == "None" else Path(place)
        self.log = done.stderr.splitlines()


KERNELS = Path("byway/matching/kernels")


def copy_of_the_sources(path: Path) -> Path:
    shutil.copytree(
        ROOT / "src/byway", path / "byway", ignore=shutil.ignore_patterns("__pycache__")
    )
    return path


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources beside which nothing can be written."""
    path = copy_of_the_sources(tmp_path_factory.mktemp("source"))
    (path / KERNELS).chmod(0o555)
    return path


def test_it_is_beside_the_sources_if_that_can_be_written(program: Path, tmp_path: Path) -> None:
    source = copy_of_the_sources(tmp_path)
    beside = source / KERNELS / "__pycache__"
    of_other_sources = beside / "kernels-of-other-sources"
    of_other_sources.mkdir(parents=True)
    found = Outcome(program, WRITES, read_only(tmp_path / "home"), source=str(source))
    assert found.place is not None
    assert found.place.parent == beside
    assert not of_other_sources.exists()
    assert found.log == []


def test_it_is_where_the_user_asked_first_of_all(program: Path, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    found = Outcome(program, WRITES, tmp_path, NUMBA_CACHE_DIR=str(asked))
    assert found.place is not None
    assert found.place.parent == asked / "byway"
    assert len(list(asked.rglob("*.nbc"))) == 2
    assert found.log == []


def test_it_is_in_the_cache_of_the_user_else(program: Path, tmp_path: Path, source: Path) -> None:
    found = Outcome(program, WRITES, tmp_path / "home", source=str(source))
    assert found.place is not None
    assert found.place.parent == tmp_path / "home/.cache/byway"
    cache = tmp_path / "cache"
    found = Outcome(program, WRITES, tmp_path, source=str(source), XDG_CACHE_HOME=str(cache))
    assert found.place is not None
    assert found.place.parent == cache / "byway"
    assert found.log == []


def test_a_place_that_was_asked_for_in_vain_is_told_once(program: Path, tmp_path: Path) -> None:
    asked = read_only(tmp_path / "asked")
    found = Outcome(program, WRITES, tmp_path, NUMBA_CACHE_DIR=str(asked))
    assert found.place is not None
    assert found.log == [
        f"WARNING NUMBA_CACHE_DIR cannot be used ({asked}/byway: Permission denied): "
        f"compiled kernels are kept in {found.place}"
    ]


def test_it_is_a_private_temporary_directory_else(
    program: Path, tmp_path: Path, source: Path
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    home = read_only(tmp_path / "home")
    found = Outcome(program, WRITES, home, source=str(source), TMPDIR=str(temporary))
    assert found.place is not None
    mine = found.place.parent
    assert mine.parent == temporary
    assert mine.stat().st_mode & 0o777 == 0o700
    assert found.log == [
        f"INFO compiled kernels are kept in {found.place}; "
        "set NUMBA_CACHE_DIR to a directory that stays"
    ]
    again = Outcome(program, WRITES, home, source=str(source), TMPDIR=str(temporary))
    assert again.place == found.place
    assert again.log == []  # nothing was compiled


def test_a_temporary_directory_that_others_can_write_is_left_alone(
    program: Path, tmp_path: Path, source: Path
) -> None:
    """Whoever writes there decides what is run."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    home = read_only(tmp_path / "home")
    first = Outcome(program, WRITES, home, source=str(source), TMPDIR=str(temporary))
    assert first.place is not None
    first.place.parent.chmod(0o777)
    found = Outcome(program, WRITES, home, source=str(source), TMPDIR=str(temporary))
    assert found.place is None
    assert len(found.log) == 1
    assert "expected a directory that belongs to this user alone" in found.log[0]


def test_where_nothing_can_be_written_kernels_are_compiled_all_the_same(
    program: Path, tmp_path: Path, source: Path
) -> None:
    home = read_only(tmp_path / "home")
    found = Outcome(program, WRITES_NOTHING, home, source=str(source))
    assert found.place is None
    (line,) = found.log
    assert line.startswith("WARNING compiled kernels cannot be kept")
    assert line.endswith("set NUMBA_CACHE_DIR to a directory that this user can write")
    assert f"{home}/.cache/byway: Permission denied" in line


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
@pytest.mark.parametrize("content", [b"", b"\0" * 64, b"\x80\x05."], ids=["empty", "zero", "cut"])
def test_a_damaged_file_costs_a_compilation_and_is_replaced(
    program: Path, tmp_path: Path, kind: str, content: bytes
) -> None:
    """A power cut leaves files that are empty or zero."""
    kept = {"NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    Outcome(program, WRITES, tmp_path, **kept)
    files = list((tmp_path / "kept").rglob(f"*.{kind}"))
    assert len(files) == 2
    for file in files:
        file.write_bytes(content)
    (line,) = Outcome(program, WRITES, tmp_path, **kept).log
    assert line.startswith(f"WARNING compiled kernels in {tmp_path}/kept/byway/kernels-")
    assert line.endswith("compiling them anew")
    assert Outcome(program, WRITES, tmp_path, **kept).log == []
