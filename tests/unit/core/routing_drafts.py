"""Routings that are copied: in what two of them differ, and brokers whose routing is exchanged for
a copy of it at every input."""

from collections.abc import Iterable
from typing import Any

import msgspec

from byway.core.actions import Timer
from byway.core.broker import Broker
from byway.core.counters import Counters
from byway.core.in_flight import InFlight
from byway.core.routing import Routing
from byway.core.table_digests import digests
from byway.core.tables import Entry, Table
from byway.model import Attributes, Filter
from byway.model.messages import EntryId, Message, Reply, Unadvertise

_encode = msgspec.msgpack.encode


class Recorder:
    """An outlet that sends nothing, and remembers what it was to send."""

    def __init__(self, broker: str = "B") -> None:
        self.broker = broker, 1
        self.now_us = 0
        self.counters = Counters()
        self.sent: list[tuple[str, Message]] = []
        self.answered: list[tuple[str, EntryId]] = []
        self.told: list[tuple[str, Reply]] = []
        self.timers: list[tuple[Timer, int]] = []

    def send(self, link: str, message: Message) -> None:
        self.sent.append((link, message))

    def send_unadvertise(self, link: str, message: Unadvertise, pending: InFlight) -> None:
        del pending
        self.sent.append((link, message))

    def answer(self, link: str, id: EntryId) -> None:
        self.answered.append((link, id))

    def tell(self, client: str, reply: Reply) -> None:
        self.told.append((client, reply))

    def set_timer(self, timer: Timer, at_us: int) -> None:
        self.timers.append((timer, at_us))

    def awaits_digest(self, link: str) -> bool:
        del link
        return False

    def settle_unclaimed(self, link: str, id: EntryId) -> None:
        del link, id

    def knows_adverts_except(self, link: str | None) -> bool:
        del link
        return True


# --- brokers whose routing is exchanged ----------------------------------------------------------


def exchange(broker: Broker) -> None:
    """Put a copy of a broker's routing in force. Whoever still uses the old one fails."""
    old, before = broker.context.routing, broker.snapshot()
    broker.context.routing = new = old.copy(old.outlet)
    new.put_in_force(old.outlet)
    assert broker.snapshot() == before
    for part in (old.adverts, old.subscriptions, old.placeholders, old.sent, old.policy, old):
        if part is not None:
            vars(part).clear()


def exchanging(monkeypatch: Any) -> list[int]:
    """Let all brokers exchange their routing before every call; counts the exchanges."""
    handle_batch, count = Broker.handle_batch, [0]

    def handle(self: Broker, now_us: int, events: Any) -> Any:
        actions: list[Any] = []
        for event in events:
            exchange(self)
            count[0] += 1
            actions.append(event)
        return handle_batch(self, now_us, actions)

    monkeypatch.setattr(Broker, "handle_batch", handle)
    return count


# --- what a routing is ---------------------------------------------------------------------------


def described(
    routing: Routing, queries: Iterable[Filter] = (), publications: Iterable[Attributes] = ()
) -> dict[str, Any]:
    """All that matters of a routing, in values that can be compared."""
    tables = {
        "advertisements": routing.adverts,
        "subscriptions": routing.subscriptions,
        "placeholders": routing.placeholders,
    }
    told: dict[str, Any] = {"links": list(routing.links)}
    for name, table in tables.items():
        told[name] = [entry_state(entry, routing) for entry in table]
        told[f"alternate origins of {name}"] = (
            table.alternates.links,
            table.alternates.pending_takeover,
        )
        told[f"digests of {name}"] = digests_of(table)
        for number, query in enumerate(queries):
            told[f"answers of {name} to {number}"] = answers(table, query)
        for number, attributes in enumerate(publications):
            told[f"matches of {name} with {number}"] = ids(table, table.index.match(attributes))
    if routing.sent is not None:
        told["sent"] = sorted(routing.sent._keys)
        for number, query in enumerate(queries):
            found = (routing.sent.covering(query), routing.sent.covered_by(query))
            told[f"answers of sent to {number}"] = [[e.id for e in part] for part in found]
    told["policy"] = _encode(routing.policy.snapshot())
    return told


def entry_state(entry: Entry, routing: Routing) -> tuple[Any, ...]:
    holds = routing.subscriptions.holds
    followers = {
        link: found
        for link, all_ in entry.followers.items()
        if (found := [f.id for f in all_ if holds(f)])
    }
    return (
        entry.id, entry.filter, entry.origin, entry.key, sorted(entry.forwarded), entry.awaiting,
        entry.following, followers, entry.settled, entry.announced, entry.placeholder,
    )  # fmt: skip


def digests_of(table: Table) -> dict[str | None, tuple[int, ...]]:
    links = {entry.origin.link for entry in table}
    return {
        link: digests((e.id, e.origin.behind, e.settled) for e in table if e.origin.link == link)
        for link in links
    }


def ids(table: Table, keys: Any) -> list[EntryId]:
    return [entry.id for entry in table.by_keys(keys)]


def answers(table: Table, query: Filter) -> list[list[EntryId]]:
    index = table.index
    found = (
        index.covering(query), index.covered_by(query),
        index.intersecting(query), index.intersecting_advertisements(query),
    )  # fmt: skip
    return [ids(table, keys) for keys in found]
