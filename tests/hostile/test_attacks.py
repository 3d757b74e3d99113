"""The short form of `make fuzz`: recorded attacks, then fixed seeds and a fresh one, on live
brokers, with restarts from `--data`."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from random import Random
from typing import Final

import pytest

from byway.model.messages import Lane, Parting, SubscribeRequest
from tests.hostile import corpus
from tests.hostile.attack import Attacker
from tests.hostile.overlay import NEIGHBOURS, FoundError, Overlay
from tests.hostile.rounds import Outcome, attack, play
from tests.hostile.scripts import Role, Script, Speaker
from tests.hostile.shapes import MESSAGES, PARTING
from tests.integration.processes import brokers

SEEDS = (1, 2)
FRAMES = 1_200
"""Of each seed."""
SETTINGS = ("--set", "core.covering=active", "--set", "core.load_interval_us=200000")
ROLES: Final[tuple[Role, ...]] = ("client", "broker")
ALONE = "each alone: python -m tests.hostile.fuzz --replay"

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


@pytest.fixture
def fresh_seed() -> int:
    seed = secrets.randbelow(2**31)
    print(f"fresh seed {seed}: python -m tests.hostile.fuzz --seed {seed} --round-frames {FRAMES}")
    return seed


def test_hostile_peers_break_nothing(tmp_path: Path, fresh_seed: int) -> None:
    """Honest traffic flows, nothing is lost or doubled, and every broker starts again."""
    with brokers() as started:
        overlay = Overlay(started, tmp_path, SETTINGS)
        phases: list[str] = []
        try:
            asyncio.run(_attack_all(overlay, fresh_seed, phases))
        except FoundError as found:
            pytest.fail(f"{phases[-1]}: {found}\n{overlay.logs()}", pytrace=False)


async def _attack_all(overlay: Overlay, fresh_seed: int, phases: list[str]) -> None:
    try:
        phases.append("at the start")
        await overlay.start()
        await _is_understood(overlay)
        await _replay_corpus(overlay, phases)
        for seed in (*SEEDS, fresh_seed):
            phases.append(f"seed {seed}")
            await play(seed, overlay, None, FRAMES, Outcome(seed))
        await overlay.restart(*NEIGHBOURS)
    finally:
        await overlay.honest.aclose()


async def _replay_corpus(overlay: Overlay, phases: list[str]) -> None:
    """All of it, with a look after each; one restart for all, since most take nothing amiss."""
    for name, case in corpus.cases().items():
        phases.append(f"recorded attack {name!r} ({case.description}); {ALONE}")
        attacker = Attacker("127.0.0.1", overlay.target.port, workers=1)
        try:
            await attack(overlay, attacker, list(corpus.replayed(case)), Outcome(0))
        finally:
            overlay.honest.go_on(False)
            attacker.leave()


async def _is_understood(overlay: Overlay) -> None:
    """Scripts speak the protocol of today: valid ones of both roles are heard out."""
    facts = await overlay.facts(as_broker=True)
    assert any(client.startswith("honest-sub") for client, *_ in facts.ids)
    attacker = Attacker("127.0.0.1", overlay.target.port, workers=1)
    for role in ROLES:
        peer = Speaker(Random(1), facts, role, f"valid-{role}", 1)
        peer.greet()
        if role == "broker":
            peer.sync()
            peer.tell_exactly(Lane.CONTROL, [MESSAGES[Parting].tag, PARTING])
        else:
            peer.ask(SubscribeRequest)
        assert await attacker.play_one(Script(role, tuple(peer.pieces))) in (None, PARTING)
