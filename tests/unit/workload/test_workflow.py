"""Workflow: who waits for what, and that every message starts something."""

import numpy as np

from byway.model import covers
from byway.workload import Workflow

SMALL = Workflow(seed=1, small=8, medium=8, large=4, instances=2)


def test_every_activity_of_every_instance_waits_once() -> None:
    filters = SMALL.take_filters(SMALL.subscription_count())
    texts = [str(filter) for filter in filters]
    assert len(set(texts)) == len(texts) == (8 * 3 + 8 * 10 + 4 * 26) * 2 + 6
    assert texts[:4] == [
        "process = 'p00000'",
        "activity = 0 AND instance = 0 AND process = 'p00000'",
        "activity = 1 AND instance = 0 AND process = 'p00000'",
        "activity = 2 AND instance = 0 AND process = 'p00000'",
    ]
    watchers = [filter for filter in filters if "activity" not in str(filter)]
    assert len(watchers) == 6
    assert sum(covers(watchers[0], filter) for filter in filters) == 1 + 3 * 2


def test_every_message_starts_one_activity() -> None:
    filters = SMALL.take_filters(SMALL.subscription_count())
    waiting = [filter for filter in filters if "activity" in str(filter)]
    publications = SMALL.take_publications(300)
    assert {sum(f.matches(p) for f in waiting) for p in publications} == {1}
    assert len({p["process"] for p in publications}) == SMALL.processes


def test_chunks_are_those_of_the_whole() -> None:
    workload = Workflow()
    assert workload.subscription_count() == 20_860
    texts = [text for chunk in range(6) for text in workload.subscriptions(chunk).texts()]
    assert len(texts) == 20_860
    assert texts == [str(f) for f in workload.take_filters(20_860)]
    assert len(workload.subscriptions(7)) == 0
    assert np.mean([p["activity"] for p in workload.take_publications(500)]) > 3
