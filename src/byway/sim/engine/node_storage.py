"""The disk of a simulated broker: the real storage and restart marker over a simulated file system.

A node keeps every input here before its broker handles it, and gets the broker back after a crash.
Snapshots are written some time after they were taken, as they are beside the work of a live broker,
so a crash finds chains of journals too. This module decides when a snapshot is written, breaks the
disk, and notes what a broker must find on it; what is in the files is the storage's business.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from enum import Enum
from pathlib import Path
from random import Random
from typing import Annotated, Final

import msgspec

from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import Input
from byway.model.addresses import Address, Neighbour
from byway.model.options import Bytes, Microseconds, option
from byway.sim.engine.simulated_files import SimulatedFileSystem
from byway.storage.durability import DurabilityOption
from byway.storage.marker_file import MarkerFile
from byway.storage.record_files import encode_inputs, record, title
from byway.storage.snapshot_writing import SnapshotJob
from byway.storage.state_files import JOURNAL, journal_numbers, journal_path, read_mark
from byway.storage.storage import JOURNAL_BYTES, Storage
from byway.trace import TraceBuffer

DIRECTORY: Final = Path("/data")
STATE_DIRECTORY: Final = Path("/state")
TEARING_OPERATIONS: Final = 4
"""A process that is to end within a write ends within one of so many operations on files."""
WRITES: Final = (
    "append",
    "create",
    "overwrite",
    "rename",
    "remove",
    "sync",
    "sync_path",
    "truncate",
)
"""The operations that a disk refuses when it fails."""

Schedule = Callable[[Callable[[], None]], None]
"""Is called with what is to be called later."""


class StorageOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What one simulated broker keeps on its disk."""

    data: Annotated[
        bool,
        option(
            "Keeps the broker's state in files on a simulated disk, as a broker process with "
            "`data` does: every input is written before it is handled, and a restart reads it."
        ),
    ] = False
    durability: DurabilityOption = "process"
    state_dir: Annotated[
        bool,
        option(
            "Keeps a file with the names of the broker's neighbours on the simulated disk, as a "
            "broker process with `state_dir` does."
        ),
    ] = False
    journal_bytes: Annotated[
        Bytes,
        option(
            "With `data`, a journal is replaced by a snapshot when it is longer than this, and "
            "four times as long as the last snapshot."
        ),
    ] = JOURNAL_BYTES
    snapshot_us: Annotated[
        Microseconds,
        option("With `data`, the time from when a snapshot is taken until it is written."),
    ] = 100_000

    @property
    def has_disk(self) -> bool:
        """Whether anything is kept."""
        return self.data or self.state_dir


class KeptState(Enum):
    """What a broker must find when it starts, as `docs/reference/durability.md` promises."""

    LAST = "its last state"
    OLDER = "an older state"
    NOTHING = "no state"


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
        options: StorageOptions,
        schedule: Schedule = lambda write: write(),
    ) -> None:
        """`schedule` says when a snapshot is written; by default that is at once."""
        self.name = name
        self.options = options
        self.files = SimulatedFileSystem(rng)
        self.storage: Storage | None = None
        """The storage of the running process; None while there is none."""
        self.kept = KeptState.NOTHING
        """What a process that starts now must find."""
        self._rng = rng
        self._schedule = schedule
        self._snapshots = HeldSnapshots(schedule)
        self._marker: MarkerFile | None = None
        self._listed: tuple[Neighbour, ...] = ()
        self._marked: tuple[str, ...] | None = None
        """The neighbours that the restart marker names, as of this process."""
        self.is_damaged = False
        """Whether the journal was damaged, so that the next process must be told that what it finds
        may be stale."""
        self._has_lost_power = False
        """Whether the machine has lost its power since the process before this one started."""
        self._ends_with_power = False
        """Whether the process ends, when it does by itself, because the machine does."""

    def __repr__(self) -> str:
        return f"<NodeStorage {self.name}: {self.storage!r}, {self.files!r}>"

    # --- the process ---------------------------------------------------------------------------

    def start(
        self,
        now_us: int,
        config: BrokerConfig,
        neighbours: Iterable[str] = (),
        trace: TraceBuffer | None = None,
        *,
        may_be_stale: bool = False,
        expects_unlisted: bool = False,
    ) -> Broker:
        """Start a process: the broker of the directory, or a new one, as a broker process does
        it. `now_us` is its incarnation if it has to be a new one. Raises `StorageError`."""
        assert self.storage is None, f"{self.name} runs"
        listed = self._listed = tuple(Neighbour(Address("", 1), name) for name in neighbours)
        self._marker = marker = (
            MarkerFile(STATE_DIRECTORY, self.name, self.files) if self.options.state_dir else None
        )
        self._marked = None
        names = [] if marker is None else marker.names(listed)
        restarting = marker is not None and marker.was_here
        expects_unlisted = expects_unlisted and not restarting
        if not self.options.data:
            named = {*names, *(neighbour.id for neighbour in listed)}
            return Broker(
                self.name, named, config, now_us, trace,
                restarting=restarting, expects_unlisted=expects_unlisted,
            )  # fmt: skip
        self._snapshots = HeldSnapshots(self._schedule)
        storage = self.storage = Storage(
            DIRECTORY, self.options.durability, self.options.journal_bytes, self.files,
            self._snapshots,
        )  # fmt: skip
        try:
            return storage.restore(
                now_us, self.name, config, listed, trace,
                may_be_stale=may_be_stale, marked_neighbours=names, restarting=restarting,
                expects_unlisted=expects_unlisted,
            )  # fmt: skip
        except Exception:
            self.storage = None
            storage.abandon()
            raise

    def started(self, broker: Broker) -> None:
        """The broker of a process that has started is about to work. Raises `StorageError`."""
        self.mark(broker)
        self.is_damaged = self._has_lost_power = False
        self.kept = KeptState.LAST if self.options.data else KeptState.NOTHING

    def keep(self, now_us: int, inputs: list[Input]) -> None:
        """Keep inputs before the broker handles them. Raises `StorageError`, after which the broker
        must not handle them, and the process ends."""
        if self.options.data:
            assert self.storage is not None, f"{self.name} is down"
            self.storage.keep(now_us, inputs)

    def mark(self, broker: Broker) -> None:
        """Write the restart marker before the broker acts, if its neighbours have changed. Raises
        `StorageError`."""
        if self._marker is not None and self._marked != broker.neighbours:
            self._marker.write(broker.neighbours, self._listed)
            self._marked = broker.neighbours

    def crash(self, *, power: bool = False) -> None:
        """The process ends; with `power`, because the machine lost it."""
        self._snapshots.stop()
        power |= self._ends_with_power
        self._ends_with_power = False
        self.files.crash(power=power)
        self.storage = None
        self._has_lost_power |= power
        if power and self.options.durability == "process" and self.kept is KeptState.LAST:
            self.kept = KeptState.OLDER

    def stop(self) -> None:
        """The process ends after a clean stop. Raises `StorageError`."""
        storage, self.storage = self.storage, None
        assert storage is not None, f"{self.name} is down"
        storage.stop()

    def has(self, now_us: int, inputs: list[Input]) -> bool:
        """Whether the newest journal ends with these inputs, which were being kept when the process
        ended: then the next process handles them."""
        if not self.options.data:
            return False
        files, numbers = self.files, journal_numbers(self.files, DIRECTORY)
        last = record(encode_inputs(now_us, inputs))
        return bool(numbers) and files.read(journal_path(DIRECTORY, numbers[-1])).endswith(last)

    # --- faults --------------------------------------------------------------------------------

    @property
    def is_faulty(self) -> bool:
        """Whether the disk refuses some writes."""
        return bool(self.files.failing) or self.files.capacity_bytes is not None

    @property
    def is_about_to_end(self) -> bool:
        """Whether the process ends within one of its next operations on files."""
        return self.files.crash_at is not None

    def crash_soon(self, *, power: bool = False) -> None:
        """The process ends within one of its next operations on files, which may be torn."""
        self._ends_with_power = power
        self.files.crash_at = self.files.operations + self._rng.randint(1, TEARING_OPERATIONS)

    def fill(self, room_bytes: int) -> None:
        """Leave room for so many bytes."""
        self.files.capacity_bytes = self.files.used_bytes + room_bytes

    def fail(self, operations: Iterable[str] = WRITES) -> None:
        """Let these operations fail with an input/output error."""
        self.files.failing |= dict.fromkeys(operations, errno.EIO)

    def mend(self) -> None:
        """The disk works again, and has room."""
        self.files.failing.clear()
        self.files.capacity_bytes = None

    def lose_data(self) -> None:
        """Somebody moves the data directory of a broker that is down away."""
        self.files.remove_directory(DIRECTORY)
        self.kept, self.is_damaged = KeptState.NOTHING, False

    def damage(self) -> None:
        """The journal of a broker that is down loses its end, is changed or is lost, somewhere in
        what the broker had acted on. After a loss of power nothing is damaged: what the broker
        acted on last may not be known any more."""
        numbers, mark = journal_numbers(self.files, DIRECTORY), read_mark(self.files, DIRECTORY)
        is_known = mark is not None and numbers and mark.journal == numbers[-1]
        if self.kept is not KeptState.LAST or self._has_lost_power or not is_known:
            return
        assert mark is not None
        path, at = journal_path(DIRECTORY, mark.journal), len(title(JOURNAL))
        at = self._rng.randint(at, mark.length - 1)
        match self._rng.choice(("cut", "changed", "lost")):
            case "cut":
                self.files.damage(path, lambda content: content[:at])
            case "changed":
                self.files.damage(path, lambda content: _changed(content, at))
            case "lost":
                self.files.remove(path)
        self.kept, self.is_damaged = KeptState.OLDER, True


def _changed(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :]
