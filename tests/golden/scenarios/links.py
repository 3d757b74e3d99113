"""Scenarios of links that come and go, and of brokers that die."""

from byway.core.broker import Broker
from byway.core.inputs import FrameReceived, NeighbourAdded, Started
from byway.model.messages import Batch, EntryId, Lane, Unsubscribe
from tests.core_net import DEFAULT
from tests.golden.scene import CHAIN, PAIR, Scene


def _busy(edges: list[tuple[str, str]] = CHAIN, subscriber: str = "B3") -> Scene:
    """A publisher at B1, a subscriber at the other end, both settled."""
    scene = Scene(edges)
    scene.attach("pub", "B1")
    scene.attach("sub", subscriber)
    scene.advertise("pub", "price > 0")
    scene.settle()
    scene.subscribe("sub", "price > 80")
    scene.settle()
    scene.begins_here()
    return scene


def late_neighbour() -> Scene:
    """B4 joins at B2 when everything is in place. It holds nothing, so it is told everything that
    concerns it; then a client there gets what is published."""
    scene = _busy()
    scene.is_new("B4", "B2")
    scene.joins("B4", "B2")
    scene.settle()
    scene.says("A client at the new broker.")
    scene.attach("late", "B4")
    scene.subscribe("late", "price > 100")
    scene.settle()
    scene.publish("pub", price=120)
    scene.settle()
    return scene


def joined_networks() -> Scene:
    """Two networks, with an advertisement in one and a subscription in the other, become one: an
    operator tells B2 and B3 that they are neighbours. Each tells the other what it has."""
    scene = Scene([("B1", "B2"), ("B3", "B4")])
    scene.attach("pub", "B1")
    scene.attach("sub", "B4")
    scene.advertise("pub", "price > 0")
    scene.subscribe("sub", "price > 80")
    scene.settle()
    scene.begins_here()
    scene.joins("B2", "B3")
    scene.settle()
    scene.publish("pub", price=120)
    scene.settle()
    return scene


def neighbour_removed() -> Scene:
    """An operator tells B2 that B3 is no neighbour any more, and B2 tells B3. What each of them had
    told the other ends on both sides. A copy that B3 has not confirmed is given up."""
    scene = _busy()
    scene.publish("pub", price=120)
    scene.step(("B1", "B2"))
    scene.step(("B2", "B3"))
    scene.says("The command.")
    scene.removes("B2", "B3")
    scene.settle()
    scene.publish("pub", price=130)
    scene.settle()
    return scene


def reconnect() -> Scene:
    """A connection breaks while a subscription and a publication are on their way, and comes back.
    Both ends know their numbers: only what was lost is sent again, and nothing is compared."""
    scene = _busy(PAIR, "B2")
    scene.publish("pub", price=120)
    scene.subscribe("sub", "price < 50", "cheap")
    scene.says("The frames are lost.")
    scene.disconnect("B1", "B2")
    scene.says("While it is down, things are numbered and kept.")
    scene.publish("pub", price=130)
    scene.says("It is back.")
    scene.connect("B1", "B2")
    scene.settle()
    return scene


def confirmed_while_away() -> Scene:
    """A publication arrives and is confirmed, but the connection breaks before the confirmation
    gets back. The greeting tells it; nothing is sent again."""
    scene = _busy(PAIR, "B2")
    scene.publish("pub", price=120)
    scene.step(("B1", "B2"))
    scene.disconnect("B1", "B2")
    scene.connect("B1", "B2")
    scene.settle()
    return scene


def confirmed_early() -> Scene:
    """B3 is away, and a publication waits for it at B2. Those behind it, which are for B2 alone,
    are confirmed all the same: to B1 as runs of numbers, which B2's greeting repeats. The client is
    told of all of them when the first is confirmed too."""
    scene = _busy()
    scene.attach("near", "B2")
    scene.subscribe("near", "price < 50")
    scene.settle()
    scene.begins_here()
    scene.disconnect("B2", "B3")
    scene.publish("pub", price=120)
    scene.publish("pub", price=20)
    scene.settle()
    scene.says("One more, and the connection breaks before the confirmation gets back.")
    scene.publish("pub", price=30)
    scene.step(("B1", "B2"))
    scene.disconnect("B1", "B2")
    scene.connect("B1", "B2")
    scene.settle()
    scene.says("B3 is back.")
    scene.connect("B2", "B3")
    scene.settle()
    return scene


def restart_with_storage() -> Scene:
    """B2 dies with a publication on its way to B3, and is back with its state, as the same
    incarnation: links resume by number and the publication goes on."""
    scene = _busy()
    scene.publish("pub", price=120)
    scene.step(("B1", "B2"))
    scene.says("B2 dies; its copy for B3 is lost on the way.")
    stored = scene.dies("B2")
    scene.publish("pub", price=130)
    scene.says("It is back with what it had stored.")
    scene.is_back("B2", stored)
    scene.settle()
    return scene


def replaced() -> Scene:
    """B2 dies for good, with a client, and B4 takes its place. What waits for B2 waits for B4,
    which is sent nothing before it has heard from both neighbours and told them what it wants: then
    the publication that only the client at B2 wanted is dropped, and the other one goes to B3."""
    scene = _busy()
    scene.attach("gone", "B2")
    scene.subscribe("gone", "price < 50")
    scene.settle()
    scene.begins_here()
    scene.dies("B2")
    scene.publish("pub", price=20)
    scene.publish("pub", price=120)
    scene.says("The command, first at one neighbour, then at the other.")
    scene.replaces("B1", "B2", "B4")
    scene.replaces("B3", "B2", "B4")
    scene.says("B4 starts without any state.")
    scene.neighbours["B4"], scene.configs["B4"] = [], DEFAULT
    scene.brokers["B4"] = Broker("B4", [])
    scene.do("B4", Started())
    for neighbour in ("B1", "B3"):
        scene.do("B4", NeighbourAdded(neighbour))
        scene.connect(neighbour, "B4")
        scene.settle()
    return scene


def restart_without_state() -> Scene:
    """B2 dies and is back without anything, as a new incarnation. Its neighbours say what they hold
    of it, and it answers by asking for the names; they tell it what it lacks. What the neighbours
    hold of each other through B2 is doubtful until B2 has heard all, then found to be right:
    neither is told anything that it had."""
    scene = _busy()
    scene.says("B2 dies, and with it the copy of a publication.")
    scene.publish("pub", price=120)
    scene.step(("B1", "B2"))
    scene.dies("B2")
    scene.says("It is back, and knows nothing.")
    scene.is_back("B2")
    scene.settle()
    scene.says("The way is the same as before.")
    scene.publish("pub", price=130)
    scene.settle()
    return scene


def changes_while_a_neighbour_was_dead() -> Scene:
    """B2 is dead while an advertisement and a subscription end and another subscription begins.
    When it is back without state, its neighbours tell it all, but are told only the difference: the
    subscription that is new, and in the end the one that nobody stands for. The end of the
    advertisement travels behind whatever may have been published under it, so B2 is told of the
    advertisement first."""
    scene = _busy()
    scene.advertise("pub", "amount > 0", "amount")
    scene.settle()
    scene.subscribe("sub", "amount > 5", "many")
    scene.settle()
    scene.begins_here()
    scene.dies("B2")
    scene.says("Meanwhile.")
    scene.unsubscribe("sub", "many")
    scene.subscribe("sub", "price < 10", "cheap")
    scene.unadvertise("pub", "amount")
    scene.says("B2 is back without state.")
    scene.is_back("B2")
    scene.settle()
    return scene


def home_broker_forgets() -> Scene:
    """The publisher's home broker dies and is back without state. Its neighbour holds an
    advertisement that nobody stands for any more, which is named in the end; what was sent because
    of it is taken back. The publisher comes back as a new incarnation, and advertises again."""
    scene = _busy(PAIR, "B2")
    scene.dies("B1")
    scene.is_back("B1")
    scene.settle()
    scene.says("The publisher is back.")
    scene.attach("pub", "B1", incarnation=2)
    scene.advertise("pub", "price > 0")
    scene.settle()
    scene.publish("pub", price=120)
    scene.settle()
    return scene


def sent_again_after_a_death() -> Scene:
    """An inner broker dies without state after it has passed a publication on, but before that was
    confirmed. B1 sends it again; B2 knows nothing of it and passes it on again; B3 has seen it: the
    subscriber gets it once, and it is confirmed."""
    scene = _busy()
    scene.publish("pub", price=120)
    scene.step(("B1", "B2"))
    scene.step(("B2", "B3"))
    scene.says("The subscriber has it. B2 dies with the confirmation.")
    scene.dies("B2")
    scene.is_back("B2")
    scene.settle()
    return scene


def broken_rules() -> Scene:
    """A frame of B2 goes on with a number that is not the next one. That costs the connection, and
    nothing else: it is made anew, the digests agree, and nobody is told anything again."""
    scene = _busy(PAIR, "B2")
    frame = Batch(Lane.CONTROL, 99, (Unsubscribe((EntryId("sub", "s", 1, 1),)),))
    scene.do("B1", FrameReceived("B2", frame))
    scene.settle()
    scene.says("They meet again.")
    scene.connect("B1", "B2")
    scene.settle()
    scene.publish("pub", price=120)
    scene.settle()
    return scene
