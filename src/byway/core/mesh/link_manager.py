"""The link manager: which soft links a broker opens and drops, by what it has counted.

It decides once an interval, alone: no other broker is asked. It is told how many publications each
link of the *profile* would have carried: links of the tree, soft links, and candidates, which are
brokers that a soft link could be opened to. From that follows a link's *gain*:

    publications × (distance − 1) × load factor
    load factor = Π (1 + max(0, load(X) − threshold))   over the brokers X that are passed by

as a mean over the intervals of a sliding window in which the link was in the profile.
(Opportunistic multipath forwarding, *Managing broker links*. The paper prints `min` for `max`,
which would let no broker count for more.)

**Candidates** are neighbours of links that carry much. A link of the tree passes nobody by, so
its gain is 0: such links rank by traffic, others by gain; each for more if it is slow to answer,
or its broker is loaded, since links past it are worth more then. While there is room a candidate
stays. If there is none, the weaker half of those that were tried gives way to new ones.

**Damping.** A candidate is tried for two intervals, in which those behind it become candidates too
and take what is for them; it is promoted only if it is good in the mean *and* in the last interval.
If all links are in use, it must beat the weakest soft link by a factor. A soft link stays for
a time, and so does the absence of one that was dropped. That one is a candidate again: without it
in the profile, what is for it would be counted for a link before it, and that link would seem to
carry what others do. A broker that refused, could not be reached, or whose link was lost, is left
alone for a time that doubles, and is no candidate: those that can be reached take its place.

Everything kept is about brokers on the map, so the map bounds it. Ties are decided by name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import Final, NamedTuple

import msgspec

from byway.core.mesh.master_map import MasterMap
from byway.core.mesh.mesh_config import MeshConfig
from byway.model.messages import Load

PROMOTED_MAX: Final = 8
"""Soft links that are opened in one interval; the next best wait for the next one."""
TRIAL: Final = 2
"""Intervals for which a candidate is tried, if the window has so many."""
_DOUBLINGS_MAX: Final = 40  # beyond any bound of a time


class Neighbourhood(NamedTuple):
    """What the links of a broker are, and what is known of the brokers round it."""

    master: MasterMap
    soft: Mapping[str, bool]
    """The soft links that this broker wants to send over, and whether the other end takes
    publications."""
    dialable: Collection[str]
    """The brokers that a soft link can be opened to."""
    loads: Mapping[str, float] = {}
    """By broker, its load from 0 to 1, as far as it is known."""
    round_trips_us: Mapping[str, int] = {}
    """By link that is up, the time until its other end answers, if it is known."""


class Decision(NamedTuple):
    """What is to be done now, in the order of the names."""

    promote: tuple[str, ...]
    """Open a soft link to these."""
    drop: tuple[str, ...]
    """Send no more over the soft links to these."""


class Failures(msgspec.Struct, array_like=True):
    """How often in a row a soft link to a broker failed."""

    count: int
    until_us: int
    """When it may be tried again."""


class LinkManagerState(msgspec.Struct):
    """All that a `LinkManager` remembers."""

    pending: dict[str, int] = {}
    """By link, publications of the interval that has not ended."""
    counts: dict[str, list[int]] = {}
    """By link of the profile, publications in each interval of the window in which it was there,
    the last one last."""
    candidates: list[str] = []
    """In the order of their names."""
    opened: dict[str, int] = {}
    """By soft link, when it was opened."""
    resting: dict[str, int] = {}
    """By broker that was a candidate, until when it is none again; by candidate that was a soft
    link, until when it is not promoted."""
    failures: dict[str, Failures] = {}


class LinkManager:
    """Decides for one broker."""

    def __init__(self, config: MeshConfig, state: LinkManagerState | None = None) -> None:
        self._config = config
        self.state = state or LinkManagerState()

    def __repr__(self) -> str:
        state = self.state
        return (
            f"<LinkManager: {len(state.opened)} soft links, {len(state.candidates)} candidates, "
            f"{len(state.failures)} failed>"
        )

    @property
    def candidates(self) -> tuple[str, ...]:
        """The brokers that belong into the profile beside links."""
        return tuple(self.state.candidates)

    # --- what it is told -----------------------------------------------------------------------

    def count(self, publications: Mapping[str, int]) -> None:
        """By link of the profile, publications that it would have carried since the last time."""
        pending = self.state.pending
        for link, count in publications.items():
            pending[link] = pending.get(link, 0) + count

    def on_failed(self, now_us: int, broker: str, jitter: float) -> None:
        """A soft link to a broker was refused or lost, or could not be opened. `jitter`: a random
        number from 0 to 1, so that not all who failed try again at the same time."""
        config, state = self._config, self.state
        before = state.failures.get(broker)
        count = min(1 if before is None else before.count + 1, _DOUBLINGS_MAX)
        wait_us = min(config.backoff_us << (count - 1), config.backoff_us_max)
        state.failures[broker] = Failures(count, now_us + int(wait_us * (1 - jitter / 2)))
        state.opened.pop(broker, None)
        if broker in state.candidates:
            state.candidates.remove(broker)

    # --- gain ----------------------------------------------------------------------------------

    def traffic(self, link: str) -> float:
        """Publications in an interval, as a mean over the window."""
        counts = self.state.counts.get(link)
        return sum(counts) / len(counts) if counts else 0.0

    def gain(self, link: str, near: Neighbourhood) -> float:
        """The gain of a link in an interval, as a mean over the window."""
        return self.traffic(link) * self._weight(link, near)

    def _worth(self, link: str, near: Neighbourhood) -> float:
        """The gain of a candidate, in the mean and in the last interval."""
        counts = self.state.counts.get(link)
        return min(self.traffic(link), counts[-1]) * self._weight(link, near) if counts else 0.0

    def _weight(self, link: str, near: Neighbourhood) -> float:
        if link not in near.master:  # records of its branch are being told anew
            return 0.0
        passed_by = near.master.path(link)[:-1]
        return len(passed_by) * prod(self._factor(broker, near) for broker in passed_by)

    def _factor(self, broker: str, near: Neighbourhood) -> float:
        return 1 + max(0.0, near.loads.get(broker, 0.0) - self._config.load_threshold)

    # --- deciding ------------------------------------------------------------------------------

    def decide(self, now_us: int, near: Neighbourhood, jitter: float = 0.0) -> Decision:
        """An interval has ended: what to open and to drop. The candidates are other ones, too."""
        self._tidy(now_us, near)
        self._end_interval(near)
        unopened = [
            link
            for link, taken in sorted(near.soft.items())
            if not taken and now_us - self.state.opened[link] >= self._config.opening_us
        ]
        for link in unopened:
            self.on_failed(now_us, link, jitter)
        room = max(0, self._config.fanout - len(near.master.neighbours))
        kept = [link for link in sorted(near.soft) if link not in unopened]
        kept.sort(key=lambda link: -self.gain(link, near))  # equal ones stay in order of names
        dropped = kept[room:] + [link for link in kept[:room] if self._is_idle(now_us, link, near)]
        kept = [link for link in kept if link not in dropped]
        promoted = self._promote(now_us, near, kept, room, dropped)
        for link in dropped:
            self.state.resting[link] = now_us + self._config.stay_us
            del self.state.opened[link]
        for link in promoted:
            self.state.opened[link] = now_us
        staying = [*(b for b in self.state.candidates if b not in promoted), *dropped]
        self._choose_candidates(now_us, near, len(kept) + len(promoted), sorted(staying))
        return Decision(tuple(sorted(promoted)), tuple(sorted(dropped + unopened)))

    def _tidy(self, now_us: int, near: Neighbourhood) -> None:
        """Forget what is no longer so."""
        state, links = self.state, near.master.numbers
        state.opened = {link: state.opened.get(link, now_us) for link in sorted(near.soft)}
        state.resting = {b: until for b, until in state.resting.items() if b in links}
        state.failures = {
            broker: failed
            for broker, failed in state.failures.items()
            if broker in links and not (near.soft.get(broker) and self._is_old(now_us, broker))
        }
        state.candidates = [
            broker
            for broker in state.candidates
            if broker in near.dialable and broker not in near.soft and _is_far(broker, near)
        ]

    def _end_interval(self, near: Neighbourhood) -> None:
        state = self.state
        profiled = {*near.master.neighbours, *near.soft, *state.candidates}
        state.counts = {
            link: [*state.counts.get(link, ()), state.pending.get(link, 0)][-self._config.window :]
            for link in sorted(profiled)
            if link in near.master
        }
        state.pending = {}

    def _is_old(self, now_us: int, link: str) -> bool:
        return now_us - self.state.opened[link] >= self._config.stay_us

    def _is_idle(self, now_us: int, link: str, near: Neighbourhood) -> bool:
        least = self._config.gain_min / self._config.hysteresis
        return self._is_old(now_us, link) and self.gain(link, near) < least

    def _is_tried(self, broker: str) -> bool:
        return len(self.state.counts.get(broker, ())) >= min(TRIAL, self._config.window)

    def _promote(
        self, now_us: int, near: Neighbourhood, kept: list[str], room: int, dropped: list[str]
    ) -> list[str]:
        """The best candidates that there is room for, or that beat a soft link, which is moved from
        `kept` to `dropped`."""
        worth = {broker: self._worth(broker, near) for broker in self.state.candidates}
        able = [
            broker
            for broker in self.state.candidates
            if self._is_tried(broker)
            and worth[broker] >= self._config.gain_min
            and self.state.resting.get(broker, 0) <= now_us
        ]
        promoted: list[str] = []
        for broker in sorted(able, key=lambda broker: (-worth[broker], broker))[:PROMOTED_MAX]:
            if len(kept) + len(promoted) >= room:
                weakest = next((x for x in reversed(kept) if self._is_old(now_us, x)), None)
                if (
                    weakest is None
                    or worth[broker] <= self.gain(weakest, near) * self._config.hysteresis
                ):
                    break
                kept.remove(weakest)
                dropped.append(weakest)
            promoted.append(broker)
        return promoted

    # --- candidates ----------------------------------------------------------------------------

    def _choose_candidates(
        self, now_us: int, near: Neighbourhood, soft: int, staying: Sequence[str]
    ) -> None:
        """Keep candidates, in the order of their names, beside so many soft links, and add some."""
        config, state = self._config, self.state
        primary = len(near.master.neighbours)
        room = max(0, config.links_max - primary - soft) if config.fanout > primary else 0
        staying = sorted(staying, key=lambda broker: -self.gain(broker, near))
        wanted = self._newcomers(now_us, near, staying)
        missing = max(0, len(wanted) - max(0, room - len(staying)))
        tried = [broker for broker in staying[(len(staying) + 1) // 2 :] if self._is_tried(broker)]
        leaving = set(tried[len(tried) - min(missing, len(tried)) :]) | set(staying[room:])
        for broker in leaving:
            until_us = now_us + config.window * config.interval_us
            state.resting[broker] = max(until_us, state.resting.get(broker, 0))
        staying = [broker for broker in staying if broker not in leaving]
        state.candidates = sorted(staying + wanted[: max(0, room - len(staying))])

    def _newcomers(self, now_us: int, near: Neighbourhood, staying: Sequence[str]) -> list[str]:
        """Neighbours of the links that carry most, best first; those that were candidates before
        come behind the others, so that each has its turn."""
        slowest = max(near.round_trips_us.values(), default=0) or 1
        adjacent = _adjacent(near.master)
        ranks = {}
        for link in self.state.counts:
            is_primary = near.master.distance(link) == 1
            carried = self.traffic(link) if is_primary else self.gain(link, near)
            slowness = 1 + near.round_trips_us.get(link, 0) / slowest
            ranks[link] = carried * slowness * self._factor(link, near)
        resting, failures = self.state.resting, self.state.failures
        known = {*staying, *near.soft, *self.state.opened}
        known.update(broker for broker, until_us in resting.items() if until_us > now_us)
        known.update(broker for broker, failed in failures.items() if failed.until_us > now_us)
        found: dict[str, None] = {}
        for link in sorted(ranks, key=lambda link: (-ranks[link], link)):
            if ranks[link] > 0:
                for broker in adjacent[link]:
                    if broker in near.dialable and broker not in known and _is_far(broker, near):
                        found[broker] = None
        return sorted(found, key=lambda broker: resting.get(broker, 0))


def _is_far(broker: str, near: Neighbourhood) -> bool:
    return broker in near.master and near.master.distance(broker) > 1


def _adjacent(master: MasterMap) -> dict[str, list[str]]:
    """By broker of a map, its neighbours there, in the order of their names."""
    found: dict[str, list[str]] = {broker: [] for broker in master.brokers}
    for broker, parent in zip(master.brokers, master.parents, strict=True):
        if parent >= 0:
            found[master.brokers[parent]].append(broker)
            found[broker].append(master.brokers[parent])
    return {broker: sorted(neighbours) for broker, neighbours in found.items()}


def load_shares(loads: Mapping[str, Load]) -> dict[str, float]:
    """By broker, its load from 0 to 1: the share of its uplink that is in use, if that is limited,
    else its output of publications as a share of the largest that is known."""
    largest = max((load.publications_out for load in loads.values()), default=0.0) or 1.0
    return {
        broker: min(load.uplink, 1.0) if load.uplink > 0 else load.publications_out / largest
        for broker, load in sorted(loads.items())
    }
