"""Tallies: how many filters match each of many publications, and how many publications each filter.

For those who want numbers and not keys: nothing is written down for a pair.
"""

from __future__ import annotations

from byway.matching.kernels import match
from byway.matching.kernels.decorator import kernel


@kernel
def match_counts(st, starts, codes, nums, texts, marks, by_publication, by_key):
    """Add to `by_publication` and `by_key`; keys are numbers from 0 up."""
    keys, hits = st.conjunction_key, st.hits
    for p in range(len(starts) - 1):
        a, b = starts[p], starts[p + 1]
        found = match.match_one(st, codes[a:b], nums[a:b], texts, marks[a : b + 1])
        by_publication[p] += found
        for i in range(found):
            by_key[keys[hits[i]]] += 1
