"""Groups of a covering workload: which clients get their members, and the order of arrival.

A group is a root and all subscriptions inside it. Groups may be scattered over all subscribers, or
each be in one cluster of brokers. Rows and groups are those of the generator; clients are numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from byway.sim.topology.tree import Topology
from byway.workload import CoveringDegree

Integers = npt.NDArray[np.int64]


class SubscriptionGroups(NamedTuple):
    """For each row of a workload its group, and whether it is the root of its group."""

    of: Integers
    is_root: npt.NDArray[np.bool_]

    @property
    def number(self) -> int:
        """The number of groups."""
        return int(self.of.max(initial=-1)) + 1


def groups_of(generator: CoveringDegree, rows: int) -> SubscriptionGroups:
    """The groups of the first rows of a generator."""
    chunks = range(-(-rows // generator.ROWS))
    of = np.concatenate([np.empty(0, np.int64), *map(generator.groups, chunks)])[:rows]
    is_root = np.zeros(rows, np.bool_)
    roots = generator.root_rows()
    is_root[roots[roots < rows]] = True
    return SubscriptionGroups(of, is_root)


def order_with_late_roots(
    groups: SubscriptionGroups, late: npt.NDArray[np.bool_], after: float, rng: np.random.Generator
) -> list[int]:
    """The rows shuffled, but for roots: `late` roots are spread over what follows the share `after`
    of the rows, other roots come first."""
    place = rng.random(len(groups.of))
    late_roots = groups.is_root & late
    place[late_roots] = after + (1 - after) * place[late_roots]
    place[groups.is_root & ~late] = -1
    order: list[int] = np.argsort(place, kind="stable").tolist()
    return order


def order_by_groups(
    groups: SubscriptionGroups, late: npt.NDArray[np.bool_], after: float, rng: np.random.Generator
) -> list[int]:
    """The groups one after another, each shuffled, but for its root: that comes after the share
    `after` of its group if it is `late`, else first."""
    place = groups.of + rng.random(len(groups.of))
    place[groups.is_root] = (groups.of + after * late)[groups.is_root]
    order: list[int] = np.argsort(place, kind="stable").tolist()
    return order


# --- where --------------------------------------------------------------------------------------


def clusters_of(kind: str, homes: Sequence[str], topology: Topology) -> list[list[int]]:
    """The clients of each cluster, given their home brokers: those at one broker, or those at
    brokers of one neighbour."""
    found: dict[str, list[int]] = {}
    for client, home in enumerate(homes):
        centre = home if kind == "brokers" else min(topology.neighbours(home), default=home)
        found.setdefault(centre, []).append(client)
    return [found[centre] for centre in sorted(found)]


def assigned_clients(
    groups: SubscriptionGroups,
    clusters: Sequence[Sequence[int]],
    scattered: int,
    rng: np.random.Generator,
) -> list[int]:
    """The client of each row: one of the cluster of its group, or any client for the first
    `scattered` groups. Clusters are drawn by their size."""
    members = np.concatenate([np.asarray(cluster) for cluster in clusters])
    sizes = np.array([len(cluster) for cluster in clusters])
    starts = np.cumsum(sizes) - sizes
    drawn = rng.integers(len(members), size=groups.number)
    own = (np.searchsorted(starts, drawn, side="right") - 1)[groups.of]
    anywhere = groups.of < scattered
    low = np.where(anywhere, 0, starts[own])
    span = np.where(anywhere, len(members), sizes[own])
    clients: list[int] = members[low + (rng.random(len(low)) * span).astype(np.int64)].tolist()
    return clients
