"""The restart marker: a small file by which a broker without its state knows that it ran before.

It holds the broker's id, the names of its neighbours, and which of them were listed. A broker that
finds it restarts: it waits until each of these has sent its tables, or is forgotten. The file is
written before anything is done about an input that changes the set of neighbours, so that it names
every neighbour that may hold an entry of this broker. This module decides what the file says and
whom to wait for; the broker's own state is in `storage`.
"""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from byway.model.addresses import Neighbour, removed_neighbours
from byway.model.errors import StorageError

if TYPE_CHECKING:
    from byway.runtime.server import BrokerServer

FILE: Final = "neighbours.json"
FORMAT: Final = 1
FILE_BYTES_MAX: Final = 16_777_216
"""A longer file is refused: no broker has so many neighbours."""


class MarkedRestart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of the file."""

    format: int
    id: str
    neighbours: tuple[str, ...]
    """Names of all neighbours, in the order in which they were added."""
    listed: tuple[Neighbour, ...]
    """Neighbours in the settings, each with its name as far as that was known."""
    checksum: str = ""
    """Digest of all other fields."""


class RestartMarker:
    """The marker file of one broker. Raises `StorageError` if it cannot be read or written."""

    def __init__(self, directory: str, id: str) -> None:
        self.path = Path(directory) / FILE
        self.id = id
        self.found = self._read()
        """The contents when the process started; None: there was no file."""
        self._server: BrokerServer | None = None
        self._names: tuple[str, ...] | None = None
        self._listed: tuple[Neighbour, ...] = ()
        self._listed_names: tuple[str, ...] = ()

    def __repr__(self) -> str:
        names = ", ".join(self._names or ()) or "no neighbours"
        return f"<RestartMarker {self.path} of {self.id}: {names}>"

    # --- reading -------------------------------------------------------------------------------

    @property
    def was_here(self) -> bool:
        """Whether the broker ran before this start."""
        return self.found is not None

    def names(self, listed: tuple[Neighbour, ...]) -> list[str]:
        """The neighbours of the previous run, without those that were removed from the list of
        neighbours since."""
        if self.found is None:
            return []
        removed = removed_neighbours(self.found.listed, listed)
        return [name for name in self.found.neighbours if name not in removed]

    def _read(self) -> MarkedRestart | None:
        try:
            if self.path.stat().st_size > FILE_BYTES_MAX:
                raise StorageError(self.path, f"is longer than {FILE_BYTES_MAX} bytes")
            data = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(self.path, f"cannot be read: {error.strerror}") from error
        advice = "move it away only if no neighbour can hold anything from this broker"
        try:
            found = msgspec.json.decode(data, type=MarkedRestart)
        except msgspec.DecodeError as error:
            raise StorageError(self.path, f"is damaged: {error}; {advice}") from error
        if found.format != FORMAT:
            raise StorageError(self.path, f"has format {found.format}, expected {FORMAT}")
        if found.checksum != _checksum(found):
            raise StorageError(self.path, f"is damaged: its checksum is wrong; {advice}")
        if found.id != self.id:
            raise StorageError(self.path, f"belongs to broker {found.id!r}, not to {self.id!r}")
        return found

    # --- writing -------------------------------------------------------------------------------

    def follow(self, server: BrokerServer) -> None:
        """Keep the file up to date with a broker's neighbours from now on."""
        self._server = server
        self.look()
        server.driver.before_acting = self.look

    def look(self) -> None:
        """Write the file if the set of neighbours, or which of them are listed, has changed."""
        server = self._server
        assert server is not None
        names, listed = server.broker.neighbours, server.settings.neighbours
        listed_names = tuple(map(server.acceptance.known_as, listed))
        if (names, listed, listed_names) == (self._names, self._listed, self._listed_names):
            return
        known = map(Neighbour, (n.address for n in listed), listed_names)
        self._write(MarkedRestart(FORMAT, self.id, names, tuple(known)))
        self._names, self._listed, self._listed_names = names, listed, listed_names

    def forget(self) -> None:
        """Remove the file: the broker leaves for good, and its next start is its first one."""
        if self._server is not None:
            self._server.driver.before_acting = None
        try:
            self.path.unlink(missing_ok=True)
            _sync_directory(self.path.parent)
        except OSError as error:
            raise StorageError(self.path, f"cannot be removed: {error.strerror}") from error

    def _write(self, contents: MarkedRestart) -> None:
        """Replace the file atomically, and sync it to the disk."""
        whole = msgspec.structs.replace(contents, checksum=_checksum(contents))
        new = self.path.with_suffix(".new")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with open(new, "wb", opener=_private) as file:
                file.write(msgspec.json.encode(whole) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            new.replace(self.path)
            _sync_directory(self.path.parent)
        except OSError as error:
            raise StorageError(self.path, f"cannot be written: {error.strerror}") from error


def _checksum(contents: MarkedRestart) -> str:
    bare = msgspec.structs.replace(contents, checksum="")
    return blake2b(msgspec.json.encode(bare), digest_size=16).hexdigest()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
