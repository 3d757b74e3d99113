"""Clustered: subscriptions that cover one another are at neighbouring brokers, as in section V-E of
"Selective filter aggregation".

This file decides which brokers form a cluster and which cluster a group of subscriptions belongs
to. What the subscriptions are is decided by `covering_degree`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from byway.model.tree_shapes import numbered_names
from byway.workload.covering_degree import CoveringDegree
from byway.workload.draws import Integers, below, chunk_rng, numbered_integers
from byway.workload.generator import WorkloadError, require

BROKERS_MAX: Final = 100_000
_CLUSTERS: Final = 20
_GROUPS: Final = 21
_MEMBERS: Final = 22


class Clustered(CoveringDegree, frozen=True, kw_only=True, tag=True):
    """`CoveringDegree`, with a broker for each subscription.

    The `brokers` are cut into clusters of `cluster_min` to `cluster_max` of them, which follow one
    another by number; what is left at the end joins the last cluster. A group, a root with all that
    it covers, belongs to one cluster, drawn at random, and each of its subscriptions is at one of
    the cluster's brokers.
    """

    brokers: int = 55
    cluster_min: int = 2
    cluster_max: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        require("brokers", self.brokers, 1, BROKERS_MAX)
        require("cluster_max", self.cluster_max, 1, self.brokers)
        if not 1 <= self.cluster_min <= self.cluster_max:
            expected = f"1 to {self.cluster_max}, which cluster_max is"
            raise WorkloadError("cluster_min", self.cluster_min, expected)

    def broker_names(self) -> tuple[str, ...]:
        return numbered_names("B", self.brokers)

    def clusters(self) -> Integers:
        """The number of the first broker of each cluster, and the end."""
        rng = chunk_rng(self.seed, _CLUSTERS, 0)
        sizes = rng.integers(self.cluster_min, self.cluster_max + 1, self.brokers)
        ends = np.cumsum(sizes)
        inner = ends[ends <= self.brokers - self.cluster_min]
        starts: Integers = np.concatenate([[0], inner, [self.brokers]])
        return starts

    def subscription_places(self, chunk: int) -> Integers:
        starts = self.clusters()
        groups = self.groups(chunk)
        among = np.unique(groups)
        drawn = numbered_integers(self.seed, _GROUPS, among, 1, self.ROWS)[:, 0]
        cluster = below(drawn, len(starts) - 1)[np.searchsorted(among, groups)]
        first, sizes = starts[cluster], np.diff(starts)[cluster]
        rng = chunk_rng(self.seed, _MEMBERS, chunk)
        return first + below(rng.integers(0, 2**31, len(groups)), sizes)
