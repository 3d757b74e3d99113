"""Nodes: a broker with its inbox, and the server that works through it.

Inputs are taken from the inbox a batch at a time. The broker is busy with a batch for as long as
the service profile says, and its actions are performed at the end. Connections, attachments and
timers do not queue: they reach the broker at once. A node decides when a broker is served, never
what a message means.
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
from byway.sim.engine.inbox import Inbox
from byway.sim.engine.network import Channel, Transmitter
from byway.sim.engine.observer import Observer
from byway.sim.engine.service import ServiceProfile, Work
from byway.sim.engine.sim_clock import Clock
from byway.trace import NullTrace, TraceBuffer

if TYPE_CHECKING:
    from byway.sim.engine.client_wire import ClientWire

DRAIN_ROWS: Final = 4_096
"""The trace rows of one broker that are buffered before they are written."""
Read = Callable[[], None]
"""Is called when a broker is about to handle an input."""


class Node:
    """One broker of a world, up or down."""

    keeps_inputs = False
    """Whether inputs are kept on a disk before the broker handles them."""

    def __init__(
        self,
        name: str,
        config: BrokerConfig,
        clock: Clock,
        observer: Observer,
        profile: ServiceProfile,
        trace: TraceBuffer | None,
        uplink: Transmitter | None,
    ) -> None:
        self.name = name
        self.config = config
        self.broker: Broker | None = None
        """The broker; None while it is down."""
        self.trace = trace or NullTrace(name)
        self.uplink = uplink
        self.channels: dict[str, Channel] = {}
        """By neighbour that is connected, the channel to it."""
        self.clients: dict[str, ClientWire] = {}
        """By name, the connections of clients that are attached or said goodbye."""
        self.answers = False
        """Whether clients that dial are answered."""
        self.timers: dict[Timer, int] = {}
        """The timers that are set, and when each is due."""
        self.times = profile.times(config.covering)
        """The service times of the broker, and the work it has done."""
        self.slowness = 1.0
        """The factor by which all service times are longer than the profile says."""
        self.closed: Callable[[str, str], None] = _nowhere
        """Is called with a neighbour and the reason when the broker closes a connection."""
        self.drain: Callable[[TraceBuffer], None] | None = None
        """Is called with the trace buffer when it is full."""
        self._clock = clock
        self._observer = observer
        self._pickup_us = profile.pickup_us
        self._inbox = Inbox()
        self._peak_before = 0
        """The most messages that were in the inbox before measuring began."""
        self._busy = False
        self._serving: list[Input] | None = None
        self.epoch = 0
        """Counts the crashes of the broker: what was scheduled before a crash is void."""
        self._rare: dict[type, Callable[[Any], None]] = {
            SetTimer: self._set_timer,
            CancelTimer: self._cancel_timer,
            CloseLink: lambda action: self.closed(action.link, action.reason),
            OpenLink: _ignore,
        }

    def __repr__(self) -> str:
        return f"<Node {self.name}: {self.waiting} wait, {self.broker!r}>"

    @property
    def waiting(self) -> int:
        """The number of messages in the inbox; those being served are not in it."""
        return self._inbox.waiting

    @property
    def peak_queue(self) -> int:
        """The most messages that were in the inbox at one time since measuring began."""
        return self._inbox.peak

    @property
    def peak_queue_of_run(self) -> int:
        """The most messages that were in the inbox at one time."""
        return max(self._peak_before, self._inbox.peak)

    @property
    def waiting_bytes(self) -> int:
        """The size of the messages in the inbox."""
        return self._inbox.waiting_bytes

    def reset_measures(self) -> None:
        """Measure the queue and the work of the broker from now on."""
        self._peak_before = self.peak_queue_of_run
        self._inbox.peak = self._inbox.waiting
        self.times.work = Work()

    # --- life ----------------------------------------------------------------------------------

    def start(self, broker: Broker) -> None:
        """The broker is up from now on."""
        assert self.broker is None, f"{self.name} is up"
        self.broker = broker

    def stop(self) -> Broker:
        """The broker crashes: frames that wait are lost, requests go back to their clients. Returns
        the broker that was."""
        assert self.broker is not None, f"{self.name} is down"
        broker, self.broker = self.broker, None
        self.epoch += 1
        self.answers = False
        wires, self.clients = list(self.clients.values()), {}
        self._inbox = Inbox(self._inbox.peak)
        self._busy, self._serving = False, None
        self.timers.clear()
        for wire in wires:
            wire.crash()
        return broker

    def handle_now(self, event: Input, read: Read | None = None) -> None:
        """Let the broker handle an input that does not queue; `read` is called just before."""
        assert self.broker is not None, f"{self.name} is down"
        if read is not None:
            read()
        self._perform(self.broker.handle(self._clock.now_us, event))
        if self._inbox:
            self._schedule_service()  # the broker may want to read it now

    # --- what comes in -------------------------------------------------------------------------

    def receive(self, link: str, frame: Frame) -> None:
        """Queue a frame from a neighbour."""
        self._inbox.put_frame(link, frame)
        if not self._busy:
            self._schedule_service()

    def requests(self, client: str, requests: Sequence[Request], size_bytes: int) -> None:
        """Queue the requests of a client's frame, whose publications have so many bytes."""
        del size_bytes
        for request in requests:
            self._inbox.put_request(client, request)
        self._schedule_service()

    def goodbye(self, client: str) -> None:
        """Queue the end of a client's session, after its requests."""
        self._inbox.put_goodbye(client)
        self._schedule_service()

    def drop_requests(self, client: str) -> None:
        """A client's connection is gone: requests that the broker has not handled are lost."""
        self._drop(
            lambda event: (
                isinstance(event, ClientRequested | ClientDetached) and event.client == client
            )
        )

    def drop_frames(self, link: str) -> None:
        """A connection broke: frames that came over it and were not read are lost."""
        self._drop(lambda event: type(event) is FrameReceived and event.link == link)

    def _drop(self, dropped: Callable[[Input], bool]) -> None:
        if self._serving is not None:
            self._serving = [event for event in self._serving if not dropped(event)]
        self._inbox.drop(dropped)

    # --- the server ----------------------------------------------------------------------------

    def _schedule_service(self) -> None:
        """The inbox is not empty: look at it after the pick-up time, unless the broker is busy."""
        if not self._busy:
            self._busy = True
            clock = self._clock
            at_us = clock.now_us + self._pickup_us
            heappush(clock.foreground, (at_us, clock.order(), self._serve, self.epoch))

    def _serve(self, epoch: int) -> None:
        """Take a batch and be busy with it, until the inbox is empty."""
        if epoch != self.epoch:
            return
        assert self.broker is not None
        while events := self._inbox.take(self.broker):
            if not self.times.instant:
                needed_us = self.times.of(events, len(self.broker.subscriptions)) * self.slowness
                duration_us = int(needed_us + 0.5)
                if duration_us:
                    self._serving = events
                    self._clock.at(self._clock.now_us + duration_us, self._served, epoch)
                    return
            self._work(events)
        self._busy = False

    def _served(self, epoch: int) -> None:
        if epoch != self.epoch:
            return
        events, self._serving = self._serving, None
        if events:
            self._work(events)
        self._serve(epoch)

    def _work(self, events: list[Input]) -> None:
        """Let the broker handle a batch, and perform its actions."""
        broker = self.broker
        assert broker is not None
        requested = [event for event in events if type(event) is not FrameReceived]
        for event in requested:
            self._report_read(event)
        self._perform(broker.handle_batch(self._clock.now_us, events))
        for event in requested:
            self._report_handled(event)

    def _report_read(self, event: Input) -> None:
        if type(event) is ClientRequested:
            watch = self.clients[event.client].watch
            for request in event.requests:
                watch.request_read(request)

    def _report_handled(self, event: Input) -> None:
        if type(event) is ClientRequested:
            wire = self.clients.get(event.client)
            if wire is not None:
                for request in event.requests:
                    wire.watch.request_handled(request)
        elif type(event) is ClientDetached:
            self.clients.pop(event.client).watch.lose_session()

    # --- actions -------------------------------------------------------------------------------

    def _perform(self, actions: Sequence[Action]) -> None:
        channels, clients = self.channels, self.clients
        for action in actions:
            kind = type(action)
            if kind is Send:
                channel = channels.get(action.link)  # type: ignore[union-attr]
                if channel is not None:
                    channel.send(action.frame)  # type: ignore[union-attr]
            elif kind is SendReply:
                wire = clients.get(action.client)  # type: ignore[union-attr]
                if wire is not None:
                    wire.tell(action.replies)  # type: ignore[union-attr]
            else:
                self._rare[kind](action)
        self._observer.actions_done()
        if self.drain is not None and self.trace.rows >= DRAIN_ROWS:
            self.drain(self.trace)

    def _set_timer(self, action: SetTimer) -> None:
        at_us = max(action.at_us, self._clock.now_us)
        self.timers[action.timer] = at_us
        self._clock.background_at(at_us, self._due, (action.timer, at_us, self.epoch))

    def _cancel_timer(self, action: CancelTimer) -> None:
        self.timers.pop(action.timer, None)

    def _due(self, what: tuple[Timer, int, int]) -> None:
        timer, at_us, epoch = what
        if epoch == self.epoch and self.timers.get(timer) == at_us:
            del self.timers[timer]
            self.handle_now(TimerFired(timer))


def _ignore(action: OpenLink) -> None:
    """Do nothing: the world connects neighbours whenever it can."""
    del action


def _nowhere(link: str, reason: str) -> None:
    raise AssertionError(f"nobody closes the connection to {link} ({reason})")
