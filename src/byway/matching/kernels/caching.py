"""How kernels are compiled, and where the compiled ones are kept between processes.

Numba alone refuses to compile a cached function when it finds no directory to write, lets a full
disk or a damaged file of the cache end the call, and does not notice when a kernel in another file
changed. Here a kernel that cannot be kept, or read, is compiled anew, and directories are keyed by
the text of all kernel sources together. What a kernel computes is not decided here.

The first of these that can be written is used: `NUMBA_CACHE_DIR`, `__pycache__` beside the sources,
`byway` in the user's cache directory, and a private directory among the temporary files. If there
is none, every process compiles for itself, and says so once.
"""

from __future__ import annotations

import logging
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import blake2b
from pathlib import Path
from shutil import rmtree
from typing import Any, Final, NamedTuple

from numba import config as _config
from numba import njit
from numba.core.caching import FunctionCache, NullCache

log = logging.getLogger("byway.kernels")

ASKED: Final = "NUMBA_CACHE_DIR"
_HERE: Final = Path(__file__).parent
_PREFIX: Final = "kernels-"
_PROBE_BYTES: Final = 4_096  # on a full disk a file can be made, but not written

config: Any = _config  # its settings are made at run time


class CachePlace(NamedTuple):
    """Where compiled kernels are kept."""

    directory: Path | None
    """None if there is no directory that can be written."""
    refused: tuple[tuple[Path, str], ...]
    """Directories that would have been preferred, with what is wrong with each."""
    lasts: bool
    """Whether the directory is there to stay."""


# --- choosing -----------------------------------------------------------------------------------


def choose() -> CachePlace:
    """The first directory that this process can write. It is made, and others made for earlier
    sources beside the present ones are removed."""
    name = f"{_PREFIX}{_digest()}"
    refused = []
    for base, lasts in _bases():
        try:
            base.mkdir(mode=0o777 if lasts else 0o700, parents=lasts, exist_ok=True)
            if not lasts:
                _check_private(base)
            mine = base / name
            mine.mkdir(exist_ok=True)
            with tempfile.TemporaryFile(dir=mine) as probe:
                probe.write(bytes(_PROBE_BYTES))
        except OSError as error:
            refused.append((base, error.strerror or str(error)))
            continue
        if base == _HERE / "__pycache__":
            _remove_others(mine)
        return CachePlace(mine, tuple(refused), lasts)
    return CachePlace(None, tuple(refused), False)


def _digest() -> str:
    digest = blake2b(digest_size=8)
    for source in sorted([*_HERE.glob("*.py"), _HERE.parent / "layout.py"]):
        digest.update(source.read_bytes())
    return digest.hexdigest()


def _bases() -> Iterator[tuple[Path, bool]]:
    """Directories to try, in this order, and whether each is there to stay."""
    if config.CACHE_DIR:
        yield Path(config.CACHE_DIR) / "byway", True
    yield _HERE / "__pycache__", True
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


def _remove_others(mine: Path) -> None:
    for other in mine.parent.glob(f"{_PREFIX}*"):
        if other != mine:
            rmtree(other, ignore_errors=True)


PLACE: Final = choose()

# --- compiling ----------------------------------------------------------------------------------


def kernel(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Decorate a kernel: compiled by numba on first use, without the interpreter lock, and kept if
    there is a place. `options` are further ones of `numba.njit`."""
    if function is None:
        return partial(kernel, **options)
    dispatcher = njit(nogil=True, **options)(function)
    if not config.DISABLE_JIT:
        dispatcher._cache = _cache_of(function)
    return dispatcher


def _cache_of(function: Callable[..., Any]) -> _Kept | _Unkept:
    """What numba asks for a compiled form before it compiles, and hands it to afterwards."""
    if PLACE.directory is None:
        return _Unkept()
    before = config.CACHE_DIR
    config.CACHE_DIR = str(PLACE.directory)
    try:
        return _Kept(function)
    except RuntimeError:  # it could be written a moment ago
        return _Unkept()
    finally:
        config.CACHE_DIR = before


class _Kept(FunctionCache):
    """The disk cache of one kernel. A file that cannot be read or written costs a compilation, and
    nothing else."""

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The compiled form for some argument types, or None."""
        try:
            return super().load_overload(signature, context)
        except Exception as error:  # a damaged pickle may raise anything
            text = "compiled kernels in %s cannot be read (%r): compiling them anew"
            _say_once(text, PLACE.directory, error)
        try:
            self.flush()  # else the index stays as it is, and nothing can be added to it
        except OSError:
            pass
        return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep a compiled form, if that is possible."""
        _say_where()
        try:
            super().save_overload(signature, compiled)
        except OSError as error:
            _say_not_kept(f"{PLACE.directory}: {error.strerror}")


class _Unkept(NullCache):
    """A cache that keeps nothing."""

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Say once that a kernel was compiled and cannot be kept."""
        del signature, compiled
        _say_not_kept("; ".join(f"{base}: {reason}" for base, reason in PLACE.refused))


# --- what is said of it, once a process ----------------------------------------------------------

_said: set[str] = set()


def _say_once(text: str, *facts: object, level: int = logging.WARNING) -> None:
    if text not in _said:
        _said.add(text)
        log.log(level, text, *facts)


def _say_not_kept(why: str) -> None:
    _say_once(
        "compiled kernels cannot be kept, so that every start takes as long as this one (%s): set "
        + ASKED
        + " to a directory that this user can write",
        why,
    )


def _say_where() -> None:
    """Say where kernels are kept if the user might not expect it."""
    if config.CACHE_DIR and PLACE.refused:
        base, reason = PLACE.refused[0]
        text = ASKED + " cannot be used (%s: %s): compiled kernels are kept in %s"
        _say_once(text, base, reason, PLACE.directory)
    elif not PLACE.lasts:
        text = "compiled kernels are kept in %s; set " + ASKED + " to a directory that stays"
        _say_once(text, PLACE.directory, level=logging.INFO)
