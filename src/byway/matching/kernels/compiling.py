"""Compiles all kernels into one object file, in a process of its own.

So only that process needs numba and its memory, and it can be ended at any time. It reports on its
standard output, in lines: `progress` with how many steps of how many are done, what the user should
know with its level, and `object` with a size, after which that many bytes follow. It ends by itself
when nobody reads them any more. `building` is the other end of this.

Of several that are started at once for the same file, one compiles, and the others wait for it.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from byway.matching import kernel_files, native
from byway.matching.building import NICELY

_STEPS_AFTER: Final = 40
"""Linking, optimising and emitting, in steps that take about as long as to lower one kernel."""
_STEPS_EMITTING: Final = 8
"""The last of these."""


def main() -> None:
    """Send the object file to standard output, and keep it if there is a place."""
    if NICELY in sys.argv:
        os.nice(5)
    place = kernel_files.choose()
    advice = place.advice()
    if advice is not None:
        level, text = advice
        _report(f"{logging.getLevelName(level)} {text}")
    with _alone(place.file):
        code = kernel_files.find()
        if code is None:
            code = _compiled()
            if place.file is not None:
                try:
                    kernel_files.write(place.file, code)
                except OSError as error:
                    why = f"{place.file.parent}: {error.strerror}"
                    _report(f"WARNING {kernel_files.not_kept(why)}")
    _report(f"object {len(code)}")
    sys.stdout.buffer.write(code)
    sys.stdout.buffer.flush()


@contextmanager
def _alone(path: Path | None) -> Iterator[None]:
    """Wait until no other process compiles for the same file."""
    if path is None:
        yield
        return
    lock = path.with_name(f".{path.name}.lock")
    try:
        file = os.open(lock, os.O_CREAT | os.O_RDWR, 0o600)
    except OSError:  # of another user, who keeps kernels for all
        yield
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
        lock.unlink(missing_ok=True)
    finally:
        os.close(file)


def _report(line: str) -> None:
    print(line, flush=True)


# --- compiling ----------------------------------------------------------------------------------


def _compiled() -> bytes:
    from byway.matching.kernels.decorator import Kernel
    from byway.matching.kernels.entry import ENTRIES
    from byway.matching.kernels.linking import linked, lower_only, optimise

    total = len(Kernel.made) + _STEPS_AFTER

    def count() -> None:
        done = sum(1 for kernel in Kernel.made if kernel.overloads)
        _report(f"progress {done} {total}")

    lower_only()
    Kernel.on_lowered = staticmethod(count)
    machine = native.target_machine()
    module = linked([kernel.lowered() for kernel in ENTRIES])
    optimise(module, machine)
    _report(f"progress {total - _STEPS_EMITTING} {total}")
    code: bytes = machine.emit_object(module)
    _report(f"progress {total} {total}")
    return code


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        os._exit(1)  # nobody waits for the kernels any more
    except Exception as error:  # whatever a compiler raises: whoever waits is told in one line
        _report(f"failed {type(error).__name__}: {' '.join(str(error).split())[:500]}")
        sys.exit(1)
