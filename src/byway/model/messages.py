"""Every message that travels between brokers, and the frames that carry them.

One vocabulary for `core`, which decides, and `wire`, which turns it into bytes. Messages are
frozen, tagged and array-like; a tag is never used for something else. Numbers live in the frame,
not in the message, so that a message can be forwarded as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum, StrEnum
from typing import Annotated, Final, TypeVar

import msgspec
from msgspec import Meta

from byway.model.bounds import (
    BUCKETS_MAX,
    CLIENT_WINDOW_MAX,
    DELIVERED_NAMES_MAX,
    DELTA_MAX,
    HINTS_MAX,
    IDS_BYTES_MAX,
    IDS_MAX,
    LOADS_MAX,
    MESSAGES_MAX,
    NAMES_MAX,
    NEIGHBOURS_MAX,
    PATH_MAX,
    PUBLISHER_WINDOW,
    RECORDS_MAX,
    RUNS_MAX,
    SIMILARITIES_MAX,
    AddressText,
    BodyBytes,
    Bucket,
    Delta,
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

PROTOCOL_VERSION: Final = 3
"""Version of the protocol between brokers: greetings say what a link is for, and where the sender
can be dialled."""
CLIENT_PROTOCOL_VERSION: Final = 1
"""Version of the protocol between a client and its broker."""

_IDS_SURELY_SHORT: Final = 64

T = TypeVar("T")
_encode = msgspec.msgpack.Encoder().encode


class Lane(IntEnum):
    """The two FIFO lanes of a link. Control never waits behind data; each has its own numbers."""

    CONTROL = 0
    DATA = 1


CONTROL: Final = Lane.CONTROL
DATA: Final = Lane.DATA
"""The lanes as module constants: access through the enumeration takes ten times as long (up to
Python 3.11), and every frame needs it several times."""


class LinkKind(StrEnum):
    """What a link is for."""

    PRIMARY = "primary"
    """A link of the tree: tables are compared over it, and publications follow them."""
    SOFT = "soft"
    """A link beside the tree: publications may take it, tables do not know it."""
    OPENING = "opening"
    """A link that is about to take its place in the tree."""


class EntryId(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Identifies a subscription or advertisement. An id is never used again: a new session of a
    client has a higher incarnation, and its broker numbers the registrations."""

    client: OwnerName
    name: Name
    incarnation: Int64
    number: Int64 = 0


Ids = Annotated[tuple[EntryId, ...], Meta(max_length=IDS_MAX)]
NamedIds = Annotated[tuple[tuple[EntryId, bool], ...], Meta(max_length=IDS_MAX)]
Path = Annotated[tuple[Name, ...], Meta(max_length=DELTA_MAX - 1)]
"""Brokers one behind the other in the tree, each once."""
BrokerNames = Annotated[tuple[Name, ...], Meta(max_length=NEIGHBOURS_MAX)]
NumberRuns = Annotated[tuple[tuple[Number, Number], ...], Meta(max_length=RUNS_MAX)]
"""The first and last number of each run, in order."""
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
    """The advertisement has reached every broker beyond; the subscriptions that it triggered were
    sent before this."""

    id: EntryId


class Subscribe(_Message, frozen=True, array_like=True, tag="sub"):
    """Asks the receiver for publications that match this filter."""

    id: EntryId
    filter: Filter


class SubscribeAlong(Subscribe, frozen=True, array_like=True, tag="sub-along"):
    """A `Subscribe` that says which way the subscription came: `path` names the brokers behind the
    sender towards its home, nearest first. Without it the receiver knows of the sender alone."""

    path: Path


def subscribe_along(id: EntryId, filter: Filter, path: tuple[str, ...]) -> Subscribe:
    """The message for a subscription that came along a path, if there is one behind the sender."""
    return SubscribeAlong(id, filter, path) if path else Subscribe(id, filter)


def path_of(message: Advertise | Subscribe) -> tuple[str, ...]:
    """The brokers behind the sender that an announcement came along, as far as it says."""
    return message.path if isinstance(message, SubscribeAlong) else ()


class SubscribeMany(_Message, frozen=True, array_like=True, tag="subs"):
    """Several `Subscribe` messages, in this order."""

    subscriptions: Annotated[tuple[Subscribe | SubscribeAlong, ...], Meta(max_length=IDS_MAX)]


class SubscriptionsSettled(_Message, frozen=True, array_like=True, tag="sub-ok"):
    """These subscriptions are in force at every broker beyond that needs them."""

    ids: Ids


class Hint(msgspec.Struct, frozen=True, array_like=True):
    """For one publisher: at how many hops from the receiver other subscriptions match a given share
    of the publisher's events that this subscription matches.

    `distances` has one number of hops for each of the shares in `Unsubscribe.similarities`.
    """

    publisher: Name
    distances: Annotated[tuple[Int31, ...], Meta(max_length=SIMILARITIES_MAX)]


Hints = Annotated[tuple[Hint, ...], Meta(max_length=HINTS_MAX)]


class Unsubscribe(_Message, frozen=True, array_like=True, tag="unsub"):
    """These subscriptions end. Where their owners withdrew them, and their home brokers know from
    which hop on they may be preserved, there are hints, one for each id."""

    ids: Ids
    similarities: Annotated[tuple[Share, ...], Meta(max_length=SIMILARITIES_MAX)] = ()
    """The similarities that the distances of the hints belong to, ascending."""
    hints: Annotated[tuple[Hints, ...], Meta(max_length=IDS_MAX)] = ()


class Retire(_Message, frozen=True, array_like=True, tag="retire"):
    """These entries end: subscriptions that their owners withdrew a while ago and that the sender
    preserved until now, and merged filters that the sender no longer needs."""

    ids: Ids


class SyncDigest(_Message, frozen=True, array_like=True, tag="held"):
    """Digests of the entries that the sender holds from the receiver, by bucket; no buckets: none.

    The first message of each end over a link that starts anew. The receiver compares it with what
    the sender should hold, and requests the names in the buckets that differ.
    """

    advertisements: Digests
    subscriptions: Digests
    neighbours: BrokerNames = ()
    """The receiver's neighbours, as it last named them: a broker that lost its state learns from
    this whom to wait for."""
    restarting: bool = False
    """Whether the sender lost its state, or may have, and its tables are not complete yet."""


class NeighbourNames(_Message, frozen=True, array_like=True, tag="near"):
    """The sender's neighbours, the receiver among them. The receiver keeps the names and returns
    them in `SyncDigest`, should the sender lose them. Sent again when they change.

    As the answer to `SyncDigest` it also says that the sender accepts data from now on: it knows
    all its neighbours, and forwards everything to those whose tables are missing.
    """

    names: BrokerNames
    restarting: bool = False
    """Whether the sender lost its state, or may have, and its tables are not complete yet."""


class BrokersUnreachable(_Message, frozen=True, array_like=True, tag="away"):
    """Brokers behind the sender that cannot be reached now. Replaces the previous such message."""

    brokers: BrokerNames


class SyncRequest(_Message, frozen=True, array_like=True, tag="ask"):
    """Requests the names in these buckets, whose digests differ."""

    advertisements: Buckets
    subscriptions: Buckets


class SyncNames(_Message, frozen=True, array_like=True, tag="names"):
    """The entries in the requested buckets, each with whether it is settled beyond."""

    advertisements: NamedIds
    subscriptions: NamedIds
    partial: bool = False
    """Whether more names follow."""


class SyncNamesAlong(SyncNames, frozen=True, array_like=True, tag="names-along"):
    """`SyncNames`, some of whose subscriptions came along a path."""

    paths: Annotated[tuple[Digest, ...], Meta(max_length=IDS_MAX)] = ()
    """By subscription, a hash of its path; 0: it came without one."""


class PublicationsUnconfirmed(_Message, frozen=True, array_like=True, tag="unconfirmed"):
    """Publications of these publishers, up to a sequence each, came from the receiver's side and
    are unconfirmed at the sender or behind it, whose subscriptions may have been withdrawn since.
    Copies of them that come to the receiver again go to the sender, where they wait for the
    earlier ones. Sent ahead of `SubscriptionsSynced`."""

    publishers: Annotated[tuple[tuple[Name, Int64, Int64], ...], Meta(max_length=IDS_MAX)]
    """Publisher, incarnation, sequence."""


class AdvertisementsSynced(_Message, frozen=True, array_like=True, tag="advs-told"):
    """The receiver now has all advertisements of the sender; these, which it held, have ended."""

    ended: Ids = ()
    partial: bool = False
    """Whether more that ended follow."""
    provisional: bool = False
    """Whether the sender's own tables are incomplete and it waits no longer: should it turn out
    that it ran before, it revokes this, and sends it again when its tables are complete."""


class SubscriptionsSynced(_Message, frozen=True, array_like=True, tag="subs-told"):
    """The receiver now has all subscriptions of the sender; these, which it held, have ended. It
    need not forward everything to the sender any more."""

    ended: Ids = ()
    partial: bool = False
    """Whether more that ended follow."""
    provisional: bool = False
    """As in `AdvertisementsSynced`."""


class LinkProbe(_Message, frozen=True, array_like=True, tag="probe"):
    """Searches for a cycle: the brokers that it has passed, beginning with the one that sent it,
    and that broker's incarnation and number for it."""

    path: Annotated[tuple[Name, ...], Meta(max_length=PATH_MAX)]
    incarnation: Int64
    number: Int64


class Disconnect(_Message, frozen=True, array_like=True, tag="part"):
    """The sender closes the link. If it was a link of the tree, the sender is not a neighbour any
    more, and has dropped the receiver's entries."""

    reason: Reason
    for_good: bool = False
    """Whether neither end may dial the other again for a link of the tree, until an operator adds
    it as a neighbour."""
    successor: Name | None = None
    """If the sender leaves between two neighbours: the other one, which takes its place for the
    receiver. What the receiver held from the sender it holds from that one."""
    address: AddressText = ""
    """Where the successor can be dialled."""


class Load(msgspec.Struct, frozen=True, array_like=True):
    """The load of a broker over the last interval. Rates are per second."""

    broker: Name
    hops: Int31
    """Distance from the receiver of the report."""
    at_us: Int64
    publications_in: Rate
    publications_out: Rate
    deliveries: Rate
    queued: Int64
    """Messages in its input queue."""
    uplink: Rate
    """Share of its uplink in use, from 0 to 1."""


class LoadReport(_Message, frozen=True, array_like=True, tag="load"):
    """The loads of the sender and of brokers behind it. Sent by load exchange."""

    loads: Annotated[tuple[Load, ...], Meta(max_length=LOADS_MAX)]


class BrokerRecord(msgspec.Struct, frozen=True, array_like=True):
    """What a broker says of itself."""

    broker: Name
    incarnation: Int64
    version: Int64
    """Counts the changes of the record within the incarnation."""
    neighbours: Annotated[tuple[Name, ...], Meta(max_length=NEIGHBOURS_MAX)]
    """Its primary neighbours, by name: the first of them, if there are more."""
    delta: Delta
    address: AddressText = ""
    """Where it can be dialled; empty if it does not say."""

    @property
    def age(self) -> tuple[int, int]:
        """The record with the larger one is newer."""
        return self.incarnation, self.version

    @property
    def text_bytes(self) -> int:
        """At most so many bytes of text."""
        texts = (self.broker, self.address, *self.neighbours)
        return 4 * sum(map(len, texts)) + 4 * len(texts)


class RelayedRecord(msgspec.Struct, frozen=True, array_like=True):
    """A record, and how far its broker is from the receiver."""

    record: BrokerRecord
    hops: Delta


class RecordUpdate(_Message, frozen=True, array_like=True, tag="records"):
    """What a broker tells a neighbour of the brokers on its side. Applied in the order of fields:
    first everything is forgotten, or what is gone, then records are added or replaced."""

    anew: bool
    """Whether the receiver forgets all that the sender has told before."""
    gone: Annotated[tuple[Name, ...], Meta(max_length=RECORDS_MAX)]
    """Brokers whose records are taken back."""
    records: Annotated[tuple[RelayedRecord, ...], Meta(max_length=RECORDS_MAX)]


class SoftSpan(_Message, frozen=True, array_like=True, tag="span"):
    """Over a soft link: the sender is about to send publications over it, past these brokers. The
    receiver answers when it is ready, and closes the link if the last one is no neighbour of its.
    Without brokers: the sender has ended that."""

    path: Path
    """The brokers between, in the tree, from the sender's neighbour to the receiver's."""


class SpanTaken(_Message, frozen=True, array_like=True, tag="span-ok"):
    """The receiver of a `SoftSpan` takes publications over the link from now on."""

    path: Path
    """The span that is taken, as it was told."""


# --- data lane -------------------------------------------------------------------------------


class Publish(_Message, frozen=True, array_like=True, tag="pub", gc=False):
    """A publication: a header that brokers update, and a body that they forward unchanged.

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
    """This advertisement ends, after the publications sent before. It carries the filter so that a
    neighbour that lost the advertisement can be sent it while publications are under way."""

    id: EntryId
    filter: Filter


Message = (
    Advertise
    | AdvertisementSettled
    | Subscribe
    | SubscribeAlong
    | SubscribeMany
    | SubscriptionsSettled
    | Unsubscribe
    | Retire
    | SyncDigest
    | NeighbourNames
    | BrokersUnreachable
    | SyncRequest
    | SyncNames
    | SyncNamesAlong
    | PublicationsUnconfirmed
    | AdvertisementsSynced
    | SubscriptionsSynced
    | LinkProbe
    | Disconnect
    | LoadReport
    | RecordUpdate
    | SoftSpan
    | SpanTaken
    | Publish
    | Unadvertise
)


def in_parts(items: Sequence[T]) -> list[tuple[T, ...]]:
    """Ids, or tuples with ids, split into the parts that fit one message each; one empty part if
    there are none."""
    starts = range(0, max(len(items), 1), IDS_MAX)
    parts = (tuple(items[start : start + IDS_MAX]) for start in starts)
    return [short for part in parts for short in _short_enough(part)]


def _short_enough(part: tuple[T, ...]) -> list[tuple[T, ...]]:
    if len(part) <= _IDS_SURELY_SHORT or len(_encode(part)) <= IDS_BYTES_MAX:
        return [part]
    half = len(part) // 2
    return [*_short_enough(part[:half]), *_short_enough(part[half:])]


def entries_of(message: Message) -> int:
    """The number of entries that a message is about; 1 for a message about anything else."""
    match message:
        case Unsubscribe() | Retire() | SubscriptionsSettled():
            return len(message.ids)
        case SubscribeMany():
            return len(message.subscriptions)
        case SyncNames():
            return len(message.advertisements) + len(message.subscriptions)
        case AdvertisementsSynced() | SubscriptionsSynced():
            return len(message.ended)
        case PublicationsUnconfirmed():
            return len(message.publishers)
        case RecordUpdate():
            return len(message.gone) + len(message.records)
        case _:
            return 1


LANE_OF: Final[dict[type, Lane]] = {
    Advertise: Lane.CONTROL,
    AdvertisementSettled: Lane.CONTROL,
    Subscribe: Lane.CONTROL,
    SubscribeAlong: Lane.CONTROL,
    SubscribeMany: Lane.CONTROL,
    SubscriptionsSettled: Lane.CONTROL,
    Unsubscribe: Lane.CONTROL,
    Retire: Lane.CONTROL,
    SyncDigest: Lane.CONTROL,
    NeighbourNames: Lane.CONTROL,
    BrokersUnreachable: Lane.CONTROL,
    SyncRequest: Lane.CONTROL,
    SyncNames: Lane.CONTROL,
    SyncNamesAlong: Lane.CONTROL,
    PublicationsUnconfirmed: Lane.CONTROL,
    AdvertisementsSynced: Lane.CONTROL,
    SubscriptionsSynced: Lane.CONTROL,
    LinkProbe: Lane.CONTROL,
    Disconnect: Lane.CONTROL,
    LoadReport: Lane.CONTROL,
    RecordUpdate: Lane.CONTROL,
    SoftSpan: Lane.CONTROL,
    SpanTaken: Lane.CONTROL,
    Publish: Lane.DATA,
    Unadvertise: Lane.DATA,
}


# --- between a client and its broker ---------------------------------------------------------


class Body(msgspec.Struct, frozen=True, array_like=True):
    """The content of a publication. Brokers decode it to match, and forward the bytes."""

    attributes: dict[str, bool | Integer | float | str]
    data: bytes = b""


class AdvertiseRequest(msgspec.Struct, frozen=True, array_like=True, tag="c-adv"):
    """The client will publish only what the filter admits."""

    name: Name
    filter: Filter


class UnadvertiseRequest(msgspec.Struct, frozen=True, array_like=True, tag="c-unadv"):
    """The client withdraws the advertisement of this name."""

    name: Name


class SubscribeRequest(msgspec.Struct, frozen=True, array_like=True, tag="c-sub"):
    """The client subscribes to publications that match the filter."""

    name: Name
    filter: Filter


class UnsubscribeRequest(msgspec.Struct, frozen=True, array_like=True, tag="c-unsub"):
    """The client withdraws the subscriptions of these names."""

    names: Annotated[tuple[Name, ...], Meta(max_length=NAMES_MAX)]


class PublishRequest(msgspec.Struct, frozen=True, array_like=True, tag="c-pub", gc=False):
    """A publication; the client counts its sequence up from 1."""

    sequence: Int64
    body: bytes
    """Bounded by the frame only: the home broker refuses a body that is too large."""


class DeliveriesReceived(msgspec.Struct, frozen=True, array_like=True, tag="c-got"):
    """The client has received its deliveries up to this number. Sent by clients with a session,
    whose broker keeps deliveries until then."""

    number: Int64


class RoutesRequest(msgspec.Struct, frozen=True, array_like=True, tag="c-where"):
    """Asks where the publication of this sequence, which follows, goes when it is accepted."""

    sequence: Int64


Request = (
    AdvertiseRequest
    | UnadvertiseRequest
    | SubscribeRequest
    | UnsubscribeRequest
    | PublishRequest
    | DeliveriesReceived
    | RoutesRequest
)


class Attached(msgspec.Struct, frozen=True, array_like=True, tag="c-here"):
    """The broker's answer to a client that attached.

    `resumed`: its session was kept and is resumed. `published`: the last sequence that the broker
    has of it. `lost`: deliveries that could not be kept while it was away.
    """

    resumed: bool
    published: Int64
    lost: Int64 = 0


class UnorderedAttached(Attached, frozen=True, array_like=True, tag="c-here-u"):
    """The same, of a broker that does not keep publications of one publisher in order: of a
    publisher, one with a sequence lower by `window` than the highest is a duplicate."""

    window: Annotated[int, Meta(ge=1, le=CLIENT_WINDOW_MAX)] = PUBLISHER_WINDOW


class Settled(msgspec.Struct, frozen=True, array_like=True, tag="c-ok"):
    """The client's registration of this name is in force at every broker that needs it."""

    name: Name


SESSION: Final = "session"
"""The subject of a refusal to keep the session of a client that has just attached."""


class Refused(msgspec.Struct, frozen=True, array_like=True, tag="c-no"):
    """A request was refused. `subject` is its name, or its sequence as text, or `SESSION`."""

    subject: Subject
    reason: Reason


class PublicationsAccepted(msgspec.Struct, frozen=True, array_like=True, tag="c-has"):
    """The broker has accepted the client's publications up to this sequence, and keeps them if it
    has storage. A confirmation implies it."""

    sequence: Int64


class PublicationsConfirmed(msgspec.Struct, frozen=True, array_like=True, tag="c-conf"):
    """Every copy of the client's publications up to this sequence has arrived."""

    sequence: Int64


class Delivery(msgspec.Struct, frozen=True, array_like=True, tag="c-del", gc=False):
    """A publication for the client, and the names of its subscriptions that it matches.

    `number` counts up by one from 1 within a session; a gap is a delivery that was lost.
    """

    number: Int64
    publication: Publish
    names: Annotated[tuple[Name, ...], Meta(max_length=DELIVERED_NAMES_MAX)]


class PublicationRouted(msgspec.Struct, frozen=True, array_like=True, tag="c-went"):
    """Where a publication went when the broker accepted it. The answer to `RoutesRequest`."""

    sequence: Int64
    clients: Int31
    """Number of local clients that it was delivered to."""
    links: BrokerNames
    """The neighbours that it was sent to."""
    settled: bool
    """Whether an advertisement that it conforms to is settled, so that no subscription to it is
    still under way."""


Reply = (
    Attached
    | UnorderedAttached
    | Settled
    | Refused
    | PublicationsAccepted
    | PublicationsConfirmed
    | Delivery
    | PublicationRouted
)


# --- frames ----------------------------------------------------------------------------------


class Batch(msgspec.Struct, frozen=True, array_like=True, tag="batch", gc=False):
    """Messages of one lane, numbered on from `first` (the first message ever has number 1)."""

    lane: Lane
    first: Number
    messages: Annotated[tuple[Message, ...], Meta(max_length=MESSAGES_MAX)]


class Acknowledge(msgspec.Struct, frozen=True, array_like=True, tag="ack", gc=False):
    """Everything up to these numbers has arrived (the link acknowledgement); and data messages up
    to `confirmed` are safe: every onward copy is confirmed, local clients have theirs in their
    session, and the receiver may forget them. Cumulative, so one that is lost costs nothing."""

    control: Int64
    data: Int64
    confirmed: Int64


class SelectiveAcknowledge(Acknowledge, frozen=True, array_like=True, tag="sack"):
    """The same, and data messages beyond `confirmed` that are safe too, while one in front of them
    is not. Not cumulative: each is told once over a connection."""

    runs: NumberRuns


class Hello(msgspec.Struct, frozen=True, array_like=True, tag="hello"):
    """The first frame of each end when a link comes up."""

    broker: Name
    incarnation: Int64
    knows: Int64
    """The peer's incarnation whose numbers the sender still holds; 0: none."""
    control: Int64
    """The last control number received from that incarnation."""
    data: Int64
    confirmed: Int64
    epoch: Int64 = 0
    """Epoch of the numbers: both ends count it up when they start anew, and resume if it is
    equal."""
    version: Int31 = PROTOCOL_VERSION
    kind: LinkKind | None = None
    """What the link is for; None: the sender was dialled, does not know the dialler, and takes the
    link for what the dialler says."""
    address: AddressText = ""
    """Where the sender can be dialled; empty if it does not say."""
    learnt: bool = False
    """Whether the sender decided on this link while it ran, and may forget that with its state: so
    the receiver dials it too."""
    added: bool = False
    """Whether an operator has added the receiver as a neighbour of the sender since they were
    linked last: then they may be neighbours again, though they parted for good."""
    publisher_window: Number = PUBLISHER_WINDOW
    """Unconfirmed publications of one publisher that the sender admits; equal in a network."""
    runs: NumberRuns = ()
    """Data messages beyond `confirmed` that are safe too. If there are more, acknowledgements
    follow."""
    in_place_of: Name | None = None
    """The broker whose place the receiver takes at the sender, where an operator has said so, until
    the receiver has told its tables. It begins like that one restarted without state."""


class UnorderedHello(Hello, frozen=True, array_like=True, tag="hello-u"):
    """The same, of a broker that does not keep publications of one publisher in order."""


Frame = Batch | Acknowledge | SelectiveAcknowledge | Hello | UnorderedHello
"""The frames between two brokers."""


class Preamble(msgspec.Struct, frozen=True, array_like=True, tag="byway"):
    """The very first frame of either side of a connection, in every version."""

    version: Int31
    """`PROTOCOL_VERSION` between brokers, `CLIENT_PROTOCOL_VERSION` where one side is a client."""
    role: Role
    """`broker` or `client`."""
    name: Name
    """Name of the broker or client."""
    incarnation: Int64
    frame_bytes_max: Int64
    """The longest frame that the sender reads."""
    keepalive_ms: Number
    """Interval of keep-alives; a peer that is silent for twice this time is given up."""


class ClientHello(msgspec.Struct, frozen=True, array_like=True, tag="c-hello"):
    """A client attaches, to resume a session or to start one."""

    session_ttl_us: Int64 = 0
    received: Int64 = 0
    """Number of the last delivery of the session that the client has received."""
    resumes: bool = False
    """Whether the client had a session with this broker: a broker that does not know it has lost
    its state."""


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag="c-welcome"):
    """The broker accepts a client."""

    body_bytes_max: Int64
    """The largest body of a publication that the broker accepts."""


class Requests(msgspec.Struct, frozen=True, array_like=True, tag="c-ask"):
    """Requests of a client, in this order."""

    requests: Annotated[tuple[Request, ...], Meta(max_length=MESSAGES_MAX)]


class Replies(msgspec.Struct, frozen=True, array_like=True, tag="c-told", gc=False):
    """Replies to a client, in this order."""

    replies: Annotated[tuple[Reply, ...], Meta(max_length=MESSAGES_MAX)]


class HoldDeliveries(msgspec.Struct, frozen=True, array_like=True, tag="c-hold"):
    """A client asks its broker to hold deliveries, or to send them again; answers are not held."""

    hold: bool


class StatusRequest(msgspec.Struct, frozen=True, array_like=True, tag="c-how"):
    """A client requests its broker's status. One answer may serve several requests."""


class Status(msgspec.Struct, frozen=True, array_like=True, tag="c-status"):
    """The status of a broker, see `byway.model.status`."""

    facts: bytes
    """One JSON object, so that keys can be added."""


class KeepAlive(msgspec.Struct, frozen=True, array_like=True, tag="alive"):
    """Shows that its sender is alive."""


class Goodbye(msgspec.Struct, frozen=True, array_like=True, tag="bye"):
    """The sender closes the connection. `for_good`: a client will not reconnect, or a broker asks
    its peer not to reconnect soon."""

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
"""All frames of all connections."""
