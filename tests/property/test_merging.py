"""Merging against its definition: one broker under any sequence of inputs comes to rest, and then
no two filters on a link are left that one could say exactly; its neighbour holds what covers the
rest at every moment, and without a budget nothing more."""

from itertools import combinations, product

from hypothesis import given
from hypothesis import strategies as st

from byway.core.actions import SetTimer
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import TimerFired
from byway.core.invariants import validate
from byway.core.subscriptions import TIMER
from byway.model import Filter, covers, merge, parse
from byway.model.filter_merging import merge_exactly
from byway.model.messages import (
    EntryId,
    Retire,
    Subscribe,
    SubscribeMany,
    SubscriptionsSettled,
    Unsubscribe,
)
from tests.lone_broker import Lone, advertise
from tests.unit.core.test_merging import sent

REST_STEPS_MAX = 200
VALUES = [
    *({"p": n / 2} for n in range(-3, 18)),
    *({"s": text, "p": 4} for text in ("", "a", "ab", "b", "bb", "c", "cz", "d", "dd", "e")),
]


def meet(f: Filter, g: Filter) -> bool:
    """Whether an alternative of one and an alternative of the other are one, neither of the two."""
    for a, b in product(f.conjunctions, g.conjunctions):
        both = Filter((a,)), Filter((b,))
        if merge_exactly(*both) not in (None, *both):
            return True
    return False


def ranges(bounds: tuple[int, int], low_open: bool, high_open: bool) -> str:
    low, width = bounds
    return f"p {'>' if low_open else '>='} {low} AND p {'<' if high_open else '<='} {low + width}"


CONSTRAINTS = st.one_of(
    st.builds(
        ranges, st.tuples(st.integers(0, 6), st.integers(1, 2)), st.booleans(), st.booleans()
    ),
    st.lists(st.integers(0, 8), min_size=1, max_size=3).map(
        lambda numbers: f"p IN ({', '.join(map(str, numbers))})"
    ),
    st.integers(0, 8).map(lambda number: f"p <> {number}"),
    st.sampled_from(("p IS NULL", "p IS NOT NULL", "p >= 4", "p < 4")),
)
LETTERS = st.sampled_from("abcd")
STRINGS = st.one_of(
    st.lists(LETTERS, min_size=1, max_size=3).map(
        lambda letters: f"s IN ({', '.join(map(repr, letters))})"
    ),
    st.builds(
        "s >{2} '{0}' AND s <{3} '{0}{1}'".format,
        LETTERS,
        LETTERS,
        *[st.sampled_from(("", "="))] * 2,
    ),
    st.builds("s >{1} '{0}'".format, LETTERS, st.sampled_from(("", "="))),
    st.builds("s <{1} '{0}'".format, LETTERS, st.sampled_from(("", "="))),
    LETTERS.map("s <> '{0}'".format),
    st.builds("s LIKE '{0}%' AND s <> '{0}{1}'".format, LETTERS, LETTERS),
    st.builds("s = '{0}{1}'".format, LETTERS, LETTERS),
    st.sampled_from(("s IS NULL", "s IS NOT NULL")),
)
RESTS = st.sampled_from(("", " AND t = 'X'", " AND t IN ('Y', 'Z')", " AND q = 1"))
ALTERNATIVES = st.builds(str.__add__, st.one_of(CONSTRAINTS, STRINGS), RESTS)
TEXTS = st.one_of(ALTERNATIVES, st.lists(ALTERNATIVES, min_size=2, max_size=3).map(" OR ".join))
STEPS = st.lists(st.one_of(TEXTS, TEXTS, st.integers(0, 99), st.just("tick")), max_size=30)
CONFIGS = st.builds(
    BrokerConfig,
    covering=st.sampled_from(("active", "lazy", "packing", "incremental", "selective")),
    merging=st.just(True),
    merging_false_positives=st.sampled_from((0.0, 0.0, 0.3, 0.9)),
    retire_batch=st.sampled_from((0, 1, 20)),
)


class Fed:
    """A broker with subscribers behind A, and what its neighbour C holds."""

    def __init__(self, config: BrokerConfig) -> None:
        self.lone = Lone("A", "C", config=config)
        self.lone.receive("C", advertise("of C", "ANY"))
        self.live: dict[EntryId, Filter] = {}
        self.held: dict[EntryId, Filter] = {}
        self.count = 0

    def do(self, step: str | int) -> None:
        if step == "tick":
            self.tick()
        elif isinstance(step, str):
            self.count += 1
            id = EntryId("far", f"s{self.count}", 1, self.count)
            self.live[id] = parse(step)
            self.read(self.lone.receive("A", Subscribe(id, self.live[id])))
        elif self.live:
            id = list(self.live)[step % len(self.live)]
            del self.live[id]
            self.read(self.lone.receive("A", Unsubscribe((id,))))

    def tick(self) -> bool:
        """Whether it is to be woken again."""
        self.lone.now_us += 1_000_000
        actions = self.lone.handle(TimerFired(TIMER))
        self.read(actions)
        return any(isinstance(action, SetTimer) for action in actions)

    def read(self, actions: list) -> None:
        for message in sent(actions):
            self.take(message)
        assert validate(self.lone.broker) == []
        held = list(self.held.values())
        for wanted in self.live.values():
            assert any(covers(wide, wanted) for wide in held), f"nothing covers {wanted}"

    def take(self, message: object) -> None:
        if isinstance(message, SubscribeMany):
            for each in message.subscriptions:
                self.take(each)
        elif isinstance(message, Subscribe):
            assert message.id not in self.held
            self.held[message.id] = message.filter
            self.read(self.lone.receive("C", SubscriptionsSettled((message.id,))))
        elif isinstance(message, Unsubscribe | Retire):
            for id in message.ids:
                del self.held[id]

    def come_to_rest(self) -> None:
        for _ in range(REST_STEPS_MAX):
            if not self.tick():
                return
        raise AssertionError(f"it is not at rest after {REST_STEPS_MAX} steps")


@given(CONFIGS, STEPS)
def test_in_the_end_nothing_is_left_to_merge(config, steps):
    fed = Fed(config)
    for step in steps:
        fed.do(step)
    fed.come_to_rest()
    held = list(fed.held.values())
    for f, g in combinations(held, 2):
        found = merge(f, g)
        new = found.perfect and found.filter not in (f, g) and meet(f, g)
        left = new and covers(found.filter, f) and covers(found.filter, g)
        assert not left, f"{f} and {g} are {found.filter}"
    if not config.merging_false_positives:
        for value in VALUES:
            for rest in ({}, {"t": "X"}, {"t": "Y", "q": 1}):
                attributes = {**value, **rest}
                wanted = any(f.matches(attributes) for f in fed.live.values())
                assert any(f.matches(attributes) for f in held) == wanted


@given(CONFIGS, STEPS)
def test_when_all_have_gone_nothing_is_left(config, steps):
    fed = Fed(config)
    for step in steps:
        fed.do(step)
    while fed.live:
        fed.do(0)
    fed.come_to_rest()
    assert fed.held == {}
    assert len(fed.lone.broker.placeholders) == 0
