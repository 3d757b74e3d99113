"""What a covering policy is asked, and the moves it may make.

A subscription *concerns* a link if an advertisement that came from there may feed it. There it is
either forwarded, or quenched: another that covers it is forwarded in its stead. Which of the two is
the policy's business; that nothing is neither, and that additions precede withdrawals, are its
duties. Nothing is recorded about who quenches whom: the index can tell.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

from byway.core.tables import Entry
from byway.model import Filter


class Moves(Protocol):
    """What a policy may do, and ask."""

    def forward(self, entry: Entry, link: str) -> None:
        """Send a subscription over a link."""

    def quench(self, entry: Entry, quencher: Entry, link: str) -> None:
        """Do not send it: `quencher`, which is forwarded there, covers it."""

    def withdraw(self, entries: Sequence[Entry], link: str, quencher: Entry | None) -> None:
        """Take back subscriptions that were sent over a link: one message for all. They end or no
        longer concern the link, or `quencher` stands for them now."""

    def covering(self, filter: Filter) -> list[Entry]:
        """Entries that cover a filter, the filter's own entry too if it is stored."""

    def covered_by(self, filter: Filter) -> list[Entry]:
        """Entries that a filter covers, its own entry too if it is stored."""

    def concerns(self, entry: Entry, link: str) -> bool:
        """Whether an entry concerns a link."""


class Covering(ABC):
    """One policy of one broker."""

    name: str

    def __init__(self, moves: Moves) -> None:
        self.moves = moves

    @abstractmethod
    def arrived(self, entry: Entry, links: Sequence[str]) -> None:
        """A new entry is in the table; it concerns these links."""

    @abstractmethod
    def concerned(self, entries: Sequence[Entry], link: str) -> None:
        """An advertisement came from `link`; these entries concern it, maybe not for the first
        time."""

    @abstractmethod
    def left(self, entries: Sequence[Entry], link: str) -> None:
        """These were forwarded to `link` and must be withdrawn there. They have ended, and are no
        longer in the table, or no longer concern the link."""
