"""Windows: which data messages of one sender are finished, and can be confirmed to it.

They finish in any order. The sender is told a cumulative number, up to which all are finished; a
neighbour is also told which of those beyond are, so that one copy owed to a dead client or broker
does not keep others from being confirmed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice

Run = tuple[int, int]
"""The first and the last of numbers that follow one another."""


class Runs:
    """Numbers as runs, none of which touches another. One message that is not finished may stay in
    front of very many that are: these take no more room than one."""

    __slots__ = ("_first", "_last")

    def __init__(self, runs: Iterable[Run] = ()) -> None:
        self._last = dict(runs)
        """By the first number of a run, its last one."""
        self._first = {last: first for first, last in self._last.items()}
        """By the last number of a run, its first one."""

    def __bool__(self) -> bool:
        return bool(self._last)

    def __len__(self) -> int:
        """Number of runs."""
        return len(self._last)

    def __iter__(self) -> Iterator[Run]:
        """The runs in order."""
        return iter(sorted(self._last.items()))

    def __repr__(self) -> str:
        return f"<Runs {', '.join(f'{first}-{last}' for first, last in self)}>"

    @property
    def numbers(self) -> int:
        """How many numbers there are in all runs."""
        return sum(last - first + 1 for first, last in self._last.items())

    def add(self, number: int) -> None:
        """Add a number that is in no run."""
        firsts, lasts = self._first, self._last
        first = firsts.pop(number - 1, number)
        last = lasts.pop(number + 1, number)
        lasts[first], firsts[last] = last, first

    def take(self, first: int) -> int:
        """Remove the run that begins with a number, and return its last one; without such a run,
        the number before."""
        last = self._last.pop(first, None)
        if last is None:
            return first - 1
        del self._first[last]
        return last


class Window:
    """Data messages received and not yet confirmed: they finish in any order, and are confirmed in
    the order of their numbers. The window of a client is one."""

    __slots__ = ("early", "finished_up_to", "told")

    def __init__(self) -> None:
        self.finished_up_to = 0
        self.told = 0
        self.early = Runs()
        """Messages that are finished, while one in front of them is not."""

    def finish(self, number: int) -> None:
        """Note that a message and all its copies are safe, so that it can be confirmed."""
        if number != self.finished_up_to + 1:
            assert number > self.finished_up_to, f"{number} was finished before"
            self._finish_early(number)
        elif self.early._last:  # its truth, without a call: this is done for every message
            self.finished_up_to = self.early.take(number + 1)
        else:
            self.finished_up_to = number

    def _finish_early(self, number: int) -> None:
        self.early.add(number)

    def due(self) -> int | None:
        """The number to confirm now, if that is news to the peer."""
        if self.finished_up_to == self.told:
            return None
        self.told = self.finished_up_to
        return self.told


class LinkWindow(Window):
    """The window of a link: messages that finish early are confirmed too, as runs."""

    __slots__ = ("_in_order", "untold")

    def __init__(self) -> None:
        super().__init__()
        self.untold: list[Run] = []
        """Runs of early ones that the peer has not been told of over this connection, as they
        came; mostly none."""
        self._in_order = True
        """Whether the last of them comes first."""

    def _finish_early(self, number: int) -> None:
        self.early.add(number)
        self.untold.append((number, number))
        self._in_order = False

    def runs(self, most: int) -> tuple[Run, ...]:
        """The first runs of early messages, at most so many."""
        return tuple(islice(self.early, most))

    def resume(self, told: Collection[Run]) -> None:
        """A connection begins, and the peer has been told these runs."""
        known = set(told)
        self.untold = [run for run in self.early if run not in known]
        self._in_order = False

    def take_untold(self, most: int) -> tuple[Run, ...]:
        """The first runs, at most so many, that are to be told now. Those that the cumulative
        number includes are not told. Very many are put in order once, and each is looked at
        once."""
        if len(self.untold) == 1 and most:  # mostly
            run = self.untold.pop()
            return (run,) if run[0] > self.finished_up_to else ()
        if not self._in_order:
            self._put_in_order()
        told: list[Run] = []
        while self.untold and len(told) < most:
            run = self.untold.pop()
            if run[0] > self.finished_up_to:
                told.append(run)
        return tuple(told)

    def _put_in_order(self) -> None:
        joined: list[Run] = []
        for first, last in sorted(self.untold):
            if joined and joined[-1][1] == first - 1:
                joined[-1] = (joined[-1][0], last)
            else:
                joined.append((first, last))
        self.untold, self._in_order = joined[::-1], True
