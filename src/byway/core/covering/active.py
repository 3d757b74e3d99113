"""Active covering: on each link only subscriptions that no other one there covers.

A later, broader subscription has the narrower ones withdrawn; when it ends, what it quenched is
forwarded before it is withdrawn. Of equal filters the one already forwarded stays, then the one
with the smaller id goes. One from further on quenches only what comes the same way (the quench
rule, DESIGN §4).

While the broker is not congested, a timer has placeholders retired, after the policy's add-on has
done its step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from byway.core.broker_config import BrokerConfig
from byway.core.covering.add_on import AddOn
from byway.core.covering.policy import Covering, ForwardingOps, Withdrawals
from byway.core.covering.retirement import Budget, Retirement, RetirementState
from byway.core.origin import Origin
from byway.core.tables import Entry, Placeholder, PlaceholderState, Withdrawal
from byway.model import Filter
from byway.model.filters import covers


class Release(msgspec.Struct):
    """What becomes of the subscriptions that one which goes had quenched on a link."""

    forwarded: list[Entry] = msgspec.field(default_factory=list)
    """The maximal ones, which are sent."""
    quenched: list[tuple[Entry, Entry]] = msgspec.field(default_factory=list)
    """The others, each with one that quenches it from now on."""


class ActiveState(msgspec.Struct, array_like=True):
    """What of an `Active` survives a restart."""

    awake: bool
    retirement: RetirementState
    add_on: Any


class Active(Covering):
    """Forwards the maximal subscriptions, and withdraws those that are no longer maximal."""

    name = "active"
    replaces = True
    """Whether a broader subscription has narrower ones withdrawn."""

    def __init__(self, ops: ForwardingOps, config: BrokerConfig) -> None:
        super().__init__(ops, config)
        self._awake = False
        self._retirement = Retirement(self)
        self._add_on = AddOn()

    def extend(self, add_on: AddOn) -> None:
        """Let an add-on work on what is forwarded. To be called before anything else."""
        self._add_on = add_on
        self.observer = add_on.observer
        self.makes |= add_on.makes

    def on_subscribed(self, entry: Entry, links: Sequence[str]) -> None:
        """Quench the subscription where another covers it; elsewhere send it in place of those that
        it covers."""
        if not links:
            return
        wide = self._sent_covering(entry)
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

    def on_moved(self, entry: Entry, before: Origin, links: Sequence[str]) -> None:
        """Send what it may no longer quench, before its new path is told; where another one may
        quench it now, withdraw it, and where none may any more, send it."""
        for link in links:
            if link in entry.forwarded:
                covered = self.ops.covered_by(entry.filter, before)
                lost = [
                    e
                    for e in covered
                    if link not in e.forwarded
                    and not self.ops.may_quench(entry.origin, e.origin)
                    and self.ops.concerns(e, link)
                ]
                self.carry_out(self.released(lost, link, {id(entry)}), link)
            quencher = _quencher(self._sent_covering(entry), link)
            if quencher is None:
                self.forward(entry, link)
                if self.replaces:
                    self.replace_covered(entry, [link])
            elif link in entry.forwarded:
                self.ops.withdraw([entry], link, quencher, {})
        self._add_on.on_moved(entry, before)

    def on_link_replaced(self, entries: Sequence[Entry], link: str) -> None:
        """Tell the add-on what is forwarded there. It does not find it by the link's old name."""
        for entry in entries:
            self._add_on.on_forwarded(entry, link)

    def on_advertised(self, entries: Sequence[Entry], link: str) -> None:
        """Send the maximal ones of those that nothing covers yet."""
        waiting = [entry for entry in entries if link not in entry.forwarded]
        self.carry_out(self.released(waiting, link), link)

    def on_withdrawn(self, entries: Sequence[Entry], link: str, withdrawals: Withdrawals) -> None:
        """Send what they quenched, then withdraw them; but preserve some of those that may be."""
        self._withdraw_now(
            [e for e in entries if not self.may_preserve(withdrawals.get(e.id))], link, withdrawals
        )
        going: set[int] = set()
        gone: list[Entry] = []
        for entry in entries:
            withdrawal = withdrawals.get(entry.id)
            if withdrawal is None or not self.may_preserve(withdrawal):
                continue
            if self.has_room and self.postpones(entry, withdrawal):
                continue
            going.add(id(entry))
            release = self.released(self._quenched_by([entry], link, going), link, going)
            burst = len(release.forwarded)
            if self.has_room and self.preserves(withdrawal, link, burst):
                going.discard(id(entry))
                self.ops.preserve(entry, self.preserved_now())
                self.stay_awake()
            else:
                self.carry_out(release, link)
                self.ops.count_triggered(burst)
                gone.append(entry)
        self.withdraw(gone, link, withdrawals)

    def may_preserve(self, withdrawal: Withdrawal | None) -> bool:
        """Whether one that ends like this may be preserved: here only what was preserved before it
        came here, so that the burst which that avoided does not come from here."""
        return withdrawal is not None and withdrawal.retired and self.config.retire_batch > 0

    def postpones(self, entry: Entry, withdrawal: Withdrawal) -> bool:
        """Whether it is decided later if an entry is preserved; if so, it is a placeholder now."""
        del entry, withdrawal
        return False

    def preserves(self, withdrawal: Withdrawal, link: str, burst: int) -> bool:
        """Whether one that ends like this is preserved for a link, where it would release `burst`
        others."""
        del withdrawal, link
        return not self._retirement.allows(burst, self.ops.now_us)

    def preserved_now(self) -> Placeholder:
        """The state of one that is preserved from now on."""
        return Placeholder(PlaceholderState.PRESERVED, since_us=self.ops.now_us)

    def _withdraw_now(self, entries: Sequence[Entry], link: str, withdrawals: Withdrawals) -> None:
        going = {id(entry) for entry in entries}
        release = self.released(self._quenched_by(entries, link, going), link, going)
        self.carry_out(release, link)
        self.ops.count_triggered(len(release.forwarded))
        self.withdraw(entries, link, withdrawals)

    # --- who quenches whom ---------------------------------------------------------------------

    def _sent_covering(self, entry: Entry) -> list[Entry]:
        """Others, forwarded to any link, that cover an entry."""
        wide = self.ops.sent_covering(entry.filter, entry.origin)
        return [other for other in wide if other is not entry]

    def _quenched_by(self, entries: Sequence[Entry], link: str, going: set[int]) -> list[Entry]:
        """Subscriptions that these cover, that concern the link and are not forwarded there; but
        for those that are `going` too."""
        quenched: dict[int, Entry] = {}
        for entry in entries:
            for other in self.ops.covered_by(entry.filter, entry.origin):
                if link not in other.forwarded:
                    quenched[id(other)] = other
        waiting = (entry for key, entry in quenched.items() if key not in going)
        return [entry for entry in waiting if self.ops.concerns(entry, link)]

    def on_left_out(self, filter: Filter, origin: Origin, link: str) -> None:
        """Send the maximal ones of those that only it quenched."""
        covered = (e for e in self.ops.covered_by(filter, origin) if link not in e.forwarded)
        waiting = [entry for entry in covered if self.ops.concerns(entry, link)]
        self.carry_out(self.released(waiting, link), link)

    def release_of(self, entry: Entry, link: str) -> Release:
        """What would become of those that one entry quenches on a link, if it went."""
        going = {id(entry)}
        return self.released(self._quenched_by([entry], link, going), link, going)

    def forward(self, entry: Entry, link: str) -> None:
        """Send a subscription or a placeholder over a link, and tell the add-on."""
        self.ops.forward(entry, link)
        self._add_on.on_forwarded(entry, link)

    def _quench(self, entry: Entry, quencher: Entry, link: str) -> None:
        self.ops.quench(entry, quencher, link)
        if quencher.placeholder is not None:
            self._retirement.disturb(link, quencher, entry)

    def withdraw(self, entries: Sequence[Entry], link: str, withdrawals: Withdrawals) -> None:
        """Withdraw what has ended, but for what was withdrawn already because something took its
        place."""
        there = [entry for entry in entries if link in entry.forwarded]
        if there:
            self.ops.withdraw(there, link, None, withdrawals)

    def replace_covered(self, entry: Entry, links: Sequence[str]) -> None:
        """Withdraw what an entry covers that was forwarded to these links."""
        covered = self.ops.sent_covered_by(entry.filter, entry.origin)
        narrow = [e for e in covered if e is not entry]
        for link in links:
            replaced = [e for e in narrow if link in e.forwarded]
            if replaced:
                self.ops.withdraw(replaced, link, entry, {})

    def released(
        self, entries: Sequence[Entry], link: str, going: frozenset[int] | set[int] = frozenset()
    ) -> Release:
        """Share out entries in those that another one quenches and those that are to be forwarded,
        which are the maximal ones of the rest. Those that are `going` quench nothing any more. Asks
        the index once for each maximal one, not for each: one that goes may quench thousands."""
        release = Release()
        waiting = {id(entry): entry for entry in entries}
        while waiting:
            entry = self.broadest(next(iter(waiting.values())), waiting)
            wide = [e for e in self._sent_covering(entry) if id(e) not in going]
            quencher = _quencher(wide, link)
            if quencher is None:
                del waiting[id(entry)]
                release.forwarded.append(entry)
                quencher = entry
            for other in self.ops.covered_by(entry.filter, entry.origin):
                if waiting.pop(id(other), None) is not None:
                    release.quenched.append((other, quencher))
        return release

    def broadest(self, entry: Entry, waiting: dict[int, Entry]) -> Entry:
        """One of those that wait which covers `entry` and which none that waits precedes."""
        while True:
            covering = self.ops.covering(entry.filter, entry.origin)
            waits = (e for e in covering if id(e) in waiting)
            wide = [e for e in waits if e is not entry and self._precedes(e, entry)]
            if not wide:
                return entry
            entry = wide[len(wide) // 2]  # of a chain this skips half

    def _precedes(self, wide: Entry, entry: Entry) -> bool:
        """Whether `wide`, which may quench `entry`, is broader, or equal with the smaller id."""
        return (
            wide.id < entry.id
            or not self.ops.may_quench(entry.origin, wide.origin)
            or not covers(entry.filter, wide.filter)
        )

    def carry_out(self, release: Release, link: str) -> None:
        """Send and quench what was released."""
        for entry in release.forwarded:
            self.forward(entry, link)
            if self.replaces:
                self.replace_covered(entry, [link])
        for entry, quencher in release.quenched:
            self._quench(entry, quencher, link)

    # --- on the timer --------------------------------------------------------------------------

    @property
    def is_quiet(self) -> bool:
        """Whether there is time for what need not be done at once."""
        return True

    @property
    def has_room(self) -> bool:
        """Whether there may be one more placeholder."""
        return self.ops.placeholder_count < self.config.preserved_max

    def stay_awake(self) -> None:
        """Set the timer, since it has work to do, unless it is set or there is never any."""
        if not self._awake and self.config.retire_interval_us:
            self._awake = True
            self.ops.wake(self.config.retire_interval_us)

    def on_started(self) -> None:
        """Set the timer again, which does not survive a restart."""
        self._awake = False
        self._retirement.on_started(self.ops.now_us)
        self._add_on.on_started()
        if self._has_work():
            self.stay_awake()

    def on_timer(self) -> None:
        """Let the add-on do a step, then retire a few placeholders."""
        self._awake = False
        if self.is_quiet:
            budget = Budget(self._retirement.allowance(self.ops.now_us))
            self._add_on.step(budget)
            if self.config.retire_batch:
                self._retirement.step(budget)
                self._retirement.left = max(budget.forwards, 0)
        if self._has_work():
            self.stay_awake()

    def _has_work(self) -> bool:
        if self._add_on.has_work:
            return True
        placeholders = (entry.placeholder for entry in self.ops.placeholders())
        return any(
            p is not None
            and (
                p.state is PlaceholderState.POSTPONED
                or (p.is_retiring and self.config.retire_batch > 0)
            )
            for p in placeholders
        )

    def on_ended(self, entries: Sequence[Entry]) -> None:
        """Tell the add-on that subscriptions have ended."""
        self._add_on.on_ended(entries)

    def on_put_in_force(self) -> None:
        """Set the timer, if it should be: it may have fired for the routing before."""
        if self._awake:
            self.ops.wake(self.config.retire_interval_us)

    def copy_from(self, other: Any, without: frozenset[str]) -> None:
        """Go on with the retirement and the add-on of another one."""
        self._awake = other._awake
        self._retirement.copy_from(other._retirement, without)
        self._add_on.copy_from(other._add_on, without)

    def snapshot(self) -> Any:
        """How far retirement and the add-on are."""
        return ActiveState(self._awake, self._retirement.snapshot(), self._add_on.snapshot())

    def restore(self, state: Any) -> None:
        """Go on from what `snapshot` returned before a restart."""
        kept = msgspec.convert(state, ActiveState)
        self._awake = kept.awake
        self._retirement.restore(kept.retirement)
        if kept.add_on is not None:
            self._add_on.restore(kept.add_on)


def _quencher(wide: Sequence[Entry], link: str) -> Entry | None:
    """One of these that is forwarded to the link, rather one that is settled there."""
    found = None
    for entry in wide:
        if link in entry.forwarded:
            if link not in entry.awaiting:
                return entry
            found = found or entry
    return found
