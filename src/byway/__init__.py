"""byway: content-based publish/subscribe that reshapes itself.

Names are loaded when first used, so that `import byway` stays quick and compiles nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from byway._version import __version__
from byway.model import (
    ANY,
    FALSE,
    TRUE,
    Attributes,
    BywayError,
    DuplicateKeyError,
    Filter,
    FilterError,
    FilterLimitError,
    FilterSyntaxError,
    InvalidValueError,
    Merge,
    UnknownKeyError,
    Value,
    conforms,
    covers,
    intersects,
    merge,
    parse,
)

if TYPE_CHECKING:
    from byway.matching import MatchIndex

_LAZY = {"MatchIndex": "byway.matching"}


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'byway' has no attribute {name!r}")


__all__ = [
    "ANY",
    "FALSE",
    "TRUE",
    "Attributes",
    "BywayError",
    "DuplicateKeyError",
    "Filter",
    "FilterError",
    "FilterLimitError",
    "FilterSyntaxError",
    "InvalidValueError",
    "MatchIndex",
    "Merge",
    "UnknownKeyError",
    "Value",
    "__version__",
    "conforms",
    "covers",
    "intersects",
    "merge",
    "parse",
]
