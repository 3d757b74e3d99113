"""The broker: inputs in, actions out.

`Broker.handle` is the whole contract. This file puts the parts together, dispatches, and turns what
they want sent into frames; the rules are in the parts. The way of a publication: `_on_frame` here,
`publications`, `_flush` here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from byway.core import snapshot
from byway.core.actions import Action, CloseLink, OpenLink, Send, SendReply, SetTimer, Timer
from byway.core.advertisements import Advertisements
from byway.core.behaviours import BEHAVIOURS, Behaviour, BrokerView, LoadExchange
from byway.core.bodies import Bodies
from byway.core.broker_config import BrokerConfig
from byway.core.clients import RESTORE_TIMER, Clients
from byway.core.context import TAKEOVER_TIMER, TAKEOVER_WAIT_US, Context, Counters, InFlight
from byway.core.covering import Covering
from byway.core.covering.packing import packed
from byway.core.cycles import Cycles
from byway.core.inputs import (
    ClientAttached,
    ClientDetached,
    ClientRequested,
    FrameReceived,
    Input,
    LinkDown,
    LinkUp,
    LoadSampled,
    MessageDiscarded,
    NeighbourAdded,
    NeighbourRemoved,
    RequestDiscarded,
    Started,
    TimerFired,
)
from byway.core.links import LinkEnd
from byway.core.outgoing import Outgoing
from byway.core.publications import Publications
from byway.core.reachability import TIMER as REACHABILITY_TIMER
from byway.core.reachability import Reachability
from byway.core.subscriptions import TIMER as COVERING_TIMER
from byway.core.subscriptions import Subscriptions
from byway.core.table_sync import TIMER as AGREEMENT_TIMER
from byway.core.table_sync import Missing, TableSync
from byway.core.tables import Table, without_link
from byway.model.errors import RemoteProtocolError
from byway.model.messages import (
    CONTROL,
    DATA,
    Acknowledge,
    Advertise,
    AdvertisementSettled,
    AdvertisementsSynced,
    AdvertiseRequest,
    Batch,
    BrokersUnreachable,
    DeliveriesReceived,
    Disconnect,
    Hello,
    LinkProbe,
    Message,
    NeighbourNames,
    Publish,
    PublishRequest,
    Refused,
    Retire,
    Subscribe,
    SubscribeMany,
    SubscribeRequest,
    SubscriptionsSettled,
    SubscriptionsSynced,
    SyncDigest,
    SyncNames,
    SyncRequest,
    Unadvertise,
    UnadvertiseRequest,
    Unsubscribe,
    UnsubscribeRequest,
    in_parts,
)
from byway.model.trace_schema import DropReason, LinkChange
from byway.trace import NullTrace, TraceBuffer

_DEFAULT = BrokerConfig()
SIFTED_MAX: Final = 2_048
"""Publications kept for neighbours that had not told what they want, looked through at a time."""
SIFTING_TIMER: Final = Timer("sifting")
GIVEN_UP = "the broker could not handle it, and an operator gave it up"


class Broker:
    """One broker, without I/O, clock or chance."""

    def __init__(
        self,
        name: str,
        neighbours: Iterable[str] = (),
        config: BrokerConfig = _DEFAULT,
        incarnation: int = 1,
        trace: TraceBuffer | None = None,
        bodies: Bodies | None = None,
        restarting: bool = False,
    ) -> None:
        """`restarting`: it was here before and has lost its state, or a part of it. If that is
        not known, the broker finds out."""
        self.name = name
        self.context = context = Context(
            name, incarnation, config, trace or NullTrace(name), bodies or Bodies()
        )
        self.agreement = TableSync(context)
        self._subscriptions = Subscriptions(context, self.agreement)
        self._advertisements = Advertisements(context, self.agreement, self._subscriptions)
        self.clients = Clients(context, self._advertisements, self._subscriptions)
        self.publications = Publications(
            context, self.clients, self._subscriptions.policy, self.agreement
        )
        self.cycles = Cycles(context, self._part_with)
        self.reachability = Reachability(context)
        self.behaviours: dict[str, Behaviour] = {}
        if config.load_interval_us:
            around = BrokerView(context, LoadExchange.name)
            self._plug_in(LoadExchange(around, config.load_interval_us, config.load_radius))
        for neighbour in sorted(neighbours):
            self._add_link(neighbour)
            self.agreement.missing[neighbour] = Missing.ALL
        self.agreement.restarting = restarting
        self._inputs = self._input_handlers()
        self._messages = self._message_handlers()
        self._requests = self._request_handlers()

    def __repr__(self) -> str:
        return (
            f"<Broker {self.name}: {len(self.context.ends)} links, {len(self.advertisements)} "
            f"advertisements, {len(self.subscriptions)} subscriptions, {len(self.clients.all)} "
            f"clients>"
        )

    @classmethod
    def restore(
        cls,
        data: bytes,
        config: BrokerConfig = _DEFAULT,
        incarnation: int | None = None,
        trace: TraceBuffer | None = None,
        bodies: Bodies | None = None,
    ) -> Broker:
        """A broker that goes on from a snapshot. Raises `SnapshotError`.

        Without an incarnation the snapshot must be the state after the last input: links resume.
        With a new one it may be older: tables are compared with every neighbour's.
        """
        state = snapshot.read(data)
        links = [link.peer for link in state.links]
        broker = cls(state.name, links, config, incarnation or state.incarnation, trace, bodies)
        snapshot.put(state, broker)
        if incarnation is not None:
            broker.agreement.missing = dict.fromkeys(links, Missing.ALL)
            broker.agreement.forgetful = broker.agreement.restarting = True
            broker.agreement.given_up, broker.agreement.met = [], []
            broker.clients.stale = True
            for end in broker.context.ends.values():
                end.distrusted()
                end.open = False
        return broker

    def snapshot(self) -> bytes:
        """The whole state, versioned, as `restore` takes it."""
        return snapshot.take(self)

    def take_over(self, other: Broker) -> None:
        """Go on in the place of another one that had the same inputs, with its connections: what no
        snapshot holds is as it was there."""
        self.context.trace = other.context.trace
        self.context.counters = other.context.counters

    # --- for the driver ------------------------------------------------------------------------

    def handle(self, now_us: int, event: Input) -> list[Action]:
        """Take one input; what is to be done about it."""
        return self.handle_batch(now_us, (event,))

    def handle_batch(self, now_us: int, events: Iterable[Input]) -> list[Action]:
        """Take several inputs, one by one; what is to be done about them all, in larger frames."""
        context = self.context
        context.now_us = now_us
        out = context.out = Outgoing()
        for event in events:
            self._inputs[type(event)](event)
        return self._flush(out)

    def hello(self, link: str) -> Hello:
        """What to say first over a new connection to a neighbour."""
        return self.context.ends[link].hello()

    def reads_data_from(self, link: str | None) -> bool:
        """Whether publications of a neighbour, or of clients (None), may be handed in: there is
        room for copies to all others. Control messages always may, and what a full neighbour sends
        too, so that two of them do not wait for each other."""
        window = self.context.config.data_window
        if self.clients.held >= window:
            return False
        for other, waiting in self.context.unconfirmed.items():
            if len(waiting) >= window and other != link:
                return False
        return True

    @property
    def reads_data(self) -> bool:
        """Whether publications may be handed in wherever they come from."""
        return self.reads_data_from(None)

    @property
    def advertisements(self) -> Table:
        """The advertisement table."""
        return self.context.adverts

    @property
    def subscriptions(self) -> Table:
        """The subscription table."""
        return self.context.subscriptions

    @property
    def placeholders(self) -> Table:
        """Entries that are forwarded though nobody subscribes to them as they are."""
        return self.context.placeholders

    @property
    def policy(self) -> Covering:
        """Which subscriptions are sent where."""
        return self._subscriptions.policy

    @property
    def counters(self) -> Counters:
        """What the broker did since it started."""
        return self.context.counters

    # --- dispatch ------------------------------------------------------------------------------

    def _input_handlers(self) -> dict[type, Callable[[Any], None]]:
        return {
            Started: self._on_started,
            FrameReceived: self._on_frame,
            LinkUp: self._on_link_up,
            LinkDown: self._on_link_down,
            ClientAttached: self._on_client_attached,
            ClientDetached: lambda event: self.clients.detach(event.client, event.for_good),
            ClientRequested: self._on_client_requested,
            TimerFired: self._on_timer,
            LoadSampled: self._on_load_sampled,
            NeighbourAdded: self._on_neighbour_added,
            NeighbourRemoved: self._on_neighbour_removed,
            MessageDiscarded: self._on_message_discarded,
            RequestDiscarded: self._on_request_discarded,
        }

    def _message_handlers(self) -> dict[type, Callable[[str, Any], None]]:
        own: dict[type, Callable[[str, Any], None]] = {
            kind: self.behaviours[behaviour.name].message_received
            if behaviour.name in self.behaviours
            else _ignore  # a neighbour may have it on
            for behaviour in BEHAVIOURS
            for kind in behaviour.messages
        }
        return {
            Advertise: self._advertisements.on_advertise,
            AdvertisementSettled: self._advertisements.on_settled,
            Subscribe: self._subscriptions.on_subscribe,
            SubscribeMany: self._subscriptions.on_subscribe_many,
            SubscriptionsSettled: self._subscriptions.on_settled,
            Unsubscribe: self._subscriptions.on_unsubscribe,
            Retire: self._subscriptions.on_retire,
            SyncDigest: self._on_tables_held,
            NeighbourNames: self._on_neighbour_names,
            BrokersUnreachable: self.reachability.on_unreachable,
            SyncRequest: self.agreement.on_asked,
            SyncNames: self.agreement.on_names,
            AdvertisementsSynced: self._on_advertisements_told,
            SubscriptionsSynced: self._on_subscriptions_told,
            LinkProbe: self.cycles.on_probe,
            Disconnect: lambda link, message: self._forget_link(link, message.reason),
            **own,
        }

    def _request_handlers(self) -> dict[type, Callable[[Any, Any], None]]:
        return {
            AdvertiseRequest: self.clients.advertise,
            UnadvertiseRequest: self.clients.unadvertise,
            SubscribeRequest: self.clients.subscribe,
            UnsubscribeRequest: self.clients.unsubscribe,
            DeliveriesReceived: self.clients.received,
            PublishRequest: self.publications.on_request,
        }

    # --- the broker itself ---------------------------------------------------------------------

    def _plug_in(self, behaviour: Behaviour) -> None:
        """Connect a behaviour; hooks that it does not override are left out."""
        self.behaviours[behaviour.name] = behaviour
        kind = type(behaviour)
        if kind.publication_received is not Behaviour.publication_received:
            self.publications.received_hooks.append(behaviour.publication_received)
        if kind.publication_forwarded is not Behaviour.publication_forwarded:
            self.publications.forwarded_hooks.append(behaviour.publication_forwarded)
        if kind.publication_delivered is not Behaviour.publication_delivered:
            self.publications.delivered_hooks.append(behaviour.publication_delivered)

    def _on_started(self, event: Started) -> None:
        del event
        self.agreement.started()
        self.reachability.started()
        self.clients.started()
        self._subscriptions.policy.on_started()
        if self.advertisements.taken_back or self.subscriptions.taken_back:
            self.context.out.do(SetTimer(TAKEOVER_TIMER, self.context.now_us + TAKEOVER_WAIT_US))
        for link in self.context.ends:
            self.context.out.do(OpenLink(link))
        for behaviour in self.behaviours.values():
            behaviour.started()

    def _on_timer(self, event: TimerFired) -> None:
        timer: Timer = event.timer
        if timer.owner == AGREEMENT_TIMER.owner:
            self.agreement.waited_enough()
        elif timer == TAKEOVER_TIMER:
            self._inherit()
        elif timer == REACHABILITY_TIMER:
            self.reachability.waited_enough()
        elif timer == RESTORE_TIMER:
            self.clients.grace_ended()
        elif timer == COVERING_TIMER:
            self._subscriptions.policy.on_timer()
        elif timer.owner == "session":
            self.clients.waited_enough(timer.detail)
        elif timer.owner in self.behaviours:
            self.behaviours[timer.owner].timer_fired(timer.detail)

    def _inherit(self) -> None:
        """What ended a while ago, and another neighbour still tells of, is that one's."""
        for table, part in (
            (self.context.adverts, self._advertisements),
            (self.context.subscriptions, self._subscriptions),
        ):
            ended, table.taken_back = table.taken_back, {}
            for id, filter in ended.items():
                part.inherit(id, filter)

    def _on_load_sampled(self, event: LoadSampled) -> None:
        self._subscriptions.policy.on_load_sampled(event.queued)
        for behaviour in self.behaviours.values():
            behaviour.load_sampled(event)

    # --- links ---------------------------------------------------------------------------------

    def _add_link(self, link: str) -> None:
        self.context.add_link(link)
        self.agreement.add_link(link)

    def _on_neighbour_added(self, event: NeighbourAdded) -> None:
        link = event.neighbour
        if link in self.context.ends or link == self.name:
            return
        self._learn_link(link)
        self.context.out.do(OpenLink(link))

    def _learn_link(self, link: str) -> None:
        """There is a neighbour that the broker was not told of when it began."""
        self._add_link(link)
        self.agreement.came(link)
        if link in self.agreement.missing:
            self.publications.copy_to(link)
        for entry in self.context.adverts:
            self._advertisements.forward(entry, link)
        self.agreement.tell_names()

    def _on_tables_held(self, link: str, message: SyncDigest) -> None:
        self.agreement.check_held(link, message)
        unknown = self.agreement.unknown_names(link, message)
        self._copy_for_returned()
        for name in unknown:
            if name != self.name:
                self._learn_link(name)
        self.agreement.on_held(link, message)

    def _on_neighbour_names(self, link: str, message: NeighbourNames) -> None:
        self.agreement.on_neighbour_names(link, message)
        self._copy_for_returned()

    def _copy_for_returned(self) -> None:
        """Neighbours may be missing again: they may want what waits for others."""
        returned, self.agreement.returned = self.agreement.returned, []
        for link in returned:
            self.publications.copy_to(link)

    def _on_neighbour_removed(self, event: NeighbourRemoved) -> None:
        if event.neighbour in self.context.ends:
            self._part_with(event.neighbour, "it is no neighbour any more")

    def _part_with(self, link: str, reason: str) -> None:
        """A neighbour is none any more, and is told so."""
        end = self.context.ends[link]
        farewell = end.post(CONTROL, [Disconnect(reason)])
        if farewell is not None:
            self.context.out.do(Send(link, farewell))
        self._forget_link(link, reason)

    def _forget_link(self, link: str, reason: str) -> None:
        context = self.context
        context.adverts.forget_claims(link)
        context.subscriptions.forget_claims(link)
        self._forget_from(link, context.subscriptions.came_from(link))
        self._forget_to(link)
        for pending in context.unconfirmed.pop(link):
            context.finish(pending)
        end = context.ends.pop(link)
        context.numbers.release(link)
        for message in end.sent[DATA].kept:
            if isinstance(message, Publish):
                self.publications.drop(message, DropReason.LINK_LOST, link)
        self._forget_outgoing(link)
        if end.up:
            self._link_is_down(link, LinkChange.CLOSED)
        self.agreement.forget(link)
        self.reachability.link_changed(link)
        context.out.do(CloseLink(link, reason))

    def _forget_outgoing(self, link: str) -> None:
        """Nothing that earlier inputs of the same batch wanted there is sent any more."""
        out = self.context.out
        for collected in (out.messages, out.answers, out.touched, out.opening):
            collected.pop(link, None)

    def _forget_from(self, link: str, subscriptions: list[Any]) -> None:
        """What came over a link ends."""
        self._subscriptions.end_lost(subscriptions, lost=True)  # ids may come back another way
        pending = self.context.nobody()
        for entry in self.context.adverts.came_from(link):
            self._advertisements.end(entry, pending, lost=True)

    def _forget_to(self, link: str) -> None:
        """Nothing is at the other end of a link any more."""
        for entry in self.context.adverts:
            entry.forwarded = without_link(entry.forwarded, link)
            self._advertisements.answered(entry, link)
        for entry in [*self.context.subscriptions, *self.context.placeholders]:
            self.context.taken_from(entry, link)
            while link in entry.awaiting:
                self._subscriptions.answered(entry, link)
            if entry.placeholder is not None and not entry.forwarded:
                self.context.placeholders.remove(entry)

    def _end(self, link: str) -> LinkEnd:
        end = self.context.ends.get(link)
        if end is None:
            raise RemoteProtocolError(link, f"is no neighbour of {self.name}")
        return end

    def _on_link_up(self, event: LinkUp) -> None:
        link, context = event.link, self.context
        try:
            end = self._end(link)
            meeting = end.meet(event.hello, event.said)
        except RemoteProtocolError as error:
            self._distrust(link, error)
            return
        if event.hello.knows not in (0, context.incarnation):
            self.agreement.was_here()  # it has numbers of an earlier life of this broker
        if meeting.resumed:
            self.publications.confirmed(link, meeting.confirmed)
            for batch in meeting.again:
                context.out.do(Send(link, batch))
            context.out.touched[link] = None  # what was confirmed since our greeting is news
            self.agreement.resumed(link)
        else:
            lanes = context.out.messages.get(link)
            if lanes is not None:  # of earlier inputs of the same batch: tables replace it
                lanes[CONTROL].clear()
            context.out.answers.pop(link, None)
            context.out.opening.pop(link, None)
            self.agreement.anew(link)
            self._subscriptions.link_anew(link)
        self.cycles.link_up(link)
        self.reachability.link_changed(link, anew=not meeting.resumed)
        context.trace.link_changed(
            context.now_us, link, LinkChange.RESUMED if meeting.resumed else LinkChange.OPENED
        )
        for behaviour in self.behaviours.values():
            behaviour.link_up(link)

    def _on_link_down(self, event: LinkDown) -> None:
        end = self.context.ends.get(event.link)
        if end is None or not end.up:
            return
        end.lost()
        self._link_is_down(event.link, LinkChange.LOST)

    def _link_is_down(self, link: str, change: LinkChange) -> None:
        self.cycles.link_down(link)
        self.reachability.link_changed(link)
        self.context.trace.link_changed(self.context.now_us, link, change)
        for behaviour in self.behaviours.values():
            behaviour.link_down(link)

    def _distrust(self, link: str, error: RemoteProtocolError) -> None:
        """A peer broke the rules: its connection goes, and nothing else."""
        end = self.context.ends.get(link)
        if end is not None:
            end.distrusted()
            self._link_is_down(link, LinkChange.CLOSED)
        self.context.out.do(CloseLink(link, error.reason))

    def _on_frame(self, event: FrameReceived) -> None:
        link, frame = event.link, event.frame
        try:
            end = self._end(link)
            if not end.up:
                return  # of a connection that was closed
            if type(frame) is Acknowledge:
                self.publications.confirmed(link, end.received(frame))
            elif type(frame) is Batch:
                first, messages = end.take(frame)
                self.context.out.touched[link] = None
                if frame.lane is DATA:
                    self._take_data(link, end, first, messages)
                else:
                    self._take_control(link, messages)
            else:
                raise RemoteProtocolError(link, "greets twice")
        except RemoteProtocolError as error:
            self._distrust(link, error)

    def _take_control(self, link: str, messages: Iterable[Message]) -> None:
        for message in messages:
            self._handler(link, message)(link, message)
            if link not in self.context.ends:
                return  # it parted
        self._take_answers()

    def _handler(self, link: str, message: Message) -> Callable[[str, Any], None]:
        handler = self._messages.get(type(message))
        if handler is None:
            kind = type(message).__name__
            raise RemoteProtocolError(link, f"sends {kind} on the control lane")
        return handler

    def _take_data(self, link: str, end: LinkEnd, first: int, messages: Iterable[Message]) -> None:
        window, on_publish = end.window, self.publications.on_publish
        for number, message in enumerate(messages, first):
            if type(message) is Publish:
                on_publish(link, window, number, message)
            elif isinstance(message, Unadvertise):
                pending = InFlight(window, number, link, "", 1)
                self._advertisements.on_unadvertise(link, message, pending)
                self.context.finish(pending)
            else:
                kind = type(message).__name__
                raise RemoteProtocolError(link, f"sends {kind} on the data lane")

    def _on_advertisements_told(self, link: str, message: AdvertisementsSynced) -> None:
        """What a neighbour no longer stands for ends."""
        pending = self.context.nobody()
        for id in message.ended:
            entry = self.advertisements.get(id)
            if entry is not None and entry.origin.link == link:
                self._advertisements.end(entry, pending)
        if not message.partial:
            self.agreement.on_advertisements_told(link, message.provisional)

    def _on_subscriptions_told(self, link: str, message: SubscriptionsSynced) -> None:
        """What a neighbour no longer stands for ends; then data may go there."""
        entries = [self.subscriptions.get(id) for id in dict.fromkeys(message.ended)]
        ended = [e for e in entries if e is not None and e.origin.link == link]
        self._subscriptions.end_lost(ended)
        if not message.partial:
            self.agreement.on_subscriptions_told(link, message.provisional)

    def _take_answers(self) -> None:
        """What the comparison of tables showed to be settled."""
        if self.agreement.progressed:
            self.agreement.progressed = False
            self._subscriptions.settle_all()
        answers = self.agreement.answers
        while answers:
            table, id, link = answers.popleft()
            if table is self.context.adverts:
                entry, answered = table.get(id), self._advertisements.answered
            else:
                entry, answered = self.context.subscription(id), self._subscriptions.answered
            if entry is not None and link in entry.awaiting:
                answered(entry, link)

    # --- clients -------------------------------------------------------------------------------

    def _on_client_attached(self, event: ClientAttached) -> None:
        if event.resumes and event.client not in self.clients.all:
            self.agreement.was_here()
            self._copy_for_returned()
        self.clients.attach(event.client, event.incarnation, event.session_ttl_us, event.received)

    def _on_client_requested(self, event: ClientRequested) -> None:
        for request in event.requests:
            client = self.clients.all.get(event.client)
            if client is None:
                self.context.out.tell(event.client, Refused("", "not attached"))
                return
            self._requests[type(request)](client, request)

    # --- what is given up ----------------------------------------------------------------------

    def _on_message_discarded(self, event: MessageDiscarded) -> None:
        link, batch = event.link, event.batch
        try:
            end = self._end(link)
            if not end.up:
                return  # of a connection that was closed
            first, messages = end.take(batch)
        except RemoteProtocolError as error:
            self._distrust(link, error)
            return
        self.context.out.touched[link] = None
        for number, message in enumerate(messages, first):
            if batch.lane is not DATA:
                continue
            if type(message) is Publish:
                self.publications.drop(message, DropReason.DISCARDED, link)
            self.context.finish(InFlight(end.window, number, link, "", 1))

    def _on_request_discarded(self, event: RequestDiscarded) -> None:
        client, request = self.clients.all.get(event.client), event.request
        if client is None:
            self.context.out.tell(event.client, Refused("", "not attached"))
        elif type(request) is PublishRequest:
            self.publications.discard(client, request, GIVEN_UP)
        elif isinstance(request, UnsubscribeRequest):
            for name in request.names:
                self.context.out.tell(client.name, Refused(name, GIVEN_UP))
        elif not isinstance(request, DeliveriesReceived):
            assert not isinstance(request, PublishRequest)
            self.context.out.tell(client.name, Refused(request.name, GIVEN_UP))

    # --- what is to be done --------------------------------------------------------------------

    def _flush(self, out: Outgoing) -> list[Action]:
        """Frames for what was collected. Neighbours and clients in the order of their names."""
        if self.agreement.answers or self.agreement.progressed:
            self._take_answers()
        if self.agreement.sifting:
            self._sift(out)
        actions, touched = out.actions, out.touched
        for link, ids in out.answers.items():
            for part in in_parts(ids):
                out.send(link, SubscriptionsSettled(part))
        for link in (*out.messages, *out.opening):
            touched[link] = None
        for link in sorted(touched) if len(touched) > 1 else touched:
            self._flush_link(link, out, actions)
        for client in out.confirming:
            self.clients.acknowledge(client)
        for client in sorted(out.replies):
            actions.append(SendReply(client, tuple(out.replies[client])))
        return actions

    def _sift(self, out: Outgoing) -> None:
        """Neighbours have told what they want: what else was kept for them is dropped, so many at
        a time."""
        sifting, room = self.agreement.sifting, SIFTED_MAX
        for link in sorted(sifting):
            lanes, end = out.messages.get(link), self.context.ends[link]
            if lanes is not None and not end.open:
                end.post(DATA, lanes[DATA])  # of the same call of `handle`; not sent: not open
                lanes[DATA].clear()
            looked_at, sifting[link] = self.publications.sift(link, sifting[link], room)
            room -= looked_at
            if sifting[link] == len(self.context.unconfirmed[link]):
                self.agreement.sifted(link)
            if room <= 0:
                out.do(SetTimer(SIFTING_TIMER, self.context.now_us))
                return

    def _flush_link(self, link: str, out: Outgoing, actions: list[Action]) -> None:
        """Control, data, then what the peer should know of its own frames."""
        end = self.context.ends[link]
        lanes = out.messages.get(link)
        if lanes is not None:
            control, data = lanes
            if control:
                if len(control) > 1 and self._subscriptions.policy.packs:
                    control = list(packed(control))
                for message in control:
                    self.context.count_control(link, message)
                batch = end.post(CONTROL, control)
                if batch is not None:
                    actions.append(Send(link, batch))
            if data:
                batch = end.post(DATA, data)
                if batch is not None:
                    actions.append(Send(link, batch))
        if link in out.opening:
            batch = end.opened()
            if batch is not None:
                actions.append(Send(link, batch))
        if end.up:
            acknowledgement = end.acknowledgement()
            if acknowledgement is not None:
                actions.append(Send(link, acknowledgement))


def _ignore(link: str, message: Message) -> None:
    """A message of a behaviour that is off here."""
    del link, message
