"""Service times: what a batch costs, and what the stored profiles say."""

import pytest

from byway.core.inputs import ClientDetached, ClientRequested, FrameReceived
from byway.model import TRUE
from byway.model.messages import (
    Acknowledge,
    Advertise,
    Batch,
    EntryId,
    Lane,
    Publish,
    PublishRequest,
    Retire,
    Subscribe,
    SubscribeMany,
    SubscribeRequest,
    SubscriptionsSettled,
    Unadvertise,
    Unsubscribe,
    UnsubscribeRequest,
)
from byway.sim.engine.service import (
    INSTANT,
    Cost,
    PolicyCosts,
    ProfileError,
    ServiceProfile,
    load_profile,
    profile_names,
    read_profile,
)

ID = EntryId("c", "s", 1)
PUBLISH = Publish("p", 1, 1, 0, 0, 0, 0, b"")
PROFILE = ServiceProfile(
    name="test",
    batch_us=1_000,
    publication=Cost(100, 1),
    subscribe=Cost(10),
    unsubscribe=Cost(7),
    advertise=Cost(5),
    unadvertise=Cost(3),
    other=Cost(2),
    covering=Cost(40, 2),
    packed=Cost(20, 1),
    policies={"lazy": PolicyCosts(publication=Cost(1), covering=Cost(4))},
)


def frame(*messages, lane=Lane.CONTROL):
    return FrameReceived("A", Batch(lane, 1, messages))


@pytest.mark.parametrize(
    ("event", "policy", "needed_us"),
    [
        (frame(PUBLISH, PUBLISH, lane=Lane.DATA), "none", 2 * (100 + 50)),
        (frame(PUBLISH, lane=Lane.DATA), "lazy", 1),
        (frame(Subscribe(ID, TRUE)), "none", 10),
        (frame(Subscribe(ID, TRUE)), "active", 10 + 40 + 2 * 50),
        (frame(Subscribe(ID, TRUE)), "lazy", 10 + 4),
        (frame(Unsubscribe((ID, ID, ID))), "none", 3 * 7),
        (frame(Retire((ID, ID))), "none", 2 * 7),
        (frame(SubscribeMany((Subscribe(ID, TRUE),) * 3)), "none", 3 * 10),
        (frame(SubscribeMany((Subscribe(ID, TRUE),) * 3)), "packing", 3 * (10 + 20 + 50)),
        (frame(Advertise(ID, TRUE)), "none", 5),
        (frame(Unadvertise(ID, TRUE), lane=Lane.DATA), "none", 3),
        (frame(SubscriptionsSettled((ID, ID))), "none", 2),
        (ClientRequested("c", (PublishRequest(1, b""),)), "none", 150),
        (ClientRequested("c", (SubscribeRequest("s", TRUE),)), "none", 10),
        (ClientRequested("c", (UnsubscribeRequest(("s", "t")),)), "none", 14),
    ],
)
def test_time_of_one_input_with_fifty_entries(event, policy, needed_us):
    assert PROFILE.times(policy).of([event], 50) == 1_000 + needed_us


def test_a_batch_costs_once_and_what_carries_no_message_costs_nothing():
    times = PROFILE.times("none")
    acknowledgement = FrameReceived("A", Acknowledge(1, 0, 0))
    assert times.of([acknowledgement, ClientDetached("c", True)], 50) == 0
    both = [acknowledgement, frame(Advertise(ID, TRUE)), frame(Advertise(ID, TRUE))]
    assert times.of(both, 50) == 1_000 + 2 * 5


def test_work_is_added_up_by_kind():
    times = PROFILE.times("packing")
    pack = frame(SubscribeMany((Subscribe(ID, TRUE),) * 3))
    asked = ClientRequested("c", (SubscribeRequest("s", TRUE), PublishRequest(1, b"")))
    times.of([pack, asked, frame(Subscribe(ID, TRUE)), frame(Retire((ID, ID)))], 50)
    work = times.work
    assert work.busy_us == {
        "subscribe": 5 * 10, "packed": 3 * (20 + 50), "covering": 2 * (40 + 100),
        "publication": 150, "unsubscribe": 14,
    }  # fmt: skip
    assert work.messages == {"subscribe": 3, "publication": 1, "unsubscribe": 1}
    work.add(work)
    assert work.busy_us["publication"] == 300
    assert work.messages["subscribe"] == 6


def test_a_pack_saves_nothing_unless_the_profile_says_so():
    plain = ServiceProfile(name="x", covering=Cost(40)).times("packing")
    assert plain.of([frame(SubscribeMany((Subscribe(ID, TRUE),) * 3))], 50) == 120


def test_a_profile_without_times_is_instant():
    assert INSTANT.times("active").instant
    assert not PROFILE.times("none").instant
    assert not ServiceProfile(name="x", batch_us=1).times("none").instant
    assert ServiceProfile(name="x", covering=Cost(1)).times("none").instant


def test_profiles_by_name():
    assert profile_names() == ("instant", "measured", "paper", "paper-slow")
    for name in profile_names():
        assert load_profile(name).name == name
    with pytest.raises(
        ProfileError, match="'fast': expected one of instant, measured, paper, paper-slow"
    ):
        load_profile("fast")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("publication = 3", r"Expected `object`, got `int` - at `\$.publication`"),
        ("[publication]\nbase_ms = 3", "unknown field `base_ms`"),
        ("[publication]\nbase_us = -3", "a time of -3 us: expected 0 up"),
        ("[publication", "Expected ']'"),
    ],
)
def test_a_profile_that_cannot_be_read(text, reason):
    with pytest.raises(ProfileError, match=reason):
        read_profile("mine", text)


# Table II of "Incremental filter aggregation": total seconds and milliseconds a message, under
# active, lazy and none.
SECONDS = {"matching": (14.5, 28.8, 33.7), "covering": (216, 486, 0), "unsub": (11.7, 0, 0)}
MILLISECONDS = {
    "matching": (0.81, 1.6, 1.6),
    "covering": (12, 27, 0),
    "unsub": (1.4, 0, 0),
    "publication": (3.0, 6.2, 7.9),
}


@pytest.mark.parametrize("policy", [0, 1, 2], ids=["active", "lazy", "none"])
def test_paper_fits_table_two_within_a_tenth(policy):
    row = "covering" if MILLISECONDS["covering"][policy] else "matching"
    subscriptions = SECONDS[row][policy] * 1_000 / MILLISECONDS[row][policy]
    withdrawn = SECONDS["unsub"][policy] * 1_000 / (MILLISECONDS["unsub"][policy] or 1)
    entries = subscriptions - withdrawn
    paper = load_profile("paper")
    for cost, row, size in (
        (paper.subscribe, "matching", entries / 2),  # on average while the table fills
        (paper.covering, "covering", entries / 2),
        (paper.unsubscribe, "unsub", entries / 2),
        (paper.publication, "publication", entries),
    ):
        told = MILLISECONDS[row][policy]
        if told:
            assert cost.per_entry_us * size / 1_000 == pytest.approx(told, rel=0.1)
            assert cost.base_us == 0


def test_paper_slow_is_paper_times_ten():
    paper, slow = load_profile("paper"), load_profile("paper-slow")
    for kind in ("publication", "subscribe", "unsubscribe", "advertise", "unadvertise"):
        assert getattr(slow, kind).per_entry_us == pytest.approx(
            10 * getattr(paper, kind).per_entry_us
        )
    assert slow.covering.per_entry_us == pytest.approx(10 * paper.covering.per_entry_us)
    for profile in (paper, slow):
        assert profile.packed is not None
        assert profile.packed.per_entry_us == pytest.approx(profile.covering.per_entry_us / 2)


def test_under_paper_active_is_slow_to_subscribe_and_fast_to_publish():
    paper = load_profile("paper")
    active, none = paper.times("active"), paper.times("none")
    subscribe = [frame(Subscribe(ID, TRUE))]
    assert active.of(subscribe, 4_822) > 8 * none.of(subscribe, 10_531)
    publish = [frame(PUBLISH, lane=Lane.DATA)]
    assert active.of(publish, 9_643) < 0.5 * none.of(publish, 21_062)
