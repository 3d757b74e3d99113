"""The data directory of a simulated broker: the real storage over a simulated file system.

A node keeps every input here before its broker handles it, and gets the broker back after a crash.
Snapshots are written some time after they were taken, as they are beside the work of a live broker,
so a crash finds chains of journals too. This module decides when a snapshot is written; what is in
the files is the storage's business.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Final

from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import Input
from byway.model.addresses import Address, Neighbour
from byway.sim.engine.simulated_files import SimulatedFileSystem
from byway.storage.snapshot_writing import SnapshotJob
from byway.storage.storage import JOURNAL_BYTES, Durability, Storage
from byway.trace import TraceBuffer

DIRECTORY: Final = Path("/data")

Schedule = Callable[[Callable[[], None]], None]
"""Is called with what is to be called later."""


class HeldSnapshot:
    """A snapshot that was taken and is not written yet."""

    def __init__(self, job: SnapshotJob) -> None:
        self._job: SnapshotJob | None = job
        self._data = job.encode()
        self._error: OSError | None = None

    def done(self) -> bool:
        """Whether it is installed, has failed, or was dropped."""
        return self._job is None

    def exception(self) -> OSError | None:
        """Write it now, unless that is done; why it failed, None if it did not."""
        self.write()
        return self._error

    def write(self) -> None:
        """Write and install it, unless that is done."""
        job, self._job = self._job, None
        if job is not None:
            try:
                job.write(self._data)
                job.install()
            except OSError as error:
                self._error = error

    def drop(self) -> None:
        """Never write it."""
        self._job = None


class HeldSnapshots:
    """Takes snapshots at once, and writes each when `schedule` calls back, or when the storage
    waits for it."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._last: HeldSnapshot | None = None

    def begin(self, job: SnapshotJob) -> HeldSnapshot:
        """Take a snapshot, and have it written later."""
        self._last = snapshot = HeldSnapshot(job)
        self._schedule(snapshot.write)
        return snapshot

    def stop(self) -> None:
        """Drop what is not written yet."""
        if self._last is not None:
            self._last.drop()


class NodeStorage:
    """The disk of one simulated broker, which outlives its processes.

    `files` injects faults: its `failing` and `capacity_bytes` make an operation fail, its
    `crash_at` ends the process within one.
    """

    def __init__(
        self,
        name: str,
        rng: Random,
        durability: Durability = "process",
        journal_bytes: int = JOURNAL_BYTES,
        schedule: Schedule = lambda write: write(),
    ) -> None:
        """`schedule` says when a snapshot is written; by default that is at once."""
        self.name = name
        self.files = SimulatedFileSystem(rng)
        self.storage: Storage | None = None
        """The storage of the running process; None while there is none."""
        self._durability: Durability = durability
        self._journal_bytes = journal_bytes
        self._schedule = schedule
        self._snapshots = HeldSnapshots(schedule)

    def __repr__(self) -> str:
        return f"<NodeStorage {self.name}: {self.storage!r}, {self.files!r}>"

    def start(
        self,
        now_us: int,
        config: BrokerConfig,
        neighbours: Iterable[str] = (),
        trace: TraceBuffer | None = None,
        *,
        may_be_stale: bool = False,
    ) -> Broker:
        """Start a process: the broker of the directory, or a new one. Raises `StorageError`."""
        assert self.storage is None, f"{self.name} runs"
        self._snapshots = HeldSnapshots(self._schedule)
        storage = self.storage = Storage(
            DIRECTORY, self._durability, self._journal_bytes, self.files, self._snapshots
        )
        listed = tuple(Neighbour(Address("", 1), name) for name in neighbours)
        try:
            return storage.restore(
                now_us, self.name, config, listed, trace, may_be_stale=may_be_stale
            )
        except Exception:
            self.storage = None
            storage.abandon()
            raise

    def keep(self, now_us: int, inputs: list[Input]) -> None:
        """Keep inputs before the broker handles them. Raises `StorageError`, after which the broker
        must not handle them, and the process ends."""
        assert self.storage is not None, f"{self.name} is down"
        self.storage.keep(now_us, inputs)

    def crash(self, *, power: bool = False) -> None:
        """The process ends; with `power`, because the machine lost it."""
        self._snapshots.stop()
        self.files.crash(power=power)
        self.storage = None

    def stop(self) -> None:
        """The process ends after a clean stop. Raises `StorageError`."""
        storage, self.storage = self.storage, None
        assert storage is not None, f"{self.name} is down"
        storage.stop()
