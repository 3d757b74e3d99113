"""Scenarios of what goes on besides routing, and of networks that are wired wrongly."""

from byway.core.broker_config import BrokerConfig
from byway.core.inputs import LoadSampled
from tests.golden.scene import CHAIN, Scene

RING = [("B1", "B2"), ("B2", "B3"), ("B1", "B3")]


def load_exchange() -> Scene:
    """Each broker reports its load to its neighbours once a second, and passes on what it heard
    before, up to two hops. B2 has just heard of B1 when it reports to B3; of B3 it hears only
    afterwards, so that B1 hears of B3 with the next report."""
    scene = Scene(CHAIN, BrokerConfig(load_interval_us=1_000_000, load_radius=2))
    scene.attach("pub", "B1")
    scene.attach("sub", "B3")
    scene.advertise("pub", "price > 0")
    scene.settle()
    scene.subscribe("sub", "price > 80")
    scene.settle()
    scene.begins_here()
    scene.do("B1", LoadSampled(7, (), 0.25))
    scene.publish("pub", price=120)
    scene.settle()
    scene.wait(1_000_000)
    scene.wait(1_000_000)
    return scene


def ring_is_cut() -> Scene:
    """Three brokers are wired in a ring by mistake, and look for cycles. Each sends a probe over
    every new link, which the others pass on; one that comes back names the ring, and all would cut
    it at the same place, the last link by name. Its two ends part, and what is left is a tree."""
    return Scene(RING, BrokerConfig(probe_cycles=True), silent=False)


def ring() -> Scene:
    """Three brokers are wired in a ring by mistake, and do not look for cycles. Each waits for
    another one before it can say that it has told everything, until their patience ends. What comes
    round a second way is told apart: it is dropped, and confirmed at once, because its sender would
    wait for itself."""
    scene = Scene(RING)
    scene.wait(30_000_000)
    for number in "123":
        scene.attach(f"c{number}", f"B{number}")
        scene.advertise(f"c{number}", "price > 0")
        scene.subscribe(f"c{number}", "price > 80")
    scene.settle()
    scene.begins_here()
    scene.publish("c1", price=120)
    scene.settle()
    return scene


def hop_limit() -> Scene:
    """B1 to B3, and no publication may travel further than one hop: B3 drops it, and confirms it,
    because nothing more will come of it."""
    scene = Scene(CHAIN, BrokerConfig(hops_max=1))
    scene.attach("pub", "B1")
    scene.attach("sub", "B3")
    scene.advertise("pub", "price > 0")
    scene.settle()
    scene.subscribe("sub", "price > 80")
    scene.settle()
    scene.begins_here()
    scene.publish("pub", price=120)
    scene.settle()
    return scene
