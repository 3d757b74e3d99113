"""Writes snapshots beside a broker's work.

A snapshot is encoded as of the moment when it is begun, written under a temporary name, and
installed in place of the last one. This module decides where that happens; it knows neither the
files nor what is in them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, Protocol


class SnapshotProcessError(Exception):
    """The process that was to write a snapshot failed; the text says why."""


class SnapshotJob(NamedTuple):
    """The steps of one snapshot, in their order. Each may raise."""

    encode: Callable[[], bytes]
    """Returns the contents of the file, with the broker's state of this moment."""
    write: Callable[[bytes], None]
    """Writes them under a temporary name, and syncs them."""
    install: Callable[[], None]
    """Puts that file in the place of the last snapshot, and removes what it replaces."""


class SnapshotTask(Protocol):
    """A snapshot that was begun."""

    def done(self) -> bool:
        """Whether it is installed, or has failed."""

    def exception(self) -> BaseException | None:
        """Wait until it is done; why it failed, None if it did not."""


class SnapshotWriter(Protocol):
    """Writes the snapshots of one broker, one after the other."""

    def begin(self, job: SnapshotJob) -> SnapshotTask:
        """Begin a snapshot of the present state. It fails as a task; nothing is raised."""

    def stop(self) -> None:
        """End what is under way, whether or not it succeeds. There is no snapshot after this."""


class ThreadedSnapshots:
    """Encodes snapshots at once, while the broker waits, and writes them in a thread."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "byway-storage")

    def begin(self, job: SnapshotJob) -> Future[None]:
        """Encode a snapshot, and have it written."""
        return begin_in_thread(self._thread, job)

    def stop(self) -> None:
        """Wait for the thread."""
        self._thread.shutdown()


def begin_in_thread(thread: ThreadPoolExecutor, job: SnapshotJob) -> Future[None]:
    """Encode a snapshot here and now, and have the thread write it."""
    try:
        data = job.encode()
    except Exception as error:
        failed: Future[None] = Future()
        failed.set_exception(error)
        return failed
    return thread.submit(_write, job, data)


def _write(job: SnapshotJob, data: bytes) -> None:
    job.write(data)
    job.install()
