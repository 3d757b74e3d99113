"""Invariants of a broker's tables between two inputs, and sentences about those that are broken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from byway.core.broker import Broker
from byway.core.in_flight import COPY_BYTES
from byway.core.streams import Stream
from byway.core.tables import Entry, Table
from byway.model.filters import covers
from byway.model.messages import Message, Publish


def validate(broker: Broker) -> list[str]:
    """Sentences about what is wrong with a broker's tables; none if nothing is."""
    return [
        f"{broker.name}: {sentence}"
        for check in (
            _origins,
            _adverts,
            _subscriptions,
            _placeholders,
            _antichain,
            _clients,
            _links,
            _indexes,
        )
        for sentence in check(broker)
    ]


def _name(entry: Entry) -> str:
    return f"{entry.id.client}/{entry.id.name}"


def _tables(broker: Broker) -> tuple[tuple[str, Table], tuple[str, Table]]:
    return ("advertisement", broker.advertisements), ("subscription", broker.subscriptions)


def _origins(broker: Broker) -> Iterator[str]:
    for kind, table in _tables(broker):
        for entry in table:
            link, client = entry.origin.link, entry.origin.client
            if link is None and client not in broker.clients.sessions:
                yield f"{kind} {_name(entry)} is of client {client}, which is not here"
            if link is not None and link not in broker.context.routing.links:
                yield f"{kind} {_name(entry)} came from {link}, which is no neighbour"
            if link in entry.forwarded:
                yield f"{kind} {_name(entry)} was sent back to {link}, where it came from"
            for other in sorted(entry.forwarded - broker.context.routing.links.keys()):
                yield f"{kind} {_name(entry)} was sent to {other}, which is no neighbour"


def _adverts(broker: Broker) -> Iterator[str]:
    for entry in broker.advertisements:
        for link in broker.context.routing.links:
            if link not in entry.forwarded and link != entry.origin.link:
                yield f"advertisement {_name(entry)} was not told to {link}"


def _subscriptions(broker: Broker) -> Iterator[str]:
    """Each is forwarded where an advertisement may feed it, or covered by one that is."""
    adverts, table = broker.advertisements, broker.subscriptions
    covering = broker.context.config.covering != "none"
    for entry in table:
        keys = adverts.index.intersecting_advertisements(entry.filter)
        leads = [link for link in adverts.origins(keys) if link != entry.origin.link]
        for link in sorted(entry.forwarded.difference(leads)):
            yield f"subscription {_name(entry)} was sent to {link}, where nothing feeds it"
        for link in leads:
            if link in entry.forwarded:
                continue
            wide = _covering(broker, entry) if covering else []
            if not any(link in other.forwarded for other in wide if other is not entry):
                yield f"subscription {_name(entry)} was not sent to {link}, and nothing covers it"


def _covering(broker: Broker, entry: Entry) -> list[Entry]:
    """Entries that cover one, and may quench it."""
    tables = (broker.subscriptions, broker.placeholders)
    wide = (e for table in tables for e in table.by_keys(table.index.covering(entry.filter)))
    may_quench = broker.context.routing.subscription_rules.may_quench
    return [e for e in wide if may_quench(e.origin, entry.origin)]


def _placeholders(broker: Broker) -> Iterator[str]:
    """Each placeholder is nobody's subscription, and is forwarded only where an advertisement may
    feed it."""
    adverts = broker.advertisements
    for entry in broker.placeholders:
        name = f"placeholder {_name(entry)}"
        if entry.placeholder is None:
            yield f"{name} is not marked as one"
        if broker.subscriptions.get(entry.id) is not None:
            yield f"{name} is in the table too"
        if not entry.forwarded:
            yield f"{name} is forwarded nowhere"
        keys = adverts.index.intersecting_advertisements(entry.filter)
        for link in sorted(entry.forwarded.difference(adverts.origins(keys))):
            yield f"{name} is forwarded to {link}, where nothing feeds it"


def _antichain(broker: Broker) -> Iterator[str]:
    """Nothing is forwarded that another one forwarded there covers; a placeholder may, until it is
    retired."""
    if broker.context.config.covering in ("none", "lazy"):
        return
    table, rules = broker.subscriptions, broker.context.routing.subscription_rules
    for entry in [*table, *broker.placeholders]:
        if not entry.forwarded:
            continue
        for wide in rules.covering(entry.filter, entry.origin):
            if wide is not entry and not covers(entry.filter, wide.filter):
                for link in sorted(entry.forwarded & wide.forwarded):
                    both = f"{_name(entry)} and {_name(wide)}, which covers it,"
                    yield f"subscriptions {both} were both sent to {link}"


def _clients(broker: Broker) -> Iterator[str]:
    held = {kind: 0 for kind, _ in _tables(broker)}
    for client in broker.clients.sessions.values():
        holds = zip(_tables(broker), (client.adverts, client.subscriptions), strict=True)
        for (kind, table), ids in holds:
            held[kind] += len(ids)
            for name, id in ids.items():
                entry = table.get(id)
                if entry is None or entry.origin.client != client.name:
                    yield f"client {client.name} holds {kind} {name}, which is not in the table"
    for kind, table in _tables(broker):
        local = sum(entry.origin.link is None for entry in table)
        if local != held[kind]:
            yield f"{local} local {kind}s are in the table, but clients hold {held[kind]}"


def _links(broker: Broker) -> Iterator[str]:
    context = broker.context
    open_links: dict[int, tuple[Stream, Counter[str]]] = {}
    waits: Counter[int] = Counter()
    for link, end in context.ends.items():
        if context.copies.links.get(link) is not end.copies:
            yield f"the copies for {link} are not those of its end"
        size = sum(_bytes(message) for message, _ in end.copies)
        if size != end.copies.bytes:
            yield f"the copies for {link} take {size} bytes, but {end.copies.bytes} are counted"
        for _, source in end.copies:
            waits[id(source)] += 1
            if waits[id(source)] > source.left:
                yield f"more copies of a message are kept, also for {link}, than it waits for"
            if source.stream is not None:
                _, found = open_links.setdefault(id(source.stream), (source.stream, Counter()))
                found[link] += 1
    taken = sum(queue.bytes for queue in context.copies.links.values())
    if taken != context.copies.bytes:
        yield f"copies take {taken} bytes, but {context.copies.bytes} known to be taken"
    queues = {} if context.held is None else context.held.queues
    parked_queues = {} if context.held is None else context.held.parked.queues
    yield from _held(broker)
    for stream, found in open_links.values():
        known = dict(stream.open)
        if known != found:
            yield f"{dict(found)} copies of a publisher are kept, but {known} known to be"
    for key, stream in (
        *broker.publications.streams.young.items(),
        *broker.publications.streams.old.items(),
    ):
        if stream.open and id(stream) not in open_links:
            yield f"no copies of publisher {key} are kept, but {dict(stream.open)} known to be"
        waiting = sum(len(queue) for held_key, queue in queues.items() if held_key[:2] == key)
        parked = sum(len(queue) for held_key, queue in parked_queues.items() if held_key[:2] == key)
        waiting += parked
        if parked != stream.parked:
            yield f"{parked} messages of {key} are parked, but {stream.parked} known to be"
        if waiting != stream.waiting:
            yield f"{waiting} messages of {key} are held, but {stream.waiting} known to be"


def _bytes(message: Message) -> int:
    """What keeping a data message takes, as the bounds count it."""
    return COPY_BYTES + (len(message.body) if isinstance(message, Publish) else 0)


def _held(broker: Broker) -> Iterator[str]:
    held = broker.context.held
    if held is None:
        return
    waits: Counter[int] = Counter()
    for how, queues, known in (
        ("held", held.queues, (held.counts, held.bytes)),
        ("parked", held.parked.queues, (held.parked.counts, held.parked.bytes)),
    ):
        counts: Counter[str] = Counter()
        sizes: Counter[str] = Counter()
        for (_, _, branch), queue in queues.items():
            counts[branch] += len(queue)
            sizes[branch] += sum(_bytes(one.message) for one in queue)
            for one in queue:
                waits[id(one.source)] += 1
                if waits[id(one.source)] > one.source.left:
                    yield f"a message is {how} more often, also for {branch}, than it waits for"
        if (counts, sizes) != known:
            yield (
                f"{dict(counts)} messages of {dict(sizes)} bytes are {how}, "
                f"but {known[0]} of {known[1]} are counted"
            )
    for key, parked in held.parked.queues.items():
        if key[2] not in held.planner.bypassed:
            yield f"messages of {key[0]} are parked for {key[2]}, which is not bypassed"
        places = [one.place for one in parked]
        if places != sorted(places):
            yield f"messages of {key[0]} are parked for {key[2]} out of order"


def _indexes(broker: Broker) -> Iterator[str]:
    known = broker.context.routing.sent
    if known is not None:
        sent = sum(bool(e.forwarded) for e in [*broker.subscriptions, *broker.placeholders])
        if len(known) != sent:
            yield f"{sent} subscriptions are forwarded, but {len(known)} known to be"
    for kind, table in _tables(broker):
        if len(table.index) != len(table):
            yield f"{len(table)} {kind}s are in the table, but {len(table.index)} in its index"
