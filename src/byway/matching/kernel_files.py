"""Where compiled kernels are kept between processes: one file, in the first directory that will do.

Directories are tried in this order: `NUMBA_CACHE_DIR`, `__pycache__` beside the sources, `byway` in
the user's cache directory, and a private directory among the temporary files. Kernels are read from
the first that has them, and written to the first that can be written. If there is none, every
process compiles for itself. A file that is damaged is as good as none.
"""

from __future__ import annotations

import logging
import os
import stat
import tempfile
from collections.abc import Iterator
from functools import cache
from hashlib import blake2b
from pathlib import Path
from shutil import rmtree
from typing import Final, NamedTuple

from byway.matching import native

log = logging.getLogger("byway.kernels")

ASKED: Final = "NUMBA_CACHE_DIR"
_BESIDE: Final = Path(native.__file__).parent / "kernels" / "__pycache__"
_PREFIX: Final = "kernels-"
_MAGIC: Final = b"byway kernels 1\n"
_DIGEST_BYTES: Final = 32
_PROBE_BYTES: Final = 4_096  # on a full disk a file can be made, but not written


class CachePlace(NamedTuple):
    """Where compiled kernels can be written."""

    file: Path | None
    """None if there is no directory that can be written."""
    refused: tuple[tuple[Path, str], ...]
    """Directories that would have been preferred, with what is wrong with each."""
    lasts: bool
    """Whether the directory is there to stay."""

    def advice(self) -> tuple[int, str] | None:
        """What the user should know of the place: a level of `logging` and a sentence."""
        if self.file is None:
            return logging.WARNING, not_kept("; ".join(f"{d}: {why}" for d, why in self.refused))
        if os.environ.get(ASKED) and self.refused:
            directory, why = self.refused[0]
            return logging.WARNING, (
                f"{ASKED} cannot be used ({directory}: {why}): "
                f"compiled kernels are kept in {self.file.parent}"
            )
        if not self.lasts:
            return logging.INFO, (
                f"compiled kernels are kept in {self.file.parent}; "
                f"set {ASKED} to a directory that stays"
            )
        return None


def not_kept(why: str) -> str:
    """The sentence that says that kernels were compiled and cannot be kept."""
    return (
        "compiled kernels cannot be kept, so that every start compiles them again "
        f"({why}): set {ASKED} to a directory that this user can write"
    )


@cache
def file_name() -> str:
    """The name of the file with the kernels of these sources, for this machine."""
    return f"{_PREFIX}{native.digest_of_sources()}-{native.digest_of_machine()}.o"


# --- reading ------------------------------------------------------------------------------------


def find() -> bytes | None:
    """The object file of the first directory that has it in good order."""
    for directory, lasts in _directories():
        path = directory / file_name()
        try:
            if not lasts:
                _check_private(directory)
            content = path.read_bytes()
        except OSError:
            continue
        code = _opened(content)
        if code is not None:
            return code
        log.warning("compiled kernels in %s cannot be read: compiling them anew", path)
    return None


def _opened(content: bytes) -> bytes | None:
    """The object file in the content of a file, if it is all there."""
    start = len(_MAGIC) + _DIGEST_BYTES
    code = content[start:]
    if content[:start] != _MAGIC + _digest(code):
        return None
    return code


def _digest(code: bytes) -> bytes:
    return blake2b(code, digest_size=_DIGEST_BYTES).digest()


# --- writing ------------------------------------------------------------------------------------


def choose() -> CachePlace:
    """The first place that this process can write; its directory is made."""
    refused = []
    for directory, lasts in _directories():
        try:
            directory.mkdir(mode=0o777 if lasts else 0o700, parents=lasts, exist_ok=True)
            if not lasts:
                _check_private(directory)
            with tempfile.TemporaryFile(dir=directory) as probe:
                probe.write(bytes(_PROBE_BYTES))
        except OSError as error:
            refused.append((directory, error.strerror or str(error)))
            continue
        return CachePlace(directory / file_name(), tuple(refused), lasts)
    return CachePlace(None, tuple(refused), False)


def write(path: Path, code: bytes) -> None:
    """Keep an object file: it appears whole. Those of earlier sources beside the present ones are
    removed."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_bytes(_MAGIC + _digest(code) + code)
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    if path.parent == _BESIDE:
        _remove_earlier(path)


def _remove_earlier(path: Path) -> None:
    mine = path.name[: path.name.rindex("-")]
    for other in path.parent.glob(f"{_PREFIX}*"):
        if other.is_dir():
            rmtree(other, ignore_errors=True)
        elif not other.name.startswith(mine):
            other.unlink(missing_ok=True)


# --- directories --------------------------------------------------------------------------------


def _directories() -> Iterator[tuple[Path, bool]]:
    """Directories to try, in this order, and whether each is there to stay."""
    asked = os.environ.get(ASKED)
    if asked:
        yield Path(asked).absolute() / "byway", True
    yield _BESIDE, True
    asked = os.environ.get("XDG_CACHE_HOME", "")
    user = Path(asked if os.path.isabs(asked) else os.path.expanduser("~/.cache"))  # noqa: PTH111, PTH117
    if user.is_absolute():  # a user may have no home
        yield user / "byway", True
    try:
        temporary = Path(tempfile.gettempdir())
        if temporary == Path.cwd():  # what Python takes when there is no other
            return
    except OSError:
        return
    yield temporary / f"byway-{os.getuid()}", False


def _check_private(directory: Path) -> None:
    """Raise `OSError` for a directory that others could have put files in: what is loaded from a
    cache is run."""
    found = directory.lstat()
    is_mine = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    if not is_mine or stat.S_IMODE(found.st_mode) & 0o077:
        raise OSError("expected a directory that belongs to this user alone")
