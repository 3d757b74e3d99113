"""The revision: a digest of the code that computes a run.

The same scenario and seed give the same numbers only with the same code. Stored results carry the
revision, so that results of other code are not taken for those of today.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

PACKAGES: Final = (
    "core", "inbox", "matching", "model", "session", "sim", "storage", "trace", "wire",
    "workload",
)  # fmt: skip
"""The packages whose code decides what brokers and clients do: all that the simulator imports."""
_ENDINGS: Final = (".py", ".toml")


@cache
def revision() -> str:
    """The revision of the code that is running."""
    return revision_of(Path(__file__).parents[1])


def revision_of(package: Path) -> str:
    """The revision of the code in a directory with these packages."""
    digest = sha256()
    for name in PACKAGES:
        for path in sorted((package / name).rglob("*")):
            if path.suffix in _ENDINGS:
                content = path.read_bytes()
                relative = path.relative_to(package).as_posix()
                digest.update(f"{relative} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]
