"""Bulk matching: matches publications with subscriptions, as many as there are.

`blocks` packs rows, `index_parts` builds indexes that fit into memory, `match_task` is what a
worker does with both, `matching` is the plan that brings them together, `match_tables` writes the
answers. The answer is that of the cross join.
"""

from byway.pipeline.bulk_matching.match_frames import MEMORY_BYTES, match, match_counts
from byway.pipeline.bulk_matching.match_tables import MatchOutcome, match_tables

__all__ = ["MEMORY_BYTES", "MatchOutcome", "match", "match_counts", "match_tables"]
