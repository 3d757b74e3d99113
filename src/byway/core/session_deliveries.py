"""Deliveries: publications given to clients, and kept in their sessions until acknowledged.

What a session keeps is bounded, alone and together with all others: beyond its bounds the oldest
delivery is dropped. After a restart clients have some time to come back and lose nothing meanwhile:
a delivery beyond the bounds is *held*, and what it is a copy of stays unconfirmed.
"""

from __future__ import annotations

from typing import Final

from byway.core.client_session import ClientSession
from byway.core.context import Context
from byway.core.counters import columns_of
from byway.core.in_flight import InFlight
from byway.model.bounds import DELIVERED_NAMES_MAX
from byway.model.messages import Delivery, Publish
from byway.model.trace_schema import DropReason

DELIVERY_BYTES: Final = 256
"""What keeping a delivery takes, its publication apart."""


class SessionDeliveries:
    """What the sessions of one broker keep."""

    __slots__ = (
        "_beyond_shares_max", "_context", "_share", "beyond_shares", "held", "held_bytes",
        "in_grace",
    )  # fmt: skip

    def __init__(self, context: Context) -> None:
        self._context = context
        self.in_grace = False
        """Whether clients have time to come back after a restart, and lose nothing meanwhile."""
        self.held = 0
        """Deliveries beyond the bounds of sessions, which wait for their clients."""
        self.held_bytes = 0
        """What these take, as the bounds count copies."""
        self.beyond_shares = 0
        """Bytes that sessions keep beyond their shares, all together."""
        config = context.config
        self._share = config.sessions_bytes_max // 2 // max(config.sessions_max, 1)
        self._beyond_shares_max = config.sessions_bytes_max // 2

    def deliver(
        self,
        client: ClientSession,
        publication: Publish,
        names: tuple[str, ...],
        pending: InFlight,
    ) -> None:
        """Give a publication to a client that is connected, and keep it if the client may come
        back. `names` are the subscriptions that it matched: if they are more than one delivery may
        name, there are several deliveries."""
        if len(names) > DELIVERED_NAMES_MAX:
            for start in range(0, len(names), DELIVERED_NAMES_MAX):
                part = names[start : start + DELIVERED_NAMES_MAX]
                self.deliver(client, publication, part, pending)
            return
        client.deliveries += 1
        delivery = Delivery(client.deliveries, publication, names)
        if client.attached:
            self._context.out.tell(client.name, delivery)
        if client.ttl_us or not client.attached:
            self._keep(client, delivery, pending)

    def _keep(self, client: ClientSession, delivery: Delivery, pending: InFlight) -> None:
        """Keep a delivery. Whether any bound is reached is looked at first; mostly none is."""
        kept, config = client.kept, self._context.config
        kept.append(delivery)
        client.kept_bytes += len(delivery.publication.body)
        beyond = client.kept_bytes + DELIVERY_BYTES * len(kept) - self._share
        if beyond > 0:
            self.beyond_shares += beyond - client.beyond_share
            client.beyond_share = beyond
        if not (
            client.held
            or len(kept) > config.session_messages_max
            or client.kept_bytes > config.session_bytes_max
            or self.beyond_shares > self._beyond_shares_max
        ):
            return
        if self.in_grace and self._is_over(client):
            pending.left += 1
            client.held.append(pending)
            self.held += 1
            self.held_bytes += pending.bytes
        else:
            self.keep_within_bounds(client)

    def acknowledge(self, client: ClientSession, number: int) -> None:
        """A client has its deliveries up to a number: they are not kept any more."""
        while client.kept and client.kept[0].number <= number:
            client.kept_bytes -= len(client.kept.popleft().publication.body)
        if client.beyond_share:
            self.count_kept(client)
        self._confirm_held(client)

    def clear(self, client: ClientSession) -> None:
        """Keep nothing for a client any more."""
        client.kept.clear()
        client.kept_bytes = 0
        self.count_kept(client)
        self._confirm_held(client)

    def drop_undelivered(self, client: ClientSession) -> None:
        """Trace what is kept for a client that is not connected as dropped: its session ends."""
        for delivery in client.kept if not client.attached else ():
            self._trace_drop(client, delivery, DropReason.CLIENT_GONE)

    # --- bounds --------------------------------------------------------------------------------

    def count_kept(self, client: ClientSession) -> None:
        """Count what a client's session keeps, after that has changed."""
        size = client.kept_bytes + DELIVERY_BYTES * len(client.kept)
        beyond = max(size - self._share, 0)
        self.beyond_shares += beyond - client.beyond_share
        client.beyond_share = beyond

    def _is_over(self, client: ClientSession) -> bool:
        config = self._context.config
        return (
            len(client.kept) > config.session_messages_max
            or client.kept_bytes > config.session_bytes_max
            or self._is_beyond_all(client)
        )

    def _is_beyond_all(self, client: ClientSession) -> bool:
        """Whether all sessions together keep too much, and this one more than its share."""
        return client.beyond_share > 0 and self.beyond_shares > self._beyond_shares_max

    def keep_within_bounds(self, client: ClientSession) -> None:
        """Drop the oldest deliveries of a session that keeps too much."""
        while self._is_over(client):
            oldest = client.kept.popleft()
            client.kept_bytes -= len(oldest.publication.body)
            self.count_kept(client)
            if not client.attached:
                self._trace_drop(client, oldest, DropReason.QUEUE_FULL)
        self._confirm_held(client)

    def _confirm_held(self, client: ClientSession) -> None:
        """Confirm held deliveries that are within the bounds now, the oldest first: those beyond
        are the latest ones."""
        if not client.held:
            return
        config = self._context.config
        over = len(client.kept) - config.session_messages_max
        if client.kept_bytes > config.session_bytes_max:
            beyond = client.kept_bytes - config.session_bytes_max
            by_bytes = 0
            for delivery in reversed(client.kept):
                if beyond <= 0:
                    break
                beyond -= len(delivery.publication.body)
                by_bytes += 1
            over = max(over, by_bytes)
        if self._is_beyond_all(client):
            over = min(len(client.held), len(client.kept))  # what was received is held no longer
        while len(client.held) > max(over, 0):
            confirmed = client.held.popleft()
            self.held -= 1
            self.held_bytes -= confirmed.bytes
            self._context.finish(confirmed)

    def _trace_drop(self, client: ClientSession, delivery: Delivery, reason: DropReason) -> None:
        trace = self._context.trace
        if trace.enabled:
            columns = columns_of(delivery.publication)
            trace.dropped(self._context.now_us, reason, *columns, client=client.name)
