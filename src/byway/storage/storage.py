"""Where a broker keeps its state: the last snapshot, and a journal of every input since.

A broker is deterministic, so its inputs, replayed with their times, give the same broker. They are
written before they have any effect, so the broker that takes its place after a crash stands by
everything that this one has sent. This module decides which files there are, when a snapshot
replaces a journal, and what happens when nothing can be written. `replay` reads the files.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal

import msgspec

from byway._version import __version__
from byway.clock import now_us
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import Input, NeighbourAdded
from byway.model.addresses import Neighbour, removed_neighbours
from byway.model.errors import StorageError
from byway.storage.record_files import encode_inputs, record, title
from byway.storage.replay import Replay, boot_id
from byway.storage.set_aside import SetAsideFiles
from byway.storage.state_files import (
    JOURNAL,
    STATE,
    WRITTEN,
    JournalOwner,
    State,
    journal_numbers,
    journal_path,
    read_state,
    written_mark,
)
from byway.trace import TraceBuffer

log = logging.getLogger("byway.storage")

Durability = Literal["process", "power"]

JOURNAL_BYTES: Final = 33_554_432
"""The least length of a journal that a snapshot replaces."""
JOURNAL_SNAPSHOTS: Final = 4
"""The least length of such a journal in snapshots: the time to take one grows with its size."""


_encode: Final = msgspec.msgpack.Encoder().encode


class Storage:
    """The directory of one broker, locked while this object lives. Raises `StorageError` if it
    cannot be used."""

    def __init__(
        self, directory: str, durability: Durability = "process", journal_bytes: int = JOURNAL_BYTES
    ) -> None:
        self.directory = Path(directory)
        self.synced = durability == "power"
        self.starts = 0
        self.snapshots = 0
        """Snapshots taken since the start."""
        self.snapshot_bytes = self.journal_bytes = 0
        self.start_summary = "a new broker"
        """How the broker came to its state, for the log."""
        self.removed: list[str] = []
        """Neighbours removed from the list since the broker ran last."""
        self._journal_bytes_least = journal_bytes
        self._broker: Broker | None = None
        self._neighbours: list[Neighbour] = []
        self._number = 0
        self._file = self._mark = -1
        self._writer = ThreadPoolExecutor(1, "byway-storage")
        self._installing: Future[None] | None = None
        self._failure: StorageError | None = None
        self._before: int | None = None
        """Length of the journal before the last record, while that can be taken back."""
        self._lock = self._locked()
        self.set_aside = SetAsideFiles(self.directory)
        """Inputs that raised and were set aside."""

    def __repr__(self) -> str:
        return (
            f"<Storage {self.directory}: snapshot of {self.snapshot_bytes} bytes, "
            f"journal {self._number} of {self.journal_bytes}>"
        )

    def _locked(self) -> int:
        path = self.directory / "lock"
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StorageError(self.directory, f"cannot be used: {error.strerror}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(lock, 32).decode(errors="replace") or "unknown"
            os.close(lock)
            reason = f"is in use by another broker, process {holder}"
            raise StorageError(self.directory, reason) from None
        os.ftruncate(lock, 0)
        os.write(lock, str(os.getpid()).encode())
        return lock

    # --- restoring -----------------------------------------------------------------------------

    def restore(
        self,
        id: str,
        config: BrokerConfig,
        neighbours: tuple[Neighbour, ...] = (),
        trace: TraceBuffer | None = None,
        *,
        may_be_stale: bool = False,
        marked_neighbours: Iterable[str] = (),
        restarting: bool = False,
        expects_unlisted: bool = False,
    ) -> Broker:
        """The broker of this directory, or a new one, which may be `restarting` and may expect
        neighbours that are not listed. Raises `StorageError`.

        `may_be_stale`: a journal of another version, or a damaged one, is replayed as far as
        possible instead of being refused; the broker then has a new incarnation.
        `marked_neighbours`: neighbours by the restart marker, which count where no state was kept,
        or not the last one.
        """
        state = read_state(self.directory, id)
        if state is None:
            named = {*marked_neighbours, *(n.id for n in neighbours if n.id)}
            broker = Broker(
                id, named, config, now_us(), trace,
                restarting=restarting, expects_unlisted=expects_unlisted,
            )  # fmt: skip
        else:
            if state.id != id:
                reason = f"belongs to broker {state.id!r}, not to {id!r}"
                raise StorageError(self.directory / STATE, reason)
            replay = Replay(self.directory, state, may_be_stale)
            broker, self.start_summary = replay.broker(config, trace), replay.start_summary
            with _writing(self.directory):
                for entry in replay.set_aside:
                    self.set_aside.put(entry)
            self.removed = removed_neighbours(state.neighbours, neighbours)
            self.starts, self._number = state.starts, state.journal
            if broker.sessions_stale:
                for name in marked_neighbours:  # links are opened when it starts
                    broker.handle(now_us(), NeighbourAdded(name))
        self.starts += 1
        self._broker, self._neighbours = broker, list(neighbours)
        self._number = max([self._number, *journal_numbers(self.directory)]) + 1
        with _writing(self.directory):
            self._begin_journal(None)
            self._install(self._state(complete=False), self._number)
            self._open_mark()
        return broker

    # --- writing -------------------------------------------------------------------------------

    def keep(self, at_us: int, inputs: list[Input]) -> None:
        """Append inputs to the journal, before the broker handles them. Raises `StorageError`, and
        in every later call too: an input that is not kept must not be handled."""
        if self._failure is not None:
            raise self._failure
        self._before = None
        payload = encode_inputs(at_us, inputs)
        try:
            with _writing(self.directory):
                if self._is_long():
                    self._take_snapshot()
                before = self.journal_bytes
                self._append(payload)
                self._before = before
        except StorageError as error:
            self._failure = error
            raise

    def take_back(self) -> None:
        """Remove the inputs of the last `keep` from the journal: the broker raised, and they had no
        effect. Raises `StorageError`."""
        if self._before is None:
            return  # they were not written
        with _writing(self.directory):
            os.pwrite(self._mark, written_mark(self._number, self._before), 0)
            os.ftruncate(self._file, self._before)
            if self.synced:
                os.fdatasync(self._file)
        self.journal_bytes, self._before = self._before, None

    def rebuild(self) -> Broker:
        """A new broker in place of one that raised, from the snapshot and the journal. Raises
        `StorageError`."""
        broken = self._broker
        assert broken is not None
        with _writing(self.directory):
            if self._installing is not None:
                self._installing.result()
        state = read_state(self.directory, broken.name)
        assert state is not None
        self._broker = broker = Replay(self.directory, state).as_it_is()
        broker.take_over(broken)
        return broker

    def refresh(self) -> None:
        """Take a snapshot now, so that the next rebuild is short. Raises `StorageError`."""
        with _writing(self.directory):
            self._take_snapshot()

    def _is_long(self) -> bool:
        least = max(self._journal_bytes_least, JOURNAL_SNAPSHOTS * self.snapshot_bytes)
        return self.journal_bytes > least

    def _append(self, payload: bytes) -> None:
        """Append a record; if that fails, the journal stays as it was."""
        data = record(payload)
        length = self.journal_bytes + len(data)
        try:
            _write_all(self._file, data)
            if self.synced:
                os.fdatasync(self._file)
            os.pwrite(self._mark, written_mark(self._number, length), 0)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, self.journal_bytes)
            raise
        self.journal_bytes = length

    def _take_snapshot(self) -> None:
        """Begin a new journal at once; the old one stays until the snapshot is on the disk."""
        if self._installing is not None:
            self._installing.result()
        self._number += 1
        try:
            state = self._state(complete=False)
        except Exception:  # the journal holds the same state, only longer
            self._number -= 1
            self._journal_bytes_least = 2 * self.journal_bytes
            log.exception("no snapshot can be taken; the journal is continued")
            return
        os.close(self._file)
        self._begin_journal(self.journal_bytes)
        self._installing = self._writer.submit(self._install, state, self._number)

    def _state(self, complete: bool) -> bytes:
        broker = self._broker
        assert broker is not None
        state = State(
            id=broker.name,
            journal=self._number,
            starts=self.starts,
            version=__version__,
            boot=boot_id(),
            complete=complete,
            synced=self.synced,
            neighbours=self._neighbours,
            config=broker.config,
            up=broker.links_up,
            attached=broker.clients_attached,
            stale=broker.sessions_stale,
            broker=broker.snapshot(),
        )
        self.snapshots += 1
        self.snapshot_bytes = len(state.broker)
        return title(STATE) + record(_encode(state))

    def listed(self, neighbours: tuple[Neighbour, ...]) -> None:
        """Keep these as the neighbours that the settings list."""
        self._neighbours = list(neighbours)

    # --- stopping ------------------------------------------------------------------------------

    def stop(self) -> None:
        """Write a complete snapshot and release the directory. The broker must handle no more
        inputs. Raises `StorageError`."""
        try:
            if self._failure is None and self._broker is not None:
                with _writing(self.directory):
                    if self._installing is not None:
                        self._installing.result()
                    self._number += 1
                    self._install(self._last_state(), self._number)
        finally:
            self.abandon()

    def _last_state(self) -> bytes:
        try:
            return self._state(complete=True)
        except Exception as error:
            reason = f"has no last snapshot, the journal stays: {error!r}"
            raise StorageError(self.directory, reason) from error

    def abandon(self) -> None:
        """Release the directory as it is."""
        self._writer.shutdown()
        for file in (self._file, self._mark, self._lock):
            if file >= 0:
                os.close(file)
        self._file = self._mark = self._lock = -1

    # --- files ---------------------------------------------------------------------------------

    def _begin_journal(self, previous_bytes: int | None) -> None:
        """Begin a new journal, which appears atomically with its first record. It continues the
        journal before it, or (None) a state that is still to be installed."""
        assert self._broker is not None
        owner = JournalOwner(self._broker.name, self._number, previous_bytes)
        head = title(JOURNAL) + record(_encode(owner))
        new = self.directory / f"{JOURNAL}.new"
        self._file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        _write_all(self._file, head)
        if self.synced:
            os.fsync(self._file)
        new.replace(journal_path(self.directory, self._number))
        if self.synced:
            self._sync_directory()
        self.journal_bytes = len(head)

    def _open_mark(self) -> None:
        self._mark = os.open(self.directory / WRITTEN, os.O_WRONLY | os.O_CREAT, 0o600)
        os.ftruncate(self._mark, 0)
        os.pwrite(self._mark, written_mark(self._number, self.journal_bytes), 0)
        os.fsync(self._mark)
        self._sync_directory()

    def _install(self, state: bytes, journal: int) -> None:
        """Replace the state atomically, and delete older journals. The journal that it names is
        on the disk before."""
        path = journal_path(self.directory, journal)
        if path.exists():  # not after a clean stop
            _sync(path)
            self._sync_directory()
        new = self.directory / f"{STATE}.new"
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            _write_all(file, state)
            os.fsync(file)
        finally:
            os.close(file)
        new.replace(self.directory / STATE)
        self._sync_directory()
        for number in journal_numbers(self.directory):
            if number < journal:
                journal_path(self.directory, number).unlink()

    def _sync_directory(self) -> None:
        _sync(self.directory)


def _sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


@contextmanager
def _writing(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(directory, f"cannot be written to: {error.strerror}") from error


def _write_all(file: int, data: bytes) -> None:
    written = os.write(file, data)
    while written < len(data):
        written += os.write(file, data[written:])
