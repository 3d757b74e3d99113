"""The matching engine: `MatchIndex`, its vocabulary, `TableIndex`, which does not wait for compiled
kernels and gives memory back, and `NaiveIndex`, the oracle of its tests.

The package knows filters and attributes; it does not know brokers, links or clients.
"""

from byway.matching.answers import IndexStatistics, Links, Matches, Routes
from byway.matching.building import CompilingError, ensure_kernels
from byway.matching.index import MatchIndex
from byway.matching.naive import NaiveIndex
from byway.matching.table_index import TableIndex, drop_scratch, renew_numbers, tidy
from byway.matching.vocabulary import Vocabulary

__all__ = [
    "CompilingError",
    "IndexStatistics",
    "Links",
    "MatchIndex",
    "Matches",
    "NaiveIndex",
    "Routes",
    "TableIndex",
    "Vocabulary",
    "drop_scratch",
    "ensure_kernels",
    "renew_numbers",
    "tidy",
]
