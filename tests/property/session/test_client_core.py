"""A client's core against model brokers that lose connections and sessions at any point.

Whatever happens: a session gets every publication that was not confirmed before, once and in order;
the registrations in force are the last ones; every event reaches the application once and in order;
deliveries that are missing are counted.
"""

from collections import defaultdict

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from byway.model import Filter, parse
from byway.model.errors import WindowFullError
from byway.model.messages import AnyFrame, Attached, Delivery, Goodbye, Publish, Replies
from byway.session.client_actions import (
    ClientTimer,
    CloseConnection,
    Dial,
    DropConnection,
    FrameKind,
    StartTimer,
    StopTimer,
    TellAccepted,
    TellConfirmed,
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
from byway.session.outgoing_publications import OutgoingPublication, encode_body
from byway.session.registrations import Registration
from tests.property.session.model_broker import BrokerSession, ModelBroker, Wire

WINDOW = 4
FILTERS = [parse(f"x > {number}") for number in range(3)]
OF_A_CONNECTION = {ClientTimer.BEGIN, ClientTimer.FLUSH, ClientTimer.RECEIPT, ClientTimer.SETTLE}
STEPS_MAX = 1_000
ROUNDS_MAX = 20
"""Rounds of so many steps within which a client comes to rest."""

filters = st.lists(st.sampled_from(FILTERS), min_size=1, max_size=2).map(tuple)
few = st.integers(1, 3)
soon = st.sampled_from([5, 0, 1, 2, 3])
"""Steps that follow an input."""
later = st.sampled_from([20, 0, 1, 2, 3, 4, 5, 6, 7, 8])
"""Steps that follow a failure: a client is back after four, with a new session after seven."""


class ClientMachine(RuleBasedStateMachine):
    """One client, two brokers, and an application that publishes and subscribes."""

    @initialize(
        session_ttl=st.sampled_from([0.0, 60.0]),
        settle_wait=st.sampled_from([0.0, 5.0]),
        subscriptions=st.integers(0, 2),
        steps=st.sampled_from([20, 0, 1, 2]),
    )
    def open(self, session_ttl: float, settle_wait: float, subscriptions: int, steps: int) -> None:
        urls = tuple(BrokerUrl.parse(name) for name in ("b1", "b2"))
        options = ClientOptions(
            urls=urls,
            name="c",
            session_ttl=session_ttl,
            settle_wait=settle_wait,
            window=WINDOW,
            connect_wait=1e6,
        )
        self.core = ClientCore(options, 1, lambda: 1.0)
        self.brokers = dict(zip(urls, (ModelBroker("B1"), ModelBroker("B2")), strict=True))
        self.now_us = 10
        self.timers: dict[ClientTimer, int] = {}
        self.wire: Wire | None = None
        """The connection that the client dialled last, unless it is gone."""
        self.dying: list[tuple[ModelBroker, Wire]] = []
        """Connections that are gone for the client; brokers may still read from them."""
        self.broker = self.brokers[urls[0]]
        """The broker that was dialled last."""
        self.made: list[bytes] = []
        self.accepted = self.confirmed = 0
        self.sessions: list[BrokerSession] = []
        self.registrations: list[Registration] = []
        self.events = 0
        self.last_event = 0
        """Sequence of the last event that a delivery brought."""
        self.continued = 0
        """The same, while the next delivery may bring it to other subscriptions."""
        self.received = 0
        """Number of the last delivery in this session."""
        self.missing = 0
        """Deliveries that were numbered in a session, before the last that came, and never came."""
        self.due: defaultdict[Registration, list[int]] = defaultdict(list)
        self.taken: defaultdict[Registration, list[int]] = defaultdict(list)
        for _ in range(subscriptions):
            self.subscribe((FILTERS[0],), 2, 0)
        self.do(ClientOpened())
        self.go_on(steps)

    # --- the driver -------------------------------------------------------------------------------

    def do(self, event: ClientInput) -> None:
        for action in self.core.handle(self.now_us, event):
            if isinstance(action, StartTimer):
                assert action.at_us >= self.now_us
                self.timers[action.timer] = action.at_us
            elif isinstance(action, StopTimer):
                self.timers.pop(action.timer, None)
            elif isinstance(action, Dial):
                assert self.wire is None
                self.broker = self.brokers[action.url]
                self.wire = Wire(action.connection, str(action.url), action.incarnation)
            elif isinstance(action, WriteFrame):
                assert self.wire is not None
                assert self.wire.is_greeted
                self.wire.write(action.frame, action.kind)
            elif isinstance(action, CloseConnection):
                assert self.wire is not None
                self.wire.block(False)
                self.wire.write(Goodbye(action.reason, action.for_good), FrameKind.CONTROL)
                self.part()
            elif isinstance(action, DropConnection):
                self.part()
            elif isinstance(action, TellAccepted):
                assert action.number > self.accepted
                self.accepted = action.number
            elif isinstance(action, TellConfirmed):
                assert action.number > self.confirmed
                self.confirmed = action.number

    def part(self) -> None:
        assert self.wire is not None
        self.dying.append((self.broker, self.wire))
        self.wire = None

    def fire(self, timer: ClientTimer) -> None:
        self.now_us = max(self.now_us, self.timers.pop(timer))
        self.do(ClientTimerFired(timer))

    # --- the application --------------------------------------------------------------------------

    @rule(times=few, steps=soon)
    def publish(self, times: int, steps: int) -> None:
        for _ in range(times):
            body = b"%d" % (len(self.made) + 1)
            has_room = len(self.made) - self.confirmed < WINDOW
            try:
                self.do(PublicationMade(OutgoingPublication(body)))
            except WindowFullError:
                assert not has_room
            else:
                assert has_room
                self.made.append(body)
        self.go_on(steps)

    @rule(filters=filters, steps=soon)
    def advertise(self, filters: tuple[Filter, ...], steps: int) -> None:
        self.register(Registration(f"a{len(self.registrations)}", filters))
        self.go_on(steps)

    @rule(filters=filters, messages=st.sampled_from([2, 100]), steps=soon)
    def subscribe(self, filters: tuple[Filter, ...], messages: int, steps: int) -> None:
        queue = EventQueue(messages, 10_000, "block")
        self.register(Registration(f"s{len(self.registrations)}", filters, queue))
        self.go_on(steps)

    def register(self, registration: Registration) -> None:
        self.registrations.append(registration)
        self.do(Registered(registration))

    @property
    def held(self) -> list[Registration]:
        return [one for one in self.registrations if one.is_open]

    @precondition(lambda self: self.held)
    @rule(data=st.data(), filters=filters)
    def replace_filters(self, data: st.DataObject, filters: tuple[Filter, ...]) -> None:
        self.do(FiltersReplaced(data.draw(st.sampled_from(self.held)), filters))

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def unregister(self, data: st.DataObject) -> None:
        self.do(Unregistered((data.draw(st.sampled_from(self.held)),)))

    @rule()
    def take_events(self) -> None:
        for one in self.registrations:
            while one.queue is not None and one.queue.events:
                self.taken[one].append(one.queue.take().sequence)
                if one.queue.is_blocking and one.queue.unblocks():
                    self.do(EventsTaken(one))

    # --- connections ------------------------------------------------------------------------------

    def greet(self) -> None:
        assert self.wire is not None
        self.wire.is_greeted = True
        self.do(Greeted(self.wire.number, self.broker.preamble))

    @precondition(lambda self: self.wire is not None)
    @rule(notices=st.booleans(), steps=later)
    def lose_connection(self, notices: bool, steps: int) -> None:
        assert self.wire is not None
        number = self.wire.number
        self.part()
        if notices:
            self.notice_losses()
        self.do(ConnectionLost(number, "lost"))
        self.go_on(steps)

    @precondition(lambda self: self.dying)
    @rule(times=few)
    def read_what_was_sent_before_a_loss(self, times: int) -> None:
        broker, wire = self.dying[-1]
        for _ in range(min(times, len(wire.to_broker))):
            frame = wire.to_broker.popleft()
            if broker.wire is wire or broker.would_attach(wire, frame):
                self.broker_takes(broker, wire, frame)

    @precondition(lambda self: self.dying)
    @rule()
    def notice_losses(self) -> None:
        for broker, wire in self.dying:
            if broker.wire is wire:
                broker.detach()
        self.dying.clear()

    @rule(crashes_second=st.booleans(), steps=later)
    def crash_broker(self, crashes_second: bool, steps: int) -> None:
        broker = list(self.brokers.values())[crashes_second]
        broker.crash()
        self.dying = [(other, wire) for other, wire in self.dying if other is not broker]
        if self.wire is not None and self.broker is broker:
            number = self.wire.number
            self.wire = None
            self.do(ConnectionLost(number, "crashed"))
        self.go_on(steps)

    @precondition(lambda self: ClientTimer.ATTEMPT in self.timers)
    @rule(steps=later)
    def take_too_long(self, steps: int) -> None:
        self.fire(ClientTimer.ATTEMPT)
        self.go_on(steps)

    @precondition(lambda self: self.timers.keys() - {ClientTimer.ATTEMPT})
    @rule(data=st.data())
    def let_time_pass(self, data: st.DataObject) -> None:
        ready = sorted(self.timers.keys() - {ClientTimer.ATTEMPT}, key=lambda timer: timer.value)
        self.fire(data.draw(st.sampled_from(ready)))

    # --- frames -----------------------------------------------------------------------------------

    def broker_reads(self, times: int) -> None:
        wire = self.wire
        assert wire is not None
        for _ in range(min(times, len(wire.to_broker))):
            self.broker_takes(self.broker, wire, wire.to_broker.popleft())

    def broker_takes(self, broker: ModelBroker, wire: Wire, frame: AnyFrame) -> None:
        broker.take(wire, frame)
        session = broker.session
        if session is not None and session not in self.sessions:
            self.sessions.append(session)

    def client_reads(self, times: int) -> None:
        for _ in range(times):
            if self.wire is None or not self.wire.to_client:
                return
            self.client_takes(self.wire, self.wire.to_client.popleft())

    def client_takes(self, wire: Wire, frame: AnyFrame) -> None:
        attachments, sessions = self.core.attachments, self.core.sessions
        held = {one.key: one for one in self.held}
        self.do(FrameArrived(wire.number, frame))
        if self.core.sessions > sessions:
            self.received = self.continued = 0
        for reply in frame.replies if isinstance(frame, Replies) else ():
            if isinstance(reply, Delivery) and attachments == self.core.attachments:
                self.expect(reply, held)
            elif isinstance(reply, Attached) and self.core.sessions == sessions:
                lost = reply.lost if self.core.attachments > attachments else 0
                self.received += lost
                self.missing += lost

    def expect(self, delivery: Delivery, held: dict[int, Registration]) -> None:
        """The client has read a delivery: note who is due to get the event."""
        assert delivery.number > self.received, "the broker sends nothing twice in a session"
        self.missing += delivery.number - self.received - 1
        self.received = delivery.number
        sequence = delivery.publication.sequence
        if sequence <= self.last_event and sequence != self.continued:
            self.continued = 0
            return
        self.last_event = self.continued = sequence
        for name in delivery.names:
            one = held.get(int(name.rsplit(".", 2)[1]))
            if one is not None and self.due[one][-1:] != [sequence]:
                self.due[one].append(sequence)

    @precondition(lambda self: self.wire is not None)
    @rule(is_blocked=st.booleans())
    def block(self, is_blocked: bool) -> None:
        assert self.wire is not None
        self.wire.block(is_blocked)

    @rule(steps=st.integers(1, 20))
    def go_on(self, steps: int) -> None:
        """Let happen what happens if nothing fails."""
        for _ in range(steps):
            wire = self.wire
            if wire is not None and not wire.is_greeted:
                self.greet()
            elif wire is not None and wire.to_broker:
                self.broker_reads(1)
            elif wire is not None and wire.to_client:
                self.client_reads(1)
            elif self.timers:
                self.fire(min(self.timers, key=lambda timer: (self.timers[timer], timer.value)))
            else:
                return

    # --- the brokers ------------------------------------------------------------------------------

    @rule()
    def settle(self) -> None:
        self.broker.settle_all()

    @rule(most=few)
    def confirm(self, most: int) -> None:
        self.broker.confirm(most)

    @property
    def subscribed(self) -> list[str]:
        return [] if self.broker.session is None else list(self.broker.session.subscribed)

    @precondition(lambda self: self.subscribed)
    @rule(times=few, is_split=st.booleans(), steps=soon)
    def deliver(self, times: int, is_split: bool, steps: int) -> None:
        names = self.subscribed
        parts = [names[:1], names[1:]] if is_split and len(names) > 1 else [names]
        for _ in range(times):
            self.events += 1
            self.send_event(self.events, parts)
        self.go_on(steps)

    @precondition(lambda self: self.subscribed and self.events)
    @rule(back=st.integers(0, 2))
    def deliver_again(self, back: int) -> None:
        """A neighbour that lost its state may send an event again."""
        self.send_event(max(1, self.events - back), [self.subscribed])

    def send_event(self, sequence: int, parts: list[list[str]]) -> None:
        publication = Publish("p", 1, sequence, 5, 0, 0, 0, encode_body({"x": sequence}))
        self.broker.send([Delivery(0, publication, tuple(names)) for names in parts])

    @precondition(lambda self: self.subscribed)
    @rule()
    def lose_a_delivery(self) -> None:
        self.broker.skip()

    # --- what must always be ----------------------------------------------------------------------

    @invariant()
    def the_window_is_kept(self) -> None:
        kept = self.core.publications.kept
        assert len(kept) == len(self.made) - self.confirmed <= WINDOW

    @invariant()
    def timers_go_with_the_state(self) -> None:
        core, running = self.core, self.timers.keys()
        assert (ClientTimer.ATTEMPT in running) == core.attaching.is_trying
        is_waiting = core.state in ("connecting", "away") and not core.attaching.is_trying
        assert (ClientTimer.RETRY in running) == is_waiting
        if core.state != "attached":
            assert not running & OF_A_CONNECTION
        assert (self.wire is None) == is_waiting

    @invariant()
    def every_session_gets_a_run_of_the_publications(self) -> None:
        confirmed = set().union(*(broker.confirmed_bodies for broker in self.brokers.values()))
        for session in self.sessions:
            if session.published:
                first = self.made.index(session.published[0])
                assert session.published == self.made[first : first + len(session.published)]
                assert confirmed.issuperset(self.made[:first])

    @invariant()
    def events_come_once_and_in_order(self) -> None:
        for one in self.registrations:
            if one.queue is not None:
                pending = [event.sequence for event in one.queue.events]
                assert self.taken[one] + pending == self.due[one]
                assert self.due[one] == sorted(set(self.due[one]))

    @invariant()
    def what_is_missing_is_counted(self) -> None:
        assert self.core.deliveries.lost == self.missing

    # --- the end ----------------------------------------------------------------------------------

    def teardown(self) -> None:
        if not hasattr(self, "core"):
            return
        self.notice_losses()
        for _ in range(ROUNDS_MAX):
            self.go_on(STEPS_MAX)
            if not self.help_on():
                break
        else:
            raise AssertionError("it does not come to rest")
        self.check_rest()
        self.do(ClientClosed("done"))
        assert not self.timers

    def help_on(self) -> bool:
        """Do what others are waited for; whether anything follows from it."""
        wire = self.wire
        assert wire is not None
        wire.block(False)
        self.take_events()
        self.broker.settle_all()
        self.broker.confirm(WINDOW)
        return bool(wire.to_broker or wire.to_client or self.timers)

    def check_rest(self) -> None:
        """Everything was published, registered and delivered."""
        assert self.core.state == "attached"
        assert len(self.made) == self.accepted == self.confirmed
        session = self.broker.session
        assert session is not None
        wanted = {entry.wire_name: entry.filter for one in self.held for entry in one.entries}
        assert session.in_force == wanted
        for one in self.held:
            assert one.is_settled
            assert tuple(entry.filter for entry in one.entries) == one.filters
        assert session.last_sent <= self.received <= session.delivered
        self.every_session_gets_a_run_of_the_publications()
        self.events_come_once_and_in_order()
        self.what_is_missing_is_counted()


ClientMachine.TestCase.settings = settings(
    max_examples=2 * settings.default.max_examples, suppress_health_check=list(HealthCheck)
)
TestClientCore = ClientMachine.TestCase
