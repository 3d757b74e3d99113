"""No covering: every subscription goes wherever an advertisement may feed it."""

from __future__ import annotations

from collections.abc import Sequence

from byway.core.covering.policy import Covering, Withdrawals
from byway.core.tables import Entry


class NoCovering(Covering):
    """Forwards all."""

    name = "none"

    def arrived(self, entry: Entry, links: Sequence[str]) -> None:
        """Send it everywhere."""
        for link in links:
            self.moves.forward(entry, link)

    def concerned(self, entries: Sequence[Entry], link: str) -> None:
        """Send what was not sent yet."""
        for entry in entries:
            if link not in entry.forwarded:
                self.moves.forward(entry, link)

    def left(self, entries: Sequence[Entry], link: str, endings: Withdrawals) -> None:
        """Nothing stood behind them."""
        self.moves.withdraw(entries, link, None, endings)
