"""The layout of a snapshot: structs that travel as arrays, and the envelope around them.

The order and types of fields are the format; their names are not, except in `SyncState`. The layout
has a version; older ones are converted (`older_layouts`), any other is refused, never guessed.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from byway.core.inputs import LoadSampled
from byway.core.origin import Origin
from byway.core.snapshot import older_layouts
from byway.core.successions import Succession
from byway.core.sync_state import Missing, SyncState
from byway.model import Filter
from byway.model.addresses import Listing
from byway.model.errors import SnapshotError
from byway.model.messages import Delivery, EntryId, Hint, LinkKind, Message

VERSION: Final = 7


class WindowState(msgspec.Struct, array_like=True):
    """What a `Window` knows."""

    finished_up_to: int
    told: int
    early: list[tuple[int, int]]
    """Runs of numbers."""


class LinkState(msgspec.Struct, array_like=True):
    """What a `LinkEnd` knows, its connection apart."""

    peer: str
    peer_incarnation: int
    epoch: int
    open: bool
    control: list[Message]
    control_next: int
    data: list[Message]
    data_next: int
    arrived: list[int]
    told: list[int]
    window: WindowState
    unconfirmed: list[int]
    """By message of `data`, the number of what it is a copy of."""
    sync: SyncState | None
    """None for a link outside the tree."""
    kind: LinkKind = LinkKind.PRIMARY
    address: str = ""
    dials: bool = False
    numbers: list[int] = msgspec.field(default_factory=list)
    """The numbers of `data`, if some between them are confirmed; else the last one is the one
    before `data_next`, and they follow one another."""


class InFlightState(msgspec.Struct, array_like=True):
    """What an `InFlight` knows; `current` says whether its window is still the one in use."""

    link: str | None
    client: str
    number: int
    left: int
    current: bool
    duplicates: list[int]
    """Numbers of these in the list of all."""
    several: bytes = b""
    """Targets, as bits."""


class HeldState(msgspec.Struct, array_like=True):
    """What a `Held` knows, and where it is."""

    publisher: str
    incarnation: int
    branch: str
    message: Message
    targets: bytes
    """As bits: there may be more than an integer of the encoding has."""
    source: int
    """The number of what it will be a copy of."""
    sequence: int
    parked: bool = False
    """Whether it is parked."""
    reached: tuple[str, ...] = ()
    """Links that have had a copy of it already."""


class PlaceholderFields(msgspec.Struct, array_like=True):
    """What a `Placeholder` knows; its state as the flags that snapshots have always had."""

    similarities: tuple[float, ...] = ()
    hints: tuple[Hint, ...] = ()
    retiring: bool = False
    postponed: bool = False
    merged: bool = False
    since_us: int = 0


class EntryState(msgspec.Struct, array_like=True):
    """What an `Entry` knows; those that follow it by id."""

    id: EntryId
    filter: Filter
    origin: Origin
    key: int
    forwarded: list[str]
    awaiting: dict[str, int]
    following: dict[str, int]
    followers: dict[str, list[EntryId]]
    settled: bool
    announced: int
    placeholder: PlaceholderFields | None = None


class TableState(msgspec.Struct, array_like=True):
    """The entries of a `Table`, and their alternate origins."""

    entries: list[EntryState]
    free: list[int]
    alternate_origins: list[tuple[EntryId, dict[str, int]]]
    pending_takeover: list[tuple[EntryId, Filter]]
    alternate_paths: list[tuple[EntryId, str, tuple[str, ...]]] = msgspec.field(
        default_factory=list
    )
    """The brokers behind an alternate origin, where there are any."""


class ClientState(msgspec.Struct, array_like=True):
    """What a `ClientSession` knows, its connection apart."""

    name: str
    incarnation: int
    ttl_us: int
    adverts: dict[str, EntryId]
    subscriptions: dict[str, EntryId]
    counter: int
    sequence: int
    accepted: int
    window: WindowState
    deliveries: int
    kept: list[Delivery]
    held: list[int]
    """Numbers of what the latest deliveries, which are beyond the bounds, are copies of."""
    refused: list[int] = msgspec.field(default_factory=list)


class TableSyncState(msgspec.Struct, array_like=True):
    """What `Recovery` and `TableSync` know beside the states of links."""

    missing: dict[str, Missing]
    lost_state: bool
    restarting: bool
    given_up: list[str]
    compared_with: list[str]
    neighbours_of: dict[str, tuple[str, ...]]
    rechecking: dict[str, int]
    nobody_named: bool = False
    in_place_of: dict[str, str] = {}


class ReachabilityState(msgspec.Struct, array_like=True):
    """What `Reachability` knows."""

    down: list[str]
    changed: dict[str, int]
    behind: dict[str, tuple[str, ...]]
    said: dict[str, tuple[str, ...]]


class BrokerState(msgspec.Struct, array_like=True):
    """Everything that a broker knows."""

    name: str
    incarnation: int
    link_numbers: list[str]
    """Neighbours and anchors, by number; a free one has an empty name."""
    links: list[LinkState]
    adverts: TableState
    subscriptions: TableState
    placeholders: TableState
    covering: tuple[str, Any]
    """The policy's name, and what it keeps."""
    clients: list[ClientState]
    in_flight: list[InFlightState]
    seen: tuple[list[tuple[str, int, int]], list[tuple[str, int, int]]]
    sync: TableSyncState
    behaviours: dict[str, Any]
    in_grace: bool
    """Whether clients have time to come back after a restart."""
    reachability: ReachabilityState
    probes: tuple[int, dict[str, int]]
    """Number of the last probe for cycles, and the last one over each link."""
    former: dict[str, str] = msgspec.field(default_factory=dict)
    """Former neighbours, and why each is one."""
    held: list[HeldState] = msgspec.field(default_factory=list)
    """Data messages that wait for their turn in a branch, in order, or are parked."""
    chance: tuple[int, dict[str, int]] = msgspec.field(default_factory=lambda: (0, {}))
    """The seed, and how many numbers each owner has drawn."""
    load: LoadSampled = LoadSampled(0)
    """The last sample since the broker started."""
    listing: Listing | None = None
    """The neighbours that the settings list."""
    links_of: list[str] = msgspec.field(default_factory=list)
    """By number, the neighbour that a broker of `link_numbers` lies behind, or is."""
    told_delta: int = 1
    """The Δ that the paths which neighbours were told go by."""
    masks: list[tuple[str, int, bytes]] = msgspec.field(default_factory=list)
    """By publisher and incarnation of `seen`, which sequences up to the last one were seen (bit i:
    the one i before it), where publications may arrive out of order."""
    successions: dict[str, Succession] = msgspec.field(default_factory=dict)
    """By former neighbour, who has taken its place."""
    successors: dict[str, str] = msgspec.field(default_factory=dict)
    """By neighbour that has taken another's place and has not sent its tables: that other one."""
    ended: list[tuple[str, int, int]] = msgspec.field(default_factory=list)
    """By publisher and incarnation of `seen`, the sequence before the last end of an advertisement,
    where there was one."""
    owed: list[tuple[str, int, str, int]] = msgspec.field(default_factory=list)
    """By publisher, incarnation and neighbour, the sequence up to which publications go there
    whatever it wants."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(BrokerState).decode
_decode_envelope = msgspec.msgpack.Decoder(tuple[str, int, msgspec.Raw]).decode
_MAGIC: Final = "byway broker"


def encode(state: BrokerState) -> bytes:
    """The bytes of a state, in its envelope."""
    return _encode((_MAGIC, VERSION, state))


def read(data: bytes) -> BrokerState:
    """The state in bytes that `encode` made. Raises `SnapshotError`."""
    try:
        magic, version, raw = _decode_envelope(data)
    except msgspec.DecodeError as error:
        raise SnapshotError(f"it is no broker's state: {error}") from error
    if magic != _MAGIC:
        raise SnapshotError(f"it begins with {magic!r}, expected {_MAGIC!r}")
    if not older_layouts.OLDEST <= version <= VERSION:
        expected = f"{older_layouts.OLDEST} to {VERSION}"
        raise SnapshotError(f"its layout has version {version}, expected {expected}")
    try:
        return _decode(raw if version == VERSION else _converted(raw, version))
    except msgspec.DecodeError as error:
        raise SnapshotError(f"it is damaged: {error}") from error


def _converted(raw: msgspec.Raw, version: int) -> bytes:
    state = msgspec.msgpack.decode(raw)
    try:
        return _encode(older_layouts.converted(state, version, VERSION))
    except (LookupError, TypeError, ValueError) as error:
        reason = f"its layout {version} cannot be converted to {VERSION}: {error!r}"
        raise SnapshotError(reason) from error
