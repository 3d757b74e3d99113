"""From files back to a broker: the last snapshot, and every input since handed in again.

It decides whether what was found is the last state or an older one: the end of a journal may be
missing after a loss of power, and another version of the program may draw other conclusions from
the same inputs. Then the broker comes back under a new incarnation. What raises is left out, and
told. It writes nothing.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Final

import msgspec

from byway._version import __version__
from byway.clock import now_us
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.placeholders import placeholders
from byway.model.errors import SnapshotError, StorageError
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
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class Replay:
    """The way back of one broker."""

    def __init__(self, directory: Path, state: State, may_be_stale: bool = False) -> None:
        self.directory = directory
        self._may_be_stale = may_be_stale
        self.state = state
        self.story = "it goes on where it stopped"
        """How the broker came to its state."""
        self.set_aside: list[SetAsideInput] = []
        """Inputs that raise, or cannot be read; they are left out."""
        self._inputs = 0
        self._early = False
        """Whether anything followed one of them."""

    def broker(self, config: BrokerConfig, trace: TraceBuffer | None) -> Broker:
        """The broker that was kept, with a configuration that may be new. Raises `StorageError`."""
        state = self.state
        if state.complete:
            check_nothing_follows(self.directory, state)
            broker = self._restored(state.broker, state.stale, config, None, trace)
            self._check_covering(config, broker)
            return broker
        self._check_version()
        began = monotonic()
        handing_in = Rebuild(self._as_it_was)
        exact = self._replay(handing_in)
        broker, self._inputs = handing_in.broker, handing_in.inputs
        self._check_covering(config, broker)
        incarnation = None if exact else max(now_us(), broker.incarnation + 1)
        spent = f"replayed in {monotonic() - began:.2f} s"
        self.story = f"it goes on after {self._inputs} inputs, {spent}"
        if self.set_aside:
            self.story += f"; {len(self.set_aside)} inputs were set aside"
        if not exact:
            self.story += "; that may not be the last state: tables are compared with neighbours'"
        stale = broker.sessions_stale
        return self._restored(broker.snapshot(), stale, config, incarnation, trace)

    def as_it_is(self) -> Broker:
        """The broker after everything that was kept, its links up and its clients here as they are.
        Raises `StorageError`, also if an input raises."""
        handing_in = Rebuild(self._as_it_was)
        self._replay_all(handing_in)
        for entry in self.set_aside:
            raise StorageError(self.directory, f"cannot be replayed: {entry.words}")
        return handing_in.broker

    def _check_version(self) -> None:
        version = self.state.version
        if version != __version__ and not self._may_be_stale:
            raise StorageError(
                self.directory / STATE,
                f"was left by byway {version} without a clean stop, and this is byway "
                f"{__version__}, which may draw other conclusions from the journal: start byway "
                f"{version} and stop it cleanly; or give --stale, and it is replayed as far as it "
                "goes, under a new incarnation: clients begin anew",
            )

    def _check_covering(self, config: BrokerConfig, broker: Broker) -> None:
        """Whether what one policy sent and quenched is right under another, too."""
        before, after = self.state.config.covering, config.covering
        if before in ("none", after):
            return
        preserved, merged = map(len, placeholders(broker))
        why, advice = "", "keep the setting, or begin in another directory"
        if before == "lazy" or after == "none":
            pass  # what is covered would never be withdrawn, or what was quenched never sent
        elif preserved and after not in PRESERVING:
            why = f" while {preserved} subscriptions are preserved"
            advice = f"let it retire them first, {advice}"
        elif merged:
            why = f" while it has {merged} merged placeholders"
        else:
            return
        reason = f"was made with covering = {before!r} and cannot go on with {after!r}{why}"
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
        """The broker of the snapshot."""
        state = self.state
        try:
            return broker_from(state.broker, state.config, state.stale, state.up, state.attached)
        except SnapshotError as error:
            raise StorageError(self.directory / STATE, error.reason) from error

    def _replay(self, handing_in: Rebuild) -> bool:
        """Hand in what was kept; whether that gives the last state.

        Without a sync at every write the machine's own restart may have lost the end of it, and
        anything after a gap is worth nothing.
        """
        state = self.state
        whole = state.synced or (state.boot != "" and state.boot == boot_id())
        try:
            all_there = self._replay_all(handing_in)
        except DamagedError:
            if whole and not self._may_be_stale:
                raise
            return False
        return whole and all_there and not self._early and state.version == __version__

    def _replay_all(self, handing_in: Rebuild) -> bool:
        """Hand in the journals; whether they hold everything that anything followed from."""
        state, directory = self.state, self.directory
        numbers = [n for n in journal_numbers(directory) if n >= state.journal]
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
                    check_nothing_follows(directory, msgspec.structs.replace(state, journal=number))
                    break  # of a start that came to nothing
                self._check_order(last, journal, torn)
            torn = self._replay_journal(journal, handing_in)
            last = journal
        assert last is not None
        return self._is_all(last, torn)

    def _opened(self, number: int) -> Journal:
        return Journal(self.directory, self.state.id, number)

    def _check_order(self, before: Journal, after: Journal, torn: bool) -> None:
        """A journal that another one goes on from is whole."""
        expected, found = after.owner.previous_bytes, before.file.whole_bytes
        if torn or expected not in (None, found):
            reason = f"is sound up to byte {found} only, and {after.path.name} goes on from "
            raise DamagedError(before.path, f"{reason}byte {expected}" if expected else reason)

    def _is_all(self, last: Journal, torn: bool) -> bool:
        mark = read_mark(self.directory)
        if mark is None:
            return not torn
        if mark.journal > last.number:
            raise DamagedError(journal_path(self.directory, mark.journal), "is missing")
        return mark.journal < last.number or mark.length <= last.file.whole_bytes

    def _replay_journal(self, journal: Journal, handing_in: Rebuild) -> bool:
        """Hand in a journal; whether it ends within a record."""
        try:
            for payload in journal.file:
                # nobody was told of what raised, but of what came after it
                self._early |= bool(self.set_aside)
                self.set_aside += handing_in.hand_in(payload)
        except TornError:
            return True
        return False


def boot_id() -> str:
    """Names the run of this machine since it was last switched on, where the system tells."""
    with suppress(OSError):
        return _BOOT_ID.read_text().strip()
    return ""
