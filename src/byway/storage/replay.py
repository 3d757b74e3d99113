"""Restores a broker from its files: the last snapshot, and every input of the journals since.

This module decides whether the result is the last state or an older one: the end of a journal may
be missing after a power failure, and another version of the program may conclude differently from
the same inputs. Then the broker gets a new incarnation. Inputs that raise are left out and
reported. It writes no files.
"""

from __future__ import annotations

from pathlib import Path
from time import monotonic
from typing import Final

import msgspec

from byway._version import __version__
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.placeholders import placeholders
from byway.model.errors import SnapshotError, StorageError
from byway.storage.file_system import FileSystem
from byway.storage.rebuilding import Rebuild, broker_from
from byway.storage.record_files import DamagedError, TornError
from byway.storage.set_aside import SetAsideInput
from byway.storage.state_files import (
    STATE,
    Journal,
    State,
    check_nothing_follows,
    journal_numbers,
    journal_path,
    read_mark,
)
from byway.trace import TraceBuffer

PRESERVING: Final = ("incremental", "selective")
"""Policies that know what to do with preserved subscriptions."""


class Replay:
    """The restoration of one broker from its directory."""

    def __init__(
        self, files: FileSystem, directory: Path, state: State, may_be_stale: bool = False
    ) -> None:
        self.directory = directory
        self._files = files
        self._may_be_stale = may_be_stale
        self.state = state
        self.start_summary = "resumed after a clean stop"
        """How the broker came to its state, for the log."""
        self.set_aside: list[SetAsideInput] = []
        """Inputs that raised, or could not be read, and were left out."""
        self._inputs = 0
        self._early = False
        """Whether other inputs followed one of them."""

    def broker(self, now_us: int, config: BrokerConfig, trace: TraceBuffer | None) -> Broker:
        """The broker, with a configuration that may have changed; `now_us` is its incarnation if
        it has to be a new one. Raises `StorageError`."""
        state = self.state
        if state.complete:
            check_nothing_follows(self._files, self.directory, state)
            broker = self._restored(state.broker, state.stale, config, None, trace)
            self._check_covering(config, broker)
            return broker
        self._check_version()
        began = monotonic()
        rebuild = Rebuild(self._as_it_was)
        exact = self._replay(rebuild)
        broker, self._inputs = rebuild.broker, rebuild.inputs
        self._check_covering(config, broker)
        incarnation = None if exact else max(now_us, broker.incarnation + 1)
        spent_s = monotonic() - began
        self.start_summary = f"resumed after replaying {self._inputs} inputs in {spent_s:.2f} s"
        if self.set_aside:
            self.start_summary += f"; {len(self.set_aside)} inputs were set aside"
        if not exact:
            self.start_summary += (
                "; that may not be the last state: tables are compared with neighbours'"
            )
        stale = broker.sessions_stale
        return self._restored(broker.snapshot(), stale, config, incarnation, trace)

    def as_it_is(self) -> Broker:
        """The broker after every input in the journals, with links up and clients attached as they
        are now. Raises `StorageError`, also if an input raises."""
        rebuild = Rebuild(self._as_it_was)
        self._replay_all(rebuild)
        for entry in self.set_aside:
            raise StorageError(self.directory, f"cannot be replayed: {entry.words}")
        return rebuild.broker

    def _check_version(self) -> None:
        version = self.state.version
        if version != __version__ and not self._may_be_stale:
            raise StorageError(
                self.directory / STATE,
                f"was left by byway {version} without a clean stop, and this is byway "
                f"{__version__}, which may conclude differently from the journal: start byway "
                f"{version} and stop it cleanly; or give --stale, and it is replayed as far as "
                "possible, under a new incarnation: clients start new sessions",
            )

    def _check_covering(self, config: BrokerConfig, broker: Broker) -> None:
        """Refuse a change of the covering policy after which forwarded entries would be wrong.
        Raises `StorageError`."""
        before, after = self.state.config.covering, config.covering
        if before in ("none", after):
            return
        preserved, merged = map(len, placeholders(broker))
        why, advice = "", "keep the setting, or start in another directory"
        if before == "lazy" or after == "none":
            pass  # what is covered would never be withdrawn, or what was quenched never sent
        elif preserved and after not in PRESERVING:
            why = f" while {preserved} subscriptions are preserved"
            advice = f"let it retire them first, {advice}"
        elif merged:
            why = f" while it has {merged} merged placeholders"
        else:
            return
        reason = f"was made with covering = {before!r} and cannot be used with {after!r}{why}"
        raise StorageError(self.directory / STATE, f"{reason}: {advice}")

    def _restored(
        self,
        data: bytes,
        stale: bool,
        config: BrokerConfig,
        incarnation: int | None = None,
        trace: TraceBuffer | None = None,
    ) -> Broker:
        try:
            return Broker.restore(data, config, incarnation, trace, stale=stale)
        except SnapshotError as error:
            raise StorageError(self.directory / STATE, error.reason) from error

    def _as_it_was(self) -> Broker:
        """The broker of the snapshot, as it was when that was taken. Raises `StorageError`."""
        state = self.state
        try:
            return broker_from(state.broker, state.config, state.stale, state.up, state.attached)
        except SnapshotError as error:
            raise StorageError(self.directory / STATE, error.reason) from error

    def _replay(self, rebuild: Rebuild) -> bool:
        """Replay the journals; whether that gives the last state.

        Without a sync at every write, a reboot of the machine may have lost the end of a journal,
        and inputs after a gap cannot be used.
        """
        state = self.state
        whole = state.synced or (state.boot != "" and state.boot == self._files.boot_id())
        try:
            all_there = self._replay_all(rebuild)
        except DamagedError:
            if whole and not self._may_be_stale:
                raise
            return False
        return whole and all_there and not self._early and state.version == __version__

    def _replay_all(self, rebuild: Rebuild) -> bool:
        """Replay the journals; whether they hold every input that had an effect."""
        state, files, directory = self.state, self._files, self.directory
        numbers = [n for n in journal_numbers(files, directory) if n >= state.journal]
        if not numbers or numbers[0] != state.journal:
            lost = journal_path(directory, state.journal)
            kind = DamagedError if self._may_be_stale else StorageError
            raise kind(lost, "is missing")
        last: Journal | None = None
        torn = False
        for expected, number in enumerate(numbers, state.journal):
            if number != expected:
                break
            journal = self._opened(number)
            if last is not None:
                if journal.begins:
                    started = msgspec.structs.replace(state, journal=number)
                    check_nothing_follows(files, directory, started)
                    break  # of a start that did not complete
                self._check_order(last, journal, torn)
            torn = self._replay_journal(journal, rebuild)
            last = journal
        assert last is not None
        return self._is_all(last, torn)

    def _opened(self, number: int) -> Journal:
        return Journal(self._files, self.directory, self.state.id, number)

    def _check_order(self, before: Journal, after: Journal, torn: bool) -> None:
        """Check that a journal which another one continues is complete. Raises `DamagedError`."""
        expected, found = after.owner.previous_bytes, before.file.whole_bytes
        if torn or expected not in (None, found):
            where = f" at byte {expected}" if expected else ""
            reason = f"is sound up to byte {found} only, and {after.path.name} continues it{where}"
            raise DamagedError(before.path, reason)

    def _is_all(self, last: Journal, torn: bool) -> bool:
        mark = read_mark(self._files, self.directory)
        if mark is None:
            return not torn
        if mark.journal > last.number:
            raise DamagedError(journal_path(self.directory, mark.journal), "is missing")
        return mark.journal < last.number or mark.length <= last.file.whole_bytes

    def _replay_journal(self, journal: Journal, rebuild: Rebuild) -> bool:
        """Replay a journal; whether it ends within a record."""
        try:
            for payload in journal.file:
                # an input that raised had no effect, but those after it had
                self._early |= bool(self.set_aside)
                self.set_aside += rebuild.hand_in(payload)
        except TornError:
            return True
        return False
