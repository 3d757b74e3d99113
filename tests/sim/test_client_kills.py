"""Clients that lose their connection or die at every single event of a small scene, once and twice,
beside brokers that forget: whatever the moment, nothing that was confirmed is lost, nothing comes
twice or out of order, and nobody is left waiting. The oracle of the world judges.

A scene is run once without a fault to count its events, and then once for every event and fault.
"""

import itertools

import pytest

from byway.core.broker_config import BrokerConfig
from byway.sim.engine.network import NetworkOptions
from byway.sim.topology.shapes import chain
from byway.sim.world import World

pytestmark = pytest.mark.sim

SLOW = (pytest.mark.slow, pytest.mark.timeout(1_800))
EVERY = pytest.mark.parametrize("every", [5, pytest.param(1, marks=SLOW)])
"""The faults happen at every fifth event in the default suite, at every one in the slow one."""
MS = 1_000
SECOND = 1_000_000
END_US = 24 * MS


class Scene:
    """Two clients of two brokers. `source` advertises, publishes, is refused something, advertises
    anew and leaves; `sink` subscribes, replaces a filter, unsubscribes and subscribes again."""

    def __init__(self, *, latency_us=300, ttl_us=SECOND, covering="active", **options):
        self.world = World(
            chain(2),
            config=BrokerConfig(covering=covering),
            network=NetworkOptions(reconnect_us=1 * MS, reattach_us=1 * MS),
        )
        ttl = {"session_ttl_us": ttl_us}
        self.options = ttl | {"latency_us": latency_us, "retry": 0.002, **options}
        self.source = self.add("source", "B1")
        self.sink = self.add("sink", "B2")
        for at_ms, action in (
            (2, lambda: self.advertise("p >= 0", "a")),
            (2, lambda: self.sink.subscribe("p < 100", "s")),
            (6, lambda: self.publish(3)),
            (7, lambda: self.sink.subscribe("p > 100", "t")),
            (8, lambda: self.sink.subscribe("p < 50", "s")),
            (9, lambda: self.publish(2)),
            (9, lambda: self.source.publish({"q": 1})),
            (12, lambda: self.unsubscribe("s")),
            (12, lambda: self.publish(2)),
            (14, lambda: self.sink.subscribe("p < 70", "u")),
            (15, lambda: self.unadvertise("a")),
            (15, lambda: self.advertise("p > -1", "b")),
            (18, lambda: self.publish(4)),
            (21, lambda: self.source.leave()),
        ):
            self.world.at(at_ms * MS, action)

    def add(self, name, home, **options):
        return self.world.client(name, home, **self.options | options)

    def advertise(self, what, name):
        if name not in self.source.advertisements:
            self.source.advertise(what, name)

    def unadvertise(self, name):
        if name in self.source.advertisements:
            self.source.unadvertise(name)

    def unsubscribe(self, name):
        if name in self.sink.subscriptions:
            self.sink.unsubscribe(name)

    def publish(self, count):
        for number in range(count):
            self.source.publish({"p": number})

    def events(self):
        """Its number of events."""
        count = 0
        while self.world.now_us < END_US:
            self.world.step()
            count += 1
        self.check()
        return count

    def run(self, faults):
        """Run with these faults, by the event before which they happen."""
        for number in itertools.count():
            if number in faults:
                faults[number](self)
            if self.world.now_us >= END_US and number > max(faults):
                break
            self.world.step()
        self.check()

    def check(self):
        assert self.world.quiet(300 * SECOND), "it does not come to rest"
        report = self.world.check()
        assert report.violations == ()
        assert report.tables_compared


# --- faults ---------------------------------------------------------------------------------------


def drop(client, *, away_us=0, noticed_us=None):
    """The connection of a client breaks; it comes back."""

    def fault(scene):
        broken = getattr(scene, client)
        if broken.online:
            broken.vanish(noticed_us)
            scene.world.at(scene.world.now_us + away_us, broken.come_back)

    return fault


def kill(client):
    """The process of a client dies; another one of its name starts."""

    def fault(scene):
        old = getattr(scene, client)
        if old.online and not old.has_left:
            old.vanish()
            scene.world.at(scene.world.now_us + 1 * MS, lambda: revive(scene, client))

    return fault


def revive(scene, client):
    """The new process does not know what the old one did."""
    if getattr(scene, client).has_left:
        return
    new = scene.add(client, getattr(scene, client).home_name, namesake=True)
    setattr(scene, client, new)
    if client == "source":
        new.advertise("p >= 0", "a")
        new.advertise("p > -2", "b")
        new.publish({"p": 5})
    else:
        new.subscribe("p < 100", "s")
        new.subscribe("p < 100", "t")


def restart(broker, *, stored, away_us=100):
    """A broker crashes, and comes back with its state or without."""

    def fault(scene):
        scene.world.crash(broker)
        scene.world.at(
            scene.world.now_us + away_us, lambda: scene.world.restart(broker, stored=stored)
        )

    return fault


FAULTS = {
    "source is back at once": drop("source"),
    "sink is back at once": drop("sink"),
    "source is back before its broker notices": drop("source", noticed_us=5 * MS),
    "sink is back before its broker notices": drop("sink", noticed_us=5 * MS),
    "source is back late": drop("source", away_us=50 * MS),
    "sink is back late": drop("sink", away_us=50 * MS),
    "source is back after its session": drop("source", away_us=2 * SECOND),
    "sink is back after its session": drop("sink", away_us=2 * SECOND),
    "source dies": kill("source"),
    "sink dies": kill("sink"),
    "the broker of source forgets": restart("B1", stored=False),
    "the broker of sink forgets": restart("B2", stored=False),
    "the broker of source restarts": restart("B1", stored=True),
    "the broker of sink restarts": restart("B2", stored=True),
}


def run_everywhere(faults, *, every=1, **options):
    """Run the scene with the first fault at every event, the second so many events later, and so
    on; `faults` are pairs of a fault and that distance."""
    count = Scene(**options).events()
    assert count > 60
    for first in range(0, count, every):
        at, planned = first, {}
        for fault, distance in faults:
            at += distance
            planned[at] = fault
        try:
            Scene(**options).run(planned)
        except Exception as error:
            error.add_note(f"event {first} of {count}")
            raise


@EVERY
@pytest.mark.parametrize("latency_us", [0, 300])
@pytest.mark.parametrize("ttl_us", [0, SECOND])
@pytest.mark.parametrize("fault", FAULTS)
def test_one_fault_at_every_event(fault, ttl_us, latency_us, every):
    run_everywhere([(FAULTS[fault], 0)], every=every, ttl_us=ttl_us, latency_us=latency_us)


PAIRS = [
    ("the broker of sink forgets", "sink is back at once"),
    ("the broker of source forgets", "source is back at once"),
    ("sink is back after its session", "sink is back at once"),
    ("source is back before its broker notices", "source is back at once"),
    ("sink is back before its broker notices", "the broker of sink restarts"),
    ("source is back at once", "the broker of source forgets"),
    ("source is back at once", "source dies"),
    ("sink dies", "sink is back at once"),
]


@EVERY
@pytest.mark.parametrize("pair", PAIRS, ids=" and ".join)
def test_two_faults_soon_after_each_other(pair, every):
    first, second = pair
    for distance in (4, 12, 14):
        run_everywhere([(FAULTS[first], 0), (FAULTS[second], distance)], every=every)


@pytest.mark.slow
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("ttl_us", [0, SECOND])
@pytest.mark.parametrize("first", FAULTS)
def test_two_faults_at_every_two_events(first, ttl_us):
    for second in FAULTS.values():
        for distance in range(1, 30, 4):
            run_everywhere([(FAULTS[first], 0), (second, distance)], every=6, ttl_us=ttl_us)


# --- two clients of one name ----------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("ttl_us", [0, SECOND])
@pytest.mark.parametrize("client", ["source", "sink"])
def test_another_client_of_the_name_comes_at_every_event(client, ttl_us, every):
    """The one that came later stays; the earlier one is closed for good, and its session ends."""

    def usurp(scene):
        first = getattr(scene, client)
        revive(scene, client)
        scene.usurped = [first] if first is not getattr(scene, client) else []

    for number in range(0, Scene(ttl_us=ttl_us).events(), every):
        scene = Scene(ttl_us=ttl_us)
        scene.run({number: usurp})
        assert all(first.core.state == "closed" for first in scene.usurped)
        assert not scene.sink.has_left
        assert scene.sink.attached


def test_of_two_clients_of_one_name_that_both_come_back_the_later_one_stays():
    scene = Scene()
    scene.world.run(10 * MS)
    first = scene.sink
    revive(scene, "sink")
    scene.sink.vanish()
    first.vanish()
    scene.world.run(11 * MS)
    first.come_back()
    scene.sink.come_back()
    scene.check()
    assert (first.core.state, scene.sink.core.state) == ("closed", "attached")
    assert "another client of this name" in first.core.attaching.reason or (
        "newer incarnation" in first.core.attaching.reason
    )


# --- another broker -------------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("broker", ["B1", "B2"])
def test_clients_go_to_the_other_broker_when_theirs_is_away(broker, stored, every):
    """Both know both brokers. Their broker crashes at every event, for longer than they wait."""
    others = {"B1": ["B2"], "B2": ["B1"]}
    moved = 0
    for number in range(0, MovingScene(others).events(), every):
        scene = MovingScene(others)
        scene.run({number: restart(broker, stored=stored, away_us=60 * MS)})
        moved += scene.source.home_name == "B2" or scene.sink.home_name == "B1"
    assert moved > 50 / every


class MovingScene(Scene):
    """The same clients, which also know other brokers."""

    def __init__(self, others):
        self.others = others
        super().__init__(connect_timeout=0.01)

    def add(self, name, home, **options):
        return super().add(name, home, others=self.others[home], **options)


# --- windows, slow subscribers, goodbyes ----------------------------------------------------------


@EVERY
@pytest.mark.parametrize("fault", FAULTS)
def test_a_full_window_at_every_event(fault, every):
    """At most two publications are unconfirmed: the others wait in the client."""
    run_everywhere([(FAULTS[fault], 0)], every=2 * every, window=2)


@EVERY
@pytest.mark.parametrize("fault", FAULTS)
def test_a_slow_subscriber_at_every_event(fault, every):
    """The application needs longer for an event than publications take, and the client has room for
    two: the broker holds deliveries meanwhile."""
    count = SlowScene().events()
    held = 0
    for number in range(0, count, 2 * every):
        scene = SlowScene()
        scene.run({number: FAULTS[fault]})
        held += scene.was_holding
    assert held > 20 / every


class SlowScene(Scene):
    """The same, with a slow subscriber that soon is full."""

    def __init__(self):
        super().__init__(pending_messages=2)
        self.sink.take_every_us = 1 * MS
        self.was_holding = False
        for at_us in range(5 * MS, END_US, 250):
            self.world.at(at_us, self.look)

    def look(self):
        self.sink.take_every_us = 1 * MS  # also the one that came after it died
        self.was_holding |= self.sink.core.is_holding


@EVERY
@pytest.mark.parametrize("latency_us", [0, 300])
@pytest.mark.parametrize("client", ["source", "sink"])
def test_a_goodbye_under_load_at_every_event(client, latency_us, every):
    """A client leaves while publications are under way, to it or from it: what its broker has
    accepted reaches everybody else."""

    def load(scene):
        for number in range(200):
            scene.source.publish({"p": number % 90})

    def leave(scene):
        if not getattr(scene, client).has_left and not scene.source.has_left:
            scene.publish(20)
            getattr(scene, client).leave()
            setattr(scene, client, Nobody())

    for number in range(0, Scene(latency_us=latency_us).events(), every):
        scene = Scene(latency_us=latency_us)
        other = scene.add("other", "B2", session_ttl_us=0)
        other.subscribe("p >= 0")
        scene.world.at(5 * MS, lambda scene=scene: load(scene))
        source = scene.source
        scene.run({number: leave})
        assert source.core.publications.accepted == source.core.publications.last


class Nobody:
    """In the place of a client that has left: what a scene wants of it does not happen."""

    online, has_left = False, True
    advertisements = subscriptions = ()

    def publish(self, attributes):
        """Nothing."""

    def advertise(self, what, name):
        """Nothing."""

    def subscribe(self, what, name):
        """Nothing."""

    def leave(self):
        """Nothing."""
