"""One random run of a world with a mesh: soft links open and close while brokers of different Δ,
strategy and covering policy publish, subscribe, go down and come back; then the checks."""

import random
from typing import ClassVar

import msgspec

from byway.core.actions import Timer
from byway.core.behaviours import Behaviour, register
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import TimerFired
from byway.core.mesh.mesh_behaviour import Mesh
from byway.core.mesh.mesh_config import MeshConfig
from byway.model.tree_shapes import random_parents
from byway.sim.topology.tree import LinkSpec, Topology
from byway.sim.world import World
from tests.sim.world_runs import LENGTH_US, RandomRun

POLICIES = ("none", "active", "lazy", "packing", "incremental", "selective")
STRATEGIES = ("S0", "S1", "S2", "SH")
MESH_FAULTS = ("crash", "cut", "cut soft", "cut soft", "partition", "delay", "delay soft", "slow")
OPERATIONS = ("publish", "subscribe", "unsubscribe", "advertise", "unadvertise", "again", "away")
WEIGHTS = (30, 4, 3, 3, 3, 1, 1)


def mesh_config(
    delta: int, strategy: str, order: str = "publisher", mesh: dict | None = None, **options
) -> BrokerConfig:
    """The configuration of a broker with a mesh; with Δ = 1, of one without. `mesh`: further
    options of it."""
    config = MeshConfig(delta=delta, strategy=strategy, order=order, **(mesh or {}))
    return BrokerConfig(mesh=config, **options)


def with_mesh(config: BrokerConfig, **options) -> BrokerConfig:
    """The same, with other options of the mesh."""
    mesh = msgspec.structs.replace(config.mesh, **options)
    return msgspec.structs.replace(config, mesh=mesh)


@register
class MeshOrders(Behaviour):
    """Has the mesh of its broker open and drop soft links: its timers are its orders."""

    name: ClassVar[str] = "mesh-orders"

    def on_timer(self, detail: str) -> None:
        what, peer = detail.split()
        # of this very broker: one that is rebuilt from its journal is not in the world yet
        mesh = self.view._opener._behaviours.get("mesh")
        if isinstance(mesh, Mesh):
            (mesh.open_soft if what == "open" else mesh.drop_soft)(peer)


def mesh_of(world: World, broker: str) -> Mesh | None:
    """The mesh of a broker; None if it is down, or has none."""
    running = world.nodes[broker].broker
    mesh = None if running is None else running.behaviours.get("mesh")
    return mesh if isinstance(mesh, Mesh) else None


def order(world: World, broker: str, words: str) -> None:
    """Have a broker that is up open or drop a soft link."""
    node = world.nodes[broker]
    if node.broker is not None:
        node.control(TimerFired(Timer(MeshOrders.name, words)))


class MeshRun(RandomRun):
    """One world. Every broker has a client that wants what names its broker, most have one that
    wants more; some publish. Publications name the brokers that they are for."""

    def __init__(
        self,
        seed: int,
        *,
        faults: bool = False,
        outages: bool = False,
        order: str = "publisher",
        bypass: bool = False,
        detours: bool = False,
        **options,
    ):
        """`bypass`: publications go round dead neighbours soon, and more brokers die. `detours`:
        brokers soon keep publishers back that take detours."""
        self.order = order
        self.detours = random.Random(f"detours {seed}") if detours else None
        """Draws how soon."""
        self.bypass_rng = random.Random(f"bypass {seed}") if bypass else None
        """Draws when brokers go round dead neighbours, and which brokers die."""
        self.mesh_rng = random.Random(f"mesh {seed}")
        """Draws which soft links open and close, and what is at the brokers in the beginning."""
        self.without_mesh = random.Random(f"without a mesh {seed}")
        """Draws which brokers come back without a mesh."""
        self.length_us = 2 * LENGTH_US if outages else LENGTH_US
        super().__init__(seed, faults=faults, outages=outages, **options)
        rng, world = self.mesh_rng, self.world
        self.broad = rng.choice((0, 0.02, 0.3))
        self.soft_copies = self.held = 0
        for name in self.brokers:
            self.client_at(name, "at").subscribe(f"{name} > 0")
            if rng.random() < 0.4:
                client = self.client_at(name, "more at")
                for _ in range(rng.randint(1, 3)):
                    client.subscribe(self.filter())
        sources = rng.choice((1, rng.randint(1, min(4, len(self.brokers)))))
        for name in rng.sample(self.brokers, sources):
            self.client_at(name, "from").advertise("ANY")
        pairs = self.pairs(rng.choice((0.2, 0.6, 1.0)))
        if self.bypass_rng is not None and self.bypass_rng.random() < 0.6:
            pairs = []  # only those that are opened round a dead neighbour
        for _ in range(0 if self.bypass_rng is None else self.bypass_rng.randint(1, 4)):
            self.plan_death(self.bypass_rng)
        for t_us in range(0, self.length_us, 150_000):  # again after faults and drops
            for a, b in pairs:
                if rng.random() < 0.5:
                    world.at(t_us + rng.choice((0, 1_000, 100_000)), self.opener(a, b))
        for _ in range(rng.choice((0, 6, 25))):
            world.at(rng.randrange(self.length_us), self.flap)
        for _ in range(rng.choice((0, 5, 20))):
            world.at(rng.randrange(self.length_us), self.end_in_flight)
        for _ in range(rng.choice((0, 5, 20)) * faults):
            world.at(rng.randrange(self.length_us), self.cut_in_flight)
        self.slow_down_links()

    def time_us(self) -> int:
        return self.rng.randrange(self.length_us)

    # --- what there is -------------------------------------------------------------------------

    def tree(self) -> Topology:
        rng = self.mesh_rng
        names = tuple(f"B{number}" for number in range(rng.randint(3, 9)))
        if rng.random() < 0.6:  # deep
            parents = [rng.randrange(max(0, child - 2), child) for child in range(1, len(names))]
        else:
            parents = random_parents(len(names), rng.randrange)
        latency_us = rng.choice((0, 1_000, None))
        return Topology(
            names,
            tuple(
                LinkSpec(
                    names[parent],
                    names[child],
                    rng.randint(0, 30_000) if latency_us is None else latency_us,
                )
                for child, parent in enumerate(parents, 1)
            ),
        )

    def configs(self):
        rng = self.mesh_rng
        window = self.bounds.choice((1, 2, 5, 4_096))
        policies = rng.choice((POLICIES, (rng.choice(POLICIES),)))
        deltas = rng.choice(((4,), (2,), (1, 2, 3, 4, 4), (2, 3, 5)))
        strategies = rng.choice((("S1",), ("S2",), STRATEGIES))
        return {
            f"B{number}": mesh_config(
                rng.choice(deltas),
                rng.choice(strategies),
                self.order,
                covering=rng.choice(policies),
                merging=rng.random() < 0.3,
                pruning_samples_min=1,
                retire_interval_us=100_000,
                retire_after_us=0,
                link_bytes_max=rng.choice((1, 900, 2**28)),
                publisher_window=window,
                session_messages_max=10_000,
                load_sample_us=rng.choice((0, 50_000)),
                probe_cycles=True,
                behaviours=(MeshOrders.name,),
            )
            for number in range(9)
        }

    def with_deltas(self, configs):
        if self.detours is not None:
            times = self.detours.choice(((100,), (3_000,), (20_000,), (50, 2_000, 100_000)))
            wide = self.detours.random() < 0.8  # where little may be held, nobody is kept back
            configs = {
                name: with_mesh(
                    msgspec.structs.replace(config, **({"link_bytes_max": 2**28} if wide else {})),
                    detour_us_max=self.detours.choice(times),
                )
                for name, config in configs.items()
            }
        rng = self.bypass_rng
        if rng is None:
            return configs
        choices = rng.choice(((0, 1_000), (1_000,), (20_000,), (20_000, 300_000), (0, 100_000)))
        wide = rng.random() < 0.6  # nobody waits for room, so that a bypass is of use
        return {
            name: with_mesh(
                msgspec.structs.replace(config, **({"link_bytes_max": 2**28} if wide else {})),
                bypass_after_us=rng.choice(choices),
                links_max=rng.choice((70, 70, 2)),
            )
            for name, config in configs.items()
        }

    def plan_death(self, rng):
        """Up to three brokers die, one soon after the other, mostly inner ones, which publications
        pass; each comes back in its own time, with its state or without."""
        inner = [b for b in self.brokers if len(self.world.topology.neighbours(b)) > 1]
        begin_us = rng.randrange(self.length_us)
        for _ in range(rng.randint(1, 3)):
            broker = rng.choice(inner if inner and rng.random() < 0.8 else self.brokers)
            at_us = begin_us + rng.choice((0, 500, 30_000, 200_000))
            away_us = rng.choice((1_000, 50_000, 400_000, 1_500_000, 4_000_000))
            self.plan_crash(broker, at_us, at_us + away_us, rng.random() < 0.5)

    def client_at(self, broker, what):
        name = f"{what} {broker}"
        if name not in self.world.clients:
            self.world.client(name, broker, 20_000_000)
        return self.world.clients[name]

    def pairs(self, share):
        pairs = [(a, b) for a in self.brokers for b in self.brokers if a != b]
        far = [p for p in pairs if self.world.topology.distance(*p) > 1]
        return [p for p in far if self.mesh_rng.random() < share]

    def filter(self):
        """What one client wants; where many want everything, soft links are of little use."""
        rng = self.mesh_rng
        other = rng.choice(self.brokers)
        if rng.random() < self.broad:
            return rng.choice(("TRUE", f"{other} < 9"))
        return rng.choice((f"{other} > 0", f"{other} = 1", f"{other} > 1"))

    # --- what happens --------------------------------------------------------------------------

    def opener(self, a, b):
        return lambda: order(self.world, a, f"open {b}")

    def flap(self):
        """A soft link opens and is dropped, perhaps before it is in use, and opens again."""
        rng, world = self.mesh_rng, self.world
        a, b = rng.sample(self.brokers, 2)
        t_us = world.now_us
        for word in ("open", "drop", "open", "drop")[rng.randrange(2) : rng.randint(2, 4)]:
            world.at(t_us, lambda word=word: order(world, a, f"{word} {b}"))
            t_us += rng.choice((0, 1_000, 10_000, 100_000))

    def publish_slowly(self):
        """Somebody publishes where a soft link is in use, which is slow for a while; the link's
        ends and the publisher, None if there is no such link."""
        rng, world = self.mesh_rng, self.world
        clients = [client for client in world.clients.values() if client.advertisements]
        used = []
        for client in clients:
            mesh = mesh_of(world, client.home_name)
            for link, soft in mesh.soft.items() if mesh is not None else ():
                if soft.wanted and soft.taken:
                    used.append((client.home_name, link, client))
        if not used:
            return None
        a, b, client = rng.choice(used)
        world.delay(a, b, rng.choice((20_000, 200_000)), world.now_us + 200_000)
        beyond = [x for x in self.brokers if b in world.topology.path(a, x)]
        for _ in range(rng.randint(1, 5)):
            client.publish({rng.choice(beyond): rng.randint(1, 2)})
        return a, b, client

    def end_in_flight(self):
        """A publisher ends its advertisements while a soft link has publications of it."""
        found = self.publish_slowly()
        if found is not None:
            _, _, client = found
            for name in list(client.advertisements):
                client.unadvertise(name)
            again_us = self.world.now_us + self.mesh_rng.choice((1_000, 300_000))
            self.world.at(again_us, lambda: client.has_left or client.advertise("ANY"))

    def cut_in_flight(self):
        """A soft link breaks while publications are under way."""
        found, world = self.publish_slowly(), self.world
        if found is not None:
            a, b, _ = found
            cut_us = world.now_us + self.mesh_rng.choice((1, 5_000, 15_000))
            world.at(cut_us, lambda: world.cut(a, b))
            world.at(cut_us + self.mesh_rng.choice((0, 50_000)), lambda: world.mend(a, b))

    def slow_down_links(self):
        """In two of three runs soft links, or any, are at times slower than the way round them."""
        rng, world = self.mesh_rng, self.world
        for _ in range(rng.choice((0, 4, 20))):
            a, b = rng.sample(self.brokers, 2)
            begin_us, extra_us = rng.randrange(self.length_us), rng.choice((5_000, 80_000))
            end_us = begin_us + rng.choice((50_000, 400_000))
            world.at(
                begin_us,
                lambda a=a, b=b, extra_us=extra_us, end_us=end_us: world.delay(
                    a, b, extra_us, end_us
                ),
            )

    def operate(self):
        rng = self.rng
        staying = [client for client in self.world.clients.values() if not client.has_left]
        sources = [client for client in staying if client.advertisements]
        client = rng.choice(staying)
        match rng.choices(OPERATIONS, WEIGHTS)[0]:
            case "publish" if sources:
                source = rng.choice(sources)
                for _ in range(rng.choice((1, 2, 8))):
                    source.publish(self.attributes())
            case "subscribe":
                client.subscribe(self.filter())
            case "unsubscribe" if client.subscriptions:
                client.unsubscribe(rng.choice(client.subscriptions))
            case "advertise" if len(sources) != 1:  # else its end has others withdraw
                client.advertise(rng.choice(("ANY", f"{rng.choice(self.brokers)} > 0")))
            case "unadvertise" if sources:
                source = rng.choice(sources)
                for _ in range(rng.choice((0, 2, 6))):  # what is under way stays before it
                    source.publish(self.attributes())
                source.unadvertise(rng.choice(source.advertisements))
            case "again" if client.subscriptions:
                name = rng.choice(client.subscriptions)
                client.unsubscribe(name)
                client.subscribe(self.filter(), name)
            case "away":
                self.go_away(client)

    def attributes(self):
        rng = self.rng
        wanted = rng.choice((0.1, 0.2, 0.4, 0.8))
        return {name: rng.randint(1, 2) for name in self.brokers if rng.random() < wanted}

    def plan_fault(self, kind):
        kind = self.rng.choice(MESH_FAULTS)
        if not kind.endswith(" soft"):
            super().plan_fault(kind)
            return
        world, rng = self.world, self.rng
        begin_us = self.time_us()
        end_us = begin_us + rng.choice((1, 1_000, 50_000, 500_000))
        a, b = rng.sample(self.brokers, 2)
        if kind == "cut soft":
            world.at(begin_us, lambda: world.cut(a, b))
            world.at(end_us, lambda: world.mend(a, b))
        else:
            world.at(begin_us, lambda: world.delay(a, b, rng.randint(1, 50_000), end_us))

    def plan_crash(self, broker, begin_us, end_us, stored):
        """One in four brokers without a disk comes back with another Δ, or without a mesh."""
        super().plan_crash(broker, begin_us, end_us, stored)
        rng, node = self.mesh_rng, self.world.nodes[broker]
        delta = rng.choice((2, 3, 5))
        if self.without_mesh.random() < 0.3:
            delta = 1
        if broker not in self.storage and rng.random() < 0.25:
            self.world.first_at(end_us, lambda: self.change_delta(node, delta))

    def change_delta(self, node, delta):
        if node.broker is None:
            node.config = msgspec.structs.replace(
                node.config, mesh=msgspec.structs.replace(node.config.mesh, delta=delta)
            )

    # --- the end -------------------------------------------------------------------------------

    def run(self):
        """Run, wait until all is quiet, and check."""
        report = super().run()
        assert report.tables_compared
        assert report.violations == (), report.violations
        for name, node in self.world.nodes.items():
            for link, sent in node.broker.counters.publications_sent.items():
                if self.world.topology.distance(name, link) > 1:
                    self.soft_copies += sent
        return report

    @property
    def duplicates(self):
        return sum(node.broker.counters.duplicates for node in self.world.nodes.values())
