"""Where an entry of a table came from."""

from __future__ import annotations

import msgspec


class Origin(msgspec.Struct, frozen=True):
    """Where an entry came from: a neighbour, or a local client (then `link` is None)."""

    link: str | None = None
    client: str = ""
    behind: tuple[str, ...] = ()
    """Brokers behind the neighbour towards the home of a subscription, nearest first, as far as
    the neighbour told. Of a merged placeholder, which came from here, the path of its parts."""

    @property
    def path(self) -> tuple[str, ...]:
        """The brokers from here towards its home, nearest first; empty at home."""
        return self.behind if self.link is None else (self.link, *self.behind)
