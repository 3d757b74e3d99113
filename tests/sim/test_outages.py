"""Several brokers down at once, with and without their state, back in any order and late: nothing
that was confirmed is lost, doubled or out of order, and nobody is excused for it.

A broker that forgot may have neighbours that it is not told of. It then knows them from the others,
from a file of its own, or because they dial in while it waits for them. No run goes where none of
these can be (see `docs/reference/durability.md`).

Some runs encode and decode every frame, and some keep the state of brokers through the real storage
over a simulated file system, which power is lost on.
"""

import random

import pytest

from byway.core.actions import Send, SendReply
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import LinkDown, NeighbourAdded, Started
from byway.core.reachability import TIMER as REACHABILITY_TIMER
from byway.core.recovery import TIMER as SYNC_TIMER
from byway.core.recovery import UNLISTED_TIMER_OWNER
from byway.model.messages import Attached, Replies, Requests
from byway.sim.engine.encoded_frames import payload_of
from byway.sim.engine.node_storage import NodeStorage, StorageOptions
from byway.storage.storage import JOURNAL_BYTES
from byway.wire import (
    FRAME_BYTES_MAX,
    FrameReader,
    check_requests,
    decode,
    decode_from_client,
    encode_all,
)
from tests.core_net import Net
from tests.sim import test_routing_is_exact as exact
from tests.sim.world_runs import STACKS, many, many_seeds

pytestmark = pytest.mark.sim

DOWN_MAX = 3
FAULTS = ("cut", "mend", "fall", "rise", "wait")
WEIGHTS = (1, 2, 3, 4, 1)
WORK_WEIGHTS = {"publish": 14, "unadvertise": 0.3, "unsubscribe": 1}
TIMERS = (SYNC_TIMER, REACHABILITY_TIMER)


class OutageNet(Net):
    """A network whose brokers can be away for as long as a test likes."""

    def __init__(self, edges, config, unlisted, remembering, stack, rng):
        self.unlisted = unlisted
        self.remembering = remembering
        self.has_codec = "codec" in stack
        self.has_storage = "storage" in stack
        self.stack_rng = rng
        self.disks: dict[str, NodeStorage] = {}
        self.cut: set[tuple[str, str]] = set()
        self.away: dict[str, tuple[bytes | None, int, list[str]]] = {}
        super().__init__(edges, config)

    def listed(self, broker):
        return [n for n in self.neighbours[broker] if (broker, n) not in self.unlisted]

    def first(self, broker):
        if not self.has_storage:
            return super().first(broker)
        options = StorageOptions(
            data=True,
            durability=self.stack_rng.choice(("process", "power")),
            state_dir=broker in self.remembering,
            journal_bytes=self.stack_rng.choice((400, JOURNAL_BYTES)),
        )
        self.disks[broker] = NodeStorage(broker, self.stack_rng, options)
        return self.start(broker, 1, expects_unlisted=False)

    def start(self, broker, incarnation, expects_unlisted):
        """The broker of a disk."""
        disk = self.disks[broker]
        started = disk.start(
            incarnation,
            self.configs[broker],
            self.listed(broker),
            expects_unlisted=expects_unlisted,
        )
        disk.started(started)
        return started

    def connect(self, a, b):
        if a in self.away or b in self.away or {(a, b), (b, a)} & self.cut:
            return
        for here, there in ((a, b), (b, a)):
            if not self.brokers[here].is_neighbour(there):
                self.do(here, NeighbourAdded(there))
        super().connect(a, b)

    def do(self, broker, event):
        disk = self.disks.get(broker)
        if disk is None:
            super().do(broker, event)
            return
        disk.keep(self.now_us, [event])
        actions = self.brokers[broker].handle(self.now_us, event)
        disk.mark(self.brokers[broker])
        for action in actions:
            self.perform(broker, action)

    def perform(self, broker, action):
        if not self.has_codec:
            super().perform(broker, action)
        elif isinstance(action, Send):
            self.flying[broker, action.link] += through_codec(action.frame)
        elif isinstance(action, SendReply):
            for frame in through_codec(Replies(action.replies)):
                self.told[action.client].extend(frame.replies)
        else:
            super().perform(broker, action)

    def ask(self, client, *requests):
        if self.has_codec:
            (frame,) = through_codec(Requests(requests), decode_from_client)
            check_requests(frame.requests)
            requests = frame.requests
        super().ask(client, *requests)

    def fall(self, broker, stored):
        old = self.brokers.pop(broker)
        if self.has_storage:
            state = self.leave_on_disk(self.disks[broker], stored)
        else:
            state = old.snapshot() if stored else None
        self.away[broker] = state, old.incarnation, list(old.neighbours)
        self.timers = {key: at_us for key, at_us in self.timers.items() if key[0] != broker}
        for neighbour in self.neighbours[broker]:
            self.flying[broker, neighbour].clear()
            self.flying[neighbour, broker].clear()
            if neighbour in self.brokers:
                self.do(neighbour, LinkDown(broker))

    def leave_on_disk(self, disk, stored):
        """A process ends, and the last state is on its disk (`stored`) or not: the machine lost
        power, or the directory was moved away. Returns None if it is not."""
        is_synced = disk.options.durability == "power"
        if stored:
            disk.crash(power=is_synced and self.stack_rng.random() < 0.5)
            return b""
        if is_synced or self.stack_rng.random() < 0.5:
            disk.crash()
            disk.lose_data()
        else:
            disk.crash(power=True)
        return None

    def rise(self, broker):
        state, incarnation, names = self.away.pop(broker)
        if self.has_storage:
            expects = any(b == broker for b, _ in self.unlisted)
            self.brokers[broker] = started = self.start(broker, incarnation + 1, expects)
            assert (started.incarnation == incarnation) == (state is not None)
        elif state is not None:
            self.brokers[broker] = Broker.restore(state, self.configs[broker])
        else:
            remembers = broker in self.remembering
            names = names if remembers else self.listed(broker)
            self.brokers[broker] = Broker(
                broker,
                names,
                self.configs[broker],
                incarnation + 1,
                restarting=remembers,
                expects_unlisted=not remembers and any(b == broker for b, _ in self.unlisted),
            )
        self.do(broker, Started())


def through_codec(frame, read=decode):
    """The frames that arrive when a frame is sent."""
    reader = FrameReader(FRAME_BYTES_MAX)
    return [read(payload_of(reader, data)) for data in encode_all(frame)]


class OutageWorld(exact.World):
    """Clients do what they do; brokers come and go."""

    def __init__(self, rng, policies, merging, how, stack=(), stack_rng=None):
        super().__init__(rng, policies, False, merging)
        self.how = how
        self.dialling: list[tuple[str, str]] = []
        """Links that neighbours of a broker which is back are about to make."""
        brokers = sorted(self.net.brokers)
        unlisted = set() if how == "listed" else self.unlisted(rng, how)
        remembering = set(brokers) if how == "remembered" else set()
        self.configs = {b: live(config) for b, config in self.configs.items()}
        self.net = OutageNet(
            self.edges, self.configs, unlisted, remembering, stack, stack_rng or rng
        )
        for client in exact.CLIENTS:
            self.net.attach(client, self.homes[client])
        self.net.settle()
        for client in exact.CLIENTS:
            self.advertise(client)
            self.subscribe(client)
            self.count += 1
        self.net.settle()
        self.work = (*exact.WORK, *FAULTS, "dial")
        known = zip(exact.WORK, exact.WEIGHTS, strict=True)
        self.weights = (*(WORK_WEIGHTS.get(what, weight) for what, weight in known), *WEIGHTS, 2)

    def unlisted(self, rng, how):
        """Links that only one end lists; with no memory of its own, each broker lists one."""
        found = set()
        for a, b in self.edges:
            here, there = rng.sample((a, b), 2)
            others = [n for n in self.net.neighbours[here] if n != there]
            listed = [n for n in others if (here, n) not in found]
            if rng.random() < 0.7 and (how in ("remembered", "told by those who dial") or listed):
                found.add((here, there))
        return found

    def step(self):
        self.count += 1
        what = self.rng.choices(self.work, self.weights)[0]
        client = self.rng.choice(exact.CLIENTS)
        if what in exact.OF_CLIENTS and self.homes[client] not in self.net.brokers:
            return
        getattr(self, what)(client)

    def sample(self, client):
        if self.net.brokers:
            super().sample(client)

    # --- faults --------------------------------------------------------------------------------

    def dial(self, _):
        """A neighbour of a broker that is back has seen that."""
        if self.dialling:
            edge = self.rng.choice(self.dialling)
            self.dialling.remove(edge)
            self.net.connect(*edge)

    def is_unknown(self):
        """Whether a broker has forgotten neighbours which have not dialled in yet: while that is
        so, none goes away. What it accepts meanwhile may not be lost."""
        forgot = any(state is None for state, _, _ in self.net.away.values())
        return self.how == "told by those who dial" and bool(forgot or self.dialling)

    def cut(self, _):
        if self.is_unknown():
            return
        up = [edge for edge in self.edges if edge not in self.net.cut]
        if up:
            a, b = edge = self.rng.choice(up)
            self.net.cut.add(edge)
            for here, there in ((a, b), (b, a)):
                self.net.flying[here, there].clear()
                if here in self.net.brokers:
                    self.net.do(here, LinkDown(there))

    def mend(self, _):
        if self.net.cut:
            edge = self.rng.choice(sorted(self.net.cut))
            self.net.cut.remove(edge)
            self.net.connect(*edge)

    def fall(self, _):
        if len(self.net.away) >= min(DOWN_MAX, len(self.edges)) or self.is_unknown():
            return
        broker = self.rng.choice(sorted(self.net.brokers))
        lost = self.clients_of(broker)
        keeps = 0.9 if lost else 0.3  # with a home's state go the claims that are to be judged
        if self.how == "told by those who dial":
            keeps = 0.3  # it is about publications that a home takes before neighbours dial in
        stored = self.rng.random() < keeps or not self.may_forget(broker)
        confirmed = {client: self.net.confirmed(client) for client in lost}
        self.net.fall(broker, stored)
        if not stored:
            for client in lost:
                self.forget(client, confirmed[client])

    def may_forget(self, broker):
        """Whether others remember for a broker that forgets: while they do not, none does."""
        if self.how in ("listed", "remembered"):
            return True
        others = set(self.net.neighbours[broker]) - self.net.away.keys()
        if self.how == "told by those who dial" and not others:
            return False
        forgot = [b for b, (state, _, _) in self.net.away.items() if state is None]
        waiting = [b for b in self.net.brokers.values() if not b.is_recovered]
        return not forgot and not waiting and not self.net.cut

    def rise(self, _):
        if self.net.away:
            self.bring_back(self.rng.choice(sorted(self.net.away)))

    def bring_back(self, broker):
        stored = self.net.away[broker][0] is not None
        self.net.rise(broker)
        mine = [edge for edge in self.edges if broker in edge]
        self.rng.shuffle(mine)
        clients = self.clients_of(broker)
        early = self.rng.random() < 0.5
        if early:
            self.attach_all(clients, broker, stored)
        if self.how == "told by those who dial":
            self.dialling += [edge for edge in mine if not self.net.away.keys() & set(edge)]
        else:
            for edge in mine:
                self.net.connect(*edge)
        if not early:
            self.attach_all(clients, broker, stored)

    def attach_all(self, clients, broker, stored):
        for client in clients:
            if not stored:
                self.begin_session(client)
            self.net.attach(client, broker, self.incarnation[client], resumes=True)
            if stored:
                self.check_resumed(client)
            else:
                assert not self.net.got(client, Attached)[-1].resumed

    def wait(self, _):
        """Half a minute passes at a broker that has not heard of anybody."""
        due = sorted(key for key in self.net.timers if key[1] in TIMERS)
        if not self.dialling:  # it is long enough for neighbours that are there to dial
            due += sorted(key for key in self.net.timers if key[1].owner == UNLISTED_TIMER_OWNER)
        if due:
            self.net.fire(*self.rng.choice(due))

    def all_back(self):
        """Whoever is away comes back, in any order, and all links are whole again."""
        while self.net.away or self.net.cut or self.dialling:
            self.rng.choice((self.mend, self.rise, self.dial))(None)
            if self.rng.random() < 0.5:
                self.net.settle()


def live(config):
    """The same with what live brokers have by default."""
    kept = {name: getattr(config, name) for name in config.__struct_fields__}
    return BrokerConfig(**kept | {"probe_cycles": True})


def run(
    seed, happened, policies=exact.POLICIES, merging=False, how="listed", length=160, stack=None
):
    """One random run; which parts of the real stack it has is drawn, unless given."""
    rng, stack_rng = random.Random(seed), random.Random(f"stack {seed}")
    drawn = stack_rng.choice(STACKS)
    world = OutageWorld(rng, policies, merging, how, drawn if stack is None else stack, stack_rng)
    for _ in range(length):
        world.step()
    world.all_back()
    while any(key[1] in TIMERS or key[1].owner == UNLISTED_TIMER_OWNER for key in world.net.timers):
        world.wait(None)
    world.calm_down()
    exact.check_deliveries(world, False)
    exact.check_tables(world)
    exact.check_nothing_is_left(world)
    for broker in world.net.brokers.values():
        assert not broker.missing
        assert broker.is_recovered
        names = sorted(world.net.neighbours[broker.name])
        assert sorted(broker.neighbours) == names
        for neighbour in names:
            assert list(world.net.brokers[neighbour].neighbours_of(broker.name)) == names
    happened["deliveries"] += sum(len(clients) for clients in world.must.values())


VARIANTS = {
    f"{how}, {name}": {"how": how, **options}
    for how in ("listed", "remembered", "told by others", "told by those who dial")
    for name, options in {
        "none": {"policies": ("none",)},
        "active": {"policies": ("active",)},
        "mixed": {"policies": exact.ALL_POLICIES},
        "merging": {"policies": ("active", "selective"), "merging": True},
    }.items()
}


FOUND = (282,)
"""An older state did not know of a neighbour, and nobody waited for it (282)."""


@pytest.mark.parametrize("variant", VARIANTS)
def test_fixed_seeds(variant):
    assert many(run, (*range(60), *FOUND), **VARIANTS[variant])["deliveries"] > 50


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("variant", VARIANTS)
def test_thousands_of_seeds(variant):
    assert many(run, many_seeds(), **VARIANTS[variant])["deliveries"] > 1_000
