"""Clients of a broker process whose connection is lost before an answer arrives: the answer is
given again, or is true the second time too."""

import pytest

from byway.model import parse
from byway.model.messages import (
    CLIENT_PROTOCOL_VERSION,
    AdvertiseRequest,
    Attached,
    Body,
    ClientHello,
    Preamble,
    PublicationsConfirmed,
    PublishRequest,
    Refused,
    Replies,
    Reply,
    Requests,
    Settled,
)
from byway.wire import FRAME_BYTES_MAX
from tests.integration.processes import brokers
from tests.integration.raw_peers import RawPeer
from tests.lone_broker import encode

pytestmark = pytest.mark.integration

TTL_US = 60_000_000


def attach(port: int, name: str, *, resumes: bool, received: int = 0) -> RawPeer:
    """A client of this name connects, always in the same incarnation."""
    preamble = Preamble(CLIENT_PROTOCOL_VERSION, "client", name, 7, FRAME_BYTES_MAX, 60_000)
    return RawPeer(port).say(preamble, ClientHello(TTL_US, received, resumes))


def replies(peer: RawPeer, last: Reply) -> list[Reply]:
    """What the broker has answered when it has answered this."""
    found: list[Reply] = []
    while last not in found:
        peer.hear(Replies)
        found += [r for frame in peer.heard if isinstance(frame, Replies) for r in frame.replies]
        peer.heard.clear()
    return found


def test_answers_that_were_lost() -> None:
    with brokers() as started:
        port = started.start("--id", "B1", "--listen", "127.0.0.1:0").ready().port

        # a client that had a session is told that there is none, and does not hear it
        for _ in range(3):
            with attach(port, "lost", resumes=True, received=5) as client:
                begun = Attached(resumed=False, published=0)
                assert replies(client, begun) == [begun]

        # a publisher does not hear that a publication was refused
        with attach(port, "refused", resumes=False) as client:
            client.say(Requests((AdvertiseRequest("a", parse("p > 0")),)))
            replies(client, Settled("a"))
            bodies = [encode(Body({"p": p}, b"")) for p in (1, -1, 2)]
            published = (PublishRequest(n, body) for n, body in enumerate(bodies, 1))
            client.say(Requests(tuple(published)))
            replies(client, PublicationsConfirmed(3))  # and forgets them
        with attach(port, "refused", resumes=True) as client:
            assert replies(client, PublicationsConfirmed(3)) == [
                Attached(resumed=True, published=3),
                Settled("a"),
                Refused("2", "it was refused before the connection was lost"),
                PublicationsConfirmed(3),
            ]
