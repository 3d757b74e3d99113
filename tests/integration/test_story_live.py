"""The story of a subscription and a publication at two live brokers, while they run and after."""

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
    UnsubscribeRequest,
)
from byway.story import StoryStep, read_story
from tests.integration.processes import brokers, eventually

pytestmark = [pytest.mark.integration, pytest.mark.timeout(200)]

ANYWHERE = "127.0.0.1:0"
BODY = msgspec.msgpack.encode(Body({"price": 20}))


def journal(steps: tuple[StoryStep, ...]) -> list[tuple[str, str, str]]:
    return [(s.broker, s.what, s.origin) for s in steps if s.evidence == "journal"]


def test_a_story_of_two_live_brokers(tmp_path: Path) -> None:
    data = {name: tmp_path / name for name in ("east", "west")}
    traces = tmp_path / "traces"
    with brokers() as started:
        common = ("--listen", ANYWHERE, "--trace", str(traces))
        east = started.start("--id", "east", "--data", str(data["east"]), *common).ready()
        west = started.start(
            "--id", "west", "--data", str(data["west"]), *common,
            "--neighbour", f"east@{east.address}",
        ).ready()  # fmt: skip
        east.is_linked_to("west")
        ticker, ann = started.client(east, "ticker"), started.client(west, "ann")
        ticker.ask(AdvertiseRequest("all", ANY))
        ticker.is_told(Settled("all"))
        ann.ask(SubscribeRequest("dear", parse("price > 18")))
        ann.is_told(Settled("dear"))
        ticker.ask(PublishRequest(1, BODY))
        ticker.is_told(PublicationsConfirmed(1))
        ann.ask(UnsubscribeRequest(("dear",)))

        def ended() -> bool:
            return len(journal(read_story("ann/dear", data.values()).steps)) == 6

        eventually(ended)  # while both run
        steps = read_story("ann/dear", data.values()).steps
        assert journal(steps) == [
            ("west", "client attached", "client ann"),
            ("west", "subscribe", "client ann"),
            ("west", "subscription settled", "link east"),
            ("west", "unsubscribe", "client ann"),
            ("east", "subscribe", "link west"),
            ("east", "unsubscribe", "link west"),
        ]
        published = read_story("ticker/1", data.values()).steps
        assert journal(published) == [
            ("east", "publish", "client ticker"),
            ("west", "publish", "link east"),
        ]
        for broker in (east, west):
            broker.signal(signal.SIGTERM)
            assert broker.wait() == 0
    told = read_story("ticker/1", [traces]).steps
    assert [(s.broker, s.hop, s.what, s.origin or s.target) for s in told] == [
        ("east", 0, "published", "client ticker"),
        ("east", 0, "forwarded", "link west"),
        ("west", 1, "received", "link east"),
        ("west", 1, "delivered", "client ann"),
    ]
    assert {step.run for step in told} == {"live"}
