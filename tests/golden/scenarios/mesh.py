"""Scenarios of the mesh: records, spans of soft links, and subscriptions that name their way."""

from byway.core.actions import Timer
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import FrameReceived, Started, TimerFired
from byway.core.mesh.mesh_config import MeshConfig
from byway.model.messages import Batch, Lane, SoftSpan
from tests.golden.scene import CHAIN, Scene
from tests.sim.mesh_runs import MeshOrders

LONG = [("B1", "B2"), ("B2", "B3"), ("B3", "B4")]


def _config(delta: int, bypass_after_us: int = 0) -> BrokerConfig:
    return BrokerConfig(
        mesh=MeshConfig(delta=delta, strategy="S2", interval_us=0, bypass_after_us=bypass_after_us),
        behaviours=(MeshOrders.name,),
    )


class _MeshScene(Scene):
    """Brokers that say where they can be dialled, and open soft links when they are told."""

    def do(self, broker: str, event: object) -> None:
        super().do(broker, Started(0, f"at {broker}") if isinstance(event, Started) else event)

    def orders(self, broker: str, words: str) -> None:
        self.do(broker, TimerFired(Timer(MeshOrders.name, words)))

    def opens(self, broker: str, other: str) -> None:
        """A broker dials another one for a soft link, which comes up."""
        self.orders(broker, f"open {other}")
        self.reaches(broker, other)

    def reaches(self, broker: str, other: str) -> None:
        """A soft link that a broker has opened comes up."""
        self.flying[broker, other], self.flying[other, broker] = [], []
        self.connect(broker, other)


def _busy(delta: int = 4) -> _MeshScene:
    """A publisher at B1, a subscriber at B4, both settled."""
    scene = _MeshScene(LONG, _config(delta))
    scene.attach("pub", "B1")
    scene.attach("sub", "B4")
    scene.advertise("pub", "price > 0")
    scene.settle()
    scene.subscribe("sub", "price > 80")
    scene.settle()
    scene.begins_here()
    return scene


def records_spread() -> Scene:
    """Three brokers in a row that know two hops around them meet. Each tells its neighbours its
    record; B2 passes on those of the ends, which then know of each other."""
    return _MeshScene(CHAIN, _config(2), silent=False)


def record_is_taken_back() -> Scene:
    """An operator parts B2 and B3. B2 says that its neighbours are others now, and takes back what
    it has told of the brokers behind B3."""
    scene = _MeshScene(LONG, _config(3))
    scene.removes("B2", "B3")
    scene.settle()
    return scene


def meet_without_order() -> Scene:
    """Two brokers that do not keep the order of publications say so when they meet."""
    config = BrokerConfig(mesh=MeshConfig(order="none"))
    return _MeshScene([("B1", "B2")], config, silent=False)


def attach_without_order() -> Scene:
    """A broker that does not keep the order of publications tells a client so, and how many
    sequences of a publisher it tells apart, when the client comes and when it comes back."""
    scene = _MeshScene([("B1", "B2")], BrokerConfig(mesh=MeshConfig(order="none")))
    scene.begins_here()
    scene.attach("sub", "B1", ttl_us=60_000_000)
    scene.subscribe("sub", "price > 80")
    scene.detach("sub")
    scene.attach("sub", "B1", incarnation=1, ttl_us=60_000_000, resumes=True)
    scene.settle()
    return scene


def subscribe_along() -> Scene:
    """A subscription of B4 travels to B1, where somebody advertises. Each broker puts itself before
    the path, and cuts that to three brokers."""
    scene = _MeshScene(LONG, _config(3))
    scene.attach("pub", "B1")
    scene.attach("sub", "B4")
    scene.advertise("pub", "price > 0")
    scene.settle()
    scene.begins_here()
    scene.subscribe("sub", "price > 80")
    scene.settle()
    return scene


def span_told_and_taken() -> Scene:
    """B1 opens a soft link to B4 and tells which brokers it passes by. B4 takes publications, and
    the next one goes straight there. Then B1 wants the link no longer: it is drained and closed."""
    scene = _busy()
    scene.opens("B1", "B4")
    scene.settle()
    scene.publish("pub", price=120)
    scene.says("It is not confirmed yet when B1 gives the link up.")
    scene.orders("B1", "drop B4")
    scene.settle()
    scene.says("The next one goes through the tree.")
    scene.publish("pub", price=130)
    scene.settle()
    return scene


def leaves_a_detour() -> Scene:
    """B1 has a soft link to B4, where low prices are wanted; at B2 high ones are. A publication for
    B2 is not confirmed, so one for B4 takes a detour through B2. A second later the next one is
    kept back until both are confirmed, and takes the soft link."""
    scene = _MeshScene(LONG, _config(4))
    for client, broker in (("pub", "B1"), ("near", "B2"), ("far", "B4")):
        scene.attach(client, broker)
    scene.advertise("pub", "price > 0")
    scene.settle()
    scene.subscribe("near", "price > 150")
    scene.subscribe("far", "price < 100")
    scene.settle()
    scene.opens("B1", "B4")
    scene.settle()
    scene.begins_here()
    scene.publish("pub", price=200)
    scene.publish("pub", price=50)
    scene.wait(1_000_000)
    scene.says("A second later:")
    scene.publish("pub", price=60)
    scene.says("What is under way arrives.")
    scene.settle()
    return scene


def span_ended() -> Scene:
    """B1 and B4 both send over their soft link. B1 wants that no longer and says so, the link being
    drained; B4 goes on. When B4 wants it no longer either, it closes the link."""
    scene = _busy()
    scene.opens("B1", "B4")
    scene.settle()
    scene.begins_here()
    scene.orders("B4", "open B1")
    scene.settle()
    scene.orders("B1", "drop B4")
    scene.settle()
    scene.orders("B4", "drop B1")
    scene.settle()
    return scene


def link_breaks() -> Scene:
    """The soft link breaks while a publication is under way. It is routed anew, over the tree."""
    scene = _busy()
    scene.opens("B1", "B4")
    scene.settle()
    scene.begins_here()
    scene.publish("pub", price=120)
    scene.disconnect("B1", "B4")
    scene.settle()
    return scene


def span_refused() -> Scene:
    """A broker tells a span whose last broker is no neighbour of the receiver, which closes the
    link: publications would come round a second way."""
    scene = _busy()
    scene.orders("B1", "open B4")
    scene.flying["B1", "B4"], scene.flying["B4", "B1"] = [], []
    scene.connect("B1", "B4")
    scene.flying["B1", "B4"].clear()
    scene.begins_here()
    scene.do("B4", FrameReceived("B1", Batch(Lane.CONTROL, 1, (SoftSpan(("B2",)),))))
    return scene


def span_waits_for_tables() -> Scene:
    """B3 restarts without its state while B4 cannot be reached: it does not know what B4 wants, so
    it takes nothing over the soft link from B1 before B4 is back and has told."""
    scene = _busy()
    scene.dies("B3")
    scene.disconnect("B3", "B4")
    scene.neighbours["B3"] = ["B2", "B4"]
    scene.begins_here()
    stays_away, scene.connect = scene.connect, lambda *_: None
    scene.is_back("B3")
    scene.connect = stays_away
    scene.connect("B2", "B3")
    scene.settle()
    scene.says("B1 opens a link to B3, which does not answer.")
    scene.opens("B1", "B3")
    scene.settle()
    scene.says("B4 is back.")
    scene.connect("B3", "B4")
    scene.settle()
    return scene


def names_along() -> Scene:
    """B2 restarts without its state, and while it was away the subscription of B4 ended and another
    one began. B1 names what it holds from B2, with a hash of the path of each."""
    scene = _busy()
    scene.dies("B2")
    scene.subscribe("sub", "price > 50", "more")
    scene.unsubscribe("sub", "s")
    scene.settle()
    scene.begins_here()
    scene.is_back("B2")
    scene.settle()
    return scene


def _served(ends: str = "B4") -> _MeshScene:
    """A publisher at B1, a subscriber of high prices at B2, and one of more at the end."""
    scene = _MeshScene(LONG, _config(3, 500_000))
    for client, broker in (("pub", "B1"), ("near", "B2"), ("far", ends)):
        scene.attach(client, broker)
    scene.advertise("pub", "price > 0")
    scene.settle()
    scene.subscribe("near", "price > 150")
    scene.subscribe("far", "price > 80")
    scene.settle()
    scene.begins_here()
    return scene


def goes_round() -> Scene:
    """B2 dies. After half a second B1 opens a link to B3, which publications for B4 take; those
    that only the client at B2 wants are parked. B2 comes back with its state and gets them; the
    link round it is drained and closed."""
    scene = _served()
    stored = scene.dies("B2")
    scene.publish("pub", price=120)
    scene.says("It is kept for B2, until that has been away for half a second.")
    scene.wait(500_000)
    scene.says("B3 is reached.")
    scene.reaches("B1", "B3")
    scene.settle()
    scene.says("The next one is for the client at B2 too: it goes round, and is parked.")
    scene.publish("pub", price=200)
    scene.settle()
    scene.says("Later ones go on.")
    scene.publish("pub", price=130)
    scene.settle()
    scene.says("B2 is back, with its state.")
    scene.is_back("B2", stored)
    scene.settle()
    return scene


def goes_round_two() -> Scene:
    """B2 and B3 die. B3 cannot be reached over the link that B1 opens to it, so it counts as dead
    after another half a second, and B1 opens one to B4."""
    scene = _served()
    for broker in ("B2", "B3"):
        scene.dies(broker)
    scene.publish("pub", price=120)
    scene.wait(500_000)
    scene.says("Half a second later:")
    scene.wait(500_000)
    scene.reaches("B1", "B4")
    scene.settle()
    return scene


def way_round_breaks() -> Scene:
    """The link that goes round B2 breaks while a publication is under way. It is parked, since
    nothing leads to B4 now, and sent when the link is there again. Then the
    publisher ends its advertisement: for B2, the end stays behind what is parked."""
    scene = _served()
    scene.dies("B2")
    scene.publish("pub", price=120)
    scene.wait(500_000)
    scene.reaches("B1", "B3")
    scene.settle()
    scene.begins_here()
    scene.publish("pub", price=130)
    scene.disconnect("B1", "B3")
    scene.says("B1 dials again at once.")
    scene.reaches("B1", "B3")
    scene.settle()
    scene.publish("pub", price=200)
    scene.unadvertise("pub")
    scene.settle()
    scene.says("B2 is back, without its state.")
    scene.is_back("B2")
    scene.settle()
    return scene
