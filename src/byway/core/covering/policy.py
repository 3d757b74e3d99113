"""The interface of a covering policy, and the operations it may use.

A subscription *concerns* a link if an advertisement that came from there may feed it. On such a
link it is either forwarded, or quenched: another subscription that covers it is forwarded in its
place. The policy decides which of the two; it has to see to it that every subscription is one of
them, and that additions precede withdrawals. Nothing is recorded about who quenches whom: the index
can tell.

An entry that is forwarded though nobody subscribes to it as it is, is a *placeholder*. There are
two kinds. A *preserved* one is a subscription that has ended, which the broker keeps for some links
without telling them; a *merged* one was made by the broker out of several subscriptions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from byway.core.broker_config import BrokerConfig
from byway.core.covering.statistics import Statistics
from byway.core.origin import Origin
from byway.core.tables import Entry, Placeholder, PlaceholderKind, Withdrawal
from byway.model import Attributes, Filter
from byway.model.messages import EntryId

Withdrawals = Mapping[EntryId, Withdrawal]
"""By id, how subscriptions were withdrawn that have ended for good."""


class ForwardingOps(Protocol):
    """What a policy may do with subscriptions, and ask about them."""

    def forward(self, entry: Entry, link: str) -> None:
        """Send a subscription over a link."""

    def quench(self, entry: Entry, quencher: Entry, link: str) -> None:
        """Do not send a subscription: `quencher`, which is forwarded there, covers it."""

    def withdraw(
        self, entries: Sequence[Entry], link: str, quencher: Entry | None, withdrawals: Withdrawals
    ) -> None:
        """Take back subscriptions that were sent over a link. They end or no longer concern the
        link, or `quencher` covers them there now."""

    def preserve(self, entry: Entry, placeholder: Placeholder) -> None:
        """Keep a subscription that has ended, for the links it is still forwarded to."""

    def restate(self, entry: Entry, placeholder: Placeholder) -> None:
        """Change what becomes of a placeholder."""

    def entry(self, id: EntryId) -> Entry | None:
        """The entry with this id, a subscription or a placeholder."""

    def add_merged(self, id: EntryId, filter: Filter, path: tuple[str, ...]) -> Entry:
        """Store a new merged placeholder, which is forwarded nowhere yet. Its parts are told with
        this path."""

    @property
    def placeholder_count(self) -> int:
        """Number of placeholders of both kinds."""

    def placeholders(self) -> list[Entry]:
        """All placeholders of both kinds, the oldest first."""

    def told_path(self, origin: Origin) -> tuple[str, ...]:
        """The path that neighbours are told for an entry of this origin."""

    def may_quench(self, wide: Origin, origin: Origin) -> bool:
        """Whether an entry of the origin `wide` may quench one of another origin that it covers:
        what comes for it also comes where the other one wants it."""

    def covering(self, filter: Filter, origin: Origin) -> list[Entry]:
        """Subscriptions that cover a filter and may quench an entry of this origin; its own too if
        it is stored."""

    def covered_by(self, filter: Filter, origin: Origin) -> list[Entry]:
        """Subscriptions that a filter covers and an entry of this origin may quench; its own too if
        it is stored."""

    def sent_covering(self, filter: Filter, origin: Origin) -> list[Entry]:
        """Subscriptions and placeholders forwarded to any link that cover a filter and may quench
        an entry of this origin: few."""

    def sent_covered_by(self, filter: Filter, origin: Origin) -> list[Entry]:
        """Subscriptions and placeholders forwarded to any link that a filter covers and an entry of
        this origin may quench."""

    def concerns(self, entry: Entry, link: str) -> bool:
        """Whether an entry concerns a link."""

    def wanted(self, attributes: Attributes, link: str) -> bool:
        """Whether any subscription here matches a publication that came from a link."""

    def merged_matching(self, attributes: Attributes) -> list[Entry]:
        """Merged placeholders that match a publication."""

    @property
    def broker(self) -> tuple[str, int]:
        """The name and incarnation of the broker."""

    def feeds(self, publisher: str, link: str) -> bool:
        """Whether a publisher's advertisements came from a link."""

    def count_triggered(self, count: int) -> None:
        """Count subscriptions that were forwarded because another one went."""

    def wake(self, after_us: int) -> None:
        """Have `Covering.on_timer` called after a time."""

    @property
    def now_us(self) -> int:
        """The time of the input that is handled."""


class PublicationObserver(Protocol):
    """Observes a sample of the publications that come over links."""

    def observes(self) -> bool:
        """Whether to sample this publication; to be called once for each."""

    def observe(self, attributes: Attributes, link: str) -> None:
        """Take note of a sampled publication that came over a link."""


class Covering(ABC):
    """The covering policy of one broker: which subscriptions are forwarded over which link."""

    name: str
    packs: bool = False
    """Whether subscriptions that go out together travel in one message."""
    makes: frozenset[PlaceholderKind] = frozenset()
    """The kinds of placeholders that are made here of the policy's own accord."""
    statistics: Statistics | None = None
    """What local subscriptions received; None: it is not collected."""
    observer: PublicationObserver | None = None
    """The object that observes publications; None: there is none."""

    def __init__(self, ops: ForwardingOps, config: BrokerConfig) -> None:
        self.ops = ops
        self.config = config

    @abstractmethod
    def on_subscribed(self, entry: Entry, links: Sequence[str]) -> None:
        """A new subscription is in the table; it concerns these links."""

    @abstractmethod
    def on_advertised(self, entries: Sequence[Entry], link: str) -> None:
        """An advertisement came from `link`; these subscriptions concern it, maybe not for the
        first time."""

    @abstractmethod
    def on_moved(self, entry: Entry, before: Origin, links: Sequence[str]) -> None:
        """A subscription came another way than `before`, and concerns these links, as it did; the
        path that neighbours are told for it has changed."""

    def on_link_replaced(self, entries: Sequence[Entry], link: str) -> None:
        """A link has the name `link` now, and these subscriptions and placeholders are forwarded
        there. Nothing is forwarded to it by its old name any more."""
        del entries, link

    def on_left_out(self, filter: Filter, origin: Origin, link: str) -> None:
        """A subscription with this filter and origin was forwarded to `link`, and is not in this
        routing, which was copied from another one: see to what it quenched there."""
        del filter, origin, link

    @abstractmethod
    def on_withdrawn(self, entries: Sequence[Entry], link: str, withdrawals: Withdrawals) -> None:
        """These were forwarded to `link` and must be withdrawn there. They have ended, and are no
        longer in the table, or no longer concern the link. Those with a withdrawal may be preserved
        instead."""

    def withdrawal_of(self, entry: Entry) -> Withdrawal:
        """What to tell other brokers when a local client takes back this subscription."""
        del entry
        return Withdrawal()

    def on_lost(self, entries: Sequence[Entry]) -> Withdrawals:
        """A neighbour no longer knows of these, or is gone: how they are withdrawn."""
        del entries
        return {}

    def on_ended(self, entries: Sequence[Entry]) -> None:
        """These have ended and were withdrawn, wherever they had been forwarded to."""
        del entries

    def on_load_sampled(self, queued: int) -> None:
        """`queued` messages wait in the broker's input queue."""
        del queued

    @abstractmethod
    def on_started(self) -> None:
        """The broker begins, or goes on after a restart."""

    @abstractmethod
    def on_timer(self) -> None:
        """The timer set by `ForwardingOps.wake` fired."""

    @abstractmethod
    def on_put_in_force(self) -> None:
        """The routing of this policy, a draft until now, is put in force: set what timers there
        should be."""

    def copy_from(self, other: Any, without: frozenset[str]) -> None:
        """Go on from the state of the same policy of another routing, of which this one's is a
        copy; but for what is about the links `without`."""
        del other, without

    def snapshot(self) -> Any:
        """What must survive a restart, as msgpack can carry it."""
        return None

    def restore(self, state: Any) -> None:
        """Go on from what `snapshot` returned before a restart."""
        del state
