"""Publications: where each goes, and when it is confirmed to where it came from.

They follow matching subscriptions: `on_publish` or `on_requests`, then `_route`, then `_forward`
and `_deliver`. A copy is confirmed once every copy made of it is confirmed, and local clients have
it in their session. A copy that is sent again after a neighbour died is recognised by its
publisher's sequence; what becomes of it is decided in `duplicates`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from byway.core.bodies import read, routes_of
from byway.core.branch_queues import BranchQueues
from byway.core.client_session import ClientSession
from byway.core.clients import Clients
from byway.core.context import Context
from byway.core.counters import columns_of
from byway.core.covering.statistics import Statistics
from byway.core.duplicates import Duplicates
from byway.core.in_flight import COPY_BYTES, InFlight
from byway.core.links import UNLISTED
from byway.core.planning import Planner
from byway.core.recovery import Recovery
from byway.core.session_deliveries import SessionDeliveries
from byway.core.streams import Stream, Streams
from byway.core.tables import Entry
from byway.core.waiting_copies import WaitingCopies
from byway.core.window import Window
from byway.matching import Routes
from byway.model import conforms
from byway.model.bounds import DELTA_MAX, NEIGHBOURS_MAX
from byway.model.conformance import nonconformance
from byway.model.errors import BywayError, RemoteProtocolError
from byway.model.messages import (
    Delivery,
    PublicationRouted,
    PublicationsUnconfirmed,
    Publish,
    PublishRequest,
    Refused,
    RoutesRequest,
)
from byway.model.trace_schema import DropReason
from byway.model.values import Attributes, check_sizes

COUNT_MAX: Final = 2**30
REPORTED_MAX: Final = 4_096
"""Publications to come whose routes one client may ask for; beyond, it is not told."""


class Publications:
    """The path of publications through one broker."""

    __slots__ = (
        "_clients", "_context", "_deliveries", "_duplicates", "_published_hooks", "_recovery",
        "_routed_hooks", "streams", "waiting_copies",
    )  # fmt: skip

    def __init__(
        self,
        context: Context,
        clients: Clients,
        deliveries: SessionDeliveries,
        recovery: Recovery,
    ) -> None:
        self._context = context
        self._clients = clients
        self._deliveries = deliveries
        self._recovery = recovery
        config = context.config
        window = 0 if config.mesh.order == "publisher" else config.publisher_window
        self.streams = Streams(config.publishers_max, window)
        self._published_hooks = context.hooks.on_published
        self._routed_hooks = context.hooks.on_publication_routed
        self.waiting_copies = WaitingCopies(context, recovery, self.drop)
        self._duplicates = Duplicates(context, clients.sessions)

    # --- in ----------------------------------------------------------------------------------

    def on_publish(self, link: str, window: Window, number: int, message: Publish) -> None:
        """Take a publication from a neighbour, number `number` of its data lane."""
        context = self._context
        stream, sequence = self.streams.of(message.publisher, message.incarnation), message.sequence
        pending = InFlight(window, number, link, "", 1, stream, COPY_BYTES + len(message.body))
        seen = stream.seen
        if sequence <= stream.last and (seen is None or sequence in seen):
            context.counters.duplicates += 1
            self.drop(message, DropReason.DUPLICATE, link)
            self._duplicates.take(message, link, pending)
            return
        if seen is None:
            stream.last = sequence
        else:
            stream.see(sequence)
        if message.hop > context.config.hops_max:
            self.drop(message, DropReason.HOP_LIMIT, link)
        else:
            index, exclude = context.routing.subscriptions.index, context.numbers.known(link)
            if exclude is None and context.held is not None:  # it came over a soft link
                exclude = context.numbers.known(context.branch_of(link))
            routes = index.match_body(message.body, exclude)
            if routes is None:  # it is not plain
                try:
                    routes = routes_of(message.body, index, exclude)
                except msgspec.DecodeError as error:
                    reason = f"sends a publication that cannot be read: {error}"
                    raise RemoteProtocolError(link, reason) from error
            context.counters.publications_received += 1
            if stream.owed is not None:
                routes = self._with_owed(routes, stream, sequence, link)
            self._route(message, routes, link, pending)
        context.finish(pending)

    def on_requests(self, client: ClientSession, requests: Sequence[PublishRequest]) -> None:
        """Take publications from a local client: what `on_request` would do for each, with less
        work for those that need no further look."""
        context = self._context
        if client.reported or not self._admits_all(client):
            for request in requests:
                self.on_request(client, request)
            return
        name, incarnation, window = client.name, client.incarnation, client.window
        before = client.sequence
        now_us, largest = context.now_us, context.config.body_bytes_max
        match_body, hand_out = context.routing.subscriptions.index.match_body, self._hand_out
        is_watched, published, last = self._is_watched, 0, 0
        stream: Stream | None = None
        for request in requests:
            sequence, body = request.sequence, request.body
            if sequence != client.sequence + 1 or len(body) > largest:
                self.on_request(client, request)
                continue
            routes = match_body(body, None)
            if routes is None:
                self.on_request(client, request)
                continue
            if stream is None:
                stream = self.streams.of(name, incarnation)
            client.sequence = last = sequence
            published += 1
            message = Publish(name, incarnation, sequence, now_us, 0, 0, 0, body)
            if is_watched:
                message = self._with_header(message)
            if not is_watched and hand_out(message, routes):
                window.finish(sequence)
            else:
                size = COPY_BYTES + len(body)
                pending = InFlight(window, sequence, None, name, 1, stream, size)
                self._route(message, routes, None, pending)
                context.finish(pending)
        if stream is not None:
            context.out.confirming[name] = None
            context.counters.publications_published += published
            stream.last = max(stream.last, last)
            if stream.seen is not None:
                for sequence in range(before + 1, last + 1):
                    stream.seen.add(sequence)

    def _admits_all(self, client: ClientSession) -> bool:
        """Whether a client may publish whatever is a publication."""
        if not self._context.config.conformance:
            return True
        entries = map(self._context.routing.adverts.get, client.adverts.values())
        return any(entry is not None and entry.filter.open for entry in entries)

    def on_request(self, client: ClientSession, request: PublishRequest) -> None:
        """Take a publication from a local client."""
        context = self._context
        if request.sequence <= client.sequence:
            return  # sent again though we have it
        if request.sequence != client.sequence + 1:
            expected = f"expected sequence {client.sequence + 1}"
            context.out.tell(client.name, Refused(str(request.sequence), expected))
            return
        client.sequence = request.sequence
        context.out.confirming[client.name] = None
        pending = InFlight(client.window, request.sequence, None, client.name, 1)
        reason, attributes = self._admissible(client, request.body)
        message = Publish(
            client.name, client.incarnation, request.sequence, context.now_us, 0, 0, 0,
            request.body,
        )  # fmt: skip
        if reason is not None:
            client.reported.discard(request.sequence)
            self._refuse(client, request.sequence, reason)
            self.drop(message, DropReason.NONCONFORMING, None)
        else:
            context.counters.publications_published += 1
            if self._published_hooks:
                message = self._with_header(message)
            pending.stream = stream = self.streams.of(client.name, client.incarnation)
            pending.bytes += len(request.body)
            stream.see(request.sequence)
            routes = routes_of(request.body, context.routing.subscriptions.index, None)
            if client.reported and request.sequence in client.reported:
                self._route_reported(client, message, routes, attributes, pending)
            else:
                self._route(message, routes, None, pending)
        context.finish(pending)

    def on_routes_request(self, client: ClientSession, request: RoutesRequest) -> None:
        """A client wants to know where a publication that follows goes."""
        if request.sequence > client.sequence and len(client.reported) < REPORTED_MAX:
            client.reported.add(request.sequence)

    def discard(self, client: ClientSession, request: PublishRequest, reason: str) -> None:
        """Give up a publication of a local client: it counts as published and as finished."""
        context = self._context
        if request.sequence != client.sequence + 1:
            return  # it is a duplicate, or another one has to come first
        client.sequence = request.sequence
        context.out.confirming[client.name] = None
        self._refuse(client, request.sequence, reason)
        message = Publish(
            client.name, client.incarnation, request.sequence, context.now_us, 0, 0, 0,
            request.body,
        )  # fmt: skip
        self.drop(message, DropReason.DISCARDED, None)
        context.finish(InFlight(client.window, request.sequence, None, client.name, 1))

    def _with_header(self, message: Publish) -> Publish:
        """A publication of a local client, with the header fields that hooks set."""
        for hook in self._published_hooks:
            headed = hook(message)
            assert headed.body is message.body and _identity(headed) == _identity(message), (
                "its identity and body are the client's"
            )
            message = headed
        return message

    def _refuse(self, client: ClientSession, sequence: int, reason: str) -> None:
        """Tell a client that a publication is refused; once more, should it resume its session."""
        client.refused.append(sequence)
        self._context.out.tell(client.name, Refused(str(sequence), reason))

    def _admissible(self, client: ClientSession, body: bytes) -> tuple[str | None, Attributes]:
        """Why a publication is refused, if it is, and its attributes."""
        largest = self._context.config.body_bytes_max
        if len(body) > largest:
            return f"it has {len(body)} bytes: at most {largest} are taken", {}
        try:
            attributes = read(body)
            check_sizes(attributes, len(body))
        except (msgspec.DecodeError, BywayError) as error:
            return str(error), {}
        if not self._context.config.conformance:
            return None, attributes
        for id in client.adverts.values():
            entry = self._context.routing.adverts.get(id)
            if entry is not None and conforms(attributes, entry.filter):
                return None, attributes
        entries = map(self._context.routing.adverts.get, client.adverts.values())
        return nonconformance(attributes, (e.filter for e in entries if e is not None)), attributes

    # --- out ----------------------------------------------------------------------------------

    @property
    def _is_watched(self) -> bool:
        """Whether more is to be done with publications than to route them."""
        return bool(
            self._context.trace.enabled
            or self._context.hooks.sees_publications
            or self._recovery.missing
            or self._context.routing.observer is not None
            or self._context.routing.policy.statistics is not None
        )

    def _hand_out(self, message: Publish, routes: Routes) -> bool:
        """Do what `_route` does, if nothing remains to be confirmed: the publication, which nothing
        watches, is for no neighbour, and for one local subscription at most, whose client is
        connected and has no session that is kept. Whether that is so."""
        context = self._context
        mask, _, local, _ = routes
        if mask or len(local) > 1:
            return False
        if local:
            (entry,) = context.routing.subscriptions.matched(local)
            client = self._clients.sessions[entry.origin.client]
            if client.ttl_us or not client.attached:
                return False
            client.deliveries += 1
            delivery = Delivery(client.deliveries, message, (entry.id.name,))
            context.out.tell(client.name, delivery)
            context.counters.matched += 1
            context.counters.deliveries += 1
        mismatches = context.kind_mismatches
        mismatches.until -= 1
        if not mismatches.until:
            mismatches.sample(read(message.body))
        return True

    def _route(self, message: Publish, routes: Routes, link: str | None, pending: InFlight) -> None:
        """Give a publication to the local clients and links that its routes name."""
        context = self._context
        routing = context.routing
        mask, matched, local, _ = routes
        links: Sequence[str] = context.numbers.links(mask) if mask else ()
        if self._recovery.missing:
            links = self._with_missing(links, link)
        clients: Sequence[str] = ()
        if local:
            entries = routing.subscriptions.matched(local)
            clients = self._deliver(message, entries, pending)
            statistics = routing.policy.statistics
            if statistics is not None and link is not None:
                self._record(statistics, message, entries, matched)
            context.counters.matched += 1
        elif link is not None:
            context.counters.pure_forwarders += 1
            if not links:
                context.counters.false_positives += 1
        observer = routing.observer
        if observer is not None and link is not None and observer.observes():
            observer.observe(read(message.body), link)
        if context.trace.enabled:
            self._trace_arrival(message, link, len(clients), len(links))
        if links:
            self._forward(message, links, routes, pending)
        if clients and context.trace.enabled:
            context.trace.delivered(context.now_us, clients, *columns_of(message))
        if self._routed_hooks:
            named = links[1:] if links and links[0] == UNLISTED else links
            for hook in self._routed_hooks:
                hook(message, link, named, clients)
        mismatches = context.kind_mismatches
        mismatches.until -= 1
        if not mismatches.until:
            mismatches.sample(read(message.body))

    def _route_reported(
        self,
        client: ClientSession,
        message: Publish,
        routes: Routes,
        attributes: Attributes,
        pending: InFlight,
    ) -> None:
        """Route a publication of a local client, and tell it where the publication went."""
        found: list[tuple[Sequence[str], Sequence[str]]] = []
        self._routed_hooks.append(lambda *routed: found.append(routed[2:]))
        self._route(message, routes, None, pending)
        self._routed_hooks.pop()
        ((links, clients),) = found
        client.reported.discard(message.sequence)
        self._context.out.tell(
            client.name,
            PublicationRouted(
                message.sequence,
                len(clients),
                tuple(links[:NEIGHBOURS_MAX]),
                self._is_settled(client, attributes),
            ),
        )

    def _is_settled(self, client: ClientSession, attributes: Attributes) -> bool:
        """Whether a publication conforms to an advertisement that every broker has answered for:
        no subscription to it is under way to here."""
        entries = map(self._context.routing.adverts.get, client.adverts.values())
        return any(
            entry.settled and not entry.awaiting and conforms(attributes, entry.filter)
            for entry in entries
            if entry is not None
        )

    def _forward(
        self, message: Publish, links: Sequence[str], routes: Routes, pending: InFlight
    ) -> None:
        context = self._context
        mask, matched, _, several = routes
        # incremental filter aggregation §IV: hops since two or more matched
        distance = 1 if matched > 1 else _distance(message) + 1
        # selective filter aggregation §IV: other matches on the way, not at its home broker
        count = min(message.count + (matched - 1 if matched and message.hop else 0), COUNT_MAX)
        if context.held is not None:
            missing: Sequence[str] = ()
            if self._recovery.missing:
                matched_links = context.numbers.links(mask)
                missing = [link for link in links if link not in matched_links]
            pending.several = several
            context.held.forward(message, distance, count, mask, missing, pending)
            return
        onward = Publish(  # a function that makes it would be called for every publication
            message.publisher,
            message.incarnation,
            message.sequence,
            message.published_us,
            message.hop + 1,
            distance,
            count,
            message.body,
        )
        # what a `TreePlanner` would plan, without asking one
        context.copies.append_to_all(links, onward, pending, context.out.touched)

    def _record(
        self, statistics: Statistics, message: Publish, entries: Sequence[Entry], matched: int
    ) -> None:
        """Record, for pruning, how far a publication came and who else wanted it."""
        distance = 0 if matched > 1 else _distance(message)
        count = message.count + matched - 1
        for entry in entries:
            statistics.record(entry.key, message.publisher, distance, count, self._context.now_us)

    def _deliver(
        self, message: Publish, entries: Sequence[Entry], pending: InFlight
    ) -> Sequence[str]:
        """Give a publication to local clients, each once; their names."""
        if len(entries) == 1:
            (entry,) = entries
            client = entry.origin.client
            session = self._clients.sessions[client]
            self._deliveries.deliver(session, message, (entry.id.name,), pending)
            self._context.counters.deliveries += 1
            return (client,)
        names: dict[str, list[str]] = {}
        for entry in entries:
            names.setdefault(entry.origin.client, []).append(entry.id.name)
        sessions, deliver = self._clients.sessions, self._deliveries.deliver
        for client, matching in names.items():
            deliver(sessions[client], message, tuple(matching), pending)
        self._context.counters.deliveries += len(names)
        return list(names)

    # --- unconfirmed at a neighbour ------------------------------------------------------------

    def unconfirmed_from(self, link: str) -> list[tuple[str, int, int]]:
        """By publisher and incarnation, the highest sequence of publications that came from the
        side of a neighbour and are unconfirmed here, or were behind others when these said so."""
        branch_of, sources = self._context.branch_of, self._duplicates.in_flight()
        open_here = {
            id(s.stream) for s in sources if s.link is not None and branch_of(s.link) == link
        }
        found = {}
        for generation in (self.streams.old, self.streams.young):
            for key, stream in generation.items():
                owed = [n for other, n in (stream.owed or {}).items() if other != link]
                last = max([*owed, stream.last if id(stream) in open_here else 0])
                if last:
                    found[key] = last
        return [(*key, last) for key, last in sorted(found.items())]

    def on_unconfirmed(self, link: str, message: PublicationsUnconfirmed) -> None:
        """A neighbour has unconfirmed publications from this side, which may come again."""
        for publisher, incarnation, last in message.publishers:
            self.streams.of(publisher, incarnation).owe(link, last)

    def _with_owed(self, routes: Routes, stream: Stream, sequence: int, link: str) -> Routes:
        """The routes of a publication, and neighbours that have it unconfirmed."""
        mask, matched, local, several = routes
        assert stream.owed is not None, "nothing is owed"
        for other, last in stream.owed.items():
            if sequence <= last and other != link and other in self._context.tree:
                mask |= 1 << self._context.numbers.number(other)
        if sequence > max(stream.owed.values()) and stream.seen is None:
            stream.owed = None  # they come in order
        return mask, matched, local, several

    # --- neighbours whose tables are missing ---------------------------------------------------

    def _with_missing(self, links: Sequence[str], link: str | None) -> Sequence[str]:
        """These links, and those of neighbours whose tables are missing: they count as wanting
        everything."""
        missing, branch = self._recovery.missing, link
        if link is not None and self._context.held is not None:
            branch = self._context.branch_of(link)
        return sorted({*links, *(name for name in missing if name != branch)})

    def use_planner(self, planner: Planner) -> None:
        """Let a planner decide over which links copies travel."""
        context = self._context
        context.held = BranchQueues(context, planner, self.streams)

    # --- trace ---------------------------------------------------------------------------------

    def _trace_arrival(self, message: Publish, link: str | None, matches: int, copies: int) -> None:
        context = self._context
        if link is None:
            context.trace.published(
                context.now_us, message.publisher, message.incarnation, message.sequence,
                message.published_us, matches, copies, len(message.body),
            )  # fmt: skip
        else:
            context.trace.received(
                context.now_us, link, message.publisher, message.incarnation, message.sequence,
                message.published_us, message.hop, message.distance, matches, copies,
                len(message.body), context.span(link),
            )  # fmt: skip

    def drop(self, message: Publish, reason: DropReason, link: str | None) -> None:
        """Trace that a publication is dropped."""
        if self._context.trace.enabled:
            columns = columns_of(message)
            self._context.trace.dropped(self._context.now_us, reason, *columns, link=link)


def _distance(message: Publish) -> int:
    """The distance in a header, which counts hops of the tree: no more than soft links can pass by
    in so many hops."""
    return min(message.distance, message.hop * DELTA_MAX)


def _identity(message: Publish) -> tuple[str, int, int]:
    return message.publisher, message.incarnation, message.sequence
