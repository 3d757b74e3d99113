"""Nodes: a broker with its inbox, and one server that works through it.

What waits is taken a batch at a time, and the broker is busy for as long as the service profile
says; what it wants done is done then. What connects, attaches or falls due does not wait: it
reaches the broker at once. A node decides when a broker is served, never what a message means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappush
from typing import TYPE_CHECKING, Any, Final

from byway.core.actions import (
    Action,
    CancelTimer,
    CloseLink,
    OpenLink,
    Send,
    SendReply,
    SetTimer,
    Timer,
)
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import (
    ClientDetached,
    ClientRequested,
    FrameReceived,
    Input,
    TimerFired,
)
from byway.model.messages import Frame, Request
from byway.sim.engine.clock import Clock
from byway.sim.engine.inbox import Inbox
from byway.sim.engine.network import Transmitter, Way
from byway.sim.engine.service import ServiceProfile, Work
from byway.sim.oracle.account import Account
from byway.trace import NullTrace, TraceBuffer

if TYPE_CHECKING:
    from byway.sim.engine.sim_client import SimClient

DRAIN_ROWS: Final = 4_096
"""Trace rows of one broker that wait before they are written."""


class Node:
    """One broker of a world."""

    def __init__(
        self,
        name: str,
        config: BrokerConfig,
        clock: Clock,
        account: Account,
        profile: ServiceProfile,
        trace: TraceBuffer | None,
        uplink: Transmitter | None,
    ) -> None:
        self.name = name
        self.config = config
        self.broker: Broker | None = None
        self.trace = trace or NullTrace(name)
        self.uplink = uplink
        self.ways: dict[str, Way] = {}
        """By neighbour, the open connection to it, as a way out."""
        self.clients: dict[str, SimClient] = {}
        """Those that are attached."""
        self.timers: dict[Timer, int] = {}
        """When each falls due."""
        self.times = profile.times(config.covering)
        """How long the broker works at a message, and what that adds up to."""
        self.slowness = 1.0
        self.closed: Callable[[str, str], None] = _nowhere
        """Called when the broker wants a connection closed: the neighbour, and why."""
        self.drain: Callable[[TraceBuffer], None] | None = None
        self._clock = clock
        self._account = account
        self._pickup_us = profile.pickup_us
        self._inbox = Inbox()
        self._busy = False
        self._serving: list[Input] | None = None
        self._era = 0
        """Counts up when the broker crashes, so that what was to happen to it does not."""
        self._rare: dict[type, Callable[[Any], None]] = {
            SetTimer: self._set_timer,
            CancelTimer: self._cancel_timer,
            CloseLink: lambda action: self.closed(action.link, action.reason),
            OpenLink: _done_anyway,
        }

    def __repr__(self) -> str:
        return f"<Node {self.name}: {self.waiting} wait, {self.broker!r}>"

    @property
    def waiting(self) -> int:
        """Messages in the inbox, those that are being served apart."""
        return self._inbox.waiting

    @property
    def peak_queue(self) -> int:
        """The most messages that were in the inbox at one time."""
        return self._inbox.peak

    @property
    def waiting_bytes(self) -> int:
        """Their size."""
        return self._inbox.waiting_bytes

    def measure_anew(self) -> None:
        """Forget what the inbox and the times came to so far."""
        self._inbox.peak = self._inbox.waiting
        self.times.work = Work()

    # --- life ----------------------------------------------------------------------------------

    def start(self, broker: Broker) -> None:
        """The broker is there from now on."""
        assert self.broker is None, f"{self.name} is up"
        self.broker = broker

    def stop(self) -> Broker:
        """The broker crashes; what waits is lost, and clients know what was not read."""
        assert self.broker is not None, f"{self.name} is down"
        broker, self.broker = self.broker, None
        self._era += 1
        unread = self.unread()
        for client in list(self.clients.values()):
            client.cut_off(unread.get(client.name, []))
        self.clients.clear()
        self._inbox = Inbox(self._inbox.peak)
        self._busy, self._serving = False, None
        self.timers.clear()
        return broker

    def at_once(self, event: Input) -> None:
        """Something that does not queue reaches the broker."""
        assert self.broker is not None, f"{self.name} is down"
        self._perform(self.broker.handle(self._clock.now_us, event))
        if self._inbox:
            self._noticed()  # the broker may want to read it now

    # --- what comes in -------------------------------------------------------------------------

    def receive(self, link: str, frame: Frame) -> None:
        """A frame arrives from a neighbour."""
        self._inbox.put_frame(link, frame)
        if not self._busy:
            self._noticed()

    def request(self, client: str, request: Request) -> None:
        """A client asks for something."""
        self._inbox.put_request(client, request)
        self._noticed()

    def goodbye(self, client: str) -> None:
        """A client leaves for good, after what it asked for before."""
        self._inbox.put_goodbye(client)
        self._noticed()

    def unread(self, client: str | None = None) -> dict[str, list[Request]]:
        """Take back what a client, or all clients, asked for and the broker has not read."""
        found: dict[str, list[Request]] = {}

        def is_theirs(event: Input) -> bool:
            if not isinstance(event, ClientRequested | ClientDetached):
                return False
            if client is not None and event.client != client:
                return False
            if isinstance(event, ClientRequested):
                found.setdefault(event.client, []).extend(event.requests)
            return True

        self._leave_out(is_theirs)
        return found

    def lose_frames(self, link: str) -> None:
        """A connection broke: what came over it and was not read is lost."""
        self._leave_out(lambda event: type(event) is FrameReceived and event.link == link)

    def _leave_out(self, leaves: Callable[[Input], bool]) -> None:
        if self._serving is not None:
            self._serving = [event for event in self._serving if not leaves(event)]
        self._inbox.leave_out(leaves)

    # --- the server ----------------------------------------------------------------------------

    def _noticed(self) -> None:
        """Something came in."""
        if not self._busy:
            self._busy = True
            clock = self._clock
            at_us = clock.now_us + self._pickup_us
            heappush(clock.foreground, (at_us, clock.order(), self._serve, self._era))

    def _serve(self, era: int) -> None:
        """Take a batch, and be busy with it."""
        if era != self._era:
            return
        assert self.broker is not None
        while events := self._inbox.take(self.broker):
            if not self.times.instant:
                needed_us = self.times.of(events, len(self.broker.subscriptions)) * self.slowness
                duration_us = int(needed_us + 0.5)
                if duration_us:
                    self._serving = events
                    self._clock.at(self._clock.now_us + duration_us, self._served, era)
                    return
            self._work(events)
        self._busy = False

    def _served(self, era: int) -> None:
        if era != self._era:
            return
        events, self._serving = self._serving, None
        if events:
            self._work(events)
        self._serve(era)

    def _work(self, events: list[Input]) -> None:
        """Let the broker have a batch, and do what it wants done."""
        broker = self.broker
        assert broker is not None
        requested = [event for event in events if type(event) is not FrameReceived]
        for event in requested:
            self._asked(event)
        self._perform(broker.handle_batch(self._clock.now_us, events))
        for event in requested:
            self._answered(event)

    def _asked(self, event: Input) -> None:
        if type(event) is ClientRequested:
            client = self.clients[event.client]
            for request in event.requests:
                client.taken(request)

    def _answered(self, event: Input) -> None:
        if type(event) is ClientRequested:
            client = self.clients.get(event.client)
            if client is not None:
                for request in event.requests:
                    client.handled(request)
        elif type(event) is ClientDetached:
            self.clients.pop(event.client).gone()

    # --- what the broker wants done ------------------------------------------------------------

    def _perform(self, actions: Sequence[Action]) -> None:
        ways, clients = self.ways, self.clients
        for action in actions:
            kind = type(action)
            if kind is Send:
                way = ways.get(action.link)  # type: ignore[union-attr]
                if way is not None:
                    way.send(action.frame)  # type: ignore[union-attr]
            elif kind is SendReply:
                client = clients.get(action.client)  # type: ignore[union-attr]
                if client is not None:
                    client.told(action.replies)  # type: ignore[union-attr]
            else:
                self._rare[kind](action)
        if self._account.news:
            self._account.conclude()
        if self.drain is not None and self.trace.rows >= DRAIN_ROWS:
            self.drain(self.trace)

    def _set_timer(self, action: SetTimer) -> None:
        at_us = max(action.at_us, self._clock.now_us)
        self.timers[action.timer] = at_us
        self._clock.aside_at(at_us, self._due, (action.timer, at_us, self._era))

    def _cancel_timer(self, action: CancelTimer) -> None:
        self.timers.pop(action.timer, None)

    def _due(self, what: tuple[Timer, int, int]) -> None:
        timer, at_us, era = what
        if era == self._era and self.timers.get(timer) == at_us:
            del self.timers[timer]
            self.at_once(TimerFired(timer))


def _done_anyway(action: OpenLink) -> None:
    """The world connects neighbours whenever it can."""
    del action


def _nowhere(link: str, reason: str) -> None:
    raise AssertionError(f"nobody closes the connection to {link} ({reason})")
