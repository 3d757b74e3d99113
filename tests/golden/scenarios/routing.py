"""Scenarios of plain routing: where advertisements, subscriptions and publications go."""

from byway.model.tree_shapes import chain_links, numbered_names
from tests.golden.scene import ACTIVE, CHAIN, PAIR, STAR, Scene


def meeting() -> Scene:
    """Two brokers start and meet for the first time. Each says what it holds of the other, nothing;
    then that it has told all its advertisements, then all its subscriptions. From then on data may
    flow. All acknowledgements are shown."""
    return Scene(PAIR, silent=False, acknowledgements=True)


def chain() -> Scene:
    """B1 - B2 - B3. An advertisement floods the chain and is settled when the flood is collected; a
    subscription follows it back and is settled likewise; a publication follows the subscription. A
    publication is confirmed to its publisher only when the last broker has it. All acknowledgements
    are shown."""
    scene = Scene(CHAIN, acknowledgements=True)
    scene.attach("pub", "B1")
    scene.attach("sub", "B3")
    scene.says("It goes to every broker, and not back.")
    scene.advertise("pub", "price > 100")
    scene.settle()
    scene.says("It goes where the advertisement came from.")
    scene.subscribe("sub", "price > 80")
    scene.settle()
    scene.publish("pub", price=120)
    scene.settle()
    scene.says("Once it has unsubscribed, nothing leaves B1.")
    scene.unsubscribe("sub")
    scene.settle()
    scene.publish("pub", price=110)
    scene.settle()
    return scene


def star_with_two_publishers() -> Scene:
    """A star around B0, publishers at B1 and B2, a subscriber at B3. The subscription reaches both
    publishers, its answer comes when both have answered; unsubscribing removes it everywhere."""
    scene = Scene(STAR)
    for client, broker in (("one", "B1"), ("two", "B2"), ("sub", "B3")):
        scene.attach(client, broker)
    scene.advertise("one", "price > 100")
    scene.advertise("two", "price < 500")
    scene.settle()
    scene.subscribe("sub", "price > 80")
    scene.settle()
    scene.publish("one", price=120)
    scene.publish("two", price=90)
    scene.settle()
    scene.says("Gone at every broker.")
    scene.unsubscribe("sub")
    scene.settle()
    scene.publish("one", price=110)
    scene.settle()
    return scene


def nothing_feeds_it() -> Scene:
    """Subscriptions that no advertisement may feed stay where they are, and are settled at once."""
    scene = Scene(CHAIN)
    scene.attach("pub", "B1")
    scene.attach("sub", "B3")
    scene.advertise("pub", "price < 50", "low")
    scene.advertise("pub", "price > 100 AND amount < 100", "high")
    scene.settle()
    scene.says("Between the two; and one with an attribute out of range. Neither leaves B3.")
    scene.subscribe("sub", "price = 70", "between")
    scene.subscribe("sub", "price > 100 AND amount > 200", "amount")
    scene.settle()
    scene.says("This one overlaps.")
    scene.subscribe("sub", "price < 60", "overlap")
    scene.settle()
    return scene


def late_advertisement() -> Scene:
    """A subscription is there before any advertisement: it is settled, and stays at B3. When the
    advertisement comes, the subscription goes towards it, ahead of the answer on every link: once
    the advertisement is settled, whatever is published finds its way."""
    scene = Scene(CHAIN)
    scene.attach("pub", "B1")
    scene.attach("sub", "B3")
    scene.begins_here()
    scene.subscribe("sub", "price > 80")
    scene.settle()
    scene.advertise("pub", "price > 100")
    scene.settle()
    scene.publish("pub", price=120)
    scene.settle()
    return scene


def two_advertisements_from_one_side() -> Scene:
    """Both advertisements came from the same neighbour and both feed the subscription: it is sent
    once, stays when one of them ends, and is taken back with the other."""
    scene = Scene(PAIR)
    scene.attach("pub", "B1")
    scene.attach("sub", "B2")
    scene.advertise("pub", "price > 100", "high")
    scene.subscribe("sub", "price > 80")
    scene.settle()
    scene.says("The second draws nothing.")
    scene.advertise("pub", "price > 50", "low")
    scene.settle()
    scene.unadvertise("pub", "high")
    scene.settle()
    scene.says("Nothing feeds it any more: it is taken back, and stays at B2.")
    scene.unadvertise("pub", "low")
    scene.settle()
    return scene


def unadvertise_under_load() -> Scene:
    """Publications are under way when their advertisement ends. The end travels behind them on the
    data lane, so that each of them is delivered before the subscription is taken back."""
    scene = Scene(CHAIN)
    scene.attach("pub", "B1")
    scene.attach("sub", "B3")
    scene.advertise("pub", "price > 0")
    scene.settle()
    scene.subscribe("sub", "price > 0")
    scene.settle()
    scene.begins_here()
    scene.says("All three leave B1 before any of them arrives.")
    scene.publish("pub", price=1)
    scene.publish("pub", price=2)
    scene.unadvertise("pub")
    scene.settle()
    return scene


def overlapping_subscriptions() -> Scene:
    """Five of six subscriptions of one client match a publication: one copy on the link, one
    delivery that names the five."""
    scene = Scene(PAIR)
    scene.attach("pub", "B1")
    scene.attach("sub", "B2")
    scene.advertise("pub", "price > 0 AND amount > 0")
    scene.settle()
    for name, wanted in (
        ("a", "price > 1"), ("b", "price < 500"), ("c", "amount > 0"), ("d", "price = 100"),
        ("e", "price BETWEEN 90 AND 110"), ("f", "price > 100"),
    ):  # fmt: skip
        scene.subscribe("sub", wanted, name)
    scene.settle()
    scene.begins_here()
    scene.says("All but f match.")
    scene.publish("pub", price=100, amount=5)
    scene.settle()
    return scene


def batched_unsubscription() -> Scene:
    """Three subscriptions end in one request: each neighbour gets one message for all that it was
    sent. A name that is not known is refused, and changes nothing else."""
    scene = Scene(STAR)
    for client, broker in (("one", "B1"), ("two", "B2"), ("sub", "B3")):
        scene.attach(client, broker)
    scene.advertise("one", "price > 0")
    scene.advertise("two", "price > 0 AND amount > 0")
    scene.settle()
    for name, wanted in (("a", "price > 1"), ("b", "price > 2"), ("c", "amount > 3")):
        scene.subscribe("sub", wanted, name)
    scene.settle()
    scene.begins_here()
    scene.says("One message to each neighbour, with two names to B1 and three to B2.")
    scene.unsubscribe("sub", "a", "b", "none", "c")
    scene.settle()
    return scene


def filter_update() -> Scene:
    """A subscription's filter is replaced in place: the new one is sent under a new number, then
    the old one is taken back, in one frame. There is no moment without either."""
    scene = Scene(CHAIN)
    scene.attach("pub", "B1")
    scene.attach("sub", "B3")
    scene.advertise("pub", "price > 0")
    scene.settle()
    scene.subscribe("sub", "price > 100")
    scene.settle()
    scene.begins_here()
    scene.subscribe("sub", "price < 50")
    scene.settle()
    scene.publish("pub", price=120)
    scene.publish("pub", price=20)
    scene.settle()
    return scene


def distance_since_others_matched() -> Scene:
    """003 figure 4, with active covering: a chain B1 to B8, the publisher at B1, a subscriber at
    B8; at B3 and at B7 others match too. A publication tells how many hops ago it last matched
    several: at B6 three, at B8 one."""
    edges = [*chain_links(numbered_names("B", 8)), ("B3", "C"), ("B7", "D")]
    scene = Scene(edges, ACTIVE)
    scene.attach("pub", "B1")
    scene.advertise("pub", "price > 0")
    scene.settle()
    for client, broker in (("far", "B8"), ("side", "C"), ("near", "D")):
        scene.attach(client, broker)
        scene.subscribe(client, "price > 0")
        scene.settle()
    scene.begins_here()
    scene.publish("pub", price=1)
    scene.settle()
    return scene
