"""One TCP connection: preambles, frames, keep-alive, and two lanes out.

Control frames are written at once. Data frames are written while the peer reads; then they wait
here, so that little data is ever in front of a control frame. What comes is taken in slices, so
that no peer has the event loop for itself. It knows nothing of routing; whoever owns the connection
is told what comes.
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
from byway.transport.intake import FRAMES_A_SLICE, Intake, cost_of
from byway.wire import (
    FRAME_BYTES_MAX,
    REQUESTS_BYTES_MAX,
    FrameReader,
    check_requests,
    decode,
    encode,
    encode_all,
    encode_counted,
    requests_in,
)
from byway.wire.frames import HEADER_BYTES

WRITE_HIGH_BYTES: Final = 262_144
"""Data waits here, not in the transport, when so much is unwritten."""
FRAME_BYTES_LEAST: Final = 2_097_152
"""A client that reads no frames of this length cannot take every publication."""
STRANGER_BYTES_MAX: Final = 4_096
"""The longest frame of a peer that has not been taken in: preambles and what clients say first are
short."""
GREETING_BYTES_MAX: Final = 65_536
"""The longest frame of a peer that says it is a broker and has not been taken in."""
_PUBLICATIONS: Final = {PublishRequest}
_DEFERRED: Final = "more has come than is taken at a time"
CLOSE_S: Final = 2.0
"""How long what was written may take to go out when a connection is closed."""


class Owner(Protocol):
    """Whoever is told what happens to a connection."""

    def greeted(self, connection: Connection, peer: Preamble) -> None:
        """The peer has said who it is."""

    def received(self, connection: Connection, frame: AnyFrame) -> None:
        """A frame came."""

    def drained(self, connection: Connection) -> None:
        """The peer has read what waited for it."""

    def lost(self, connection: Connection, reason: str) -> None:
        """The connection is gone."""


def version_between(*roles: str) -> int:
    """The version that two sides of a connection must have in common."""
    return CLIENT_PROTOCOL_VERSION if "client" in roles else PROTOCOL_VERSION


class Connection(asyncio.Protocol):
    """A connection and its peer. Who dialled speaks first; the other side answers with the version
    that goes with the role of the first.

    With an `intake`, which a broker's connections share, a peer may send little before it is taken
    in, and what clients ask for is checked in slices. A client's connection needs none: it trusts
    its broker.
    """

    def __init__(
        self, owner: Owner, own: Preamble, dialled: bool, intake: Intake | None = None
    ) -> None:
        self.owner = owner
        self.own = own
        self.dialled = dialled
        self.peer: Preamble | None = None
        self.address = "?"
        self.open = False
        self.frames_in = self.frames_out = self.bytes_in = self.bytes_out = 0
        self.last_in = self.last_out = 0.0
        self.waiting: deque[tuple[bytearray, int]] = deque()
        """Data frames that wait for the peer to read, and the messages in each."""
        self.waiting_bytes = self.waiting_messages = 0
        self.blocked_since: float | None = None
        """When the peer stopped reading, or said that it wants no data for now, if it did."""
        self._is_paused = self._is_held = False
        self.goodbye: Goodbye | None = None
        """What the peer said last, if it closes."""
        self.said: Hello | None = None
        """What a broker greeted its neighbour with."""
        self.was_up = False
        """Whether it has served as a link."""
        self.is_new = False
        """Whether its peer was no neighbour before."""
        self.was_cut = False
        """Whether one end closed it because the other broke the rules, or closes a ring."""
        self.expects = ""
        """The name that its peer must have, if that is known."""
        self.when_lost: asyncio.Future[None] | None = None
        self.began = 0.0
        """When it was made."""
        self.refusal = ""
        """Why the peer was not let in: it speaks another version."""
        self._has_introduced = False
        self._longest = HEADER_BYTES + FRAME_BYTES_LEAST
        """Bytes of the longest frame that the peer reads, with its header."""
        self._reason = ""
        self._transport: asyncio.Transport | None = None
        self._closing: asyncio.TimerHandle | None = None
        self.is_link = False
        """Whether its peer is a neighbour that has greeted."""
        self.frame_bytes = 0
        """Length of the frame that was taken last."""
        self.when_read: Callable[[Connection], None] | None = None
        """Called when the peer has read nearly all that was written, if it had not for a while."""
        self.counted_bytes = 0
        """What its owner counts as not read by the peer."""
        self._intake = intake
        self._partial_bytes = 0
        """What the intake knows to be kept here of a frame that is not complete."""
        is_stranger = intake is not None and not dialled
        self._reader = FrameReader(STRANGER_BYTES_MAX if is_stranger else own.frame_bytes_max)
        self._unchecked: Requests | None = None
        """Requests that came and are not all checked yet,"""
        self._checked = 0
        """and how many of them are."""
        self._silencers: dict[str, None] = {}
        """Why nothing is read from the peer."""
        self._loop = asyncio.get_running_loop()

    def __repr__(self) -> str:
        who = "?" if self.peer is None else f"{self.peer.role} {self.peer.name}"
        return f"<Connection to {who} at {self.address}, {self.waiting_messages} messages wait>"

    @property
    def blocked_s(self) -> float:
        """For how long the peer has not been reading."""
        return 0.0 if self.blocked_since is None else self._loop.time() - self.blocked_since

    # --- the transport's calls -----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say who we are, if we dialled; else hear first who the other is."""
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's is none by type
        transport.set_write_buffer_limits(high=WRITE_HIGH_BYTES, low=WRITE_HIGH_BYTES // 4)
        raw = transport.get_extra_info("socket")
        if raw is not None and raw.family in (socket.AF_INET, socket.AF_INET6):
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        address = transport.get_extra_info("peername")
        if isinstance(address, tuple):
            self.address = f"{address[0]}:{address[1]}"
        self.open = True
        self.began = self.last_in = self.last_out = self._loop.time()
        if self.dialled:
            self._introduce(self.own.version)

    def _introduce(self, version: int) -> None:
        if not self._has_introduced:
            self._has_introduced = True
            self.own = msgspec.structs.replace(self.own, version=version)
            self.send(self.own)

    def data_received(self, data: bytes) -> None:
        """Take frames out of what came; a bad one costs the connection."""
        self.bytes_in += len(data)
        self.last_in = self._loop.time()
        if not self.open:
            return
        self._reader.put(data)
        if not self._silencers:
            self._take_all()

    def _take_all(self) -> None:
        """Take what is complete, or a slice of it; the rest is taken when others were served, or
        when the peer is listened to again."""
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
            self.close(str(error))
            return
        kept = 0 if self._silencers else self._reader.waiting_bytes
        if (kept or self._partial_bytes) and self._intake is not None:
            self._partial_bytes = kept
            self._intake.keeps(self, kept, is_new=self.frames_in > before)

    def _take_payload(self, payload: memoryview) -> bool:
        """Take one frame; False: not all of it, the rest comes later."""
        self.frame_bytes = len(payload)
        if self._intake is None or self.peer is None or self.peer.role != "client":
            self._take(decode(payload))
            return True
        if len(payload) > REQUESTS_BYTES_MAX and requests_in(payload) != 1:
            raise FrameError(
                f"a frame of {len(payload)} bytes that is not one publication: expected at most "
                f"{REQUESTS_BYTES_MAX}"
            )
        frame = decode(payload, requests_later=True)
        if type(frame) is not Requests:
            self._take(frame)
            return True
        if set(map(type, frame.requests)) == _PUBLICATIONS:  # nothing is checked in them
            self.owner.received(self, frame)
            return True
        self._unchecked, self._checked = frame, 0
        return self._check()

    def _check(self) -> bool:
        """Check requests as long as there is room for it, and hand them on when all are."""
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
        """Go on in the next iteration of the event loop; nothing more is read until then."""
        self.pause_reading(_DEFERRED)
        self._loop.call_soon(self._go_on)

    def _go_on(self) -> None:
        self._silencers.pop(_DEFERRED, None)
        if self.open and not self._silencers:
            self._take_all()
        self._listen()

    def trust(self, is_link: bool = False) -> None:
        """The peer was taken in: it may send frames of any length that is read here."""
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
        """The peer does not read as fast as we write."""
        self._is_paused = True
        self._block()

    def resume_writing(self) -> None:
        """The peer reads again."""
        self._is_paused = False
        self._unblock()
        if self.when_read is not None:
            self.when_read(self)

    def hold(self, is_held: bool) -> None:
        """The peer wants no data for now, or wants it again."""
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
            self._write(data)
        if not self.waiting:
            self.owner.drained(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the owner, once."""
        self.open = False
        if self._closing is not None:
            self._closing.cancel()
        self.waiting.clear()
        self.waiting_bytes = self.waiting_messages = 0
        self._forget_unread()
        self.owner.lost(self, self._reason or (str(exc) if exc else "the peer closed it"))

    def _forget_unread(self) -> None:
        """What has come and was not taken is of no use any more."""
        self._reader.clear()
        self._unchecked = None
        if self._intake is not None:
            self._intake.forget(self)

    # --- the owner's calls ---------------------------------------------------------------------

    def send(self, frame: AnyFrame) -> None:
        """Write a frame before all data that waits."""
        if self.open:
            self._write(encode(frame))

    def send_large(self, frame: AnyFrame) -> None:
        """The same, in several frames if it is long."""
        if self.open:
            for data in encode_all(frame):
                self._write(data)

    def send_data(self, frame: AnyFrame) -> None:
        """Write a data frame when the peer reads."""
        if not self.open:
            return
        for data, messages in encode_counted(frame):
            if self.blocked_since is None and not self.waiting:
                self._write(data)
            else:
                self.waiting.append((data, messages))
                self.waiting_bytes += len(data)
                self.waiting_messages += messages

    def drop_oldest(self) -> int:
        """Forget the data frame that waits longest; how many messages were in it."""
        data, messages = self.waiting.popleft()
        self.waiting_bytes -= len(data)
        self.waiting_messages -= messages
        return messages

    def _write(self, data: bytearray) -> None:
        assert self._transport is not None
        if len(data) > self._longest:
            self._cannot_send(len(data) - HEADER_BYTES)
            return
        self.frames_out += 1
        self.bytes_out += len(data)
        self._transport.write(data)

    def _cannot_send(self, size: int) -> None:
        """A frame is longer than the peer reads. Bounds on all that is accepted see to it that none
        is; if one is all the same, it is not sent, and the connection is not made again soon."""
        self.was_cut = True
        reads = self._longest - HEADER_BYTES
        self.close(f"a frame of {size} bytes is due, the peer reads {reads}", for_good=True)

    def keep_alive(self, now: float, silence_s: float) -> None:
        """Say that we are here. Give up a peer that has been silent for too long, unless it is not
        listened to."""
        if not self.open or self._transport is None:
            return
        if self._transport.is_reading() and now - self.last_in > silence_s:
            self.close(f"silent for {silence_s:.3g} s")
        elif self._has_introduced and not self.unread_bytes:  # what is unread says the same
            self.send(KeepAlive())

    @property
    def unread_bytes(self) -> int:
        """Bytes that were written and that the peer has not made room for."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    @property
    def is_silenced(self) -> bool:
        """Whether nothing is read from the peer."""
        return bool(self._silencers)

    def pause_reading(self, why: str = "") -> None:
        """Take nothing more from the peer for now."""
        if why not in self._silencers:
            self._silencers[why] = None
            if self._transport is not None and self._transport.is_reading():
                self._transport.pause_reading()

    def resume_reading(self, why: str = "") -> None:
        """Take from the peer again, unless there is another reason not to."""
        if not self._silencers:
            return
        self._silencers.pop(why, None)
        if not self._silencers and (self._reader.has_more or self._unchecked is not None):
            self._defer()  # what has come already goes first
        self._listen()

    def _listen(self) -> None:
        if self._silencers or self._transport is None or not self.open:
            return
        if not self._transport.is_reading():
            self.last_in = self._loop.time()
            self._transport.resume_reading()

    def close(self, reason: str, for_good: bool = False) -> None:
        """Say why, and close. What was written before still goes out, if the peer reads."""
        if not self.open:
            return
        self._introduce(CLIENT_PROTOCOL_VERSION)  # if we do not know to whom
        self.send(Goodbye(shortened(reason, REASON_LENGTH_MAX), for_good))
        self.open = False
        self._reason = self._reason or reason
        self._forget_unread()
        assert self._transport is not None
        self._transport.close()
        self._closing = self._loop.call_later(CLOSE_S, self._transport.abort)

    def abort(self, reason: str) -> None:
        """Drop the connection as it is."""
        self._reason = self._reason or reason
        self.open = False
        if self._transport is not None:
            self._transport.abort()
