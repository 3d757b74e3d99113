"""The file of the restart marker, by which a broker without its state knows that it ran before.

It holds the broker's id, the names of its neighbours, which of them were listed, where those that
were learnt while it ran can be dialled, who is a neighbour no more, and who was added. This module
decides what the file says and which names count; when it is written is the driver's business, and
the broker's own state is in `storage`.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Final

import msgspec

from byway.model.addresses import Listing, Neighbour
from byway.model.errors import StorageError
from byway.storage.file_system import OS_FILES, FileSystem, write_synced

FILE: Final = "neighbours.json"
FORMAT: Final = 2
"""Format 1 had neither `learnt` nor `former` nor `added`."""
FORMAT_WITH_SUCCESSORS: Final = 3
"""Of a file that has `successors`. One that has none is written as before, for earlier versions."""
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
    learnt: dict[str, str] = {}
    """By neighbour that was decided on while the broker ran, the address that it said."""
    former: dict[str, str] = {}
    """By broker that was a neighbour and may not become one again before an operator says so, the
    reason."""
    added: tuple[Neighbour, ...] = ()
    """Neighbours in the settings that an operator has added and that were not linked since."""
    successors: dict[str, str] = {}
    """By former neighbour whose place another broker has taken, that one."""
    checksum: str = ""
    """Digest of all other fields."""


class MarkerFile:
    """The marker file of one broker. Raises `StorageError` if it cannot be read or written."""

    def __init__(self, directory: str | Path, id: str, files: FileSystem = OS_FILES) -> None:
        self.path = Path(directory) / FILE
        self.id = id
        self._files = files
        self.found = self._read()
        """The contents when the process started; None: there was no file."""

    def __repr__(self) -> str:
        return f"<MarkerFile {self.path} of {self.id}, was here: {self.was_here}>"

    @property
    def was_here(self) -> bool:
        """Whether the broker ran before this start."""
        return self.found is not None

    def names(self, listed: tuple[Neighbour, ...]) -> list[str]:
        """The neighbours of the previous run, without those that were removed from the list of
        neighbours since."""
        if self.found is None:
            return []
        _, removed = Listing(self.found.listed).followed_by(listed)
        return [name for name in self.found.neighbours if name not in removed]

    @property
    def learnt(self) -> dict[str, str]:
        """Addresses of neighbours that were decided on in the previous run."""
        return {} if self.found is None else self.found.learnt

    def former(self, listed: tuple[Neighbour, ...]) -> dict[str, str]:
        """Former neighbours of the previous run with the reasons, without those that were added to
        the list of neighbours since."""
        if self.found is None:
            return {}
        listing, _ = Listing(self.found.listed).followed_by(listed)
        added = {neighbour.id for neighbour in listing.added}
        return {name: why for name, why in self.found.former.items() if name not in added}

    @property
    def successors(self) -> dict[str, str]:
        """By former neighbour of the previous run whose place another broker has taken, that
        one."""
        return {} if self.found is None else self.found.successors

    @property
    def listing(self) -> Listing | None:
        """The neighbours that the settings listed in the previous run; None: there was none."""
        return None if self.found is None else Listing(self.found.listed, self.found.added)

    def _read(self) -> MarkedRestart | None:
        files, path = self._files, self.path
        try:
            if files.size(path) > FILE_BYTES_MAX:
                raise StorageError(path, f"is longer than {FILE_BYTES_MAX} bytes")
            data = files.read(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StorageError(path, f"cannot be read: {error.strerror}") from error
        advice = "move it away only if no neighbour can hold anything from this broker"
        try:
            found = msgspec.json.decode(data, type=MarkedRestart)
        except msgspec.DecodeError as error:
            raise StorageError(path, f"is damaged: {error}; {advice}") from error
        if not 1 <= found.format <= FORMAT_WITH_SUCCESSORS:
            raise StorageError(
                path, f"has format {found.format}, expected 1 to {FORMAT_WITH_SUCCESSORS}"
            )
        if found.checksum != _checksum(found):
            raise StorageError(path, f"is damaged: its checksum is wrong; {advice}")
        if found.id != self.id:
            raise StorageError(path, f"belongs to broker {found.id!r}, not to {self.id!r}")
        return found

    def write(
        self,
        neighbours: tuple[str, ...],
        listed: tuple[Neighbour, ...],
        learnt: dict[str, str] | None = None,
        former: dict[str, str] | None = None,
        added: tuple[Neighbour, ...] = (),
        successors: dict[str, str] | None = None,
    ) -> None:
        """Replace the file atomically, and sync it to the disk."""
        format = FORMAT_WITH_SUCCESSORS if successors else FORMAT
        contents = MarkedRestart(
            format, self.id, neighbours, listed, learnt or {}, former or {}, added, successors or {}
        )
        whole = msgspec.structs.replace(contents, checksum=_checksum(contents))
        files, new = self._files, self.path.with_suffix(".new")
        try:
            files.make_directory(self.path.parent)
            write_synced(files, new, msgspec.json.encode(whole) + b"\n")
            files.rename(new, self.path)
            files.sync_path(self.path.parent)
        except OSError as error:
            raise StorageError(self.path, f"cannot be written: {error.strerror}") from error

    def remove(self) -> None:
        """Remove the file: the next start is the broker's first one."""
        try:
            if self._files.exists(self.path):
                self._files.remove(self.path)
            self._files.sync_path(self.path.parent)
        except OSError as error:
            raise StorageError(self.path, f"cannot be removed: {error.strerror}") from error


def _checksum(contents: MarkedRestart) -> str:
    bare = msgspec.structs.asdict(msgspec.structs.replace(contents, checksum=""))
    if contents.format == 1:
        del bare["learnt"], bare["former"], bare["added"]
    if contents.format < FORMAT_WITH_SUCCESSORS:
        del bare["successors"]
    return blake2b(msgspec.json.encode(bare), digest_size=16).hexdigest()
