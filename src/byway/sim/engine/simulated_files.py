"""A file system in memory that does to files what a crash, a loss of power and a bad disk do.

It knows what was synced and what was not. A crash ends the process that uses it: the last write
may be torn. A loss of power also takes away what was not synced, contents and names, each as chance
decides. Operations fail and the disk is full when a test or a scenario says so. It does not know
what is in the files.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

_Change = Callable[[bytearray], object]


class SimulatedCrashError(BaseException):
    """The process that uses the file system has ended within an operation. Nothing but the one
    who restarts it should catch this."""


class _File:
    """The contents of one file, as a process reads it and as the disk has it."""

    def __init__(self) -> None:
        self.content = bytearray()
        self.on_disk = bytearray()
        self.unsynced: list[_Change] = []
        """Changes of the content since it was synced, in order."""

    def change(self, change: _Change) -> None:
        change(self.content)
        self.unsynced.append(change)

    def sync(self) -> None:
        for change in self.unsynced:
            change(self.on_disk)
        self.unsynced = []

    def lose_power(self, rng: Random) -> None:
        """Keep the first unsynced changes, as many as chance decides, and perhaps a part of the
        next one: its first bytes, or zeros in their place."""
        kept = rng.randint(0, len(self.unsynced))
        lost = self.unsynced[kept:]
        self.unsynced = self.unsynced[:kept]
        self.sync()
        for change in lost[:1]:
            length, torn = len(self.on_disk), self.on_disk.copy()
            change(torn)
            if len(torn) > length and torn.startswith(self.on_disk):
                tail = torn[length : rng.randint(length, len(torn))]
                self.on_disk += tail if rng.random() < 0.7 else bytes(len(tail))
        self.content = self.on_disk.copy()


class _Directory:
    """The names in one directory, as a process reads them and as the disk has them."""

    def __init__(self) -> None:
        self.names: dict[str, _File] = {}
        self.on_disk: dict[str, _File] = {}
        self.unsynced: list[dict[str, _File | None]] = []
        """Changes since the directory was synced, each of the names it concerns; None: removed."""

    def change(self, names: dict[str, _File | None]) -> None:
        _apply(self.names, names)
        self.unsynced.append(names)

    def sync(self) -> None:
        self.on_disk, self.unsynced = dict(self.names), []

    def lose_power(self, rng: Random) -> None:
        """Keep the unsynced changes that chance decides, each whole."""
        names = self.on_disk
        for change in self.unsynced:
            if rng.random() < 0.5:
                _apply(names, change)
        self.names = names
        self.sync()


def _apply(names: dict[str, _File], change: dict[str, _File | None]) -> None:
    for name, file in change.items():
        if file is None:
            names.pop(name, None)
        else:
            names[name] = file


class SimulatedFileSystem:
    """The file system of one simulated machine. `byway.storage.file_system.FileSystem` says what
    its operations do; `rng` decides what a crash leaves."""

    def __init__(self, rng: Random, capacity_bytes: int | None = None) -> None:
        self.capacity_bytes = capacity_bytes
        """The bytes that files may have together; None: any number. Lower it to fill the disk."""
        self.operations = 0
        """Number of operations so far that change something or sync it."""
        self.crash_at: int | None = None
        """The number of the operation within which the process ends."""
        self.failing: dict[str, int] = {}
        """By name of an operation, the `errno` that it fails with until it is removed here."""
        self._rng = rng
        self._boots = 1
        self._crashed = False
        self._directories: dict[Path, _Directory] = {}
        self._open: dict[int, _File] = {}
        self._locks: dict[Path, int] = {}
        self._last_handle = 0

    def __repr__(self) -> str:
        files = sum(len(directory.names) for directory in self._directories.values())
        return f"<SimulatedFileSystem boot {self._boots}: {files} files, {self.used_bytes} bytes>"

    @property
    def used_bytes(self) -> int:
        """The bytes in all files."""
        files = (f for directory in self._directories.values() for f in directory.names.values())
        return sum(len(file.content) for file in files)

    # --- faults --------------------------------------------------------------------------------

    def crash(self, *, power: bool = False) -> None:
        """The process that uses the file system has ended; with `power`, because the machine has.
        The next one may begin."""
        self._open.clear()
        self._locks.clear()
        self._crashed, self.crash_at = False, None
        if not power:
            return
        self._boots += 1
        files = {id(f): f for d in self._directories.values() for f in d.names.values()}
        for directory in self._directories.values():
            files |= {id(file): file for file in directory.on_disk.values()}
            directory.lose_power(self._rng)
        for file in files.values():
            file.lose_power(self._rng)

    def damage(self, path: Path, change: Callable[[bytes], bytes]) -> None:
        """Change a file on the disk behind everybody's back."""
        file = self._file(path)
        file.content = bytearray(change(bytes(file.content)))
        file.on_disk, file.unsynced = file.content.copy(), []

    def remove_directory(self, path: Path) -> None:
        """Remove a directory and all that is in it, while no process uses it."""
        inner = [known for known in self._directories if path in (known, *known.parents)]
        for directory in inner:
            del self._directories[directory]

    def _begin(self, operation: str) -> bool:
        """Count an operation; whether the process ends within it. Raises `OSError` if it fails."""
        if self._crashed:
            raise SimulatedCrashError(operation)
        if operation in self.failing:
            raise _error(self.failing[operation])
        self.operations += 1
        if self.crash_at is not None and self.operations >= self.crash_at:
            self._crashed = True
        return self._crashed

    def _do(self, operation: str, do: Callable[[], None]) -> None:
        """Do something that happens as a whole, or, if the process ends within it, perhaps not."""
        ends = self._begin(operation)
        if not ends or self._rng.random() < 0.5:
            do()
        if ends:
            raise SimulatedCrashError(operation)

    # --- files ---------------------------------------------------------------------------------

    def make_directory(self, path: Path) -> None:
        """Create a directory and its parents, unless it is there."""
        if path not in self._directories:
            self._do("make_directory", lambda: self._directories.update({path: _Directory()}))

    def lock(self, path: Path) -> int:
        """Open and lock a file until it is closed or the process ends."""
        if path in self._locks:
            raise BlockingIOError(errno.EWOULDBLOCK, "simulated")
        self._locks[path] = file = self.open(path)
        return file

    def create(self, path: Path) -> int:
        """Open an empty file to append to, in place of one that is there."""
        directory, name = self._directory(path), path.name
        if name in directory.names:
            file = directory.names[name]
            self._do("create", lambda: file.change(_truncated(0)))
        else:
            file = _File()
            self._do("create", lambda: directory.change({name: file}))
        return self._handle(file)

    def open(self, path: Path) -> int:
        """Open a file to overwrite; it is created if it is not there."""
        return self._handle(self._file(path)) if self.exists(path) else self.create(path)

    def _handle(self, file: _File) -> int:
        self._last_handle += 1
        self._open[self._last_handle] = file
        return self._last_handle

    def append(self, file: int, data: bytes) -> None:
        """Write at the end of a file. If the disk is full, a part is written; if the process ends
        within it, perhaps a part."""
        target, ends = self._opened(file), self._begin("append")
        room = len(data)
        if self.capacity_bytes is not None:
            room = max(0, min(room, self.capacity_bytes - self.used_bytes))
        written = data[: self._rng.randint(0, room) if ends else room]
        if written:
            target.change(lambda content: content.extend(written))
        if ends:
            raise SimulatedCrashError("append")
        if room < len(data):
            raise _error(errno.ENOSPC)

    def overwrite(self, file: int, data: bytes) -> None:
        """Write at the beginning of a file."""
        target = self._opened(file)
        self._do("overwrite", lambda: target.change(_overwritten(data)))

    def truncate(self, file: int, length: int) -> None:
        """Cut a file off at this length."""
        target = self._opened(file)
        self._do("truncate", lambda: target.change(_truncated(length)))

    def sync(self, file: int) -> None:
        """Return when the content of a file is on the disk."""
        self._do("sync", self._opened(file).sync)

    def close(self, file: int) -> None:
        """Close a file, and unlock it."""
        self._opened(file)
        del self._open[file]
        self._locks = {path: lock for path, lock in self._locks.items() if lock != file}

    def sync_path(self, path: Path) -> None:
        """Return when the content of a file, or the names in a directory, are on the disk."""
        directory = self._directories.get(path)
        self._do("sync_path", self._file(path).sync if directory is None else directory.sync)

    def read(self, path: Path) -> bytes:
        """The content of a file."""
        if "read" in self.failing:
            raise _error(self.failing["read"])
        return bytes(self._file(path).content)

    def size(self, path: Path) -> int:
        """The length of a file."""
        return len(self._file(path).content)

    def exists(self, path: Path) -> bool:
        """Whether there is a file or directory of this name."""
        parent = self._directories.get(path.parent)
        return path in self._directories or (parent is not None and path.name in parent.names)

    def names(self, directory: Path) -> list[str]:
        """The names in a directory, sorted; directories in it too."""
        inner = [path.name for path in self._directories if path.parent == directory]
        return sorted([*self._directory(directory / "any").names, *inner])

    def rename(self, path: Path, new: Path) -> None:
        """Give a file another name in the same directory, in place of a file of that name."""
        directory, file = self._directory(path), self._file(path)
        self._do("rename", lambda: directory.change({path.name: None, new.name: file}))

    def remove(self, path: Path) -> None:
        """Remove a file."""
        self._file(path)
        self._do("remove", lambda: self._directory(path).change({path.name: None}))

    def boot_id(self) -> str:
        """The number of times that the machine has started."""
        return str(self._boots)

    def _directory(self, path: Path) -> _Directory:
        """The directory that a path is in. Raises `FileNotFoundError`."""
        if path.parent not in self._directories:
            raise _error(errno.ENOENT)
        return self._directories[path.parent]

    def _file(self, path: Path) -> _File:
        file = self._directory(path).names.get(path.name)
        if file is None:
            raise _error(errno.ENOENT)
        return file

    def _opened(self, file: int) -> _File:
        if self._crashed:
            raise SimulatedCrashError("the process has ended")
        if file not in self._open:
            raise _error(errno.EBADF)
        return self._open[file]


def _truncated(length: int) -> _Change:
    return lambda content: content.__delitem__(slice(length, None))


def _overwritten(data: bytes) -> _Change:
    return lambda content: content.__setitem__(slice(len(data)), data)


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))
