"""Nodes: a broker with its inbox, and the server that works through it.

The broker is handed one turn of the inbox at a time, as in a broker process. It is busy with it for
as long as the service profile says, and its actions are performed at the end. Timers queue with
control; links and attachments reach the broker at once, before what it is busy with. A node decides
when a broker is served, never what a message means.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
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
from byway.core.clients import SESSION_TIMER
from byway.core.inputs import (
    ClientAttached,
    ClientDetached,
    ClientRequested,
    FrameReceived,
    Input,
    TimerFired,
)
from byway.inbox import Inbox, TurnTimes
from byway.model.messages import ClientHello, Frame, PublishRequest, Request
from byway.sim.engine.network import Channel, Transmitter, frame_bytes
from byway.sim.engine.observer import Observer
from byway.sim.engine.service import ServiceProfile, Work
from byway.sim.engine.sim_clock import Clock
from byway.trace import NullTrace, TraceBuffer

if TYPE_CHECKING:
    from byway.sim.engine.client_watch import ClientWatch
    from byway.sim.engine.client_wire import ClientWire

DRAIN_ROWS: Final = 4_096
"""The trace rows of one broker that are buffered before they are written."""
Read = Callable[[], None]
"""Is called when a broker is about to handle an input."""
Watched = Sequence[tuple[Input, "ClientWatch | None"]]
"""Inputs of clients and their watches, and timers that end a session."""
_FRAMES: Final = frozenset((FrameReceived,))


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
        self.watch_sent: Callable[[Any], None] | None = None
        """A function that is told every frame sent to a neighbour."""
        self.channels: dict[str, Channel] = {}
        """By neighbour that is connected, the channel to it."""
        self.clients: dict[str, ClientWire] = {}
        """By name, the connections of clients that are attached, or will be after what waits of
        them."""
        self._leaving: dict[str, deque[ClientWatch]] = {}
        """By name, the clients that said goodbye and whose sessions have not ended."""
        self.answers = False
        """Whether clients that dial are answered."""
        self.timers: dict[Timer, int] = {}
        """The timers that are set, and when each is due."""
        self.times = profile.times(config.covering)
        """The service times of the broker, and the work it has done."""
        self.slowness = 1.0
        """The factor by which all service times are longer than the profile says."""
        self.closed: Callable[[CloseLink], None] = _nowhere
        """Is called when the broker closes a connection."""
        self.opened: Callable[[OpenLink], None] = _ignore
        """Is called when the broker wants to be connected to another one."""
        self.expired: Callable[[str], None] = _unheard
        """Is called with a client when the broker reads that the time of its session is over."""
        self.drain: Callable[[TraceBuffer], None] | None = None
        """Is called with the trace buffer when it is full."""
        self._clock = clock
        self._observer = observer
        self._pickup_us = profile.pickup_us
        self._is_instant = self.times.instant
        self.inbox = Inbox()
        """The inputs that were not handed to the broker yet."""
        self.turn_times = TurnTimes()
        """How long messages wait in the inbox, if the broker goes by that."""
        self._is_timed = False
        self._peak_before = 0
        """The most messages that were in the inbox before measuring began."""
        self._busy = False
        self._serving: list[Input] | None = None
        self._is_working = False
        """Whether actions are being performed; clients answer them in the same instant."""
        self.epoch = 0
        """Counts the crashes of the broker: what was scheduled before a crash is void."""
        self._rare: dict[type, Callable[[Any], None]] = {
            SetTimer: self._set_timer,
            CancelTimer: self._cancel_timer,
            CloseLink: lambda action: self.closed(action),
            OpenLink: lambda action: self.opened(action),
        }

    def __repr__(self) -> str:
        return f"<Node {self.name}: {self.waiting} wait, {self.broker!r}>"

    @property
    def waiting(self) -> int:
        """The number of messages in the inbox; those being served are not in it."""
        return self.inbox.waiting

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits, and the broker is not busy."""
        return not self._busy and not self.inbox

    @property
    def peak_queue(self) -> int:
        """The most messages that were in the inbox at one time since measuring began."""
        return self.inbox.peak

    @property
    def peak_queue_of_run(self) -> int:
        """The most messages that were in the inbox at one time."""
        return max(self._peak_before, self.inbox.peak)

    @property
    def waiting_bytes(self) -> int:
        """The size of the messages in the inbox."""
        return sum(map(_size_bytes, self.inbox))

    def reset_measures(self) -> None:
        """Measure the queue and the work of the broker from now on."""
        self._peak_before = self.peak_queue_of_run
        self.inbox.peak = self.inbox.waiting
        self.times.work = Work()

    # --- life ----------------------------------------------------------------------------------

    def start(self, broker: Broker) -> None:
        """The broker is up from now on."""
        assert self.broker is None, f"{self.name} is up"
        self.broker = broker
        self.turn_times = TurnTimes()
        self._is_timed = broker.uses_load

    def stop(self) -> Broker:
        """The broker crashes: frames that wait are lost, requests go back to their clients. Returns
        the broker that was."""
        assert self.broker is not None, f"{self.name} is down"
        broker, self.broker = self.broker, None
        self.epoch += 1
        self.answers = False
        wires, self.clients = list(self.clients.values()), {}
        self._leaving.clear()
        self.inbox = Inbox(self.inbox.peak)
        self._busy, self._serving = False, None
        self.timers.clear()
        for wire in wires:
            wire.crash()
        return broker

    # --- what comes in -------------------------------------------------------------------------

    def handle_now(self, event: Input, read: Read | None = None) -> None:
        """Let the broker handle an input that does not queue; where work takes no time, after the
        control inputs that wait, as in a broker process. `read` is called just before."""
        assert self.broker is not None, f"{self.name} is down"
        if self._is_instant and not self._is_working:
            self._work([*self.inbox.take_control(), event], read)
        else:
            self._work([event], read)
        if self.inbox and self.broker is not None:
            self.wake()  # the broker may want to read it now

    def handle_waiting(self) -> None:
        """Let the broker handle the control inputs that wait, where `handle_now` would: what it
        greets with must not be older."""
        if self._is_instant and not self._is_working:
            waiting = self.inbox.take_control()
            if waiting:
                self._work(waiting)

    def control(self, event: Input) -> None:
        """Queue an input that never waits behind publications."""
        self.inbox.put_control(event)
        self.wake()

    def receive(self, link: str, frame: Frame) -> None:
        """Queue a frame from a neighbour."""
        self.inbox.put_frame(link, frame)
        if not self._busy:  # what `wake` does, which costs a call
            self._busy = True
            clock = self._clock
            if self._is_timed:
                self.turn_times.woken(clock.now_us)
            clock.at(clock.now_us + self._pickup_us, self._serve, self.epoch)

    def requests(self, client: str, requests: tuple[Request, ...], size_bytes: int) -> None:
        """Queue the requests of a client's frame, whose publications have so many bytes."""
        self.inbox.put_requests(client, requests, size_bytes)
        self.wake()

    def attach(self, event: ClientAttached) -> None:
        """Attach a client, after all that waits of it since an earlier connection."""
        self._attachment(event)

    def goodbye(self, client: str) -> None:
        """End the session of a client that said goodbye for good, after the requests that it sent
        before."""
        wire = self.clients.pop(client, None)
        if wire is not None:
            self._leaving.setdefault(client, deque()).append(wire.watch)
        self._attachment(ClientDetached(client, for_good=True))

    def _attachment(self, event: ClientAttached | ClientDetached) -> None:
        client = event.client
        if self._is_working or self.inbox.requests.has(client) or self._serves(client):
            self.inbox.put_attachment(event)
            self.wake()
        else:
            self.handle_now(event)

    def _serves(self, client: str) -> bool:
        """Whether the broker is busy with something of a client."""
        return any(_client_of(event) == client for event in self._serving or ())

    def detach(self, client: str) -> None:
        """A client's connection is lost, and so are the requests that came over it and that the
        broker has not handled."""
        wire = self.clients.pop(client, None)
        if self.drop_connection(client):
            read = None
            if wire is not None:
                read = partial(wire.watch.on_detached, wire.client.session_ttl_us)
            self.handle_now(ClientDetached(client), read)

    def drop_connection(self, client: str) -> bool:
        """Drop what came over the latest connection of a client. Returns whether the broker has to
        be told: it has not, if a goodbye of an earlier connection waits."""
        if not self.inbox.drop_connection(client):
            return False
        serving = self._serving or []
        kept = [event for event in serving if _client_of(event) != client]
        if len(kept) < len(serving):
            if any(type(e) is ClientDetached for e in serving if _client_of(e) == client):
                return False  # nothing can have come behind the goodbye
            self._serving = kept
        return True

    def hand_over(self) -> None:
        """A neighbour has closed its connection: let the broker handle at once the turn that it is
        busy with, and control inputs that wait, as a broker process does. All of the turn comes
        first: its frames are older than those that wait."""
        events, self._serving = self._serving or [], []
        events += self.inbox.take_control()
        if events:
            self._work(events)

    def drop_frames(self, link: str) -> None:
        """A connection broke: frames that came over it and were not read are lost."""
        if self._serving is not None:
            self._serving = [
                event
                for event in self._serving
                if not (type(event) is FrameReceived and event.link == link)
            ]
        self.inbox.drop_link(link)

    # --- the server ----------------------------------------------------------------------------

    def wake(self) -> None:
        """Something waits: look at it after the pick-up time, unless the broker is busy."""
        if not self._busy:
            self._busy = True
            clock = self._clock
            if self._is_timed:
                self.turn_times.woken(clock.now_us)
            clock.at(clock.now_us + self._pickup_us, self._serve, self.epoch)

    def _serve(self, epoch: int) -> None:
        """Take a turn and be busy with it, until the inbox has nothing that may be handled."""
        if epoch != self.epoch:
            return
        assert self.broker is not None
        while events := self._take() if self._is_timed else self.inbox.take(self.broker):
            if not self._is_instant and self._takes_time(events):
                return
            self._work(events)
            inbox = self.inbox
            if not inbox.waiting and not inbox.control:
                break
        self._busy = False

    def _takes_time(self, events: list[Input]) -> bool:
        """Be busy with a turn for as long as it takes. Whether it takes any time."""
        assert self.broker is not None
        needed_us = self.times.of(events, len(self.broker.subscriptions)) * self.slowness
        duration_us = int(needed_us + 0.5)
        if duration_us:
            self.turn_times.worked(duration_us)
            self._serving = events
            self._clock.at(self._clock.now_us + duration_us, self._served, self.epoch)
        return duration_us > 0

    def _take(self) -> list[Input]:
        """The next turn, timed; empty if nothing may be handled."""
        assert self.broker is not None
        waiting = self.inbox.waiting
        events = self.inbox.take(self.broker)
        self.turn_times.turn(self._clock.now_us, waiting, self.inbox.waiting)
        return events

    def _served(self, epoch: int) -> None:
        if epoch != self.epoch:
            return
        events, self._serving = self._serving, None
        if events:
            self._work(events)
        self._serve(epoch)

    def _work(self, events: list[Input], read: Read | None = None) -> None:
        """Let the broker handle a turn, and perform its actions."""
        watched = () if _FRAMES.issuperset(map(type, events)) else self._watched(events)
        if self.keeps_inputs and not self._keep(events, watched, read):
            return
        broker = self.broker
        assert broker is not None
        if watched or read is not None:
            self._report_read(watched, read)
        before, self._is_working = self._is_working, True
        self._perform(broker.handle_batch(self._clock.now_us, events))
        self._is_working = before
        if watched:
            self._report_handled(watched)

    def _keep(self, events: list[Input], watched: Watched, read: Read | None) -> bool:
        """Keep inputs before the broker handles them; False if the process has ended instead. A
        node without a disk keeps nothing."""
        del events, watched, read
        return True

    # --- clients as they are watched -------------------------------------------------------------

    def _watched(self, events: list[Input]) -> Watched:
        """The inputs that are of clients. Between a goodbye that waits and the next attachment of
        the same name, a name means the client that left."""
        found: list[tuple[Input, ClientWatch | None]] = []
        gone: dict[str, int] = {}
        attaching: set[str] = set()
        for event in events:
            kind, client = type(event), _client_of(event)
            if client is not None:
                found.append((event, self._watch_of(client, gone.get(client, 0))))
                if kind is ClientAttached:
                    attaching.add(client)
                elif kind is ClientDetached and event.for_good:  # type: ignore[union-attr]
                    gone[client] = gone.get(client, 0) + 1
            elif kind is TimerFired and event.timer.owner == SESSION_TIMER.owner:  # type: ignore[union-attr]
                name = event.timer.detail  # type: ignore[union-attr]
                if name not in attaching and self._is_away(name):
                    found.append((event, None))
        return found

    def _is_away(self, client: str) -> bool:
        """Whether the broker keeps the session of a client that is not attached."""
        session = None if self.broker is None else self.broker.session(client)
        return session is not None and not session.attached

    def _watch_of(self, client: str, gone: int = 0) -> ClientWatch | None:
        """The watch of the client by this name that the broker hears of, after so many of its
        goodbyes that wait."""
        leaving = self._leaving.get(client)
        if leaving is not None and gone < len(leaving):
            return leaving[gone]
        wire = self.clients.get(client)
        return None if wire is None else wire.watch

    def _report_read(self, watched: Watched, read: Read | None) -> None:
        """Tell watches what the broker is about to handle; `read` is about the last input."""
        for event, watch in watched:
            if type(event) is TimerFired:
                self.expired(event.timer.detail)
            elif watch is None:
                continue
            elif type(event) is ClientRequested:
                for request in event.requests:
                    watch.request_read(request)
            elif type(event) is ClientAttached:
                hello = ClientHello(event.session_ttl_us, event.received, event.resumes)
                watch.on_attaching(event.incarnation, hello)
        if read is not None:
            read()

    def _report_handled(self, watched: Watched) -> None:
        """Tell watches what the broker has handled."""
        for event, watch in watched:
            if watch is None:
                continue
            if type(event) is ClientRequested:
                for request in event.requests:
                    watch.request_handled(request)
            elif type(event) is ClientDetached and event.for_good:
                watch.lose_session()
                leaving = self._leaving.get(event.client)
                if leaving is not None:
                    leaving.popleft()
                    if not leaving:
                        del self._leaving[event.client]

    # --- actions -------------------------------------------------------------------------------

    def _perform(self, actions: Sequence[Action]) -> None:
        channels, clients, watch_sent = self.channels, self.clients, self.watch_sent
        has_told = False
        for action in actions:
            if type(action) is Send:
                link, frame = action.link, action.frame
                if link in channels:
                    channels[link].send(frame)
                    if watch_sent is not None:
                        watch_sent(frame)
            elif type(action) is SendReply:
                client = action.client
                if client in clients:
                    has_told = True
                    clients[client].tell(action.replies)
            else:
                self._rare[type(action)](action)
        if has_told:
            self._observer.replies_done()
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
            self.control(TimerFired(timer))


def _client_of(event: Input) -> str | None:
    """The client that an input is about, if it is about one."""
    if isinstance(event, ClientRequested | ClientAttached | ClientDetached):
        return event.client
    return None


def _size_bytes(event: Input) -> int:
    """The size of an input as the simulator counts it."""
    if type(event) is FrameReceived:
        return frame_bytes(event.frame)
    if type(event) is ClientRequested:
        return sum(len(r.body) for r in event.requests if type(r) is PublishRequest)
    return 0


def _ignore(action: OpenLink) -> None:
    """Nobody connects the broker."""
    del action


def _unheard(client: str) -> None:
    """Nobody watches the sessions of clients."""
    del client


def _nowhere(action: CloseLink) -> None:
    raise AssertionError(f"nobody closes the connection to {action.link} ({action.reason})")
