"""One TCP connection: preambles, frames, keep-alive, and two outgoing lanes.

Control frames are written at once. Data frames are written while the peer reads; otherwise they
wait here, so that little data is ever in front of a control frame. Incoming frames are processed in
slices, so that no peer occupies the event loop. This module knows nothing of routing; it passes
frames to its owner.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol, cast

import msgspec

from byway.model.bounds import REASON_LENGTH_MAX
from byway.model.errors import FrameError, shortened
from byway.model.messages import (
    CLIENT_PROTOCOL_VERSION,
    PROTOCOL_VERSION,
    AnyFrame,
    Goodbye,
    Hello,
    KeepAlive,
    Preamble,
    PublishRequest,
    Requests,
)
from byway.model.request_costs import cost_of
from byway.transport.intake import FRAMES_A_SLICE, Intake
from byway.transport.output_times import OutputTimes
from byway.wire import (
    FRAME_BYTES_LEAST,
    FRAME_BYTES_MAX,
    GREETING_BYTES_MAX,
    UNIDENTIFIED_BYTES_MAX,
    FrameReader,
    check_requests,
    decode,
    decode_from_client,
    encode,
    encode_all,
    encode_counted,
)
from byway.wire.frames import HEADER_BYTES

WRITE_HIGH_BYTES: Final = 262_144
"""Unwritten bytes in the transport beyond which data frames wait in the connection."""
_PUBLICATIONS: Final = {PublishRequest}
_DEFERRED: Final = "more frames have arrived than are processed at a time"
CLOSE_S: Final = 2.0
"""How long written frames may take to be sent when a connection is closed."""


class ConnectionOwner(Protocol):
    """Receives the frames and events of a connection."""

    def greeted(self, connection: Connection, peer: Preamble) -> None:
        """The peer's preamble arrived and was accepted."""

    def received(self, connection: Connection, frame: AnyFrame) -> None:
        """A frame arrived after the preamble."""

    def drained(self, connection: Connection) -> None:
        """The peer has read all data frames that waited for it."""

    def lost(self, connection: Connection, reason: str) -> None:
        """The connection was lost or closed; called once."""


def version_between(*roles: str) -> int:
    """The protocol version between peers of these roles."""
    return CLIENT_PROTOCOL_VERSION if "client" in roles else PROTOCOL_VERSION


class Connection(asyncio.Protocol):
    """A connection and its peer. The side that dialled sends its preamble first; the other answers
    with the version that goes with the first one's role.

    With an `intake`, which all connections of a broker share, a peer may send only short frames
    before it is accepted, and requests of clients are checked in slices. A client's connection has
    none: it trusts its broker.
    """

    def __init__(
        self, owner: ConnectionOwner, own: Preamble, dialled: bool, intake: Intake | None = None
    ) -> None:
        self.owner = owner
        self.own = own
        self.dialled = dialled
        self.peer: Preamble | None = None
        self.address = "?"
        self.open = False
        self.frames_in = 0
        self.last_in = 0.0
        self.waiting: deque[tuple[bytearray, int]] = deque()
        """Data frames that wait for the peer to read, each with its number of messages."""
        self.waiting_bytes = self.waiting_messages = 0
        self.blocked_since: float | None = None
        """When the peer stopped reading or asked to hold data; None while data is written."""
        self._is_paused = self._is_held = False
        self.goodbye: Goodbye | None = None
        """The peer's goodbye, if it closes the connection."""
        self.said: Hello | None = None
        """The `Hello` that was sent to a broker."""
        self.heard: Hello | None = None
        """The `Hello` of a broker, once it is accepted."""
        self.was_up = False
        """Whether it is or was a link: both sides have sent their `Hello`."""
        self.is_new = False
        """Whether its peer became a neighbour over it."""
        self.was_cut = False
        """Whether one side closed it because the other broke the protocol or would close a
        cycle."""
        self.expects = ""
        """The name that its peer must have; empty: any."""
        self.when_lost: asyncio.Future[None] | None = None
        self.began = 0.0
        """When the connection was made, by the event loop's clock."""
        self.refusal = ""
        """Why the peer was refused for its protocol version; empty if it was not."""
        self._has_introduced = False
        self._longest = HEADER_BYTES + FRAME_BYTES_LEAST
        """Length of the longest frame that the peer reads, header included."""
        self._reason = ""
        self._transport: asyncio.Transport | None = None
        self._closing: asyncio.TimerHandle | None = None
        self.is_link = False
        """Whether its peer was accepted as a neighbour."""
        self.frame_bytes = 0
        """Length of the frame that is being processed, or was last."""
        self.when_read: Callable[[Connection], None] | None = None
        """Called when a peer that had stopped reading has read nearly everything written."""
        self.counted_bytes = 0
        """Bytes not read by the peer, as its owner counted them last."""
        self._intake = intake
        self._partial_bytes = 0
        """Bytes of an incomplete frame that were reported to the intake."""
        is_unidentified = intake is not None and not dialled
        self._reader = FrameReader(
            UNIDENTIFIED_BYTES_MAX if is_unidentified else own.frame_bytes_max
        )
        self._unchecked: Requests | None = None
        """The requests of a frame that are being checked in slices."""
        self._checked = 0
        """Number of these requests that were checked."""
        self._silencers: dict[str, None] = {}
        """The reasons why nothing is read from the peer."""
        self._loop = asyncio.get_running_loop()
        self.output = OutputTimes(self._loop.time)

    def __repr__(self) -> str:
        who = "?" if self.peer is None else f"{self.peer.role} {self.peer.name}"
        return f"<Connection to {who} at {self.address}, {self.waiting_messages} messages wait>"

    @property
    def blocked_s(self) -> float:
        """Seconds since the peer stopped reading; 0 while it reads."""
        return 0.0 if self.blocked_since is None else self._loop.time() - self.blocked_since

    # --- called by the transport ---------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the preamble, if this side dialled; else wait for the peer's."""
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's is none by type
        transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES, low=WRITE_HIGH_BYTES // 4)
        raw = transport.get_extra_info("socket")
        if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        address = transport.get_extra_info("peername")
        if isinstance(address, tuple):
            self.address = f"{address[0]}:{address[1]}"
        self.open = True
        self.began = self.last_in = self._loop.time()
        if self.dialled:
            self._introduce(self.own.version)

    def _introduce(self, version: int) -> None:
        if not self._has_introduced:
            self._has_introduced = True
            self.own = msgspec.structs.replace(self.own, version=version)
            self.send(self.own)

    def data_received(self, data: bytes) -> None:
        """Process the frames in the bytes that arrived; a bad one closes the connection."""
        self.last_in = self._loop.time()
        if not self.open:
            return
        self._reader.put(data)
        if not self._silencers:
            self._take_all()

    def _take_all(self) -> None:
        """Process a slice of the complete frames; the rest follows when other connections were
        served, or when reading resumes."""
        before = self.frames_in
        try:
            if self._unchecked is not None and not self._check():
                return
            while not self._silencers and (payload := self._reader.next()) is not None:
                self.frames_in += 1
                if not self._take_payload(payload) or not self.open:
                    return
                if self.frames_in - before >= FRAMES_A_SLICE:
                    self._defer()
        except FrameError as error:
            if self._intake is not None:
                self._intake.closed_for_frames += 1
            self.close(str(error))
            return
        kept = 0 if self._silencers else self._reader.waiting_bytes
        if (kept or self._partial_bytes) and self._intake is not None:
            self._partial_bytes = kept
            self._intake.keeps(self, kept, is_new=self.frames_in > before)

    def _take_payload(self, payload: memoryview) -> bool:
        """Process one frame; whether that is complete: its requests may be checked in slices."""
        self.frame_bytes = len(payload)
        if self._intake is None or self.peer is None or self.peer.role != "client":
            self._take(decode(payload))
            return True
        frame = decode_from_client(payload)
        if type(frame) is not Requests:
            self._take(frame)
            return True
        if set(map(type, frame.requests)) == _PUBLICATIONS:  # they need no check
            self.owner.received(self, frame)
            return True
        self._unchecked, self._checked = frame, 0
        return self._check()

    def _check(self) -> bool:
        """Check requests while the intake has budget; whether all were checked and passed on."""
        frame, intake = self._unchecked, self._intake
        assert frame is not None
        assert intake is not None
        requests = frame.requests
        while self._checked < len(requests):
            request = requests[self._checked]
            if not intake.has_room:
                self._defer()
                return False
            intake.spend(cost_of(request))
            check_requests((request,))
            self._checked += 1
        self._unchecked = None
        self._take(frame)
        return True

    def _defer(self) -> None:
        """Continue in the next iteration of the event loop; nothing more is read until then."""
        self.pause_reading(_DEFERRED)
        self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._silencers.pop(_DEFERRED, None)
        if self.open and not self._silencers:
            self._take_all()
        self._listen()

    def trust(self, is_link: bool = False) -> None:
        """Accept the peer: it may send frames up to the length in this side's preamble."""
        self.is_link = is_link
        self._reader.bytes_max = self.own.frame_bytes_max

    def _take(self, frame: AnyFrame) -> None:
        if isinstance(frame, KeepAlive):
            return
        if isinstance(frame, Preamble):
            self._take_preamble(frame)
        elif self.peer is None:
            raise FrameError(f"{type(frame).__name__} before the preamble")
        else:
            self.owner.received(self, frame)

    def _take_preamble(self, frame: Preamble) -> None:
        if self.peer is not None:
            raise FrameError("a second preamble")
        if frame.role not in ("broker", "client"):
            raise FrameError(f"role {frame.role!r}: expected 'broker' or 'client'")
        version = version_between(self.own.role, frame.role)
        self._introduce(version)
        if frame.version != version:
            self.refusal = (
                f"{frame.role} {frame.name} speaks version {frame.version}, "
                f"{self.own.role} {self.own.name} expected version {version}"
            )
            self.close(self.refusal)
            return
        least = FRAME_BYTES_MAX if frame.role == self.own.role == "broker" else FRAME_BYTES_LEAST
        if frame.frame_bytes_max < least:
            raise FrameError(
                f"reads frames of {frame.frame_bytes_max} bytes only: expected at least {least}"
            )
        self._longest = HEADER_BYTES + frame.frame_bytes_max
        self.peer = frame
        if frame.role == "broker":
            self._reader.bytes_max = max(self._reader.bytes_max, GREETING_BYTES_MAX)
        self.owner.greeted(self, frame)

    def pause_writing(self) -> None:
        """The transport's buffer is full: data frames wait."""
        self._is_paused = True
        self._block()

    def resume_writing(self) -> None:
        """The transport's buffer is nearly empty: data frames are written again."""
        self._is_paused = False
        self._unblock()
        if self.when_read is not None:
            self.when_read(self)

    def hold(self, is_held: bool) -> None:
        """Hold data frames, or write them again, as the peer asked."""
        self._is_held = is_held
        if is_held:
            self._block()
        else:
            self._unblock()

    def _block(self) -> None:
        if self.blocked_since is None:
            self.blocked_since = self._loop.time()

    def _unblock(self) -> None:
        if self._is_paused or self._is_held:
            return
        self.blocked_since = None
        while self.waiting and self.blocked_since is None:
            data, messages = self.waiting.popleft()
            self.waiting_bytes -= len(data)
            self.waiting_messages -= messages
            self.output.messages += messages
            self._write(data)
        self.output.waits(self.waiting_messages)
        if not self.waiting:
            self.owner.drained(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Release everything that waits, and tell the owner."""
        self.open = False
        if self._closing is not None:
            self._closing.cancel()
        self.waiting.clear()
        self.waiting_bytes = self.waiting_messages = 0
        self._forget_unread()
        self.owner.lost(self, self._reason or (str(exc) if exc else "the peer closed it"))

    def _forget_unread(self) -> None:
        """Drop what arrived and was not processed."""
        self._reader.clear()
        self._unchecked = None
        if self._intake is not None:
            self._intake.forget(self)

    # --- called by the owner -------------------------------------------------------------------

    def send(self, frame: AnyFrame) -> None:
        """Write a frame, ahead of all data frames that wait."""
        if self.open:
            self._write(encode(frame))

    def send_large(self, frame: AnyFrame) -> None:
        """Write a frame ahead of all data frames that wait, as several frames if it is long."""
        if self.open:
            for data in encode_all(frame):
                self._write(data)

    def send_data(self, frame: AnyFrame) -> None:
        """Write a data frame, or let it wait until the peer reads."""
        if not self.open:
            return
        for data, messages in encode_counted(frame):
            if self.blocked_since is None and not self.waiting:
                self.output.messages += messages
                self._write(data)
            else:
                self.waiting.append((data, messages))
                self.waiting_bytes += len(data)
                self.waiting_messages += messages
                self.output.waits(self.waiting_messages)

    def drop_oldest(self) -> int:
        """Drop the data frame that has waited longest; its number of messages."""
        data, messages = self.waiting.popleft()
        self.waiting_bytes -= len(data)
        self.waiting_messages -= messages
        self.output.waits(self.waiting_messages)
        return messages

    def _write(self, data: bytearray) -> None:
        assert self._transport is not None
        if len(data) > self._longest:
            self._cannot_send(len(data) - HEADER_BYTES)
            return
        self.output.bytes += len(data)
        if self._intake is not None:
            self._intake.bytes_out += len(data)
        self._transport.write(data)

    def _cannot_send(self, size: int) -> None:
        """Close the connection over a frame that is longer than the peer reads. The bounds on what
        is accepted prevent such frames; should one occur, it is not sent, and the connection is not
        made again soon."""
        self.was_cut = True
        reads = self._longest - HEADER_BYTES
        self.close(f"a frame of {size} bytes is due, the peer reads {reads}", for_good=True)

    def keep_alive(self, now: float, silence_s: float) -> None:
        """Send a keep-alive, or close the connection to a peer that was silent for more than
        `silence_s` while it was read from."""
        if not self.open or self._transport is None:
            return
        if self._transport.is_reading() and now - self.last_in > silence_s:
            self.close(f"silent for {silence_s:.3g} s")
        elif self._has_introduced and not self.unread_bytes:  # unread frames serve as keep-alives
            self.send(KeepAlive())

    @property
    def unread_bytes(self) -> int:
        """Bytes that were written and are still in the transport's buffer."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    @property
    def is_silenced(self) -> bool:
        """Whether nothing is read from the peer."""
        return bool(self._silencers)

    def pause_reading(self, why: str = "") -> None:
        """Stop reading from the peer for this reason."""
        if why not in self._silencers:
            self._silencers[why] = None
            if self._transport is not None and self._transport.is_reading():
                self._transport.pause_reading()

    def resume_reading(self, why: str = "") -> None:
        """Drop this reason not to read; read again if there is no other."""
        if not self._silencers:
            return
        self._silencers.pop(why, None)
        if not self._silencers and (self._reader.has_more or self._unchecked is not None):
            self._defer()  # what has arrived already goes first
        self._listen()

    def _listen(self) -> None:
        if self._silencers or self._transport is None or not self.open:
            return
        if not self._transport.is_reading():
            self.last_in = self._loop.time()
            self._transport.resume_reading()

    @property
    def host(self) -> str:
        """The host that the peer is at."""
        return self.address.rpartition(":")[0]

    def close(self, reason: str, for_good: bool = False, *, heard_out: bool = False) -> None:
        """Send a goodbye with the reason, and close. Frames written before are still sent, if the
        peer reads within `CLOSE_S`. With `heard_out` the peer's frames are read until it closes
        too: an unread one would have the system reset the connection, and what was written may
        be lost with that."""
        if not self.open:
            return
        self._introduce(CLIENT_PROTOCOL_VERSION)  # if the peer is not known
        self.send(Goodbye(shortened(reason, REASON_LENGTH_MAX), for_good))
        self.open = False
        self._reason = self._reason or reason
        self._forget_unread()
        assert self._transport is not None
        if heard_out and self._transport.can_write_eof():
            self.waiting.clear()  # nothing can be written after the end
            self.waiting_bytes = self.waiting_messages = 0
            self._silencers.clear()
            self._transport.write_eof()
            if not self._transport.is_reading():
                self._transport.resume_reading()
        else:
            self._transport.close()
        self._closing = self._loop.call_later(CLOSE_S, self._transport.abort)

    def abort(self, reason: str) -> None:
        """Drop the connection without a goodbye."""
        self._reason = self._reason or reason
        self.open = False
        if self._transport is not None:
            self._transport.abort()
