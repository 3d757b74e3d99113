"""What happens in one round of chaos: brokers, links, clients and faults, all drawn from a seed.

Pure: a plan is data, and the same seed gives the same plan. Times are in seconds since traffic
began. `stays_known` is the only thing that a round spares the network on purpose.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace

from byway.model.tree_shapes import random_parents
from tests.chaos.interests import ALL, Interest, drawn

POLICIES = ("none", "active", "lazy", "packing", "incremental", "selective")
SESSION_S = 300.0
"""Sessions outlast every fault: one that ends for want of time would excuse something."""
FAULTS_S = 10.0
"""Faults begin within so many seconds."""


# --- what runs ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Broker:
    """A broker process."""

    name: str
    keeps: bool
    """Whether it has `--data`."""
    remembers: bool = False
    """Whether it has `state_dir`: without `--data`, it still knows its neighbours' names."""
    power: bool = False
    """Whether it syncs every write (`durability = "power"`)."""
    delta: int = 1
    """How many hops of the tree it knows; with 1 it has no mesh."""
    strategy: str = "SH"
    """Over which links it sends, if it has a mesh."""


@dataclass(frozen=True)
class Link:
    """Two neighbours, and which of them list the other."""

    a: str
    b: str
    listed_by: tuple[str, ...]
    proxied: bool = False
    """Whether it goes through a proxy, so that it can be cut."""

    def other(self, name: str) -> str:
        """The other end."""
        return self.b if name == self.a else self.a


@dataclass(frozen=True)
class Wanted:
    """A subscription of a client, for some time."""

    name: str
    interest: Interest
    since: float = 0.0
    """0: before any traffic."""
    until: float | None = None


@dataclass(frozen=True)
class Client:
    """A publisher (it has an advertisement) or a subscriber, at one broker, in one process."""

    name: str
    home: str
    process: int
    session: bool
    """Whether its broker keeps its session while it is away."""
    advertises: Interest | None = None
    rate: float = 0.0
    """Publications a second."""
    window: int = 1_024
    wants: tuple[Wanted, ...] = ()
    proxied: bool = False


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong, and when it is mended."""

    at: float
    kind: str
    """`kill`, `torn`, `full`, `stop`, `kill-client`, `stop-client`, `cut` or `cut-client`."""
    target: str
    """A broker, a client process (by number), a client, or a link `A-B`."""
    lasts: float
    """Until the process is started again, continued, or the connection is let through."""
    how: str = ""
    """Of `torn`: `cut`, `garbage` or `flip`. Of `full`: `tmpfs` or `limit`."""


@dataclass(frozen=True)
class Plan:
    """One round."""

    name: str
    seed: int
    brokers: tuple[Broker, ...]
    links: tuple[Link, ...]
    clients: tuple[Client, ...]
    faults: tuple[Fault, ...]
    covering: str = "none"
    keepalive_ms: int | None = None
    """None: the default."""
    bypass_after_ms: int | None = None
    """None: the default."""
    traffic_s: float = FAULTS_S + 1.0
    """Traffic lasts at least so long, and until everyone is back."""
    tags: tuple[str, ...] = ()
    """What is special about it."""

    def broker(self, name: str) -> Broker:
        """The broker of this name."""
        return next(b for b in self.brokers if b.name == name)

    @property
    def has_mesh(self) -> bool:
        """Whether brokers open soft links, and send round dead neighbours."""
        return any(broker.delta > 1 for broker in self.brokers)

    def neighbours(self, name: str) -> list[str]:
        """Neighbours of a broker."""
        return [link.other(name) for link in self.links if name in (link.a, link.b)]

    def __str__(self) -> str:
        lines = [
            f"{self.name}: covering {self.covering}, keepalive {self.keepalive_ms or 'default'}"
        ]
        kept = " ".join(b.name + "+" * b.keeps + "~" * b.remembers for b in self.brokers)
        lines.append(f"  brokers (+ keeps its state, ~ remembers its neighbours): {kept}")
        if self.has_mesh:
            deltas = " ".join(f"{b.name} {b.delta} {b.strategy}" for b in self.brokers)
            after = self.bypass_after_ms or "default"
            lines.append(f"  mesh (delta and strategy): {deltas}; bypass after {after}")
        links = " ".join(
            f"{link.a}-{link.b}(listed by {'+'.join(link.listed_by)}{', proxy' * link.proxied})"
            for link in self.links
        )
        lines.append(f"  links: {links}")
        for c in self.clients:
            role = f"{c.rate:g}/s" if c.advertises else f"{len(c.wants)} subscriptions"
            session = "session" if c.session else "no session"
            lines.append(f"  {c.name} at {c.home}, process {c.process}, {session}, {role}")
        lines += (
            f"  {f.at:6.2f} s {f.kind} {f.how} {f.target} for {f.lasts:.2f} s" for f in self.faults
        )
        return "\n".join(lines)


# --- what is spared ----------------------------------------------------------------------------


def stays_known(
    broker: Broker, links: Collection[Link], forgetful: Collection[str], disturbed: Collection[str]
) -> bool:
    """Whether a broker that forgets everything can learn again of neighbours it does not list.

    That is the documented limit: without a list or `state_dir`, a broker learns of those who used
    to dial in only from neighbours that remember. There must be one that does not forget in the
    same round, and the broker must meet it: because it lists it, and so waits for it, or because
    it was there all the time.
    """
    own = [link for link in links if broker.name in (link.a, link.b)]
    if broker.remembers or all(broker.name in link.listed_by for link in own):
        return True
    for link in own:
        other = link.other(broker.name)
        if other in forgetful:
            continue
        if broker.name in link.listed_by or other not in disturbed:
            return True
    return False


def is_fair(brokers: Iterable[Broker], links: Collection[Link], faults: Collection[Fault]) -> bool:
    """Whether nothing happens in a round that is documented to lose: see `stays_known`."""
    by_name = {broker.name: broker for broker in brokers}
    forgetful, disturbed = set(), set()
    for fault in faults:
        if fault.kind == "cut":
            disturbed |= set(fault.target.split("-"))
        elif fault.target in by_name:
            disturbed.add(fault.target)
            if fault.kind == "torn" or (fault.kind == "kill" and not by_name[fault.target].keeps):
                forgetful.add(fault.target)
    return all(stays_known(by_name[name], links, forgetful, disturbed) for name in forgetful)


# --- drawing -----------------------------------------------------------------------------------


@dataclass
class _Draft:
    rng: random.Random
    remembering: bool
    brokers: list[Broker] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def tree(self) -> None:
        """Five to seven brokers in a random tree, rather long than wide."""
        rng = self.rng
        for number in range(rng.randint(5, 7)):
            keeps = rng.random() < 0.5
            self.brokers.append(
                Broker(
                    f"B{number + 1}",
                    keeps,
                    remembers=rng.random() < 0.3 and self.remembering and not keeps,
                    power=rng.random() < 0.15 and keeps,
                )
            )
        parents = random_parents(len(self.brokers), self._rather_the_last)
        for broker, parent in zip(self.brokers[1:], parents, strict=True):
            a, b = self.brokers[parent].name, broker.name
            listed_by = rng.choice(((a, b), (a, b), (a,), (b,)))
            self.links.append(Link(a, b, listed_by, proxied=rng.random() < 0.4))

    def _rather_the_last(self, count: int) -> int:
        """A number below `count`, more often than not the largest."""
        return count - 1 if self.rng.random() < 0.6 else self.rng.randrange(count)

    def add(self, *faults: Fault) -> bool:
        """Add faults, unless that would not be fair."""
        if not is_fair(self.brokers, self.links, [*self.faults, *faults]):
            return False
        self.faults += faults
        return True

    def away_s(self) -> float:
        """How long something is away: mostly short."""
        chance = self.rng.random()
        if chance < 0.4:
            return self.rng.uniform(0, 1)
        return self.rng.uniform(1, 5) if chance < 0.8 else self.rng.uniform(5, 12)

    def kills(self, at: float, count: int) -> bool:
        """Kill some brokers at once, neighbours by preference; back in any order."""
        rng = self.rng
        victims = self._forgetful_pair() if count > 1 and rng.random() < 0.4 else []
        victims = victims or [rng.choice(self.brokers).name]
        while len(victims) < count:
            near = sorted(
                {link.other(v) for v in victims for link in self.links if v in (link.a, link.b)}
                - set(victims)
            )
            rest = sorted({b.name for b in self.brokers} - set(victims))
            victims.append(rng.choice(near if near and rng.random() < 0.7 else rest))
        lasts = [self.away_s() for _ in victims]
        if count > 1 and rng.random() < 0.5:  # one comes back at once, another late
            first, last = rng.sample(range(count), 2)
            lasts[first], lasts[last] = rng.uniform(0, 1), rng.uniform(4, 12)
        if rng.random() < 0.04:
            lasts[rng.randrange(count)] = rng.uniform(32, 40)
        return self.add(
            *(Fault(at, "kill", victim, s) for victim, s in zip(victims, lasts, strict=True))
        )

    def _forgetful_pair(self) -> list[str]:
        """Two neighbours without state, if there are any."""
        kept = {broker.name for broker in self.brokers if broker.keeps}
        pairs = [[link.a, link.b] for link in self.links if not kept & {link.a, link.b}]
        return self.rng.choice(pairs) if pairs else []

    def incident(self, at: float, processes: int, clients: list[Client], tmpfs: bool) -> bool:
        """One more thing that goes wrong."""
        rng = self.rng
        chance = rng.random()
        keeping = [b.name for b in self.brokers if b.keeps]
        if chance < 0.45:
            return self.kills(at, rng.choice((1, 1, 2, 2, 3)))
        if chance < 0.58:
            return self.add(Fault(at, "stop", rng.choice(self.brokers).name, rng.uniform(0.5, 9)))
        if chance < 0.66:
            how, away = rng.choice(("tmpfs", "limit")), min(self.away_s(), 6.0)
            how = how if tmpfs else "limit"
            return bool(keeping) and self.add(Fault(at, "full", rng.choice(keeping), away, how))
        if chance < 0.74:
            how, away = rng.choice(("cut", "garbage", "flip")), min(self.away_s(), 6.0)
            return bool(keeping) and self.add(Fault(at, "torn", rng.choice(keeping), away, how))
        if chance < 0.82:
            kind = rng.choice(("kill-client", "stop-client"))
            return self.add(Fault(at, kind, str(rng.randrange(processes)), rng.uniform(0, 4)))
        if chance < 0.93:
            links = [link for link in self.links if link.proxied]
            name = f"{(link := rng.choice(links)).a}-{link.b}" if links else ""
            return bool(name) and self.add(
                Fault(at, "cut", name, rng.choice((0, rng.uniform(0, 6))))
            )
        named = [c.name for c in clients if c.proxied]
        return bool(named) and self.add(
            Fault(at, "cut-client", rng.choice(named), rng.choice((0, rng.uniform(0, 3))))
        )


def drawn_plan(
    seed: int,
    *,
    short: bool = False,
    tmpfs: bool = False,
    remembering: bool = False,
    mesh: bool | None = None,
) -> Plan:
    """The round of a seed. `short`: fewer publications and no long absences. `tmpfs`: whether small
    disks may be mounted. `remembering`: whether brokers know `state_dir`. `mesh`: whether there is
    one, where the seed does not decide."""
    rng = random.Random(f"chaos {seed}")
    draft = _Draft(rng, remembering)
    draft.tree()
    heavy = not short and rng.random() < 0.08
    processes = 3
    clients = _clients(draft, processes, heavy)
    covering = POLICIES[seed % len(POLICIES)]
    if heavy:
        while not draft.faults:
            _heavy(draft)
    else:
        wished, span = rng.randint(2, 4 if short else 5), 5.0 if short else FAULTS_S
        for _ in range(60):
            if wished and draft.incident(rng.uniform(0.3, span), processes, clients, tmpfs):
                wished -= 1
    faults = tuple(sorted(draft.faults, key=lambda f: (f.at, f.target)))
    if short:
        faults = tuple(Fault(f.at, f.kind, f.target, min(f.lasts, 3.0), f.how) for f in faults)
    stops = any(f.kind == "stop" for f in faults)
    brokers, bypass_after_ms = _mesh(seed, draft.brokers, mesh)
    return Plan(
        name=f"seed {seed}",
        seed=seed,
        brokers=brokers,
        links=tuple(draft.links),
        clients=tuple(clients),
        faults=faults,
        covering=covering,
        keepalive_ms=1_000 if stops and rng.random() < 0.8 else None,
        bypass_after_ms=bypass_after_ms,
        traffic_s=6.0 if short else FAULTS_S + 1.0,
        tags=("heavy",) if heavy else (),
    )


def _mesh(
    seed: int, brokers: list[Broker], wished: bool | None
) -> tuple[tuple[Broker, ...], int | None]:
    """In every other round, a mesh: brokers that differ in how far they see and over which links
    they send, some of them without. What else a seed draws does not depend on it."""
    rng = random.Random(f"chaos {seed} mesh")
    has_mesh = rng.random() < 0.5
    if not (has_mesh if wished is None else wished):
        return tuple(brokers), None
    drawn = (
        replace(
            broker,
            delta=rng.choice((1, 2, 3, 4, 4, 4)),
            strategy=rng.choice(("S0", "S1", "S2", "S2", "SH")),
        )
        for broker in brokers
    )
    return tuple(drawn), rng.choice((300, 1_000, None))


def _heavy(draft: _Draft) -> None:
    """Much traffic, and homes that keep their state killed for seconds: more waits for their
    clients than a session holds. Clients are disturbed in no other way: then a session's bound
    would rightly apply."""
    rng = draft.rng
    at = rng.uniform(0.5, 2)
    keeping = [b.name for b in draft.brokers if b.keeps] or [draft.brokers[0].name]
    draft.add(Fault(at, "kill", rng.choice(keeping), rng.uniform(4, 8)))
    if rng.random() < 0.5:
        draft.kills(at + rng.uniform(0, 3), rng.choice((1, 2)))


def _clients(draft: _Draft, processes: int, heavy: bool) -> list[Client]:
    rng = draft.rng
    names = [b.name for b in draft.brokers]
    found: list[Client] = []
    publishers = 4 if heavy else rng.randint(3, 4)
    total = 2_000.0 if heavy else rng.choice((100.0, 300.0, 300.0, 500.0))
    for number in range(publishers):
        advertises = rng.choice((ALL, ALL, drawn(rng, [ALL])))
        found.append(
            Client(
                f"p{number + 1}",
                rng.choice(names),
                rng.randrange(processes),
                session=heavy or rng.random() < 0.7,
                advertises=advertises,
                rate=total / publishers,
                window=4_096 if heavy else rng.choice((256, 1_024)),
                proxied=not heavy and rng.random() < 0.25,
            )
        )
    interests: list[Interest] = []
    for number in range(rng.randint(5, 7)):
        wants = []
        for count in range(rng.choice((1, 1, 2, 3))):
            interests.append(drawn(rng, interests))
            since = 0.0 if rng.random() < 0.75 else rng.uniform(0.5, FAULTS_S)
            until = since + rng.uniform(1, FAULTS_S) if rng.random() < 0.25 else None
            wants.append(Wanted(f"w{count + 1}", interests[-1], since, until))
        found.append(
            Client(
                f"s{number + 1}",
                rng.choice(names),
                rng.randrange(processes),
                session=heavy or rng.random() < 0.75,
                wants=tuple(wants),
                proxied=not heavy and rng.random() < 0.25,
            )
        )
    return found
