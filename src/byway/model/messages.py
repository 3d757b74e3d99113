"""Every message that travels between brokers, and the frames that carry them.

One vocabulary for `core`, which decides, and `wire`, which turns it into bytes. Messages are
frozen, tagged and array-like; a tag is never used for something else. Numbers live in the frame,
not in the message, so that a message can be forwarded as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta

from byway.model.bounds import (
    BUCKETS_MAX,
    DELIVERED_NAMES_MAX,
    HINTS_MAX,
    IDS_BYTES_MAX,
    IDS_MAX,
    LOADS_MAX,
    MESSAGES_MAX,
    NAMES_MAX,
    NEIGHBOURS_MAX,
    PATH_MAX,
    SIMILARITIES_MAX,
    BodyBytes,
    Bucket,
    Digest,
    Int31,
    Int64,
    Integer,
    Name,
    Number,
    OwnerName,
    Rate,
    Reason,
    Role,
    Share,
    Subject,
)
from byway.model.filters import Filter

PROTOCOL_VERSION: Final = 2
"""Of what brokers say to each other."""
CLIENT_PROTOCOL_VERSION: Final = 1
"""Of what a client and its broker say to each other."""

_IDS_SURELY_SHORT: Final = 64

T = TypeVar("T")
_encode = msgspec.msgpack.Encoder().encode


class Lane(IntEnum):
    """The two FIFO lanes of a link. Control never waits behind data; each has its own numbers."""

    CONTROL = 0
    DATA = 1


CONTROL: Final = Lane.CONTROL
DATA: Final = Lane.DATA
"""The lanes by a name of their own: to ask the enumeration takes ten times as long (up to
Python 3.11), and every frame asks several times."""


class EntryId(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Names a subscription or advertisement. An id is never used again: a client that starts anew
    has a higher incarnation, and its broker numbers what it asks for."""

    client: OwnerName
    name: Name
    incarnation: Int64
    number: Int64 = 0


Ids = Annotated[tuple[EntryId, ...], Meta(max_length=IDS_MAX)]
NamedIds = Annotated[tuple[tuple[EntryId, bool], ...], Meta(max_length=IDS_MAX)]
BrokerNames = Annotated[tuple[Name, ...], Meta(max_length=NEIGHBOURS_MAX)]
Digests = Annotated[tuple[Digest, ...], Meta(max_length=BUCKETS_MAX)]
Buckets = Annotated[tuple[Bucket, ...], Meta(max_length=BUCKETS_MAX)]


class _Message(msgspec.Struct, frozen=True, array_like=True):
    pass


# --- control lane ----------------------------------------------------------------------------


class Advertise(_Message, frozen=True, array_like=True, tag="adv"):
    """A publisher may publish what this filter, read closed-world, admits. Floods the tree."""

    id: EntryId
    filter: Filter


class AdvertisementSettled(_Message, frozen=True, array_like=True, tag="adv-ok"):
    """The flood beyond has been collected; the subscriptions it triggered came before this."""

    id: EntryId


class Subscribe(_Message, frozen=True, array_like=True, tag="sub"):
    """Send publications that match this filter."""

    id: EntryId
    filter: Filter


class SubscribeMany(_Message, frozen=True, array_like=True, tag="subs"):
    """The same as each of these, one after the other."""

    subscriptions: Annotated[tuple[Subscribe, ...], Meta(max_length=IDS_MAX)]


class SubscriptionsSettled(_Message, frozen=True, array_like=True, tag="sub-ok"):
    """These are in force at every broker beyond that they had to reach."""

    ids: Ids


class Hint(msgspec.Struct, frozen=True, array_like=True):
    """How far from the receiver a subscription's place is taken by others, for one publisher.

    So many hops on, the share of what the publisher sends to it that others want too reaches one of
    the similarities that are told with it: `distances` has one for each.
    """

    publisher: Name
    distances: Annotated[tuple[Int31, ...], Meta(max_length=SIMILARITIES_MAX)]


Hints = Annotated[tuple[Hint, ...], Meta(max_length=HINTS_MAX)]


class Unsubscribe(_Message, frozen=True, array_like=True, tag="unsub"):
    """These end here. Where their owners took them back, and their homes know enough to say from
    where on they may be preserved, there are hints, as many as ids."""

    ids: Ids
    similarities: Annotated[tuple[Share, ...], Meta(max_length=SIMILARITIES_MAX)] = ()
    """What the distances of the hints stand for, ascending."""
    hints: Annotated[tuple[Hints, ...], Meta(max_length=IDS_MAX)] = ()


class Retire(_Message, frozen=True, array_like=True, tag="retire"):
    """These end here too. Their owners took them back a while ago, and the sender preserved them
    until now."""

    ids: Ids


class SyncDigest(_Message, frozen=True, array_like=True, tag="held"):
    """Digests of what the sender holds from the receiver, by bucket; no buckets: it holds nothing.

    The first thing each end says over a link that starts anew. The receiver compares it with what
    the sender should hold, and asks for the names in the buckets that differ.
    """

    advertisements: Digests
    subscriptions: Digests
    neighbours: BrokerNames = ()
    """The receiver's neighbours, as it last told the sender: a broker that lost its state learns
    from this whom it has to wait for."""
    restarting: bool = False
    """The sender lost its state, or may have, and has not been told everything yet."""


class NeighbourNames(_Message, frozen=True, array_like=True, tag="near"):
    """The sender's neighbours, the receiver among them. The receiver keeps the names and gives
    them back in `SyncDigest`, should the sender forget them. Told again when they change.

    It is the answer to `SyncDigest`, and says then that the sender takes data from now on: by what
    the receiver held the sender knows all its neighbours, and those that have not told it
    everything count as wanting everything.
    """

    names: BrokerNames
    restarting: bool = False
    """The sender lost its state, or may have, and has not been told everything yet."""


class BrokersUnreachable(_Message, frozen=True, array_like=True, tag="away"):
    """Brokers behind the sender that cannot be reached now. Replaces what was said before."""

    brokers: BrokerNames


class SyncRequest(_Message, frozen=True, array_like=True, tag="ask"):
    """Asks for the names in these buckets, because their digests differ."""

    advertisements: Buckets
    subscriptions: Buckets


class SyncNames(_Message, frozen=True, array_like=True, tag="names"):
    """What is held in the buckets asked for, each with whether it is settled beyond."""

    advertisements: NamedIds
    subscriptions: NamedIds
    partial: bool = False
    """More names follow."""


class AdvertisementsSynced(_Message, frozen=True, array_like=True, tag="advs-told"):
    """The receiver now knows all advertisements of the sender; these, which it held, have ended."""

    ended: Ids = ()
    partial: bool = False
    """More that ended follow."""
    provisional: bool = False
    """The sender has not been told everything itself, and waits no longer: should it turn out that
    it was here before, it takes this back, and tells again when it knows all."""


class SubscriptionsSynced(_Message, frozen=True, array_like=True, tag="subs-told"):
    """The receiver now knows all subscriptions of the sender; these, which it held, have ended. It
    need not count the sender as wanting everything any more."""

    ended: Ids = ()
    partial: bool = False
    """More that ended follow."""
    provisional: bool = False
    """As in `AdvertisementsSynced`."""


class LinkProbe(_Message, frozen=True, array_like=True, tag="probe"):
    """Looks for a cycle: the brokers it has passed, from the one that sent it, with that one's
    incarnation and its number there."""

    path: Annotated[tuple[Name, ...], Meta(max_length=PATH_MAX)]
    incarnation: Int64
    number: Int64


class Disconnect(_Message, frozen=True, array_like=True, tag="part"):
    """The sender is no neighbour any more, and has forgotten what the receiver told."""

    reason: Reason


class Load(msgspec.Struct, frozen=True, array_like=True):
    """How busy a broker was over the last interval. Rates are per second."""

    broker: Name
    hops: Int31
    """From the receiver of the report."""
    at_us: Int64
    publications_in: Rate
    publications_out: Rate
    deliveries: Rate
    queued: Int64
    """Messages in its input queue."""
    uplink: Rate
    """Share of its uplink in use; 1 is all of it."""


class LoadReport(_Message, frozen=True, array_like=True, tag="load"):
    """What the sender knows of itself and of brokers behind it. Load exchange sends it."""

    loads: Annotated[tuple[Load, ...], Meta(max_length=LOADS_MAX)]


# --- data lane -------------------------------------------------------------------------------


class Publish(_Message, frozen=True, array_like=True, tag="pub"):
    """A publication: a header that brokers change, and a body that they pass on as it is.

    (publisher, incarnation, sequence) identifies it. `distance` and `count` are the statistics that
    pruning uses (docs/reference/papers.md).
    """

    publisher: Name
    incarnation: Int64
    sequence: Int64
    published_us: Int64
    hop: Int31
    distance: Int31
    count: Int31
    body: BodyBytes


class Unadvertise(_Message, frozen=True, array_like=True, tag="unadv"):
    """This ends here, after the publications sent before. The filter is named so that it can be
    told to a neighbour that lost it, for as long as publications are still under way."""

    id: EntryId
    filter: Filter


Message = (
    Advertise
    | AdvertisementSettled
    | Subscribe
    | SubscribeMany
    | SubscriptionsSettled
    | Unsubscribe
    | Retire
    | SyncDigest
    | NeighbourNames
    | BrokersUnreachable
    | SyncRequest
    | SyncNames
    | AdvertisementsSynced
    | SubscriptionsSynced
    | LinkProbe
    | Disconnect
    | LoadReport
    | Publish
    | Unadvertise
)


def in_parts(items: Sequence[T]) -> list[tuple[T, ...]]:
    """Ids, or ids with something more, in as many messages as they need; in one, if there are
    none."""
    starts = range(0, max(len(items), 1), IDS_MAX)
    parts = (tuple(items[start : start + IDS_MAX]) for start in starts)
    return [short for part in parts for short in _short_enough(part)]


def _short_enough(part: tuple[T, ...]) -> list[tuple[T, ...]]:
    if len(part) <= _IDS_SURELY_SHORT or len(_encode(part)) <= IDS_BYTES_MAX:
        return [part]
    half = len(part) // 2
    return [*_short_enough(part[:half]), *_short_enough(part[half:])]


def entries_of(message: Message) -> int:
    """How many entries a message is about; 1 for those that are about one thing, whatever it is."""
    match message:
        case Unsubscribe() | Retire() | SubscriptionsSettled():
            return len(message.ids)
        case SubscribeMany():
            return len(message.subscriptions)
        case SyncNames():
            return len(message.advertisements) + len(message.subscriptions)
        case AdvertisementsSynced() | SubscriptionsSynced():
            return len(message.ended)
        case _:
            return 1


LANE_OF: Final[dict[type, Lane]] = {
    Advertise: Lane.CONTROL,
    AdvertisementSettled: Lane.CONTROL,
    Subscribe: Lane.CONTROL,
    SubscribeMany: Lane.CONTROL,
    SubscriptionsSettled: Lane.CONTROL,
    Unsubscribe: Lane.CONTROL,
    Retire: Lane.CONTROL,
    SyncDigest: Lane.CONTROL,
    NeighbourNames: Lane.CONTROL,
    BrokersUnreachable: Lane.CONTROL,
    SyncRequest: Lane.CONTROL,
    SyncNames: Lane.CONTROL,
    AdvertisementsSynced: Lane.CONTROL,
    SubscriptionsSynced: Lane.CONTROL,
    LinkProbe: Lane.CONTROL,
    Disconnect: Lane.CONTROL,
    LoadReport: Lane.CONTROL,
    Publish: Lane.DATA,
    Unadvertise: Lane.DATA,
}


# --- between a client and its broker ---------------------------------------------------------


class Body(msgspec.Struct, frozen=True, array_like=True):
    """What a publication says. Brokers on the way decode it to match, and pass the bytes on."""

    attributes: dict[str, bool | Integer | float | str]
    data: bytes = b""


class AdvertiseRequest(msgspec.Struct, frozen=True, array_like=True, tag="c-adv"):
    """The client may publish what the filter admits."""

    name: Name
    filter: Filter


class UnadvertiseRequest(msgspec.Struct, frozen=True, array_like=True, tag="c-unadv"):
    """The client no longer publishes under this name."""

    name: Name


class SubscribeRequest(msgspec.Struct, frozen=True, array_like=True, tag="c-sub"):
    """The client wants what matches the filter."""

    name: Name
    filter: Filter


class UnsubscribeRequest(msgspec.Struct, frozen=True, array_like=True, tag="c-unsub"):
    """The client no longer wants these."""

    names: Annotated[tuple[Name, ...], Meta(max_length=NAMES_MAX)]


class PublishRequest(msgspec.Struct, frozen=True, array_like=True, tag="c-pub"):
    """A publication; the client counts its sequence up from 1."""

    sequence: Int64
    body: bytes
    """As long as a frame may be: the home broker refuses what is too large, and says so."""


class DeliveriesReceived(msgspec.Struct, frozen=True, array_like=True, tag="c-got"):
    """The client has its deliveries up to this number. Only a client that may come back says so:
    its broker keeps them until then."""

    number: Int64


Request = (
    AdvertiseRequest
    | UnadvertiseRequest
    | SubscribeRequest
    | UnsubscribeRequest
    | PublishRequest
    | DeliveriesReceived
)


class Attached(msgspec.Struct, frozen=True, array_like=True, tag="c-here"):
    """The broker's answer to a client that attached.

    `resumed`: its session was kept, and goes on. `published`: the last sequence the broker has of
    it. `lost`: deliveries that found no room while it was away.
    """

    resumed: bool
    published: Int64
    lost: Int64 = 0


class Settled(msgspec.Struct, frozen=True, array_like=True, tag="c-ok"):
    """The client's advertisement or subscription of this name is in force everywhere it must be."""

    name: Name


SESSION: Final = "session"
"""The subject of a refusal to keep the session of a client that has just attached."""


class Refused(msgspec.Struct, frozen=True, array_like=True, tag="c-no"):
    """A request changed nothing. `subject` is its name, or its sequence as text, or `SESSION`."""

    subject: Subject
    reason: Reason


class PublicationsAccepted(msgspec.Struct, frozen=True, array_like=True, tag="c-has"):
    """The broker has the client's publications up to this sequence, and keeps them if it has a
    place to. A confirmation says so too."""

    sequence: Int64


class PublicationsConfirmed(msgspec.Struct, frozen=True, array_like=True, tag="c-conf"):
    """Every copy of the client's publications up to this sequence has arrived."""

    sequence: Int64


class Delivery(msgspec.Struct, frozen=True, array_like=True, tag="c-del"):
    """A publication for the client, and the names of its subscriptions that it matches.

    `number` counts up by one from 1 within a session; a gap is a delivery that was lost.
    """

    number: Int64
    publication: Publish
    names: Annotated[tuple[Name, ...], Meta(max_length=DELIVERED_NAMES_MAX)]


Reply = Attached | Settled | Refused | PublicationsAccepted | PublicationsConfirmed | Delivery


# --- frames ----------------------------------------------------------------------------------


class Batch(msgspec.Struct, frozen=True, array_like=True, tag="batch"):
    """Messages of one lane, numbered on from `first` (the first message ever has number 1)."""

    lane: Lane
    first: Number
    messages: Annotated[tuple[Message, ...], Meta(max_length=MESSAGES_MAX)]


class Acknowledge(msgspec.Struct, frozen=True, array_like=True, tag="ack"):
    """Everything up to these numbers has arrived (the link acknowledgement); and data messages up
    to `confirmed` are safe: every onward copy is confirmed, local clients have theirs in their
    session, and the receiver may forget them. Cumulative, so one that is lost costs nothing."""

    control: Int64
    data: Int64
    confirmed: Int64


class Hello(msgspec.Struct, frozen=True, array_like=True, tag="hello"):
    """What each end says first when a link comes up."""

    broker: Name
    incarnation: Int64
    knows: Int64
    """The peer's incarnation whose numbers it still holds; 0: none."""
    control: Int64
    """Numbers received from that incarnation."""
    data: Int64
    confirmed: Int64
    epoch: Int64 = 0
    """Of the numbers: both ends count it up when they start anew, and resume if it is equal."""
    version: Int31 = PROTOCOL_VERSION


Frame = Batch | Acknowledge | Hello
"""What travels between two brokers."""


class Preamble(msgspec.Struct, frozen=True, array_like=True, tag="byway"):
    """The very first thing either side of a connection says, whatever the version."""

    version: Int31
    """`PROTOCOL_VERSION` between brokers, `CLIENT_PROTOCOL_VERSION` where one side is a client."""
    role: Role
    """`broker` or `client`."""
    name: Name
    """Of the broker or client."""
    incarnation: Int64
    frame_bytes_max: Int64
    """Longer frames are not read here."""
    keepalive_ms: Number
    """A side that is silent for twice this time is taken for dead."""


class ClientHello(msgspec.Struct, frozen=True, array_like=True, tag="c-hello"):
    """What a client wants to go on with, or to begin."""

    session_ttl_us: Int64 = 0
    received: Int64 = 0
    """The last delivery of its session that it has."""
    resumes: bool = False
    """It had a session here before, or believes so: a broker that does not know it lost its
    state."""


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag="c-welcome"):
    """A broker takes a client in."""

    body_bytes_max: Int64
    """A larger publication is refused."""


class Requests(msgspec.Struct, frozen=True, array_like=True, tag="c-ask"):
    """What a client asks for, in this order."""

    requests: Annotated[tuple[Request, ...], Meta(max_length=MESSAGES_MAX)]


class Replies(msgspec.Struct, frozen=True, array_like=True, tag="c-told"):
    """What a client is told, in this order."""

    replies: Annotated[tuple[Reply, ...], Meta(max_length=MESSAGES_MAX)]


class HoldDeliveries(msgspec.Struct, frozen=True, array_like=True, tag="c-hold"):
    """A client wants no deliveries for now, or wants them again; answers always come."""

    hold: bool


class StatusRequest(msgspec.Struct, frozen=True, array_like=True, tag="c-how"):
    """A client asks its broker how it is. One answer may be to several questions."""


class Status(msgspec.Struct, frozen=True, array_like=True, tag="c-status"):
    """How a broker is, and what it knows of its neighbourhood."""

    facts: bytes
    """One JSON object, so that facts can be added."""


class KeepAlive(msgspec.Struct, frozen=True, array_like=True, tag="alive"):
    """Says nothing but that its sender is there."""


class Goodbye(msgspec.Struct, frozen=True, array_like=True, tag="bye"):
    """The sender closes the connection. `for_good`: a client will not come back, or a broker does
    not want the peer back soon."""

    reason: Reason = ""
    for_good: bool = False


AnyFrame = (
    Frame
    | Preamble
    | ClientHello
    | Welcome
    | Requests
    | Replies
    | HoldDeliveries
    | StatusRequest
    | Status
    | KeepAlive
    | Goodbye
)
"""Everything that travels over any connection."""
