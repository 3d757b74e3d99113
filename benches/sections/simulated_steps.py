"""The steps of a publication in the simulator: whose code the processor runs, hop by hop.

The simulator calls everything from one loop, so its parts cannot be run alone. Instead a timer of
processor time interrupts it a thousand times a second, and the innermost function of byway that
belongs to a part gets the sample. Shares of samples are multiplied with the processor time of the
same traffic without the timer.
"""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Final

import byway
from benches.report import Figure, Section
from benches.run import Run
from benches.sections.simulation import (
    BROKERS,
    BURST,
    SUBSCRIPTIONS,
    publishing_world,
    total_copies,
)
from benches.timing import seconds

TITLE = "a publication in a simulated network of 120 brokers, step by step"
SLICES = 4
SAMPLE_S = 0.001
ROOT: Final = f"{Path(byway.__file__).parent}/"
PARTS: Final = {
    "sim/engine/inbox.py": "inbox: queues of a broker process",
    "inbox/": "inbox: queues of a broker process",
    "core/": "core: a broker handles it",
    "matching/": "matching: subscriptions that match",
    "session/": "session: client library",
    "wire/": "wire: frames",
    "sim/oracle/": "account: what was expected and seen",
    "sim/": "engine: events, links, clients",
    "trace/": "trace",
}
"""By the beginning of a path, the first that fits."""
OTHER: Final = "other code"


def measure(run: Run) -> Section:
    """Samples of several slices, and the time of others."""
    run.step("subscribing first")
    world = publishing_world(run, BURST)
    until_us = 10_000_000
    world.run(until_us)
    best_us, hops = float("inf"), 0
    counts: Counter[str] = Counter()
    for number in range(2 * SLICES):
        run.step(f"slice {number + 1} of {2 * SLICES}")
        until_us += 1_000_000
        before = total_copies(world)
        if number % 2:
            counts += _sampled(lambda until=until_us: world.run(until))  # type: ignore[misc]
        else:
            spent = seconds(lambda until=until_us: world.run(until))  # type: ignore[misc]
            best_us = min(best_us, 1e6 * spent / (total_copies(world) - before))
        hops += total_copies(world) - before
    samples = sum(counts.values())
    figures = [
        Figure(part, best_us * counts[part] / samples, "µs/hop")
        for part in sorted(counts, key=lambda part: -counts[part])
    ]
    figures.append(Figure("all", best_us, "µs/hop"))
    sizes = {
        "brokers": BROKERS,
        "subscriptions": run.scaled(SUBSCRIPTIONS),
        "publication hops": hops,
        "samples": samples,
    }
    return Section("simulated", TITLE, sizes, figures, [
        f"publications of 100 tickers, {BURST} at the same time; a hop: a copy to a neighbour",
        "a sample counts for the innermost function that belongs to a part; so what the model and "
        "Python's own functions take counts for whoever called them",
    ])  # fmt: skip


def _sampled(action) -> Counter[str]:  # type: ignore[no-untyped-def]
    """How many samples fell to each part."""
    counts: Counter[str] = Counter()

    def sample(_: int, frame: FrameType | None) -> None:
        counts[_part(frame)] += 1

    before = signal.signal(signal.SIGPROF, sample)
    signal.setitimer(signal.ITIMER_PROF, SAMPLE_S, SAMPLE_S)
    try:
        action()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)
    return counts


def _part(frame: FrameType | None) -> str:
    while frame is not None:
        path = frame.f_code.co_filename
        if path.startswith(ROOT):
            inner = path[len(ROOT) :]
            for start, part in PARTS.items():
                if inner.startswith(start):
                    return part
        frame = frame.f_back
    return OTHER
