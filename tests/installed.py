"""byway as a user has it: a wheel of it in an environment of its own, with no package that the
wheel does not ask for; and programs there, run by a user who may be able to write little or
nothing.

The other packages are those of this environment, linked: exactly the distributions that pip would
install for the wheel with its extras, found in the metadata. So nothing is downloaded.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
INSTALL_S = 120
WRITES_NOTHING = "writes nothing"
WRITES = "writes"
AS_A_USER = f"""
# Root is stopped by permissions like anyone else once it has no capabilities.
import ctypes, os, resource, sys
if os.geteuid() == 0:
    PR_CAPBSET_DROP, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 24, 47, 4
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    for capability in range(64):
        prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
if sys.argv[1] == {WRITES_NOTHING!r}:  # not even in /tmp; what is no file can be written
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
os.execv(sys.argv[2], sys.argv[2:])
"""


def build_wheel(directory: Path) -> Path:
    """A wheel of this repository."""
    done(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory))
    (wheel,) = directory.glob("*.whl")
    return wheel


class Installed:
    """An environment with byway and some of its extras in it."""

    def __init__(self, directory: Path, wheel: Path, *extras: str) -> None:
        environment = directory / "environment"
        self.python = environment / "bin" / "python"
        self.byway = environment / "bin" / "byway"
        done(sys.executable, "-m", "venv", "--without-pip", str(environment))
        pip = (sys.executable, "-m", "pip", "--python", str(self.python), "--quiet")
        done(*pip, "install", "--no-deps", "--no-index", "--no-compile", str(wheel))
        (self.packages,) = environment.glob("lib/python*/site-packages")
        self.package = self.packages / "byway"
        (own,) = Distribution.discover(path=[str(self.packages)])
        self.distributions = _required(own, extras)
        """The other distributions, by name."""
        for other in self.distributions.values():
            _link(other, self.packages)

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """Nobody can write beside the sources."""
        directories = [self.package, *(d for d in self.package.rglob("*") if d.is_dir())]
        try:
            for directory in directories:
                directory.chmod(0o555)
            yield
        finally:
            for directory in directories:
                directory.chmod(0o755)

    def compiled(self) -> set[Path]:
        """Files of compiled kernels beside the sources."""
        return set(self.package.rglob("kernels-*.o"))


def _required(of: Distribution, extras: Iterable[str]) -> dict[str, Distribution]:
    """The distributions that pip would install for this one with these extras."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(of, extra) for extra in ("", *extras)]
    while waiting:
        one, extra = waiting.pop()
        if (one.name, extra) in seen:
            continue
        seen.add((one.name, extra))
        for text in one.requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                is_own = requirement.name == of.name
                other = of if is_own else distribution(requirement.name)
                if not is_own:
                    found[other.name] = other
                waiting += [(other, wanted) for wanted in ("", *requirement.extras)]
    return found


def _link(of: Distribution, packages: Path) -> None:
    """Put what a distribution has installed among the packages of another environment."""
    for top in {file.parts[0] for file in of.files or ()} - {"..", "__pycache__"}:
        link = packages / top
        if not link.exists():
            link.symlink_to(Path(str(of.locate_file(top))))


def done(*command: str, seconds: float = INSTALL_S) -> str:
    """What a command prints; it must end well."""
    ended = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def environment(home: Path, **more: str) -> dict[str, str]:
    """Variables of a user with this home, and no others that say where to keep or find anything."""
    ours = ("BYWAY_", "NUMBA_", "PYTHON", "XDG_", "TMP", "TEMP", "COV_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    return kept | {"HOME": str(home)} | more


def as_a_user(what: str, *command: str | Path) -> list[str]:
    """A command for a user without privileges who `WRITES` where that is allowed, or who
    `WRITES_NOTHING`."""
    return [sys.executable, "-c", AS_A_USER, what, *map(str, command)]
