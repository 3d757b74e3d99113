"""`make chaos`: rounds of chaos, or one of them again.

    python -m tests.chaos                       200 rounds, several at a time
    python -m tests.chaos --rounds 1..50        a part of them
    python -m tests.chaos --seed 17 --rounds 1  one again
    python -m tests.chaos --short               a few short rounds, as CI runs them
    python -m tests.chaos --mesh                soft links in all rounds, instead of half
    python -m tests.chaos --scene two-inner-unlisted

Every round has a seed, which is printed and gives the same network, clients and faults again (not
the same interleaving). What failed leaves its files behind: logs of clients and brokers, status.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from tests.chaos.disks import can_mount
from tests.chaos.plan import drawn_plan
from tests.chaos.report import Row, table
from tests.chaos.round import carry_out
from tests.chaos.scenes import SCENES, SHORT

ROUNDS = 200
ROUND_S_MAX = 900


def knows_state_dir() -> bool:
    """Whether brokers have the setting `state_dir`."""
    from byway.runtime.settings import BrokerSettings

    return "state_dir" in BrokerSettings.__struct_fields__


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--rounds", default=str(ROUNDS), help="how many, or A..B")
    parser.add_argument("--seed", type=int, help="of the first round (default 1)")
    parser.add_argument("--jobs", type=int, default=max(os.cpu_count() or 1, 1))
    parser.add_argument(
        "--short", action="store_true", help="short rounds: a few, unless told which"
    )
    parser.add_argument("--mesh", action="store_true", help="a mesh in every round, not in half")
    parser.add_argument("--scene", choices=sorted(SCENES))
    parser.add_argument("--dir", type=Path, help="for files (default: a temporary one)")
    parser.add_argument("--keep", action="store_true", help="keep the files of all rounds")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def seeds(asked: argparse.Namespace) -> list[int]:
    """Seeds of the rounds."""
    first, dots, last = asked.rounds.partition("..")
    if dots:
        return list(range(int(first), int(last) + 1))
    if asked.short and asked.seed is None and asked.rounds == str(ROUNDS):
        return list(SHORT)
    start = 1 if asked.seed is None else asked.seed
    return list(range(start, start + int(first)))


def one(asked: argparse.Namespace, seed: int, directory: Path) -> int:
    """One round in this process."""
    if asked.scene:
        plan = SCENES[asked.scene]
    else:
        plan = drawn_plan(
            seed,
            short=asked.short,
            tmpfs=can_mount(directory / "mount"),
            remembering=knows_state_dir(),
            mesh=True if asked.mesh else None,
        )
    outcome = carry_out(plan, directory / "round", keep=asked.keep)
    print(outcome, flush=True)
    if outcome.directory is not None and not outcome.passed:
        print(f"  its files: {outcome.directory}\n{plan}", flush=True)
    Row.of(outcome).write(directory / "row.json")
    return 0 if outcome.passed else 1


class Rounds:
    """Rounds in processes of their own, so that they share nothing."""

    def __init__(self, asked: argparse.Namespace, directory: Path) -> None:
        self._asked = asked
        self._directory = directory
        self._running: set[subprocess.Popen[str]] = set()

    def run(self, seed: int) -> tuple[int, str, Row | None]:
        """One round: its seed, what it said, and its numbers if it came to an end."""
        directory = self._directory / f"seed-{seed}"
        directory.mkdir(parents=True)
        options = ["--one", "--seed", str(seed), "--rounds", "1", "--dir", str(directory)]
        options += ["--short"] * self._asked.short + ["--keep"] * self._asked.keep
        options += ["--mesh"] * self._asked.mesh
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos", *options],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self._running.add(process)
        try:
            said, _ = process.communicate(timeout=ROUND_S_MAX)
        except subprocess.TimeoutExpired:
            process.terminate()
            said = f"seed {seed}: FAILED: no end after {ROUND_S_MAX} s"
        finally:
            process.wait()
            self._running.discard(process)
        row = directory / "row.json"
        return seed, said.rstrip(), Row.read(row) if row.exists() else None

    def end(self) -> None:
        """End those that run; they end what they started."""
        for process in list(self._running):
            process.terminate()


def several(asked: argparse.Namespace, directory: Path) -> int:
    """Many rounds, some at a time, and the table."""
    todo, rows, failed, began = seeds(asked), [], [], time.monotonic()
    print(
        f"{len(todo)} rounds, seeds from {todo[0]} to {todo[-1]}, {asked.jobs} at a time",
        flush=True,
    )
    rounds = Rounds(asked, directory)
    with ThreadPoolExecutor(asked.jobs) as pool:
        runs = [pool.submit(rounds.run, seed) for seed in todo]
        try:
            for run in as_completed(runs):
                seed, said, row = run.result()
                print(said, flush=True)
                if row is None or not row.passed:
                    failed.append(seed)
                if row is not None:
                    rows.append(row)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            rounds.end()
            raise
    print(f"\n{table(rows)}\n")
    again = f"; seeds {' '.join(map(str, sorted(failed)))}" if failed else ""
    minutes = (time.monotonic() - began) / 60
    print(f"{len(todo) - len(failed)} passed, {len(failed)} failed in {minutes:.1f} min{again}")
    return 1 if failed else 0


def main() -> int:
    """Run what was asked for; how it went."""
    asked = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that everything started is ended
    directory = asked.dir or Path(tempfile.mkdtemp(prefix="byway-chaos-"))
    if asked.one or asked.scene:
        return one(asked, asked.seed or 0, directory)
    return several(asked, directory)


if __name__ == "__main__":
    sys.exit(main())
