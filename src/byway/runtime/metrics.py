"""The metrics of a broker process, in the format of Prometheus.

Values are read from the broker when they are collected; nothing is counted for them alone. This
module decides names and labels, and that clients are named only if they do not read, or if the most
publications of theirs are unconfirmed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from byway._version import __version__
from byway.clock import now_us
from byway.core.backlogs import link_backlogs, most_unconfirmed, publisher_counts
from byway.core.placeholders import by_link, placeholders
from byway.runtime.inspection import age_s, slow_subscribers
from byway.runtime.server import BrokerServer
from byway.runtime.waiting import NOT_LISTED
from byway.storage.storage import Storage

SLOW_CLIENTS_MAX: Final = 50
"""Slow clients that are named, those with the most bytes waiting first."""


class Metrics:
    """All metrics of one broker process."""

    def __init__(self, server: BrokerServer, storage: Storage | None) -> None:
        self.errors = 0
        """Number of errors that reached the event loop."""
        self._registry = CollectorRegistry(auto_describe=False)
        ProcessCollector(registry=self._registry)
        self._registry.register(BrokerCollector(server))
        self._registry.register(ErrorCollector(self))
        if storage is not None:
            self._registry.register(StorageCollector(storage))

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self._registry)


class BrokerCollector(Collector):
    """Metrics of the broker and its connections."""

    def __init__(self, server: BrokerServer) -> None:
        self._server = server

    def collect(self) -> Iterator[Metric]:
        """The metrics of the broker, with their present values."""
        yield from self._facts()
        yield from self._publications()
        yield from self._tables()
        yield from self._links()
        yield from self._waits()
        yield from self._clients()

    def _facts(self) -> Iterator[Metric]:
        broker, driver = self._server.broker, self._server.driver
        labels = {"broker": broker.name, "version": __version__}
        info = GaugeMetricFamily(
            "byway_broker_info", "Name and version of the broker; always 1.", labels=list(labels)
        )
        info.add_metric(list(labels.values()), 1)
        yield info
        incarnation = broker.incarnation
        yield _gauge(
            "byway_broker_incarnation",
            "The incarnation; changes when the broker starts without its last state.",
            incarnation,
        )
        yield _counter(
            "byway_turns", "Turns of the broker, each with all inputs taken together.", driver.turns
        )
        busy = "Time spent in the broker: matching, routing, tables."
        yield _counter("byway_busy_seconds", busy, driver.busy_ns / 1e9)
        waiting = "Messages that wait for the broker."
        yield _gauge("byway_input_queue_messages", waiting, driver.inbox.waiting)
        held = "1 while publications wait because a client is slow."
        yield _gauge("byway_publications_held", held, int(driver.inbox.holding))

    def _publications(self) -> Iterator[Metric]:
        counters = self._server.broker.counters
        received = CounterMetricFamily(
            "byway_publications_received",
            "Publications accepted from clients, and taken from neighbours.",
            labels=["from"],
        )
        received.add_metric(["client"], counters.publications_published)
        received.add_metric(["link"], counters.publications_received)
        yield received
        yield _counter(
            "byway_duplicates",
            "Publications that arrived again and were dropped.",
            counters.duplicates,
        )
        words = "Publications put into sessions of clients."
        yield _counter("byway_deliveries", words, counters.deliveries)
        matched = "Publications that a local client wanted."
        yield _counter("byway_matched", matched, counters.matched)
        pure = "Publications from a neighbour that no local client wanted."
        yield _counter("byway_pure_forwarders", pure, counters.pure_forwarders)
        words = "Publications from a neighbour that nobody wanted, here or beyond."
        yield _counter("byway_false_positives", words, counters.false_positives)
        forwarded = CounterMetricFamily(
            "byway_messages_forwarded", "Messages sent to neighbours.", labels=["link", "kind"]
        )
        for link, kind, count in counters.sent():
            forwarded.add_metric([link, kind], count)
        yield forwarded

    def _tables(self) -> Iterator[Metric]:
        broker = self._server.broker
        entries = GaugeMetricFamily(
            "byway_routing_entries", "Entries of a routing table.", labels=["table"]
        )
        entries.add_metric(["advertisements"], len(broker.advertisements))
        entries.add_metric(["subscriptions"], len(broker.subscriptions))
        yield entries
        yield from self._placeholders()

    def _placeholders(self) -> Iterator[Metric]:
        broker = self._server.broker
        counters, statistics = broker.counters, broker.policy.statistics
        preserved, merged = map(by_link, placeholders(broker))
        words = "Preserved subscriptions on a link."
        yield self._by_link("byway_preserved_subscriptions", words, preserved)
        words = "Filters forwarded in place of several subscriptions."
        yield self._by_link("byway_mergers", words, merged)
        words = "Subscriptions forwarded because one that covered them ended."
        yield _counter("byway_subscriptions_triggered", words, counters.triggered)
        words = "Times that the broker did not forward an unsubscription over a link."
        yield _counter("byway_unsubscriptions_preserved", words, counters.preserved)
        words = "Times that the broker forwarded an unsubscription later, by retirement."
        yield _counter("byway_unsubscriptions_retired", words, counters.retired)
        words = "Rows about what local subscriptions received, to judge unsubscriptions by."
        yield _gauge("byway_statistics_rows", words, 0 if statistics is None else len(statistics))

    def _by_link(self, name: str, words: str, counts: Counter[str]) -> Metric:
        family = GaugeMetricFamily(name, words, labels=["link"])
        for link in self._server.broker.neighbours:
            family.add_metric([link], counts[link])
        return family

    def _links(self) -> Iterator[Metric]:
        server = self._server
        families = [
            GaugeMetricFamily(f"byway_link_{name}", words, labels=["link"])
            for name, words in (
                ("up", "1 while the broker at its other end is connected."),
                ("unconfirmed_messages", "Publications kept until a neighbour confirms them."),
                ("held_messages", "Publications that wait for their turn in a branch."),
                ("parked_messages", "Publications that wait for a dead neighbour or a way round."),
                ("bypassed_seconds", "How long publications have gone round a dead neighbour."),
                ("oldest_unconfirmed_seconds", "Age of the oldest unconfirmed publication."),
                ("waiting_messages", "Messages that wait for a neighbour to read."),
                ("waiting_bytes", "Bytes of the messages that wait for a neighbour to read."),
                ("blocked_seconds", "How long a neighbour has not been reading."),
            )
        ]
        info = GaugeMetricFamily(
            "byway_link_info",
            "What a link is for, and where its other end says that it can be dialled; always 1.",
            labels=["link", "kind", "listen"],
        )
        bypassed = server.broker.bypassed
        backlogs, at_us = {one.link: one for one in link_backlogs(server.broker)}, now_us()
        for link, facts in server.broker.links.items():
            backlog = backlogs[link]
            info.add_metric([link, facts.kind.value, facts.address], 1)
            connection = server.links.get(link)
            queue = (0, 0, 0.0)
            if connection is not None:
                queue = connection.waiting_messages, connection.waiting_bytes, connection.blocked_s
            age = age_s(at_us, backlog.oldest_us)
            parked = backlog.parked, age_s(at_us, bypassed.get(link))
            values = (int(facts.up), backlog.unconfirmed, backlog.held, *parked, age, *queue)
            for family, value in zip(families, values, strict=True):
                family.add_metric([link], value)
        yield from families
        yield info
        publishers, most = most_unconfirmed(server.broker)
        words = "Publishers whose publications are not all confirmed."
        yield _gauge("byway_publishers_unconfirmed", words, publishers)
        words = "Unconfirmed publications of the publisher that has the most."
        yield _gauge("byway_publisher_unconfirmed_messages_max", words, most)
        yield from self._publishers()

    def _publishers(self) -> Iterator[Metric]:
        families = [
            GaugeMetricFamily(f"byway_publisher_{name}_messages", words, labels=["publisher"])
            for name, words in (
                ("unconfirmed", "Publications that are not confirmed, of those with the most."),
                ("held", "Of these, copies that wait for their turn in a branch."),
                ("parked", "Of these, copies that wait for a dead neighbour or a way round."),
            )
        ]
        for publisher, *counts in publisher_counts(self._server.broker):
            for family, count in zip(families, counts, strict=True):
                family.add_metric([publisher], count)
        yield from families

    def _waits(self) -> Iterator[Metric]:
        broker = self._server.broker
        missing = Counter(name or NOT_LISTED for name in broker.missing)
        words = "1 while a neighbour's tables are missing, so that it counts as wanting everything."
        yield self._by_link("byway_sync_missing", words, missing)
        words = (
            "1 while the broker, which ran before and lost its state, waits for tables without a "
            "time limit."
        )
        yield _gauge("byway_sync_restarting", words, int(broker.is_restarting))
        labels = ["neighbour", "successor"]
        words = "1 while a broker that takes a neighbour's place has not told what it wants."
        awaited = GaugeMetricFamily("byway_succession_waiting", words, labels=labels)
        words = "Publications that waited for a neighbour which was replaced, and that are lost."
        lost = GaugeMetricFamily("byway_succession_lost_publications", words, labels=labels)
        for old, succession in broker.succession_of.items():
            awaited.add_metric([old, succession.successor], not succession.done)
            lost.add_metric([old, succession.successor], succession.lost.count)
        yield awaited
        yield lost
        words = "Brokers that are known to be out of reach."
        yield _gauge("byway_brokers_away", words, len(broker.unreachable))
        words = "Advertisements and subscriptions of local clients that are not settled."
        yield _gauge("byway_unsettled_entries", words, sum(1 for _ in broker.unsettled()))
        words = "Deliveries beyond a session's bounds that wait for clients to reconnect."
        yield _gauge("byway_deliveries_held", words, broker.held_deliveries)

    def _clients(self) -> Iterator[Metric]:
        server = self._server
        connections = GaugeMetricFamily(
            "byway_connections", "Open connections, by the role of the peer.", labels=["role"]
        )
        connections.add_metric(["broker"], sum(link.was_up for link in server.links.values()))
        connections.add_metric(["client"], len(server.clients))
        connections.add_metric(["unknown"], len(server.unidentified))
        yield connections
        yield self._closed()
        sessions = server.broker.session_totals()
        states = GaugeMetricFamily(
            "byway_sessions", "Clients with a session, connected (here) or not (away).",
            labels=["state"],
        )  # fmt: skip
        states.add_metric(["here"], sessions.attached)
        states.add_metric(["away"], sessions.away)
        yield states
        kept = "Deliveries kept until clients have acknowledged them."
        yield _gauge("byway_session_messages", kept, sessions.kept)
        size = "Bytes of the deliveries kept until clients have acknowledged them."
        yield _gauge("byway_session_bytes", size, sessions.kept_bytes)
        yield from self._slow_clients()

    def _closed(self) -> Metric:
        server = self._server
        clients = server.client_connections
        closed = CounterMetricFamily(
            "byway_connections_closed",
            "Connections refused or closed because of a bound.",
            labels=["bound"],
        )
        for bound, count in (
            ("clients", clients.refused),
            ("neighbours", server.neighbour_links.refused),
            ("soft_links", server.neighbour_links.refused_outside_tree),
            ("unidentified", server.unidentified_closed),
            ("partial_bytes", server.intake.closed_for_partial),
            ("frames", server.intake.closed_for_frames),
            ("answers", clients.backpressure.disconnected),
            ("deliveries", clients.slow_disconnects),
        ):
            closed.add_metric([bound], count)
        return closed

    def _slow_clients(self) -> Iterator[Metric]:
        slow = slow_subscribers(self._server)
        messages, size, since = (
            GaugeMetricFamily(f"byway_slow_client_{name}", words, labels=["client"])
            for name, words in (
                ("waiting_messages", "Deliveries that wait for a client that does not read."),
                ("waiting_bytes", "Bytes of the deliveries that wait for a client."),
                ("blocked_seconds", "How long a slow client has not been reading."),
            )
        )
        for name, connection in slow[:SLOW_CLIENTS_MAX]:
            messages.add_metric([name], connection.waiting_messages)
            size.add_metric([name], connection.waiting_bytes)
            since.add_metric([name], connection.blocked_s)
        yield from (messages, size, since)
        yield _gauge(
            "byway_slow_clients", "Clients that do not read what they are sent.", len(slow)
        )
        lost = CounterMetricFamily(
            "byway_slow_client_drops", "Deliveries that a slow client lost.", labels=["client"]
        )
        for name, count in sorted(self._server.client_connections.slow_drops.items()):
            lost.add_metric([name], count)
        yield lost


class StorageCollector(Collector):
    """Metrics of the broker's storage."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def collect(self) -> Iterator[Metric]:
        """The metrics of the storage, with their present values."""
        storage = self._storage
        yield _gauge(
            "byway_journal_bytes",
            "Bytes of inputs written since the last snapshot.",
            storage.journal_bytes,
        )
        yield _gauge("byway_snapshot_bytes", "Size of the last snapshot.", storage.snapshot_bytes)
        yield _counter("byway_snapshots", "Snapshots begun by this process.", storage.snapshots)
        words = "Snapshots that could not be written; their journals are kept."
        yield _counter("byway_snapshots_failed", words, storage.snapshots_failed)
        restarts = "Times a broker has restarted from this directory."
        yield _counter("byway_restarts", restarts, storage.starts - 1)
        files = storage.set_aside
        words = "Inputs that could not be handled and wait for an operator."
        yield _gauge("byway_set_aside", words, len(files.waiting))
        words = "Inputs that could not be handled and were set aside."
        yield _counter("byway_inputs_set_aside", words, files.total)
        words = "Times that an input that had been set aside arrived again and was refused."
        yield _counter("byway_inputs_refused", words, files.refused)


class ErrorCollector(Collector):
    """The metric of internal errors."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        """The number of internal errors."""
        words = "Errors raised by a bug in byway; the log has the details."
        yield _counter("byway_internal_errors", words, self._metrics.errors)


def _counter(name: str, words: str, value: float) -> Metric:
    return CounterMetricFamily(name, words, value)


def _gauge(name: str, words: str, value: float) -> Metric:
    return GaugeMetricFamily(name, words, value)
