"""Workflow: the messages that coordinate business processes, and who waits for them, as in section
V-C of "Incremental filter aggregation".

This file decides how many processes, activities and instances there are, which message starts what,
which engine an activity is deployed to, and when auditors come and go.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from byway.model.tree_shapes import numbered_names
from byway.workload.chunks import (
    NO_STRING,
    NOWHERE,
    FilterChunk,
    Operator,
    PublicationChunk,
    ScheduleChunk,
    ValueKind,
)
from byway.workload.draws import Integers, chunk_rng
from byway.workload.generator import PUBLICATIONS, Generator, require

_NAMES: Final = ("activity", "instance", "process")
_SIZES: Final = (3, 10, 26)
"""Activities of a small, a medium and a large process."""
PROCESSES_MAX: Final = 10_000
INSTANCES_MAX: Final = 10_000
AUDITORS_MAX: Final = 1_000
DURATION_S_MAX: Final = 10_000_000
_ACTIVITIES_MAX: Final = max(_SIZES)
_DEPLOYED: Final = 16
_AUDITS: Final = 17


class Workflow(Generator, frozen=True, kw_only=True, tag=True):
    """`small`, `medium` and `large` processes of 3, 10 and 26 activities, `instances` of each at
    once; then the end.

    Activity a of instance i of a process waits for the message that starts it: `activity = a AND
    instance = i AND process = 'p007'`; activity 0 is started by what triggers the process. Of every
    ten processes `watched` are watched by a client that wants all its messages: `process = 'p007'`.
    Rows are in order of process, instance, activity, a watcher before what it covers. At the end
    come `auditors` who want all messages that start an activity 0: `activity = 0`.

    **Where.** Each of `domains` has `engines` with a broker each. All activities of a small process
    are at one engine, those of a medium one at engines of one domain, those of a large one at any
    engine, drawn once for all instances. A watcher is at any engine's broker.

    **When.** Auditors are at no broker at first. From `audit_every_s` on, and then again and again
    after so many seconds, up to `duration_s`, all come for `audit_for_s`: to a broker of their own
    domain (auditor number modulo `domains`), another one each time.

    **Publications**, without end, are messages of any process, all alike, of any of its instances
    and activities.
    """

    small: int = 80
    medium: int = 80
    large: int = 40
    instances: int = 10
    watched: int = 3
    auditors: int = 0
    domains: int = 4
    engines: int = 6
    duration_s: float = 3_600.0
    audit_every_s: float = 600.0
    audit_for_s: float = 60.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for size in ("small", "medium", "large"):
            require(size, getattr(self, size), 0, PROCESSES_MAX)
        require("processes", self.processes, 1, 3 * PROCESSES_MAX)
        require("instances", self.instances, 1, INSTANCES_MAX)
        require("watched", self.watched, 0, 10)
        require("auditors", self.auditors, 0, AUDITORS_MAX)
        require("domains", self.domains, 1, 1_000)
        require("engines", self.engines, 1, 1_000)
        require("duration_s", self.duration_s, 0, DURATION_S_MAX)
        require("audit_every_s", self.audit_every_s, 1, DURATION_S_MAX)
        require("audit_for_s", self.audit_for_s, 0.001, 0.999 * self.audit_every_s)

    @property
    def processes(self) -> int:
        """The number of processes of all sizes."""
        return self.small + self.medium + self.large

    def subscription_count(self) -> int:
        return int(self._starts()[-1]) + self.auditors

    def _activities(self) -> Integers:
        """The number of activities of each process."""
        return np.repeat(np.array(_SIZES), [self.small, self.medium, self.large])

    def _is_watched(self) -> Integers:
        return (np.arange(self.processes) % 10 < self.watched).astype(np.int64)

    def _starts(self) -> Integers:
        """The first row of each process, and the end."""
        sizes = self._activities() * self.instances + self._is_watched()
        starts: Integers = np.concatenate([[0], np.cumsum(sizes)])
        return starts

    def _rows(self, chunk: int) -> Integers:
        count = self.subscription_count()
        return np.arange(min(chunk * self.ROWS, count), min((chunk + 1) * self.ROWS, count))

    def _members(self, chunk: int) -> tuple[Integers, Integers]:
        """For each row but the auditors' its process, and its place there: -1 for a watcher, else
        instance x activities + activity."""
        starts = self._starts()
        rows = self._rows(chunk)
        rows = rows[rows < starts[-1]]
        process = np.searchsorted(starts, rows, side="right") - 1
        return process, rows - starts[process] - self._is_watched()[process]

    # --- where and when

    def broker_names(self) -> tuple[str, ...]:
        return numbered_names("B", self.domains * self.engines)

    def subscription_places(self, chunk: int) -> Integers:
        process, place = self._members(chunk)
        activity = np.where(place < 0, _ACTIVITIES_MAX, place % self._activities()[process])
        audits = len(self._rows(chunk)) - len(process)
        return np.concatenate([self._engines()[process, activity], np.full(audits, NOWHERE)])

    def _engines(self) -> Integers:
        """For each process the broker of each activity, and in the end that of its watcher."""
        rng = chunk_rng(self.seed, _DEPLOYED, 0)
        shape = (self.processes, _ACTIVITIES_MAX + 1)
        domain = rng.integers(0, self.domains, shape)
        engine = rng.integers(0, self.engines, shape)
        not_watcher = np.arange(shape[1]) < _ACTIVITIES_MAX
        activities = self._activities()[:, None]
        in_one_domain = (activities <= _SIZES[1]) & not_watcher
        at_one_engine = (activities <= _SIZES[0]) & not_watcher
        domain = np.where(in_one_domain, domain[:, :1], domain)
        engine = np.where(at_one_engine, engine[:, :1], engine)
        brokers: Integers = domain * self.engines + engine
        return brokers

    def schedule(self, chunk: int) -> ScheduleChunk:
        rows = self._rows(chunk)
        rows = rows[rows >= self._starts()[-1]]
        auditor = rows - self._starts()[-1]
        every_us, for_us = round(self.audit_every_s * 1e6), round(self.audit_for_s * 1e6)
        audits = np.arange(1, int(self.duration_s * 1e6) // every_us + 1)
        first = chunk_rng(self.seed, _AUDITS, 0).integers(0, self.engines, self.auditors)[auditor]
        engine = (first[:, None] + audits) % self.engines
        broker = (auditor % self.domains * self.engines)[:, None] + engine
        begins = np.broadcast_to(audits * every_us, broker.shape).ravel()
        who, nobody = np.repeat(rows, len(audits)), np.full(broker.size, NOWHERE)
        coming = (begins, who, nobody, broker.ravel())
        going = (begins + for_us, who, broker.ravel(), nobody)
        both = zip(coming, going, strict=True)
        return ScheduleChunk(*(np.concatenate(pair) for pair in both)).in_order()

    # --- chunks

    def subscriptions(self, chunk: int) -> FilterChunk:
        process, place = self._members(chunk)
        audits = len(self._rows(chunk)) - len(process)
        terms = np.concatenate([np.where(place < 0, 1, 3), np.ones(audits, np.int64)])
        offsets = np.concatenate([[0], np.cumsum(terms)])
        ends = offsets[1 : len(process) + 1]
        name_ids = np.full(offsets[-1], 2)
        name_ids[offsets[len(process)] :] = 0
        numbers = np.zeros(offsets[-1])
        string_ids = np.full(offsets[-1], NO_STRING)
        waiting = place >= 0
        first = offsets[: len(process)][waiting]
        activities = self._activities()[process[waiting]]
        name_ids[first], name_ids[first + 1] = 0, 1
        numbers[first] = place[waiting] % activities
        numbers[first + 1] = place[waiting] // activities
        string_ids[ends - 1] = process
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
