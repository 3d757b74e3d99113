"""One round of the fuzzer: a network, an attack, what must be true, restarts from `--data`."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from byway.wire import encode
from tests.hostile.attack import Attacker, BrokerGoneError, Tally
from tests.hostile.corpus import Case, replayed
from tests.hostile.overlay import NEIGHBOURS, TARGET, FoundError, Overlay, settings_of
from tests.hostile.scripts import Role, Script, scripts
from tests.hostile.shapes import Facts
from tests.integration.processes import brokers
from tests.wire_examples import FRAMES as EXAMPLES

LOOK_EVERY: Final = 50
"""Scripts between two looks at the brokers; a fault is one of the last so many."""
HEALTH_EVERY: Final = 10
"""Looks between two questions to the operations ports."""
WORKERS: Final = 4
"""Conversations at a time; recorded ones are held one after the other."""
ROUND_S: Final = 400.0
RECORDED: Final = tuple(bytes(encode(frame)) for frame in EXAMPLES.values())
"""One frame of each kind, which the byte-level fuzzing starts from."""


class Outcome:
    """What came of a round."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.tally = Tally()
        self.restarts = 0
        self.fault = ""
        self.logs = ""
        self.played: list[Script] = []
        """All scripts until the fault."""
        self.suspects = 0
        """So many of the last ones were played since the brokers were last seen to be well."""
        self.seconds = 0.0


def roles_of(seed: int) -> tuple[Role, ...]:
    """Every third round has clients only: with no hostile neighbour confirmations are due."""
    return ("client",) if seed % 3 == 0 else ("broker", "client")


async def attack(
    overlay: Overlay, attacker: Attacker, made: Sequence[Script], out: Outcome
) -> None:
    """Play scripts, and look at the brokers all the time. Raises `FoundError`."""
    overlay.honest.go_on(True)
    for number, at in enumerate(range(0, len(made), LOOK_EVERY), 1):
        some = made[at : at + LOOK_EVERY]
        out.played += some
        out.suspects += len(some)
        try:
            await attacker.play(some)
        except* BrokerGoneError as gone:
            overlay.look()
            raise FoundError(f"{TARGET} takes no connections: {gone.exceptions[0]}") from None
        overlay.look()
        if number % HEALTH_EVERY == 0:
            await overlay.health()
            out.suspects = 0
    overlay.honest.go_on(False)
    await overlay.traffic()


async def play(
    seed: int,
    overlay: Overlay,
    given: Sequence[Script] | None,
    frames: int,
    out: Outcome,
    workers: int = WORKERS,
) -> None:
    """An attack on a network that runs, and a restart of the broker under attack."""
    roles = roles_of(seed)
    if given is None:
        facts: Facts = await overlay.facts("broker" in roles)
        given = list(scripts(seed, facts, frames, roles, RECORDED))
    attacker = Attacker("127.0.0.1", overlay.target.port, workers)
    try:
        await attack(overlay, attacker, given, out)
    finally:
        overlay.honest.go_on(False)
        attacker.leave()
        out.tally.add(attacker.tally)
    await overlay.restart(TARGET)


async def one_round(
    seed: int,
    frames: int,
    given: Sequence[Script] | None = None,
    neighbours_too: bool = True,
    workers: int = WORKERS,
    cases: dict[str, Case] | None = None,
) -> Outcome:
    """A whole round in a network of its own: scripts of a seed, given ones, or recorded cases."""
    out, began = Outcome(seed), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="byway-fuzz-") as directory, brokers() as started:
        overlay = Overlay(started, Path(directory), settings_of(seed))
        try:
            async with asyncio.timeout(ROUND_S):
                await overlay.start()
                if cases is not None:
                    await replay_all(overlay, cases, out)
                else:
                    await play(seed, overlay, given, frames, out, workers)
                if neighbours_too:
                    await overlay.restart(*NEIGHBOURS)
        except FoundError as fault:
            out.fault, out.logs = str(fault), overlay.logs()
        except TimeoutError:
            out.fault, out.logs = f"the round took longer than {ROUND_S} s", overlay.logs()
        finally:
            await overlay.honest.aclose()
            out.restarts = overlay.restarts
            out.seconds = time.monotonic() - began
    return out


async def replay_all(overlay: Overlay, cases: dict[str, Case], out: Outcome) -> None:
    """Recorded attacks one after the other on a network that runs, and one restart. A fault names
    the attack; one that only the restart shows may be of any."""
    alone = "each alone: python -m tests.hostile.fuzz --replay"
    name = ""
    try:
        for case_name, case in cases.items():
            name = f"{case_name} ({case.description})"
            attacker = Attacker("127.0.0.1", overlay.target.port, workers=1)
            try:
                await attack(overlay, attacker, list(replayed(case)), out)
            finally:
                overlay.honest.go_on(False)
                attacker.leave()
                out.tally.add(attacker.tally)
        name = f"one of {', '.join(cases)} ({alone})"
        await overlay.restart(TARGET)
    except FoundError as found:
        raise FoundError(f"recorded attack: {name}: {found}") from None


async def minimise(out: Outcome, tries: int) -> list[Script]:
    """Fewer scripts that bring about a fault, found by leaving out more and more."""
    kept, recent = list(out.played), out.played[-out.suspects :] if out.suspects else []
    left = tries
    if recent and len(recent) < len(kept):
        left -= 1
        if await _fails(out.seed, recent):
            kept = recent
    parts = 2
    while left > 0 and len(kept) > 1:
        size = -(-len(kept) // parts)
        for at in range(0, len(kept), size):
            fewer = kept[:at] + kept[at + size :] if parts > 2 else kept[at : at + size]
            left -= 1
            if fewer and await _fails(out.seed, fewer):
                kept, parts = fewer, max(parts - 1, 2)
                break
            if left <= 0:
                break
        else:
            if size == 1:
                break
            parts = min(2 * parts, len(kept))
    return kept


async def _fails(seed: int, some: Sequence[Script]) -> bool:
    again = await one_round(seed, 0, some, neighbours_too=False)
    print(f"    {len(some)} scripts: {again.fault[:110] or 'no fault'}", flush=True)
    return bool(again.fault)
