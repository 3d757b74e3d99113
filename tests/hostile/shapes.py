"""Plain values for the types of frames, read from `msgspec.inspect`, so that a new message or field
is fuzzed as soon as it is declared.

`Maker` makes values that are right as far as types and the meaning of field names tell, and
remembers every place of the last one; `spoil` puts something hostile into one of these. All chance
comes from the generator that is handed in, one draw a choice, whatever the size of what is chosen
from: the same seed makes the same choices in every network.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final, TypeVar

import msgspec
from msgspec import inspect

from byway.core.table_digests import BUCKETS
from byway.model import messages
from byway.model.filters import Filter
from byway.model.messages import (
    LANE_OF,
    PROTOCOL_VERSION,
    AnyFrame,
    Batch,
    EntryId,
    Lane,
    Requests,
    SyncDigest,
    SyncRequest,
    Unsubscribe,
)
from byway.wire.codec import FRAME_BYTES_MAX
from tests.hostile import values

T = TypeVar("T")

CLIENT_VERSION: Final[int] = next(
    (getattr(messages, n) for n in sorted(dir(messages)) if "VERSION" in n and "CLIENT" in n),
    PROTOCOL_VERSION,
)
"""What clients say; brokers say `PROTOCOL_VERSION`."""


class Facts(msgspec.Struct, frozen=True):
    """What a hostile peer knows of the network that it attacks."""

    target: str
    """The broker under test."""
    neighbours: tuple[str, ...]
    """Honest brokers that are connected to it."""
    clients: tuple[str, ...]
    """Honest clients; hostile ones never publish in their names."""
    ids: tuple[tuple[str, str, int, int], ...] = ()
    """Of entries of honest clients, as it was told."""
    incarnation: int = 1
    """Of the broker under test."""


PARTING: Final = "so be it"
"""The reason that hostile peers give when they leave in good order."""
HOSTILE_BROKERS: Final = tuple(f"V{i:02d}" for i in range(12))
HOSTILE_CLIENTS: Final = tuple(f"h{i:03d}" for i in range(300))


def pick(rng: Random, options: Sequence[T]) -> T:
    """One of some options, by one draw."""
    return options[int(rng.random() * len(options))]


def below(rng: Random, limit: int) -> int:
    """A number from 0 on, by one draw."""
    return int(rng.random() * limit)


def _structs(type: inspect.Type) -> list[inspect.StructType]:
    types = type.types if isinstance(type, inspect.UnionType) else (type,)
    return [t for t in types if isinstance(t, inspect.StructType)]


def _field(of: inspect.StructType, name: str) -> inspect.Type:
    return next(f.type for f in of.fields if f.name == name)


FRAMES: Final = {s.cls: s for s in _structs(inspect.type_info(AnyFrame))}
"""Every frame that there is."""
MESSAGES: Final = {
    s.cls: s
    for s in _structs(_field(FRAMES[Batch], "messages").item_type)  # type: ignore[attr-defined]
}
"""Every message between brokers."""
REQUESTS: Final = {
    s.cls: s
    for s in _structs(_field(FRAMES[Requests], "requests").item_type)  # type: ignore[attr-defined]
}
"""Everything a client may ask for."""


_PLAIN: Final[dict[type, inspect.Type]] = {
    int: inspect.IntType(),
    str: inspect.StrType(),
    float: inspect.FloatType(),
    bool: inspect.BoolType(),
}


_FILTER: Final = _structs(inspect.type_info(Filter))[0]


class Maker:
    """Makes plain values of one conversation."""

    def __init__(self, rng: Random, facts: Facts, name: str, role: str, incarnation: int) -> None:
        self.rng = rng
        self.facts = facts
        self.name = name
        self.role = role
        self.incarnation = incarnation
        self.slots: list[tuple[list[Any], int, inspect.Type]] = []
        """Places of what was made since they were last cleared."""
        self.ids: list[list[Any]] = []
        """Ids that this conversation has used."""
        self.labels: list[str] = []
        """Names of subscriptions and advertisements that this client has used."""
        self.sequence = 0
        self._depth = 0

    # --- by type -------------------------------------------------------------------------------

    def struct(self, of: inspect.StructType, **fixed: Any) -> list[Any]:
        """A struct as the array that travels; some fields are given."""
        made: list[Any] = [] if of.tag is None else [of.tag]
        for field in of.fields:
            if field.name in fixed:
                value = fixed[field.name]
            else:
                value = self._known(of.cls, field.name, field.type)
            self.slots.append((made, len(made), field.type))
            made.append(value)
        if of.tag is not None:
            self.slots.append((made, 0, inspect.StrType()))
        return made

    def frame(self, cls: type, **fixed: Any) -> list[Any]:
        """A frame of some kind."""
        return self.struct(FRAMES[cls], **fixed)

    def message(self, cls: type) -> list[Any]:
        """A message between brokers, such as an honest one could send."""
        if cls is Unsubscribe:
            if self.rng.random() < 0.5:
                return self._hinted()
            return self.struct(MESSAGES[cls], similarities=[], hints=[])
        return self.struct(MESSAGES[cls])

    def request(self, cls: type) -> list[Any]:
        """A request of a client."""
        return self.struct(REQUESTS[cls])

    def batch(self, first: int, made: list[Any], lane: Lane) -> list[Any]:
        """A frame of messages."""
        return self.frame(Batch, lane=int(lane), first=first, messages=made)

    def lane_of(self, cls: type) -> Lane:
        """Where a message travels."""
        return LANE_OF.get(cls, Lane.CONTROL)

    def _hinted(self) -> list[Any]:
        ids = [self.entry_id() for _ in range(1 + below(self.rng, 2))]
        shares = [0.6, 0.9][: 1 + below(self.rng, 2)]
        publishers = [pick(self.rng, HOSTILE_CLIENTS) for _ in range(below(self.rng, 3))]
        hints = [[p, [below(self.rng, 5) for _ in shares]] for p in publishers]
        return self.struct(
            MESSAGES[Unsubscribe], ids=ids, similarities=shares, hints=[hints for _ in ids]
        )

    def _known(self, cls: type, name: str, type: inspect.Type) -> Any:
        """What an honest peer could put into a field, by the field's name if that tells."""
        if cls is SyncDigest and name == "neighbours":
            return []
        if cls is SyncDigest and name != "restarting":
            digests = [below(self.rng, 2**64) for _ in range(BUCKETS)]
            return digests if self.rng.random() < 0.2 else []
        if cls is SyncRequest:
            return sorted({below(self.rng, BUCKETS) for _ in range(4)})
        maker = getattr(self, f"for_{name}", None)
        return self.value(type) if maker is None else maker()

    def value(self, type: inspect.Type) -> Any:
        """A usual value of a type."""
        rng = self.rng
        match type:
            case inspect.Metadata(type=inner):
                return self.value(inner)
            case inspect.StructType(cls=cls) if cls is EntryId:
                return self.entry_id()
            case inspect.StructType(cls=cls) if cls is Filter:
                return self.filter()
            case inspect.StructType():
                return self.struct(type)
            case inspect.UnionType(types=types):
                return self.value(pick(rng, types))
            case inspect.VarTupleType(item_type=item) | inspect.ListType(item_type=item):
                return self._several(item)
            case inspect.TupleType(item_types=items):
                made = [self.value(item) for item in items]
                self.slots += [(made, at, item) for at, item in enumerate(items)]
                return made
            case inspect.DictType(key_type=key, value_type=value):
                return {self.value(key): self.value(value) for _ in range(below(rng, 3))}
            case inspect.EnumType(cls=cls):
                return pick(rng, [m.value for m in cls])
            case inspect.LiteralType(values=options):
                return pick(rng, options)
            case inspect.BoolType():
                return rng.random() < 0.5
            case inspect.IntType():
                return self._integer(type)
            case inspect.FloatType():
                return rng.random() * pick(rng, (1, 100))
            case inspect.StrType():
                return pick(rng, ("", "a", "reason", "V01"))
            case inspect.BytesType():
                return pick(rng, (b"", b"{}", b"bytes"))
            case inspect.NoneType():
                return None
        return pick(rng, values.ANYTHING)

    def _several(self, item: inspect.Type) -> list[Any]:
        if self._depth > 3:
            return []
        self._depth += 1
        made: list[Any] = []
        for _ in range(pick(self.rng, (0, 1, 1, 1, 2, 3))):
            self.slots.append((made, len(made), item))
            made.append(self.value(item))
        self._depth -= 1
        return made

    def _integer(self, type: inspect.IntType) -> int:
        least = 0 if type.ge is None else int(type.ge)
        return least + pick(self.rng, (0, 1, 1, 2, 3, 7, 100, 10_000))

    # --- by what it means ----------------------------------------------------------------------

    def entry_id(self, fresh: float = 0.3) -> list[Any]:
        """The id of an entry: a new one, one of before, or an honest client's."""
        draw = self.rng.random()
        if draw < fresh or not self.ids:
            owner = pick(self.rng, (f"c-{self.name}", *HOSTILE_CLIENTS, f"merge@{self.name}"))
            made = [owner, f"e{below(self.rng, 40)}", 1 + below(self.rng, 3), below(self.rng, 500)]
            self.ids.append(made)
        elif draw < 0.85 or not self.facts.ids:
            made = list(pick(self.rng, self.ids))
        else:
            made = list(pick(self.rng, self.facts.ids))
        for at in range(4):
            kind = inspect.StrType() if at < 2 else inspect.IntType()
            self.slots.append((made, at, kind))
        return made

    def filter(self) -> Any:
        """A filter, usual or at a bound; now and then of any shape that the types allow."""
        draw = self.rng.random()
        if draw < 0.5:
            return pick(self.rng, values.filters())
        if draw < 0.6:
            return self._open(pick(self.rng, values.filters()))
        if draw < 0.95:
            return values.filter_of(below(self.rng, 20), below(self.rng, 20))
        if draw < 0.975:
            return pick(self.rng, values.limit_filters())
        if draw < 0.99:
            return self._open(values.filter_of(below(self.rng, 20), below(self.rng, 20)))
        return self.struct(_FILTER, open=draw > 0.999)

    def _open(self, value: Any) -> Any:
        """A copy, every place of which may be spoiled."""
        if not isinstance(value, list):
            return value
        made = [self._open(member) for member in value]
        for at, member in enumerate(made):
            self.slots.append((made, at, _PLAIN.get(member.__class__, inspect.AnyType())))
        return made

    def for_id(self) -> Any:
        return self.entry_id(0.7)

    def for_name(self) -> Any:
        if self.labels and self.rng.random() < 0.5:
            return pick(self.rng, self.labels)
        label = f"l{below(self.rng, 60)}"
        self.labels.append(label)
        return label

    def for_names(self) -> Any:
        return [self.for_name() for _ in range(pick(self.rng, (0, 1, 1, 2, 5)))]

    def for_publisher(self) -> Any:
        return pick(self.rng, HOSTILE_CLIENTS)

    def for_client(self) -> Any:
        return pick(self.rng, HOSTILE_CLIENTS)

    def for_broker(self) -> Any:
        return pick(self.rng, (self.name, *HOSTILE_BROKERS[:2]))

    def for_path(self) -> Any:
        """Brokers of a probe. An accepted neighbour is believed when it tells of a cycle, so
        honest brokers are not named beside each other here."""
        names = (*HOSTILE_BROKERS[:3], self.name, self.facts.target)
        return [pick(self.rng, names) for _ in range(1 + below(self.rng, 4))]

    def for_sequence(self) -> Any:
        self.sequence += 1
        return self.sequence

    def for_body(self) -> Any:
        draw = self.rng.random()
        if draw < 0.9:
            return values.bodies()[below(self.rng, values.VALID_BODIES)]
        return pick(self.rng, values.bodies())

    def for_incarnation(self) -> Any:
        return self.incarnation

    def for_version(self) -> Any:
        return PROTOCOL_VERSION if self.role == "broker" else CLIENT_VERSION

    def for_reason(self) -> Any:
        return PARTING

    def for_role(self) -> Any:
        return self.role

    def for_frame_bytes_max(self) -> Any:
        return FRAME_BYTES_MAX

    def for_keepalive_ms(self) -> Any:
        return 5_000

    def for_session_ttl_us(self) -> Any:
        return pick(self.rng, (0,) * 9 + (1_000,) * 4 + (100_000, 1_000_000, 86_400_000_000))

    # --- spoiling ------------------------------------------------------------------------------

    def spoil(self) -> str:
        """Put something hostile into one place of what was made; what it was."""
        container, at, type = pick(self.rng, self.slots)
        draw = self.rng.random()
        if draw < 0.06 and len(container) > at:
            del container[at]
            return "a field left out"
        if draw < 0.12:
            container.insert(at, pick(self.rng, values.ANYTHING))
            return "a field too many"
        if at < len(container):
            container[at] = self._hostile(type, container[at])
        return f"a hostile {_word(type)}"

    def _hostile(self, type: inspect.Type, now: Any) -> Any:
        rng = self.rng
        if rng.random() < 0.25:
            return pick(rng, values.ANYTHING)
        match type:
            case inspect.Metadata(type=inner):
                return self._hostile(inner, now)
            case inspect.IntType() | inspect.EnumType():
                return self._hostile_integer(type, now)
            case inspect.StrType():
                honest = (*self.facts.neighbours, self.facts.target, *HOSTILE_BROKERS)
                if rng.random() < 0.3:
                    return pick(rng, honest)
                return pick(rng, values.TEXTS)
            case inspect.BytesType():
                if rng.random() < 0.05:
                    return pick(rng, values.large_bodies())
                return pick(rng, values.bodies())
            case inspect.FloatType():
                return pick(
                    rng, (float("nan"), float("inf"), -float("inf"), -1.0, 1e308, 2**64 - 1)
                )
            case inspect.StructType(cls=cls) if cls is Filter:
                return pick(rng, values.limit_filters())
            case inspect.VarTupleType() | inspect.TupleType() if isinstance(now, list) and now:
                return now * pick(rng, (2, 3, 100, 1_025))
        return pick(rng, values.ANYTHING)

    def _hostile_integer(self, type: inspect.Type, now: Any) -> int:
        bounds: list[int] = []
        if isinstance(type, inspect.IntType):
            for bound in (type.ge, type.le, type.gt, type.lt):
                if bound is not None:
                    bounds += [int(bound) - 1, int(bound), int(bound) + 1]
        if isinstance(now, int):
            bounds += [now + 1, now - 1, now + 2]
        options = [i for i in (*bounds, *values.INTEGERS) if -(2**63) <= i < 2**64]
        return pick(self.rng, options)


def _word(of: inspect.Type) -> str:
    if isinstance(of, inspect.StructType):
        return of.cls.__name__
    return type(of).__name__.removesuffix("Type").lower()
