"""Where compiled kernels are kept, and what becomes of a file that is damaged.

Every case is a process, as users without privileges run it. What is kept here is not compiled.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from byway.matching.building import Build, CompilingError
from tests.installed import ROOT, WRITES, WRITES_NOTHING, as_a_user, environment

PROGRAM = """
import logging
logging.basicConfig(format="%(levelname)s %(message)s", level="INFO")
from byway.matching import kernel_files
found = kernel_files.find()
place = kernel_files.choose()
if found is None:
    advice = place.advice()
    if advice is not None:
        logging.log(*advice)
    if place.file is not None:
        kernel_files.write(place.file, b"code")
print(place.file)
print(found)
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
        file, found = done.stdout.splitlines()
        self.place = None if file == "None" else Path(file).parent
        self.file = Path(file)
        self.was_there = found == "b'code'"
        self.log = done.stderr.splitlines()


BESIDE = Path("byway/matching/kernels/__pycache__")


def copy_of_the_sources(path: Path) -> Path:
    shutil.copytree(
        ROOT / "src/byway", path / "byway", ignore=shutil.ignore_patterns("__pycache__")
    )
    return path


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources beside which nothing can be written."""
    path = copy_of_the_sources(tmp_path_factory.mktemp("source"))
    (path / BESIDE).parent.chmod(0o555)
    return path


def test_it_is_beside_the_sources_if_that_can_be_written(program: Path, tmp_path: Path) -> None:
    source = copy_of_the_sources(tmp_path)
    earlier = source / BESIDE / "kernels-of-earlier-sources.o"
    earlier.parent.mkdir(parents=True)
    earlier.touch()
    home = read_only(tmp_path / "home")
    found = Outcome(program, WRITES, home, source=str(source))
    assert (found.place, found.was_there, found.log) == (source / BESIDE, False, [])
    assert not earlier.exists()
    for_another_machine = found.file.with_name(f"{found.file.name[:-10]}another.o")
    for_another_machine.touch()
    assert Outcome(program, WRITES, home, source=str(source)).was_there
    assert for_another_machine.exists()
    assert not [path.name for path in found.file.parent.glob(".*")]


def test_another_text_of_a_kernel_has_another_file(program: Path, tmp_path: Path) -> None:
    source = copy_of_the_sources(tmp_path)
    kept = {"NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    first = Outcome(program, WRITES, tmp_path, source=str(source), **kept)
    with (source / BESIDE).with_name("lists.py").open("a") as file:
        file.write("# changed\n")
    second = Outcome(program, WRITES, tmp_path, source=str(source), **kept)
    assert first.file.name != second.file.name
    assert not second.was_there


def test_it_is_where_the_user_asked_first_of_all(program: Path, tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    found = Outcome(program, WRITES, tmp_path, NUMBA_CACHE_DIR=str(asked))
    assert (found.place, found.log) == (asked / "byway", [])


def test_it_is_read_where_it_cannot_be_written(program: Path, tmp_path: Path, source: Path) -> None:
    """As in an image whose kernels were compiled when it was built."""
    asked = tmp_path / "asked"
    variables = {"NUMBA_CACHE_DIR": str(asked), "source": str(source)}
    Outcome(program, WRITES, tmp_path, **variables)
    (asked / "byway").chmod(0o555)
    found = Outcome(program, WRITES_NOTHING, read_only(tmp_path / "home"), **variables)
    assert (found.place, found.was_there, found.log) == (None, True, [])


def test_it_is_in_the_cache_of_the_user_else(program: Path, tmp_path: Path, source: Path) -> None:
    found = Outcome(program, WRITES, tmp_path / "home", source=str(source))
    assert (found.place, found.log) == (tmp_path / "home/.cache/byway", [])
    cache = tmp_path / "cache"
    found = Outcome(program, WRITES, tmp_path, source=str(source), XDG_CACHE_HOME=str(cache))
    assert (found.place, found.log) == (cache / "byway", [])


def test_a_place_that_was_asked_for_in_vain_is_told(
    program: Path, tmp_path: Path, source: Path
) -> None:
    asked = read_only(tmp_path / "asked")
    found = Outcome(program, WRITES, tmp_path, source=str(source), NUMBA_CACHE_DIR=str(asked))
    assert found.log == [
        f"WARNING NUMBA_CACHE_DIR cannot be used ({asked}/byway: Permission denied): "
        f"compiled kernels are kept in {tmp_path}/.cache/byway"
    ]


def test_it_is_a_private_temporary_directory_else(
    program: Path, tmp_path: Path, source: Path
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    home = read_only(tmp_path / "home")
    found = Outcome(program, WRITES, home, source=str(source), TMPDIR=str(temporary))
    assert found.place is not None
    assert found.place.parent == temporary
    assert found.place.stat().st_mode & 0o777 == 0o700
    assert found.log == [
        f"INFO compiled kernels are kept in {found.place}; "
        "set NUMBA_CACHE_DIR to a directory that stays"
    ]
    again = Outcome(program, WRITES, home, source=str(source), TMPDIR=str(temporary))
    assert (again.was_there, again.log) == (True, [])


def test_a_temporary_directory_that_others_can_write_is_left_alone(
    program: Path, tmp_path: Path, source: Path
) -> None:
    """Whoever writes there decides what is run."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    home = read_only(tmp_path / "home")
    first = Outcome(program, WRITES, home, source=str(source), TMPDIR=str(temporary))
    assert first.place is not None
    first.place.chmod(0o777)
    found = Outcome(program, WRITES, home, source=str(source), TMPDIR=str(temporary))
    assert (found.place, found.was_there) == (None, False)
    assert len(found.log) == 1
    assert "expected a directory that belongs to this user alone" in found.log[0]


def test_where_nothing_can_be_written_the_user_is_told_what_to_set(
    program: Path, tmp_path: Path, source: Path
) -> None:
    home = read_only(tmp_path / "home")
    found = Outcome(program, WRITES_NOTHING, home, source=str(source))
    assert found.place is None
    (line,) = found.log
    assert line.startswith("WARNING compiled kernels cannot be kept")
    assert line.endswith("set NUMBA_CACHE_DIR to a directory that this user can write")
    assert f"{home}/.cache/byway: Permission denied" in line


@pytest.mark.parametrize("content", [b"", b"\0" * 64, b"byway"], ids=["empty", "zero", "cut"])
def test_a_damaged_file_is_replaced(
    program: Path, tmp_path: Path, source: Path, content: bytes
) -> None:
    """A power cut leaves files that are empty or zero."""
    variables = {"NUMBA_CACHE_DIR": str(tmp_path / "kept"), "source": str(source)}
    file = Outcome(program, WRITES, tmp_path, **variables).file
    file.write_bytes(content)
    found = Outcome(program, WRITES, tmp_path, **variables)
    assert found.log == [f"WARNING compiled kernels in {file} cannot be read: compiling them anew"]
    assert Outcome(program, WRITES, tmp_path, **variables).was_there


def test_a_bit_that_has_changed_is_noticed(program: Path, tmp_path: Path, source: Path) -> None:
    variables = {"NUMBA_CACHE_DIR": str(tmp_path / "kept"), "source": str(source)}
    file = Outcome(program, WRITES, tmp_path, **variables).file
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    assert not Outcome(program, WRITES, tmp_path, **variables).was_there


def test_a_process_that_matches_does_not_import_numba() -> None:
    """It would take twice as long to start, and 80 MiB more."""
    code = "import sys, byway; byway.MatchIndex(); print('numba' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=True
    )
    assert done.stdout == "False\n"


# --- what the compiling process reports -----------------------------------------------------------


def test_progress_is_passed_on_and_the_size_comes_last() -> None:
    seen: list[tuple[int, int]] = []
    build = Build(lambda done, total: seen.append((done, total)))
    assert build.line(b"progress 3 22\n") is None
    assert build.line(b"object 1234\n") == 1_234
    assert seen == [(3, 22)]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"failed ImportError: no numba\n", "ImportError: no numba"),
        (b"", "the process that compiles them has ended"),
    ],
)
def test_a_failure_is_told_in_one_line(line: bytes, reason: str) -> None:
    with pytest.raises(CompilingError, match=f"^the kernels cannot be compiled: {reason}$"):
        Build().line(line)
