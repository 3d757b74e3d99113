"""Every message that travels between brokers, and the frames that carry them.

One vocabulary for `core`, which decides, and `wire`, which turns it into bytes. Messages are
frozen, tagged and array-like; a tag is never used for something else. Numbers live in the frame,
not in the message, so that a message can be forwarded as it is.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

import msgspec

from byway.model.filters import Filter

PROTOCOL_VERSION: Final = 1


class Lane(IntEnum):
    """The two FIFO lanes of a link. Control never waits behind data; each has its own numbers."""

    CONTROL = 0
    DATA = 1


class EntryId(msgspec.Struct, frozen=True, array_like=True, order=True):
    """Names a subscription or advertisement. An id is never used again: a client that comes back,
    or replaces a filter, counts its incarnation up."""

    client: str
    name: str
    incarnation: int


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


class SubscriptionsSettled(_Message, frozen=True, array_like=True, tag="sub-ok"):
    """These are in force at every broker beyond that they had to reach."""

    ids: tuple[EntryId, ...]


class Unsubscribe(_Message, frozen=True, array_like=True, tag="unsub"):
    """These end here."""

    ids: tuple[EntryId, ...]


class Confirm(_Message, frozen=True, array_like=True, tag="conf"):
    """Every onward copy of the data messages up to this number of the receiver's lane is confirmed,
    and local clients have theirs in their session: the receiver may forget them."""

    number: int


# --- data lane -------------------------------------------------------------------------------


class Publish(_Message, frozen=True, array_like=True, tag="pub"):
    """A publication: a header that brokers change, and a body that they pass on as it is.

    (publisher, incarnation, sequence) identifies it. `distance` and `count` are the statistics of
    documents 003 and 004.
    """

    publisher: str
    incarnation: int
    sequence: int
    published_us: int
    hop: int
    distance: int
    count: int
    body: bytes


class Unadvertise(_Message, frozen=True, array_like=True, tag="unadv"):
    """These end here, after the publications sent before."""

    ids: tuple[EntryId, ...]


Message = (
    Advertise
    | AdvertisementSettled
    | Subscribe
    | SubscriptionsSettled
    | Unsubscribe
    | Confirm
    | Publish
    | Unadvertise
)

LANE_OF: Final[dict[type, Lane]] = {
    Advertise: Lane.CONTROL,
    AdvertisementSettled: Lane.CONTROL,
    Subscribe: Lane.CONTROL,
    SubscriptionsSettled: Lane.CONTROL,
    Unsubscribe: Lane.CONTROL,
    Confirm: Lane.CONTROL,
    Publish: Lane.DATA,
    Unadvertise: Lane.DATA,
}


# --- between a client and its broker ---------------------------------------------------------


class Body(msgspec.Struct, frozen=True, array_like=True):
    """What a publication says. Brokers on the way decode it to match, and pass the bytes on."""

    attributes: dict[str, bool | int | float | str]
    data: bytes = b""


class AdvertiseRequest(msgspec.Struct, frozen=True, array_like=True, tag="c-adv"):
    """The client may publish what the filter admits."""

    name: str
    filter: Filter


class UnadvertiseRequest(msgspec.Struct, frozen=True, array_like=True, tag="c-unadv"):
    """The client no longer publishes under this name."""

    name: str


class SubscribeRequest(msgspec.Struct, frozen=True, array_like=True, tag="c-sub"):
    """The client wants what matches the filter."""

    name: str
    filter: Filter


class UnsubscribeRequest(msgspec.Struct, frozen=True, array_like=True, tag="c-unsub"):
    """The client no longer wants these."""

    names: tuple[str, ...]


class PublishRequest(msgspec.Struct, frozen=True, array_like=True, tag="c-pub"):
    """A publication; the client counts its sequence up from 1."""

    sequence: int
    body: bytes


Request = (
    AdvertiseRequest | UnadvertiseRequest | SubscribeRequest | UnsubscribeRequest | PublishRequest
)


class Settled(msgspec.Struct, frozen=True, array_like=True, tag="c-ok"):
    """The client's advertisement or subscription of this name is in force everywhere it must be."""

    name: str


class Refused(msgspec.Struct, frozen=True, array_like=True, tag="c-no"):
    """A request changed nothing. `subject` is its name, or its sequence as text."""

    subject: str
    reason: str


class PublicationsConfirmed(msgspec.Struct, frozen=True, array_like=True, tag="c-conf"):
    """Every copy of the client's publications up to this sequence has arrived."""

    sequence: int


class Delivery(msgspec.Struct, frozen=True, array_like=True, tag="c-del"):
    """A publication for the client, and the names of its subscriptions that it matches."""

    publication: Publish
    names: tuple[str, ...]


Reply = Settled | Refused | PublicationsConfirmed | Delivery


# --- frames ----------------------------------------------------------------------------------


class Batch(msgspec.Struct, frozen=True, array_like=True, tag="batch"):
    """Messages of one lane, numbered on from `first` (the first message ever has number 1)."""

    lane: Lane
    first: int
    messages: tuple[Message, ...]


class Acknowledge(msgspec.Struct, frozen=True, array_like=True, tag="ack"):
    """The link acknowledgement: everything up to these numbers has arrived."""

    control: int
    data: int


class Hello(msgspec.Struct, frozen=True, array_like=True, tag="hello"):
    """What each end says first when a link comes up."""

    broker: str
    incarnation: int
    knows: int
    """The peer's incarnation whose numbers it still holds; 0: none."""
    control: int
    """Numbers received from that incarnation."""
    data: int
    version: int = PROTOCOL_VERSION


Frame = Batch | Acknowledge | Hello
