"""The operations that storage needs of a file system, and those of the operating system.

Storage reaches files through `FileSystem` alone, so that the simulator can hand in one that
tears writes, forgets what was not synced, fails and fills up. This module knows nothing of what is
in the files.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_HOLDER_BYTES_MAX: Final = 32
_sync_data: Final = getattr(os, "fdatasync", os.fsync)


class FileSystem(Protocol):
    """A file system. Every operation may raise `OSError`.

    What was written survives the end of the process. It survives a loss of power once it was
    synced: the content of a file by `sync`, its name by `sync_path` of its directory.
    """

    def make_directory(self, path: Path) -> None:
        """Create a directory and its parents, unless it is there; a new one is synced."""

    def lock(self, path: Path) -> int:
        """Open and lock a file until it is closed or the process ends. Raises `BlockingIOError`
        with the holder as its text if another process has locked it."""

    def create(self, path: Path) -> int:
        """Open an empty file to append to, in place of one that is there."""

    def open(self, path: Path) -> int:
        """Open a file to overwrite; it is created if it is not there."""

    def append(self, file: int, data: bytes) -> None:
        """Write at the end of a file. If that fails, a part may be written."""

    def overwrite(self, file: int, data: bytes) -> None:
        """Write at the beginning of a file; `data` is shorter than a sector, and so whole."""

    def truncate(self, file: int, length: int) -> None:
        """Cut a file off at this length."""

    def sync(self, file: int) -> None:
        """Return when the content of a file is on the disk."""

    def close(self, file: int) -> None:
        """Close a file, and unlock it."""

    def sync_path(self, path: Path) -> None:
        """Return when the content of a file, or the names in a directory, are on the disk."""

    def read(self, path: Path) -> bytes:
        """The content of a file."""

    def size(self, path: Path) -> int:
        """The length of a file."""

    def exists(self, path: Path) -> bool:
        """Whether there is a file or directory of this name."""

    def names(self, directory: Path) -> list[str]:
        """The names in a directory, sorted."""

    def rename(self, path: Path, new: Path) -> None:
        """Give a file another name in the same directory, in place of a file of that name."""

    def remove(self, path: Path) -> None:
        """Remove a file."""

    def boot_id(self) -> str:
        """The id of the machine's present boot, which changes when power is lost; empty if it is
        not known."""


class OsFileSystem:
    """The file system of the operating system; only the owner can read what it creates."""

    def make_directory(self, path: Path) -> None:
        """Create a directory and its parents, unless it is there; a new one is synced."""
        missing = []
        while not path.is_dir():
            missing.append(path)
            path = path.parent
        for new in reversed(missing):
            new.mkdir(exist_ok=True)
            self.sync_path(new.parent)

    def lock(self, path: Path) -> int:
        """Lock a file, and write the id of this process to it."""
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.read(file, _HOLDER_BYTES_MAX).decode(errors="replace") or "unknown"
            os.close(file)
            raise BlockingIOError(error.errno, holder) from error
        os.ftruncate(file, 0)
        os.write(file, str(os.getpid()).encode())
        return file

    def create(self, path: Path) -> int:
        """Open an empty file to append to, in place of one that is there."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)

    def open(self, path: Path) -> int:
        """Open a file to overwrite; it is created if it is not there."""
        return os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)

    def append(self, file: int, data: bytes) -> None:
        """Write at the end of a file. If that fails, a part may be written."""
        written = os.write(file, data)
        while written < len(data):
            written += os.write(file, data[written:])

    def overwrite(self, file: int, data: bytes) -> None:
        """Write at the beginning of a file."""
        os.pwrite(file, data, 0)

    def truncate(self, file: int, length: int) -> None:
        """Cut a file off at this length."""
        os.ftruncate(file, length)

    def sync(self, file: int) -> None:
        """Return when the content of a file is on the disk."""
        _sync_data(file)

    def close(self, file: int) -> None:
        """Close a file, and unlock it."""
        os.close(file)

    def sync_path(self, path: Path) -> None:
        """Return when the content of a file, or the names in a directory, are on the disk."""
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)

    def read(self, path: Path) -> bytes:
        """The content of a file."""
        return path.read_bytes()

    def size(self, path: Path) -> int:
        """The length of a file."""
        return path.stat().st_size

    def exists(self, path: Path) -> bool:
        """Whether there is a file or directory of this name."""
        return path.exists()

    def names(self, directory: Path) -> list[str]:
        """The names in a directory, sorted."""
        return sorted(path.name for path in directory.iterdir())

    def rename(self, path: Path, new: Path) -> None:
        """Give a file another name in the same directory, in place of a file of that name."""
        path.replace(new)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        path.unlink()

    def boot_id(self) -> str:
        """The id of the machine's present boot, empty where the system has none."""
        with suppress(OSError):
            return _BOOT_ID.read_text().strip()
        return ""


OS_FILES: Final = OsFileSystem()
"""The file system of this machine."""


def write_synced(files: FileSystem, path: Path, data: bytes) -> None:
    """Write a file, and return when its content is on the disk; its name may not be yet."""
    file = files.create(path)
    try:
        files.append(file, data)
        files.sync(file)
    finally:
        files.close(file)
