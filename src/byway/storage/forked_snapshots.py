"""Snapshots that a child process encodes and writes, while the broker goes on.

The child is a copy of the broker's process as of the moment of the snapshot; the system copies a
page of memory when one of the two changes it. It encodes the state, writes it under a temporary
name and exits. The broker's process installs it, so a child that outlives its parent changes
nothing that a later process uses. Why this and not slices or a replay: docs/adr/0010.

The process may have other threads. The child has none of them, and runs nothing that needs one of
their locks: it logs and imports nothing, and leaves without running handlers.
"""

from __future__ import annotations

import gc
import logging
import os
import select
import signal
import sys
import traceback
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final, NoReturn

from byway.storage.snapshot_writing import (
    SnapshotJob,
    SnapshotProcessError,
    SnapshotWriter,
    ThreadedSnapshots,
    begin_in_thread,
)

log = logging.getLogger("byway.storage")

CHILD_WAIT_S: Final = 600
"""How long a child may take. One that takes longer is killed, and the snapshot has failed."""
REPORT_BYTES_MAX: Final = 4_096
"""The length of what a child says of its failure: a pipe takes as much at once."""
_NICENESS: Final = 5
_OOM_SCORE: Final = Path("/proc/self/oom_score_adj")
_ENDING_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def process_snapshots() -> SnapshotWriter:
    """The best way to write the snapshots of a broker that has a process of its own."""
    # elsewhere libraries of the system may not work in a child that runs no other program
    return ForkedSnapshots() if sys.platform == "linux" else ThreadedSnapshots()


class ForkedSnapshots:
    """Has a child process encode and write each snapshot, and installs it in a thread."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "byway-storage")
        self._child: _Child | None = None

    def begin(self, job: SnapshotJob) -> Future[None]:
        """Fork a child that writes the snapshot; where that fails, encode it here."""
        try:
            self._child = child = _Child(job)
        except OSError as error:
            log.warning("no process for a snapshot, it is encoded here: %s", error.strerror)
            return begin_in_thread(self._thread, job)
        return self._thread.submit(_install_when_written, child, job)

    def stop(self) -> None:
        """Kill the child, if there is one, and wait for the thread."""
        if self._child is not None:
            self._child.kill()
        self._thread.shutdown()


def _install_when_written(child: _Child, job: SnapshotJob) -> None:
    child.wait()
    job.install()


class _Child:
    """A child process that encodes and writes one snapshot. Raises `OSError` if there can be
    none."""

    def __init__(self, job: SnapshotJob) -> None:
        self._report, report = os.pipe()
        try:
            self._pid = _fork(job, report)
        except OSError:
            os.close(self._report)
            raise
        finally:
            os.close(report)
        self._lock = Lock()
        self._ended = False

    def kill(self) -> None:
        """End the child, unless it has ended."""
        with self._lock:
            if not self._ended:
                os.kill(self._pid, signal.SIGKILL)

    def wait(self) -> None:
        """Wait until the child has ended. Raises `SnapshotProcessError` if it failed."""
        ready, _, _ = select.select([self._report], [], [], CHILD_WAIT_S)
        if not ready:
            self.kill()
        words = os.read(self._report, REPORT_BYTES_MAX).decode(errors="replace")
        os.close(self._report)
        os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        with self._lock:  # from here on the id may be another process's
            self._ended = True
            _, status = os.waitpid(self._pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if not ready:
            words = f"it took longer than {CHILD_WAIT_S} s"
        elif code < 0:
            words = f"its process was killed by {signal.Signals(-code).name}"
        if code:
            raise SnapshotProcessError(words)


def _fork(job: SnapshotJob, report: int) -> int:
    """The id of a child that does the job. No signal reaches a handler of ours in the child."""
    parent = os.getpid()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        with warnings.catch_warnings():  # from Python 3.12 on, about other threads
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if not pid:
            _do(job, parent, report, mask)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return pid


# --- in the child ------------------------------------------------------------------------------


def _do(job: SnapshotJob, parent: int, report: int, mask: set[int]) -> NoReturn:
    """Encode and write the snapshot, and exit; what fails goes to `report`."""
    code = 1
    try:
        _separate(report, mask)
        data = job.encode()
        if os.getppid() == parent:  # else nobody installs it
            job.write(data)
        code = 0
    except OSError as error:
        os.write(report, str(error).encode()[:REPORT_BYTES_MAX])
    except BaseException:
        os.write(report, traceback.format_exc().encode()[-REPORT_BYTES_MAX:])
    finally:
        os._exit(code)


def _separate(report: int, mask: set[int]) -> None:
    """Let go of what belongs to the parent: its connections, files, lock and signals; and come
    after it where processor time or memory is short."""
    gc.disable()  # it would visit, and so copy, everything
    signal.set_wakeup_fd(-1)
    for number in _ENDING_SIGNALS:  # they come to a group of processes; the parent decides
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    os.closerange(3, report)
    os.closerange(report + 1, os.sysconf("SC_OPEN_MAX"))
    with suppress(OSError):
        os.nice(_NICENESS)
    with suppress(OSError):
        _OOM_SCORE.write_text("1000")
