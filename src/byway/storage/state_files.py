"""The files of one broker's directory: their names and contents.

`state` is the last snapshot, `journal-N` the inputs since, `written` how far the journal was
written, and `set-aside/` the inputs that raised. This module decides which of them belong together,
and reads what older versions wrote. It writes no files.

A journal exists, with its first record, before a state names it. So a journal that is missing was
lost, wherever the process ended.
"""

from __future__ import annotations

from pathlib import Path
from struct import Struct
from typing import Any, Final, NamedTuple
from zlib import crc32

import msgspec

from byway.core.broker_config import BrokerConfig
from byway.model.addresses import Neighbour
from byway.model.errors import StorageError
from byway.storage.file_system import OS_FILES, FileSystem
from byway.storage.record_files import RecordFile, TornError, decode_as

STATE: Final = "state"
JOURNAL: Final = "journal"
WRITTEN: Final = "written"
NEW: Final = ".new"
"""The end of the name of a file that is being written."""
_MARK: Final = Struct(">QQ")  # number of a journal, its length
_CHECK: Final = Struct(">I")
_RENAMED: Final[dict[str, str]] = {}
"""Settings of `BrokerConfig` that had another name in an older state."""


class State(msgspec.Struct, array_like=True):
    """The contents of the state file."""

    id: str
    journal: int
    """Number of the journal that continues this state."""
    starts: int
    """Number of starts of a broker in this directory."""
    version: str
    """Version of the program. Another one may conclude differently from the same inputs."""
    boot: str
    """Id of the machine's boot; empty if the system has none."""
    complete: bool
    """Whether the broker stopped cleanly, so that no journal follows."""
    synced: bool
    """Whether inputs were synced at every write, and survive a power failure."""
    neighbours: list[Neighbour]
    """The neighbours that the settings listed; from layout 7 of the broker on, its own listing
    counts, which journals continue."""
    config: BrokerConfig
    """The configuration to replay the inputs with."""
    up: list[str]
    """The links that were up."""
    attached: list[str]
    """The clients that were attached."""
    stale: bool
    """Whether the snapshot is older than what clients were told, and the broker has not started."""
    broker: bytes


class JournalOwner(msgspec.Struct, array_like=True):
    """The first record of a journal: its broker, its number, and what it continues."""

    id: str
    number: int
    previous_bytes: int | None = None
    """Length of the journal before it; None: it continues a state that names it."""


class Mark(NamedTuple):
    """How far the journal was written before the inputs had any effect."""

    journal: int
    length: int


_decode_fields: Final = msgspec.msgpack.Decoder(list[Any])
_decode_owner: Final = msgspec.msgpack.Decoder(JournalOwner)


# --- journals ----------------------------------------------------------------------------------


def journal_path(directory: Path, number: int) -> Path:
    """The path of a journal."""
    return directory / f"{JOURNAL}-{number:08}"


def journal_numbers(files: FileSystem, directory: Path) -> list[int]:
    """Numbers of the journals in a directory, ascending."""
    prefix = f"{JOURNAL}-"
    names = (name for name in files.names(directory) if name.startswith(prefix))
    numbers = (name.removeprefix(prefix) for name in names)
    return sorted(int(number) for number in numbers if number.isdecimal())


def is_data_directory(path: Path) -> bool:
    """Whether a broker of this machine keeps its state in `path`."""
    return path.is_dir() and ((path / STATE).is_file() or bool(journal_numbers(OS_FILES, path)))


class Journal:
    """A journal whose first record was read. Raises `StorageError`."""

    def __init__(self, files: FileSystem, directory: Path, id: str, number: int) -> None:
        self.number = number
        self.path = path = journal_path(directory, number)
        self.file = RecordFile(files, path, JOURNAL)
        payload = next(iter(self.file), None)
        if payload is None:
            raise TornError(path, "does not name its broker: its first record is missing")
        self.owner: JournalOwner = decode_as(path, _decode_owner, payload)
        if (self.owner.id, self.owner.number) != (id, number):
            raise StorageError(path, f"is journal {self.owner.number} of {self.owner.id!r}")

    @property
    def begins(self) -> bool:
        """Whether it continues no journal, and so counts only if a state names it."""
        return self.file.layout > 1 and self.owner.previous_bytes is None

    @property
    def is_empty(self) -> bool:
        """Whether it holds no input, not even a part of one."""
        return next(iter(self.file), None) is None


# --- how far it was written --------------------------------------------------------------------


def written_mark(journal: int, length: int) -> bytes:
    """The contents of `written`: inputs in the first `length` bytes of a journal had effects."""
    mark = _MARK.pack(journal, length)
    return mark + _CHECK.pack(crc32(mark))


def read_mark(files: FileSystem, directory: Path) -> Mark | None:
    """The contents of `written`; None if it is missing or damaged."""
    try:
        data = files.read(directory / WRITTEN)
    except OSError:
        return None
    if len(data) != _MARK.size + _CHECK.size:
        return None
    mark = Mark(*_MARK.unpack_from(data))
    return mark if written_mark(*mark) == data else None


# --- the state ---------------------------------------------------------------------------------


def read_state(files: FileSystem, directory: Path, id: str) -> State | None:
    """The state in a directory; None if no broker has run there. Raises `StorageError`."""
    path = directory / STATE
    if not files.exists(path):
        if files.exists(directory / WRITTEN) or not _has_never_begun(files, directory, id):
            raise StorageError(path, "is missing, though a broker has kept inputs here")
        return None
    found = [_state(path, payload) for payload in RecordFile(files, path, STATE)]
    if len(found) != 1:
        raise StorageError(path, f"holds {len(found)} records, expected 1")
    return found[0]


def _has_never_begun(files: FileSystem, directory: Path, id: str) -> bool:
    """Whether no broker has run here: there is at most the empty journal of a first start that
    ended before its state was written."""
    numbers = journal_numbers(files, directory)
    journals = (Journal(files, directory, id, number) for number in numbers)
    return all(journal.begins and journal.is_empty for journal in journals)


def _state(path: Path, payload: bytes) -> State:
    """The state in a record of this version or an older one, whose settings had other names."""
    fields = decode_as(path, _decode_fields, payload)
    at = State.__struct_fields__.index("config")
    if len(fields) > at and isinstance(fields[at], dict):
        known = BrokerConfig.__struct_fields__
        config = {_RENAMED.get(name, name): value for name, value in fields[at].items()}
        fields[at] = {name: value for name, value in config.items() if name in known}
    try:
        return msgspec.convert(fields, State)
    except msgspec.ValidationError as error:
        raise StorageError(path, f"cannot be understood: {error}") from error


def check_nothing_follows(files: FileSystem, directory: Path, state: State) -> None:
    """Check that no journal continues a later state than this one. Raises `StorageError`."""
    path = directory / STATE
    mark = read_mark(files, directory)
    if mark is not None and mark.journal >= state.journal:
        raise StorageError(path, f"is older than journal {mark.journal}, which was written since")
    for number in journal_numbers(files, directory):
        if number >= state.journal:
            journal = Journal(files, directory, state.id, number)
            if not (journal.begins and journal.is_empty):
                raise StorageError(path, f"is older than {journal.path.name}, which is there")
