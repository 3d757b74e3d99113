"""The revision: which code computes a run, as a digest of it.

The same scenario and seed give the same numbers only with the same code; whoever keeps results can
tell by this whether they are still those of today.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

ROOMS: Final = ("core", "matching", "model", "sim", "trace", "workload")
"""Where it is computed what brokers do."""
_ENDINGS: Final = (".py", ".toml")


@cache
def revision() -> str:
    """Of the code that runs."""
    return revision_of(Path(__file__).parents[1])


def revision_of(package: Path) -> str:
    """Of the code in a directory."""
    digest = sha256()
    for room in ROOMS:
        for path in sorted((package / room).rglob("*")):
            if path.suffix in _ENDINGS:
                content = path.read_bytes()
                name = path.relative_to(package).as_posix()
                digest.update(f"{name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]
