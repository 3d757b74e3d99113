"""The network: how long frames take between brokers.

A connection has two channels, one in each direction. Without limits a frame arrives its latency
later. Where a link's bandwidth or a broker's uplink is limited, frames queue for it, control before
data. Frames of one channel never overtake one another once they have left, so data never overtakes
control that was sent before it. What a frame means is not known here, nor whether it is encoded.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from byway.model.messages import DATA, Batch, Frame, Message, Publish
from byway.sim.engine.sim_clock import Clock

HEADER_BYTES: Final = 40
"""The size of a publication without its body."""

_encode = msgspec.msgpack.Encoder().encode


class ChannelOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The latency and bandwidth of one direction of one link, where they differ from those of all
    links; None: they do not."""

    latency_us: int | None = None
    bandwidth_bytes_per_s: float | None = None


class UplinkOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of what one broker can send over all its links together; None: without limit."""

    bytes_per_s: float | None = None
    messages_per_s: float | None = None


class NetworkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The network of a world. Latencies are those of the topology unless given here."""

    latency_us: int | None = None
    bandwidth_bytes_per_s: float | None = None
    """Of each direction of each link; None: without limit."""
    uplink_bytes_per_s: float | None = None
    uplink_messages_per_s: float | None = None
    """Of each broker, over all its links together; None: without limit."""
    uplink_from_us: int = 0
    """The time from which uplinks are limited."""
    channels: Mapping[tuple[str, str], ChannelOptions] = msgspec.field(default_factory=dict)
    """By (sender, receiver), the directions that differ."""
    uplinks: Mapping[str, UplinkOptions] = msgspec.field(default_factory=dict)
    """By broker, the limits that replace the two above."""
    reconnect_us: int = 100_000
    """The time from when both ends are up until they are connected again."""
    client_latency_us: int = 0
    """The latency between clients and their brokers."""
    reattach_us: int = 100_000
    """The time from when a broker is up again until its clients attach."""
    codec: bool = False
    """Whether every frame is encoded and decoded on its way, as between processes."""
    soft_latency_us: int | None = None
    """The latency of soft links where `channels` says nothing of them; None: that of other links
    between the same brokers."""

    @property
    def is_limited(self) -> bool:
        """Whether anything limits what can be sent."""
        limits = (self.bandwidth_bytes_per_s, self.uplink_bytes_per_s, self.uplink_messages_per_s)
        channels = (own.bandwidth_bytes_per_s for own in self.channels.values())
        return any(limit is not None for limit in (*limits, *channels)) or bool(self.uplinks)

    @property
    def counts_bytes(self) -> bool:
        """Whether the bytes that are sent are counted."""
        return self.codec or self.is_limited

    def channel(
        self, sender: str, receiver: str, latency_us: int, *, soft: bool = False
    ) -> tuple[int, float | None]:
        """Latency and bandwidth of one direction of a link, whose latency by the topology is
        given."""
        own = self.channels.get((sender, receiver), ChannelOptions())
        if self.latency_us is not None:
            latency_us = self.latency_us
        if soft and self.soft_latency_us is not None:
            latency_us = self.soft_latency_us
        if own.latency_us is not None:
            latency_us = own.latency_us
        return latency_us, own.bandwidth_bytes_per_s or self.bandwidth_bytes_per_s

    def uplink(self, broker: str) -> UplinkOptions:
        """The limits of what one broker can send."""
        everywhere = UplinkOptions(
            bytes_per_s=self.uplink_bytes_per_s, messages_per_s=self.uplink_messages_per_s
        )
        return self.uplinks.get(broker, everywhere)


# --- sizes ----------------------------------------------------------------------------------------


def message_bytes(message: Message) -> int:
    """The size of a message as the simulator counts it."""
    if type(message) is Publish:
        return len(message.body) + HEADER_BYTES
    return len(_encode(message))


def frame_bytes(frame: Frame) -> int:
    """The size of a frame; acknowledgements are free."""
    return sum(map(message_bytes, frame.messages)) if type(frame) is Batch else 0


def frame_messages(frame: Frame) -> int:
    """The number of messages in a frame, acknowledgements not among them."""
    return len(frame.messages) if type(frame) is Batch else 0


# --- what is limited ------------------------------------------------------------------------------


class QueuedFrame(NamedTuple):
    """A frame that waits to be sent."""

    content: Any
    """The frame, or its bytes."""
    size_bytes: int
    messages: int
    """The number of messages in it, acknowledgements not among them."""
    is_data: bool


class _Ending(NamedTuple):
    """Stands in a queue for the end of a channel."""

    then: Callable[[], None]


Onward = Callable[[QueuedFrame], None]
"""A function that takes a frame that is through."""


class Transmitter:
    """Sends frames one after another at a limited rate, control before data.

    Frames of one lane leave in the order they came. Acknowledgements take no time, and keep their
    place among control frames.
    """

    __slots__ = (
        "_bytes_per_s",
        "_clock",
        "_from_us",
        "_lanes",
        "_messages_per_s",
        "_sending",
        "busy_us",
    )

    def __init__(
        self,
        clock: Clock,
        bytes_per_s: float | None,
        messages_per_s: float | None = None,
        from_us: int = 0,
    ) -> None:
        """Before `from_us` the rate is not limited."""
        self._clock = clock
        self._from_us = from_us
        self._bytes_per_s = bytes_per_s
        self._messages_per_s = messages_per_s
        self._lanes: tuple[deque[_Item], deque[_Item]] = (deque(), deque())
        self._sending = False
        self.busy_us = 0
        """The time spent sending, all of the present frame included."""

    def put(self, channel: Channel, queued: QueuedFrame, onward: Onward) -> None:
        """Send a frame of a channel, and hand it to `onward` when it is through."""
        self._lanes[queued.is_data].append((channel, queued, onward))
        if not self._sending:
            self._send_next()

    def _send_next(self) -> None:
        control, data = self._lanes
        while control or data:
            item = (control or data).popleft()
            channel, queued, onward = item
            if not channel.open:
                continue
            duration_us = self._duration_us(queued)
            if duration_us:
                self._sending = True
                self.busy_us += duration_us
                channel.busy_us += duration_us
                self._clock.at(self._clock.now_us + duration_us, self._sent, item)
                return
            onward(queued)

    def _sent(self, item: _Item) -> None:
        channel, queued, onward = item
        self._sending = False
        if channel.open:
            onward(queued)
        self._send_next()

    def _duration_us(self, queued: QueuedFrame) -> int:
        """The time to send a frame, rounded up: the longer one where both rates are limited."""
        if self._clock.now_us < self._from_us:
            return 0
        needed_us = 0.0
        if self._bytes_per_s is not None:
            needed_us = queued.size_bytes * 1e6 / self._bytes_per_s
        if self._messages_per_s is not None:
            needed_us = max(needed_us, queued.messages * 1e6 / self._messages_per_s)
        return math.ceil(needed_us)


# --- channels -------------------------------------------------------------------------------------


class Channel:
    """One direction of one connection. Once closed, it loses the frames on it for good."""

    __slots__ = (
        "_area",
        "_clock",
        "_last_us",
        "_later",
        "_order",
        "_receive",
        "_sampled_bytes",
        "_sent",
        "_uplink",
        "_waits_since_us",
        "_wire",
        "busy_us",
        "bytes_sent",
        "extra_us",
        "latency_us",
        "link",
        "open",
        "send",
        "waiting",
        "waiting_bytes",
    )

    def __init__(
        self,
        clock: Clock,
        link: str,
        receive: Callable[[str, Frame], None],
        latency_us: int,
        bandwidth_bytes_per_s: float | None = None,
        uplink: Transmitter | None = None,
    ) -> None:
        self._clock = clock
        self._later = clock.later
        self._order = clock.order
        self._receive = receive
        self._uplink = uplink
        self._wire = Transmitter(clock, bandwidth_bytes_per_s) if bandwidth_bytes_per_s else None
        self._last_us = 0
        self.link = link
        """The sender, which is the receiver's name of the link."""
        self.latency_us = latency_us
        self.extra_us = 0
        self.open = True
        self.waiting = 0
        """The number of messages that have not left: they wait for the uplink or the wire."""
        self.waiting_bytes = 0
        self.bytes_sent = 0
        """The bytes that have left; counted where something is limited or frames are encoded."""
        self.busy_us = 0
        """The time spent sending its frames since the last sample, all of the present one
        included."""
        self._sampled_bytes = 0
        self._sent = 0
        """Messages that have left since the last sample, where something is limited."""
        self._area = 0
        """The sum, over the time since the last sample, of messages that had not left."""
        self._waits_since_us = 0
        self.send: Callable[[Frame], None] = self._queue if self.is_limited else self._depart

    def __repr__(self) -> str:
        state = "open" if self.open else "closed"
        return f"<Channel from {self.link}, {state}, {self.waiting} messages wait>"

    @property
    def is_limited(self) -> bool:
        """Whether frames wait for the uplink or the wire."""
        return self._uplink is not None or self._wire is not None

    @property
    def delay_us(self) -> int:
        """How long a frame takes once it has left."""
        return self.latency_us + self.extra_us

    def sample(self) -> tuple[int, int, int]:
        """Since the last sample: the bytes that left, as far as they are counted, and the mean time
        that messages waited for their turn to be sent and that sending one took. Those that still
        wait count as sent now (Little's law)."""
        self._count_waits()
        sent, sent_bytes = self._sent + self.waiting, self.bytes_sent - self._sampled_bytes
        service_us = self.busy_us // sent if sent else 0
        waited_us = max(self._area // sent - service_us, 0) if sent else 0
        self._sampled_bytes = self.bytes_sent
        self._sent = self._area = self.busy_us = 0
        return sent_bytes, waited_us, service_us

    def _count_waits(self) -> None:
        """The number of messages that wait changes, or is sampled."""
        now_us = self._clock.now_us
        self._area += self.waiting * (now_us - self._waits_since_us)
        self._waits_since_us = now_us

    def _depart(self, frame: Any) -> None:
        """Schedule the arrival of a frame, behind all that left before."""
        t_us = self._clock.now_us + self.latency_us + self.extra_us
        if t_us > self._last_us:
            self._last_us = t_us
        else:
            t_us = self._last_us
        line = self._later.get(t_us)
        if line is not None:  # what `at` does, which costs a call
            line.append((t_us, self._order(), self._arrive, frame))
        else:
            self._clock.at(t_us, self._arrive, frame)

    def end_with(self, then: Callable[[], None]) -> None:
        """Call this when all that was sent so far has arrived, if the channel is still open."""
        if self.is_limited:
            self._put(QueuedFrame(_Ending(then), 0, 0, is_data=False))
        else:
            self._depart_end(then)

    def _depart_end(self, then: Callable[[], None]) -> None:
        t_us = max(self._clock.now_us + self.latency_us + self.extra_us, self._last_us)
        self._clock.at(t_us, self._arrive_end, then)

    def _arrive_end(self, then: Callable[[], None]) -> None:
        if self.open:
            then()

    def _arrive(self, frame: Any) -> None:
        if self.open:
            self._receive(self.link, frame)

    def _queue(self, frame: Frame) -> None:
        is_data = type(frame) is Batch and frame.lane is DATA
        self._put(QueuedFrame(frame, frame_bytes(frame), frame_messages(frame), is_data))

    def _put(self, queued: QueuedFrame) -> None:
        """Let a frame wait for what is limited."""
        self._count_waits()
        self.waiting += queued.messages
        self.waiting_bytes += queued.size_bytes
        if self._uplink is not None:
            self._uplink.put(self, queued, self._through_uplink)
        else:
            self._through_uplink(queued)

    def _through_uplink(self, queued: QueuedFrame) -> None:
        if self._wire is not None:
            self._wire.put(self, queued, self._through_wire)
        else:
            self._through_wire(queued)

    def _through_wire(self, queued: QueuedFrame) -> None:
        self._count_waits()
        self.waiting -= queued.messages
        self._sent += queued.messages
        self.waiting_bytes -= queued.size_bytes
        self.bytes_sent += queued.size_bytes
        if type(queued.content) is _Ending:
            self._depart_end(queued.content.then)
        else:
            self._depart(queued.content)


_Item = tuple[Channel, QueuedFrame, Onward]
