"""`make chaos`: rounds of chaos, or one of them again.

    python -m tests.chaos                       200 rounds, several at a time
    python -m tests.chaos --rounds 1..50        a part of them
    python -m tests.chaos --seed 17 --rounds 1  one again
    python -m tests.chaos --short               a few short rounds, as CI runs them
    python -m tests.chaos --scene two-inner-unlisted

Every round has a seed, which is printed and gives the same network, clients and faults again (not
the same interleaving). What failed leaves its files behind: logs of clients and brokers, status.
"""

from __future__ import annotations

import argparse
import os
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
from tests.chaos.scenes import SCENES

ROUNDS = 200
SHORT = 3
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
    parser.add_argument("--short", action="store_true", help=f"{SHORT} short rounds")
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
    count = SHORT if asked.short and asked.rounds == str(ROUNDS) else int(first)
    start = 1 if asked.seed is None else asked.seed
    return list(range(start, start + count))


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
        )
    outcome = carry_out(plan, directory / "round", keep=asked.keep)
    print(outcome, flush=True)
    if outcome.directory is not None and not outcome.passed:
        print(f"  its files: {outcome.directory}\n{plan}", flush=True)
    Row.of(outcome).write(directory / "row.json")
    return 0 if outcome.passed else 1


def apart(asked: argparse.Namespace, seed: int, directory: Path) -> tuple[int, str, Row | None]:
    """One round in a process of its own, so that rounds share nothing."""
    directory.mkdir(parents=True)
    options = ["--one", "--seed", str(seed), "--rounds", "1", "--dir", str(directory)]
    options += ["--short"] * asked.short + ["--keep"] * asked.keep
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.chaos", *options],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        said, _ = process.communicate(timeout=ROUND_S_MAX)
    except subprocess.TimeoutExpired:
        process.terminate()
        said = f"seed {seed}: FAILED: no end after {ROUND_S_MAX} s"
    finally:
        process.wait()
    row = directory / "row.json"
    return seed, said.rstrip(), Row.read(row) if row.exists() else None


def main() -> int:
    """Run what was asked for; how it went."""
    asked = arguments()
    if asked.one or asked.scene:
        directory = asked.dir or Path(tempfile.mkdtemp(prefix="byway-chaos-"))
        return one(asked, asked.seed or 0, directory)
    directory = asked.dir or Path(tempfile.mkdtemp(prefix="byway-chaos-"))
    todo, rows, failed, began = seeds(asked), [], [], time.monotonic()
    print(f"{len(todo)} rounds, seeds {todo[0]} to {todo[-1]}, {asked.jobs} at a time", flush=True)
    with ThreadPoolExecutor(asked.jobs) as pool:
        runs = [pool.submit(apart, asked, seed, directory / f"seed-{seed}") for seed in todo]
        for run in as_completed(runs):
            seed, said, row = run.result()
            print(said, flush=True)
            if row is None or not row.passed:
                failed.append(seed)
            if row is not None:
                rows.append(row)
    print(f"\n{table(rows)}\n")
    again = f"; seeds {' '.join(map(str, sorted(failed)))}" if failed else ""
    minutes = (time.monotonic() - began) / 60
    print(f"{len(todo) - len(failed)} passed, {len(failed)} failed in {minutes:.1f} min{again}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
