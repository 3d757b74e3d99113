"""The mesh of one broker: records in and out, maps, and soft links.

A soft link is used one way, by the end that wants it; the other end may want it too. Before the
first publication the sender tells its *span*, the brokers that the link passes by, and the receiver
takes publications only when it knows where they go: it has the tables of all neighbours but the one
that the span ends with. It refuses a span that records deny: a broker whose neighbours gave it up
while it was down does not know that, and could publish past them. A link that is no longer wanted
is drained, then closed. One that goes down is given up: what it had not confirmed is routed anew,
over the tree. Which links it wants a broker decides by itself, once an interval (`link_manager`),
and at once where copies have to go round a neighbour that is dead (`bypass`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple, Self

import msgspec

from byway.core.behaviours.behaviour import Behaviour
from byway.core.behaviours.broker_view import BrokerView
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import LoadSampled
from byway.core.mesh.bypass import Bypass, BypassState
from byway.core.mesh.change_overs import ChangeOver, ChangeOvers
from byway.core.mesh.link_manager import (
    LinkManager,
    LinkManagerState,
    Neighbourhood,
    load_shares,
)
from byway.core.mesh.master_map import MasterMap
from byway.core.mesh.mesh_planner import MeshPlanner
from byway.core.mesh.overlay_maps import OverlayMaps
from byway.core.mesh.records import NeighbourhoodRecords, RecordsState
from byway.core.mesh.working_map import Strategy
from byway.model.errors import RemoteProtocolError
from byway.model.messages import BrokerRecord, LinkKind, RecordUpdate, SoftSpan, SpanTaken
from byway.model.trace_schema import Reconfiguration

BUSY: Final = 0.8
"""With more of its uplink in use, a broker of strategy SH sends as few copies as S1 does."""
CALM: Final = 0.7
"""Below, it goes back to S2."""
_BYPASS: Final = "bypass"
"""The timer for neighbours that are away."""
_CHANGE_OVERS: Final = "change-overs"
"""The timer for publishers that are kept back; the one without a name is for the link manager."""


class SoftLink(msgspec.Struct):
    """What this broker knows of one soft link."""

    wanted: bool = False
    """Whether this broker wants to send over it."""
    path: tuple[str, ...] = ()
    """The span that the peer was told."""
    taken: bool = False
    """Whether the peer takes publications."""
    came: tuple[str, ...] = ()
    """The span that the peer has told."""
    answered: bool = False
    """Whether the peer was told that its publications are taken."""

    @property
    def waits(self) -> bool:
        """Whether the peer waits for an answer, or the link is being drained."""
        return bool((self.came and not self.answered) or (self.path and not self.wanted))

    @property
    def use(self) -> str:
        """What this end does with it."""
        if self.wanted:
            return "in use" if self.taken else "opening"
        return "draining" if self.path else "incoming"


class MeshLinkFacts(NamedTuple):
    """A link or candidate, for people."""

    broker: str
    kind: str
    """`primary`, `soft` or `candidate`."""
    use: str
    """Of a soft link, what this end does with it."""
    span: int
    """Hops of the tree to the other broker; 0 if they are not known."""
    rate: float
    """Publications a second that it carries, or would carry if candidates were links."""
    gain: float
    """Its gain a second."""
    round: tuple[str, ...] = ()
    """The brokers that a soft link goes round because the first of them is dead."""
    bypassed_us: int | None = None
    """Since when copies go round this neighbour; None: they do not."""


class MeshFacts(NamedTuple):
    """What a mesh does, for people."""

    strategy: str
    """The strategy in use."""
    kept_back: tuple[str, ...]
    """Publishers that are held until what they have on a detour is confirmed, by name."""
    links: list[MeshLinkFacts]
    """Links of the tree, soft links and candidates, in the order of their names."""


class MeshTables(NamedTuple):
    """What a mesh goes by, for checkers."""

    own: BrokerRecord
    records: dict[str, BrokerRecord]
    """The records of others, by broker."""
    ways_back: dict[str, str]
    """By broker on the map, the next one on the way to this broker."""
    soft: Mapping[str, SoftLink]
    """The soft links, by the other end."""


class Mesh(Behaviour):
    """Keeps the maps of one broker, and the soft links that it wants."""

    name: ClassVar[str] = "mesh"
    messages: ClassVar[tuple[type, ...]] = (RecordUpdate,)
    messages_outside_tree: ClassVar[tuple[type, ...]] = (SoftSpan, SpanTaken)

    def __init__(self, view: BrokerView) -> None:
        super().__init__(view)
        config = self._config = view.config.mesh
        self.records = NeighbourhoodRecords(view.broker, view.incarnation, config.delta)
        self.soft: dict[str, SoftLink] = {}
        """By broker, in the order of their names."""
        self._tree: tuple[str, ...] = ()
        self._edges: tuple[tuple[str, str], ...] = ()
        self._master = MasterMap(view.broker, (), config.delta)
        self._due = True
        """Whether anything has happened that concerns the mesh since it was last looked at."""
        self._stale = True
        """Whether the links that the maps were made for have changed."""
        self.manager = LinkManager(config)
        self.bypass = Bypass(config.bypass_after_us)
        self._planner = MeshPlanner(view, self._first_strategy, self._on_kept_back)
        self._change_overs_us = 0
        """When the timer for change-overs fires; 0 if none is set."""

    @classmethod
    def make(cls, view: BrokerView, config: BrokerConfig) -> Self | None:
        """The mesh of a broker that knows more than its neighbours."""
        return cls(view) if config.mesh.delta > 1 else None

    def planner(self) -> MeshPlanner:
        """The planner that goes by the maps."""
        return self._planner

    @property
    def master(self) -> MasterMap:
        """The tree around this broker."""
        return self._master

    def facts(self) -> MeshFacts:
        """What it does, and with which links."""
        kept_back = {publisher for publisher, _, _ in self._planner.change_overs.kept_back}
        return MeshFacts(self._planner.strategy, tuple(sorted(kept_back)), self._link_facts())

    def tables(self) -> MeshTables:
        """Records, map and soft links."""
        records = {broker: self.records.record(broker) for broker in self.records.brokers}
        return MeshTables(
            self.records.own,
            {broker: record for broker, record in records.items() if record is not None},
            {b: (self.view.broker, *self._master.path(b))[-2] for b in self._master.brokers},
            self.soft,
        )

    def _link_facts(self) -> list[MeshLinkFacts]:
        near = self._neighbourhood()
        others = dict.fromkeys(self.manager.candidates, "candidate")
        kinds = others | dict.fromkeys(self._tree, "primary") | dict.fromkeys(self.soft, "soft")
        seconds = self._config.interval_us / 1e6
        return [
            MeshLinkFacts(
                link,
                kind,
                self.soft[link].use if kind == "soft" else "",
                len(self._master.path(link)) if link in self._master else 0,
                self.manager.traffic(link) / seconds if seconds else 0.0,
                self.manager.gain(link, near) / seconds if seconds else 0.0,
                self._round(link),
                self.bypass.state.since.get(link),
            )
            for link, kind in sorted(kinds.items())
        ]

    def ways_round(self) -> dict[str, tuple[str, ...]]:
        """By soft link that goes round dead brokers and is in use, the brokers that it passes."""
        return {link: way for link in self._taken if (way := self._round(link))}

    def _round(self, link: str) -> tuple[str, ...]:
        """The brokers that a link goes round because the first of them is dead."""
        soft = self.soft.get(link)
        if soft is None or not soft.path or soft.path[0] not in self.bypass.state.since:
            return ()
        return soft.path

    # --- what happens --------------------------------------------------------------------------

    def on_started(self) -> None:
        """Give up soft links of an earlier life, which are down; what was counted was so before
        the pause, and is forgotten."""
        self.records.set_address(self.view.address)
        for link in list(self.soft):
            self._close(link, "the broker has restarted")
        self.soft.clear()
        self._planner.take_counts()
        self._planner.change_overs = ChangeOvers(self._config.detour_us_max)
        self._change_overs_us = 0
        self.manager = LinkManager(self._config)
        if self._config.interval_us:
            self.view.set_timer(self.view.now_us + self._config.interval_us)
        down = [link for link in self.view.tree if not self.view.is_up(link)]
        self.bypass.on_restarted(self.view.now_us, down)
        self._due = self._stale = True
        self._update()

    def on_tree_changed(self) -> None:
        """The own record changes."""
        self._due = True

    def on_link_anew(self, link: str) -> None:
        """What was on its way over a link is lost."""
        self._due = True
        if link in self._tree:
            self.records.on_link_reset(link)

    def on_link_up(self, link: str) -> None:
        """A soft link that is wanted came up: tell its span."""
        self._due = True
        self.bypass.on_up(link)
        if self.view.kind(link) is LinkKind.SOFT:
            soft = self.soft.setdefault(link, SoftLink())
            self.soft = dict(sorted(self.soft.items()))
            if soft.wanted:
                self._tell_span(link, soft)

    def on_link_down(self, link: str) -> None:
        """Give up a soft link; go round a neighbour if it stays away."""
        self._due = True
        if link in self.view.tree:
            self.bypass.on_down(self.view.now_us, link)
        soft = self.soft.pop(link, None)
        if soft is not None:
            self._stale = True
            if self.bypass.is_required(link):
                self.bypass.on_lost(self.view.now_us, link, was_taken=soft.taken)
            elif soft.wanted:
                self.manager.on_failed(self.view.now_us, link, self.view.random())
            self._close(link, "the connection is gone")

    def on_neighbour_replaced(self, link: str) -> None:
        """Copies no longer go round a neighbour whose place another broker takes: what is parked
        for it goes to that one."""
        self._end_bypasses(link)

    def on_message(self, link: str, message: Any) -> None:
        """Take a record update, a span or the answer to one."""
        self._due = True
        match message:
            case RecordUpdate():
                self.records.receive(link, message)
            case SoftSpan():
                self._on_span(link, message)
            case SpanTaken():
                self._on_taken(link, message)

    def on_timer(self, detail: str) -> None:
        """Open and drop soft links as the link manager says, or look after dead neighbours."""
        if detail == _BYPASS:
            self._begin_bypasses()
            return
        if detail == _CHANGE_OVERS:
            self._change_overs_us = 0
            self._due = True
            failed = self._planner.change_overs.end_failed(self.view.now_us)
            for branch in dict.fromkeys(branch for _, _, branch in failed):
                self.view.routes_changed(branch)
            return
        now_us, manager = self.view.now_us, self.manager
        self._planner.change_overs.forget(now_us)
        manager.count(self._planner.take_counts())
        before = manager.candidates
        decision = manager.decide(now_us, self._neighbourhood(), self.view.random())
        for broker in decision.drop:
            if not self._round(broker):
                self.drop_soft(broker)
        for broker in decision.promote:
            if not self.open_soft(broker):
                manager.on_failed(now_us, broker, self.view.random())
        if manager.candidates != before:
            self._due = self._stale = True
        self.view.set_timer(now_us + self._config.interval_us)

    def on_load_sampled(self, sample: LoadSampled) -> None:
        """With strategy SH, send fewer copies while the uplink is busy."""
        if self._config.strategy == "SH":
            if sample.uplink > BUSY:
                self._planner.use_strategy("S1")
            elif sample.uplink < CALM:
                self._planner.use_strategy("S2")

    def on_batch_handled(self) -> None:
        """Bring maps up to date with what was handled, tell what changed, and go on with links."""
        if not self._due and not (self.bypass.state.since and self._bypass_is_due()):
            return  # it is called for every frame
        self._due = False
        if self._planner.change_overs.kept_back and not self._change_overs_us:
            next_us = self._planner.change_overs.next_us(self.view.now_us)
            assert next_us is not None, "somebody is kept back"
            self._change_overs_us = next_us
            self.view.set_timer(next_us, _CHANGE_OVERS)
        self._end_bypasses()
        for link, soft in list(self.soft.items()):
            if soft.came and not soft.answered and self._is_ready(soft):
                if self.records.denies((link, *soft.came, self.view.broker)):
                    self.view.close_link(link, "records deny the way that it passes by")
                    continue
                soft.answered = True
                self.view.send(link, SpanTaken(soft.came))
            # not before the answer has come: it would look like one to the next span
            if soft.taken and not soft.wanted and not self.view.unconfirmed(link):
                soft.path, soft.taken, self._stale = (), False, True
                self.view.send(link, SoftSpan(()))
                self._close_if_unused(link, soft)
            self._due |= soft.waits
        self._open_round()
        if self._stale:  # one that is rebuilt from here must plan the same
            self._update()

    def _on_kept_back(self) -> None:
        """A publisher is kept back from now on, and not for ever."""
        self._due = True

    # --- dead neighbours -----------------------------------------------------------------------

    def _bypass_is_due(self) -> bool:
        """Whether a neighbour that is bypassed is back, or another link is needed."""
        view, since = self.view, self.bypass.state.since
        return self._planner.has_sought or any(
            view.is_open(link) or not view.is_known(link) for link in since
        )

    def _end_bypasses(self, replaced: str = "") -> None:
        """End those of neighbours that are back, or about to be replaced."""
        view = self.view
        tree = [link for link in view.tree if link != replaced]
        ended = self.bypass.end(tree, view.is_open, view.is_known)
        for link in ended:
            self._stale = True
            view.trace(Reconfiguration.BYPASS, f"{view.broker}-{link}", "ended", link=link)
        self._update()
        for broker in self.bypass.unneeded(self._master):
            self.drop_soft(broker)

    def _begin_bypasses(self) -> None:
        """Route anew what neighbours that have been away for long had not confirmed."""
        view = self.view
        self._end_bypasses()  # by what came before in the same call
        begun = self.bypass.on_timer(view.now_us, self._master, view.is_known, self._taken)
        self._due = True
        if begun:
            self._stale = True
            self._update()
        for link in begun:
            view.trace(Reconfiguration.BYPASS, f"{view.broker}-{link}", "begun", link=link)
            view.take_back(link)

    def _open_round(self) -> None:
        """Open links round dead neighbours, and look again when the next one may be dead."""
        bypass, now_us = self.bypass, self.view.now_us
        if bypass.state.since:
            sought = self._planner.take_sought()
            bypass.seek(now_us, self._master, sought, self._taken, self._open_required)
        next_us = bypass.next_us(self._taken)
        if next_us is not None and next_us != bypass.state.timer_us:
            bypass.state.timer_us = next_us
            self.view.set_timer(next_us, _BYPASS)

    def _open_required(self, broker: str) -> bool:
        """Open a soft link within `links_max`, whatever it gains."""
        soft = self.soft.get(broker)
        links = len(self._tree) + sum(soft.wanted for soft in self.soft.values())
        has_room = links < self._config.links_max or (soft is not None and soft.wanted)
        return has_room and self.open_soft(broker)

    # --- soft links ----------------------------------------------------------------------------

    def open_soft(self, broker: str) -> bool:
        """Have publications sent past brokers, straight to this one; whether that may be: it is on
        the map, no neighbour, and says where it can be dialled."""
        record = self.records.record(broker)
        if record is None or broker not in self._master or self._master.distance(broker) < 2:
            return False
        self._due = True
        soft = self.soft.get(broker)
        if soft is None:
            if self.view.kind(broker) is None and not record.address:
                return False
            self.view.open_link(broker, record.address, LinkKind.SOFT)
            soft = self.soft[broker] = SoftLink()
            self.soft = dict(sorted(self.soft.items()))
        if not soft.wanted:
            soft.wanted = self._stale = True
            if not soft.path and self.view.is_up(broker):  # else it was being drained
                self._tell_span(broker, soft)
        return True

    def drop_soft(self, broker: str) -> None:
        """Send nothing more over a soft link, and close it once it is drained."""
        self._due = True
        self.bypass.on_dropped(broker)
        soft = self.soft.get(broker)
        if soft is not None and soft.wanted:
            soft.wanted = False
            self._stale = True
            if not soft.path:
                self._close_if_unused(broker, soft)

    def _tell_span(self, link: str, soft: SoftLink) -> None:
        way = self._master.path(link) if link in self._master else ()
        if len(way) < 2:
            soft.wanted = False
            self._close_if_unused(link, soft)
            return
        soft.path, self._stale = way[:-1], True
        self.view.send(link, SoftSpan(soft.path))

    def _close_if_unused(self, link: str, soft: SoftLink) -> None:
        if not soft.came:
            del self.soft[link]
            self._close(link, "nobody needs it any more")

    def _close(self, link: str, reason: str) -> None:
        """Close a soft link; one that has become a link of the tree is not the mesh's."""
        if self.view.kind(link) is LinkKind.SOFT:
            self.view.close_link(link, reason)

    def _on_span(self, link: str, message: SoftSpan) -> None:
        if self.view.kind(link) is not LinkKind.SOFT:
            raise RemoteProtocolError(link, "tells the span of a link that is not soft")
        passed = {*message.path, link, self.view.broker}
        if len(passed) < len(message.path) + 2:
            raise RemoteProtocolError(link, "tells a span that passes by a broker twice, or an end")
        soft = self.soft.setdefault(link, SoftLink())
        soft.came, soft.answered = message.path, False
        self._stale = True
        if not message.path:
            if not soft.wanted and not soft.path:
                self._close_if_unused(link, soft)
        elif message.path[-1] not in self.view.tree:
            last = message.path[-1]
            self.view.close_link(link, f"its span ends with {last}, which is no neighbour")

    def _on_taken(self, link: str, message: SpanTaken) -> None:
        soft = self.soft.get(link)
        if soft is None or not soft.path or soft.taken:
            raise RemoteProtocolError(link, "takes publications that nobody offered")
        if message.path != soft.path:
            return  # it answers an earlier span; the answer to this one is to come
        soft.taken = True
        self._stale = True
        self.view.send_data(link)

    def _is_ready(self, soft: SoftLink) -> bool:
        return self.view.missing <= {soft.came[-1]}

    def _neighbourhood(self) -> Neighbourhood:
        """What the link manager goes by."""
        view, records = self.view, self.records
        dialable = {b for b in records.brokers if (r := records.record(b)) and r.address}
        return Neighbourhood(
            self._master,
            {
                link: soft.taken
                for link, soft in self.soft.items()
                if soft.wanted and not self.bypass.is_required(link)
            },
            dialable | self.soft.keys(),
            load_shares(view.loads),
            {cost.link: cost.round_trip_us for cost in view.load.links},
        )

    @property
    def _taken(self) -> list[str]:
        """The soft links that this broker sends publications over."""
        return [link for link, soft in self.soft.items() if soft.wanted and soft.taken]

    # --- maps ----------------------------------------------------------------------------------

    def _update(self) -> None:
        tree = tuple(self.view.tree)
        if tree != self._tree:
            self._tree = tree
            self.records.set_neighbours(tree)
            for link in [link for link in self.soft if link in tree]:  # it was down
                del self.soft[link]
                self.bypass.on_dropped(link)
                self._stale = True
        for neighbour, update in self.records.take_updates():
            self.view.send(neighbour, update)
        edges = self.records.primary_edges
        if edges != self._edges:
            self._edges, self._stale = edges, True
            self._master = MasterMap(self.view.broker, edges, self._config.delta)
            for link, soft in self.soft.items():
                way = self._master.path(link)[:-1] if link in self._master else ()
                if soft.path and way != soft.path:
                    self.drop_soft(link)
        if self._stale:
            self._stale = False
            self._use_maps()
            for branch in tree:
                self.view.routes_changed(branch)

    def _use_maps(self) -> None:
        usable = self._taken
        branches = {
            link: (soft.path or soft.came[-1:])[0]
            for link, soft in self.soft.items()
            if soft.path or soft.came
        }
        opening = [link for link, soft in self.soft.items() if soft.wanted and not soft.taken]
        candidates = {*self.manager.candidates, *opening}
        bypassed = self.bypass.bypassed
        maps = OverlayMaps(self._master, usable, candidates, bypassed)
        self._planner.use_maps(maps, branches, bypassed)

    @property
    def _first_strategy(self) -> Strategy:
        strategy = self._config.strategy
        return "S2" if strategy == "SH" else strategy

    # --- restarts ------------------------------------------------------------------------------

    def snapshot(self) -> Any:
        """Records, the soft links, and what the link manager has counted: a broker that is rebuilt
        from its inputs must decide the same."""
        self.manager.count(self._planner.take_counts())
        self.bypass.note(self._planner.take_sought())
        return MeshState(
            self.records.snapshot(),
            self.soft,
            self._planner.strategy,
            self.manager.state,
            self.bypass.state,
            self._planner.change_overs.state,
            self._change_overs_us,
        )

    def restore(self, state: Any) -> None:
        """Go on from what `snapshot` gave."""
        kept = msgspec.convert(state, MeshState)
        self.records = NeighbourhoodRecords.restore(
            kept.records,
            self.view.incarnation,
            self._config.delta,
            kept.records.own.address,
        )
        self.soft = kept.soft
        self.manager = LinkManager(self._config, kept.links)
        self.bypass = Bypass(self._config.bypass_after_us, kept.bypass)
        self._planner.change_overs = ChangeOvers(self._config.detour_us_max, kept.change_overs)
        self._change_overs_us = kept.change_overs_us
        self._tree = kept.records.neighbours
        if self._config.strategy == "SH":
            self._planner.use_strategy(kept.strategy)
        self._edges = self.records.primary_edges
        self._master = MasterMap(self.view.broker, self._edges, self._config.delta)
        self._use_maps()
        self._stale = False


def told_spans(state: Any) -> dict[str, tuple[str, ...]]:
    """By soft link of the state of a mesh, the span that its other end was told."""
    return {link: soft.path for link, soft in msgspec.convert(state, MeshState).soft.items()}


class MeshState(msgspec.Struct):
    """What of a `Mesh` survives a restart."""

    records: RecordsState
    soft: dict[str, SoftLink]
    strategy: Strategy
    links: LinkManagerState = msgspec.field(default_factory=LinkManagerState)
    bypass: BypassState = msgspec.field(default_factory=BypassState)
    change_overs: list[ChangeOver] = []
    change_overs_us: int = 0
