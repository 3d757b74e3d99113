"""Mobile: SIENA subscriptions of people who move, and when they do, as in "Incremental filter
aggregation" (section V-B) and "Selective filter aggregation" (section V-F).

This file decides where everybody is at first, who moves, when and where to. What they subscribe to
is decided by `zipf`.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from byway.model.tree_shapes import numbered_names
from byway.workload.chunks import FilterChunk, ScheduleChunk, row_offsets
from byway.workload.draws import Integers, bell, below, chunk_rng
from byway.workload.generator import Generator, WorkloadError, require
from byway.workload.zipf import Siena

BROKERS_MAX: Final = 100_000
MOVES_MAX: Final = 1_000
DURATION_S_MAX: Final = 10_000_000
_HOMES: Final = 16
_MOVES: Final = 17

Mask = npt.NDArray[np.bool_]


class Mobile(Siena, frozen=True, kw_only=True, tag=True):
    """`Siena`, with a broker for each subscription, and moves from one broker to another.

    The `brokers` brokers are cut into `regions` of consecutive ones, and nobody leaves a
    region. At first everybody is at a random broker. Within `duration_s` the share `commuters` of
    the subscribers moves once, at any time, to any other broker, as from home to the office. The
    share `wanderers` moves `moves` times, at any times, by so many brokers as a normal distribution
    with standard deviation `stride` says (brokers of a region in a circle; a step of none is no
    move). All others stay.

    The first `monitors` subscriptions are of monitors, one after another in each region, who want
    everything (TRUE); each moves to the next broker of its region every `monitor_stay_s`, evenly
    shifted in time.

    The defaults are the rush hour of "Incremental filter aggregation". The game of "Selective
    filter aggregation" is `commuters` 0, `wanderers` 1, `regions` 4, `monitors` 4, and as many
    `moves` as there shall be: 5,000 subscribers with 4 moves each in 20,000 s make 60 a minute.
    """

    brokers: int = 16
    regions: int = 1
    duration_s: float = 7_200.0
    commuters: float = 0.6
    wanderers: float = 0.2
    moves: int = 4
    stride: float = 2.0
    monitors: int = 0
    monitor_stay_s: float = 120.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require("brokers", self.brokers, 1, BROKERS_MAX)
        require("regions", self.regions, 1, self.brokers)
        require("duration_s", self.duration_s, 0, DURATION_S_MAX)
        require("commuters", self.commuters, 0, 1)
        require("wanderers", self.wanderers, 0, 1)
        require("moves", self.moves, 0, MOVES_MAX)
        require("stride", self.stride, 0, self.brokers)
        require("monitors", self.monitors, 0, Generator.ROWS)
        require("monitor_stay_s", self.monitor_stay_s, 1, DURATION_S_MAX)
        if self.commuters + self.wanderers > 1 + 1e-9:
            expected = f"at most what {self.commuters} commuters leave"
            raise WorkloadError("wanderers", self.wanderers, expected)

    def broker_names(self) -> tuple[str, ...]:
        return numbered_names("B", self.brokers)

    def subscriptions(self, chunk: int) -> FilterChunk:
        everyone = super().subscriptions(chunk)
        monitors = self.monitors if chunk == 0 else 0
        if not monitors:
            return everyone
        sizes = np.diff(everyone.offsets)
        sizes[:monitors] = 0
        first = everyone.offsets[monitors]
        columns = everyone.columns()
        del columns["offsets"]
        rest = {name: column[first:] for name, column in columns.items()}
        return FilterChunk(
            everyone.names, everyone.strings, offsets=row_offsets(sizes.astype(np.int64)), **rest
        )

    def subscription_places(self, chunk: int) -> Integers:
        """For each subscription of the chunk the broker that it is at in the beginning."""
        rng = chunk_rng(self.seed, _HOMES, chunk)
        homes = rng.integers(0, self.brokers, self.ROWS)
        if chunk == 0:
            homes[: self.monitors] = self._starts()[np.arange(self.monitors) % self.regions]
        return homes

    def schedule(self, chunk: int) -> ScheduleChunk:
        rng = chunk_rng(self.seed, _MOVES, chunk)
        homes = self.subscription_places(chunk)
        role = rng.random(self.ROWS)
        rows = np.arange(self.ROWS)
        monitors = rows < (self.monitors if chunk == 0 else 0)
        commutes = (role < self.commuters) & ~monitors
        wanders = (role >= self.commuters) & (role < self.commuters + self.wanderers) & ~monitors
        parts = [
            self._commute(rng, homes, commutes),
            self._wander(rng, homes, wanders),
            self._monitor(homes, monitors),
        ]
        moves = ScheduleChunk(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
        real = moves.leaves != moves.joins
        kept = ScheduleChunk(*(column[real] for column in moves))
        return kept._replace(rows=kept.rows + chunk * self.ROWS).in_order()

    # --- moves of some rows of a chunk; all is drawn for all rows, so that no share shifts another

    def _commute(self, rng: np.random.Generator, homes: Integers, who: Mask) -> ScheduleChunk:
        times = self._times(rng, 1)[:, 0]
        start, size = self._region(homes)
        steps = 1 + below(rng.integers(0, 2**31, self.ROWS), np.maximum(size - 1, 1))
        offices = start + (homes - start + steps) % size
        return ScheduleChunk(times[who], np.flatnonzero(who), homes[who], offices[who])

    def _wander(self, rng: np.random.Generator, homes: Integers, who: Mask) -> ScheduleChunk:
        times = np.sort(self._times(rng, self.moves), axis=1)
        start, size = self._region(homes)
        steps = np.rint(bell(rng, (self.ROWS, self.moves)) * self.stride).astype(np.int64)
        offsets = np.concatenate([np.zeros((self.ROWS, 1), np.int64), steps], axis=1).cumsum(axis=1)
        places = start[:, None] + ((homes - start)[:, None] + offsets) % size[:, None]
        rows = np.repeat(np.flatnonzero(who), self.moves)
        return ScheduleChunk(
            times[who].ravel(), rows, places[who, :-1].ravel(), places[who, 1:].ravel()
        )

    def _monitor(self, homes: Integers, who: Mask) -> ScheduleChunk:
        """Monitor i of n leaves for the first time after (i + 1) / n of a stay."""
        rows = np.flatnonzero(who)
        stay_us = round(self.monitor_stay_s * 1e6)
        first = (rows + 1) * stay_us // max(1, len(rows))
        turns = np.arange(int(self.duration_s * 1e6) // stay_us + 1)
        times = (first[:, None] + turns * stay_us).ravel()
        start, size = self._region(homes[rows])
        home = (homes[rows] - start)[:, None]
        leaves = start[:, None] + (home + turns) % size[:, None]
        joins = start[:, None] + (home + turns + 1) % size[:, None]
        within = times < self.duration_s * 1e6
        everyone = np.repeat(rows, len(turns))
        return ScheduleChunk(
            times[within], everyone[within], leaves.ravel()[within], joins.ravel()[within]
        )

    def _times(self, rng: np.random.Generator, count: int) -> Integers:
        """For each row `count` random times in microseconds, within the duration."""
        return (rng.random((self.ROWS, count)) * (self.duration_s * 1e6)).astype(np.int64)

    def _starts(self) -> Integers:
        """The number of the first broker of each region, and the end."""
        return np.arange(self.regions + 1) * self.brokers // self.regions

    def _region(self, brokers: Integers) -> tuple[Integers, Integers]:
        """First broker and size of each broker's region."""
        starts = self._starts()
        region = np.searchsorted(starts, brokers, side="right") - 1
        return starts[region], np.diff(starts)[region]
