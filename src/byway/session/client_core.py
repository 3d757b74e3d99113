"""The core of a client: `handle(now_us, input) -> [ClientAction]`.

It says which frames are exchanged with the broker while the client is attached, and which are
repeated after the connection was lost. `attaching` decides which broker is dialled and when.

Frames are collected and sent together when the flush timer fires: requests first, then
publications, then unadvertisements, which must not overtake publications. While a subscription is
full the broker is asked to hold deliveries back; answers still arrive. The core knows neither
sockets nor an event loop: the client library, its blocking twin and the simulator drive it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

from byway.model.bounds import INT64_MAX
from byway.model.errors import ClosedError, FrameError
from byway.model.messages import (
    SESSION,
    AnyFrame,
    Attached,
    ClientHello,
    DeliveriesReceived,
    Delivery,
    Goodbye,
    HoldDeliveries,
    PublicationRouted,
    PublicationsAccepted,
    PublicationsConfirmed,
    Refused,
    Replies,
    Reply,
    Request,
    Requests,
    Settled,
    Status,
    StatusRequest,
    UnadvertiseRequest,
    UnorderedAttached,
    Welcome,
)
from byway.model.status import decode_status
from byway.session.attaching import Attaching
from byway.session.client_actions import (
    ClientAction,
    ClientTimer,
    FrameKind,
    HoldReading,
    KeepConnection,
    StartTimer,
    StopTimer,
    TellAccepted,
    TellClosed,
    TellConfirmed,
    TellEvents,
    TellOpened,
    TellRefused,
    TellRegistration,
    TellStatus,
    Warn,
    WriteFrame,
)
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
    PublishingEnded,
    Registered,
    StatusAsked,
    Unregistered,
)
from byway.session.client_options import ClientOptions
from byway.session.deliveries import Deliveries
from byway.session.outgoing_publications import OutgoingPublication, OutgoingPublications, Routes
from byway.session.registrations import Registration, RegistrationRequest, Registrations

RECEIPT_EVERY: Final = 64
"""Deliveries after which a client with a session acknowledges them."""
RECEIPT_DELAY_US: Final = 50_000
"""The longest time a delivery is left unacknowledged."""

_DELIVERIES: Final = frozenset((Delivery,))
_TIMERS_OF_A_CONNECTION: Final = (
    ClientTimer.BEGIN, ClientTimer.FLUSH, ClientTimer.RECEIPT, ClientTimer.SETTLE
)  # fmt: skip


class ClientCore:
    """One client: its session, its registrations, its publications and its deliveries."""

    __slots__ = (
        "_has_ttl", "_is_flushing", "_is_paused", "_is_receipt_due", "_is_settling",
        "_is_status_wanted", "_now_us", "_out", "_receipted", "_requests", "_to_begin",
        "_unadvertise_requests", "attaching", "attachments", "deliveries", "is_holding",
        "is_ready", "options", "publications", "registrations", "sessions",
    )  # fmt: skip

    def __init__(
        self, options: ClientOptions, incarnation: int, jitter: Callable[[], float]
    ) -> None:
        """`incarnation`: higher than every earlier one of a client of this name. `jitter`: draws
        the part of a delay between attempts that is waited, from 0.5 to 1."""
        self.options = options
        self._has_ttl = options.session_ttl > 0
        self._out: list[ClientAction] = []
        self.attaching = Attaching(options, incarnation, jitter, self._out)
        self.registrations = Registrations()
        self.deliveries = Deliveries(self.registrations)
        self.publications = OutgoingPublications(options.name, options.window, options.window_bytes)
        self.attachments = 0
        """Number of times that a broker has attached the client."""
        self.sessions = 0
        """Number of sessions started; each after the first is a gap in what was received."""
        self.is_ready = False
        """Whether requests may be sent over the connection."""
        self.is_holding = False
        """Whether the broker was asked to hold deliveries because a subscription is full."""
        self._is_paused = False
        """Whether reading is paused because deliveries arrive although the broker should hold
        them."""
        self._now_us = 0
        self._requests: list[Request] = []
        self._unadvertise_requests: list[Request] = []
        """Sent after the publications made before them."""
        self._to_begin: Callable[[], list[RegistrationRequest]] = self.registrations.restart
        """What the requests are that the session begins with."""
        self._is_flushing = False
        """Whether the flush timer runs."""
        self._is_settling = False
        """Whether the settle timer runs: publications wait for advertisements."""
        self._receipted = 0
        """Number of the last delivery that was acknowledged."""
        self._is_receipt_due = False
        """Whether the receipt timer runs."""
        self._is_status_wanted = False
        """Whether the status was asked for and has not arrived."""

    def __repr__(self) -> str:
        return f"<ClientCore of {self.options.name}, {self.describe()}>"

    @property
    def state(self) -> str:
        """`new`, `connecting`, `attached`, `away` or `closed`."""
        return self.attaching.state

    def describe(self) -> str:
        """The state in words, for messages and `repr`."""
        where = self.attaching.describe()
        if self.state != "attached" or not self.is_holding:
            return where
        full = ", ".join(registration.name for registration in self.deliveries.full)
        return f"{where}, deliveries are held until events of {full} are taken"

    def closing_error(self) -> ClosedError | None:
        """The error that requests fail with once the client is closed."""
        if self.state != "closed":
            return None
        return ClosedError(f"client {self.options.name}", self.attaching.reason)

    def handle(self, now_us: int, event: ClientInput) -> list[ClientAction]:
        """Handle an input; the actions to perform, in order. Raises for an input of the
        application that cannot be met, and changes nothing then: `ClosedError`, `WindowFullError`,
        `InvalidValueError`."""
        self._now_us = now_us
        self._handlers[type(event)](self, event)
        if not self._out:
            return []
        actions = self._out.copy()
        self._out.clear()
        return actions

    def join(self, publication: OutgoingPublication) -> bool:
        """Publish without an input, if there is nothing to do about it: others wait to be sent, and
        it joins them. Whether that is so; if not, hand in `PublicationMade`. Raises as `handle`
        does for that."""
        if not self.publications.has_unsent:
            return False
        self.publications.add(publication)
        return True

    # --- the application: publications ------------------------------------------------------------

    def _on_publication(self, event: PublicationMade) -> None:
        if self.publications.add(event.publication):
            self._flush_soon()

    def _on_publishing_ended(self, event: PublishingEnded) -> None:
        self.publications.close(event.reason)

    # --- the application: registrations -----------------------------------------------------------

    def _on_registered(self, event: Registered) -> None:
        self._check_open()
        event.registration.is_open = True
        self._request(self.registrations.add(event.registration))

    def _on_filters_replaced(self, event: FiltersReplaced) -> None:
        self._check_open()
        self._request(self.registrations.replace(event.registration, event.filters))

    def _on_unregistered(self, event: Unregistered) -> None:
        for registration in event.registrations:
            registration.is_open = False
            self._request(self.registrations.remove(registration))
            self._has_room_again(registration)
        self._check_awaited()

    def _check_open(self) -> None:
        error = self.closing_error()
        if error is not None:
            raise error

    def _request(self, requests: list[RegistrationRequest]) -> None:
        """Send requests soon; while disconnected, the next session makes them."""
        if not self.is_ready or not requests:
            return
        for request in requests:
            is_unadvertising = isinstance(request, UnadvertiseRequest)
            (self._unadvertise_requests if is_unadvertising else self._requests).append(request)
        if self._unadvertise_requests:
            self._send_pending()  # between what was published before and what will be
        else:
            self._flush_soon()

    # --- the application: deliveries --------------------------------------------------------------

    def _on_events_taken(self, event: EventsTaken) -> None:
        self._has_room_again(event.registration)

    def _has_room_again(self, registration: Registration) -> None:
        if self.deliveries.full.pop(registration, "") is None:
            self._adjust_flow()

    def _adjust_flow(self) -> None:
        """Ask the broker to hold deliveries, or to send them again, as the queues need it."""
        if self.state != "attached":
            return
        if bool(self.deliveries.full) != self.is_holding:
            self.is_holding = not self.is_holding
            self._out.append(WriteFrame(HoldDeliveries(self.is_holding)))
        if self.deliveries.is_overfull != self._is_paused:
            self._is_paused = not self._is_paused
            self._out.append(HoldReading(self._is_paused))

    # --- the application: the broker's status -----------------------------------------------------

    def _on_status_asked(self, _: StatusAsked) -> None:
        self._check_open()
        if not self._is_status_wanted:
            self._is_status_wanted = True
            if self.is_ready:
                self._out.append(WriteFrame(StatusRequest()))

    def _on_status(self, frame: Status) -> None:
        try:
            status = decode_status(frame.facts)
        except FrameError as error:
            self.attaching.refuse(str(error))  # and ask again over the next connection
            return
        self._is_status_wanted = False
        self._out.append(TellStatus(status))

    # --- the application: beginning and end -------------------------------------------------------

    def _on_opened(self, _: ClientOpened) -> None:
        self._check_open()
        if self.state == "new":
            self.attaching.open(self._now_us)

    def _on_closed(self, event: ClientClosed) -> None:
        """Close for good. The broker ends the session when it reads the goodbye."""
        for registration in self.registrations.all.values():
            registration.is_open = False
        if self.state != "closed":
            self._interrupt()
            self.attaching.close(event.reason)
            self._close(event.reason)

    def _close(self, reason: str) -> None:
        self.publications.close(reason)
        self._out.append(TellClosed(reason))

    # --- the connection ---------------------------------------------------------------------------

    def _on_greeted(self, event: Greeted) -> None:
        """The peer's preamble arrived: answer with the client's hello."""
        if event.connection != self.attaching.heard:
            return
        if event.peer.role != "broker":
            self.attaching.refuse(f"this is a {event.peer.role}, not a broker")
            return
        self.attaching.peer = event.peer
        received = self.deliveries.received if self._is_resuming else 0
        resumes = self.sessions > 0 and event.peer.name == self.attaching.broker
        ttl_us = whole(self.options.session_ttl * 1e6)
        self._out.append(WriteFrame(ClientHello(ttl_us, received, resumes)))

    @property
    def _is_resuming(self) -> bool:
        """Whether this connection is to resume the session."""
        return self.sessions > 0 and self.attaching.is_same_incarnation

    def _on_frame(self, event: FrameArrived) -> None:
        """Take a frame: replies of the broker, in order, or another one."""
        attaching, deliveries = self.attaching, self.deliveries
        if event.connection != attaching.heard:
            return
        frame = event.frame
        if type(frame) is not Replies:
            self._on_other_frame(frame)
            return
        replies = self._attached_by(frame.replies) if attaching.is_trying else frame.replies
        if not replies:
            return
        if (type(replies[0]) is Delivery) if len(replies) == 1 else _are_deliveries(replies):
            fed = deliveries.take_all(replies)  # type: ignore[arg-type]
            if fed:
                self._out.append(TellEvents(fed))
        else:
            self._take_answers(replies)
        if deliveries.full:
            self._adjust_flow()
        if self._has_ttl and deliveries.received > self._receipted:
            self._plan_receipt()

    def _on_other_frame(self, frame: AnyFrame) -> None:
        """Take a frame without replies; one that a broker must not send closes the connection."""
        if isinstance(frame, Welcome):
            self.publications.body_bytes_max = frame.body_bytes_max
        elif isinstance(frame, Status):
            if self._is_status_wanted:
                self._on_status(frame)
        elif isinstance(frame, Goodbye):
            self.attaching.goodbye = frame
        else:
            self.attaching.refuse(f"a broker does not send a client {type(frame).__name__}")

    def _attached_by(self, replies: tuple[Reply, ...]) -> tuple[Reply, ...]:
        """Look for the reply that attaches the client; those that follow it. Earlier ones are
        dropped: they may be about another session, and the broker repeats those about this."""
        for at, reply in enumerate(replies):
            if isinstance(reply, Attached):
                return replies[at + 1 :] if self._on_attached(reply) else ()
        return ()

    def _on_attached(self, attached: Attached) -> bool:
        is_resuming = self._is_resuming
        if is_resuming and not attached.resumed:
            self.attaching.start_anew(self._now_us)
            return False
        peer = self.attaching.attached()
        self.attachments += 1
        if isinstance(attached, UnorderedAttached):
            self.deliveries.expect_disorder(attached.window)
        peer_s = peer.keepalive_ms / 1e3
        self._out.append(KeepConnection(min(self.options.keepalive, peer_s), 2 * peer_s))
        if is_resuming:
            self._resume(attached)
        else:
            self._start_session()
        if self.attachments == 1:
            self._out.append(TellOpened())
        return True

    def _start_session(self) -> None:
        """Begin a new session: register everything again, send everything unconfirmed again."""
        self.sessions += 1
        self._forget_sent()
        self.deliveries.restart()
        self._receipted = 0
        self.publications.restart()
        self._to_begin = self.registrations.restart
        self._begin()

    def _resume(self, attached: Attached) -> None:
        """Resume the session that the broker kept. The broker first repeats what is settled and
        confirmed; only then are the remaining requests sent again."""
        self._forget_sent()
        self.deliveries.resume(attached.lost)
        self._receipted = self.deliveries.received
        before = self.publications.accepted
        self.publications.resume(attached.published)
        if self.publications.accepted > before:
            self._out.append(TellAccepted(self.publications.accepted))
        self._to_begin = self.registrations.resume
        self._out.append(StartTimer(ClientTimer.BEGIN, self._now_us))

    def _forget_sent(self) -> None:
        """A new connection: nothing was asked for over it yet."""
        self.is_ready = False
        self._requests.clear()
        self._unadvertise_requests.clear()
        self.is_holding = self._is_paused = False
        self._adjust_flow()

    def _begin(self) -> None:
        """Send the requests that the session begins with; others may follow from now on."""
        self.is_ready = True
        self._request(self._to_begin())
        if self._is_status_wanted:
            self._out.append(WriteFrame(StatusRequest()))
        for registration in self.registrations.all.values():
            self._out.append(TellRegistration(registration))
        if self.registrations.awaited:
            self._is_settling = True
            wait_us = whole(self.options.settle_wait * 1e6)
            self._out.append(StartTimer(ClientTimer.SETTLE, self._now_us + wait_us))
        if self.publications.has_unsent:
            self._flush_soon()

    def _stop_waiting_to_settle(self) -> None:
        """Publish although an advertisement is not settled: a broker may be down for long."""
        self.registrations.awaited.clear()
        self._is_settling = False
        self._flush_soon()

    def _on_lost(self, event: ConnectionLost) -> None:
        if not self.attaching.is_current(event.connection):
            return
        if self.state == "attached":
            self._interrupt()
        self.attaching.on_lost(self._now_us, event.reason)
        if self.state == "closed":
            self._close(self.attaching.reason)

    def _on_retry(self) -> None:
        self.attaching.on_retry(self._now_us)

    def _on_attempt_over(self) -> None:
        self.attaching.on_attempt_over(self._now_us)
        if self.state == "closed":
            self._close(self.attaching.reason)

    def _interrupt(self) -> None:
        """The connection is gone; another may follow."""
        self.is_ready = False
        self._is_receipt_due = self._is_flushing = self._is_settling = False
        self._out += map(StopTimer, _TIMERS_OF_A_CONNECTION)

    # --- sending ----------------------------------------------------------------------------------

    def _flush_soon(self) -> None:
        if self.is_ready and not self._is_flushing:
            self._is_flushing = True
            self._out.append(StartTimer(ClientTimer.FLUSH, self._now_us))

    def _on_flush(self) -> None:
        self._is_flushing = False
        self._send_pending()

    def _send_pending(self) -> None:
        if not self.is_ready:
            return
        out, publications = self._out, self.publications
        if self._requests:
            requests, self._requests = self._requests, []
            out.append(WriteFrame(Requests(tuple(requests)), FrameKind.LARGE))
        if self.registrations.awaited:
            return  # publications wait until the advertisements that admit them are settled
        if publications.has_unsent:
            if publications.to_ask:
                out.append(WriteFrame(Requests(publications.take_to_ask()), FrameKind.LARGE))
            out.append(WriteFrame(Requests(publications.take()), FrameKind.DATA))
        if self._unadvertise_requests:
            unadvertising, self._unadvertise_requests = self._unadvertise_requests, []
            out.append(WriteFrame(Requests(tuple(unadvertising)), FrameKind.DATA))

    # --- receiving --------------------------------------------------------------------------------

    def _take_answers(self, replies: Sequence[Reply]) -> None:
        """Take replies of which not all are deliveries."""
        publications = self.publications
        accepted, confirmed = publications.accepted, publications.confirmed
        fed: dict[Registration, None] = {}
        for reply in replies:
            if type(reply) is Delivery:
                fed.update(dict.fromkeys(self.deliveries.take(reply)))
            else:
                self._take_answer(reply)
        if fed:
            self._out.append(TellEvents(tuple(fed)))
        if publications.accepted > accepted:
            self._out.append(TellAccepted(publications.accepted))
        if publications.confirmed > confirmed:
            self._out.append(TellConfirmed(publications.confirmed))

    def _take_answer(self, reply: Reply) -> None:
        if isinstance(reply, PublicationsConfirmed):
            self.publications.confirm(reply.sequence)
        elif isinstance(reply, PublicationsAccepted):
            self.publications.accept(reply.sequence)
        elif isinstance(reply, PublicationRouted):
            routes = Routes(reply.clients, reply.links, reply.settled)
            self._tell_refused(self.publications.routed(reply.sequence, routes))
        elif isinstance(reply, Settled):
            self._tell_registration(self.registrations.settled(reply.name))
        elif isinstance(reply, Refused):
            if reply.subject.isdecimal():  # names are not: they have dots
                self._tell_refused(self.publications.refuse(int(reply.subject), reply.reason))
            elif reply.subject == SESSION:
                self._out.append(Warn(f"no session is kept for it: {reply.reason}"))
            else:
                self._tell_registration(self.registrations.refused(reply.subject, reply.reason))

    def _tell_refused(self, publication: OutgoingPublication | None) -> None:
        if publication is not None:
            self._out.append(TellRefused(publication))

    def _tell_registration(self, registration: Registration | None) -> None:
        if registration is not None:
            self._out.append(TellRegistration(registration))
            self._check_awaited()

    def _check_awaited(self) -> None:
        """Publish, if the last advertisement that publications wait for is settled or gone."""
        if self._is_settling and not self.registrations.awaited:
            self._out.append(StopTimer(ClientTimer.SETTLE))
            self._stop_waiting_to_settle()

    def _plan_receipt(self) -> None:
        if self.deliveries.received - self._receipted >= RECEIPT_EVERY:
            if self._is_receipt_due:
                self._is_receipt_due = False
                self._out.append(StopTimer(ClientTimer.RECEIPT))
            self._send_receipt()
        elif not self._is_receipt_due:
            self._is_receipt_due = True
            at_us = self._now_us + RECEIPT_DELAY_US
            self._out.append(StartTimer(ClientTimer.RECEIPT, at_us))

    def _on_receipt_due(self) -> None:
        self._is_receipt_due = False
        self._send_receipt()

    def _send_receipt(self) -> None:
        received = self.deliveries.received
        if received > self._receipted:
            self._receipted = received
            self._out.append(WriteFrame(Requests((DeliveriesReceived(received),))))

    def _on_timer(self, event: ClientTimerFired) -> None:
        self._timers[event.timer](self)

    # --- dispatch: one table for all clients of a process -----------------------------------------

    _handlers: ClassVar[dict[type, Callable[[ClientCore, Any], None]]] = {
        PublicationMade: _on_publication,
        FrameArrived: _on_frame,
        ClientTimerFired: _on_timer,
        EventsTaken: _on_events_taken,
        Registered: _on_registered,
        FiltersReplaced: _on_filters_replaced,
        Unregistered: _on_unregistered,
        StatusAsked: _on_status_asked,
        ClientOpened: _on_opened,
        ClientClosed: _on_closed,
        PublishingEnded: _on_publishing_ended,
        Greeted: _on_greeted,
        ConnectionLost: _on_lost,
    }
    _timers: ClassVar[dict[ClientTimer, Callable[[ClientCore], None]]] = {
        ClientTimer.ATTEMPT: _on_attempt_over,
        ClientTimer.RETRY: _on_retry,
        ClientTimer.BEGIN: _begin,
        ClientTimer.FLUSH: _on_flush,
        ClientTimer.RECEIPT: _on_receipt_due,
        ClientTimer.SETTLE: _stop_waiting_to_settle,
    }


def _are_deliveries(replies: Sequence[Reply]) -> bool:
    return _DELIVERIES.issuperset(map(type, replies))


def whole(number: float, least: int = 0) -> int:
    """The number rounded to an integer that fits a message; larger ones become the largest."""
    return max(least, round(number)) if number < INT64_MAX else INT64_MAX
