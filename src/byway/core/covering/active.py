"""Active covering: on each link only subscriptions that no other one there covers.

A later, broader subscription has the narrower ones withdrawn; when it ends, what it stood for is
forwarded before it is taken back. Of equal filters the one already forwarded stays, then the one
with the smaller id goes (DESIGN §4, the quench rule with Δ = 1).
"""

from __future__ import annotations

from collections.abc import Sequence

from byway.core.covering.policy import Covering
from byway.core.tables import Entry
from byway.model.filters import covers


class Active(Covering):
    """Forwards the maximal ones."""

    name = "active"

    def arrived(self, entry: Entry, links: Sequence[str]) -> None:
        """Quench it where another covers it; elsewhere it takes the place of what it covers."""
        if not links:
            return
        wide = self._others(entry)
        forwarded = []
        for link in links:
            quencher = _quencher(wide, link)
            if quencher is not None:
                self.moves.quench(entry, quencher, link)
            else:
                self.moves.forward(entry, link)
                forwarded.append(link)
        if forwarded:
            self._replace_covered(entry, forwarded)

    def concerned(self, entries: Sequence[Entry], link: str) -> None:
        """Send the maximal ones of those that nothing covers yet."""
        self._release([entry for entry in entries if link not in entry.forwarded], link)

    def left(self, entries: Sequence[Entry], link: str) -> None:
        """What they stood for comes first, then they go."""
        behind: dict[int, Entry] = {}
        for entry in entries:
            for other in self.moves.covered_by(entry.filter):
                if link not in other.forwarded and other.key not in behind:
                    behind[other.key] = other
        going = {id(entry) for entry in entries}
        waiting = [e for e in behind.values() if self.moves.concerns(e, link)]
        self._release([e for e in waiting if id(e) not in going], link, going)
        self.moves.withdraw(entries, link, None)

    def _others(self, entry: Entry) -> list[Entry]:
        return [other for other in self.moves.covering(entry.filter) if other is not entry]

    def _replace_covered(self, entry: Entry, links: Sequence[str]) -> None:
        narrow = [e for e in self.moves.covered_by(entry.filter) if e is not entry]
        for link in links:
            replaced = [e for e in narrow if link in e.forwarded]
            if replaced:
                self.moves.withdraw(replaced, link, entry)

    def _release(
        self, entries: Sequence[Entry], link: str, going: frozenset[int] | set[int] = frozenset()
    ) -> None:
        """Each of these is quenched by another or forwarded; of those that are not quenched only
        the maximal ones are forwarded. `going` do not quench any more. Asks once for each maximal
        one, not for each: thousands may stand behind one that goes."""
        waiting = {entry.key: entry for entry in entries}
        while waiting:
            entry = self._broadest(next(iter(waiting.values())), waiting)
            wide = [e for e in self._others(entry) if id(e) not in going]
            quencher = _quencher(wide, link)
            if quencher is None:
                del waiting[entry.key]
                self.moves.forward(entry, link)
                self._replace_covered(entry, [link])
                quencher = entry
            for other in self.moves.covered_by(entry.filter):
                if waiting.pop(other.key, None) is not None:
                    self.moves.quench(other, quencher, link)

    def _broadest(self, entry: Entry, waiting: dict[int, Entry]) -> Entry:
        """One of those that wait which covers `entry` and which none that waits precedes."""
        while wide := [e for e in self._others(entry) if e.key in waiting and _precedes(e, entry)]:
            entry = wide[len(wide) // 2]  # of a chain this skips half
        return entry


def _quencher(wide: Sequence[Entry], link: str) -> Entry | None:
    """One of these that is forwarded to the link, rather one that is settled there."""
    found = None
    for entry in wide:
        if link in entry.forwarded:
            if link not in entry.awaiting:
                return entry
            found = found or entry
    return found


def _precedes(wide: Entry, entry: Entry) -> bool:
    """Whether `wide`, which covers `entry`, is broader, or equal with the smaller id."""
    return wide.id < entry.id or not covers(entry.filter, wide.filter)
