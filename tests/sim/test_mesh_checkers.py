"""The checkers of the mesh find what is wrong with maps and soft links, and nothing where all is
well."""

import pytest

from byway.core.mesh import MasterMap
from byway.sim.topology.tree import Topology
from byway.sim.world import World
from tests.sim.mesh_runs import MeshOrders, mesh_config, mesh_of, order

CHAIN = Topology.of([(f"B{n}", f"B{n + 1}") for n in range(5)], latency_us=1_000)


@pytest.fixture
def world():
    """Six brokers in a row, of which B0 and B4 look as far as three hops, with a soft link."""
    deltas = {name: 3 if name in ("B0", "B4") else 4 for name in CHAIN.brokers}
    configs = {
        name: mesh_config(delta, "S2", behaviours=(MeshOrders.name,))
        for name, delta in deltas.items()
    }
    found = World(CHAIN, config=configs)
    assert found.quiet(10_000_000)
    order(found, "B0", "open B3")
    assert found.quiet(10_000_000)
    return found


def faults(world):
    report = world.check()
    assert report.mesh == len(report.violations)
    return report.violations


def test_all_is_well(world):
    assert mesh_of(world, "B0").soft["B3"].taken
    assert faults(world) == ()


def test_a_record_that_did_not_come_is_missed(world, monkeypatch):
    mesh = mesh_of(world, "B0")
    others = tuple(name for name in mesh.records.brokers if name != "B2")
    monkeypatch.setattr(type(mesh.records), "brokers", others)
    assert "B0 lacks the record of B2" in faults(world)


def test_a_record_too_many_and_an_old_one_are_seen(world):
    mesh_of(world, "B0").records._known["B4"] = mesh_of(world, "B3").records.own
    mesh_of(world, "B5").records._known["B3"] = mesh_of(world, "B2").records.own
    assert faults(world) == ("B0 has the record of B4", "B5 has an old record of B3")


def test_a_map_of_another_tree_is_seen(world):
    mesh_of(world, "B0")._master = MasterMap("B0", [("B0", "B1"), ("B1", "B3"), ("B3", "BX")], 3)
    assert faults(world) == (
        "B0 has B2 nowhere on its map instead of behind B1",
        "B0 has B3 behind B1 on its map instead of behind B2",
        "B0 has BX behind B3 on its map instead of nowhere",
    )


def test_a_soft_link_that_one_end_does_not_know_is_seen(world):
    del mesh_of(world, "B3").soft["B0"]
    assert faults(world) == (
        "the soft link from B0 to B3 passes by others than B3 was told",
        "B3 has soft links to ['B0'], and its mesh to []",
    )


@pytest.mark.parametrize(
    ("of", "changes", "found"),
    [
        (
            "B0",
            {"path": ("B2",)},
            ["passes by others than B3 was told", "passes by B2, as the tree"],
        ),
        ("B0", {"taken": False}, ["is opening, and nothing goes on"]),
        ("B0", {"wanted": False}, ["is open, though nobody wants it", "is draining, and nothing"]),
        ("B3", {"answered": False}, ["waits for an answer of B3"]),
    ],
)
def test_ends_of_a_soft_link_that_disagree_are_seen(world, of, changes, found):
    (soft,) = mesh_of(world, of).soft.values()
    for field, value in changes.items():
        setattr(soft, field, value)
    sentences = faults(world)
    assert len(sentences) == len(found)
    assert all(part in sentence for part, sentence in zip(found, sentences, strict=True))
