"""The interface of an add-on, which works on what a covering policy forwards, on its timer.

A policy tells its add-on what it forwards and what ends, and lets it do a step before it retires
placeholders of its own. The two share a budget and a timer, and know no more of each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from byway.core.covering.policy import PublicationObserver
from byway.core.covering.retirement import Budget
from byway.core.origin import Origin
from byway.core.tables import Entry, PlaceholderKind


class AddOn:
    """An add-on that does nothing; others override what they need."""

    makes: frozenset[PlaceholderKind] = frozenset()
    """The kinds of placeholders that it makes."""

    @property
    def observer(self) -> PublicationObserver | None:
        """The object that observes publications for the add-on; None: there is none."""
        return None

    @property
    def has_work(self) -> bool:
        """Whether a step would do something."""
        return False

    def on_started(self) -> None:
        """The broker begins, or goes on after a restart."""

    def on_forwarded(self, entry: Entry, link: str) -> None:
        """The policy sent a subscription over a link."""

    def on_ended(self, entries: Sequence[Entry]) -> None:
        """These have ended, wherever they had been forwarded to."""

    def on_moved(self, entry: Entry, before: Origin) -> None:
        """A subscription came another way than `before`, and is told anew."""

    def step(self, budget: Budget) -> None:
        """Do what is due, as far as the budget goes."""
        del budget

    def copy_from(self, other: Any, without: frozenset[str]) -> None:
        """Go on from the state of the same add-on of another routing, of which this one's is a
        copy; but for what is about the links `without`."""

    def snapshot(self) -> Any:
        """What must survive a restart, as msgpack can carry it; None: nothing."""
        return None

    def restore(self, state: Any) -> None:
        """Go on from what `snapshot` returned, if it was not None."""
