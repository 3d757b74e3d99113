"""The matching engine: `MatchIndex`, its vocabulary, and `NaiveIndex`, the oracle of its tests.

The package knows filters and attributes; it does not know brokers, links or clients.
"""

from byway.matching.answers import IndexStatistics, Links, Matches, Routes
from byway.matching.encoding import Encoded
from byway.matching.index import MatchIndex
from byway.matching.naive import NaiveIndex
from byway.matching.vocabulary import Vocabulary

__all__ = [
    "Encoded",
    "IndexStatistics",
    "Links",
    "MatchIndex",
    "Matches",
    "NaiveIndex",
    "Routes",
    "Vocabulary",
]
