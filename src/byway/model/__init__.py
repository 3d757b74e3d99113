"""Values, filters, messages, errors and the trace schema: the vocabulary of all other packages.

This module re-exports what users of filters need. The package imports nothing of byway.
"""

from byway.model.errors import (
    BywayError,
    DuplicateKeyError,
    FilterError,
    FilterLimitError,
    FilterSyntaxError,
    InvalidValueError,
    TraceError,
    UnknownKeyError,
)
from byway.model.filter_merging import Merge, merge
from byway.model.filters import (
    ANY,
    FALSE,
    TRUE,
    Conjunction,
    Filter,
    conforms,
    covers,
    intersects,
)
from byway.model.text import parse
from byway.model.values import Attributes, Kind, Value, check_attributes, kind_of

__all__ = [
    "ANY",
    "FALSE",
    "TRUE",
    "Attributes",
    "BywayError",
    "Conjunction",
    "DuplicateKeyError",
    "Filter",
    "FilterError",
    "FilterLimitError",
    "FilterSyntaxError",
    "InvalidValueError",
    "Kind",
    "Merge",
    "TraceError",
    "UnknownKeyError",
    "Value",
    "check_attributes",
    "conforms",
    "covers",
    "intersects",
    "kind_of",
    "merge",
    "parse",
]
