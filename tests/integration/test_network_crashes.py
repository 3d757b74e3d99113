"""Broker processes that are killed while publications flow: nothing that was confirmed is lost,
nothing comes twice, and each publisher's order is kept.

Clients have sessions. Home brokers that are killed keep their state; inner brokers need not.
"""

import asyncio
import random
from contextlib import aclosing
from pathlib import Path

import pytest

from tests.integration.loops import until
from tests.integration.network import Account, Star
from tests.integration.processes import brokers

pytestmark = pytest.mark.integration

CHAIN = ("B1", "B3")
STAR = ("B1", "B2", "B3", "B4")


async def kill_under_load(
    star: Star, homes: tuple[str, ...], count: int, victims: list[tuple[str, ...]]
) -> None:
    """Everyone publishes to everyone while brokers are killed, one set after the other."""
    account = Account()
    async with aclosing(account):
        publishers = [await account.publisher(star.connect(h, f"p-{h}", window=256)) for h in homes]
        for home in homes:
            await account.subscriber(star.connect(home, f"s-{home}"))
        each = count // len(homes)
        publishing = [asyncio.create_task(account.publish(p, each)) for p in publishers]
        expected = len(homes) * each * len(homes)
        for number, victim in enumerate(victims, 1):
            some = expected * number // (len(victims) + 2)
            await until(lambda some=some: account.received() >= some, 30)
            await star.kill(*victim)
            await star.restart(*victim)
        await asyncio.gather(*publishing)
        await until(account.is_complete, 30)
        account.is_exact()
    assert star.faults() == {}


def test_an_inner_broker_that_kept_nothing_comes_back() -> None:
    with brokers() as started:
        star = Star(started, None).start(CHAIN)
        asyncio.run(kill_under_load(star, CHAIN, 6_000, [("M",)]))


@pytest.mark.slow
def test_an_inner_broker_that_kept_its_state_comes_back(tmp_path: Path) -> None:
    with brokers() as started:
        star = Star(started, tmp_path).start(CHAIN, keeping=("M",))
        asyncio.run(kill_under_load(star, CHAIN, 20_000, [("M",), ("M",)]))


@pytest.mark.slow
def test_home_brokers_that_kept_their_state_come_back(tmp_path: Path) -> None:
    with brokers() as started:
        star = Star(started, tmp_path).start(CHAIN, keeping=CHAIN)
        asyncio.run(kill_under_load(star, CHAIN, 6_000, [("B1", "B3")]))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_star_whose_brokers_are_killed_at_random(tmp_path: Path, seed: int) -> None:
    """Also several at once, and the middle with and without state."""
    chance = random.Random(seed)
    names = (*STAR, "M")
    with brokers() as started:
        keeping = (*STAR, "M") if seed % 2 else STAR
        star = Star(started, tmp_path).start(STAR, keeping=keeping)
        victims = [tuple(chance.sample(names, chance.randint(1, 3))) for _ in range(5)]
        asyncio.run(kill_under_load(star, STAR, 12_000, victims))
