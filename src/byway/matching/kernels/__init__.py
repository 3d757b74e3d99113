"""Compiled code of the matching index: compiled on first use, then loaded from disk.

The disk cache is keyed by the text of all kernel sources together, because numba itself does not
notice when a kernel in another file changed. It lies beside the sources, or where numba puts caches
if that place cannot be written.
"""

from __future__ import annotations

import os
import shutil
from hashlib import blake2b
from pathlib import Path
from typing import Any

from numba import config as _config

config: Any = _config  # its settings are made at run time


def _cache_directory() -> str:
    here = Path(__file__).parent
    digest = blake2b(digest_size=8)
    for source in sorted([*here.glob("*.py"), here.parent / "layout.py"]):
        digest.update(source.read_bytes())
    base = here / "__pycache__"
    mine = base / f"kernels-{digest.hexdigest()}"
    try:
        mine.mkdir(parents=True, exist_ok=True)
    except OSError:
        return str(config.CACHE_DIR)
    if not os.access(mine, os.W_OK):
        return str(config.CACHE_DIR)
    for other in base.glob("kernels-*"):
        if other != mine:
            shutil.rmtree(other, ignore_errors=True)
    return str(mine)


_before = config.CACHE_DIR
if not _before:  # a cache that the user asked for is theirs to keep clean
    config.CACHE_DIR = _cache_directory()
try:
    from byway.matching.kernels import entry, relations, verdicts
finally:
    config.CACHE_DIR = _before

__all__ = ["entry", "relations", "verdicts"]
