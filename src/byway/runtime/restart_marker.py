"""The one small file by which a broker without its state knows that it was here before.

It holds the broker's id, the names of its neighbours, and which of them were listed. A broker that
finds it restarts: it waits until each of these has told everything, or is forgotten. The file is
written before anything is done about an input that changes the set of neighbours, so that it names
everybody who may hold something from this broker. It decides what is in the file and who is still
to be waited for; the broker's own state is not its business.
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
"""A longer file is not read: so many names no broker has."""


class MarkedRestart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the file says."""

    format: int
    id: str
    neighbours: tuple[str, ...]
    """Names of all neighbours, in their order."""
    listed: tuple[Neighbour, ...]
    """Neighbours that were listed, each with its name as far as that was known."""
    checksum: str = ""
    """Of all of the above."""


class RestartMarker:
    """The file of one broker. Raises `StorageError` if it cannot be used or written."""

    def __init__(self, directory: str, id: str) -> None:
        self.path = Path(directory) / FILE
        self.id = id
        self.found = self._read()
        """What was there when the process began."""
        self._server: BrokerServer | None = None
        self._names: tuple[str, ...] | None = None
        self._listed: tuple[Neighbour, ...] = ()
        self._listed_names: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Memory {self.path} of {self.id}: {', '.join(self._names or ()) or 'nobody'}>"

    # --- coming back ---------------------------------------------------------------------------

    @property
    def was_here(self) -> bool:
        """Whether the broker ran before."""
        return self.found is not None

    def names(self, listed: tuple[Neighbour, ...]) -> list[str]:
        """Who its neighbours were. One that was listed then and is not any more is left out: an
        operator has taken it off the list."""
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

    # --- keeping -------------------------------------------------------------------------------

    def follow(self, server: BrokerServer) -> None:
        """Keep the names of a broker's neighbours from now on."""
        self._server = server
        self.look()
        server.driver.before_acting = self.look

    def look(self) -> None:
        """Write the file anew if the set of neighbours, or which of them are listed, has
        changed."""
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
        """The broker leaves for good: its next start is its first one."""
        if self._server is not None:
            self._server.driver.before_acting = None
        try:
            self.path.unlink(missing_ok=True)
            _sync_directory(self.path.parent)
        except OSError as error:
            raise StorageError(self.path, f"cannot be removed: {error.strerror}") from error

    def _write(self, remembered: MarkedRestart) -> None:
        """Put it in the place of what was there, all or nothing, on the disk."""
        whole = msgspec.structs.replace(remembered, checksum=_checksum(remembered))
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


def _checksum(remembered: MarkedRestart) -> str:
    bare = msgspec.structs.replace(remembered, checksum="")
    return blake2b(msgspec.json.encode(bare), digest_size=16).hexdigest()


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
