"""Chaos in short for every run of the suite, and its scenes among the slow tests.

`make chaos` runs 200 rounds.
"""

from pathlib import Path

import pytest

from tests.chaos.disks import can_mount
from tests.chaos.plan import drawn_plan
from tests.chaos.round import carry_out
from tests.chaos.scenes import SCENES, SHORT

pytestmark = [pytest.mark.integration]


@pytest.mark.parametrize("seed", SHORT)
@pytest.mark.timeout(240)
def test_a_short_round(tmp_path: Path, seed: int) -> None:
    outcome = carry_out(drawn_plan(seed, short=True), tmp_path / "round", keep=True)
    assert outcome.passed, f"{outcome}\n{outcome.plan}"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SCENES))
@pytest.mark.timeout(360)
def test_a_scene(tmp_path: Path, name: str) -> None:
    if "tmpfs" in name and not can_mount(tmp_path / "mount"):
        pytest.skip("a small disk cannot be mounted here")
    outcome = carry_out(SCENES[name], tmp_path / "round", keep=True)
    assert outcome.passed, f"{outcome}\n{outcome.plan}"
