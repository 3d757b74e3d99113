"""How far the comparison of tables with one neighbour is: the state that `table_sync` works on.

A snapshot holds it as it is, by the names that its fields had when snapshots began to (`name=`).
"""

from __future__ import annotations

from enum import IntEnum

import msgspec

from byway.model.messages import (
    Advertise,
    AdvertisementSettled,
    EntryId,
    Retire,
    Subscribe,
    SubscribeAlong,
    Unsubscribe,
)

Announcement = Advertise | Subscribe | SubscribeAlong
Change = Announcement | AdvertisementSettled | Unsubscribe | Retire
Expected = dict[EntryId, tuple[Announcement, bool]]
"""What a neighbour should hold, and whether it is settled there as far as this end knows."""


class SyncPhase(IntEnum):
    """How far this end is with sending its tables to one neighbour; see `table_sync`."""

    AWAITING_DIGEST = 0
    AWAITING_NAMES = 1
    SENDING = 2
    ADVERTS_SYNCED = 3
    SYNCED = 4


class SyncState(msgspec.Struct):
    """The comparison of tables with one neighbour, since numbers of the link started from 1."""

    phase: SyncPhase = SyncPhase.AWAITING_DIGEST
    expected: Expected = msgspec.field(default_factory=dict, name="wanted")
    """While awaiting names: what the peer should hold in the buckets that differ."""
    repeated: list[Advertise] = msgspec.field(default_factory=list)
    """While awaiting names: advertisements that will be withdrawn more than once, and must be
    announced as often."""
    waiting: list[Change] = msgspec.field(default_factory=list)
    """While awaiting names: changes, in order. While awaiting the digest: answers."""
    named_adverts: dict[EntryId, bool] = msgspec.field(default_factory=dict)
    """While awaiting names: advertisements that the peer has named so far."""
    named: dict[EntryId, bool] = msgspec.field(default_factory=dict)
    """While awaiting names: subscriptions that the peer has named so far."""
    unclaimed: dict[EntryId, bool] = msgspec.field(default_factory=dict, name="doubtful")
    """From sending on: what the peer holds and no other neighbour announces, not yet or not any
    more, and whether it is settled there."""
    unclaimed_adverts: tuple[EntryId, ...] = msgspec.field(default=(), name="doubtful_adverts")
    """Which of these are advertisements."""
    peer_advertised: bool = False
    """Whether the peer has sent all its advertisements."""
    settled_adverts: list[EntryId] = msgspec.field(default_factory=list)
    """Advertisements held by the peer and settled there, which counts once it has sent its
    subscriptions."""
    peer_takes_data: bool = msgspec.field(default=False, name="invited")
    """Whether the peer takes data. It is sent only after the tables it depends on: an Unadvertise
    must not come before its Advertise."""
    peer_synced: bool = msgspec.field(default=False, name="peer_told")
    """Whether the peer has sent everything."""
    provisional: bool = False
    """Whether what was sent is withdrawn if this broker turns out to be restarting."""
    names_sent: bool = msgspec.field(default=False, name="told_names")
    """Whether the peer was sent the names of this broker's neighbours."""
    held: dict[EntryId, int] = msgspec.field(default_factory=dict, name="paths")
    """Until synced: the subscriptions that the peer held when tables were compared, each with a
    hash of the path that it holds it with, 0 if there is none."""


class Missing(IntEnum):
    """Which tables a neighbour has not sent yet."""

    SUBSCRIPTIONS = 1
    ALL = 2
