"""Recovery: which neighbours a broker that started without state still waits for.

A broker that starts without state is *recovered* when every neighbour has sent all its tables. Data
is taken before: until then **a neighbour whose tables are missing counts as wanting everything**,
and its copies wait, unconfirmed, for what it has to send. Narrower rules lose what was confirmed as
soon as a subscription that is sent anew covers one that is not. (Twenty thousand runs of a model.)

A broker that starts for the first time waits no longer than `sync_wait_us`. One that is
*restarting* waits until each neighbour that it has or had has sent everything, or is forgotten by
an operator. It is restarting if it knows so when it starts, if a neighbour holds something from it
that it never sent, if a client comes back to a session, or if a neighbour is restarting itself;
whenever it learns that.

Neighbours that it does not list, and whose names it has lost, connect when they see it again. For
a while, `unlisted_wait_us`, a neighbour without a name (`UNLISTED`) stands for them: its tables are
missing, and what is kept for it is copied to each neighbour that connects. Without it the broker
would confirm publications that it has sent to nobody. A successor that does not list the neighbours
of the broker whose place it takes waits for them without a limit, until somebody names them: an
operator tells them one by one, and those who lost their state cannot name the others.

It decides for whom the broker waits; what is compared and sent is the business of `table_sync`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from byway.core.actions import CancelTimer, SetTimer, Timer
from byway.core.context import Context
from byway.core.links import UNLISTED
from byway.core.sync_state import Missing

TIMER: Final = Timer("table-sync")
UNLISTED_TIMER_OWNER: Final = "unlisted"
_UNLISTED_TICKS: Final = 8
"""The wait for unlisted neighbours is counted in so many parts: of a process that was stopped
meanwhile, one part is over when it goes on, and not all of them."""


class Recovery:
    """The neighbours that one broker waits for, and those that it stopped waiting for."""

    __slots__ = (
        "_context", "compared_with", "given_up", "in_place_of", "lost_state", "missing",
        "missing_again", "nobody_named", "progressed", "rechecking", "restarting", "successors",
    )  # fmt: skip

    def __init__(self, context: Context) -> None:
        self._context = context
        self.missing: dict[str, Missing] = {}
        """Neighbours that have not sent everything since this broker started without state."""
        self.lost_state = True
        """Whether this broker started without state, or with an older one, and is not recovered."""
        self.restarting = False
        """Whether it is known that this broker ran before, so that no timer ends the wait."""
        self.given_up: list[str] = []
        """Neighbours that were not waited for any longer, or that had given up others themselves
        when they sent their tables. Until they have sent them, what this broker sends is
        provisional."""
        self.compared_with: list[str] = []
        """Neighbours that this broker has compared tables with since it started."""
        self.progressed = False
        """Whether a neighbour is no longer missing; subscriptions may have waited for it."""
        self.missing_again: list[str] = []
        """Neighbours that were given up and are missing again: they need copies of what waits for
        other missing ones."""
        self.rechecking: dict[str, int] = {}
        """Neighbours that are no longer missing: publications kept for them in case they want them
        are rechecked, and so many have been; then data is sent."""
        self.successors: dict[str, str] = {}
        """By neighbour that has taken the place of another one and has not sent all its tables, or
        was sent no data since: that other one."""
        self.in_place_of: dict[str, str] = {}
        """By neighbour that had another broker in the place of this one: that other broker."""
        self.nobody_named = False
        """Whether this broker takes the place of another one, and nobody it has met knows the
        neighbours of that one. `UNLISTED` stands for them, for as long as it takes."""

    def begin_from_older_state(self, links: Iterable[str]) -> None:
        """The broker goes on from a state that may be older than its last one."""
        self.missing = dict.fromkeys(links, Missing.ALL)
        self.lost_state = self.restarting = True
        self.given_up, self.compared_with = [], []

    def on_started(self) -> None:
        """Start the wait for neighbours that are missing."""
        self._wait()
        if UNLISTED in self.missing:
            self._wait_for_unlisted(_UNLISTED_TICKS)

    def _wait_for_unlisted(self, ticks: int) -> None:
        at_us = self._context.now_us + self._context.config.unlisted_wait_us // _UNLISTED_TICKS
        self._context.out.do(SetTimer(Timer(UNLISTED_TIMER_OWNER, str(ticks)), at_us))

    def has_waited_for_unlisted(self, detail: str) -> bool:
        """A part of the wait for unlisted neighbours is over; whether all of it is."""
        left = int(detail) - 1
        if left:
            self._wait_for_unlisted(left)
        return not left

    def _wait(self) -> None:
        """Limit the wait, unless the broker is known to have run before."""
        if self.missing and not self.restarting:
            wait_us = self._context.config.sync_wait_us
            self._context.out.do(SetTimer(TIMER, self._context.now_us + wait_us))

    def give_up_missing(self) -> bool:
        """Stop waiting for neighbours that are missing, and say whether that changed anything; a
        broker that is restarting goes on waiting."""
        if self.restarting:
            return False
        missing, self.missing = self.missing, {}
        self.given_up = sorted({*self.given_up, *missing})
        self.rechecking |= dict.fromkeys(missing, 0)
        self.progressed = True
        return True

    def expect(self, link: str) -> None:
        """Wait for a new neighbour too, if the broker is not recovered."""
        if self.lost_state:
            is_first = not self.missing
            self.missing[link] = Missing.ALL
            if is_first:
                self._wait()

    def begin_restart(self) -> bool:
        """Note that this broker ran before, and so restarts without its state: it waits for
        all neighbours, also for those that it had given up. False if that is no news."""
        if not self.lost_state or self.restarting:
            return False
        self.restarting = True
        self._context.out.do(CancelTimer(TIMER))
        self.missing |= dict.fromkeys(self.given_up, Missing.ALL)
        for link in self.given_up:
            self.rechecking.pop(link, None)
            self.missing_again.append(link)
        self.given_up = []
        return True

    def begin_in_place_of_another(self, link: str, old: str) -> bool:
        """Note that this broker takes the place of one that a neighbour had, and so counts as that
        one restarted without state. False if it has this neighbour's tables already."""
        if link in self.compared_with:
            return False
        self.in_place_of[link] = old
        self.lost_state = True
        self.begin_restart()
        if link not in self.missing:
            self.missing[link] = Missing.ALL
            self.missing_again.append(link)
        return True

    def replace_link(self, old: str, new: str) -> None:
        """A neighbour has another name, and no state: what is kept for it is kept on."""
        if old in self.missing:
            self.missing[new] = Missing.ALL
            del self.missing[old]
        self.given_up = sorted(new if name == old else name for name in self.given_up)
        self.compared_with = [name for name in self.compared_with if name != old]
        if self.rechecking.pop(old, None) is not None:
            self.rechecking[new] = 0
        self.successors.pop(old, None)
        self.successors[new] = old
        if old in self.in_place_of:
            self.in_place_of[new] = self.in_place_of.pop(old)

    def on_adverts_synced(self, link: str) -> None:
        """A neighbour has sent all its advertisements."""
        if self.missing.get(link) is Missing.ALL:
            self.missing[link] = Missing.SUBSCRIPTIONS
            self.progressed = True

    def on_synced(self, link: str, provisional: bool) -> None:
        """A neighbour has sent everything."""
        if link in self.given_up and not provisional:
            self.given_up.remove(link)
        if link in self.missing:
            self.rechecking[link] = 0
            self.successors.pop(link, None)  # what was kept for it was kept in case
        elif link in self.successors and not provisional:
            self.rechecking[link] = 0
        self._no_longer_missing(link)

    def remove_link(self, link: str) -> None:
        """A neighbour was removed: nobody waits for it."""
        self.rechecking.pop(link, None)
        self.successors.pop(link, None)
        self.in_place_of.pop(link, None)
        for names in (self.given_up, self.compared_with):
            if link in names:
                names.remove(link)
        self._no_longer_missing(link)

    def _no_longer_missing(self, link: str) -> None:
        """Count a neighbour out. With the last one the broker is recovered, unless others were
        merely given up."""
        if link in self.missing:
            del self.missing[link]
            self.progressed = True
            if not self.missing:
                self._context.out.do(CancelTimer(TIMER))
        if not self.missing and not self.given_up:
            self.lost_state = self.restarting = False

    def will_be_repeated(self, link: str, provisional: bool) -> bool:
        """Whether a neighbour will send again what it sends now, because this broker is restarting,
        which the neighbour is about to learn. If it is not, it may turn out to be."""
        if provisional and self.lost_state:
            if self.restarting:
                return True
            if link not in self.given_up:
                self.given_up = sorted([*self.given_up, link])
        return False

    def is_provisional_for(self, link: str) -> bool:
        """Whether what is sent to a neighbour lacks the tables of another one that was given up."""
        return any(name != link for name in self.given_up)

    def knows_adverts_except(self, link: str | None) -> bool:
        """Whether all neighbours, or all but one, have sent their advertisements. Before that
        nobody can say where a subscription has to go."""
        return not any(m is Missing.ALL for n, m in self.missing.items() if n != link)

    def knows_all_except(self, link: str) -> bool:
        """Whether all neighbours but one have sent everything."""
        return not self.missing or self.missing.keys() == {link}
