"""Tables that shrink: Python never makes a dict smaller when keys are deleted.

They stay the same objects: a new one, made while there are many others around it, would hold the
memory of all of them when they have gone.
"""

from __future__ import annotations

import sys
from typing import Any, Final

_SPARE_BYTES: Final = 4_096
_ENTRY_BYTES: Final = 512
"""A dict of this size for each of its keys, or a larger one, is mostly empty: what is full has 30
to 60 bytes. So what is copied is small beside what was deleted before."""


def fit(table: dict[Any, Any]) -> None:
    """Give a dict that is mostly empty the size that its keys need; they keep their order."""
    if sys.getsizeof(table) > _SPARE_BYTES + _ENTRY_BYTES * len(table):
        kept = dict(table)
        table.clear()
        table.update(kept)
