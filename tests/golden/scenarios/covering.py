"""Scenarios of covering: which subscriptions are sent on, and in which order they come and go."""

from byway.core.broker_config import BrokerConfig
from tests.golden.scene import ACTIVE, CHAIN, Scene


def _with_publisher(policy: BrokerConfig | dict[str, BrokerConfig] = ACTIVE) -> Scene:
    """B1 - B2 - B3, a publisher of prices at B1, two clients at B3."""
    scene = Scene(CHAIN, policy)
    scene.attach("pub", "B1")
    scene.advertise("pub", "price > 0")
    scene.attach("s1", "B3")
    scene.attach("s2", "B3")
    scene.settle()
    scene.begins_here()
    return scene


def broad_then_narrow() -> Scene:
    """Active covering. S1 `> 100` is there, S2 `> 150` comes from the same side: it is not sent on,
    and settled at once because S1 is. A publication of 160 reaches both, one of 120 only S1."""
    scene = _with_publisher()
    scene.subscribe("s1", "price > 100")
    scene.settle()
    scene.says("It stays at B3.")
    scene.subscribe("s2", "price > 150")
    scene.settle()
    scene.publish("pub", price=160)
    scene.publish("pub", price=120)
    scene.settle()
    return scene


def narrow_then_broad() -> Scene:
    """Active covering. S1 `> 150` is there, S2 `> 100` comes: it is sent, then the narrower one is
    taken back, at every broker on the way, in this order on every link."""
    scene = _with_publisher()
    scene.subscribe("s1", "price > 150")
    scene.settle()
    scene.subscribe("s2", "price > 100")
    scene.settle()
    scene.publish("pub", price=160)
    scene.publish("pub", price=120)
    scene.settle()
    return scene


def equal_filters() -> Scene:
    """Active covering. Of two equal filters the second is not sent on; both receive. When the first
    ends, the second takes its place before the first is taken back."""
    scene = _with_publisher()
    scene.subscribe("s1", "price > 100")
    scene.settle()
    scene.subscribe("s2", "price > 100")
    scene.settle()
    scene.publish("pub", price=160)
    scene.settle()
    scene.unsubscribe("s1")
    scene.settle()
    scene.publish("pub", price=170)
    scene.settle()
    return scene


def overlapping_filters() -> Scene:
    """Active covering. `> 150` and `< 160` overlap, and neither covers the other: both are sent."""
    scene = _with_publisher()
    scene.subscribe("s1", "price > 150")
    scene.settle()
    scene.subscribe("s2", "price < 160")
    scene.settle()
    scene.publish("pub", price=155)
    scene.publish("pub", price=140)
    scene.settle()
    return scene


def unsubscribe_the_covering() -> Scene:
    """Active covering. The covering subscription ends: what it stood for is sent first, then it is
    taken back. A publication sent meanwhile is not missed."""
    scene = _with_publisher()
    scene.subscribe("s1", "price > 100")
    scene.settle()
    scene.subscribe("s2", "price > 150")
    scene.settle()
    scene.says("A publication meets the change half way.")
    scene.publish("pub", price=160)
    scene.unsubscribe("s1")
    scene.settle()
    scene.publish("pub", price=170)
    scene.settle()
    return scene


def unsubscribe_the_covered() -> Scene:
    """Active covering. The covered subscription ends: nobody upstream ever heard of it."""
    scene = _with_publisher()
    scene.subscribe("s1", "price > 100")
    scene.settle()
    scene.subscribe("s2", "price > 150")
    scene.settle()
    scene.says("Nothing is sent.")
    scene.unsubscribe("s2")
    scene.settle()
    scene.publish("pub", price=160)
    scene.settle()
    return scene


def unsubscribe_releases_the_broadest() -> Scene:
    """Active covering. `> 10` stood for `> 20`, `> 30` and `< 60`. When it ends, those of them that
    nothing else covers are sent, then it is taken back; `> 30` still stays behind `> 20`."""
    scene = _with_publisher()
    scene.subscribe("s1", "price > 10")
    scene.settle()
    scene.subscribe("s2", "price > 30", "over30")
    scene.subscribe("s2", "price > 20", "over20")
    scene.subscribe("s2", "price > 10 AND price < 60", "under60")
    scene.settle()
    scene.unsubscribe("s1")
    scene.settle()
    return scene


def settled_with_its_quencher() -> Scene:
    """Active covering. S2 comes while S1, which covers it, is still on its way: it is not sent, and
    settled only when S1 is."""
    scene = _with_publisher()
    scene.subscribe("s1", "price > 100")
    scene.subscribe("s2", "price > 150")
    scene.says("Neither is settled yet.")
    scene.settle()
    return scene


def late_advertisement_draws_the_broadest() -> Scene:
    """Active covering. Three subscriptions wait at B3; an advertisement comes that feeds them all.
    Only the broadest is sent."""
    scene = Scene(CHAIN, ACTIVE)
    scene.attach("pub", "B1")
    scene.attach("sub", "B3")
    for name, wanted in (("a", "price > 30"), ("b", "price > 10"), ("c", "price > 20")):
        scene.subscribe("sub", wanted, name)
    scene.settle()
    scene.advertise("pub", "price > 0")
    scene.settle()
    return scene


def mixed_policies() -> Scene:
    """B3 sends everything on, B2 covers: a policy is each broker's own affair. B2 answers for the
    covered one at once, and B1 never hears of it."""
    scene = _with_publisher(
        {"B1": BrokerConfig(), "B2": ACTIVE, "B3": BrokerConfig(covering="none")}
    )
    scene.subscribe("s1", "price > 100")
    scene.settle()
    scene.subscribe("s2", "price > 150")
    scene.settle()
    scene.publish("pub", price=160)
    scene.settle()
    scene.unsubscribe("s1")
    scene.settle()
    return scene
