"""Where rows are and when they move: clusters, feeds, people on the move, auditors."""

from itertools import pairwise

import numpy as np
import pytest

from byway.workload import Clustered, Feeds, Mobile, ScheduleChunk, Siena, Workflow
from byway.workload.chunks import NOWHERE


def test_a_workload_that_does_not_say_says_so() -> None:
    workload = Siena()
    assert workload.broker_names() == ()
    assert workload.subscription_places(0) is workload.publication_places(0) is None
    assert workload.schedule(0) is None


# --- clustered


def test_clusters_have_two_to_four_brokers() -> None:
    for seed in range(20):
        sizes = np.diff(Clustered(seed=seed).clusters())
        assert sizes.sum() == 55
        assert 2 <= sizes.min() <= sizes[:-1].max() <= 4
        assert sizes[-1] < 4 + 2


def test_a_group_is_in_one_cluster_and_all_over_it() -> None:
    workload = Clustered(seed=3, count=12_000, degree=30)
    starts = workload.clusters()
    at: dict[int, set[int]] = {}
    for chunk in range(3):
        places = workload.subscription_places(chunk)
        assert len(places) == len(workload.subscriptions(chunk))
        for group, place in zip(workload.groups(chunk).tolist(), places.tolist(), strict=True):
            at.setdefault(group, set()).add(place)
    clusters = {
        group: {int(np.searchsorted(starts, place, side="right")) for place in places}
        for group, places in at.items()
    }
    assert {len(those) for those in clusters.values()} == {1}
    assert len({min(those) for those in clusters.values()}) == len(starts) - 1
    sizes = {group: int(np.diff(starts)[min(those) - 1]) for group, those in clusters.items()}
    assert sum(len(at[group]) == sizes[group] for group in at) > 0.9 * len(at)


# --- feeds


@pytest.mark.parametrize(
    ("workload", "subscriptions", "share"),
    [
        (Feeds(seed=1), 6_552, 0.09),
        (Feeds(seed=1, feeds=60, density=10), 19_472, 0.53),
        (Feeds(seed=1, brokers=250, feeds=250, subscribers=125), 28_690, 0.09),
        (Feeds(seed=1, brokers=21, feeds=20, subscribers=10, items=50, density=6), 900, 0.09),
        (Feeds(seed=1, brokers=21, feeds=20, subscribers=11, items=50, density=69), 6_000, 0.54),
    ],
    ids=["DT1", "DT2", "DT3", "DT4", "DT5"],
)
def test_counts_are_those_of_the_seed(workload: Feeds, subscriptions: int, share: float) -> None:
    count = workload.subscription_count()
    assert count == pytest.approx(subscriptions, rel=0.02)
    matching = count / (workload.feeds * workload.items * workload.subscribers)
    assert matching == pytest.approx(share, abs=0.005)


def test_a_broker_wants_a_publication_once() -> None:
    workload = Feeds(seed=2)
    rows = [
        (text, place)
        for chunk in range(2)
        for text, place in zip(
            workload.subscriptions(chunk).texts(),
            workload.subscription_places(chunk).tolist(),
            strict=True,
        )
    ]
    assert len(rows) == len(set(rows)) == workload.subscription_count()
    assert len({place for _, place in rows}) == 60
    first = [text for text, _ in rows if text.endswith("item = 0")]
    last = [text for text, _ in rows if text.endswith("item = 9")]
    assert len(first) > 7 * len(last)


def test_a_feed_is_published_at_its_broker() -> None:
    workload = Feeds(seed=2, feeds=60, density=10)
    published = workload.publications(1).publications()
    names = workload.broker_names()
    at = [names[place] for place in workload.publication_places(1)]
    assert [publication["feed"] for publication in published] == at
    assert len(set(at)) == 60
    assert {publication["item"] for publication in published} == set(range(10))


# --- people on the move


def check_moves(workload: Mobile, chunk: int) -> ScheduleChunk:
    """Everybody leaves where they are, in order of time, and nobody leaves a region."""
    schedule = workload.schedule(chunk)
    at = dict(enumerate(workload.subscription_places(chunk).tolist(), start=chunk * workload.ROWS))
    size = workload.brokers // workload.regions
    for _, row, leaves, joins in zip(*(column.tolist() for column in schedule), strict=True):
        assert at[row] == leaves != joins
        assert leaves // size == joins // size
        at[row] = joins
    assert (np.diff(schedule.times_us) >= 0).all()
    return schedule


def test_the_rush_hour() -> None:
    schedule = check_moves(Mobile(seed=1), 1)
    moves = np.bincount(schedule.rows - Mobile.ROWS, minlength=Mobile.ROWS)
    assert np.mean(moves == 0) == pytest.approx(0.2, abs=0.03)
    assert np.mean(moves == 1) == pytest.approx(0.6, abs=0.03)
    assert moves.max() == 4
    assert schedule.times_us.min() >= 0
    assert schedule.times_us.max() < 7_200_000_000


def test_the_game() -> None:
    game = Mobile(
        seed=1, commuters=0, wanderers=1, regions=4, monitors=4, duration_s=20_000, stride=3
    )
    schedule = check_moves(game, 0)
    texts = game.subscriptions(0).texts()
    assert texts[:4] == ["TRUE"] * 4
    assert texts[4:] == Siena(seed=1).subscriptions(0).texts()[4:]
    for monitor in range(4):
        times = schedule.times_us[schedule.rows == monitor]
        assert times[0] == (monitor + 1) * 30_000_000
        assert set(np.diff(times).tolist()) == {120_000_000}
        assert len(set(schedule.joins[schedule.rows == monitor].tolist())) == 4
    assert (game.subscription_places(0)[:4] == [0, 4, 8, 12]).all()
    check_moves(game, 1)


# --- workflow


def test_processes_are_deployed_as_their_size_says() -> None:
    workload = Workflow(seed=4, instances=2)
    at: dict[str, set[int]] = {}
    for chunk in range(2):
        places = workload.subscription_places(chunk)
        for text, place in zip(workload.subscriptions(chunk).texts(), places, strict=True):
            if "activity" in text:
                at.setdefault(text.rpartition(" ")[2], set()).add(int(place))
    brokers = [at[process] for process in sorted(at)]
    assert {len(places) for places in brokers[:80]} == {1}
    assert {len({place // 6 for place in places}) for places in brokers[80:160]} == {1}
    assert max(len(places) for places in brokers[80:160]) > 3
    assert min(len({place // 6 for place in places}) for places in brokers[160:]) == 4


def test_auditors_come_and_leave() -> None:
    workload = Workflow(seed=4, auditors=4, duration_s=1_800)
    count = workload.subscription_count()
    last = (count - 1) // workload.ROWS
    assert workload.subscriptions(last).texts()[-4:] == ["activity = 0"] * 4
    assert (workload.subscription_places(last)[-4:] == NOWHERE).all()
    schedule = workload.schedule(last)
    one = schedule.rows == count - 3
    times, leaves, joins = (
        column[one].tolist() for column in (schedule.times_us, schedule.leaves, schedule.joins)
    )
    assert [time // 1_000_000 for time in times] == [600, 660, 1_200, 1_260, 1_800, 1_860]
    assert leaves[::2] == joins[1::2] == [NOWHERE] * 3
    assert leaves[1::2] == joins[::2]
    assert all(place // 6 == 1 for place in joins[::2])
    assert all(a != b for a, b in pairwise(joins[::2]))
    assert len(workload.schedule(0).rows) == 0
