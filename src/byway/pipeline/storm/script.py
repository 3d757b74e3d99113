"""The script of the storm: who subscribes to what where, what is published when, and which
subscriptions end.

It is the same for live brokers and for simulated ones, and for every policy: nothing of it depends
on what happens. Broad subscriptions are at one broker far from the publisher; each covers others
at any broker. When the broad ones end, those others have to be forwarded.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from byway.core.broker_config import BrokerConfig
from byway.matching import MatchIndex, Vocabulary
from byway.model import Filter
from byway.sim.topology.shapes import balanced_tree, seeded
from byway.sim.topology.tree import Topology
from byway.workload import CoveringDegree

BROKERS: Final = 15
PUBLISHER: Final = "B08"
BROAD: Final = "B15"
EVERYWHERE: Final = ("B09", "B10", "B11", "B12", "B13", "B14")
DEGREE: Final = 40
PUBLISH_AT_S: Final = 0.5
GAP_S: Final = 0.02
Policy = Literal["active", "selective"]
POLICIES: Final[tuple[Policy, ...]] = ("active", "selective")


class ScriptedSubscription(NamedTuple):
    """One subscription of the script."""

    client: str
    name: str
    filter: Filter


class Script:
    """What happens in a storm of a given size."""

    def __init__(self, *, roots: int = 40, rate: int = 200, seconds: float = 8.0, seed: int = 1):
        self.roots = roots
        self.rate = rate
        self.seconds = seconds
        self._workload = CoveringDegree(
            seed=seed, count=roots * (DEGREE + 1), degree=DEGREE, ranges=1, spread=0.15, hit=1.0
        )
        self._rng = seeded(seed)

    def __repr__(self) -> str:
        return f"<Script of {len(self.subscriptions)} subscriptions, {self.roots} of which end>"

    @cached_property
    def topology(self) -> Topology:
        """The overlay: a binary tree."""
        return balanced_tree(BROKERS, fan_out=2, latency_us=1_000)

    @cached_property
    def homes(self) -> dict[str, str]:
        """The broker of each subscriber."""
        return {"broad": BROAD} | {f"at {broker}": broker for broker in EVERYWHERE}

    @cached_property
    def subscriptions(self) -> tuple[ScriptedSubscription, ...]:
        """All subscriptions in the order in which they are made, broad ones among the others."""
        filters = self._workload.take_filters(self._workload.count)
        broad = {int(row) for row in self._workload.root_rows()}
        places = self._rng.integers(len(EVERYWHERE), size=len(filters))
        order = self._rng.permutation(len(filters))
        return tuple(
            ScriptedSubscription(
                "broad" if row in broad else f"at {EVERYWHERE[places[row]]}",
                f"s{row}",
                filters[row],
            )
            for row in order.tolist()
        )

    @property
    def ending(self) -> list[str]:
        """Names of the subscriptions that end, all of client `broad`, in order."""
        return [s.name for s in self.subscriptions if s.client == "broad"]

    @property
    def storm_at_s(self) -> float:
        """When the first subscription ends; half of the publications have been made by then."""
        return PUBLISH_AT_S + self.seconds / 2

    @property
    def end_s(self) -> float:
        """When the last publication is made."""
        return PUBLISH_AT_S + self.seconds

    def publications(self) -> Iterator[tuple[float, dict[str, Any]]]:
        """All publications, each with the time at which it is made, in seconds."""
        count = int(self.rate * self.seconds)
        for number, attributes in enumerate(self._workload.take_publications(count)):
            yield PUBLISH_AT_S + number / self.rate, attributes

    def expected(self) -> dict[str, int]:
        """Number of publications that each subscriber must receive whose subscriptions stay."""
        index = MatchIndex(Vocabulary())
        staying = [s for s in self.subscriptions if s.client != "broad"]
        for key, subscription in enumerate(staying):
            index.add(key, subscription.filter)
        found = dict.fromkeys((name for name in self.homes if name != "broad"), 0)
        for _, attributes in self.publications():
            keys: np.typing.NDArray[np.int64] = index.match(attributes)
            for client in {staying[key].client for key in keys.tolist()}:
                found[client] += 1
        return found


def config(policy: Policy) -> BrokerConfig:
    """Brokers that decide on the statistics of a few seconds; what they preserve stays, because
    the storm is over before it would be retired."""
    return BrokerConfig(
        covering=policy,
        selective_count_min=10,
        pruning_samples_min=5,
        retire_batch=0,
    )
