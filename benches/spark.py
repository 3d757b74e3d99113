"""What work in several processes took: by the clock, and of all processors together."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter


@dataclass(frozen=True)
class Spent:
    """Seconds of one call."""

    clock_s: float
    processor_s: float


def of_all_processes(action: Callable[[], object]) -> Spent:
    """What one call takes, here and in all processes below this one that outlive it."""
    start, before = perf_counter(), _processor_s()
    action()
    return Spent(perf_counter() - start, _processor_s() - before)


def _processor_s() -> float:
    """Of this process and all below it; those that ended count in their parents."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        process = int(stat.parent.name)
        children.setdefault(int(fields[1]), []).append(process)
        ticks[process] = sum(map(int, fields[11:15]))
    waiting, total = [os.getpid()], 0
    while waiting:
        process = waiting.pop()
        total += ticks.get(process, 0)
        waiting += children.get(process, [])
    return total / os.sysconf("SC_CLK_TCK")
