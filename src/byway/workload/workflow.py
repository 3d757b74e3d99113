"""Workflow: the messages that coordinate business processes, and who waits for them (003 §V-C).

Decides how many processes, activities and instances there are, and which message starts what. Where
engines are, and who watches them, is decided elsewhere.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from byway.workload.chunks import NO_STRING, FilterChunk, Operator, PublicationChunk, ValueKind
from byway.workload.draws import Integers, chunk_rng
from byway.workload.generator import PUBLICATIONS, Generator, require

_NAMES: Final = ("activity", "instance", "process")
_SIZES: Final = (3, 10, 26)
"""Activities of a small, a medium and a large process."""
PROCESSES_MAX: Final = 10_000
INSTANCES_MAX: Final = 10_000


class Workflow(Generator, frozen=True, kw_only=True, tag=True):
    """`small`, `medium` and `large` processes of 3, 10 and 26 activities, `instances` of each at
    once; then the end.

    Activity a of instance i of a process waits for the message that starts it: `activity = a AND
    instance = i AND process = 'p007'`; activity 0 is started by what triggers the process. Of every
    ten processes `watched` are watched by a client that wants all its messages: `process = 'p007'`.
    Rows are in order of process, instance, activity, a watcher before what it covers.

    **Publications**, without end, are messages of any process, all alike, of any of its instances
    and activities.
    """

    small: int = 80
    medium: int = 80
    large: int = 40
    instances: int = 10
    watched: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        for size in ("small", "medium", "large"):
            require(size, getattr(self, size), 0, PROCESSES_MAX)
        require("processes", self.processes, 1, 3 * PROCESSES_MAX)
        require("instances", self.instances, 1, INSTANCES_MAX)
        require("watched", self.watched, 0, 10)

    @property
    def processes(self) -> int:
        """Of all sizes."""
        return self.small + self.medium + self.large

    def subscription_count(self) -> int:
        return int(self._starts()[-1])

    def _activities(self) -> Integers:
        """How many each process has."""
        return np.repeat(np.array(_SIZES), [self.small, self.medium, self.large])

    def _is_watched(self) -> Integers:
        return (np.arange(self.processes) % 10 < self.watched).astype(np.int64)

    def _starts(self) -> Integers:
        """The first row of each process, and the end."""
        sizes = self._activities() * self.instances + self._is_watched()
        starts: Integers = np.concatenate([[0], np.cumsum(sizes)])
        return starts

    def subscriptions(self, chunk: int) -> FilterChunk:
        starts = self._starts()
        count = int(starts[-1])
        rows = np.arange(min(chunk * self.ROWS, count), min((chunk + 1) * self.ROWS, count))
        process = np.searchsorted(starts, rows, side="right") - 1
        place = rows - starts[process] - self._is_watched()[process]
        terms = np.where(place < 0, 1, 3)
        offsets = np.concatenate([[0], np.cumsum(terms)])
        name_ids = np.full(offsets[-1], 2)
        numbers = np.zeros(offsets[-1])
        string_ids = np.full(offsets[-1], NO_STRING)
        waiting = place >= 0
        first = offsets[:-1][waiting]
        activities = self._activities()[process[waiting]]
        name_ids[first], name_ids[first + 1] = 0, 1
        numbers[first] = place[waiting] % activities
        numbers[first + 1] = place[waiting] // activities
        string_ids[offsets[1:] - 1] = process
        return FilterChunk(
            names=_NAMES,
            strings=self._strings(),
            offsets=offsets.astype(np.int32),
            name_ids=name_ids.astype(np.int32),
            operators=np.full(offsets[-1], Operator.EQUAL, np.uint8),
            numbers=numbers,
            highs=np.zeros(offsets[-1]),
            string_ids=string_ids.astype(np.int32),
        )

    def publications(self, chunk: int) -> PublicationChunk:
        rng = chunk_rng(self.seed, PUBLICATIONS, chunk)
        process = rng.integers(0, self.processes, self.ROWS)
        numbers = np.zeros((self.ROWS, 3))
        numbers[:, 0] = rng.integers(0, self._activities()[process])
        numbers[:, 1] = rng.integers(0, self.instances, self.ROWS)
        string_ids = np.full((self.ROWS, 3), NO_STRING, np.int32)
        string_ids[:, 2] = process
        kinds = np.array([ValueKind.INTEGER, ValueKind.INTEGER, ValueKind.STRING], np.uint8)
        return PublicationChunk(
            names=_NAMES,
            strings=self._strings(),
            offsets=np.arange(self.ROWS + 1, dtype=np.int32) * np.int32(3),
            name_ids=np.tile(np.arange(3, dtype=np.int32), self.ROWS),
            kinds=np.tile(kinds, self.ROWS),
            numbers=numbers.ravel(),
            string_ids=string_ids.ravel(),
        )

    def _strings(self) -> tuple[str, ...]:
        return tuple(f"p{process:05d}" for process in range(self.processes))
