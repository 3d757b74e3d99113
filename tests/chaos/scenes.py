"""Named scenes of chaos: fixed networks and faults at exact times, for what was once lost.

Each is a plan like those drawn from seeds, and is judged alike.
"""

from __future__ import annotations

from byway.model.tree_shapes import chain_links
from tests.chaos.interests import ALL, Interest
from tests.chaos.plan import Broker, Client, Fault, Link, Plan, Wanted

SHORT = (5, 6, 24)
"""Seeds of the short rounds among the default tests. Between them they have most kinds of
faults, in small networks."""
NARROW = Interest((10, 60), (0, 100))


def _chain(*names: str, unlisted_by: str = "") -> tuple[Link, ...]:
    """A chain; every link is listed by both ends, but not by the one named."""
    return tuple(
        Link(a, b, tuple(end for end in (a, b) if end != unlisted_by))
        for a, b in chain_links(names)
    )


def _ends(first: str, last: str, rate: float) -> tuple[Client, ...]:
    """Publishers and subscribers at both ends, with sessions, subscribers in a process apart."""
    wide, narrow = Wanted("wide", ALL), Wanted("narrow", NARROW)
    return (
        Client("p1", first, 0, True, advertises=ALL, rate=rate / 2, window=4_096),
        Client("p2", last, 0, True, advertises=ALL, rate=rate / 2, window=4_096),
        Client("s1", last, 1, True, wants=(wide, narrow)),
        Client("s2", first, 1, True, wants=(narrow,)),
    )


def two_inner_brokers_forget(listed: bool, covering: str = "none") -> Plan:
    """Two neighbouring inner brokers without state are killed at once, and one comes back first.

    What the ends publish meanwhile must wait for the other one, however long: where only that one
    lists the link it comes 6 s later, where both do 40 s later.
    """
    links = (
        Link("A", "M", ("A", "M")),
        Link("M", "N", ("M", "N") if listed else ("N",)),
        Link("N", "D", ("N", "D")),
    )
    return Plan(
        name=f"two inner brokers forget, {'listed' if listed else 'unlisted'}",
        seed=0,
        brokers=tuple(Broker(name, keeps=name in "AD") for name in "AMND"),
        links=links,
        clients=_ends("A", "D", 400.0),
        faults=(
            Fault(2.0, "kill", "M", 0.0),
            Fault(2.0, "kill", "N", 40.0 if listed else 6.0),
        ),
        covering=covering,
        traffic_s=4.0,
    )


def backlog_for_a_session() -> Plan:
    """A home broker with `--data` is away for 8.5 s; its neighbour has more for a client that is
    not back yet than a session holds (10,000)."""
    return Plan(
        name="backlog for a session",
        seed=0,
        brokers=(Broker("H", keeps=True), Broker("M", keeps=False)),
        links=_chain("H", "M"),
        clients=(
            Client("p1", "M", 0, True, advertises=ALL, rate=1_750.0, window=16_000),
            Client("p2", "M", 0, True, advertises=ALL, rate=1_750.0, window=16_000),
            Client("s1", "H", 1, True, wants=(Wanted("wide", ALL),)),
        ),
        faults=(
            Fault(1.0, "kill", "H", 8.5),
            Fault(1.5, "stop-client", "1", 16.0),
        ),
        traffic_s=9.0,
    )


def full_disk(how: str) -> Plan:
    """A home broker's disk is full for a while: sessions go on when there is room again."""
    return Plan(
        name=f"full disk, {how}",
        seed=0,
        brokers=(Broker("H", keeps=True), Broker("M", keeps=False), Broker("K", keeps=True)),
        links=_chain("H", "M", "K"),
        clients=_ends("H", "K", 300.0),
        faults=(Fault(1.0, "full", "H", 1.0, how), Fault(4.0, "full", "K", 0.0, how)),
        traffic_s=6.0,
    )


SCENES = {
    "two-inner-unlisted": two_inner_brokers_forget(listed=False),
    "two-inner-listed": two_inner_brokers_forget(listed=True),
    "two-inner-unlisted-covering": two_inner_brokers_forget(listed=False, covering="active"),
    "backlog-for-a-session": backlog_for_a_session(),
    "full-disk-limit": full_disk("limit"),
    "full-disk-tmpfs": full_disk("tmpfs"),
}
