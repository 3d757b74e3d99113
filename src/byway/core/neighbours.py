"""Neighbours and other links: how a broker gains and loses them, and what follows when a link goes
up or down.

It decides what is done with everything that came from a neighbour, or was to go there, when the
neighbour is added, removed, connected or disconnected. A link has a kind: over one outside the tree
tables are not compared, and nothing follows for the routing when it comes or goes. What follows
when the tables of two neighbours have been compared is for `compared_tables` to say.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from byway.core.actions import CloseLink, OpenLink, Send
from byway.core.behaviours import Behaviour
from byway.core.context import Context
from byway.core.cycles import Cycles
from byway.core.inputs import (
    LinkDown,
    LinkUp,
    NeighbourAdded,
    NeighbourRemoved,
    NeighbourReplaced,
    NeighboursListed,
)
from byway.core.links import UNLISTED, LinkEnd
from byway.core.publications import Publications
from byway.core.reachability import Reachability
from byway.core.recovery import Recovery
from byway.core.successions import Successions
from byway.core.sync_state import Missing
from byway.core.table_sync import TableSync
from byway.model.errors import RemoteProtocolError, shortened
from byway.model.messages import (
    CONTROL,
    Batch,
    Disconnect,
    Hello,
    LinkKind,
    Publish,
    SoftSpan,
)
from byway.model.trace_schema import DropReason, LinkChange

NOTHING_LEARNT: Final[Mapping[str, str]] = MappingProxyType({})
"""Nothing is known of neighbours in an earlier life of a broker."""
FORMER_MAX: Final = 1_024
"""Former neighbours that are remembered; with one more, the oldest that is not listed is
forgotten."""
FORMER_REASON_LENGTH: Final = 200
"""Characters that are remembered of the reason."""


class Neighbours:
    """The neighbours and other links of one broker."""

    def __init__(
        self,
        context: Context,
        recovery: Recovery,
        sync: TableSync,
        publications: Publications,
        reachability: Reachability,
        successions: Successions,
        behaviours: Mapping[str, Behaviour],
    ) -> None:
        self._context = context
        self._recovery = recovery
        self._sync = sync
        self._publications = publications
        self._reachability = reachability
        self._successions = successions
        self._behaviours = behaviours
        self.cycles = Cycles(context, self.disconnect)

    @property
    def missing(self) -> Collection[str]:
        """Neighbours whose tables are missing."""
        return self._recovery.missing.keys()

    def is_known(self, link: str) -> bool:
        """Whether a neighbour's tables are here, and nothing is kept for it in case it wants it."""
        return link not in self._recovery.missing and link not in self._recovery.rechecking

    def end(self, link: str) -> LinkEnd:
        """This broker's end of a link. Raises `RemoteProtocolError` for one that is none."""
        end = self._context.ends.get(link)
        if end is None:
            raise RemoteProtocolError(link, f"is no neighbour of {self._context.name}")
        return end

    def open(self, link: str, address: str, kind: LinkKind) -> None:
        """Open a link of a kind to a broker, which is dialled at an address. A soft link is
        replaced by one for the tree; otherwise a link that there is stays as it is."""
        context = self._context
        end = context.ends.get(link)
        if link in (context.name, UNLISTED) or (end is not None and not end.soft):
            return
        if end is not None:
            if kind is LinkKind.SOFT:
                return
            self.disconnect(link, "the link becomes one of the tree")
        in_tree = kind is LinkKind.PRIMARY
        end = self.learn(link) if in_tree else context.add_link(link, kind)
        end.address, end.dials = address, True
        context.out.do(OpenLink(link, address, kind))

    # --- gained --------------------------------------------------------------------------------

    def begin(
        self, links: Iterable[str], learnt: Mapping[str, str], former: Mapping[str, str]
    ) -> None:
        """Add the neighbours that the broker is told of when it begins. Of an earlier life, where
        `learnt` ones said that they are, and `former` ones."""
        for link in links:
            self._add(link)
            self._recovery.missing[link] = Missing.ALL
            if link in learnt:
                end = self._context.ends[link]
                end.address, end.dials = learnt[link], True
        self._context.former.update(former)

    def _add(self, link: str) -> None:
        self._context.add_link(link)
        self._sync.add_link(link)
        self._tree_changed()

    def _tree_changed(self) -> None:
        for behaviour in self._behaviours.values():
            behaviour.on_tree_changed()

    def begin_from_older_state(self) -> None:
        """The broker goes on from a state that may be older than its last one. Links begin anew.
        Former neighbours may have become neighbours again since; if not, they remember it. A link
        outside the tree that another broker opened may have been closed since; if not, that broker
        dials. Those that an operator had added may have been linked, and have parted, since."""
        context = self._context
        context.former.clear()
        if context.listing is not None:
            context.listing = replace(context.listing, added=())
        for link, end in list(context.ends.items()):
            end.distrusted()
            end.open = False
            if link not in context.tree and not end.dials and not end.copies:
                context.remove_link(link)

    def compare_tables_anew(self) -> None:
        """The neighbourhood of this broker has another size than before its restart: neighbours
        hold paths that are too short or too long. Their tables are compared, so links begin anew.
        """
        for link in self._context.tree:
            end = self._context.ends[link]
            end.distrusted()
            end.open = False

    def use_delta(self) -> None:
        """After a restart with a larger Δ, forward what may no longer be quenched; with a smaller
        one, withdraw what may be. The paths of the others are told when tables are compared."""
        context, routing = self._context, self._context.routing
        before, context.told_delta = context.told_delta, context.config.mesh.delta
        rules, policy = routing.subscription_rules, routing.policy
        for link in context.tree if before != context.told_delta else ():
            wanted = [entry for entry in routing.subscriptions if rules.concerns(entry, link)]
            if before < context.told_delta:
                policy.on_advertised(wanted, link)
                continue
            for entry in wanted:
                if link in entry.forwarded:
                    policy.on_moved(entry, entry.origin, [link])

    def on_listed(self, event: NeighboursListed) -> None:
        """The settings list other neighbours, or more is known of these."""
        self._context.listing = event.listing
        if all(link == UNLISTED or self._is_listed(link) for link in self._context.tree):
            self.on_named()

    def on_added(self, event: NeighbourAdded) -> None:
        """An operator adds a neighbour."""
        link, end = event.neighbour, self._context.ends.get(event.neighbour)
        if link == self._context.name or (end is not None and not end.soft):
            return
        if end is not None:
            self.disconnect(link, "the link becomes one of the tree")
        self.learn(link)
        if link != UNLISTED:
            self._context.out.do(OpenLink(link))

    def learn(self, link: str) -> LinkEnd:
        """Add a neighbour that the broker was not told of when it began."""
        self._context.former.pop(link, None)
        self._successions.forget_but(self._context.former)
        self._add(link)
        self._recovery.expect(link)
        if link in self._recovery.missing:
            self._publications.waiting_copies.copy_to(link)
        routing = self._context.routing
        for entry in routing.adverts:
            routing.advertisement_rules.forward(entry, link)
        self._sync.send_names_to_all()
        return self._context.ends[link]

    def on_replaced(self, event: NeighbourReplaced) -> None:
        """An operator has another broker take the place of a neighbour, if it can. Links outside
        the tree that pass by the old neighbour are closed: what they have not confirmed goes back
        into its branch, in order."""
        old, new, context = event.neighbour, event.successor, self._context
        if self._successions.reason_against(old, new):
            return
        for behaviour in self._behaviours.values():
            behaviour.on_neighbour_replaced(old)
        for link in [link for link in context.ends if link not in context.tree]:
            if link == new or context.branch_of(link) == old:
                self.disconnect(link, f"{new} takes the place of {old}, which it passes by")
        if self._successions.is_unmet(new):
            self._remove(new, f"it takes the place of {old}")
        self._successions.begin(event)
        context.former.pop(new, None)
        self._remember(old, self._successions.reason_for(old))
        self._successions.forget_but(context.former)
        self._tree_changed()
        for hook in context.hooks.on_tables_replaced:
            hook()

    # --- lost ----------------------------------------------------------------------------------

    def on_removed(self, event: NeighbourRemoved) -> None:
        """An operator removes a neighbour, or the driver needs the room of a link outside the tree
        that is down."""
        link, end = event.neighbour, self._context.ends.get(event.neighbour)
        if link in self._context.tree and event.successor:
            reason = f"{self._context.name} leaves, and {event.successor} takes its place"
            self._say_farewell(link, Disconnect(reason, True, event.successor, event.address))
            self._remove(link, reason)
        elif link in self._context.tree:
            self.disconnect(link, "it is no neighbour any more")
        elif end is not None and not end.up:
            self._remove(link, "the link was down, and others were opened")

    def disconnect(self, link: str, reason: str, for_good: bool = False) -> None:
        """Close a link and tell the other end why. `for_good`: the other end does not become a
        neighbour again before an operator says so."""
        self._say_farewell(link, Disconnect(reason, for_good))
        self._remove(link, reason, for_good)

    def _say_farewell(self, link: str, message: Disconnect) -> None:
        """Send a last message over a link, if it is up."""
        farewell = self._context.ends[link].post_control([message])
        if farewell is not None:
            self._context.count_sent(link, farewell)
            self._context.out.do(Send(link, farewell))

    def refuse_span(self, link: str, message: SoftSpan) -> None:
        """Without a mesh nothing is taken over a soft link; the other end would wait for ever."""
        del message
        self.disconnect(link, f"{self._context.name} has no mesh")

    def on_disconnect(self, link: str, message: Disconnect) -> None:
        """The other end of a link has closed it. For good counts of neighbours that have compared
        tables, or are listed: anybody may connect where all are accepted."""
        for_good = message.for_good and (self._is_listed(link) or self._sync.is_synced(link))
        if for_good and message.successor is not None and link in self._context.tree:
            self._context.ends[link].lost()
            self._link_went_down(link, LinkChange.CLOSED, in_tree=True)
            self.on_replaced(NeighbourReplaced(link, message.successor, message.address))
            if link in self._context.ends:  # it waits for an operator, and loses nothing
                self._context.out.do(CloseLink(link, message.reason))
        elif link in self._recovery.successors and link in self._context.tree:
            # it may not have been told yet; what it is to get is given up by an operator alone
            self._context.ends[link].lost()
            self._link_went_down(link, LinkChange.CLOSED, in_tree=True)
            self._context.out.do(CloseLink(link, message.reason))
        else:
            self._remove(link, message.reason, for_good)

    def _is_listed(self, link: str) -> bool:
        """Whether the settings list a broker, as far as the driver has told."""
        listing = self._context.listing
        return listing is None or any(n.id == link for n in listing.listed)

    def _expect_unnamed(self, link: str) -> None:
        """This broker takes the place of one that a neighbour had. If it does not list its
        neighbours, it waits for those that nobody has named yet."""
        recovery = self._recovery
        if recovery.compared_with or recovery.nobody_named or self._is_listed(link):
            return
        recovery.nobody_named = True
        if UNLISTED not in self._context.ends:
            self.learn(UNLISTED)

    def on_named(self) -> None:
        """Somebody has named the neighbours of the broker whose place this one takes."""
        if self._recovery.nobody_named:
            self._recovery.nobody_named = False
            self._sync.send_names_to_all()
            self.stop_waiting_for_unlisted()

    def stop_waiting_for_unlisted(self) -> None:
        """Neighbours that are not listed had their time to connect."""
        if UNLISTED in self._context.ends:
            self._remove(UNLISTED, "")

    def _remove(self, link: str, reason: str, for_good: bool = False) -> None:
        context, in_tree = self._context, link in self._context.tree
        if in_tree:
            context.routing.end_link(link)
        end, copies = context.ends[link], context.remove_link(link)
        anew = context.held is not None and not in_tree
        for _, source in () if anew else copies:
            context.finish(source)
        if in_tree:
            context.routing.remove_link(link)
            context.numbers.release(link)
            if for_good:
                self._remember(link, reason)
        if link != UNLISTED and not anew:  # what was kept for that one was kept in case
            for message, _ in copies:
                if isinstance(message, Publish):
                    self._publications.drop(message, DropReason.LINK_LOST, link)
        context.out.forget_link(link)
        if context.held is not None:
            if in_tree:
                for message in context.held.remove_branch(link):
                    self._publications.drop(message, DropReason.LINK_LOST, link)
            else:
                context.held.route_anew(link, copies)
        if end.up:
            self._link_went_down(link, LinkChange.CLOSED, in_tree=in_tree)
        if in_tree:
            self._sync.remove_link(link)
            self._successions.end()
            self._reachability.on_link_changed(link)
            self._tree_changed()
        if link != UNLISTED:
            context.out.do(CloseLink(link, reason))

    def take_back(self, link: str) -> None:
        """Route anew what a link of the tree that is down has not confirmed. Its numbers are gone,
        so it begins anew."""
        context = self._context
        end = context.ends[link]
        assert context.held is not None, "there is no other way"
        assert not end.up, "it would have to be closed first"
        end.distrusted()
        end.open = False
        context.held.route_anew(link, context.copies.take_back(link))

    def _remember(self, link: str, reason: str) -> None:
        """Note that a broker was a neighbour and does not become one again by itself."""
        former = self._context.former
        former[link] = shortened(reason, FORMER_REASON_LENGTH)
        if len(former) > FORMER_MAX:
            unlisted = (name for name in former if not self._is_listed(name))
            del former[next(unlisted, next(iter(former)))]

    # --- connections ---------------------------------------------------------------------------

    def on_link_up(self, event: LinkUp) -> None:
        """A broker is connected: both ends resume, or count from 1 and, in the tree, compare
        tables. One that dials for a link outside the tree needs no other announcement."""
        link, context = event.link, self._context
        is_new = link not in context.ends and _is_outside_tree(event.hello)
        if link not in context.ends and not is_new:
            self._turn_away(link)
            return
        if self._is_other_kind(link, event.hello):
            self._give_way(link, event.hello)
            return
        refusal = self._successions.reason_to_refuse(link, event.hello)
        if refusal:
            self._context.out.do(CloseLink(link, refusal))
            return
        try:
            kind = event.hello.kind or LinkKind.PRIMARY
            end = context.add_link(link, kind) if is_new else context.ends[link]
            meeting = end.meet(event.hello, event.said)
        except RemoteProtocolError as error:
            if is_new:
                context.remove_link(link)
            self.distrust(link, error)
            return
        in_tree = link in context.tree
        if event.hello.knows not in (0, context.incarnation):
            self._sync.on_restart_detected()  # it has numbers of an earlier life of this broker
        if meeting.resumed:
            context.confirmed(link, meeting.confirmed)
            for batch in meeting.again:
                context.count_sent(link, batch)
                context.out.do(Send(link, batch))
            context.out.touched[link] = None  # what was confirmed since our greeting is news
            if in_tree:
                self._sync.on_link_resumed(link)
        else:
            context.out.forget_control(link)  # of earlier inputs of the same batch
            old = event.hello.in_place_of
            if old is not None and in_tree and not self._successions.is_mutual(link, old):
                self._sync.on_succession(link, old)
                self._publications.waiting_copies.copy_to_missing_again()
                self._expect_unnamed(link)
            if in_tree:
                self._sync.on_link_reset(link)
                context.routing.subscription_rules.link_anew(link)
            elif end.soft and context.config.mesh.delta == 1:  # else the mesh says when
                context.out.opening[link] = None
            for behaviour in self._behaviours.values():
                behaviour.on_link_anew(link)
        if in_tree:
            self.cycles.on_link_up(link)
            self._reachability.on_link_changed(link, reset=not meeting.resumed)
        self._trace_change(link, LinkChange.RESUMED if meeting.resumed else LinkChange.OPENED)
        for behaviour in self._behaviours.values():
            behaviour.on_link_up(link)
        if context.held is not None:
            context.held.on_link_changed(link)

    def _is_other_kind(self, link: str, hello: Hello) -> bool:
        """Whether one end takes a link for soft that the other wants for the tree, or for one that
        is opening, and has lost what both had agreed on."""
        end = self._context.ends.get(link)
        if end is None or hello.kind is None:
            return False
        if end.soft or hello.kind is LinkKind.SOFT:
            return end.soft != (hello.kind is LinkKind.SOFT)
        return hello.kind is not self._context.kind(link) and not end.resumes_with(hello)

    def _give_way(self, link: str, hello: Hello) -> None:
        """The two ends disagree: the one that is further from the tree forgets the link, so that
        the next greeting succeeds."""
        here, there = self._context.kind(link), hello.kind
        reason = f"the link is {here} at {self._context.name}, and {there} at {link}"
        if there is LinkKind.PRIMARY or (there is LinkKind.OPENING and here is LinkKind.SOFT):
            self._remove(link, reason)
        else:
            self._context.out.do(CloseLink(link, reason))

    def _turn_away(self, link: str) -> None:
        """A former neighbour does not know that it is one, or the link was closed while its other
        end greeted: tell it so, and close."""
        if link in self._successions.known:
            self._context.out.do(CloseLink(link, self._successions.reason_for(link)))
            return
        former = self._context.former.get(link)
        reason = former or f"is no neighbour of {self._context.name}"
        batch = Batch(CONTROL, 1, (Disconnect(reason, for_good=former is not None),))
        self._context.out.do(Send(link, batch))
        self._context.out.do(CloseLink(link, reason))

    def on_link_down(self, event: LinkDown) -> None:
        """The connection to a broker is gone; nothing is forgotten."""
        end = self._context.ends.get(event.link)
        if end is None or not end.up:
            return
        end.lost()
        in_tree = event.link in self._context.tree
        self._link_went_down(event.link, LinkChange.LOST, in_tree=in_tree)

    def _link_went_down(self, link: str, change: LinkChange, *, in_tree: bool) -> None:
        if in_tree:
            self.cycles.on_link_down(link)
            self._reachability.on_link_changed(link)
        self._trace_change(link, change, in_tree=in_tree)
        for behaviour in self._behaviours.values():
            behaviour.on_link_down(link)
        if self._context.held is not None:
            self._context.held.on_link_changed(link)

    def _trace_change(self, link: str, change: LinkChange, *, in_tree: bool | None = None) -> None:
        if in_tree is None:
            in_tree = link in self._context.tree
        span = 1 if in_tree else 0
        self._context.trace.link_changed(self._context.now_us, link, change, span)

    def distrust(self, link: str, error: RemoteProtocolError) -> None:
        """Close the connection of a peer that broke the rules, and nothing else."""
        end = self._context.ends.get(link)
        if end is not None:
            end.distrusted()
            in_tree = link in self._context.tree
            self._link_went_down(link, LinkChange.CLOSED, in_tree=in_tree)
        self._context.out.do(CloseLink(link, error.reason, fault=True))


def _is_outside_tree(hello: Hello) -> bool:
    """Whether a broker greets for a link that is none of the tree."""
    return hello.kind in (LinkKind.SOFT, LinkKind.OPENING)
