"""A process that does not outlive the one that started it.

    python -m tests.chaos.launch MODULE [ARGUMENT ...]

It asks the kernel to be killed when its parent ends, then runs a module as `python -m` does.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import runpy
import signal
import sys

PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    parent = os.getppid()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
