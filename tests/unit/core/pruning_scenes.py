"""One broker, B, under a pruning policy, and what unit tests of pruning do with it."""

from byway.core.actions import SetTimer
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import LoadSampled, TimerFired
from byway.core.invariants import validate
from byway.core.subscriptions import TIMER
from byway.model import parse
from byway.model.messages import (
    Advertise,
    EntryId,
    Hint,
    Retire,
    Subscribe,
    SubscribeRequest,
    SubscriptionsSettled,
    Unadvertise,
    Unsubscribe,
)
from tests.lone_broker import Lone, entry, publication, subscribe, without_acknowledgements

SIMILARITIES = (0.6, 0.9)
SECOND_US = 1_000_000


def few(covering: str, **settings: object) -> BrokerConfig:
    """A policy that judges by the few things that there are."""
    defaults = {
        "incremental_bursts": (1, 3),
        "selective_count_min": 0,
        "pruning_samples_min": 1,
        "retire_after_us": 0,
    }
    return BrokerConfig(covering=covering, **(defaults | settings))  # type: ignore[arg-type]


P = "P"
"""A publisher behind C."""


S = subscribe("S", "p > 1")


def stops_with(bursts: tuple[int, int] = (1, 3), **settings: object) -> BrokerConfig:
    return few("incremental", incremental_bursts=bursts, **settings)


STOPS = stops_with()
ADVERTISED = parse("p > 0 AND q >= 0 AND r >= 0 AND s >= 0")


def advertised_by(publisher: str) -> Advertise:
    return Advertise(EntryId(publisher, "a", 1, 1), ADVERTISED)


def unadvertised_by(publisher: str) -> Unadvertise:
    return Unadvertise(EntryId(publisher, "a", 1, 1), ADVERTISED)


def fed(config: BrokerConfig = STOPS, **publishers: str) -> Lone:
    """A broker with subscribers behind A and D, and publishers behind these links."""
    lone = Lone("A", "C", "D", config=config)
    for publisher, link in (publishers or {P: "C"}).items():
        lone.receive(link, advertised_by(publisher))
    return lone


def narrow(number: int) -> Subscribe:
    """One of those that S covers, and that do not cover each other."""
    return subscribe(f"n{number:03}", f"p = {number + 5}")


def with_burst(burst: int, config: BrokerConfig = STOPS, **publishers: str) -> Lone:
    """S came from A and stands for so many from D; both are settled."""
    lone = fed(config, **publishers)
    lone.receive("A", S)
    if burst:
        lone.receive("D", *[narrow(number) for number in range(burst)])
    for link in dict.fromkeys((publishers or {P: "C"}).values()):
        lone.receive(link, settled("S", *(narrow(n).id.name for n in range(burst))))
    return lone


def settled(*names: str) -> SubscriptionsSettled:
    return SubscriptionsSettled(tuple(entry(name) for name in names))


def gone(*names: str, **distances: tuple[int, ...]) -> Unsubscribe:
    """Unsubscribed, with the distances told for each publisher, if there are any."""
    ids = tuple(entry(name) for name in names)
    if not distances:
        return Unsubscribe(ids)
    hints = tuple(Hint(publisher, hops) for publisher, hops in distances.items())
    return Unsubscribe(ids, SIMILARITIES, (hints,) * len(ids))


def retired(*names: str) -> Retire:
    return Retire(tuple(entry(name) for name in names))


def done(actions: list) -> list:
    """All that was done: messages with their link, and timers; acknowledgements apart."""
    return [
        (action.link, *action.frame.messages) if hasattr(action, "frame") else action
        for action in without_acknowledgements(actions)
    ]


def woken_at(lone: Lone, after_us: int = SECOND_US) -> SetTimer:
    return SetTimer(TIMER, lone.now_us + after_us)


def tick(lone: Lone, after_us: int = SECOND_US) -> list:
    """The timer is due; what is done then."""
    lone.now_us += after_us
    return done(lone.handle(TimerFired(TIMER)))


def preserved(lone: Lone) -> dict[str, str]:
    assert validate(lone.broker) == []
    return {e.id.name: " ".join(sorted(e.forwarded)) for e in lone.broker.placeholders}


HOME = few("incremental", pruning_samples_min=2)


def at_home(config: BrokerConfig = HOME, publications: int = 2) -> Lone:
    """A local subscription that received some of P, behind C, from 2 and 3 hops away."""
    lone = fed(config)
    lone.attach("me")
    lone.ask("me", SubscribeRequest("mine", parse("p > 1")))
    lone.receive("C", SubscriptionsSettled((EntryId("me", "mine", 1, 1),)))
    for number in range(1, publications + 1):
        lone.receive(
            "C", publication(number, hop=5, distance=number + 1, publisher=P, p=number + 1)
        )
    return lone


MINE = EntryId("me", "mine", 1, 1)


def preserving(burst: int = 1, config: BrokerConfig = STOPS) -> Lone:
    """S is preserved for C, and stands for so many from D."""
    lone = with_burst(burst, config)
    lone.receive("A", gone("S", P=(0, 0)))
    assert preserved(lone) == {"S": "C"}
    return lone


CONGESTED, RELIEVED = LoadSampled(11), LoadSampled(10)


def until_retired(lone: Lone, ticks_max: int = 50) -> list[list]:
    """What each step sends to C, up to the one that takes S back."""
    steps = []
    for _ in range(ticks_max):
        told = tick(lone)
        steps.append([m for a in told if isinstance(a, tuple) for m in a[1:]])
        assert validate(lone.broker) == []
        if not preserved(lone):
            return steps
        assert woken_at(lone) in told
    raise AssertionError(f"it never ends: {steps}")


def sends(steps: list[list]) -> list[int]:
    """How many subscriptions each step sends."""
    return [sum(isinstance(m, Subscribe) for m in step) for step in steps]
