"""What broker processes tell publishers and subscribers who wonder why nothing arrives."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

import byway
from tests.integration.network import ANYWHERE
from tests.integration.processes import WAIT_S, BrokerProcess, brokers, environment, eventually

pytestmark = pytest.mark.integration

Pair = tuple[BrokerProcess, BrokerProcess]


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """Two brokers that are linked, as processes."""
    with brokers() as started:
        left = started.start("--id", "left", *ANYWHERE, "--set", "limits.keepalive_ms=200").ready()
        right = started.start("--id", "right", *ANYWHERE, "--neighbour", left.address).ready()
        left.is_linked_to("right")
        yield left, right


def connect(broker: BrokerProcess, name: str | None = None) -> byway.blocking.Client:
    return byway.blocking.connect(f"byway://{broker.address}", name=name)


def test_a_receipt_has_the_routes_if_asked_for_and_mandatory_fails_if_there_are_none(
    pair: Pair,
) -> None:
    left, right = pair
    with (
        connect(left) as publisher,
        connect(left) as near,
        connect(right) as far,
        publisher.advertise("x EXISTS") as advertisement,
    ):
        assert publisher.publish({"x": 1}).routes is None
        assert publisher.publish({"x": 1}, routes=True).routes == byway.Routes(0, (), True)
        with pytest.raises(byway.UnroutedError, match="publication 3 was refused: it is mandatory"):
            publisher.publish({"x": 1}, mandatory=True)
        with near.subscribe("x = 1"), near.subscribe("x > 0"), far.subscribe("x > 0") as taken:
            routes = publisher.publish({"x": 1}, mandatory=True).routes
            assert routes == byway.Routes(1, ("right",), True)
            receipt = publisher.publish_nowait({"x": 2}, routes=True)
            receipt.confirmed()
            assert receipt.routes == byway.Routes(1, ("right",), True)
            assert [taken.next(WAIT_S).sequence for _ in range(2)] == [4, 5]
        eventually(lambda: not left_subscriptions(publisher))
        failing = publisher.publish_nowait({"x": 3}, mandatory=True)
        with pytest.raises(byway.UnroutedError, match="publication 6"):
            publisher.flush()
        assert failing.routes == byway.Routes(0, (), True)
        assert publisher.status.refused == 2
        assert advertisement.is_settled


def left_subscriptions(client: byway.blocking.Client) -> int:
    return client.broker_status().subscriptions


def test_a_comparison_with_another_kind_is_told_in_the_status_and_once_in_the_log(
    pair: Pair,
) -> None:
    left, _ = pair
    words = (
        "subscription thermometer/warm.1.1 compares temperature with a number, "
        "and it comes as a text: that never matches"
    )
    with (
        connect(left, "thermometer") as subscriber,
        connect(left) as publisher,
        publisher.advertise("ANY"),
        subscriber.subscribe("temperature > 20", name="warm") as warm,
    ):
        publisher.publish({"temperature": "30"}).confirmed()
        (found,) = subscriber.broker_status().kind_mismatches
        assert (found.client, found.name, found.attribute) == (
            "thermometer", "warm.1.1", "temperature",
        )  # fmt: skip
        assert (found.expected, found.found, found.samples) == (["number"], "text", 1)
        left.logged(words)
        publisher.publish_all({"temperature": "30"} for _ in range(2_000))
        publisher.confirmed()
        (found,) = subscriber.broker_status().kind_mismatches
        assert found.samples == 3
        shown = subprocess.run(
            [
                sys.executable,
                "-m",
                "byway",
                "topology",
                "show",
                "--broker",
                f"byway://{left.address}",
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
            env={**environment(), "COLUMNS": "200"},
        )
        assert words in shown.stdout
        assert warm.pending == 0
        assert left.log.count(words) == 1
