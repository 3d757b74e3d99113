"""Successions: another broker takes the place of a neighbour that does not come back.

The successor stands where that neighbour stood: what was held from it is held from the successor,
entries and unconfirmed copies alike, so nothing changes for anybody else. To this broker it is the
old neighbour, restarted without state under another name. The greeting says so (`in_place_of`), and
the successor waits until all neighbours of the old one have told their tables. It gets no data
before it has told what it wants itself: until then nobody can say which of the copies are wanted
still. Those that are not are dropped and confirmed, and noted here as lost.

Only a broker without neighbours may succeed, or one that has lost its state. One that has seen
publications already would take those that come again for duplicates, and would not pass them on to
other neighbours of the old broker, which lack them. What a successor has seen since came from other
sides than that of a neighbour which comes late, so it takes that one. Where there is no third
neighbour, the two of the old broker may take its place, each for the other: whatever comes again
has gone where it must. That is how a broker leaves between two neighbours.

The old neighbour is a former one from then on. If it comes back it is refused, and told nothing
that makes it give up what it holds: publications may be among it that are confirmed to nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping

import msgspec

from byway.core.actions import CloseLink, OpenLink
from byway.core.context import Context
from byway.core.in_flight import InFlight
from byway.core.inputs import NeighbourReplaced
from byway.core.links import UNLISTED
from byway.core.losses import Losses
from byway.core.publications import Publications
from byway.core.reachability import Reachability
from byway.core.recovery import Recovery
from byway.core.table_sync import TableSync
from byway.model.messages import Hello, Publish, UnorderedHello


class Succession(msgspec.Struct, array_like=True):
    """One neighbour whose place another broker has taken here."""

    successor: str
    done: bool = False
    """Whether the successor has told its tables, and what it does not want was dropped; or it is a
    neighbour no more."""
    lost: Losses = msgspec.field(default_factory=Losses)
    """Publications for the old neighbour that nobody wants any more."""


class Successions:
    """The successions of one broker, as a neighbour of the old one and as a successor."""

    def __init__(
        self,
        context: Context,
        recovery: Recovery,
        sync: TableSync,
        publications: Publications,
        reachability: Reachability,
        in_flight: Callable[[], Iterable[InFlight]],
    ) -> None:
        """`in_flight` gives everything that waits for confirmations."""
        self._context = context
        self._recovery = recovery
        self._sync = sync
        self._publications = publications
        self._reachability = reachability
        self._in_flight = in_flight
        self.known: dict[str, Succession] = {}
        """By the old neighbour, the oldest succession first."""

    # --- at a neighbour of the old broker ------------------------------------------------------

    def reason_against(self, old: str, successor: str) -> str:
        """Why a broker cannot take the place of a neighbour here; empty if it can."""
        context = self._context
        here, end = context.name, context.ends.get(old)
        if end is None or old not in context.tree or old == UNLISTED:
            if old in self.known:
                return f"{self.known[old].successor} has taken the place of {old} at {here} already"
            return f"{old} is not a neighbour of {here}"
        if end.up:
            return f"{old} is connected to {here}: stop it first, and for good"
        if successor in (here, old, UNLISTED):
            return f"{successor or 'nobody'} cannot take the place of {old} at {here}"
        others = {*self._sync.neighbours_of.get(old, ())} - {here, successor}
        if successor in self._sync.neighbours_of.get(old, ()) and others:
            return (
                f"{successor} was a neighbour of {old} itself, which had others too "
                f"({', '.join(sorted(others))}): it can take the place of {old} only where these "
                "two were all, for it has seen publications that others lack; start a new broker"
            )
        # a link past the old one, or one whose span was not told yet, which is closed
        beside = successor not in context.tree and context.branch_of(successor) in (old, successor)
        if successor in context.ends and not beside and not self.is_unmet(successor):
            return (
                f"{successor} is linked with {here} already, and may have been sent publications "
                f"later than those that wait for {old}: stop {successor}, have {here} forget it "
                f"(byway topology forget {successor}), replace {old}, and then start {successor} "
                "without its state"
            )
        return ""

    def is_unmet(self, link: str) -> bool:
        """Whether nothing was ever exchanged with a neighbour: it was listed, or dialled this
        broker as a successor before this one was told of it, and was refused."""
        context, awaited = self._context, self._recovery.successors
        return link in context.tree and not context.ends[link].epoch and link not in awaited

    def begin(self, event: NeighbourReplaced) -> None:
        """Hold from the successor what was held from the old neighbour. The link is down."""
        old, new, context = event.neighbour, event.successor, self._context
        routing = context.routing
        moved = routing.replace_link(old, new)
        context.replace_link(old, new)
        self._publications.streams.replace_link(old, new)
        for source in self._in_flight():
            if source.link == old:
                source.link = new
        if context.held is not None:
            context.held.replace_branch(old, new)
        end = context.ends[new]
        end.distrusted()  # the successor has none of the numbers
        end.open = False
        end.address, end.dials = event.address, True
        self._recovery.replace_link(old, new)
        self._sync.replace_link(old, new)
        self._sync.learn_names(new, event.others)
        self._reachability.replace_link(old, new)
        sent = (*routing.subscriptions.went_to(new), *routing.placeholders.went_to(new))
        routing.policy.on_link_replaced(sent, new)
        for entry, before in moved:
            routing.subscription_rules.tell_path(entry, before)
        for earlier in self.known.values():
            if earlier.successor == old:
                earlier.successor = new
        self.known[old] = Succession(new)
        context.out.do(CloseLink(old, self.reason_for(old)))
        context.out.do(OpenLink(new, event.address))

    def reason_for(self, old: str) -> str:
        """Why a broker whose place another one has taken is no neighbour any more."""
        return f"{self.known[old].successor} has taken the place of {old} for good"

    def lose(self, link: str, message: Publish) -> None:
        """Nobody wants a publication that was kept for a successor."""
        old = self._recovery.successors[link]
        self.known[old].lost.add(message.publisher, message.incarnation, message.sequence)

    def end(self) -> None:
        """Note of successors that have told their tables, or are neighbours no more, that they
        have."""
        awaited = self._recovery.successors
        for succession in self.known.values():
            succession.done = succession.successor not in awaited

    def remember(self, successors: Mapping[str, str], former: Container[str]) -> None:
        """The broker begins, and knows from an earlier life who has taken the place of former
        neighbours. What was kept for them is lost with its state."""
        self.known |= {
            old: Succession(new, done=True) for old, new in successors.items() if old in former
        }

    def forget_but(self, former: Container[str]) -> None:
        """Remember only successions of brokers that are former neighbours."""
        self.known = {old: one for old, one in self.known.items() if old in former}

    def unconfirmed_of_clients(self) -> int:
        """How much in flight came from local clients."""
        return sum(1 for source in self._in_flight() if source.link is None)

    # --- at a successor ------------------------------------------------------------------------

    def reason_to_refuse(self, link: str, hello: Hello | UnorderedHello) -> str:
        """Why this broker cannot take the place that a neighbour wants it to take; empty if it can,
        has done so, or is not to take any."""
        old, here, recovery = hello.in_place_of, self._context.name, self._recovery
        if old is None or link in recovery.compared_with or self.is_mutual(link, old):
            return ""
        if old in self._context.tree and old not in recovery.in_place_of.values():
            return (
                f"{here} cannot take the place of {old} at {link} while it has {old} as a "
                f"neighbour itself: have {link} take its place there "
                f"(byway topology replace {old} --by {link})"
            )
        others = [other for other in self._met() if other != link]
        apart = [other for other in others if old in self._sync.neighbours_of.get(other, ())]
        if apart:
            return (
                f"{here} cannot take the place of {old} while it is linked with {apart[0]}, which "
                f"has {old} as a neighbour too and has not been told: stop {here}, have {apart[0]} "
                f"forget it, replace {old} there, and start {here} without its state"
            )
        if recovery.lost_state or all(recovery.in_place_of.get(other) == old for other in others):
            return ""
        names = ", ".join(others)
        return (
            f"{here} cannot take the place of {old}, for it has other neighbours ({names}): "
            "only a broker without neighbours can, or one that was started without its state"
        )

    def is_late(self, link: str, hello: Hello | UnorderedHello) -> bool:
        """Whether this broker has taken the place that a neighbour wants it to take, and waits for
        no other neighbour of the old one: nobody has named this one."""
        recovery, old = self._recovery, hello.in_place_of
        return (
            old in recovery.in_place_of.values()
            and not recovery.lost_state
            and link not in recovery.compared_with
        )

    def is_mutual(self, link: str, old: str) -> bool:
        """Whether this broker and a neighbour have taken the place of one that was between them,
        each for the other: none of both begins without state."""
        return self._recovery.successors.get(link) == old

    def _met(self) -> Iterator[str]:
        """Neighbours that this broker has ever been linked with."""
        ends = self._context.ends
        return (link for link in self._context.tree if link and ends[link].epoch)
