"""One random run of a world: a tree, clients that do things, faults that end, then the checks."""

import random
from collections import Counter

import msgspec

from byway.core.broker_config import BrokerConfig
from byway.core.mesh.mesh_config import MeshConfig
from byway.model.messages import LinkKind
from byway.model.tree_shapes import random_parents
from byway.sim.engine.network import ChannelOptions, NetworkOptions
from byway.sim.engine.node_storage import StorageOptions
from byway.sim.engine.service import INSTANT, Cost, ServiceProfile
from byway.sim.oracle.present_tree import tree_of
from byway.sim.topology.tree import LinkSpec, Topology
from byway.sim.world import World
from byway.storage.storage import JOURNAL_BYTES
from tests.sim.rewiring import Rewiring, order

FILTERS = ("p > 0", "p > 2", "p < 3", "p = 2", "p > 1 AND q > 1", "q < 3", "TRUE", "p > 9")
ADVERTS = ("p > 0", "p < 3", "p > 0 AND q > 0", "ANY", "q > 0")
BUSY = ServiceProfile(
    name="busy",
    batch_us=20,
    publication=Cost(30, 1),
    subscribe=Cost(50, 2),
    unsubscribe=Cost(20, 1),
    advertise=Cost(30),
    unadvertise=Cost(30),
    other=Cost(10),
    covering=Cost(40, 3),
)
LAZY = ServiceProfile(name="lazy", pickup_us=700)
LENGTH_US = 2_000_000
OPERATIONS = (
    "advertise", "subscribe", "publish", "unsubscribe", "unadvertise", "replace", "again", "away"
)  # fmt: skip
WEIGHTS = (4, 6, 20, 3, 1, 1, 1, 2)
STACKS = ((), ("codec",), ("storage",), ("codec", "storage"))
"""What of the real stack a world has."""
FAULTS = ("crash", "cut", "partition", "delay", "slow")


def many(run, seeds, **options):
    """Run many seeds, `run(seed, happened, …)`; the one that fails is named."""
    happened = Counter()
    for seed in seeds:
        try:
            run(seed, happened, **options)
        except Exception as error:
            error.add_note(f"seed {seed} {options}")
            raise
    return happened


def many_seeds(known=1_000, fresh=500):
    """Those that were run before, and some that were not."""
    first = random.SystemRandom().randrange(2**32)
    print(f"fresh seeds from {first}")
    return [*range(known), *range(first, first + fresh)]


class RandomRun:
    """A world and the chances of one seed.

    Which parts of the real stack it has, the codec and storage, is drawn from a stream of its own:
    what else happens is the same with and without them. `stack` sets that instead.
    """

    def __init__(
        self, seed, *, faults=True, storm=False, outages=False, links=False, trace=None, stack=None
    ):
        self.rng = rng = random.Random(seed)
        self.stack_rng = random.Random(f"stack {seed}")
        self.stack = self.stack_rng.choice(STACKS) if stack is None else stack
        self.connections = random.Random(f"connections {seed}")
        """Draws what is between clients and brokers, apart from what they do."""
        self.link_rng = random.Random(f"links {seed}")
        """Draws which links brokers open and close; without `links` none."""
        self.bounds = random.Random(f"bounds {seed}")
        """Draws the window of publishers, which is equal at all brokers."""
        self.deltas = random.Random(f"deltas {seed}")
        """Draws how far the neighbourhood of each broker reaches."""
        self.links = links
        self.moves = 0
        tree = self.tree()
        remembered = outages and rng.random() < 0.5
        self.storage = self.storages(tree.brokers, remembered)
        self.world = World(
            tree,
            config=self.with_deltas(self.configs()),
            profile=rng.choice((INSTANT, INSTANT, BUSY, LAZY)),
            network=msgspec.structs.replace(self.network, codec="codec" in self.stack),
            trace=trace,
            sample_us=100_000,
            unlisted=[self.one_way(link) for link in tree.links] if remembered else (),
            remembering=tree.brokers if remembered else (),
            storage=self.storage,
            disk_seed=seed,
        )
        self.brokers = self.world.topology.brokers
        for number in range(rng.randint(3, 7)):
            ttl_us = rng.choice((0, 0, 150_000, 20_000_000))
            self.world.client(f"c{number}", rng.choice(self.brokers), ttl_us, **self.connection())
        for _ in range(rng.randint(20, 160) + 300 * storm):
            self.world.at(self.time_us(), self.operate)
        if outages:
            for _ in range(rng.randint(1, 3)):
                self.plan_outage()
        if faults:
            for _ in range(rng.randint(5, 14) if storm else rng.randint(0, 4)):
                self.plan_fault(rng.choice(FAULTS))

        if links:
            for _ in range(self.link_rng.randint(2, 30)):
                self.plan_link()
        if "storage" in self.stack:
            for _ in range(self.stack_rng.choice((0, 0, 1, 2)) * faults):
                self.plan_disk_fault()

    def storages(self, brokers, remembered):
        """What each broker keeps on its disk; some keep nothing."""
        rng = self.stack_rng
        if "storage" not in self.stack:
            return {}
        durability = rng.choice(("process", "process", "power", None))
        return {
            name: StorageOptions(
                data=rng.random() < 0.8,
                durability=durability or rng.choice(("process", "power")),
                state_dir=remembered,
                journal_bytes=rng.choice((400, 4_000, JOURNAL_BYTES)),
                snapshot_us=rng.choice((0, 1_000, 100_000)),
            )
            for name in brokers
        }

    def time_us(self):
        return self.rng.randrange(LENGTH_US)

    def tree(self):
        rng = self.rng
        count = rng.randint(2, 8)
        latency_us = rng.choice((0, 1_000, None))
        names = tuple(f"B{number}" for number in range(count))
        links = [
            LinkSpec(
                names[parent],
                names[child],
                rng.randint(0, 8_000) if latency_us is None else latency_us,
            )
            for child, parent in enumerate(random_parents(count, rng.randrange), start=1)
        ]
        return Topology(names, tuple(links))

    def with_deltas(self, configs):
        """These configurations, in two of three runs with neighbourhoods of several hops."""
        most = self.deltas.choice((1, 2, 5))
        return {
            name: msgspec.structs.replace(
                config, mesh=MeshConfig(delta=self.deltas.randint(1, most))
            )
            for name, config in configs.items()
        }

    def configs(self):
        rng = self.rng
        window = self.bounds.choice((1, 2, 5, 4_096))
        policies = rng.choice((("none",), ("active",), ("none", "active")))
        return {
            f"B{number}": BrokerConfig(
                covering=rng.choice(policies),
                link_bytes_max=rng.choice((1, 900, 2**28)),
                publisher_window=window,
                session_messages_max=rng.choice((2, 10_000)),
                load_interval_us=rng.choice((0, 0, 300_000)),
                probe_cycles=True,  # as live brokers do
                behaviours=(Rewiring.name,) if self.links else (),
            )
            for number in range(8)
        }

    @property
    def network(self):
        rng = self.rng
        return NetworkOptions(
            bandwidth_bytes_per_s=rng.choice((None, None, 20_000)),
            uplink_messages_per_s=rng.choice((None, None, 2_000)),
            channels={("B0", "B1"): ChannelOptions(latency_us=rng.choice((0, 3_000)))},
            reconnect_us=rng.choice((0, 1_000, 100_000)),
            reattach_us=rng.choice((0, 1_000, 100_000)),
        )

    def connection(self):
        """Clients may be far from their broker, and know others."""
        rng = self.connections
        latency_us = rng.choice((0, 0, 50, 700, rng.randint(1, 8_000)))
        if rng.random() < 0.8:
            return {"latency_us": latency_us}
        others = rng.sample(self.brokers, 1)
        return {"latency_us": latency_us, "others": others, "connect_timeout": 0.05}

    # --- what clients do -----------------------------------------------------------------------

    def operate(self):
        rng = self.rng
        staying = [client for client in self.world.clients.values() if not client.has_left]
        if not staying:
            return
        client = rng.choice(staying)
        match rng.choices(OPERATIONS, WEIGHTS)[0]:
            case "advertise":
                client.advertise(rng.choice(ADVERTS))
            case "subscribe":
                client.subscribe(rng.choice(FILTERS))
            case "publish":
                for _ in range(rng.choice((1, 1, 1, 4))):
                    client.publish(self.attributes())
            case "unsubscribe" if client.subscriptions:
                client.unsubscribe(rng.choice(client.subscriptions))
            case "unadvertise" if client.advertisements:
                client.unadvertise(rng.choice(client.advertisements))
            case "replace" if client.subscriptions:
                client.subscribe(rng.choice(FILTERS), rng.choice(client.subscriptions))
            case "again" if client.subscriptions:
                name = rng.choice(client.subscriptions)
                client.unsubscribe(name)
                client.subscribe(rng.choice(FILTERS), name)
            case "away":
                self.go_away(client)

    def attributes(self):
        attributes = {"p": self.rng.randint(-1, 4)}
        if self.rng.random() < 0.5:
            attributes["q"] = self.rng.randint(0, 4)
        return attributes

    def go_away(self, client):
        if not client.online:
            return
        if self.rng.random() < 0.15:
            client.leave()
            return
        client.vanish(self.connections.choice((None, None, None, 30_000)))
        if self.rng.random() < 0.9:
            away_us = self.rng.choice((0, 1_000, 100_000, 400_000))
            self.world.at(self.world.now_us + away_us, lambda: self.come_back(client))

    def come_back(self, client):
        if not client.has_left:
            client.come_back()

    # --- faults --------------------------------------------------------------------------------

    def plan_fault(self, kind):
        world, rng = self.world, self.rng
        begin_us = self.time_us()
        end_us = begin_us + rng.choice((1, 1_000, 50_000, 500_000))
        broker = rng.choice(self.brokers)
        link = rng.choice(world.topology.links)
        match kind:
            case "crash":
                self.plan_crash(broker, begin_us, end_us, rng.random() < 0.5)
            case "cut":
                world.at(begin_us, lambda: world.cut(link.a, link.b))
                world.at(end_us, lambda: world.mend(link.a, link.b))
            case "partition":
                group = [name for name in self.brokers if rng.random() < 0.5]
                world.at(begin_us, lambda: world.partition(group))
                world.at(end_us, lambda: world.heal(group))
            case "delay":
                extra_us = rng.randint(1, 50_000)
                world.at(begin_us, lambda: world.delay(link.a, link.b, extra_us, end_us))
            case "slow":
                world.at(begin_us, lambda: world.slow(broker, 20.0, end_us))

    def one_way(self, link):
        """A link that one end is not told of."""
        return (link.a, link.b) if self.rng.random() < 0.5 else (link.b, link.a)

    def plan_outage(self):
        """Up to three brokers die at once, and each comes back in its own time."""
        begin_us = self.time_us()
        for broker in self.rng.sample(self.brokers, min(self.rng.randint(1, 3), len(self.brokers))):
            away_us = self.rng.choice((1_000, 200_000, 3_000_000, 45_000_000))
            self.plan_crash(broker, begin_us, begin_us + away_us, self.rng.random() < 0.3)

    def plan_crash(self, broker, begin_us, end_us, stored):
        rng, options = self.stack_rng, self.storage.get(broker)
        power = torn = stale = False
        if options is not None and options.data:
            stored = stored or rng.random() < 0.7
            power, torn, stale = rng.random() < 0.4, rng.random() < 0.5, rng.random() < 0.2

        def crash():
            if self.world.nodes[broker].broker is not None:
                whole = self.has_moved and self.is_any_down()
                self.world.crash(broker, power=power and not whole, torn=torn and not whole)
                self.world.at(
                    end_us,
                    lambda: self.world.restart(broker, stored or whole, stale=stale and not whole),
                )

        self.world.at(begin_us, crash)

    def is_any_down(self):
        """Whether another broker is down. If two of them lost their state, or a part of it, at the
        same time, both could forget that they are linked, or that they have parted."""
        return any(node.broker is None for node in self.world.nodes.values())

    # --- links ---------------------------------------------------------------------------------

    def plan_link(self):
        """A link outside the tree is opened, and perhaps closed by either end."""
        rng, world = self.link_rng, self.world
        if len(self.brokers) < 3:
            return
        ends = a, b = rng.sample(self.brokers, 2)
        kind = rng.choice(("soft", "soft", "opening"))
        at_us = rng.randrange(LENGTH_US)
        world.at(at_us, lambda: self.order(a, f"open {kind} {b}", b))
        if rng.random() < 0.7:
            closer, other = rng.sample(ends, 2)
            away_us = rng.choice((0, 1_000, 50_000, 500_000))
            world.at(at_us + away_us, lambda: self.order(closer, f"close {other}", other))

    def order(self, broker, words, other):
        """Have a broker do something with a link that is none of the tree."""
        node = self.world.nodes[broker]
        if node.broker is not None and not node.broker.is_neighbour(other):
            order(self.world, broker, words)

    def close_all_outside(self):
        """Close all links outside the tree, at both ends; one may have forgotten them."""
        for name, node in self.world.nodes.items():
            for other, facts in node.broker.links.items():
                if facts.kind is not LinkKind.PRIMARY:
                    order(self.world, name, f"close {other}")

    def move(self):
        """Nothing is under way: a broker leaves a neighbour for another one."""
        rng, world = self.link_rng, self.world
        tree, faults = tree_of(world.topology, world.nodes)
        assert not faults
        link = rng.choice(tree.links)
        mover, left = rng.sample((link.a, link.b), 2)
        beyond = [b for b in self.brokers if left in tree.path(mover, b) and b != left]
        if beyond:
            found = rng.choice(beyond)
            order(world, mover, f"part {left}")
            for one, other in ((mover, found), (found, mover)):
                order(world, one, f"open primary {other}")
            assert world.quiet(60_000_000)
            self.moves += 1

    @property
    def has_moved(self):
        return self.moves > 0

    def run_on(self):
        """Move some brokers at rest, and let more happen on the new tree."""
        rng, world = self.link_rng, self.world
        assert world.quiet(120_000_000)
        self.close_all_outside()
        assert world.quiet(120_000_000)
        for _ in range(rng.randint(1, 3)):
            self.move()
        begin_us, self.time_us = world.now_us, lambda: world.now_us + self.rng.randrange(LENGTH_US)
        for _ in range(self.rng.randint(20, 100)):
            world.at(self.time_us(), self.operate)
        for _ in range(self.rng.randint(0, 4)):
            self.plan_fault(self.rng.choice(FAULTS))
        world.run(begin_us + LENGTH_US + 600_000)

    def plan_disk_fault(self):
        """The disk of a broker is full, or fails, for a while."""
        rng, world = self.stack_rng, self.world
        broker = rng.choice(self.brokers)
        if not self.storage[broker].has_disk:
            return
        begin_us = rng.randrange(LENGTH_US)
        end_us = begin_us + rng.choice((1, 1_000, 50_000, 500_000))
        room_bytes = rng.choice((None, 0, 100, 2_000))
        world.at(begin_us, lambda: world.break_disk(broker, room_bytes=room_bytes))
        world.at(end_us, lambda: world.mend_disk(broker))

    # --- the end -------------------------------------------------------------------------------

    def run(self):
        """Run, wait until all is quiet, and check; the report."""
        self.world.run(LENGTH_US + 600_000)
        if self.links:
            self.run_on()
        assert self.world.quiet(120_000_000), "it does not come to rest"
        return self.world.check()


def run_seeds(seeds, **options):
    """Run many seeds; how many deliveries there were. The first that fails is named."""
    deliveries = 0
    for seed in seeds:
        try:
            run = RandomRun(seed, **options)
            report = run.run()
            assert report.tables_compared
            assert report.violations == ()
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
        deliveries += run.world.metrics().deliveries
    return deliveries
