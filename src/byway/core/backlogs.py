"""Backlogs: what of whom is not confirmed by whom, for those who show who holds up whom.

Ages are those of publications: the time since the home broker of the publisher accepted them, by
its clock. Nothing here changes the broker.
"""

from __future__ import annotations

from heapq import nsmallest
from operator import add
from typing import Final, NamedTuple

import msgspec

from byway.core.broker import Broker
from byway.core.in_flight import COPY_BYTES
from byway.core.links import UNLISTED
from byway.core.streams import Publisher, Stream
from byway.model.messages import Publish
from byway.model.trace_schema import QUEUES_OF_PUBLISHERS, Queue
from byway.trace import TraceBuffer

PUBLISHERS_MAX: Final = 20
"""Publishers that are told one by one: those with the most unconfirmed publications."""


class LinkBacklog(msgspec.Struct, frozen=True):
    """What one link has not confirmed."""

    link: str
    unconfirmed: int
    """Data messages kept until the neighbour confirms them."""
    held: int
    """Data messages that wait for their turn in its branch."""
    oldest_us: int | None
    """When the oldest unconfirmed publication was published; None if there is none."""
    parked: int = 0
    """Data messages that wait for the neighbour to come back, or for a way round it."""
    oldest_parked_us: int | None = None
    """When the oldest parked publication was published; None if there is none."""


class PublisherBacklog(msgspec.Struct, frozen=True):
    """The publications of one publisher that are not confirmed."""

    publisher: str
    incarnation: int
    is_local: bool
    """Whether it is a client of this broker."""
    unconfirmed: int
    """How many they are: of a local client exactly, else as many as one link has not confirmed."""
    held: int
    """Copies of them that wait for their turn in a branch."""
    links: tuple[tuple[str, int], ...]
    """How many each link has not confirmed, the most first."""
    oldest_us: int | None
    """When the oldest one that a link has not confirmed was published; None if there is none."""
    unlisted: int = 0
    """How many are kept for neighbours that are not listed and may connect."""
    parked: tuple[tuple[str, int], ...] = ()
    """By dead neighbour, how many wait for it to come back or for a way round it; by name."""


class PublisherCounts(NamedTuple):
    """How many publications of one publisher are not confirmed, see `PublisherBacklog`."""

    publisher: str
    unconfirmed: int
    held: int
    parked: int


def link_backlogs(broker: Broker) -> list[LinkBacklog]:
    """The backlogs of all links, in the order of their names."""
    held = broker.context.held
    return [
        LinkBacklog(
            link,
            broker.unconfirmed(link),
            0 if held is None else held.counts.get(link, 0),
            next((p.published_us for p in broker.unconfirmed_publications(link)), None),
            0 if held is None else held.parked.counts.get(link, 0),
            min((p.published_us for p in broker.parked_publications(link)), default=None),
        )
        for link in broker.context.ends
        if link != UNLISTED
    ]


def publisher_backlogs(broker: Broker, most: int) -> tuple[int, list[PublisherBacklog]]:
    """How many publishers have a backlog, and those with the most unconfirmed publications, the
    worst first."""
    found = _unconfirmed(broker)
    worst = nsmallest(most, found.items(), key=lambda item: (-item[1][0], item[0]))
    chosen = dict(worst)
    oldest = _oldest(broker, chosen) if chosen else {}
    return len(found), [
        PublisherBacklog(
            publisher=key[0],
            incarnation=key[1],
            is_local=_is_local(broker, key),
            unconfirmed=count,
            held=stream.waiting - stream.parked,
            links=_links(stream),
            oldest_us=oldest.get(key),
            unlisted=stream.open.get(UNLISTED, 0),
            parked=_parked(broker, key) if stream.parked else (),
        )
        for key, (count, stream) in worst
    ]


def most_unconfirmed(broker: Broker) -> tuple[int, int]:
    """How many publishers have a backlog, and the unconfirmed publications of the one that has the
    most."""
    found = _unconfirmed(broker)
    return len(found), max((count for count, _ in found.values()), default=0)


def publisher_counts(broker: Broker) -> list[PublisherCounts]:
    """The publishers with the most unconfirmed publications, the worst first, without what takes a
    look at each of these. Those of a publisher that began anew count with its earlier ones."""
    if not has_backlog(broker):
        return []
    found: dict[str, PublisherCounts] = {}
    for (name, _), (count, stream) in _unconfirmed(broker).items():
        _, *before = found.get(name, (name, 0, 0, 0))
        more = count, stream.waiting - stream.parked, stream.parked
        found[name] = PublisherCounts(name, *map(add, before, more))
    return nsmallest(PUBLISHERS_MAX, found.values(), key=lambda one: (-one.unconfirmed, one))


def has_backlog(broker: Broker) -> bool:
    """Whether anything is unconfirmed."""
    held = broker.context.held
    is_held = held is not None and not held.is_empty
    return bool(broker.context.copies.bytes or is_held or broker.held_deliveries)


def _unconfirmed(broker: Broker) -> dict[Publisher, tuple[int, Stream]]:
    """By publisher with a backlog, how many of its publications are unconfirmed."""
    streams = broker.publications.streams
    found: dict[Publisher, tuple[int, Stream]] = {}
    for generation in (streams.old, streams.young):
        for key, stream in generation.items():
            if stream.open or stream.waiting:
                found[key] = max(stream.open.values(), default=stream.waiting), stream
    for name, session in broker.clients.sessions.items():
        window = session.window
        count = session.sequence - window.finished_up_to - window.early.numbers
        if count:  # also what is held for the session of another client
            key = name, session.incarnation
            found[key] = count, found[key][1] if key in found else Stream()
    return found


def _links(stream: Stream) -> tuple[tuple[str, int], ...]:
    """How many publications each neighbour that has a name has not confirmed, the most first."""
    named = (item for item in stream.open.items() if item[0] != UNLISTED)
    return tuple(sorted(named, key=lambda item: (-item[1], item[0])))


def _parked(broker: Broker, key: Publisher) -> tuple[tuple[str, int], ...]:
    """How many messages of a publisher are parked for each dead neighbour, by name."""
    held = broker.context.held
    queues = {} if held is None else held.parked.queues
    return tuple((b, len(queues[*key, b])) for b in broker.neighbours if (*key, b) in queues)


def _is_local(broker: Broker, key: Publisher) -> bool:
    session = broker.clients.sessions.get(key[0])
    return session is not None and session.incarnation == key[1]


def _oldest(broker: Broker, chosen: dict[Publisher, tuple[int, Stream]]) -> dict[Publisher, int]:
    """By chosen publisher, when the oldest of its unconfirmed publications was published."""
    oldest: dict[Publisher, int] = {}
    for link in broker.neighbours if any(stream.parked for _, stream in chosen.values()) else ():
        for parked in broker.parked_publications(link):
            key = parked.publisher, parked.incarnation
            if key in chosen:
                oldest[key] = min(parked.published_us, oldest.get(key, parked.published_us))
    wanted = {link for _, stream in chosen.values() for link in stream.open}
    for link in sorted(wanted):
        left = {key for key, (_, stream) in chosen.items() if link in stream.open}
        for message, _ in broker.context.copies.links[link]:
            if not isinstance(message, Publish):
                continue
            key = message.publisher, message.incarnation
            if key in left:  # the first on a link is the oldest there
                left.remove(key)
                oldest[key] = min(message.published_us, oldest.get(key, message.published_us))
                if not left:
                    break
    return oldest


def sample_backlogs(broker: Broker, trace: TraceBuffer, now_us: int) -> None:
    """Trace what each link has not confirmed, and what is held and parked in its branch, where
    there is any: how many messages, and the bytes of their bodies. And how many they are of each of
    the worst publishers."""
    held = broker.context.held
    for link in broker.context.ends:
        if link == UNLISTED:
            continue
        copies = broker.context.copies.links[link]
        count = len(copies)
        if count:
            size = copies.bytes - count * COPY_BYTES
            trace.queue_sampled(now_us, Queue.UNCONFIRMED, count, size, link)
        waiting = 0 if held is None else held.counts.get(link, 0)
        if held is not None and waiting:
            size = held.bytes[link] - waiting * COPY_BYTES
            trace.queue_sampled(now_us, Queue.HELD, waiting, size, link)
        waiting = 0 if held is None else held.parked.counts.get(link, 0)
        if held is not None and waiting:
            size = held.parked.bytes[link] - waiting * COPY_BYTES
            trace.queue_sampled(now_us, Queue.PARKED, waiting, size, link)
    for publisher, *counts in publisher_counts(broker):
        for queue, count in zip(QUEUES_OF_PUBLISHERS, counts, strict=True):
            if count:
                trace.queue_sampled(now_us, queue, count, 0, publisher=publisher)
