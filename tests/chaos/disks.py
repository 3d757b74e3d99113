"""Disks that fill up, and files that end badly.

A disk is a small tmpfs where mounting is allowed; elsewhere a process is forbidden to write files
longer than its journal is, which needs no privileges. Both leave a record that was written in part.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import resource
import subprocess
from pathlib import Path

DISK_BYTES = 64 << 20
LEAST_BYTES = 65_536
"""A limit is at least so high: a process also writes its log."""


class Disk:
    """A small file system of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True)
        options = ["-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(path)]
        subprocess.run(["mount", *options], check=True, capture_output=True, timeout=10)

    def fill(self) -> None:
        """Leave no room."""
        with (self.path / "filler").open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(1 << 16))

    def free(self) -> None:
        """Give the room back."""
        (self.path / "filler").unlink(missing_ok=True)

    def close(self) -> None:
        """Unmount it."""
        subprocess.run(
            ["umount", "-l", str(self.path)], check=False, capture_output=True, timeout=10
        )


def can_mount(path: Path) -> bool:
    """Whether small disks can be had here."""
    try:
        disk = Disk(path)
    except (OSError, subprocess.SubprocessError):
        return False
    disk.close()
    return True


def last_journal(data: Path) -> Path | None:
    """The journal that is written to."""
    return max(data.glob("journal-*"), default=None)


def limit_files(pid: int, data: Path, rng: random.Random) -> None:
    """Let a process write only a few bytes more into its journal."""
    journal = last_journal(data)
    size = journal.stat().st_size if journal else 0
    size = max(size + rng.randint(1, 300), LEAST_BYTES)
    _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, most))


def unlimit_files(pid: int) -> None:
    """Let it write again."""
    with contextlib.suppress(ProcessLookupError):
        _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))


def damage(data: Path, how: str, rng: random.Random) -> str:
    """Damage the end of the last journal; what was done."""
    journal = last_journal(data)
    if journal is None:
        return "no journal to damage"
    size = journal.stat().st_size
    if how == "cut":
        count = rng.randint(1, 7)  # less than any record: it ends within one
        os.truncate(journal, size - count)
        return f"the last {count} bytes of {journal.name} cut off"
    if how == "garbage":
        count = rng.randint(1, 200)
        with journal.open("ab") as file:
            file.write(rng.randbytes(count))
        return f"{count} bytes appended to {journal.name}"
    at = size - rng.randint(1, 16)
    with journal.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ (1 << rng.randrange(8))]))
    return f"a bit of byte {at} of {size} in {journal.name} turned over"


def contents(data: Path) -> dict[str, str]:
    """What a directory holds, the lock apart."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(data.iterdir())
        if path.is_file() and path.name != "lock"
    }
