"""The short form of `make fuzz`: recorded attacks, then fixed seeds and a fresh one, on live
brokers, with restarts from `--data`."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from random import Random
from typing import Final

import pytest

from byway.model.messages import Disconnect, Lane, SubscribeRequest
from tests.hostile import corpus
from tests.hostile.attack import Attacker
from tests.hostile.overlay import NEIGHBOURS, FoundError, Overlay
from tests.hostile.rounds import Outcome, play, replay_all
from tests.hostile.scripts import Role, Script, Speaker
from tests.hostile.shapes import MESSAGES, PARTING
from tests.integration.processes import brokers

SEEDS = (1, 2)
FRAMES = 1_200
"""Of each seed."""
SETTINGS = (
    "--set", "core.covering=active", "--set", "core.load_interval_us=200000",
    "--set", "mesh.delta=4",
)  # fmt: skip
ROLES: Final[tuple[Role, ...]] = ("client", "broker")

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


def test_hostile_peers_break_nothing(tmp_path: Path) -> None:
    """Honest traffic flows, nothing is lost or doubled, and every broker starts again."""
    fresh = secrets.randbelow(2**31)
    print(
        f"fresh seed {fresh}: python -m tests.hostile.fuzz --seed {fresh} --round-frames {FRAMES}"
    )
    _attack(tmp_path, corpus.cases(heavy=False), (*SEEDS, fresh))


@pytest.mark.slow
def test_attacks_that_take_long_break_nothing(tmp_path: Path) -> None:
    """Those of the corpus that send gigabytes, or thousands of names."""
    _attack(tmp_path, {n: c for n, c in corpus.cases().items() if c.heavy}, ())


def _attack(directory: Path, cases: dict[str, corpus.Case], seeds: tuple[int, ...]) -> None:
    with brokers() as started:
        overlay = Overlay(started, directory, SETTINGS)
        try:
            asyncio.run(_attack_all(overlay, cases, seeds))
        except FoundError as found:
            pytest.fail(f"{found}\n{overlay.logs()}", pytrace=False)


async def _attack_all(
    overlay: Overlay, cases: dict[str, corpus.Case], seeds: tuple[int, ...]
) -> None:
    try:
        await overlay.start()
        await _is_understood(overlay)
        await replay_all(overlay, cases, Outcome(0))
        for seed in seeds:
            try:
                await play(seed, overlay, None, FRAMES, Outcome(seed))
            except FoundError as found:
                raise FoundError(f"seed {seed}: {found}") from None
        await overlay.restart(*NEIGHBOURS)
    finally:
        await overlay.honest.aclose()


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
            peer.tell_exactly(Lane.CONTROL, [MESSAGES[Disconnect].tag, PARTING])
        else:
            peer.ask(SubscribeRequest)
        assert await attacker.play_one(Script(role, tuple(peer.pieces))) in (None, PARTING)
