"""The claims, one file each; a file that is added here is found by its name.

Published numbers, setups and assumptions are in those files and nowhere else.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Final

from byway.pipeline.claims.claim import Claim


def _found() -> dict[str, Claim]:
    names = sorted(
        (m.name for m in iter_modules(__path__) if not m.name.startswith("_")),
        key=lambda name: (name[0], int(name[1:])),
    )
    claims = (import_module(f"{__name__}.{name}").CLAIM for name in names)
    return {claim.id: claim for claim in claims}


CLAIMS: Final = _found()
"""All claims by id."""
