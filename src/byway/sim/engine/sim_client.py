"""Clients of a simulated world: the core of the client library, driven by the clock of the world.

A driver decides nothing: it hands in what the application of a scenario asks for and what the
connection brings, and performs what the core says. What the client is owed is not known here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from byway.model import Filter, parse
from byway.model.addresses import PORT, Address
from byway.model.messages import (
    AnyFrame,
    Body,
    Delivery,
    Goodbye,
    Preamble,
    PublishRequest,
    Replies,
)
from byway.session.client_actions import (
    ClientTimer,
    CloseConnection,
    Dial,
    DropConnection,
    HoldReading,
    KeepConnection,
    StartTimer,
    StopTimer,
    TellAccepted,
    TellClosed,
    TellConfirmed,
    TellEvents,
    TellOpened,
    TellOpenFailed,
    TellRefused,
    TellRegistration,
    TellStatus,
    Warn,
    WriteFrame,
)
from byway.session.client_core import ClientCore
from byway.session.client_inputs import (
    ClientClosed,
    ClientInput,
    ClientOpened,
    ClientTimerFired,
    ConnectionLost,
    EventsTaken,
    FiltersReplaced,
    FrameArrived,
    Greeted,
    PublicationMade,
    Registered,
    Unregistered,
)
from byway.session.client_options import BrokerUrl, ClientOptions
from byway.session.event_queue import EventQueue
from byway.session.outgoing_publications import OutgoingPublication
from byway.session.registrations import Registration
from byway.sim.engine.client_watch import ClientWatch, Holders
from byway.sim.engine.client_wire import ClientWire
from byway.sim.engine.nodes import Node
from byway.sim.engine.observer import Observer
from byway.sim.engine.sim_clock import Clock

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Body).decode
_FOREGROUND = frozenset(
    (ClientTimer.BEGIN, ClientTimer.FLUSH, ClientTimer.RECEIPT, ClientTimer.SETTLE)
)
"""Timers that a world is not at rest before."""


def url_of(node: str) -> BrokerUrl:
    """The address of a broker of a world."""
    return BrokerUrl(f"byway://{node}", Address(node, PORT))


class SimClient:
    """One client of a world, made by `World.client`."""

    __slots__ = (
        "_advertisements", "_dialled", "_due", "_holders", "_inputs", "_is_handling",
        "_is_taking", "_labels", "_nodes", "_observer", "_subscriptions", "_timers",
        "_unpublished", "_wire", "clock", "core", "events", "has_left", "home", "latency_us",
        "name", "online", "session_ttl_us", "take_every_us", "watches", "wire_type",
    )  # fmt: skip

    def __init__(
        self,
        options: ClientOptions,
        nodes: Mapping[str, Node],
        incarnation: int,
        clock: Clock,
        observer: Observer,
        jitter: Callable[[], float],
        latency_us: int,
        holders: Holders,
    ) -> None:
        self.name = options.name
        self.session_ttl_us = round(options.session_ttl * 1e6)
        self.clock = clock
        self.home = nodes[options.urls[0].address.host]
        """The broker that the client is or was attached to, or is to be."""
        self.online = True
        """Whether the client can reach the network."""
        self.has_left = False
        """Whether the client leaves, or has left, for good."""
        self.take_every_us = 0
        """The time that the application needs for an event."""
        self.events = 0
        """Number of events that the application has taken."""
        self.core = ClientCore(options, incarnation, jitter)
        self.wire_type: type[ClientWire] = ClientWire
        """The kind of connection that the client makes."""
        self.latency_us = latency_us
        """The time that frames take between the client and any broker."""
        self.watches: dict[str, ClientWatch] = {}
        """By broker that the client has dialled, what is known of the client there."""
        self._nodes = nodes
        self._observer = observer
        self._holders = holders
        self._wire: ClientWire | None = None
        self._dialled: Dial | None = None
        """A connection that nobody has answered yet."""
        self._advertisements: dict[str, Registration] = {}
        self._subscriptions: dict[str, Registration] = {}
        self._labels = 0
        self._unpublished: deque[OutgoingPublication] = deque()
        """Publications that wait for room in the window."""
        self._timers: dict[ClientTimer, int] = {}
        self._due: deque[ClientTimer] = deque()
        self._inputs: deque[ClientInput] = deque()
        """Inputs that wait while another one is handled."""
        self._is_handling = False
        self._is_taking = False
        """Whether the application is busy with an event."""

    def __repr__(self) -> str:
        return (
            f"<SimClient {self.name} of {self.home_name}, {self.core.describe()}: "
            f"{len(self._subscriptions)} subscriptions, {len(self._advertisements)} advertisements>"
        )

    @property
    def home_name(self) -> str:
        """The name of its home broker."""
        return self.home.name

    @property
    def attached(self) -> bool:
        """Whether the client is attached to a broker."""
        return self.core.state == "attached"

    @property
    def incarnation(self) -> int:
        """The incarnation of its session."""
        return self.core.attaching.incarnation

    @property
    def watch(self) -> ClientWatch:
        """What is known of the client at its home broker."""
        return self.watch_at(self.home)

    def watch_at(self, node: Node) -> ClientWatch:
        """What is known of the client at a broker."""
        found = self.watches.get(node.name)
        if found is None:
            found = ClientWatch(self, node, self.clock, self._observer, self._holders)
            self.watches[node.name] = found
        return found

    def attached_to(self, there: ClientWatch) -> None:
        """The client has a session at a broker, and will not resume those at others."""
        for watch in self.watches.values():
            if watch is not there:
                watch.on_given_up()

    @property
    def given(self) -> int:
        """Publications that the application must have been given."""
        return sum(watch.given for watch in self.watches.values())

    @property
    def deliveries(self) -> int:
        """Publications that its subscriptions were given."""
        return self.core.deliveries.events

    @property
    def subscriptions(self) -> tuple[str, ...]:
        """The names of the subscriptions that the client wants, oldest first."""
        return tuple(self._subscriptions)

    @property
    def advertisements(self) -> tuple[str, ...]:
        """The names of the advertisements that the client wants, oldest first."""
        return tuple(self._advertisements)

    @property
    def wanted(self) -> list[tuple[bool, Filter]]:
        """The filters that the application wants to be in force and that were not refused; whether
        each is of a subscription."""
        registrations = (*self._advertisements.values(), *self._subscriptions.values())
        return [
            (one.is_subscription, filter)
            for one in registrations
            if one.error is None
            for filter in one.filters
        ]

    @property
    def unconfirmed(self) -> int:
        """The number of publications that were made and are not confirmed."""
        return len(self.core.publications.kept)

    @property
    def is_idle(self) -> bool:
        """Whether the client has nothing left that it could send."""
        return not (self.attached and self._unpublished)

    @property
    def is_coming(self) -> bool:
        """Whether the client will be attached without anyone's help."""
        if self.attached or not self.online or self.core.state in ("closed", "new"):
            return False
        return any(self._nodes[url.address.host].answers for url in self.core.options.urls)

    def registration(self, name: str) -> Registration:
        """The advertisement or subscription that the client wants under this name."""
        found = self._subscriptions.get(name) or self._advertisements.get(name)
        if found is None:
            raise ValueError(f"client {self.name} has nothing called {name!r}")
        return found

    # --- what the application does ---------------------------------------------------------------
    # After `leave` none of it can be done any more: a `ValueError` says so.

    def open(self) -> None:
        """Connect to the broker."""
        self._handle(ClientOpened())

    def advertise(self, what: str | Filter, name: str | None = None) -> str:
        """Announce what the client will publish. Returns the advertisement's name."""
        return self._register(Registration(self._label(name, "a"), (_filter(what),)))

    def unadvertise(self, name: str) -> None:
        """Withdraw an advertisement."""
        self._withdraw(self._advertisements, (name,))

    def subscribe(self, what: str | Filter, name: str | None = None) -> str:
        """Ask for what matches; a name in use gets the new filter. Returns the subscription's
        name."""
        self._check_not_left()
        known = None if name is None else self._subscriptions.get(name)
        if known is not None:
            self._withdraw_everywhere([entry.wire_name for entry in known.entries])
            self._handle(FiltersReplaced(known, (_filter(what),)))
            return known.name
        options = self.core.options
        queue = EventQueue(options.pending_messages, options.pending_bytes, options.when_full)
        return self._register(Registration(self._label(name, "s"), (_filter(what),), queue))

    def unsubscribe(self, *names: str) -> None:
        """Withdraw subscriptions."""
        self._withdraw(self._subscriptions, names)

    def _label(self, name: str | None, letter: str) -> str:
        if name is None:
            self._labels += 1
            return f"{letter}{self._labels}"
        if name in self._advertisements or name in self._subscriptions:
            raise ValueError(f"client {self.name}: {name!r} names something else already")
        return name

    def _register(self, registration: Registration) -> str:
        self._check_not_left()
        of_kind = self._subscriptions if registration.is_subscription else self._advertisements
        of_kind[registration.name] = registration
        self._handle(Registered(registration))
        return registration.name

    def _withdraw(self, of_kind: dict[str, Registration], names: Sequence[str]) -> None:
        self._check_not_left()
        for name in names:
            if name not in of_kind:
                raise ValueError(f"client {self.name} has nothing called {name!r}")
        found = [of_kind.pop(name) for name in names]
        self._withdraw_everywhere([entry.wire_name for one in found for entry in one.entries])
        self._handle(Unregistered(found))

    def _withdraw_everywhere(self, wire_names: Sequence[str]) -> None:
        for watch in self.watches.values():
            watch.withdraw(wire_names)

    def publish(self, attributes: Mapping[str, Any], data: bytes = b"") -> None:
        """Publish attributes, with data that no broker looks at."""
        self.publish_body(_encode(Body(dict(attributes), data)), attributes)

    def publish_body(self, body: bytes, attributes: Mapping[str, Any]) -> None:
        """Publish a body that is encoded already; `attributes` are those in it."""
        self._check_not_left()
        publication = OutgoingPublication(body, attributes)
        if self._unpublished or not self.core.publications.has_room:
            self._unpublished.append(publication)
        else:
            self._handle(PublicationMade(publication))

    def vanish(self, noticed_us: int | None = None) -> None:
        """The network is gone: the connection breaks, and no other can be made. The broker notices
        after a latency, or `noticed_us` later."""
        self.online = False
        if self._wire is not None:
            self._wire.break_off("the network is gone", noticed_us)

    def come_back(self) -> None:
        """The network is back, also for a client that could not leave before."""
        if self.core.state == "closed":
            self._check_not_left()
        self.online = True
        self.try_dialled()

    def leave(self) -> None:
        """Leave for good, as soon as the broker has accepted all publications."""
        self._check_not_left()
        self.has_left = True
        wanted = [*self._subscriptions.values(), *self._advertisements.values()]
        self._withdraw_everywhere([entry.wire_name for one in wanted for entry in one.entries])
        self._subscriptions.clear()
        self._advertisements.clear()
        if self._may_leave:
            self._handle(self._closing())

    @property
    def _may_leave(self) -> bool:
        """Whether the broker has accepted all publications."""
        publications = self.core.publications
        return (
            self.attached and not self._unpublished and publications.accepted == publications.last
        )

    def _closing(self) -> ClientClosed:
        """The application closes the client, and wants nothing of what is in force any more."""
        for watch in self.watches.values():
            watch.withdraw(list(watch.in_force))  # some may have been asked for anew
        return ClientClosed("the application closed it")

    def _check_not_left(self) -> None:
        if self.has_left:
            raise ValueError(f"client {self.name} has left")

    # --- the core --------------------------------------------------------------------------------

    def _handle(self, event: ClientInput) -> None:
        """Hand in an input, after those that wait, and perform what follows: what the connection
        brings meanwhile waits, as in an event loop."""
        if self._is_handling:
            self._inputs.append(event)
            return
        self._is_handling = True
        inputs, performers = self._inputs, self._performers
        while True:
            for action in self.core.handle(self.clock.now_us, event):
                performers[type(action)](self, action)
            if self._due or self._unpublished or self.has_left:
                self._follow_up(inputs)
            if not inputs:
                break
            event = inputs.popleft()
        self._is_handling = False

    def _follow_up(self, inputs: deque[ClientInput]) -> None:
        """Add the next input of the client itself, unless another one waits."""
        while self._due and not inputs:
            timer = self._due.popleft()
            if self._timers.pop(timer, None) is not None:
                inputs.append(ClientTimerFired(timer))
        if self._unpublished and not inputs and self.core.publications.has_room:
            inputs.append(PublicationMade(self._unpublished.popleft()))
        if self.has_left and not inputs and self._may_leave:
            inputs.append(self._closing())

    def _start_timer(self, action: StartTimer) -> None:
        self._timers[action.timer] = action.at_us
        if action.at_us <= self.clock.now_us:
            self._due.append(action.timer)
        elif action.timer in _FOREGROUND:
            self.clock.at(action.at_us, self._on_time, action)
        else:
            self.clock.background_at(action.at_us, self._on_time, action)

    def _stop_timer(self, action: StopTimer) -> None:
        self._timers.pop(action.timer, None)

    def _on_time(self, action: StartTimer) -> None:
        if self._timers.get(action.timer) == action.at_us:
            del self._timers[action.timer]
            self._handle(ClientTimerFired(action.timer))

    # --- the connection --------------------------------------------------------------------------

    def _dial(self, action: Dial) -> None:
        self._dialled = action
        self.try_dialled()

    def try_dialled(self) -> None:
        """Make the connection that was dialled, if the broker answers."""
        action = self._dialled
        if action is None or not self.online:
            return
        node = self._nodes[action.url.address.host]
        if not node.answers:
            return
        self._dialled = None
        self.home = node
        self._wire = self.wire_type(
            self, node, action.connection, action.incarnation, self.latency_us
        )
        self._wire.connect()

    def greeted(self, wire: ClientWire, peer: Preamble) -> None:
        """The preamble of the broker arrives."""
        if wire is self._wire:
            self._handle(Greeted(wire.number, peer))

    def _write(self, action: WriteFrame) -> None:
        assert self._wire is not None
        self._wire.send(action.frame)

    def _close(self, action: CloseConnection) -> None:
        wire, self._wire = self._wire, None
        assert wire is not None
        wire.send(Goodbye(action.reason, action.for_good))

    def _drop(self, action: DropConnection) -> None:
        wire, self._wire, self._dialled = self._wire, None, None
        if wire is not None:
            wire.break_off(action.reason)

    def receive(self, wire: ClientWire, frame: AnyFrame) -> None:
        """A frame arrives from the broker."""
        if wire is not self._wire:
            return
        if type(frame) is Replies:
            watch, replies = wire.watch, frame.replies
            if len(replies) == 1 and type(replies[0]) is Delivery:  # mostly
                watch.given += watch.observed.delivered(replies[0])
            else:
                watch.replies_arrived(replies)
        self._handle(FrameArrived(wire.number, frame))

    def lost(self, wire: ClientWire, reason: str) -> None:
        """The connection is gone."""
        if wire is self._wire:
            self._wire = None
            self._handle(ConnectionLost(wire.number, reason))

    def _on_closed(self, _: TellClosed) -> None:
        self.online = False

    # --- publications and events -----------------------------------------------------------------

    def attributes_of(self, request: PublishRequest) -> Mapping[str, Any]:
        """The attributes of a publication that was sent."""
        made = self.core.publications.find(request.sequence)
        if not request.body:
            return {}  # in the place of one that was refused in an earlier session
        if made is not None and made.body is request.body:
            return made.owner  # type: ignore[no-any-return]
        return _decode(request.body).attributes

    def _on_events(self, told: TellEvents) -> None:
        if self.take_every_us:
            if not self._is_taking:
                self._take_later()
            return
        for registration in told.registrations:
            queue = registration.queue
            assert queue is not None
            self.events += len(queue.events)
            queue.clear()
            if queue.is_blocking and queue.unblocks():
                self._handle(EventsTaken(registration))

    def _take_later(self) -> None:
        self._is_taking = True
        self.clock.at(self.clock.now_us + self.take_every_us, self._take_one)

    def _take_one(self, _: Any) -> None:
        """The application takes one event, of the subscription that it made first."""
        self._is_taking = False
        for registration in list(self.core.registrations.all.values()):
            queue = registration.queue
            if queue is not None and queue.events:
                queue.take()
                self.events += 1
                if queue.is_blocking and queue.unblocks():
                    self._handle(EventsTaken(registration))
                self._take_later()
                return

    def _ignore(self, action: Any) -> None:
        """Do nothing: the application of a scenario does not wait for it."""

    _performers: ClassVar[dict[type, Callable[[SimClient, Any], None]]] = {
        Dial: _dial,
        WriteFrame: _write,
        CloseConnection: _close,
        DropConnection: _drop,
        StartTimer: _start_timer,
        StopTimer: _stop_timer,
        TellEvents: _on_events,
        TellClosed: _on_closed,
        **dict.fromkeys(
            (HoldReading, KeepConnection, TellAccepted, TellConfirmed, TellOpened,
             TellOpenFailed, TellRefused, TellRegistration, TellStatus, Warn),
            _ignore,
        ),
    }  # fmt: skip
    """By kind of an action, what performs it."""


def _filter(what: str | Filter) -> Filter:
    return parse(what) if isinstance(what, str) else what
