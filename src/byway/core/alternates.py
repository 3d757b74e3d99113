"""Alternate origins of the entries of one table: other neighbours that announced the same entry.

An entry has one origin, the first neighbour that announced it. On a tree nobody else does for long:
only while an operator moves a link, or before a cycle is cut. This file keeps who else did; what
follows when the origin withdraws the entry is decided in `takeover`. A broker that goes on from an
older state may know a subscription from a neighbour that was replaced since; one that announces it
too becomes its origin when it has told all its subscriptions (`Subscriptions.prefer`).
"""

from __future__ import annotations

from byway.core.origin import Origin
from byway.model import Filter
from byway.model.messages import EntryId


class AlternateOrigins:
    """By entry, the neighbours beside its origin that announced it, and how often."""

    def __init__(self) -> None:
        self.links: dict[EntryId, dict[str, int]] = {}
        """By id, how often each other neighbour announced the entry."""
        self.behind: dict[tuple[EntryId, str], tuple[str, ...]] = {}
        """By id and neighbour, the brokers behind it that the entry came along, if it told any."""
        self.pending_takeover: dict[EntryId, Filter] = {}
        """Withdrawn entries that another neighbour still announces. Unless that one withdraws them
        too, it becomes their origin after a while. At once, brokers of a cycle would take them from
        each other for ever."""

    def __contains__(self, id: EntryId) -> bool:
        return id in self.links

    def add(self, id: EntryId, link: str, behind: tuple[str, ...] = ()) -> None:
        """Another neighbour announces an entry too, which came along the brokers `behind` it."""
        counts = self.links.setdefault(id, {})
        counts[link] = counts.get(link, 0) + 1
        if behind:
            self.behind[id, link] = behind
        else:
            self.behind.pop((id, link), None)

    def withdraw(self, id: EntryId, link: str) -> None:
        """Another neighbour withdraws one of its announcements, if it made any."""
        counts = self.links.get(id)
        if counts is not None and link in counts:
            counts[link] -= 1
            if not counts[link]:
                self._remove(id, link)

    def end(self, id: EntryId, link: str) -> None:
        """A neighbour no longer announces an entry, however often it did, if it did."""
        if link in self.links.get(id, ()):
            self._remove(id, link)

    def promote(self, id: EntryId, link: str = "") -> tuple[Origin, int] | None:
        """Take out the neighbour that becomes the origin of an entry, and how often it announced
        the entry: the first by name, unless it is given. None if nobody does."""
        counts = self.links.get(id)
        if counts is None:
            return None
        link = link or min(counts)
        promoted = Origin(link, behind=self.behind.get((id, link), ())), counts[link]
        self._remove(id, link)
        return promoted

    def announced_by(self, link: str) -> list[EntryId]:
        """Entries that a neighbour announces beside their origin, in the order of their ids."""
        return sorted(id for id, counts in self.links.items() if link in counts)

    def remove_link(self, link: str) -> None:
        """A neighbour no longer announces anything."""
        for id in [id for id, counts in self.links.items() if link in counts]:
            self._remove(id, link)

    def replace_link(self, old: str, new: str) -> None:
        """A neighbour has another name."""
        for counts in self.links.values():
            if old in counts:
                counts[new] = counts.pop(old)
        for id, link in [at for at in self.behind if at[1] == old]:
            self.behind[id, new] = self.behind.pop((id, link))

    def copy_from(self, other: AlternateOrigins, without: frozenset[str]) -> None:
        """Know what another one knows, but of the links `without`."""
        for id, counts in other.links.items():
            kept = {link: count for link, count in counts.items() if link not in without}
            if kept:
                self.links[id] = kept
        self.behind = {at: path for at, path in other.behind.items() if at[1] not in without}
        self.pending_takeover = dict(other.pending_takeover)

    def _remove(self, id: EntryId, link: str) -> None:
        del self.links[id][link]
        self.behind.pop((id, link), None)
        if not self.links[id]:
            del self.links[id]
