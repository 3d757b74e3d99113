"""A connection between a simulated client and a broker.

The client's end speaks frames, as the client library does over TCP. The broker's end does what a
broker process does with a client's connection: it attaches the client, hands its requests to the
broker, and holds deliveries back while the client asks for it. Frames arrive in order, a latency
after they were sent, and so does the news that the other end is gone. When the connection breaks,
all that is under way is lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from byway.core.inputs import ClientAttached
from byway.model.bounds import REASON_LENGTH_MAX
from byway.model.errors import shortened
from byway.model.messages import (
    CLIENT_PROTOCOL_VERSION,
    AnyFrame,
    ClientHello,
    Delivery,
    Goodbye,
    HoldDeliveries,
    Preamble,
    PublishRequest,
    Replies,
    Reply,
    Requests,
    Welcome,
)
from byway.sim.engine.client_watch import ClientWatch
from byway.sim.engine.sim_clock import Clock

if TYPE_CHECKING:
    from byway.sim.engine.nodes import Node
    from byway.sim.engine.sim_client import SimClient


KEEPALIVE_MS: Final = 5_000
"""Of brokers; a world needs no keep-alives."""


class ClientWire:
    """One connection, from when the client dialled until either end closed it or it broke."""

    __slots__ = (
        "_clock", "_epoch", "_held", "_is_broken", "_is_held", "_latency_us", "client",
        "incarnation", "node", "number", "open", "watch",
    )  # fmt: skip

    is_encoded = False
    """Whether it carries bytes instead of frames."""

    def __init__(
        self, client: SimClient, node: Node, number: int, incarnation: int, latency_us: int
    ) -> None:
        self.client = client
        self.watch: ClientWatch = client.watch_at(node)
        self.node = node
        self.number = number
        """The number by which the client knows it."""
        self.incarnation = incarnation
        self.open = False
        """Whether the broker's end is open."""
        self._is_broken = False
        """Whether nothing arrives any more, at either end."""
        self._clock: Clock = client.clock
        self._latency_us = latency_us
        self._epoch = node.epoch
        self._is_held = False
        self._held: deque[Replies] = deque()

    def __repr__(self) -> str:
        return f"<ClientWire of {self.client.name} to {self.node.name}, open: {self.open}>"

    def _after_latency(self, function: Callable[[Any], None], argument: Any) -> None:
        if self._latency_us:
            self._clock.at(self._clock.now_us + self._latency_us, function, argument)
        else:
            function(argument)

    # --- connecting ------------------------------------------------------------------------------

    def connect(self) -> None:
        """The client dials."""
        self._after_latency(self._on_dialled, None)

    def _on_dialled(self, _: None) -> None:
        """The broker answers with its preamble, if it is there."""
        if self._is_broken:
            return
        node = self.node
        if node.broker is None or not node.answers:
            self._after_latency(self._lose, "the connection was refused")
            return
        self.open, self._epoch = True, node.epoch
        incarnation = node.broker.incarnation
        peer = Preamble(CLIENT_PROTOCOL_VERSION, "broker", node.name, incarnation, 0, KEEPALIVE_MS)
        self._after_latency(self._greet, peer)

    def _greet(self, peer: Preamble) -> None:
        if not self._is_broken:
            self.client.greeted(self, peer)

    def _lose(self, reason: str) -> None:
        if not self._is_broken:
            self.client.lost(self, reason)

    # --- to the broker ---------------------------------------------------------------------------

    def send(self, frame: AnyFrame) -> None:
        """The client sends a frame."""
        self._after_latency(self._on_frame, frame)

    def _on_frame(self, frame: AnyFrame) -> None:
        if self._is_broken or not self.open:
            return
        if self.node.epoch != self._epoch:  # the broker crashed before it knew of this connection
            self.crash()
            return
        name = self.client.name
        if type(frame) is Requests:
            assert self.node.clients.get(name) is self, f"{name} is not attached"
            bodies = (len(r.body) for r in frame.requests if type(r) is PublishRequest)
            self.node.requests(name, frame.requests, sum(bodies))
        elif isinstance(frame, HoldDeliveries):
            self._hold(frame.hold)
        elif isinstance(frame, ClientHello):
            self._on_hello(frame)
        else:
            assert isinstance(frame, Goodbye), f"a client does not send {type(frame).__name__}"
            self._on_goodbye(frame)

    def _on_hello(self, hello: ClientHello) -> None:
        """Attach the client, or refuse it, as a broker process does."""
        name, node = self.client.name, self.node
        assert node.broker is not None
        known = node.broker.session(name)
        if known is not None and known.incarnation > self.incarnation:
            self.close(f"a newer incarnation of client {name} was here", for_good=True)
            return
        old = node.clients.pop(name, None)
        if old is not None:
            node.drop_connection(name)
            old.close("another client of this name connected", for_good=True)
        node.clients[name] = self
        self._tell(Welcome(node.config.body_bytes_max))
        node.attach(
            ClientAttached(
                name, self.incarnation, hello.session_ttl_us, hello.received, hello.resumes
            )
        )

    def _on_goodbye(self, goodbye: Goodbye) -> None:
        """The client closes the connection; for good, its session ends after its requests."""
        self.open = False
        if self.node.clients.get(self.client.name) is not self:
            return
        if goodbye.for_good:
            self.node.goodbye(self.client.name)
        else:
            self.node.detach(self.client.name)

    # --- to the client ---------------------------------------------------------------------------

    def tell(self, replies: tuple[Reply, ...]) -> None:
        """The broker sends replies: answers at once, deliveries while the client wants them."""
        if not self.open or not replies:
            return
        if len(replies) == 1 and type(replies[0]) is Delivery:  # mostly
            self.watch.observed.delivery_sent(replies[0])
            deliveries = 1
        else:
            deliveries = self.watch.replies_sent(replies)
        if not deliveries:
            self._tell(Replies(replies))
            return
        if deliveries < len(replies):
            self._tell(Replies(tuple([r for r in replies if type(r) is not Delivery])))
            replies = tuple([r for r in replies if type(r) is Delivery])
        frame = Replies(replies)
        if self._is_held:
            self._held.append(frame)
        elif self._latency_us or self.is_encoded:
            self._tell(frame)
        elif not self._is_broken:
            self.client.receive(self, frame)

    def _hold(self, is_held: bool) -> None:
        self._is_held = is_held
        while self._held and not self._is_held and self.open:
            self._tell(self._held.popleft())

    def _tell(self, frame: AnyFrame) -> None:
        if self._latency_us:
            self._clock.at(self._clock.now_us + self._latency_us, self._arrive, frame)
        elif not self._is_broken:
            self.client.receive(self, frame)

    def _arrive(self, frame: AnyFrame) -> None:
        if not self._is_broken:
            self.client.receive(self, frame)

    # --- the end ---------------------------------------------------------------------------------

    def close(self, reason: str, *, for_good: bool = False) -> None:
        """The broker closes the connection, and says why."""
        if self.open:
            self.open = False
            self._tell(Goodbye(shortened(reason, REASON_LENGTH_MAX), for_good))
            self._after_latency(self._lose, reason)

    def crash(self) -> None:
        """The broker is gone, and can take nothing any more."""
        if self.open:
            self.open = False
            self._after_latency(self._lose, "the broker crashed")

    def break_off(self, reason: str, noticed_us: int | None = None) -> None:
        """The connection breaks, and the client notices at once; the broker after a latency, or
        `noticed_us` later."""
        if self._is_broken:
            return
        self._is_broken = True
        noticed_us = self._latency_us if noticed_us is None else noticed_us
        if noticed_us:
            self._clock.at(self._clock.now_us + noticed_us, self._on_break_noticed, None)
        else:
            self._on_break_noticed(None)
        self.client.lost(self, reason)

    def _on_break_noticed(self, _: None) -> None:
        if self.open and self.node.epoch == self._epoch:
            self.open = False
            if self.node.clients.get(self.client.name) is self:
                self.node.detach(self.client.name)
