"""Worlds with a mesh: soft links open and close, brokers differ in Δ and strategy, and every
publication arrives once and in order; without faults nobody sees anything twice."""

import pytest

from tests.sim.mesh_runs import MeshRun
from tests.sim.world_runs import many, many_seeds

pytestmark = pytest.mark.sim

KINDS = {
    "calm": {},
    "faults": {"faults": True},
    "outages": {"faults": True, "outages": True},
}


def mesh(seed, happened, *, kind):
    run = MeshRun(seed, **KINDS[kind])
    run.run()
    assert kind != "calm" or run.duplicates == 0
    happened["soft"] += run.soft_copies
    happened["deliveries"] += run.world.metrics().deliveries


@pytest.mark.parametrize("kind", KINDS)
def test_fixed_seeds(kind):
    happened = many(mesh, range(25), kind=kind)
    assert happened["soft"] > 50
    assert happened["deliveries"] > 1_000


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_many_seeds(kind):
    many(mesh, many_seeds(), kind=kind)
