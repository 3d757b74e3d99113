"""Has the kernels compiled by a process of its own, once, and loads them.

The compiler reports on its standard output: lines that this module reads, and at last the object
file itself, which is loaded whether or not it could be kept. A driver with an event loop starts the
command itself, and hands the lines to a `Build`; everybody else calls `ensure_kernels`.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from typing import Final

from byway.matching import kernel_files
from byway.matching.native import KERNELS
from byway.model import BywayError

log = logging.getLogger("byway.kernels")

COMPILING: Final = "compiling kernels, once"
COMMAND: Final = (sys.executable, "-m", "byway.matching.kernels.compiling")
NICELY: Final = "--nice"
"""Option of the command: let others have the processor first."""


class CompilingError(BywayError):
    """The kernels could not be compiled."""


def load_kernels() -> bool:
    """Load the kernels if they are compiled already, or were loaded before; whether they are."""
    if not KERNELS.are_loaded:
        code = kernel_files.find()
        if code is not None:
            KERNELS.load(code)
    return KERNELS.are_loaded


def ensure_kernels(progress: Callable[[int, int], None] | None = None) -> None:
    """Load the kernels; compile them if need be, which takes a few seconds and is logged.

    `progress` is called with how many steps of how many are done. Raises `CompilingError`.
    """
    if load_kernels():
        return
    if progress is None:
        log.warning("%s: this takes about 15 s", COMPILING)
    with subprocess.Popen(
        COMMAND,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,  # a Ctrl-C is for this process, which then ends that one
    ) as process:
        assert process.stdout is not None
        build = Build(progress)
        try:
            while (size := build.line(process.stdout.readline())) is None:
                pass
            build.code(process.stdout.read(size))
        finally:
            process.kill()


class Build:
    """What a compiling process has reported so far."""

    def __init__(self, progress: Callable[[int, int], None] | None = None) -> None:
        self._progress = progress

    def line(self, line: bytes) -> int | None:
        """Read one line; the size of the object file, which follows its last line."""
        kind, _, rest = line.decode(errors="replace").rstrip("\n").partition(" ")
        if kind == "progress":
            done, total = rest.split()
            if self._progress is not None:
                self._progress(int(done), int(total))
        elif kind in ("INFO", "WARNING"):
            log.log(logging.getLevelNamesMapping()[kind], "%s", rest)
        elif kind == "object":
            return int(rest)
        else:
            reason = rest if kind == "failed" else "the process that compiles them has ended"
            raise CompilingError(f"the kernels cannot be compiled: {reason}")
        return None

    def code(self, code: bytes) -> None:
        """Load the object file."""
        KERNELS.load(code)
