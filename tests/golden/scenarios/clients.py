"""Scenarios of clients that vanish, come back, or ask for what cannot be."""

from byway.core.broker_config import BrokerConfig
from tests.golden.scene import PAIR, Scene


def _with_session(ttl_us: int, config: BrokerConfig | None = None) -> Scene:
    """A publisher at B1, a subscriber at B2 whose session is kept for a time."""
    scene = Scene(PAIR, config or BrokerConfig())
    scene.attach("pub", "B1")
    scene.advertise("pub", "price > 0")
    scene.settle()
    scene.attach("sub", "B2", ttl_us=ttl_us)
    scene.subscribe("sub", "price > 80")
    scene.settle()
    scene.begins_here()
    return scene


def vanishes_without_a_session() -> Scene:
    """A client whose session is not kept vanishes: all it held ends at once, everywhere."""
    scene = _with_session(0)
    scene.detach("sub")
    scene.settle()
    scene.says("So does the publisher.")
    scene.detach("pub")
    scene.settle()
    return scene


def comes_back_to_its_session() -> Scene:
    """A client vanishes after it has acknowledged one delivery of two. What is published meanwhile
    is kept, and confirmed to the publisher. It comes back in time, says what it has, and is told
    the rest: what it holds, and what it missed."""
    scene = _with_session(10_000_000)
    scene.publish("pub", price=100)
    scene.publish("pub", price=101)
    scene.settle()
    scene.has("sub", 1)
    scene.says("It vanishes; it has only got the first one.")
    scene.detach("sub")
    scene.publish("pub", price=102)
    scene.settle()
    scene.wait(5_000_000)
    scene.says("It is back.")
    scene.attach("sub", "B2", ttl_us=10_000_000, received=1)
    scene.has("sub", 3)
    return scene


def does_not_come_back() -> Scene:
    """A client vanishes, and its time passes: what it held ends as by unsubscribing."""
    scene = _with_session(10_000_000)
    scene.detach("sub")
    scene.publish("pub", price=102)
    scene.settle()
    scene.wait(10_000_000)
    scene.publish("pub", price=103)
    scene.settle()
    return scene


def session_without_room() -> Scene:
    """Two deliveries are kept at most. While the client is away three come: the oldest is dropped,
    and the client is told how many were lost. Delivery numbers show the gap too."""
    scene = _with_session(10_000_000, BrokerConfig(session_messages_max=2))
    scene.detach("sub")
    for price in (101, 102, 103):
        scene.publish("pub", price=price)
    scene.settle()
    scene.attach("sub", "B2", ttl_us=10_000_000)
    return scene


def new_incarnation() -> Scene:
    """A client comes back as a new incarnation: it begins anew, what the earlier one left is
    removed, and its publications count from 1 again. The earlier one is refused from then on."""
    scene = _with_session(10_000_000)
    scene.attach("pub", "B1", incarnation=2)
    scene.settle()
    scene.sequence["pub"] = 0
    scene.advertise("pub", "price > 0")
    scene.settle()
    scene.publish("pub", price=120)
    scene.settle()
    scene.says("A late message of the earlier one.")
    scene.attach("pub", "B1", incarnation=1)
    return scene


def refused() -> Scene:
    """What cannot be is refused with a reason, and changes nothing else. A refused publication is
    spent: its sequence counts, and it is confirmed. One with fewer attributes than advertised is
    fine."""
    scene = _with_session(0)
    scene.says("A value outside the advertisement, an attribute outside, then a proper one.")
    scene.publish("pub", price=-1)
    scene.publish("pub", price=120, amount=1)
    scene.publish("pub", price=120)
    scene.settle()
    scene.says("Names that are not there, or there already.")
    scene.unsubscribe("sub", "nothing")
    scene.unadvertise("pub", "nothing")
    scene.advertise("pub", "price > 5")
    scene.says("A sequence that skips one, one that was there before, and a client nobody knows.")
    scene.sequence["pub"] = 7
    scene.publish("pub", price=120)
    scene.sequence["pub"] = 1
    scene.publish("pub", price=120)
    scene.home["stranger"] = "B1"
    scene.publish("stranger", price=120)
    scene.settle()
    return scene


def restart_with_clients() -> Scene:
    """B2 is restarted with its state. Its client has some time to come back, though it asked for no
    session; what is published meanwhile waits for it."""
    scene = _with_session(0)
    stored = scene.dies("B2")
    scene.is_back("B2", stored)
    scene.settle()
    scene.publish("pub", price=120)
    scene.settle()
    scene.says("It comes back as the same incarnation.")
    scene.attach("sub", "B2")
    return scene
