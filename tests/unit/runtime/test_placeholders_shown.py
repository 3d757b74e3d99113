"""Preserved subscriptions and mergers can be seen: status, topology show, metrics, trace."""

import asyncio
from collections.abc import Iterator

import pytest
from rich.console import Console

from byway.cli.topology import _tree
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import LoadSampled, TimerFired
from byway.core.placeholders import sample_placeholders
from byway.core.subscriptions import TIMER
from byway.model import parse
from byway.model.addresses import Address
from byway.model.messages import SubscribeRequest, SubscriptionsSettled, UnsubscribeRequest
from byway.model.status import BrokerStatus, PlaceholderStatus, decode_status, encode_status
from byway.runtime.inspection import FILTER_LENGTH_MAX, PLACEHOLDERS_MAX, status_of
from byway.runtime.metrics import Metrics
from byway.runtime.server import BrokerServer
from byway.runtime.settings import BrokerSettings
from byway.trace import TraceBuffer
from tests.lone_broker import Lone, advertise, publication

SETTINGS = BrokerSettings(id="B", listen=Address("127.0.0.1", 7001))
PRUNING = BrokerConfig(
    covering="incremental",
    incremental_bursts=(1, 5_000),
    pruning_samples_min=1,
    merging=True,
)


def preserving(wide: int = 1, postponed: bool = False) -> Lone:
    """B, whose clients took back so many broad subscriptions that stand for a narrow one each on
    the link to A; publications matched them all."""
    lone = Lone("A", "C", config=PRUNING)
    lone.receive("A", advertise("a"))
    lone.attach("c")
    for number in range(wide):
        for name, filter in (("wide", "p > 0"), ("narrow", "p > 5")):
            request = SubscribeRequest(f"{name}{number}", parse(f"{filter} AND q = {number}"))
            lone.ask("c", request)
        lone.receive("A", publication(number + 1, p=7, q=number))
    lone.receive("A", SubscriptionsSettled(tuple(e.id for e in lone.broker.subscriptions)))
    if postponed:
        lone.handle(LoadSampled(5_000))
    lone.ask("c", UnsubscribeRequest(tuple(f"wide{number}" for number in range(wide))))
    return lone


def merging() -> Lone:
    """B, which sent one filter to A in the place of two."""
    lone = Lone("A", "C", config=PRUNING)
    lone.receive("A", advertise("a"))
    lone.attach("c")
    for name, filter in (("low", "p > 0 AND p < 5"), ("high", "p >= 5 AND p < 9")):
        lone.ask("c", SubscribeRequest(name, parse(filter)))
    lone.now_us = 60_000_000
    lone.handle(TimerFired(TIMER))
    return lone


def in_process(broker: Broker, look) -> object:
    async def looked() -> object:
        return look(BrokerServer(SETTINGS, broker))

    return asyncio.run(looked())


def status(broker: Broker) -> BrokerStatus:
    found = in_process(broker, status_of)
    return decode_status(encode_status(found))  # as it travels


# --- status ------------------------------------------------------------------------------------


def test_the_status_tells_what_is_preserved_and_where() -> None:
    told = status(preserving().broker)
    assert (told.covering, told.preserved, told.mergers) == ("incremental", 1, 0)
    assert told.statistics == 1  # what the narrow one received; the other's went with it
    assert [(link.broker, link.preserved) for link in told.links] == [("A", 1), ("C", 0)]
    assert told.placeholders == [
        PlaceholderStatus(
            client="c",
            name="wide0",
            state="preserved",
            links=["A"],
            filter=str(parse("p > 0 AND q = 0")),
        )
    ]


def test_what_is_postponed_is_told_apart() -> None:
    (placeholder,) = status(preserving(postponed=True).broker).placeholders
    assert placeholder.state == "postponed"


def test_the_status_tells_of_mergers() -> None:
    told = status(merging().broker)
    assert (told.preserved, told.mergers) == (0, 1)
    assert [(link.broker, link.mergers) for link in told.links] == [("A", 1), ("C", 0)]
    (placeholder,) = told.placeholders
    assert (placeholder.client, placeholder.state, placeholder.links) == (
        "merge@B",
        "merged",
        ["A"],
    )
    assert placeholder.filter == str(parse("p > 0 AND p < 9"))


def test_a_status_stays_small() -> None:
    lone = preserving(PLACEHOLDERS_MAX + 7)
    told = status(lone.broker)
    assert (told.preserved, len(told.placeholders)) == (PLACEHOLDERS_MAX + 7, PLACEHOLDERS_MAX)
    assert told.placeholders[0].name == "wide0"
    for entry in lone.broker.placeholders:
        entry.filter = parse(f"x = '{'y' * 5_000}'")
    assert {len(s.filter) for s in status(lone.broker).placeholders} == {FILTER_LENGTH_MAX}


def test_older_brokers_tell_less() -> None:
    told = decode_status(
        b'{"broker":"B","version":"0","incarnation":1,"listen":"h:1","clients":0,"sessions_away":0,'
        b'"advertisements":0,"subscriptions":0,"queued":0,"links":[{"broker":"A","state":"up"}]}'
    )
    assert (told.covering, told.preserved, told.placeholders) == ("", 0, [])
    assert told.links[0].preserved == 0


# --- topology show -----------------------------------------------------------------------------


def shown(told: BrokerStatus, preserved: bool) -> list[str]:
    console = Console(highlight=False, width=200, no_color=True)
    with console.capture() as capture:
        console.print(_tree(told, preserved))
    return [line.rstrip() for line in capture.get().splitlines()]


def test_topology_show_counts_them() -> None:
    broker, one, other = shown(status(preserving().broker), preserved=False)
    assert broker.endswith("advertisements 1, subscriptions 1, preserved 1")
    assert one.endswith("subscriptions 0 in 0 out, preserved 1")
    assert other.endswith("subscriptions 0 in 0 out")


def test_topology_show_lists_them() -> None:
    filter = parse("p > 0 AND q = 0")
    lines = shown(status(preserving().broker), preserved=True)
    assert lines[2] == f"│   └── c/wide0  preserved  {filter}"
    lines = shown(status(merging().broker), preserved=True)
    at = next(at for at, line in enumerate(lines) if line.endswith("out, mergers 1"))
    assert lines[at + 1].startswith("│   └── merge@B/1  merged  ")


def test_topology_show_says_what_it_does_not_list() -> None:
    lines = shown(status(preserving(PLACEHOLDERS_MAX + 7).broker), preserved=True)
    assert lines[-1] == "└── 7 more that stand for others are not listed"


# --- metrics -----------------------------------------------------------------------------------


def metrics(broker: Broker) -> Iterator[str]:
    text = in_process(broker, lambda server: Metrics(server, None).text().decode())
    return iter(str(text).splitlines())


@pytest.mark.parametrize(
    "line",
    [
        'byway_preserved_subscriptions{link="A"} 2.0',
        'byway_preserved_subscriptions{link="C"} 0.0',
        'byway_mergers{link="A"} 0.0',
        "byway_subscriptions_triggered_total 0.0",
        "byway_unsubscriptions_preserved_total 2.0",
        "byway_unsubscriptions_retired_total 0.0",
        "byway_statistics_rows 2.0",
    ],
)
def test_metrics_tell_of_preserved_subscriptions(line: str) -> None:
    assert line in metrics(preserving(2).broker)


def test_metrics_tell_when_they_are_retired() -> None:
    lone = preserving(2)
    for _ in range(5):
        lone.now_us += 60_000_000
        lone.handle(TimerFired(TIMER))
    found = set(metrics(lone.broker))
    assert 'byway_preserved_subscriptions{link="A"} 0.0' in found
    assert "byway_subscriptions_triggered_total 2.0" in found
    assert "byway_unsubscriptions_retired_total 2.0" in found


def test_metrics_of_a_policy_without_any() -> None:
    found = set(metrics(Lone("A").broker))
    assert 'byway_preserved_subscriptions{link="A"} 0.0' in found
    assert "byway_statistics_rows 0.0" in found


# --- trace -------------------------------------------------------------------------------------


def sampled(broker: Broker) -> list[tuple[str, str | None, int]]:
    buffer = TraceBuffer("B")
    sample_placeholders(broker, buffer, 5)
    batch = buffer.drain()
    kinds, links = batch.names["kind"], batch.names["link"]
    return [
        (kinds[row["kind"] - 1], links[row["link"] - 1] if row["link"] else None, int(row["count"]))
        for row in batch.rows
    ]


def test_samples_tell_how_many_there_are_in_all_and_by_link() -> None:
    assert sampled(preserving(2).broker) == [
        ("preserved", None, 2), ("preserved", "A", 2), ("merged", None, 0),
    ]  # fmt: skip
    assert sampled(merging().broker) == [
        ("preserved", None, 0), ("merged", None, 1), ("merged", "A", 1),
    ]  # fmt: skip


def test_policies_that_make_none_are_not_sampled() -> None:
    assert sampled(Lone("A").broker) == []
    assert sampled(Lone("A", config=BrokerConfig(covering="lazy")).broker) == []
