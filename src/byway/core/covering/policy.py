"""What a covering policy is asked, and the moves it may make.

A subscription *concerns* a link if an advertisement that came from there may feed it. There it is
either forwarded, or quenched: another that covers it is forwarded in its stead. Which of the two is
the policy's business; that nothing is neither, and that additions precede withdrawals, are its
duties. Nothing is recorded about who quenches whom: the index can tell.

A subscription that ends may be *preserved* on a link: what is beyond is not told, and it goes on
standing for others there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from byway.core.broker_config import BrokerConfig
from byway.core.covering.statistics import Statistics
from byway.core.tables import Entry, Withdrawal
from byway.model import Attributes, Filter
from byway.model.messages import EntryId

if TYPE_CHECKING:
    from byway.core.covering.merging import Merging

Withdrawals = Mapping[EntryId, Withdrawal]
"""How those ended that have ended for good, by id."""


class ForwardingOps(Protocol):
    """What a policy may do, and ask."""

    def forward(self, entry: Entry, link: str) -> None:
        """Send a subscription over a link."""

    def quench(self, entry: Entry, quencher: Entry, link: str) -> None:
        """Do not send it: `quencher`, which is forwarded there, covers it."""

    def withdraw(
        self, entries: Sequence[Entry], link: str, quencher: Entry | None, endings: Withdrawals
    ) -> None:
        """Take back subscriptions that were sent over a link. They end or no longer concern the
        link, or `quencher` stands for them now."""

    def preserve(self, entry: Entry, ending: Withdrawal) -> None:
        """Keep one that has ended, for the links it is still forwarded to."""

    def entry(self, id: EntryId) -> Entry | None:
        """The one of an id, preserved or not."""

    def stand_in(self, id: EntryId, filter: Filter) -> Entry:
        """A new entry that is nobody's: a merger."""

    @property
    def preserved_count(self) -> int:
        """How many they are."""

    def preserved(self) -> list[Entry]:
        """All that are preserved, mergers too, the oldest first."""

    def covering(self, filter: Filter) -> list[Entry]:
        """Entries of the table that cover a filter, the filter's own too if it is stored."""

    def covered_by(self, filter: Filter) -> list[Entry]:
        """Entries of the table that a filter covers, its own too if it is stored."""

    def sent_covering(self, filter: Filter) -> list[Entry]:
        """The same of those that are forwarded anywhere, preserved or not: few."""

    def sent_covered_by(self, filter: Filter) -> list[Entry]:
        """The same of those that are forwarded anywhere, preserved or not."""

    def concerns(self, entry: Entry, link: str) -> bool:
        """Whether an entry concerns a link."""

    def wanted(self, attributes: Attributes, link: str) -> bool:
        """Whether anybody here wants a publication that came from a link."""

    def mergers(self, attributes: Attributes) -> list[Entry]:
        """Those that match a publication."""

    @property
    def broker(self) -> tuple[str, int]:
        """The name and incarnation of the broker."""

    def feeds(self, publisher: str, link: str) -> bool:
        """Whether a publisher's advertisements came from a link."""

    def triggered(self, count: int) -> None:
        """So many were forwarded because another one went."""

    def wake(self, after_us: int) -> None:
        """Have `woken` called after a time."""

    @property
    def now_us(self) -> int:
        """The time of the input that is handled."""


class Covering:
    """One policy of one broker."""

    name: str
    packs: bool = False
    """Whether subscriptions that go out together travel in one message."""
    statistics: Statistics | None = None
    """What local subscriptions received; None: it is not collected."""
    merging: Merging | None = None
    """Looks at publications too, if there is any merging; None: there is not."""

    def __init__(self, moves: ForwardingOps, config: BrokerConfig) -> None:
        self.moves = moves
        self.config = config

    def arrived(self, entry: Entry, links: Sequence[str]) -> None:
        """A new entry is in the table; it concerns these links."""
        raise NotImplementedError

    def concerned(self, entries: Sequence[Entry], link: str) -> None:
        """An advertisement came from `link`; these entries concern it, maybe not for the first
        time."""
        raise NotImplementedError

    def left(self, entries: Sequence[Entry], link: str, endings: Withdrawals) -> None:
        """These were forwarded to `link` and must be withdrawn there. They have ended, and are no
        longer in the table, or no longer concern the link. Those with an ending may be preserved
        instead."""
        raise NotImplementedError

    def ending(self, entry: Entry) -> Withdrawal:
        """A local client takes back a subscription: what is known about how it may end."""
        del entry
        return Withdrawal()

    def lost(self, entries: Sequence[Entry]) -> Withdrawals:
        """A neighbour no longer knows of these, or is gone: what is known about how they end."""
        del entries
        return {}

    def gone(self, entries: Sequence[Entry]) -> None:
        """These have ended, wherever they were forwarded to."""

    def loaded(self, queued: int) -> None:
        """So many messages wait in the broker's input queue."""

    def started(self) -> None:
        """The broker begins, or goes on after a restart."""

    def woken(self) -> None:
        """It asked for it."""

    def snapshot(self) -> Any:
        """What must survive a restart, as msgpack can carry it."""
        return None

    def restore(self, state: Any) -> None:
        """Take back what `snapshot` gave."""
