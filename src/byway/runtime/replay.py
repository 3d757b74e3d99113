"""From files back to a broker: the last snapshot, and every input since handed in again.

It decides whether what was found is the last state or an older one: the end of a journal may be
missing after a loss of power, and another version of the program may draw other conclusions from
the same inputs. Then the broker comes back under a new incarnation. It writes nothing.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Final

import msgspec

from byway._version import __version__
from byway.core.broker import Broker
from byway.core.config import BrokerConfig
from byway.core.stand_ins import stand_ins
from byway.model.errors import SnapshotError, StorageError
from byway.runtime.driver import now_us
from byway.runtime.records import (
    DamagedError,
    TornError,
    decode_as,
    decode_inputs,
    read_records,
)
from byway.runtime.settings import Neighbour
from byway.trace import TraceBuffer

STATE: Final = "state"
JOURNAL: Final = "journal"
PRESERVING: Final = ("incremental", "selective")
"""Policies that know what to do with preserved subscriptions."""
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class State(msgspec.Struct, array_like=True):
    """What the state file holds."""

    id: str
    journal: int
    """Number of the journal that goes on from here."""
    starts: int
    """How often a broker has begun here."""
    version: str
    """Of the program. Another one may draw other conclusions from the same inputs."""
    boot: str
    """Names the machine's present run; empty if that cannot be told."""
    complete: bool
    """No journal follows: the broker stopped cleanly."""
    synced: bool
    """What was kept survives a loss of power."""
    neighbours: list[Neighbour]
    """Those that were listed."""
    config: BrokerConfig
    """What inputs must be replayed with."""
    up: list[str]
    """Links that were up."""
    attached: list[str]
    """Clients that were here."""
    stale: bool
    """The snapshot is older than what clients were told, and the broker has not begun yet."""
    broker: bytes


class Owner(msgspec.Struct, array_like=True):
    """The first record of a journal: whose it is."""

    id: str
    number: int


_decode_state: Final = msgspec.msgpack.Decoder(State)
_decode_owner: Final = msgspec.msgpack.Decoder(Owner)


def journal_path(directory: Path, number: int) -> Path:
    """Where a journal lies."""
    return directory / f"{JOURNAL}-{number:08}"


def journal_numbers(directory: Path) -> list[int]:
    """Numbers of the journals that are there."""
    names = (path.name.removeprefix(f"{JOURNAL}-") for path in directory.iterdir())
    return sorted(int(name) for name in names if name.isdecimal())


def read_state(directory: Path) -> State | None:
    """The state that was kept, if any. Raises `StorageError`."""
    path = directory / STATE
    if not path.exists():
        if journal_numbers(directory):
            raise StorageError(path, "is missing, but there are journals that go on from it")
        return None
    found = [decode_as(path, _decode_state, payload) for payload in read_records(path, STATE)]
    if len(found) != 1:
        raise StorageError(path, f"holds {len(found)} records, expected 1")
    state: State = found[0]
    return state


class Replay:
    """The way back of one broker."""

    def __init__(self, directory: Path, state: State) -> None:
        self.directory = directory
        self.state = state
        self.story = "it goes on where it stopped"
        """How the broker came to its state."""
        self._inputs = 0

    def broker(self, config: BrokerConfig, trace: TraceBuffer | None) -> Broker:
        """The broker that was kept, with a configuration that may be new. Raises `StorageError`."""
        state = self.state
        if state.complete:
            broker = self._restored(state.broker, state.stale, config, None, trace)
            self._check_covering(config, broker)
            return broker
        began = monotonic()
        broker = self._as_it_was()
        exact = self._replay(broker)
        self._check_covering(config, broker)
        incarnation = None if exact else max(now_us(), broker.context.incarnation + 1)
        spent = f"replayed in {monotonic() - began:.2f} s"
        self.story = f"it goes on after {self._inputs} inputs, {spent}"
        if not exact:
            self.story += "; that may not be the last state: tables are compared with neighbours'"
        stale = broker.clients.stale
        return self._restored(broker.snapshot(), stale, config, incarnation, trace)

    def _check_covering(self, config: BrokerConfig, broker: Broker) -> None:
        """Whether what one policy sent and quenched is right under another, too."""
        before, after = self.state.config.covering, config.covering
        if before in ("none", after):
            return
        preserved, mergers = map(len, stand_ins(broker))
        why, advice = "", "keep the setting, or begin in another directory"
        if before == "lazy" or after == "none":
            pass  # what is covered would never be withdrawn, or what was quenched never sent
        elif preserved and after not in PRESERVING:
            why = f" while {preserved} subscriptions are preserved"
            advice = f"let it retire them first, {advice}"
        elif mergers:
            why = f" while {mergers} mergers stand for others"
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
            broker = Broker.restore(data, config, incarnation, trace)
        except SnapshotError as error:
            raise StorageError(self.directory / STATE, error.reason) from error
        broker.clients.stale |= stale
        return broker

    def _as_it_was(self) -> Broker:
        """The broker of the snapshot, its links up and its clients here as they were."""
        state = self.state
        broker = self._restored(state.broker, state.stale, state.config)
        for link in state.up:
            broker.context.ends[link].up = True
        for client in state.attached:
            broker.clients.all[client].attached = True
        return broker

    def _replay(self, broker: Broker) -> bool:
        """Hand in what was kept; whether that gives the last state.

        Without a sync at every write the machine's own restart may have lost the end of it, and
        anything after a gap is worth nothing.
        """
        state = self.state
        whole = state.synced or (state.boot != "" and state.boot == boot_id())
        numbers = [n for n in journal_numbers(self.directory) if n >= state.journal]
        try:
            for expected, number in enumerate(numbers, state.journal):
                if number != expected:
                    raise DamagedError(journal_path(self.directory, expected), "is missing")
                self._replay_journal(number, broker)
        except TornError as error:
            if whole and error.path != str(journal_path(self.directory, numbers[-1])):
                raise
            return False
        except DamagedError:
            if whole:
                raise
            return False
        return whole and state.version == __version__

    def _replay_journal(self, number: int, broker: Broker) -> None:
        path = journal_path(self.directory, number)
        owner = Owner(self.state.id, number)
        for count, payload in enumerate(read_records(path, JOURNAL)):
            if count:
                self._replay_record(path, count, payload, broker)
                continue
            found = decode_as(path, _decode_owner, payload)
            if found != owner:
                raise StorageError(path, f"is journal {found.number} of {found.id!r}")

    def _replay_record(self, path: Path, count: int, payload: bytes, broker: Broker) -> None:
        try:
            at_us, inputs = decode_inputs(payload)
            broker.handle_batch(at_us, inputs)
        except Exception as error:
            raise StorageError(path, f"record {count} cannot be replayed: {error!r}") from error
        self._inputs += len(inputs)


def boot_id() -> str:
    """Names the run of this machine since it was last switched on, where the system tells."""
    with suppress(OSError):
        return _BOOT_ID.read_text().strip()
    return ""
