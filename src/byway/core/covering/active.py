"""Active covering: on each link only subscriptions that no other one there covers.

A later, broader subscription has the narrower ones withdrawn; when it ends, what it stood for is
forwarded before it is taken back. Of equal filters the one already forwarded stays, then the one
with the smaller id goes (DESIGN §4, the quench rule with Δ = 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from byway.core.broker_config import BrokerConfig
from byway.core.covering.merging import BATCH, Merging, MergingState
from byway.core.covering.policy import Covering, ForwardingOps, Withdrawals
from byway.core.covering.retirement import Budget, Retirement, RetirementState
from byway.core.tables import Entry, Withdrawal
from byway.model.filters import covers


class Release(msgspec.Struct):
    """What takes the place of one that goes."""

    forwarded: list[Entry] = msgspec.field(default_factory=list)
    """The maximal ones."""
    quenched: list[tuple[Entry, Entry]] = msgspec.field(default_factory=list)
    """The others, each with one that stands for it."""


class ActiveState(msgspec.Struct, array_like=True):
    """What survives a restart."""

    awake: bool
    retirement: RetirementState
    merging: MergingState | None


class Active(Covering):
    """Forwards the maximal ones."""

    name = "active"
    replaces = True
    """Whether a broader one has narrower ones withdrawn."""

    def __init__(self, moves: ForwardingOps, config: BrokerConfig) -> None:
        super().__init__(moves, config)
        self._awake = False
        self._retirement = Retirement(self)
        self.merging = Merging(self) if config.merging else None

    def arrived(self, entry: Entry, links: Sequence[str]) -> None:
        """Quench it where another covers it; elsewhere it takes the place of what it covers."""
        if not links:
            return
        wide = self._standing_for(entry)
        forwarded = []
        for link in links:
            quencher = _quencher(wide, link)
            if quencher is not None:
                self._quench(entry, quencher, link)
            else:
                self.forward(entry, link)
                forwarded.append(link)
        if forwarded and self.replaces:
            self.replace_covered(entry, forwarded)

    def concerned(self, entries: Sequence[Entry], link: str) -> None:
        """Send the maximal ones of those that nothing covers yet."""
        waiting = [entry for entry in entries if link not in entry.forwarded]
        self.carry_out(self.released(waiting, link), link)

    def left(self, entries: Sequence[Entry], link: str, endings: Withdrawals) -> None:
        """What they stood for comes first, then they go; but for those that may stay, and do."""
        self._let_go([e for e in entries if not self.may_stay(endings.get(e.id))], link, endings)
        going: set[int] = set()
        gone: list[Entry] = []
        for entry in entries:
            ending = endings.get(entry.id)
            if ending is None or not self.may_stay(ending):
                continue
            if self.has_room and self.postpones(entry, ending):
                continue
            going.add(id(entry))
            release = self.released(self._behind([entry], link, going), link, going)
            burst = len(release.forwarded)
            if self.has_room and self.stays(ending, link, burst):
                going.discard(id(entry))
                self.moves.preserve(entry, self.retiring())
                self.stay_awake()
            else:
                self.carry_out(release, link)
                self.moves.triggered(burst)
                gone.append(entry)
        self.withdraw(gone, link, endings)

    def may_stay(self, ending: Withdrawal | None) -> bool:
        """Whether one that ends like this may be preserved: here only what was preserved before it
        came here, so that the burst which that avoided does not come from here."""
        return ending is not None and ending.retired and self.config.retire_batch > 0

    def postpones(self, entry: Entry, ending: Withdrawal) -> bool:
        """Whether it is decided later; if so, it is preserved until then."""
        del entry, ending
        return False

    def stays(self, ending: Withdrawal, link: str, burst: int) -> bool:
        """Whether it is preserved, because it would release so many on a link."""
        del ending, link
        return not self._retirement.allows(burst, self.moves.now_us)

    def retiring(self) -> Withdrawal:
        """That of a preserved one, from now on."""
        return Withdrawal(retired=True, since_us=self.moves.now_us)

    def _let_go(self, entries: Sequence[Entry], link: str, endings: Withdrawals) -> None:
        going = {id(entry) for entry in entries}
        release = self.released(self._behind(entries, link, going), link, going)
        self.carry_out(release, link)
        self.moves.triggered(len(release.forwarded))
        self.withdraw(entries, link, endings)

    # --- what stands behind others -------------------------------------------------------------

    def _standing_for(self, entry: Entry) -> list[Entry]:
        """Forwarded ones that cover an entry."""
        return [other for other in self.moves.sent_covering(entry.filter) if other is not entry]

    def _behind(self, entries: Sequence[Entry], link: str, going: set[int]) -> list[Entry]:
        """What these cover, concerns the link, and is not forwarded there."""
        behind: dict[int, Entry] = {}
        for entry in entries:
            for other in self.moves.covered_by(entry.filter):
                if link not in other.forwarded:
                    behind[id(other)] = other
        waiting = (entry for key, entry in behind.items() if key not in going)
        return [entry for entry in waiting if self.moves.concerns(entry, link)]

    def release_of(self, entry: Entry, link: str) -> Release:
        """What would take the place of one entry on a link."""
        going = {id(entry)}
        return self.released(self._behind([entry], link, going), link, going)

    def forward(self, entry: Entry, link: str) -> None:
        """Send a subscription over a link; it may be merged with others there later."""
        self.moves.forward(entry, link)
        if self.merging is not None:
            self.merging.forwarded(entry, link)

    def _quench(self, entry: Entry, quencher: Entry, link: str) -> None:
        self.moves.quench(entry, quencher, link)
        if quencher.ending is not None:
            self._retirement.disturb(link, quencher, entry)

    def withdraw(self, entries: Sequence[Entry], link: str, endings: Withdrawals) -> None:
        """Take back what has ended, but for what was withdrawn because something took its place."""
        there = [entry for entry in entries if link in entry.forwarded]
        if there:
            self.moves.withdraw(there, link, None, endings)

    def replace_covered(self, entry: Entry, links: Sequence[str]) -> None:
        """Withdraw what an entry that is forwarded there covers."""
        narrow = [e for e in self.moves.sent_covered_by(entry.filter) if e is not entry]
        for link in links:
            replaced = [e for e in narrow if link in e.forwarded]
            if replaced:
                self.moves.withdraw(replaced, link, entry, {})

    def released(
        self, entries: Sequence[Entry], link: str, going: frozenset[int] | set[int] = frozenset()
    ) -> Release:
        """Each of these is quenched by another or to be forwarded; of those that are not quenched
        only the maximal ones are. `going` do not quench any more. Asks once for each maximal one,
        not for each: thousands may stand behind one that goes."""
        release = Release()
        waiting = {id(entry): entry for entry in entries}
        while waiting:
            entry = self.broadest(next(iter(waiting.values())), waiting)
            wide = [e for e in self._standing_for(entry) if id(e) not in going]
            quencher = _quencher(wide, link)
            if quencher is None:
                del waiting[id(entry)]
                release.forwarded.append(entry)
                quencher = entry
            for other in self.moves.covered_by(entry.filter):
                if waiting.pop(id(other), None) is not None:
                    release.quenched.append((other, quencher))
        return release

    def broadest(self, entry: Entry, waiting: dict[int, Entry]) -> Entry:
        """One of those that wait which covers `entry` and which none that waits precedes."""
        while True:
            covering = (e for e in self.moves.covering(entry.filter) if id(e) in waiting)
            wide = [e for e in covering if e is not entry and _precedes(e, entry)]
            if not wide:
                return entry
            entry = wide[len(wide) // 2]  # of a chain this skips half

    def carry_out(self, release: Release, link: str) -> None:
        """Send and quench what was released."""
        for entry in release.forwarded:
            self.forward(entry, link)
            if self.replaces:
                self.replace_covered(entry, [link])
        for entry, quencher in release.quenched:
            self._quench(entry, quencher, link)

    # --- in quiet times ------------------------------------------------------------------------

    @property
    def is_quiet(self) -> bool:
        """Whether there is time for what need not be done at once."""
        return True

    @property
    def has_room(self) -> bool:
        """Whether another one may be kept that nobody wants as it is."""
        return self.moves.preserved_count < self.config.preserved_max

    def stay_awake(self) -> None:
        """There is something to do in quiet times."""
        if not self._awake and self.config.retire_interval_us:
            self._awake = True
            self.moves.wake(self.config.retire_interval_us)

    def started(self) -> None:
        """Timers do not survive a restart, and mergers not that merging is switched off."""
        self._awake = False
        self._retirement.started(self.moves.now_us)
        mergers = [e for e in self.moves.preserved() if e.ending is not None and e.ending.merged]
        if self.merging is not None:
            self.merging.started(mergers)
        else:
            for entry in mergers:
                entry.ending = Withdrawal(retired=True, merged=True)
        if self._has_work():
            self.stay_awake()

    def woken(self) -> None:
        """Merge and retire a little."""
        self._awake = False
        if self.is_quiet:
            room = Budget(self._retirement.allowance(self.moves.now_us))
            if self.merging is not None:
                self.merging.step(room)
            if self.config.retire_batch:
                self._retirement.step(room)
                self._retirement.left = max(room.forwards, 0)
            else:
                self._end_mergers()
        if self._has_work():
            self.stay_awake()

    def _end_mergers(self) -> None:
        """Where nothing is retired, mergers that are to go do so at once."""
        ending = [e for e in self.moves.preserved() if e.ending and e.ending.merged]
        for entry in [e for e in ending if e.ending and e.ending.retired][:BATCH]:
            for link in sorted(entry.forwarded):
                self.left([entry], link, {})

    def _has_work(self) -> bool:
        if self.merging is not None and self.merging.has_work:
            return True
        endings = (entry.ending for entry in self.moves.preserved())
        return any(
            e is not None
            and (e.postponed or (e.retired and (e.merged or self.config.retire_batch)))
            for e in endings
        )

    def gone(self, entries: Sequence[Entry]) -> None:
        """Mergers may have lost a part."""
        if self.merging is not None:
            self.merging.gone(entries)

    def snapshot(self) -> Any:
        """How far it is."""
        merging = None if self.merging is None else self.merging.snapshot()
        return ActiveState(self._awake, self._retirement.snapshot(), merging)

    def restore(self, state: Any) -> None:
        """Go on."""
        kept = msgspec.convert(state, ActiveState)
        self._awake = kept.awake
        self._retirement.restore(kept.retirement)
        if self.merging is not None and kept.merging is not None:
            self.merging.restore(kept.merging)


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
