"""Stop-watches that survive a shared machine: processor time, and the best of several rounds.

Other work can only make a round slower, so the best round is the nearest to what the code costs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from time import perf_counter_ns, process_time
from typing import TypeVar

T = TypeVar("T")


def seconds(action: Callable[[], object]) -> float:
    """The processor time of one call."""
    start = process_time()
    action()
    return process_time() - start


def best_seconds(action: Callable[[], object], rounds: int = 5) -> float:
    """The shortest of several calls."""
    return min(seconds(action) for _ in range(rounds))


def best_of_each(actions: Sequence[Callable[[], object]], rounds: int = 7) -> list[float]:
    """The shortest calls of several actions in turn: what disturbs one disturbs the others too."""
    spent = [[seconds(action) for action in actions] for _ in range(rounds)]
    return [min(times) for times in zip(*spent, strict=True)]


def call_each(call: Callable[[T], object], arguments: Iterable[T]) -> None:
    """Call with each and drop the answer, as a broker does: keeping them all costs memory."""
    for argument in arguments:
        call(argument)


def clock_seconds(action: Callable[[], object], rounds: int = 5) -> float:
    """The shortest of several calls by the clock: with what other work on the machine takes."""
    spent = []
    for _ in range(rounds):
        start = perf_counter_ns()
        action()
        spent.append(perf_counter_ns() - start)
    return min(spent) / 1e9


def each_ns(call: Callable[[T], object], arguments: Iterable[T]) -> list[int]:
    """By the clock, the time of each single call (and of reading the clock, some 50 ns)."""
    spent = []
    for argument in arguments:
        start = perf_counter_ns()
        call(argument)
        spent.append(perf_counter_ns() - start)
    return spent
