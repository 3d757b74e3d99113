"""What the parts of one broker share: its routing, its links, the time, and what is to be done.

It decides nothing. Parts change it through its few methods, and see one another only where one
hands work to the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from byway.core.broker_config import BrokerConfig
from byway.core.chance import Chance
from byway.core.copies import Copies, Copy
from byway.core.counters import Counters
from byway.core.hooks import Hooks
from byway.core.in_flight import InFlight
from byway.core.inputs import LoadSampled
from byway.core.kind_mismatches import KindMismatches
from byway.core.link_numbers import LinkNumbers
from byway.core.links import LinkEnd
from byway.core.outgoing import Outgoing
from byway.model.addresses import Listing
from byway.model.messages import Batch, LinkKind, Load
from byway.trace import TraceBuffer

if TYPE_CHECKING:
    from byway.core.branch_queues import BranchQueues
    from byway.core.routing import Routing


class Context:
    """The shared state of one broker."""

    routing: Routing
    """The routing in force. To be asked for at the moment of use, since another may take its place:
    no part keeps it, or anything of it, beyond the call that it handles."""

    __slots__ = (
        "address", "chance", "config", "copies", "counters", "draft", "ends", "former", "held",
        "hooks", "incarnation", "kind_mismatches", "links_version", "listing", "load", "loads",
        "name", "now_us", "numbers", "out", "routing", "told_delta", "trace",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        incarnation: int,
        config: BrokerConfig,
        trace: TraceBuffer,
    ) -> None:
        self.name = name
        self.incarnation = incarnation
        self.config = config
        self.trace = trace
        self.counters = Counters()
        self.hooks = Hooks()
        self.chance = Chance(name, incarnation)
        self.load = LoadSampled(0)
        """The driver's last report since the broker started."""
        self.loads: Mapping[str, Mapping[str, Load]] = {}
        """By link and broker behind it, the last load, if brokers exchange them."""
        self.address = ""
        """Where other brokers can dial this one, if that is known."""
        self.now_us = 0
        """The time of the input that is handled."""
        self.out = Outgoing()
        """What the current call of `handle` wants done."""
        self.ends: dict[str, LinkEnd] = {}
        """By broker, this broker's end of the link to it, in the order of the names: links of the
        tree (those of the routing in force), soft links, and links that are opening."""
        self.links_version = 0
        """Counts links that were added or removed."""
        self.numbers = LinkNumbers(config.mesh.delta)
        """Numbers of neighbours and anchors, the same in every routing."""
        self.draft: Routing | None = None
        """A draft beside the routing in force, once it is complete; `drafts` makes it."""
        self.kind_mismatches = KindMismatches(lambda: self.routing.subscriptions)
        self.former: dict[str, str] = {}
        """By broker that was a neighbour and may not become one again before an operator says so,
        the reason."""
        self.listing: Listing | None = None
        """The neighbours that the settings list; None: the driver has not told."""
        self.told_delta = config.mesh.delta
        """The Δ that the paths which neighbours were told go by."""
        self.held: BranchQueues | None = None
        """What is held by publisher and branch, if a behaviour plans routes."""
        self.copies = Copies()
        """Copies in flight, by link: each link's are also those of its end in `ends`."""

    @property
    def tree(self) -> dict[str, None]:
        """The links of the tree, in the order of their names; not to be changed."""
        return self.routing.links

    def kind(self, link: str) -> LinkKind:
        """What a link is for, at this end."""
        if link in self.routing.links:
            return LinkKind.PRIMARY
        return LinkKind.SOFT if self.ends[link].soft else LinkKind.OPENING

    def add_link(self, link: str, kind: LinkKind = LinkKind.PRIMARY) -> LinkEnd:
        """Add the end of a new link."""
        self.links_version += 1
        end = self.ends[link] = self.new_end(link, soft=kind is LinkKind.SOFT)
        self.ends = dict(sorted(self.ends.items()))
        self.copies.add_link(link, end.copies)
        if kind is LinkKind.PRIMARY:
            self.routing.add_link(link)
        return end

    def new_end(self, link: str, *, soft: bool) -> LinkEnd:
        """The end of a link that nothing has happened on."""
        return LinkEnd(
            self.name,
            link,
            self.incarnation,
            soft=soft,
            publisher_window=self.config.publisher_window,
            ordered=self.config.mesh.order == "publisher",
        )

    def replace_link(self, old: str, new: str) -> None:
        """Give the end of a link, its number and its copies another name."""
        self.links_version += 1
        end = self.ends[new] = self.ends.pop(old)
        end.peer = new
        self.ends = dict(sorted(self.ends.items()))
        self.copies.replace_link(old, new)
        self.numbers.replace_link(old, new)
        self.out.forget_link(old)

    def remove_link(self, link: str) -> list[Copy]:
        """Remove the end of a link; returns the copies that it had not confirmed. Whoever sent them
        still waits for each of these."""
        self.links_version += 1
        del self.ends[link]
        return self.copies.remove_link(link)

    def count_sent(self, link: str, batch: Batch) -> None:
        """Count and trace the messages of a frame that is sent over a link."""
        self.counters.count_sent(link, batch, self.now_us, self.trace, self.span(link))

    def confirmed(self, link: str, sources: Sequence[InFlight]) -> None:
        """A neighbour confirms copies of these data messages."""
        if not sources:
            return
        self.copies.release(link, sources)
        for source in sources:
            left = source.left = source.left - 1
            if not left:
                self._finished(source)
        if self.held is not None and self.held.queues:
            self.held.on_confirmed(link, sources)
        for hook in self.hooks.on_copies_confirmed:
            hook(link, len(sources))

    def branch_of(self, link: str) -> str:
        """The primary link of the branch that a link leads into."""
        return link if self.held is None else self.held.planner.branch_of(link)

    def span(self, link: str) -> int:
        """The hops of the tree to the other end of a link; 0 if they are not known."""
        return 1 if self.held is None else self.held.planner.span(link)

    def finish(self, pending: InFlight) -> None:
        """One copy of a data message is confirmed, or need not be. With the last one the message
        is finished, and whoever sent it is told at the end of this call of `handle`."""
        pending.left -= 1
        if not pending.left:
            self._finished(pending)

    def _finished(self, pending: InFlight) -> None:
        pending.window.finish(pending.number)
        link = pending.link
        if link in self.ends:
            self.out.touched[link] = None
        elif pending.client:
            self.out.confirming[pending.client] = None
            for hook in self.hooks.on_publication_finished:
                hook(pending.client, pending.number)
        if pending.duplicates is not None:
            for duplicate in pending.duplicates:
                self.finish(duplicate)
