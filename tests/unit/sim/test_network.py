"""Ways and transmitters: when frames arrive, in which order, and what is lost."""

import pytest

from byway.model import parse
from byway.model.messages import (
    Acknowledge,
    Batch,
    EntryId,
    Lane,
    Publish,
    Subscribe,
    SubscriptionsSettled,
)
from byway.sim.engine.network import (
    Channel,
    ChannelOptions,
    NetworkOptions,
    Transmitter,
    UplinkOptions,
    frame_bytes,
)
from byway.sim.engine.sim_clock import Clock

ID = EntryId("c", "s", 1)
CONTROL = Batch(Lane.CONTROL, 1, (SubscriptionsSettled((ID,)),))
ACK = Acknowledge(1, 0, 0)


def data(body_bytes=60, count=1):
    return Batch(Lane.DATA, 1, (Publish("p", 1, 1, 0, 0, 0, 0, bytes(body_bytes)),) * count)


class Wire:
    """A channel and what arrived on it, with the time."""

    def __init__(self, latency_us=1_000, bandwidth=None, uplink=None, clock=None):
        self.clock = clock or Clock()
        self.arrived = []
        self.channel = Channel(self.clock, "A", self.receive, latency_us, bandwidth, uplink)

    def receive(self, link, frame):
        assert link == "A"
        self.arrived.append((self.clock.now_us, frame))


def test_sizes():
    assert frame_bytes(data(60, 3)) == 3 * (60 + 40)
    assert frame_bytes(ACK) == 0
    subscribe = Batch(Lane.CONTROL, 1, (Subscribe(ID, parse("x > 1")),))
    assert frame_bytes(subscribe) > frame_bytes(CONTROL) > 10


def test_without_limits_only_latency_counts():
    wire = Wire(latency_us=700)
    wire.channel.send(data(10_000))
    wire.clock.run(100)
    wire.channel.send(CONTROL)
    wire.clock.run(10_000)
    assert wire.arrived == [(700, data(10_000)), (800, CONTROL)]
    assert wire.channel.bytes_sent == 0  # nobody asked


def test_a_frame_waits_for_the_wire_and_then_travels():
    wire = Wire(latency_us=1_000, bandwidth=100_000)  # 100 bytes take 1 ms
    for _ in range(3):
        wire.channel.send(data())
    assert (wire.channel.waiting, wire.channel.waiting_bytes) == (3, 300)
    wire.clock.run(1_500)
    assert (wire.channel.waiting, wire.channel.waiting_bytes) == (2, 200)
    wire.clock.run(10_000)
    assert [t for t, _ in wire.arrived] == [2_000, 3_000, 4_000]
    assert (wire.channel.waiting, wire.channel.bytes_sent) == (0, 300)


def test_control_goes_before_waiting_data_and_acknowledgements_are_free():
    wire = Wire(latency_us=0, bandwidth=100_000)
    wire.channel.send(data())
    wire.channel.send(data())
    wire.channel.send(CONTROL)
    wire.channel.send(ACK)
    wire.clock.run(100_000)
    control_us = 1_000 + frame_bytes(CONTROL) * 10
    assert wire.arrived == [
        (1_000, data()),
        (control_us, CONTROL),
        (control_us, ACK),
        (control_us + 1_000, data()),
    ]


def test_an_uplink_is_shared_by_all_ways():
    clock = Clock()
    uplink = Transmitter(clock, 100_000)
    near, far = Wire(10, None, uplink, clock), Wire(500, None, uplink, clock)
    near.channel.send(data())
    far.channel.send(data())
    near.channel.send(data())
    clock.run(100_000)
    assert [t for t, _ in near.arrived] == [1_010, 3_010]
    assert [t for t, _ in far.arrived] == [2_500]
    assert uplink.busy_us == 3_000


def test_an_uplink_may_be_limited_in_messages():
    clock = Clock()
    wire = Wire(0, None, Transmitter(clock, None, 1_000), clock)  # 1 ms a message
    wire.channel.send(data(count=5))
    clock.run(100_000)
    assert [t for t, _ in wire.arrived] == [5_000]


def test_the_longer_of_two_limits_counts_and_the_wire_comes_after_the_uplink():
    clock = Clock()
    wire = Wire(0, 50_000, Transmitter(clock, 100_000, 10_000), clock)
    wire.channel.send(data())  # 1 ms by bytes (0.1 ms by messages), then 2 ms on the wire
    wire.channel.send(data())
    clock.run(100_000)
    assert [t for t, _ in wire.arrived] == [3_000, 5_000]


def test_times_are_rounded_up():
    wire = Wire(0, 3e6)
    wire.channel.send(data(0))  # 40 bytes: 13.3 us
    wire.clock.run(1_000)
    assert [t for t, _ in wire.arrived] == [14]


def test_a_delay_spike_does_not_let_frames_overtake():
    wire = Wire(latency_us=100)
    wire.channel.extra_us = 5_000
    wire.channel.send(data())
    wire.clock.run(50)
    wire.channel.extra_us = 0
    wire.channel.send(CONTROL)
    wire.clock.run(100_000)
    assert wire.arrived == [(5_100, data()), (5_100, CONTROL)]


def test_a_closed_way_loses_what_is_on_it_and_frees_the_uplink():
    clock = Clock()
    uplink = Transmitter(clock, 100_000)
    broken, other = Wire(0, None, uplink, clock), Wire(0, None, uplink, clock)
    broken.channel.send(data())
    broken.channel.send(data())
    other.channel.send(data())
    clock.run(500)
    broken.channel.open = False
    clock.run(100_000)
    assert broken.arrived == []
    assert [t for t, _ in other.arrived] == [2_000]  # what was being sent is sent in vain


@pytest.mark.parametrize(
    ("options", "channel", "uplink"),
    [
        (NetworkOptions(), (7, None), UplinkOptions()),
        (NetworkOptions(latency_us=9), (9, None), UplinkOptions()),
        (
            NetworkOptions(
                latency_us=9,
                bandwidth_bytes_per_s=5.0,
                channels={("A", "B"): ChannelOptions(latency_us=0)},
                uplink_bytes_per_s=3.0,
                uplinks={"A": UplinkOptions(messages_per_s=2.0)},
            ),
            (0, 5.0),
            UplinkOptions(messages_per_s=2.0),
        ),
    ],
)
def test_options_of_one_channel_and_one_broker(options, channel, uplink):
    assert options.channel("A", "B", 7) == channel
    assert options.uplink("A") == uplink


@pytest.mark.parametrize(
    ("options", "is_limited"),
    [
        (NetworkOptions(latency_us=1), False),
        (NetworkOptions(bandwidth_bytes_per_s=1.0), True),
        (NetworkOptions(uplink_messages_per_s=1.0), True),
        (NetworkOptions(uplinks={"A": UplinkOptions(bytes_per_s=1.0)}), True),
        (NetworkOptions(channels={("A", "B"): ChannelOptions(bandwidth_bytes_per_s=1.0)}), True),
        (NetworkOptions(channels={("A", "B"): ChannelOptions(latency_us=1)}), False),
    ],
)
def test_bytes_are_counted_where_something_is_limited(options, is_limited):
    assert options.is_limited is is_limited


# --- what load samples say of a channel --------------------------------------------------------


def test_a_channel_without_limits_has_nothing_to_wait_for():
    wire = Wire(latency_us=700)
    wire.channel.extra_us = 50
    wire.channel.send(data(10_000, 5))
    assert wire.channel.sample() == (0, 0, 0)
    assert wire.channel.delay_us == 750


def test_waits_and_service_times_of_a_limited_channel():
    wire = Wire(bandwidth=100_000)  # a message of 100 bytes takes 1 ms
    for _ in range(3):
        wire.channel.send(data(60))
    wire.clock.run(10_000)
    # they waited for 0, 1 and 2 ms, and were sent in 1 ms each
    assert wire.channel.sample() == (300, 1_000, 1_000)
    assert wire.channel.sample() == (0, 0, 0)


def test_what_still_waits_counts_up_to_the_sample():
    wire = Wire(bandwidth=100_000)
    wire.channel.send(data(60))
    wire.channel.send(data(99_960))  # a second's worth
    wire.clock.run(101_000)
    assert (wire.channel.waiting, wire.channel.waiting_bytes) == (1, 100_000)
    # 1 ms and 101 ms in all; a second and a millisecond of sending are begun
    assert wire.channel.sample() == (100, 0, 500_500)


def test_a_shared_uplink_is_busy_for_each_of_its_channels():
    clock = Clock()
    uplink = Transmitter(clock, 100_000)
    one, other = Wire(uplink=uplink, clock=clock), Wire(uplink=uplink, clock=clock)
    one.channel.send(data(60))
    other.channel.send(data(160))
    clock.run(10_000)
    assert one.channel.sample() == (100, 0, 1_000)
    assert other.channel.sample() == (200, 1_000, 2_000)
    assert uplink.busy_us == 3_000
