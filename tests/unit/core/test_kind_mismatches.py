"""Comparisons with a value of another kind than publishers send: which are noticed, and when."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byway.core.kind_mismatches import COMPARED_MAX, KNOWN_MAX, SAMPLE_EVERY, KindMismatch
from byway.model import ANY, parse
from byway.model.messages import AdvertiseRequest, SubscribeRequest, UnsubscribeRequest
from byway.model.values import Kind, Value
from tests.lone_broker import Lone, publication, publish, subscribe


class Publisher:
    """A broker with a client that publishes, one publication after another."""

    def __init__(self, *links: str) -> None:
        self.lone = Lone(*links)
        self.lone.attach("p")
        self.lone.attach("s")
        self.lone.ask("p", AdvertiseRequest("a", ANY))
        self._sequence = 0

    def subscribe(self, name: str, text: str) -> None:
        self.lone.ask("s", SubscribeRequest(name, parse(text)))

    def publish(self, **attributes: Value) -> None:
        self._sequence += 1
        self.lone.ask("p", publish(self._sequence, **attributes))

    def pass_by(self, count: int) -> None:
        """So many publications that carry nothing of interest."""
        requests = [publish(self._sequence + n) for n in range(1, count + 1)]
        self._sequence += count
        self.lone.ask("p", *requests)

    @property
    def noticed(self) -> list[tuple[str, str, Kind, int]]:
        """Subscription, attribute, kind and number of samples of each mismatch."""
        return [(m.id.name, m.attribute, m.found, m.samples) for m in self.mismatches]

    @property
    def mismatches(self) -> list[KindMismatch]:
        return list(self.lone.broker.kind_mismatches)


def test_the_first_publication_after_a_subscription_is_compared_with_it():
    net = Publisher()
    net.subscribe("warm", "temperature > 20 AND room = 'kitchen'")
    net.publish(temperature="30", room="kitchen")
    assert net.noticed == [("warm", "temperature", Kind.STRING, 1)]
    (mismatch,) = net.mismatches
    assert mismatch.expected == (Kind.NUMBER,)
    net.publish(temperature="31", room=7)
    assert net.noticed == [("warm", "temperature", Kind.STRING, 1)]


def test_then_one_publication_in_a_thousand_is_compared_with_all():
    net = Publisher()
    net.subscribe("warm", "temperature > 20")
    net.subscribe("on", "on = TRUE")
    net.pass_by(SAMPLE_EVERY - 1)
    assert net.noticed == []
    net.publish(temperature="30", on=1)
    assert net.noticed == [
        ("warm", "temperature", Kind.STRING, 1),
        ("on", "on", Kind.NUMBER, 1),
    ]
    net.publish(temperature="30", on=1)
    net.pass_by(SAMPLE_EVERY - 2)
    net.publish(temperature="30", on=True)
    assert net.noticed == [("warm", "temperature", Kind.STRING, 2)]


def test_subscribing_does_not_put_off_the_one_in_a_thousand():
    net = Publisher()
    net.subscribe("warm", "temperature > 20")
    for n in range(9):
        net.pass_by(100)
        net.subscribe(f"other {n}", "x = 1")
    net.pass_by(99)
    net.publish(temperature="30")
    assert net.noticed == [("warm", "temperature", Kind.STRING, 1)]


def test_publications_of_neighbours_count_and_subscriptions_of_neighbours_do_not():
    net = Publisher("A")
    net.lone.receive("A", subscribe("far", "temperature > 20"))
    net.subscribe("near", "temperature > 20")
    net.lone.receive("A", publication(1, temperature="30"))
    assert net.noticed == [("near", "temperature", Kind.STRING, 1)]


def test_a_comparison_that_met_the_right_kind_once_is_never_told_again():
    net = Publisher()
    net.subscribe("warm", "temperature > 20")
    net.publish(temperature=3)
    net.pass_by(SAMPLE_EVERY - 2)
    net.publish(temperature="30")
    assert net.noticed == []


@pytest.mark.parametrize(
    ("wanted", "value"),
    [
        ("x > 1", 0),
        ("x > 1", 0.5),
        ("x > 1", float("nan")),
        ("x = 'a'", "b"),
        ("x EXISTS", "b"),
        ("x IS NULL", "b"),
        ("x = 1 OR x = 'a'", "b"),
        ("x = 1 OR x EXISTS AND y = 1", "b"),
    ],
)
def test_what_may_match_another_value_of_the_kind_is_no_mismatch(wanted: str, value: Value):
    net = Publisher()
    net.subscribe("s", wanted)
    net.publish(x=value)
    assert net.noticed == []


def test_a_subscription_that_has_ended_is_not_told():
    net = Publisher()
    net.subscribe("warm", "temperature > 20")
    net.publish(temperature="30")
    net.lone.ask("s", UnsubscribeRequest(("warm",)))
    assert net.noticed == []
    net.subscribe("warm", "temperature > 20")
    net.lone.ask("s", UnsubscribeRequest(("warm",)))
    net.publish(temperature="30")
    assert net.noticed == []


def test_many_subscriptions_are_compared_in_turn():
    net = Publisher()
    for n in range(COMPARED_MAX + 5):
        net.subscribe(f"s{n}", "temperature > 20")
    net.pass_by(SAMPLE_EVERY - 1)
    net.publish(temperature="30")
    assert len(net.noticed) == COMPARED_MAX
    net.pass_by(SAMPLE_EVERY - 1)
    net.publish(temperature="30")
    assert len(net.noticed) == COMPARED_MAX + 5
    net.pass_by(SAMPLE_EVERY - 1)
    net.publish(temperature="30")
    assert [samples for *_, samples in net.noticed] == [2] * COMPARED_MAX + [1] * 5


def test_what_is_remembered_is_bounded():
    net = Publisher()
    names = [f"x{n}" for n in range(60)]
    wanted = " AND ".join(f"{name} = 1" for name in names)
    for n in range(COMPARED_MAX):
        net.subscribe(f"s{n}", wanted)
    net.publish(**dict.fromkeys(names, "1"))
    assert len(net.noticed) == KNOWN_MAX
    assert net.lone.broker.kind_mismatches.noticed == COMPARED_MAX * len(names)


@given(
    st.lists(st.tuples(st.sampled_from(["x", "y"]), st.sampled_from([1, "1", True])), max_size=6)
)
def test_a_comparison_is_noticed_iff_all_that_it_met_were_of_other_kinds(
    published: list[tuple[str, Value]],
):
    net = Publisher()
    net.subscribe("s", "x = 1 AND y = 'a'")
    for name, value in published:
        net.pass_by(SAMPLE_EVERY - 1)
        net.publish(**{name: value})
    kinds = {"x": int, "y": str}
    expected = {
        name
        for name, kind in kinds.items()
        if (met := [type(v) for n, v in published if n == name]) and kind not in met
    }
    assert {attribute for _, attribute, _, _ in net.noticed} == expected
