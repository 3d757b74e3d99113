"""What hostile peers say: whole conversations, made from a seed.

A script is everything one connection sends and how it ends. Most begin as an honest peer would, so
that the broker is deep in a conversation when something is wrong; others are wrong from the first
byte. Pure: the same seed and facts make the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final, Literal

import msgspec

from byway.model.bounds import PUBLISHER_WINDOW
from byway.model.messages import (
    Acknowledge,
    Advertise,
    AdvertisementsSynced,
    AdvertiseRequest,
    ClientHello,
    DeliveriesReceived,
    Disconnect,
    Goodbye,
    Hello,
    HoldDeliveries,
    KeepAlive,
    Lane,
    Preamble,
    Publish,
    PublishRequest,
    Requests,
    StatusRequest,
    Subscribe,
    SubscribeRequest,
    SubscriptionsSynced,
    SyncDigest,
    SyncNames,
)
from byway.wire.codec import FRAME_BYTES_MAX
from byway.wire.frames import LENGTH
from tests.hostile import values
from tests.hostile.shapes import (
    FRAMES,
    HOSTILE_BROKERS,
    HOSTILE_CLIENTS,
    MESSAGES,
    REQUESTS,
    Facts,
    Maker,
    below,
    pick,
)

Role = Literal["broker", "client"]
Writing = Literal["frames", "together", "bytes", "pieces"]
Ending = Literal["listen", "vanish", "stay"]


class Piece(msgspec.Struct, frozen=True):
    """Bytes that a connection sends, and what they are; without bytes, an acknowledgement of all
    that has come until then."""

    kind: str
    data: bytes = b""


ACKNOWLEDGE_RECEIVED: Final = Piece("ack")


class Script(msgspec.Struct, frozen=True):
    """One connection."""

    role: Role
    pieces: tuple[Piece, ...]
    writing: Writing = "together"
    """A write for each piece, one for all, one a byte, or some of some bytes."""
    ending: Ending = "listen"
    """It hears the broker out; or is gone at once; or stays, without a word, and reads nothing."""
    why: str = ""
    """What is wrong with it, if that is known."""


def framed(payload: bytes) -> bytes:
    """A payload with its length in front."""
    return LENGTH.pack(len(payload)) + payload


def piece(value: list[Any], kind: str = "") -> Piece:
    """A frame of plain values. What cannot be said in msgpack is left to be a frame of nothing."""
    named = kind or (value[0] if value and isinstance(value[0], str) and value[0] else "?")
    try:
        return Piece(_kind(named), framed(msgspec.msgpack.encode(value)))
    except (TypeError, OverflowError, ValueError, RecursionError):
        return Piece(_kind(named), framed(b"\x90"))


_TAGS: Final = {str(s.tag) for s in (*FRAMES.values(), *MESSAGES.values(), *REQUESTS.values())}


def _kind(tag: str) -> str:
    return tag if tag in _TAGS or tag.startswith("(") else "?"


# --- honest beginnings ---------------------------------------------------------------------------


class Speaker:
    """One conversation in the making."""

    def __init__(self, rng: Random, facts: Facts, role: Role, name: str, incarnation: int) -> None:
        self.rng = rng
        self.role = role
        self.maker = Maker(rng, facts, name, role, incarnation)
        self.pieces: list[Piece] = []
        self.why = ""
        self._numbers = {Lane.CONTROL: 1, Lane.DATA: 1}

    def say(self, value: list[Any], kind: str = "", spoilt: bool = False) -> None:
        """Say a frame, as it is or with something hostile in it."""
        kind = kind or str(value[0])
        if spoilt and self.maker.slots:
            self.why = f"{kind}: {self.maker.spoil()}"
        self.maker.slots.clear()
        self.pieces.append(piece(value, kind))

    def greet(self, spoilt: str = "", kind: str | None = "primary") -> None:
        """Say who this is, and what a link or session goes on with; a link is of this kind."""
        self.maker.slots.clear()
        preamble = self.maker.frame(Preamble, name=self.maker.name)
        self.say(preamble, spoilt=spoilt == "preamble")
        if self.role == "client":
            received = pick(self.rng, (0, 0, 0, 1, 5))
            hello = self.maker.frame(ClientHello, received=received)
        else:
            hello = self.maker.frame(
                Hello, broker=self.maker.name, knows=0, control=0, data=0, confirmed=0, epoch=0,
                kind=kind, publisher_window=PUBLISHER_WINDOW,
            )  # fmt: skip
        self.say(hello, spoilt=spoilt == "hello")

    def tell(self, *kinds: type, spoilt: bool = False, number: int | None = None) -> None:
        """Messages of one lane, in one frame."""
        lane = self.maker.lane_of(kinds[0])
        made = [self.maker.message(kind) for kind in kinds]
        first = self._numbers[lane] if number is None else number
        self._numbers[lane] += len(made)
        self.say(self.maker.batch(first, made, lane), str(MESSAGES[kinds[0]].tag), spoilt)

    def tell_exactly(self, lane: Lane, *made: list[Any]) -> None:
        """Messages that are given, with the right number."""
        first = self._numbers[lane]
        self._numbers[lane] += len(made)
        self.say(self.maker.batch(first, list(made), lane), str(made[0][0]))

    def ask(self, *kinds: type, spoilt: bool = False) -> None:
        """Requests, in one frame."""
        made = [self.maker.request(kind) for kind in kinds]
        frame = self.maker.frame(Requests, requests=made)
        self.say(frame, str(REQUESTS[kinds[0]].tag), spoilt)

    def sync(self) -> None:
        """Compare tables: this end holds nothing, and has nothing to tell. Mostly in order."""
        steps = [SyncDigest, AdvertisementsSynced, SubscriptionsSynced]
        draw = self.rng.random()
        if draw < 0.08:
            self.rng.shuffle(steps)
        elif draw < 0.12:
            steps.pop(below(self.rng, 3))
        elif draw < 0.16:
            steps.append(pick(self.rng, steps))
        for step in steps:
            empty = [[], []] if step is SyncDigest else [[], False]
            if self.rng.random() < 0.1:
                self.tell(step)
            else:
                self.tell_exactly(Lane.CONTROL, [MESSAGES[step].tag, *empty])

    def numbers_wrong(self) -> None:
        """Messages whose number is not the next one."""
        kind = pick(self.rng, (Subscribe, Advertise, Publish))
        now = self._numbers[self.maker.lane_of(kind)]
        wrong = pick(self.rng, (now + 1, now + 1_000, now - 1, 1, 0, -1, 2**53, 2**63, 2**64 - 1))
        self.why = f"number {wrong}, expected {now}"
        self.tell(kind, number=wrong)

    def script(self) -> Script:
        """What was said, and how it ends."""
        draw = self.rng.random()
        size = sum(len(p.data) for p in self.pieces)
        writing: Writing = "together"
        if draw < 0.25:
            writing = "frames"
        elif draw < 0.3:
            writing = "pieces"
        elif draw < 0.32 and size < 600:
            writing = "bytes"
        ending: Ending = pick(self.rng, ("listen",) * 30 + ("vanish",) * 8 + ("stay",) * 2)
        return Script(self.role, tuple(self.pieces), writing, ending, self.why)


_OF_BROKERS: Final = (
    *sorted(MESSAGES, key=lambda cls: cls.__name__),
    *(Advertise, Subscribe, Publish, Publish) * 4,
)
_ENDING: Final = (Disconnect, SyncDigest, SyncNames)
"""What ends a conversation with a broker, or breaks a rule where it was not asked for."""
_KINDS: Final = (*["primary"] * 8, None, "soft", "opening")
"""What a link is said to be for."""
_OF_CLIENTS: Final = (
    *sorted(REQUESTS, key=lambda cls: cls.__name__),
    *(SubscribeRequest, AdvertiseRequest, PublishRequest, PublishRequest) * 2,
)


def _broker(rng: Random, facts: Facts) -> Speaker:
    name = pick(rng, HOSTILE_BROKERS[:-4])  # the last ones have greetings that spoil them
    if rng.random() < 0.03:  # they are connected under another incarnation
        name = pick(rng, (*facts.neighbours, facts.target))
    return Speaker(rng, facts, "broker", name, 1 + below(rng, 3))


def _client(rng: Random, facts: Facts) -> Speaker:
    return Speaker(rng, facts, "client", pick(rng, HOSTILE_CLIENTS), pick(rng, (1, 1, 1, 2)))


# --- conversations -------------------------------------------------------------------------------


def neighbour(rng: Random, facts: Facts) -> Script:
    """A broker that is taken in, says valid things for a while, and then something hostile."""
    peer = _broker(rng, facts)
    peer.greet(kind=pick(rng, _KINDS))
    if rng.random() < 0.9:
        peer.sync()
    for _ in range(below(rng, 24)):
        draw = rng.random()
        if draw < 0.04:
            peer.pieces.append(ACKNOWLEDGE_RECEIVED)
        elif draw < 0.06:
            peer.say([FRAMES[KeepAlive].tag])
        elif draw < 0.08:
            peer.say([FRAMES[Acknowledge].tag, pick(rng, (0, 1, 2)), 0, 0])
        else:
            kind = pick(rng, _OF_BROKERS)
            if kind in _ENDING and rng.random() < 0.9:
                continue
            lane = peer.maker.lane_of(kind)
            fitting = [k for k in _OF_BROKERS if peer.maker.lane_of(k) is lane and k not in _ENDING]
            peer.tell(kind, *(pick(rng, fitting) for _ in range(pick(rng, (0, 0, 0, 1, 3)))))
    _neighbour_ends(rng, peer)
    return peer.script()


def _neighbour_ends(rng: Random, peer: Speaker) -> None:
    draw = rng.random()
    if draw < 0.3:
        peer.tell(Disconnect)
    elif draw < 0.62:
        peer.tell(pick(rng, _OF_BROKERS), spoilt=True)
    elif draw < 0.72:
        peer.numbers_wrong()
    elif draw < 0.77:
        peer.why = "an acknowledgement of what was never sent"
        numbers = [pick(rng, (0, 1, *values.INTEGERS)) for _ in range(3)]
        peer.say([FRAMES[Acknowledge].tag, *numbers])
    elif draw < 0.81:
        peer.why = "a second greeting"
        peer.greet()
    elif draw < 0.87:
        peer.why = "the other lane"
        kind = pick(rng, _OF_BROKERS)
        other = Lane.DATA if peer.maker.lane_of(kind) is Lane.CONTROL else Lane.CONTROL
        peer.tell_exactly(other, peer.maker.message(kind))
    elif draw < 0.93:
        frame = pick(rng, sorted(FRAMES, key=lambda cls: cls.__name__))
        peer.why = "any frame"
        peer.say(peer.maker.frame(frame))
    else:
        peer.say(peer.maker.frame(pick(rng, (Hello, Acknowledge, Goodbye))), spoilt=True)
    if rng.random() < 0.3:
        peer.tell(pick(rng, _OF_BROKERS))


def customer(rng: Random, facts: Facts) -> Script:
    """A client that is taken in, asks valid things for a while, and then something hostile."""
    peer = _client(rng, facts)
    peer.greet()
    for _ in range(below(rng, 24)):
        draw = rng.random()
        if draw < 0.03:
            peer.say([FRAMES[KeepAlive].tag])
        elif draw < 0.05:
            peer.say([FRAMES[StatusRequest].tag])
        elif draw < 0.07:
            peer.say([FRAMES[HoldDeliveries].tag, rng.random() < 0.5])
        else:
            kinds = [pick(rng, _OF_CLIENTS) for _ in range(pick(rng, (1, 1, 1, 2, 6)))]
            peer.ask(*kinds)
    draw = rng.random()
    if draw < 0.3:
        peer.say([FRAMES[Goodbye].tag, "", rng.random() < 0.7])
    elif draw < 0.7:
        peer.ask(pick(rng, _OF_CLIENTS), spoilt=True)
    elif draw < 0.76:
        peer.why = "a second greeting"
        peer.greet()
    elif draw < 0.84:
        peer.why = "any frame"
        peer.say(peer.maker.frame(pick(rng, sorted(FRAMES, key=lambda cls: cls.__name__))))
    elif draw < 0.9:
        peer.why = "sequences or receipts out of order"
        peer.maker.sequence = pick(rng, (0, 0, 1, 5, 2**53, 2**62, 2**63 - 2, 2**63))
        peer.ask(PublishRequest, pick(rng, (PublishRequest, DeliveriesReceived)))
    else:
        peer.say(peer.maker.frame(pick(rng, (ClientHello, HoldDeliveries, Goodbye))), spoilt=True)
    if rng.random() < 0.3:
        peer.ask(pick(rng, _OF_CLIENTS))
    return peer.script()


def greeting(rng: Random, facts: Facts, role: Role) -> Script:
    """A greeting with something hostile in it, and what an honest peer would go on with."""
    names = HOSTILE_BROKERS[-4:] if role == "broker" else [f"g{i}" for i in range(1_000)]
    peer = Speaker(rng, facts, role, pick(rng, names), 1 + below(rng, 3))
    peer.greet(pick(rng, ("preamble", "hello", "hello")))
    if role == "broker":
        peer.sync()
        for kind in (Advertise, Subscribe, Publish):
            peer.tell(kind)
    else:
        peer.ask(AdvertiseRequest)
        peer.ask(SubscribeRequest, PublishRequest)
    return peer.script()


def wrong_role(rng: Random, facts: Facts, role: Role) -> Script:
    """A client that speaks as a broker, or the other way round; or phases in the wrong order."""
    peer = _broker(rng, facts) if role == "broker" else _client(rng, facts)
    if rng.random() < 0.8:
        peer.greet()
    peer.why = "messages of the other role"
    for _ in range(1 + below(rng, 3)):
        if role == "client":
            peer.tell(pick(rng, _OF_BROKERS))
        else:
            peer.ask(pick(rng, _OF_CLIENTS))
    return peer.script()


def same_name(rng: Random, facts: Facts) -> Script:
    """An older incarnation of an honest client: it must be sent away."""
    peer = Speaker(rng, facts, "client", pick(rng, facts.clients), below(rng, 2))
    peer.why = "an older incarnation of an honest client"
    peer.greet()
    peer.ask(PublishRequest)
    return peer.script()


def bytes_of_old(rng: Random, facts: Facts, role: Role, recorded: tuple[bytes, ...]) -> Script:
    """Recorded frames with some bytes changed, mostly behind an honest greeting."""
    peer = _broker(rng, facts) if role == "broker" else _client(rng, facts)
    if rng.random() < 0.8:
        peer.greet()
        if role == "broker":
            peer.sync()
    for _ in range(1 + below(rng, 3)):
        data = bytearray(pick(rng, recorded))
        for _ in range(1 + below(rng, 4)):
            draw = rng.random()
            at = below(rng, len(data))
            if draw < 0.6:
                data[at] ^= 1 << below(rng, 8)
            elif draw < 0.8:
                data[at] = below(rng, 256)
            elif draw < 0.9 and len(data) > 5:
                del data[at:]
                break
            else:
                data[at:at] = bytes(below(rng, 256) for _ in range(4))
        if rng.random() < 0.7 and len(data) > 4:  # a length that fits
            data[:4] = LENGTH.pack(len(data) - 4)
        peer.pieces.append(Piece("(bytes)", bytes(data) or b"\0"))
    peer.why = "bytes changed"
    return peer.script()


def noise(rng: Random, facts: Facts) -> Script:
    """What is no frame at all: lengths that lie, depths, garbage, other protocols."""
    draw = rng.random()
    if draw < 0.2:
        length = pick(rng, (0, FRAME_BYTES_MAX, FRAME_BYTES_MAX + 1, 2**31, 2**32 - 1))
        data = LENGTH.pack(length) + b"\x90" * below(rng, 40)
    elif draw < 0.4:
        data = framed(msgspec.msgpack.encode(pick(rng, values.ANYTHING)))
    elif draw < 0.6:
        data = bytes(below(rng, 256) for _ in range(1 + below(rng, 200)))
    elif draw < 0.7:
        data = framed(pick(rng, (b"\x91", b"\x81\xa0", b"\x92\xa5byway")) * (1 + below(rng, 2_000)))
    elif draw < 0.8:
        data = pick(rng, (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\0", b"PRI * HTTP/2.0\r\n"))
    else:
        peer = _client(rng, facts)
        peer.greet()
        whole = b"".join(p.data for p in peer.pieces)
        data = whole[: 1 + below(rng, len(whole))]
    ending: Ending = pick(rng, ("listen", "vanish", "vanish", "stay"))
    return Script("client", (Piece("(noise)", data),), "together", ending, "noise")


def churn(rng: Random, facts: Facts, role: Role) -> Script:
    """Someone of any name connects, says half a greeting, and is gone."""
    name = f"{role[0]}{below(rng, 10_000)}"
    peer = Speaker(rng, facts, role, name, 1 + below(rng, 2**30))
    peer.greet()
    preamble, hello = peer.pieces
    keep = pick(rng, (0, 1, 3, 5, len(preamble.data) - 1, len(preamble.data)))
    pieces = [Piece("(half)", preamble.data[:keep])] if keep else []
    if keep == len(preamble.data):
        pieces = [preamble]
        if rng.random() < 0.5:
            pieces.append(Piece("(half)", hello.data[: 1 + below(rng, len(hello.data) - 1)]))
        elif role == "client":
            pieces.append(hello)
    return Script(role, tuple(pieces), "frames", "vanish", "half a greeting")


def large(rng: Random, facts: Facts, role: Role) -> Script:
    """Frames near their largest size: a filter, a body, many messages; or half of one."""
    peer = _broker(rng, facts) if role == "broker" else _client(rng, facts)
    peer.greet()
    if role == "broker":
        peer.sync()
    draw = rng.random()
    size = pick(rng, (1, 4, 15, 31, 60, 63))
    if draw < 0.5:
        if draw < 0.1:
            wide = values.slow_filter(below(rng, values.SLOW_KINDS))
            peer.why = "a filter that is slow to check"
        else:
            wide = values.wide_filter(size)
            peer.why = f"a filter of {size} × 64 KiB"
        if role == "broker":
            tag = MESSAGES[pick(rng, (Advertise, Subscribe))].tag
            peer.tell_exactly(Lane.CONTROL, [tag, peer.maker.entry_id(1.0), wide])
        else:
            tag = REQUESTS[pick(rng, (AdvertiseRequest, SubscribeRequest))].tag
            peer.say([FRAMES[Requests].tag, [[tag, "wide", wide]]], str(tag))
    elif draw < 0.75:
        body = pick(rng, values.large_bodies())
        peer.why = f"a body of {len(body)} bytes"
        if role == "broker":
            tag = MESSAGES[Publish].tag
            header = [pick(rng, HOSTILE_CLIENTS), 1, 1, 1, 1, 0, 0]
            peer.tell_exactly(Lane.DATA, [tag, *header, body])
        else:
            peer.ask(AdvertiseRequest)
            tag = REQUESTS[PublishRequest].tag
            peer.say([FRAMES[Requests].tag, [[tag, 1, body]]], str(tag))
    else:
        peer.why = "half of a large frame"
        data = LENGTH.pack(FRAME_BYTES_MAX) + b"\x94" * (size * 16_384)
        peer.pieces.append(Piece("(half)", data))
    return peer.script()


def deaf(rng: Random, facts: Facts) -> Script:
    """A client that asks and asks and reads nothing."""
    peer = _client(rng, facts)
    peer.greet()
    for _ in range(20 + below(rng, 60)):
        if rng.random() < 0.5:
            peer.say([FRAMES[StatusRequest].tag])
        else:
            peer.ask(*(pick(rng, _OF_CLIENTS) for _ in range(4)))
    return Script("client", tuple(peer.pieces), "together", "stay", "unread answers")


# --- a round -------------------------------------------------------------------------------------

Conversation = Callable[[Random, Facts, Role, tuple[bytes, ...]], Script]
_WEIGHTED: Final[tuple[tuple[int, Conversation], ...]] = (
    (400, lambda rng, facts, role, _: (neighbour if role == "broker" else customer)(rng, facts)),
    (120, lambda rng, facts, role, _: greeting(rng, facts, role)),
    (40, lambda rng, facts, role, _: wrong_role(rng, facts, role)),
    (100, bytes_of_old),
    (50, lambda rng, facts, _, __: noise(rng, facts)),
    (120, lambda rng, facts, role, _: churn(rng, facts, role)),
    (10, lambda rng, facts, _, __: same_name(rng, facts)),
    (4, lambda rng, facts, role, _: large(rng, facts, role)),
    (4, lambda rng, facts, _, __: deaf(rng, facts)),
)
_CONVERSATIONS: Final = tuple(made for weight, made in _WEIGHTED for _ in range(weight))


def scripts(
    seed: int, facts: Facts, frames: int, roles: tuple[Role, ...], recorded: tuple[bytes, ...]
) -> Iterator[Script]:
    """Conversations with about so many frames in all."""
    rng = Random(seed)
    said = 0
    while said < frames:
        role = pick(rng, roles)
        made = pick(rng, _CONVERSATIONS)(rng, facts, role, recorded)
        said += max(len(made.pieces), 1)
        yield made
