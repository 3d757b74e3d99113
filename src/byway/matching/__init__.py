"""The matching engine: `MatchIndex`, its vocabulary, and the naive oracle it is tested against."""

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
