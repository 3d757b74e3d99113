"""Change-overs: how long a publisher that takes a detour is kept back, and when again."""

import msgspec
import pytest

from byway.core.actions import Action, Send, SetTimer, Timer
from byway.core.broker_config import BrokerConfig
from byway.core.in_flight import COPY_BYTES
from byway.core.inputs import LinkUp, Started, TimerFired
from byway.core.invariants import validate
from byway.core.mesh.change_overs import (
    CHANGE_OVERS_MAX,
    DOUBLINGS,
    FORGOTTEN,
    REST,
    REST_OF_PAUSE,
    STALLED,
    ChangeOver,
    ChangeOvers,
)
from byway.core.mesh.mesh_config import MeshConfig
from byway.model.messages import (
    BrokerRecord,
    Hello,
    LinkKind,
    RecordUpdate,
    RelayedRecord,
    SpanTaken,
    SubscribeAlong,
)
from tests.core_net import is_data
from tests.lone_broker import Lone, advertise, publication, subscribe
from tests.unit.core.mesh_parts import mesh_of

KEY = ("p", 1, "C")
UNIT_US = 1_000_000
STALLED_US, REST_US = STALLED * UNIT_US, REST * UNIT_US


class Kept:
    """The change-overs of one broker, with a clock."""

    def __init__(self) -> None:
        self.overs, self.now_us, self.left = ChangeOvers(UNIT_US), 0, 100

    def keeps_back(self, after_us: int = 0, *, confirmed: int = 0) -> bool:
        """Whether the next publication is held, after so many were confirmed."""
        self.now_us += after_us
        self.left -= confirmed
        return self.overs.keeps_back(KEY, self.now_us, self.left)

    def change_over(self, took_us: int) -> None:
        """Keep it back until all are confirmed."""
        assert self.keeps_back()
        self.now_us += took_us
        self.overs.on_free(KEY, self.now_us)

    def begin(self) -> None:
        """Let it be kept back for the first time."""
        assert not self.keeps_back()
        assert self.keeps_back(UNIT_US)

    def rest_us(self) -> int:
        """The time to the next change-over."""
        (one,) = self.overs.state
        return one.next_us - self.now_us


def test_a_publisher_is_kept_back_once_it_has_taken_a_detour_for_a_while():
    kept = Kept()
    assert not kept.keeps_back()
    assert not kept.keeps_back(UNIT_US - 1)
    assert len(kept.overs.kept_back) == 0
    assert kept.keeps_back(1)
    assert len(kept.overs.kept_back) == 1


def test_another_branch_and_another_incarnation_have_their_own():
    kept = Kept()
    kept.begin()
    for other in (("p", 2, "C"), ("p", 1, "D"), ("q", 1, "C")):
        assert not kept.overs.keeps_back(other, kept.now_us, 1)


def test_it_lasts_as_long_as_enough_is_confirmed():
    kept = Kept()
    kept.left = 1_000
    kept.begin()
    for _ in range(7):
        assert kept.keeps_back(STALLED_US // 2, confirmed=130)
    assert kept.keeps_back(STALLED_US // 2 - UNIT_US // 10, confirmed=89)
    assert not kept.keeps_back(UNIT_US // 10), "it has taken too long in all"
    assert len(kept.overs.kept_back) == 0
    assert kept.overs.failed == 1


def test_it_is_asked_about_though_nothing_was_confirmed():
    """As when links have changed, or the change-over of another publisher has failed."""
    kept = Kept()
    kept.begin()
    assert kept.keeps_back(1, confirmed=50)
    for _ in range(3):
        assert kept.keeps_back(STALLED_US // 4)
    assert not kept.keeps_back(STALLED_US // 4), "nothing was confirmed since"


def test_it_fails_as_soon_as_it_would_take_too_long():
    """With 100 to confirm, one in 0.64 s would do."""
    kept = Kept()
    kept.begin()
    assert kept.keeps_back(STALLED_US, confirmed=25)
    kept = Kept()
    kept.begin()
    assert kept.keeps_back(STALLED_US - 1, confirmed=24), "that is too few, but it has just begun"
    assert not kept.keeps_back(1)
    kept = Kept()
    kept.begin()
    assert kept.keeps_back(STALLED_US - 1, confirmed=24)
    assert kept.overs.end_failed(kept.now_us + 1) == [KEY]


def test_it_ends_when_much_is_held():
    kept = Kept()
    kept.keeps_back()
    kept.now_us += UNIT_US
    assert not kept.overs.keeps_back(KEY, kept.now_us, 9, may_begin=False)
    assert kept.overs.begun == 0
    assert kept.overs.keeps_back(KEY, kept.now_us, 9)
    assert not kept.overs.keeps_back(KEY, kept.now_us, 9, may_begin=False)
    assert kept.overs.failed == 1


def test_one_that_does_not_get_on_is_ended_by_the_timer():
    kept = Kept()
    kept.begin()
    started_us = kept.now_us
    assert kept.keeps_back(STALLED_US // 2, confirmed=50)
    assert kept.overs.next_us(kept.now_us) == kept.now_us + STALLED_US
    assert kept.overs.end_failed(kept.now_us + STALLED_US - 1) == []
    assert kept.overs.end_failed(kept.now_us + STALLED_US) == [KEY]
    assert kept.overs.next_us(kept.now_us) is None
    assert len(kept.overs.kept_back) == 0
    kept.now_us += STALLED_US
    assert kept.rest_us() == max(REST_US, (kept.now_us - started_us) * REST_OF_PAUSE) * 2
    assert not kept.keeps_back(kept.rest_us() - 1)
    assert kept.keeps_back(1)


def test_all_that_are_kept_back_are_looked_at_now_and_then_only():
    kept = Kept()
    kept.begin()
    later_us = kept.now_us + STALLED_US - 1
    assert kept.overs.next_us(later_us) == later_us + UNIT_US


def test_failures_double_the_time_to_the_next_and_a_success_ends_that():
    kept, rests = Kept(), []
    kept.begin()
    for _ in range(DOUBLINGS + 2):
        kept.now_us += STALLED_US
        assert kept.overs.end_failed(kept.now_us) == [KEY]
        rests.append(kept.rest_us())
        assert kept.keeps_back(kept.rest_us())
    doubled = [REST_US << min(n + 1, DOUBLINGS) for n in range(DOUBLINGS + 2)]
    assert rests == doubled
    kept.overs.on_free(KEY, kept.now_us)
    assert kept.rest_us() == REST_US


def test_long_ones_that_get_no_shorter_double_the_time_to_the_next():
    kept, took_us = Kept(), 20 * UNIT_US
    kept.begin()
    kept.now_us += took_us
    kept.overs.on_free(KEY, kept.now_us)
    rests = [kept.rest_us()]
    for next_us in (took_us, took_us // 2 + 1, took_us // 4, UNIT_US, UNIT_US):
        kept.now_us += kept.rest_us()
        kept.change_over(next_us)
        rests.append(kept.rest_us())
    first = took_us * REST_OF_PAUSE
    assert rests == [first, 2 * first, 4 * max(REST_US, first // 2 + 2), *[REST_US] * 3]
    assert kept.overs.failed == 0


def test_a_long_one_is_followed_by_a_long_rest():
    kept = Kept()
    kept.begin()
    kept.now_us += 5 * STALLED_US
    kept.overs.on_free(KEY, kept.now_us)
    assert kept.rest_us() == 5 * STALLED_US * REST_OF_PAUSE > REST_US


def test_publishers_that_take_no_detours_any_more_are_forgotten():
    kept = Kept()
    kept.begin()
    kept.overs.forget(kept.now_us + 10 * FORGOTTEN * UNIT_US)
    assert len(kept.overs.kept_back) == 1, "not while it is kept back"
    kept.overs.on_free(KEY, kept.now_us)
    gone_us = kept.now_us + kept.rest_us() + FORGOTTEN * UNIT_US
    kept.overs.forget(gone_us - 1)
    assert len(kept.overs.state) == 1
    kept.overs.forget(gone_us)
    assert kept.overs.state == []


def test_there_is_a_bound():
    """At the bound those that are gone make room, also where nobody has them forgotten."""
    overs = ChangeOvers(UNIT_US, (ChangeOver("p", n, "C", 0) for n in range(CHANGE_OVERS_MAX)))
    for now_us in (0, 10 * UNIT_US, FORGOTTEN * UNIT_US - 1):
        assert not overs.keeps_back(("one more", 1, "C"), now_us, 1)
    assert len(overs.state) == CHANGE_OVERS_MAX
    assert "one more" not in {one.publisher for one in overs.state}
    gone_us = FORGOTTEN * UNIT_US
    assert not overs.keeps_back(("one more", 1, "C"), gone_us, 1)
    assert overs.keeps_back(("one more", 1, "C"), gone_us + UNIT_US, 1)
    assert len(overs.state) == CHANGE_OVERS_MAX


def test_it_goes_on_from_its_state():
    kept = Kept()
    kept.begin()
    stored = msgspec.msgpack.encode(kept.overs.state)
    again = ChangeOvers(UNIT_US, msgspec.msgpack.decode(stored, type=list[ChangeOver]))
    assert len(again.kept_back) == 1
    assert again.state == kept.overs.state
    assert again.next_us(0) == kept.overs.next_us(0)


# --- in a broker -------------------------------------------------------------------------------


class OnDetour:
    """B, with a soft link to D past C; a publication of `a` on the link to C is not confirmed."""

    def __init__(
        self,
        *publishers: str,
        restored: bool = False,
        detour_us_max: int = UNIT_US,
        **options: int,
    ) -> None:
        """`publishers`: others that have one there too."""
        mesh = MeshConfig(delta=4, strategy="S2", interval_us=0, detour_us_max=detour_us_max)
        config = BrokerConfig(mesh=mesh, **options)
        lone = self.lone = Lone("A", "C", config=config, restored=restored)
        lone.receive("A", advertise("a"))
        records = (("C", 1, ("B", "D")), ("D", 2, ("C",)))
        told = (RelayedRecord(BrokerRecord(n, 1, 1, to, 4, f"at {n}"), h) for n, h, to in records)
        lone.receive("C", RecordUpdate(True, (), tuple(told)))
        lone.receive("C", SubscribeAlong(subscribe("d").id, subscribe("d").filter, ("D",)))
        self.last = 0
        for publisher in ("far", *publishers):
            assert self.publish(publisher=publisher) == ["C"]  # the soft link is not open yet
        assert mesh_of(lone.broker).open_soft("D")
        lone.sent["D"] = [0, 0]
        window = lone.broker.config.publisher_window
        hello = Hello("D", 1, 0, 0, 0, 0, publisher_window=window, kind=LinkKind.SOFT)
        lone.handle(LinkUp("D", hello))
        lone.receive("D", SpanTaken(("C",)))

    def publish(self, after_us: int = 0, publisher: str = "far") -> list[str]:
        """The links that the next publication takes."""
        self.lone.now_us += after_us
        self.last += 1
        message = publication(self.last, publisher=publisher, p=5)
        return links(self.lone.receive("A", message))


def links(actions: list[Action]) -> list[str]:
    return [a.link for a in actions if isinstance(a, Send) and is_data(a.frame)]


def timers(actions: list[Action]) -> list[SetTimer]:
    return [a for a in actions if isinstance(a, SetTimer) and a.timer.detail == "change-overs"]


@pytest.mark.parametrize("restored", [False, True])
def test_a_broker_keeps_a_publisher_back_until_it_can_use_the_soft_link(restored):
    scene = OnDetour(restored=restored)
    assert scene.publish() == ["C"], "a detour: the first one is not confirmed"
    assert scene.publish(UNIT_US) == [], "it is kept back"
    assert scene.publish() == []
    assert links(scene.lone.acknowledge("C", 1)) == []
    assert links(scene.lone.acknowledge("C", 2)) == ["D"], "both in one frame"
    assert scene.lone.broker.unconfirmed("D") == 2
    assert scene.publish() == ["D"]
    assert validate(scene.lone.broker) == []


@pytest.mark.parametrize("restored", [False, True])
def test_a_broker_gives_up_when_nothing_is_confirmed(restored):
    scene = OnDetour(restored=restored)
    assert scene.publish() == ["C"]
    scene.lone.now_us += UNIT_US
    scene.last += 1
    begun_us = scene.lone.now_us
    (timer,) = timers(scene.lone.receive("A", publication(scene.last, p=5)))
    assert timer.at_us == begun_us + STALLED_US
    scene.lone.now_us = begun_us + UNIT_US
    assert links(scene.lone.acknowledge("C", 1)) == []
    scene.lone.now_us = timer.at_us
    (timer,) = timers(scene.lone.handle(TimerFired(timer.timer)))
    assert timer.at_us == begun_us + UNIT_US + STALLED_US, "something was confirmed meanwhile"
    scene.lone.now_us = timer.at_us
    assert links(scene.lone.handle(TimerFired(timer.timer))) == ["C"]
    assert scene.publish() == ["C"]
    assert validate(scene.lone.broker) == []


@pytest.mark.parametrize("held", [1, 2])
def test_a_broker_gives_up_when_much_is_held(held):
    """The bound allows for four times one publication and a half; when a quarter of it is held, no
    more publishers are kept back."""
    size = COPY_BYTES + len(publication(1, p=5).body)
    scene = OnDetour(link_bytes_max=4 * (size + size // 2))
    assert scene.publish() == ["C"]
    assert [scene.publish(UNIT_US) for _ in range(held)] == [[]] * held
    assert links(scene.lone.acknowledge("C", 1)) == (["C"] if held > 1 else [])


def test_a_broker_keeps_nobody_back_where_nothing_may_be_held():
    scene = OnDetour(link_bytes_max=1)
    assert [scene.publish(10 * UNIT_US) for _ in range(3)] == [["C"]] * 3


def test_another_publisher_that_fails_gives_nobody_more_time():
    """What is held in the branch is looked at again then."""
    scene, confirmed_us = OnDetour("other"), []
    for name in ("far", "other"):
        assert scene.publish(0, name) == ["C"]
        assert scene.publish(UNIT_US, name) == []
    for number in (1, 2):  # the first one of each; the second ones are not confirmed
        scene.lone.now_us += UNIT_US
        assert links(scene.lone.acknowledge("C", number)) == []
        confirmed_us.append(scene.lone.now_us)
    change_overs = mesh_of(scene.lone.broker).planner().change_overs
    assert len(change_overs.kept_back) == 2
    assert scene.lone.broker.mesh().kept_back == ("far", "other")
    for at_us, left in zip(confirmed_us, (1, 0), strict=True):
        scene.lone.now_us = at_us + STALLED_US
        assert links(scene.lone.handle(TimerFired(Timer("mesh", "change-overs")))) == ["C"]
        assert len(change_overs.kept_back) == left


def test_a_broker_that_starts_again_keeps_nobody_back():
    scene = OnDetour()
    assert scene.publish() == ["C"]
    assert scene.publish(UNIT_US) == []
    scene.lone.handle(Started())
    assert mesh_of(scene.lone.broker).planner().change_overs.state == []


def test_without_a_limit_nobody_is_kept_back():
    scene = OnDetour(detour_us_max=0)
    assert [scene.publish(10 * UNIT_US) for _ in range(3)] == [["C"]] * 3
