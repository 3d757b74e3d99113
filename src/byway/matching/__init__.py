"""The matching engine: `MatchIndex`, its vocabulary, and the naive oracle it is tested against."""

from byway.matching.index import IndexStatistics, Links, Matches, MatchIndex, Routes
from byway.matching.naive import NaiveIndex
from byway.matching.vocabulary import Vocabulary

__all__ = [
    "IndexStatistics",
    "Links",
    "MatchIndex",
    "Matches",
    "NaiveIndex",
    "Routes",
    "Vocabulary",
]
