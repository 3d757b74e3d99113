"""No covering: every subscription goes wherever an advertisement may feed it."""

from __future__ import annotations

from collections.abc import Sequence

from byway.core.covering.policy import Covering, Withdrawals
from byway.core.origin import Origin
from byway.core.tables import Entry


class NoCovering(Covering):
    """Forwards every subscription to every link that it concerns."""

    name = "none"

    def on_subscribed(self, entry: Entry, links: Sequence[str]) -> None:
        """Send the subscription to all these links."""
        for link in links:
            self.ops.forward(entry, link)

    def on_moved(self, entry: Entry, before: Origin, links: Sequence[str]) -> None:
        """Tell all these links its new path."""
        del before
        self.on_subscribed(entry, links)

    def on_advertised(self, entries: Sequence[Entry], link: str) -> None:
        """Send what was not sent over the link yet."""
        for entry in entries:
            if link not in entry.forwarded:
                self.ops.forward(entry, link)

    def on_withdrawn(self, entries: Sequence[Entry], link: str, withdrawals: Withdrawals) -> None:
        """Withdraw them; they quenched nothing."""
        self.ops.withdraw(entries, link, None, withdrawals)

    def on_started(self) -> None:
        """Do nothing: nothing can have been left to do."""

    def on_put_in_force(self) -> None:
        """Do nothing: no timer is ever set."""

    def on_timer(self) -> None:
        """Nothing is left to do; no timer is ever set."""
