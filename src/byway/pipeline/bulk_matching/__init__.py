"""Bulk matching: matches a table of publications with a table of subscriptions.

`parts` builds indexes that fit into memory, `rows` reads row groups and encodes publications,
`match_task` is what a worker does with both, `match_tables` runs it all. The answer is that of the
cross join.
"""

from byway.pipeline.bulk_matching.match_tables import MEMORY_BYTES, MatchOutcome, match_tables

__all__ = ["MEMORY_BYTES", "MatchOutcome", "match_tables"]
