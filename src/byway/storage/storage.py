"""Where a broker keeps its state: the last snapshot, and a journal of every input since.

A broker is deterministic, so its inputs, replayed with their times, give the same broker. They are
written before they have any effect, so the broker that takes its place after a crash stands by
everything that this one has sent. This module decides which files there are, when a snapshot
replaces a journal, and what happens when nothing can be written. `replay` reads the files.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from byway._version import __version__
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import Input, NeighbourAdded, NeighboursListed
from byway.core.links import UNLISTED
from byway.core.neighbours import NOTHING_LEARNT
from byway.model.addresses import Listing, Neighbour
from byway.model.errors import StorageError
from byway.storage.durability import Durability
from byway.storage.file_system import OS_FILES, FileSystem, write_synced
from byway.storage.record_files import encode_inputs, record, title
from byway.storage.replay import Replay
from byway.storage.set_aside import SetAsideFiles
from byway.storage.snapshot_writing import (
    SnapshotJob,
    SnapshotProcessError,
    SnapshotTask,
    SnapshotWriter,
    ThreadedSnapshots,
)
from byway.storage.state_files import (
    JOURNAL,
    NEW,
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

"""The setting of a broker, live or simulated."""

JOURNAL_BYTES: Final = 33_554_432
"""The least length of a journal that a snapshot replaces."""
JOURNAL_SNAPSHOTS: Final = 4
"""The least length of such a journal in snapshots: the time to take one grows with its size."""


_encode: Final = msgspec.msgpack.Encoder().encode


class Storage:
    """The directory of one broker, locked while this object lives. Raises `StorageError` if it
    cannot be used.

    `files` has the directory, and `snapshots` writes snapshots beside the broker's work; by
    default they are those of the machine, and a thread.
    """

    def __init__(
        self,
        directory: str | Path,
        durability: Durability = "process",
        journal_bytes: int = JOURNAL_BYTES,
        files: FileSystem = OS_FILES,
        snapshots: SnapshotWriter | None = None,
    ) -> None:
        self.directory = Path(directory)
        self.synced = durability == "power"
        self.starts = 0
        self.snapshots = 0
        """Snapshots begun since the start."""
        self.snapshots_failed = 0
        """Those that could not be written; the journals that they were to replace stay."""
        self.snapshot_bytes = self.journal_bytes = 0
        self.start_summary = "a new broker"
        """How the broker came to its state, for the log."""
        self._journal_bytes_least = journal_bytes
        self._broker: Broker | None = None
        self._number = 0
        self._file = self._mark = -1
        self._files = files
        self._snapshots = snapshots or ThreadedSnapshots()
        self._snapshot: SnapshotTask | None = None
        """The snapshot under way."""
        self._failure: StorageError | None = None
        self._before: int | None = None
        """Length of the journal before the last record, while that can be taken back."""
        self._lock = self._locked()
        self.set_aside = SetAsideFiles(files, self.directory)
        """Inputs that raised and were set aside."""

    def __repr__(self) -> str:
        return (
            f"<Storage {self.directory}: snapshot of {self.snapshot_bytes} bytes, "
            f"journal {self._number} of {self.journal_bytes}>"
        )

    def _locked(self) -> int:
        try:
            self._files.make_directory(self.directory)
            return self._files.lock(self.directory / "lock")
        except BlockingIOError as error:
            reason = f"is in use by another broker, process {error.strerror}"
            raise StorageError(self.directory, reason) from None
        except OSError as error:
            raise StorageError(self.directory, f"cannot be used: {error.strerror}") from error

    # --- restoring -----------------------------------------------------------------------------

    def restore(
        self,
        now_us: int,
        id: str,
        config: BrokerConfig,
        neighbours: tuple[Neighbour, ...] = (),
        trace: TraceBuffer | None = None,
        *,
        may_be_stale: bool = False,
        marked_neighbours: Iterable[str] = (),
        restarting: bool = False,
        expects_unlisted: bool = False,
        learnt: Mapping[str, str] = NOTHING_LEARNT,
        former: Mapping[str, str] = NOTHING_LEARNT,
        successors: Mapping[str, str] = NOTHING_LEARNT,
        listing: Listing | None = None,
    ) -> Broker:
        """The broker of this directory, or a new one, which may be `restarting` and may expect
        neighbours that are not listed. Raises `StorageError`.

        `may_be_stale`: a journal of another version, or a damaged one, is replayed as far as
        possible instead of being refused; the broker then has a new incarnation.
        `marked_neighbours`: neighbours by the restart marker, which count where no state was kept,
        or not the last one. `learnt` addresses, `former` neighbours, their `successors` and the
        `listing` by the marker count where no state was kept; beside an older one, former
        neighbours say themselves that they are. The broker's listing is that of its last run:
        whoever starts it sees what an operator has changed since.
        """
        files = self._files
        state = read_state(files, self.directory, id)
        if state is None:
            listed = (n.id for n in neighbours if n.id and n.id not in former)
            named = {*marked_neighbours, *listed}
            broker = Broker(
                id, named, config, now_us, trace,
                restarting=restarting, expects_unlisted=expects_unlisted,
                learnt=learnt, former=former, successors=successors,
            )  # fmt: skip
            listing = listing or Listing(neighbours)
        else:
            if state.id != id:
                reason = f"belongs to broker {state.id!r}, not to {id!r}"
                raise StorageError(self.directory / STATE, reason)
            replay = Replay(files, self.directory, state, may_be_stale)
            broker = replay.broker(now_us, config, trace)
            self.start_summary = replay.start_summary
            with _writing(self.directory):
                for entry in replay.set_aside:
                    self.set_aside.put(entry)
            self.starts, self._number = state.starts, state.journal
            if broker.sessions_stale:
                for name in marked_neighbours:  # links are opened when it starts
                    broker.handle(now_us, NeighbourAdded(name))
                if expects_unlisted and config.unlisted_wait_us:
                    # it may have got neighbours since that the older state does not know of
                    broker.handle(now_us, NeighbourAdded(UNLISTED))
            listing = broker.listing or Listing(tuple(state.neighbours))
        broker.handle(now_us, NeighboursListed(listing))
        self.starts += 1
        self._broker = broker
        self._number = max([self._number, *journal_numbers(files, self.directory)]) + 1
        with _writing(self.directory):
            self._begin_journal(None)
            self._write_state(self._number, self._state(complete=False))
            self._install_state(self._number)
            self._open_mark()
        self.snapshots += 1
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
                if self._snapshot is not None and self._snapshot.done():
                    self._end_snapshot()
                if self._is_long():
                    self._begin_snapshot()
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
            self._files.overwrite(self._mark, written_mark(self._number, self._before))
            if self.synced:  # else it could say that the end of the journal is lost
                self._files.sync(self._mark)
            self._files.truncate(self._file, self._before)
            if self.synced:
                self._files.sync(self._file)
        self.journal_bytes, self._before = self._before, None

    def rebuild(self) -> Broker:
        """A new broker in place of one that raised, from the snapshot and the journal. Raises
        `StorageError`."""
        broken = self._broker
        assert broken is not None
        self._end_snapshot()
        state = read_state(self._files, self.directory, broken.name)
        assert state is not None
        self._broker = broker = Replay(self._files, self.directory, state).as_it_is()
        broker.take_over(broken)
        return broker

    def refresh(self) -> None:
        """Begin a snapshot, so that the next rebuild is short. Raises `StorageError`."""
        with _writing(self.directory):
            self._begin_snapshot()

    def _is_long(self) -> bool:
        least = max(self._journal_bytes_least, JOURNAL_SNAPSHOTS * self.snapshot_bytes)
        return self.journal_bytes > least

    def _append(self, payload: bytes) -> None:
        """Append a record; if that fails, the journal stays as it was."""
        files, data = self._files, record(payload)
        length = self.journal_bytes + len(data)
        try:
            files.append(self._file, data)
            if self.synced:
                files.sync(self._file)
            files.overwrite(self._mark, written_mark(self._number, length))
        except OSError:
            with suppress(OSError):
                files.truncate(self._file, self.journal_bytes)
            raise
        self.journal_bytes = length

    def _begin_snapshot(self) -> None:
        """Begin a new journal, and a snapshot of the state before it. The old journals stay until
        the snapshot is on the disk. While one is under way, the journal is continued."""
        if self._snapshot is not None:
            return
        self._number += 1
        self._begin_journal(self.journal_bytes)
        job = SnapshotJob(
            partial(self._state, complete=False),
            partial(self._write_state, self._number),
            partial(self._install_state, self._number),
        )
        self.snapshots += 1
        self._snapshot = self._snapshots.begin(job)
        if self._snapshot.done():
            self._end_snapshot()

    def _end_snapshot(self) -> None:
        """Wait for the snapshot under way. If it failed, the journals hold the same state, only
        longer, and the next one is tried when the last of them is long."""
        if self._snapshot is None:
            return
        error = self._snapshot.exception()
        self._snapshot = None
        if error is not None:
            self.snapshots_failed += 1
            is_told = isinstance(error, OSError | SnapshotProcessError)
            log.error(
                "a snapshot failed, its journals are kept: %s",
                error,
                exc_info=None if is_told else error,
            )
            with suppress(OSError):
                self._remove_unfinished()

    def _state(self, complete: bool) -> bytes:
        broker = self._broker
        assert broker is not None
        state = State(
            id=broker.name,
            journal=self._number,
            starts=self.starts,
            version=__version__,
            boot=self._files.boot_id(),
            complete=complete,
            synced=self.synced,
            neighbours=[] if broker.listing is None else list(broker.listing.listed),
            config=broker.config,
            up=broker.links_up,
            attached=broker.clients_attached,
            stale=broker.sessions_stale,
            broker=broker.snapshot(),
        )
        return title(STATE) + record(_encode(state))

    # --- stopping ------------------------------------------------------------------------------

    def stop(self) -> None:
        """Write a complete snapshot and release the directory. The broker must handle no more
        inputs. Raises `StorageError`."""
        try:
            if self._failure is None and self._broker is not None:
                self._snapshots.stop()
                self._number += 1
                with _writing(self.directory):
                    self._write_state(self._number, self._last_state())
                    self._install_state(self._number)
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
        self._snapshots.stop()
        for file in (self._file, self._mark, self._lock):
            if file >= 0:
                self._files.close(file)
        self._file = self._mark = self._lock = -1

    # --- files ---------------------------------------------------------------------------------

    def _begin_journal(self, previous_bytes: int | None) -> None:
        """Begin a new journal, which appears atomically with its first record. It continues the
        journal before it, or (None) a state that is still to be installed."""
        assert self._broker is not None
        files, owner = self._files, JournalOwner(self._broker.name, self._number, previous_bytes)
        head = title(JOURNAL) + record(_encode(owner))
        new = self.directory / f"{JOURNAL}{NEW}"
        file = files.create(new)
        try:
            files.append(file, head)
            if self.synced or previous_bytes is None:  # a torn one with no state is a riddle
                files.sync(file)
            files.rename(new, journal_path(self.directory, self._number))
            if self.synced:
                files.sync_path(self.directory)
        except OSError:
            files.close(file)
            raise
        if self._file >= 0:
            files.close(self._file)
        self._file, self.journal_bytes = file, len(head)

    def _open_mark(self) -> None:
        files = self._files
        self._mark = files.open(self.directory / WRITTEN)
        files.truncate(self._mark, 0)
        files.overwrite(self._mark, written_mark(self._number, self.journal_bytes))
        files.sync(self._mark)
        files.sync_path(self.directory)

    def _write_state(self, journal: int, state: bytes) -> None:
        """Write a state beside the one in force. The journal that it names is on the disk
        before."""
        path = journal_path(self.directory, journal)
        if self._files.exists(path):  # not after a clean stop
            self._files.sync_path(path)
            self._files.sync_path(self.directory)
        write_synced(self._files, self._new_state_path(journal), state)

    def _install_state(self, journal: int) -> None:
        """Put a state that was written in force, and remove what it replaces."""
        files, directory = self._files, self.directory
        files.rename(self._new_state_path(journal), directory / STATE)
        files.sync_path(directory)
        self.snapshot_bytes = files.size(directory / STATE)
        for number in journal_numbers(files, directory):
            if number < journal:
                files.remove(journal_path(directory, number))
        self._remove_unfinished()

    def _remove_unfinished(self) -> None:
        """Remove states that were written, or begun, and not put in force."""
        for name in self._files.names(self.directory):
            if name.startswith(STATE) and name.endswith(NEW):
                self._files.remove(self.directory / name)

    def _new_state_path(self, journal: int) -> Path:
        """Where a state is written; no other process writes one of this number."""
        return self.directory / f"{STATE}-{journal:08}{NEW}"


@contextmanager
def _writing(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(directory, f"cannot be written to: {error.strerror}") from error
