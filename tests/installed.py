"""byway as a user has it: a wheel of it in an environment of its own, whose other packages are
those of this one; and programs there, run by a user who may be able to write little or nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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


class Installed:
    """An environment with byway in it."""

    def __init__(self, directory: Path) -> None:
        self.python = directory / "environment" / "bin" / "python"
        self.byway = directory / "environment" / "bin" / "byway"
        dist = directory / "dist"
        _done(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(dist))
        (wheel,) = dist.glob("*.whl")
        environment = self.python.parents[1]
        _done(sys.executable, "-m", "venv", "--without-pip", str(environment))
        pip = (sys.executable, "-m", "pip", "--python", str(self.python), "--quiet")
        _done(*pip, "install", "--no-deps", "--no-index", "--no-compile", str(wheel))
        (packages,) = environment.glob("lib/python*/site-packages")
        self.package = packages / "byway"
        others = sysconfig.get_path("purelib")
        (packages / "others.pth").write_text(others)  # .pth files that lie there are not read

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


def _done(*command: str) -> None:
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=INSTALL_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def environment(home: Path, **more: str) -> dict[str, str]:
    """Variables of a user with this home, and no others that say where to keep or find anything."""
    ours = ("BYWAY_", "NUMBA_", "PYTHON", "XDG_", "TMP", "TEMP", "COV_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    return kept | {"HOME": str(home)} | more


def as_a_user(what: str, *command: str | Path) -> list[str]:
    """A command for a user without privileges who `WRITES` where that is allowed, or who
    `WRITES_NOTHING`."""
    return [sys.executable, "-c", AS_A_USER, what, *map(str, command)]
