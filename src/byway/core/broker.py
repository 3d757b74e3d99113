"""The broker: inputs in, actions out.

`Broker.handle` is the whole contract. This file puts the parts together, hands each input, message,
request and timer to the part that has the rules for it (by table), and turns what the parts want
sent into frames (`_flush`). It decides nothing itself.

The path of a publication. From a neighbour: `_on_frame` and `_take_data` here, then
`Publications.on_publish`. From a client: `_on_client_requested` here, then
`Publications.on_request`. Both come together in `Publications._route`, which asks the index of the
subscription table (`matching`) for the links and local subscriptions that match; `_forward` puts a
copy for each link into `Copies`, or leaves that to `BranchQueues` if a behaviour plans routes;
`_deliver` gives it to `SessionDeliveries`. `_flush` here makes frames of the new copies. When a
neighbour confirms a copy, `_on_frame` calls `Context.confirmed`; with the last copy
`Context.finish` confirms the publication to where it came from, and `_flush` says so.

The parts: `neighbours` (links), `table_sync`, `compared_tables` and `recovery` (tables after a
restart), `takeover`, `clients` and `deliveries`, `publications`, `kind_mismatches`, `discards`,
`reachability`, `cycles`, `successions`, `drafts`, and `behaviours`. They share a `Context`, and
ask it for the `Routing` in force (tables, their rules in `advertisements` and `subscriptions`, and
a policy of `covering`). Others look at a broker through `broker_status`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from byway.core import snapshot
from byway.core.actions import Action, CloseLink, OpenLink, Send, SendReply
from byway.core.back_pressure import BackPressure
from byway.core.behaviours import Behaviour, make_behaviours, register, registered
from byway.core.broker_config import BrokerConfig
from byway.core.broker_status import BrokerQueries
from byway.core.clients import RESTORE_TIMER, SESSION_TIMER, Clients
from byway.core.compared_tables import RECHECK_TIMER, ComparedTables
from byway.core.context import Context
from byway.core.covering.packing import packed
from byway.core.discards import Discards
from byway.core.drafts import TIMER as DRAFT_TIMER
from byway.core.drafts import Drafts
from byway.core.hooks import Routed
from byway.core.in_flight import InFlight
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
    NeighbourReplaced,
    NeighboursListed,
    RequestDiscarded,
    Started,
    TimerFired,
)
from byway.core.links import UNLISTED, LinkEnd
from byway.core.mesh.mesh_behaviour import Mesh
from byway.core.neighbours import NOTHING_LEARNT, Neighbours
from byway.core.outgoing import Outgoing
from byway.core.publications import Publications
from byway.core.reachability import TIMER as REACHABILITY_TIMER
from byway.core.reachability import Reachability
from byway.core.recovery import TIMER as SYNC_TIMER
from byway.core.recovery import UNLISTED_TIMER_OWNER, Recovery
from byway.core.routing import Routing
from byway.core.routing_outlet import InForceOutlet
from byway.core.session_deliveries import SessionDeliveries
from byway.core.subscriptions import TIMER as COVERING_TIMER
from byway.core.successions import Successions
from byway.core.table_sync import TableSync
from byway.core.takeover import TIMER as TAKEOVER_TIMER
from byway.core.takeover import Takeover
from byway.model.errors import RemoteProtocolError
from byway.model.messages import (
    DATA,
    Acknowledge,
    AdvertisementsSynced,
    AdvertiseRequest,
    Batch,
    BrokersUnreachable,
    DeliveriesReceived,
    Disconnect,
    LinkKind,
    LinkProbe,
    Message,
    NeighbourNames,
    PublicationsUnconfirmed,
    Publish,
    PublishRequest,
    Refused,
    RoutesRequest,
    SelectiveAcknowledge,
    SoftSpan,
    SubscribeRequest,
    SubscriptionsSettled,
    SubscriptionsSynced,
    SyncDigest,
    SyncNames,
    SyncNamesAlong,
    SyncRequest,
    Unadvertise,
    UnadvertiseRequest,
    UnsubscribeRequest,
    in_parts,
)
from byway.trace import NullTrace, TraceBuffer

_DEFAULT = BrokerConfig()
register(Mesh)
_PUBLICATIONS = frozenset((PublishRequest,))


class Broker(BrokerQueries):
    """One broker, without I/O, clock or chance."""

    def __init__(
        self,
        name: str,
        neighbours: Iterable[str] = (),
        config: BrokerConfig = _DEFAULT,
        incarnation: int = 1,
        trace: TraceBuffer | None = None,
        restarting: bool = False,
        expects_unlisted: bool = False,
        learnt: Mapping[str, str] = NOTHING_LEARNT,
        former: Mapping[str, str] = NOTHING_LEARNT,
        successors: Mapping[str, str] = NOTHING_LEARNT,
    ) -> None:
        """`restarting`: this broker ran before and has lost its state, or a part of it. If that is
        not known, it finds out. `expects_unlisted`: neighbours besides these may connect when they
        see the broker. Known of an earlier life: `learnt`, addresses of neighbours that were
        decided on while it ran, `former` neighbours with the reasons, and the `successors` of those
        whose place another broker has taken."""
        self.name = name
        self.context = context = Context(name, incarnation, config, trace or NullTrace(name))
        self.behaviours = {}
        self.reachability = Reachability(context)
        self.recovery = recovery = Recovery(context)
        self.sync = sync = TableSync(context, recovery)
        outlet = InForceOutlet(context, sync, recovery)
        context.routing = Routing.empty(config, context.numbers, outlet)
        self.drafts = Drafts(context, outlet)
        self._takeover = Takeover(context)
        self.deliveries = deliveries = SessionDeliveries(context)
        self.clients = clients = Clients(context, deliveries)
        self.publications = publications = Publications(context, clients, deliveries, recovery)
        sync.unconfirmed_from = publications.unconfirmed_from
        self.back_pressure = BackPressure(context, deliveries, clients.sessions)
        self.successions = successions = Successions(
            context,
            recovery,
            sync,
            publications,
            self.reachability,
            lambda: snapshot.all_in_flight(self),
        )
        self._neighbours = Neighbours(
            context,
            recovery,
            sync,
            publications,
            self.reachability,
            successions,
            self.behaviours,
        )
        self.cycles = self._neighbours.cycles
        self._compared = ComparedTables(
            context, recovery, sync, publications, successions, self._neighbours
        )
        self._discards = Discards(context, self._neighbours, clients, publications)
        self._idle = context.out
        """Takes the place of what a call collected, which is not kept until the next one."""
        self._inputs = self._input_handlers()
        self._messages = self._message_handlers()
        self._outside_tree: dict[type, Callable[[str, Any], None]] = {
            **{kind: _ignore for one in registered() for kind in one.messages_outside_tree},
            SoftSpan: self._neighbours.refuse_span,  # as long as no mesh takes it
            Disconnect: self._neighbours.on_disconnect,
        }
        """By kind, what takes a control message that came over a link outside the tree."""
        self._requests = self._request_handlers()
        self._timers = self._timer_handlers()
        for behaviour in make_behaviours(context, self._neighbours, clients.sessions):
            self._plug_in(behaviour)
        if expects_unlisted and config.unlisted_wait_us:
            neighbours = [*neighbours, UNLISTED]
        self._neighbours.begin(sorted(neighbours), learnt, former)
        successions.remember(successors, former)
        recovery.restarting = restarting

    def __repr__(self) -> str:
        return (
            f"<Broker {self.name}: {len(self.context.ends)} links, {len(self.advertisements)} "
            f"advertisements, {len(self.subscriptions)} subscriptions, "
            f"{len(self.clients.sessions)} clients>"
        )

    @classmethod
    def restore(
        cls,
        data: bytes,
        config: BrokerConfig = _DEFAULT,
        incarnation: int | None = None,
        trace: TraceBuffer | None = None,
        *,
        up: Iterable[str] = (),
        attached: Iterable[str] = (),
        stale: bool = False,
    ) -> Broker:
        """A broker that goes on from a snapshot. Raises `SnapshotError`.

        Without an incarnation the snapshot must be the state after the last input: links resume.
        With a new one it may be older: tables are compared with every neighbour's. A broker that
        goes on with connections which still exist has links `up` and clients `attached`. `stale`:
        sessions may be older than what their clients were told, and end when the broker starts.
        """
        state = snapshot.read(data)
        links = [link.peer for link in state.links if link.kind is LinkKind.PRIMARY]
        broker = cls(state.name, links, config, incarnation or state.incarnation, trace)
        snapshot.restore(state, broker)
        broker.clients.sessions_stale = stale
        if incarnation is not None:
            broker.recovery.begin_from_older_state(links)
            broker.clients.sessions_stale = True
            broker._neighbours.begin_from_older_state()
        if broker.context.told_delta != config.mesh.delta:
            broker._neighbours.compare_tables_anew()
        for link in up:
            broker.context.ends[link].up = True
        for client in attached:
            broker.clients.sessions[client].attached = True
        broker.back_pressure.recount()
        return broker

    def snapshot(self) -> bytes:
        """The whole state, versioned, as `restore` takes it."""
        return snapshot.take(self)

    def take_over(self, other: Broker) -> None:
        """Go on in the place of another broker that had the same inputs, with its connections: take
        from it what no snapshot holds."""
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
        handlers = self._inputs
        for event in events:
            if type(event) is FrameReceived:  # most are
                self._on_frame(event)
            else:
                handlers[type(event)](event)
        actions = self._flush(out)
        context.out = self._idle
        return actions

    def watch_publications(self, routed: Routed) -> None:
        """Call this whenever a publication is routed, as `Behaviour.on_publication_routed` is."""
        self.context.hooks.on_publication_routed.append(routed)

    # --- dispatch: which part handles what -----------------------------------------------------

    def _input_handlers(self) -> dict[type, Callable[[Any], None]]:
        return {
            Started: self._on_started,
            FrameReceived: self._on_frame,
            LinkUp: self._neighbours.on_link_up,
            LinkDown: self._neighbours.on_link_down,
            ClientAttached: self._on_client_attached,
            ClientDetached: lambda event: self.clients.detach(event.client, event.for_good),
            ClientRequested: self._on_client_requested,
            TimerFired: self._on_timer,
            LoadSampled: self._on_load_sampled,
            NeighbourAdded: self._neighbours.on_added,
            NeighbourRemoved: self._neighbours.on_removed,
            NeighbourReplaced: self._neighbours.on_replaced,
            NeighboursListed: self._neighbours.on_listed,
            MessageDiscarded: self._discards.on_message,
            RequestDiscarded: self._discards.on_request,
        }

    def _message_handlers(self) -> dict[type, Callable[[str, Any], None]]:
        return {
            # a behaviour that is off here may be on at a neighbour
            **{kind: _ignore for behaviour in registered() for kind in behaviour.messages},
            SyncDigest: self._compared.on_digest,
            SyncRequest: self.sync.on_request,
            SyncNames: self.sync.on_names,
            SyncNamesAlong: self.sync.on_names,
            PublicationsUnconfirmed: self.publications.on_unconfirmed,
            AdvertisementsSynced: self._compared.on_advertisements_synced,
            SubscriptionsSynced: self._compared.on_subscriptions_synced,
            NeighbourNames: self._compared.on_names,
            Disconnect: self._neighbours.on_disconnect,
            BrokersUnreachable: self.reachability.on_unreachable,
            LinkProbe: self.cycles.on_probe,
        }

    def _request_handlers(self) -> dict[type, Callable[[Any, Any], None]]:
        return {
            AdvertiseRequest: self.clients.on_advertise,
            UnadvertiseRequest: self.clients.on_unadvertise,
            SubscribeRequest: self.clients.on_subscribe,
            UnsubscribeRequest: self.clients.on_unsubscribe,
            DeliveriesReceived: self.clients.on_received,
            PublishRequest: self.publications.on_request,
            RoutesRequest: self.publications.on_routes_request,
        }

    def _timer_handlers(self) -> dict[str, Callable[[str], None]]:
        """By owner of a timer, what takes its detail."""
        return {
            SYNC_TIMER.owner: lambda _: self.sync.on_timer(),
            TAKEOVER_TIMER.owner: lambda _: self._takeover.on_timer(),
            REACHABILITY_TIMER.owner: lambda _: self.reachability.on_timer(),
            DRAFT_TIMER.owner: lambda _: self.drafts.on_timer(),
            COVERING_TIMER.owner: lambda _: self.context.routing.policy.on_timer(),
            RESTORE_TIMER.owner: lambda _: self.clients.on_grace_ended(),
            SESSION_TIMER.owner: self.clients.on_session_expired,
            RECHECK_TIMER.owner: lambda _: None,  # `_flush` goes on with it after every input
            UNLISTED_TIMER_OWNER: self._on_unlisted_timer,
        }

    def _plug_in(self, behaviour: Behaviour) -> None:
        """Connect a behaviour; hooks that it does not override are left out."""
        self.behaviours[behaviour.name] = behaviour
        self._timers[behaviour.name] = behaviour.on_timer
        self._messages |= dict.fromkeys(behaviour.messages, behaviour.on_message)
        outside_tree = dict.fromkeys(behaviour.messages_outside_tree, behaviour.on_message)
        self._outside_tree |= outside_tree
        planner = behaviour.planner()
        if planner is not None:
            self.publications.use_planner(planner)
        self.context.hooks.connect(behaviour, Behaviour)
        self.context.hooks.watch(self.context.routing)

    # --- inputs that several parts take --------------------------------------------------------

    def _on_started(self, event: Started) -> None:
        self.context.chance.seed = event.seed
        self.context.address = event.address
        self.context.load = LoadSampled(0)
        self.recovery.on_started()
        self.reachability.on_started()
        self.clients.on_started()
        self.context.routing.policy.on_started()
        self._neighbours.use_delta()
        self._takeover.on_started()
        for link, end in self.context.ends.items():
            if link in self.context.tree or end.dials:
                address = end.address if end.dials else ""
                self.context.out.do(OpenLink(link, address, self.context.kind(link)))
        for behaviour in self.behaviours.values():
            behaviour.on_started()

    def _on_timer(self, event: TimerFired) -> None:
        handler = self._timers.get(event.timer.owner)
        if handler is not None:  # else of a behaviour that was on before a restart
            handler(event.timer.detail)

    def _on_unlisted_timer(self, detail: str) -> None:
        if self.recovery.has_waited_for_unlisted(detail) and not self.recovery.nobody_named:
            self._neighbours.stop_waiting_for_unlisted()

    def _on_load_sampled(self, event: LoadSampled) -> None:
        self.context.load = event
        self.context.routing.policy.on_load_sampled(event.queued)
        for behaviour in self.behaviours.values():
            behaviour.on_load_sampled(event)

    def _on_client_attached(self, event: ClientAttached) -> None:
        if event.resumes and event.client not in self.clients.sessions:
            self.sync.on_restart_detected()  # it had a session here
            self.publications.waiting_copies.copy_to_missing_again()
        self.clients.attach(event.client, event.incarnation, event.session_ttl_us, event.received)

    def _on_client_requested(self, event: ClientRequested) -> None:
        client = self.clients.sessions.get(event.client)
        if client is not None and _PUBLICATIONS.issuperset(map(type, event.requests)):
            self.publications.on_requests(client, event.requests)  # type: ignore[arg-type]
            return
        for request in event.requests:
            client = self.clients.sessions.get(event.client)
            if client is None:
                self.context.out.tell(event.client, Refused("", "not attached"))
                return
            self._requests[type(request)](client, request)

    # --- frames --------------------------------------------------------------------------------

    def _on_frame(self, event: FrameReceived) -> None:
        link, frame, context = event.link, event.frame, self.context
        try:
            end = context.ends.get(link)
            if end is None or not end.up:
                self._check_closed(link, end)
                return  # of a connection that was closed
            if type(frame) is Batch:
                first, messages = end.take(frame)
                context.out.touched[link] = None
                if frame.lane is DATA:
                    self._take_data(link, end, first, messages)
                else:
                    self._take_control(link, messages)
            elif type(frame) is Acknowledge or type(frame) is SelectiveAcknowledge:
                context.confirmed(link, end.received(frame))
            else:
                raise RemoteProtocolError(link, "greets twice")
        except RemoteProtocolError as error:
            self._neighbours.distrust(link, error)

    def _check_closed(self, link: str, end: LinkEnd | None) -> None:
        """Raise `RemoteProtocolError` for a frame of a broker that is not linked, unless the link
        was closed by an earlier input of the same batch."""
        actions = self.context.out.actions
        if end is None and not any(isinstance(a, CloseLink) and a.link == link for a in actions):
            self._neighbours.end(link)

    def _take_control(self, link: str, messages: Iterable[Message]) -> None:
        for message in messages:
            self._handler(link, message)(link, message)
            if link not in self.context.ends:
                return  # it has removed this broker
        self._compared.settle()

    def _handler(self, link: str, message: Message) -> Callable[[str, Any], None]:
        kind, routing = type(message), self.context.routing
        if link not in routing.links:
            handler = self._outside_tree.get(kind)
            if handler is None:
                outside = f"sends {kind.__name__} over a link that is {self.context.kind(link)}"
                raise RemoteProtocolError(link, outside)
            return handler
        handler = self._messages.get(kind) or routing.handlers.get(kind)
        if handler is None:
            raise RemoteProtocolError(link, f"sends {kind.__name__} on the control lane")
        return handler

    def _take_data(self, link: str, end: LinkEnd, first: int, messages: Iterable[Message]) -> None:
        window, on_publish = end.window, self.publications.on_publish
        if link not in self.context.routing.links:
            self._check_outside_tree(link, end, messages)
        for number, message in enumerate(messages, first):
            if type(message) is Publish:
                on_publish(link, window, number, message)
            elif isinstance(message, Unadvertise):
                pending = InFlight(window, number, link, "", 1)
                self.context.routing.advertisement_rules.on_unadvertise(link, message, pending)
                self.context.finish(pending)
            else:
                kind = type(message).__name__
                raise RemoteProtocolError(link, f"sends {kind} on the data lane")

    def _check_outside_tree(self, link: str, end: LinkEnd, messages: Iterable[Message]) -> None:
        """Raise `RemoteProtocolError` unless data may come over a link outside the tree: over a
        soft one publications may."""
        if not end.soft:
            raise RemoteProtocolError(link, "sends data over a link that is opening")
        context = self.context
        if context.held is not None and context.branch_of(link) not in context.tree:
            raise RemoteProtocolError(link, "sends data over a soft link without its span")
        for message in messages:
            if type(message) is not Publish:
                kind = type(message).__name__
                raise RemoteProtocolError(link, f"sends {kind} over a soft link")

    def _flush(self, out: Outgoing) -> list[Action]:
        """Frames for what was collected. Neighbours and clients in the order of their names."""
        if self.sync.settled or self.recovery.progressed:
            self._compared.settle()
        if self.recovery.rechecking:
            self._compared.recheck()
        for hook in self.context.hooks.on_batch_handled:
            hook()
        actions, touched, replies = out.actions, out.touched, out.replies
        if out.answers or out.messages or out.opening:
            self._answer(out)
        for link in sorted(touched) if len(touched) > 1 else touched:
            self._flush_link(link, out, actions)
        for client in out.confirming:
            self.clients.acknowledge(client)
            self.back_pressure.count(client)
        for client in sorted(replies) if len(replies) > 1 else replies:
            actions.append(SendReply(client, tuple(replies[client])))
        return actions

    def _answer(self, out: Outgoing) -> None:
        """Links that get control messages are touched too; what is settled is one message more."""
        for link, ids in out.answers.items():
            for part in in_parts(ids):
                out.send(link, SubscriptionsSettled(part))
        for links in (out.messages, out.opening):
            for link in links:
                out.touched[link] = None

    def _flush_link(self, link: str, out: Outgoing, actions: list[Action]) -> None:
        """Control, data, then what the peer should know of its own frames."""
        end = self.context.ends[link]
        control = out.messages.get(link) if out.messages else None
        if control is not None:
            if len(control) > 1 and self.context.routing.policy.packs:
                control = list(packed(control))
            batch = end.post_control(control)
            if batch is not None:
                self.context.count_sent(link, batch)
                actions.append(Send(link, batch))
        batch = end.post_data() if end.copies.fresh else None
        if batch is not None:
            if out.has_other_data or self.context.trace.enabled:
                self.context.count_sent(link, batch)
            else:
                self.context.counters.count_publications(link, len(batch.messages))
            actions.append(Send(link, batch))
        if out.opening and link in out.opening:
            batch = end.opened()
            if batch is not None:
                self.context.count_sent(link, batch)
                actions.append(Send(link, batch))
        if end.up:
            acknowledgement = end.acknowledgement()
            while acknowledgement is not None:
                actions.append(Send(link, acknowledgement))
                acknowledgement = end.acknowledgement() if end.window.untold else None


def _ignore(link: str, message: Message) -> None:
    """A message of a behaviour that is off here."""
    del link, message
