"""An operator sees who holds up whom: a subscriber that does not read, a stopped neighbour."""

import json
import signal
from pathlib import Path

import msgspec
import pytest

from byway.model import ANY, parse
from byway.model.messages import (
    AdvertiseRequest,
    Body,
    PublicationsConfirmed,
    PublishRequest,
    Settled,
    SubscribeRequest,
)
from tests.integration.network import Star, show
from tests.integration.processes import brokers, eventually

pytestmark = [pytest.mark.integration, pytest.mark.timeout(200)]

BODY = msgspec.msgpack.encode(Body({"x": 1}, bytes(65_536)))
COUNT = 300
"""Publications, together more than the system buffers for one connection."""


def test_topology_show_names_the_slow_subscriber_and_the_slow_link(tmp_path: Path) -> None:
    with brokers() as started:
        star = Star(started, tmp_path, "--set", "limits.keepalive=60s").start(["E", "W"])
        middle, stopped = star.brokers[Star.MIDDLE], star.brokers["E"]
        publisher = started.client(middle, "p")
        publisher.ask(AdvertiseRequest("a", ANY))
        publisher.is_told(Settled("a"))
        wanted = parse("x = 1")
        for broker, name in ((middle, "mute"), (stopped, "far"), (star.brokers["W"], "well")):
            subscriber = started.client(broker, name)
            subscriber.ask(SubscribeRequest("s", wanted))
            subscriber.is_told(Settled("s"))  # and it reads no more
        quiet = show(middle.address)
        assert "slow" not in quiet
        assert "waits" not in quiet
        stopped.signal(signal.SIGSTOP)
        try:
            for number in range(1, COUNT + 1):
                publisher.ask(PublishRequest(number, BODY))
            eventually(lambda: "link E is slow" in show(middle.address))
            eventually(lambda: "subscriber mute has not read" in show(middle.address))
            shown = show(middle.address)
            assert f"publisher p waits for E: {COUNT} publications are not confirmed" in shown
            assert "link W is slow" not in shown
            status = json.loads(show(middle.address, "--json"))
            (one,) = status["publishers"]
            assert status["publishers_waiting"] == 1
            assert one == {
                "publisher": "p", "local": True, "unconfirmed": COUNT, "held": 0,
                "oldest_s": one["oldest_s"], "links": {"E": COUNT}, "unlisted": 0,
                "parked": {},
            }  # fmt: skip
            (slow,) = status["subscribers"]
            assert (status["slow_subscribers"], slow["client"]) == (1, "mute")
            assert slow["waiting"] > 0
            links = {link["broker"]: link for link in status["links"]}
            assert (links["E"]["unconfirmed"], links["W"]["unconfirmed"]) == (COUNT, 0)
            assert links["E"]["oldest_s"] >= one["oldest_s"] >= 1
            assert links["W"]["oldest_s"] == 0
            assert middle.metric("byway_link_oldest_unconfirmed_seconds", link="E") >= 1
            assert middle.metric("byway_link_oldest_unconfirmed_seconds", link="W") == 0
            assert middle.metric("byway_publishers_unconfirmed") == 1
            assert middle.metric("byway_publisher_unconfirmed_messages_max") == COUNT
            assert middle.metric("byway_publisher_unconfirmed_messages", publisher="p") == COUNT
            assert middle.metric("byway_publisher_held_messages", publisher="p") == 0
        finally:
            stopped.signal(signal.SIGCONT)
        publisher.is_told(PublicationsConfirmed(COUNT))
        assert "link E is slow" not in show(middle.address)
        assert middle.metric("byway_publisher_unconfirmed_messages_max") == 0
