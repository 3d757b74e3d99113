"""Fuzz live brokers: `make fuzz`, or `python -m tests.hostile.fuzz --help`.

Rounds are numbered by their seeds. Each attacks a network of three broker processes with hostile
clients, in two rounds of three with hostile brokers too, and ends with kill -9 and restarts from
`--data`. A seed that fails is told with what the brokers said, and can be run again alone.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import signal
import sys
from pathlib import Path
from typing import Final

from tests.hostile import corpus
from tests.hostile.attack import Tally
from tests.hostile.rounds import Outcome, minimise, one_round

CORPUS: Final = -1
"""In the place of a seed: the round of the recorded attacks."""


def main() -> int:
    """The exit code: 0 if no round failed."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m tests.hostile.fuzz")
    parser.add_argument("--frames", type=int, default=1_000_000, help="in all rounds together")
    parser.add_argument("--round-frames", type=int, default=20_000, help="in one round")
    parser.add_argument("--seed", type=int, help="run one round alone")
    parser.add_argument("--first", type=int, help="the first seed; by default a fresh one")
    parser.add_argument("--replay", type=Path, nargs="*", help="files of the corpus; none: all")
    parser.add_argument(
        "--minimise", type=int, default=0, metavar="TRIES", help="of a failing seed"
    )
    parser.add_argument("--save", type=Path, help="where a minimised attack is recorded")
    parser.add_argument("--stop", action="store_true", help="end with the first round that fails")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # brokers end with this process
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if given.replay is not None:
        return asyncio.run(_replay(given.replay or sorted(corpus.DIRECTORY.glob("*.json"))))
    return asyncio.run(_fuzz(given))


async def _replay(paths: list[Path]) -> int:
    failed = 0
    for path in paths:
        case = corpus.read(path)
        scripts = list(corpus.replayed(case))
        out = await one_round(1, 0, scripts, workers=1)
        failed += bool(out.fault)
        verdict = "FAILED" if out.fault else "passed"
        print(f"{verdict} {path.stem}: {case.description}, {out.seconds:.0f} s", flush=True)
        if out.fault:
            print(f"  {out.fault}\n{out.logs}")
    print(f"{len(paths) - failed} passed, {failed} failed")
    return 1 if failed else 0


async def _fuzz(given: argparse.Namespace) -> int:
    first = secrets.randbelow(1_000_000) * 1_000 if given.first is None else given.first
    rounds = -(-given.frames // given.round_frames)
    seeds = [given.seed] if given.seed is not None else list(range(first, first + rounds))
    print(f"{len(seeds)} rounds of {given.round_frames} frames, seeds {seeds[0]} to {seeds[-1]}")
    total, restarts, seconds = Tally(), 0, 0.0
    failed: list[Outcome] = []
    if given.seed is None:
        restarts += await _corpus_first(failed)
    played = int(given.seed is None)
    for number, seed in enumerate(seeds, 1):
        played += 1
        out = await one_round(seed, given.round_frames)
        total.add(out.tally)
        restarts += out.restarts
        seconds += out.seconds
        print(
            f"[{number}/{len(seeds)}] seed {seed}: {out.tally.frames} frames in "
            f"{out.tally.scripts} conversations, {out.tally.refused} refused, "
            f"{out.seconds:.0f} s; {total.frames} frames so far, "
            f"{'FAILED: ' + out.fault if out.fault else 'passed'}",
            flush=True,
        )
        if out.fault:
            failed.append(out)
            _explain(out, given.round_frames)
            if given.minimise:
                await _minimise(out, given.minimise, given.save)
            if given.stop:
                break
    _summary(total, restarts, seconds)
    for out in failed:
        print(f"failed: seed {out.seed}: {out.fault[:160]}\n  {_again(out, given.round_frames)}")
    print(f"{played - len(failed)} passed, {len(failed)} failed")
    return 1 if failed else 0


async def _corpus_first(failed: list[Outcome]) -> int:
    """All recorded attacks on one network; the restarts."""
    cases = corpus.cases()
    out = await one_round(CORPUS, 0, cases=cases)
    verdict = f"FAILED: {out.fault}\n{out.logs}" if out.fault else "passed"
    print(f"[0] {len(cases)} recorded attacks, {out.seconds:.0f} s: {verdict}", flush=True)
    if out.fault:
        failed.append(out)
    return out.restarts


def _again(out: Outcome, frames: int) -> str:
    if out.seed == CORPUS:
        return "again: python -m tests.hostile.fuzz --replay"
    return f"again: python -m tests.hostile.fuzz --seed {out.seed} --round-frames {frames}"


def _explain(out: Outcome, frames: int) -> None:
    print(out.logs)
    print(f"seed {out.seed}: {out.fault}\n  after {len(out.played)} conversations, the last ones:")
    for script in out.played[-min(out.suspects, 8) :] if out.suspects else []:
        kinds = " ".join(p.kind for p in script.pieces[-6:])
        print(f"    {script.role}, {script.why or 'nothing wrong'}: … {kinds}")
    print(f"  {_again(out, frames)} --minimise 20", flush=True)


async def _minimise(out: Outcome, tries: int, save: Path | None) -> None:
    kept = await minimise(out, tries)
    print(f"  {len(kept)} of {len(out.played)} conversations are enough:")
    for script in kept[:10]:
        print(f"    {script.role}, {script.ending}, {script.why or 'nothing wrong'}")
        for piece in script.pieces[-12:]:
            print(f"      {piece.kind} {piece.data[4:120]!r}")
    if save is not None:
        corpus.write(save, out.fault[:200], kept)
        print(f"  recorded in {save}")


def _summary(total: Tally, restarts: int, seconds: float) -> None:
    print(f"\n{total.frames} frames in {total.scripts} conversations, {seconds:.0f} s")
    print("  by kind: " + ", ".join(f"{kind} {n}" for kind, n in total.sent.most_common()))
    print(
        f"  accepted: {total.frames_accepted} frames in {total.accepted} conversations\n"
        f"  refused:  {total.frames_refused} frames in {total.refused} conversations\n"
        f"  left without waiting for an answer: {total.unfinished} conversations"
    )
    for reason, count in total.reasons.most_common(15):
        print(f"    {count:>8} {reason}")
    print(f"  restarts from --data: {restarts}")


if __name__ == "__main__":
    sys.exit(main())
