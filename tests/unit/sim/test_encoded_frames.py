"""Frames that travel as bytes: how they are split, what they weigh, and what is not let through."""

import pytest

from byway.model.errors import FrameError
from byway.model.messages import (
    Acknowledge,
    Batch,
    EntryId,
    Hello,
    Lane,
    Publish,
    SubscriptionsSettled,
)
from byway.sim.engine.encoded_frames import (
    READ_BYTES,
    EncodedChannel,
    broker_preamble,
    greeting,
    payload_of,
)
from byway.sim.engine.sim_clock import Clock
from byway.wire import FRAME_BYTES_MAX, UNIDENTIFIED_BYTES_MAX, FrameReader, decode, encode
from byway.wire.codec import CHUNK_BYTES

CONTROL = Batch(Lane.CONTROL, 1, (SubscriptionsSettled((EntryId("c", "s", 1),)),))
ACK = Acknowledge(1, 0, 0)


def data(body_bytes=60, count=1):
    return Batch(Lane.DATA, 7, (Publish("p", 1, 1, 0, 0, 0, 0, bytes(body_bytes)),) * count)


class Hop:
    """A channel of bytes, what arrived on it, and why it was refused."""

    def __init__(self, bandwidth=None):
        self.clock = Clock()
        self.arrived, self.unsendable, self.unreadable = [], [], []
        self.channel = EncodedChannel(
            self.clock, "A", self.receive, 1_000, bandwidth, None,
            unsendable=self.unsendable.append, unreadable=self.unreadable.append,
        )  # fmt: skip

    def receive(self, link, frame):
        assert link == "A"
        self.arrived.append((self.clock.now_us, frame))


@pytest.mark.parametrize("bandwidth", [None, 1e9])
def test_frames_arrive_as_they_were(bandwidth):
    hop = Hop(bandwidth)
    sent = [data(count=3), CONTROL, ACK]
    for frame in sent:
        hop.channel.send(frame)
    hop.clock.run(10_000)
    found = [frame for _, frame in hop.arrived]
    assert sorted(map(repr, found)) == sorted(map(repr, sent))
    assert not any(one is other for one in found for other in sent)
    assert hop.channel.bytes_sent == sum(len(encode(frame)) for frame in sent)
    assert (hop.channel.waiting, hop.channel.waiting_bytes) == (0, 0)


def test_a_large_batch_travels_in_several_frames():
    hop = Hop(bandwidth=1e6)
    whole = data(CHUNK_BYTES // 3, count=10)
    hop.channel.send(whole)
    assert hop.channel.waiting == 10
    hop.channel.send(CONTROL)
    hop.clock.run(10_000_000)
    batches = [frame for _, frame in hop.arrived if frame.lane is Lane.DATA]
    assert len(batches) > 3
    assert [batch.first for batch in batches] == [
        7 + sum(len(before.messages) for before in batches[:at]) for at in range(len(batches))
    ]
    assert tuple(message for batch in batches for message in batch.messages) == whole.messages
    assert hop.arrived[1][1] == CONTROL, "control waits for one frame of data only"
    times_us = [time_us for time_us, _ in hop.arrived]
    assert times_us[-1] == 1_000 + sum(len(encode(frame)) for _, frame in hop.arrived)


def test_what_is_longer_than_a_peer_reads_is_not_sent():
    hop = Hop()
    hop.channel.send(data(FRAME_BYTES_MAX))
    hop.clock.run(10_000)
    assert hop.arrived == []
    assert len(hop.unsendable) == 1
    assert hop.unsendable[0].startswith("is due a frame of 41943")


def test_what_cannot_be_read_is_refused():
    hop = Hop()
    hop.channel._depart(encode(ACK)[:-1] + b"\xc1")
    hop.clock.run(10_000)
    assert hop.arrived == []
    assert len(hop.unreadable) == 1
    assert hop.unreadable[0].startswith(
        "sends what cannot be read: bad frame: it cannot be decoded"
    )


def test_what_was_on_a_closed_channel_is_lost():
    hop = Hop()
    hop.channel.send(data())
    hop.channel.open = False
    hop.clock.run(10_000)
    assert hop.arrived == []


@pytest.mark.parametrize("size", [1, READ_BYTES - 5, READ_BYTES, READ_BYTES + 1, 3 * READ_BYTES])
def test_a_frame_arrives_in_pieces(size):
    frame = data(size)
    reader = FrameReader(FRAME_BYTES_MAX)
    for _ in range(2):
        assert decode(payload_of(reader, encode(frame))) == frame
        assert reader.waiting_bytes == 0


def test_a_greeting_has_its_bounds():
    preamble = broker_preamble("B1", 5)
    hello = Hello("B1", 5, 0, 0, 0, 0, 0)
    assert greeting(preamble, hello) == hello
    with pytest.raises(FrameError, match=f"expected 1 to {UNIDENTIFIED_BYTES_MAX}"):
        payload_of(FrameReader(UNIDENTIFIED_BYTES_MAX), encode(data(UNIDENTIFIED_BYTES_MAX)))
