"""Service times: how long a broker is busy with its inputs.

A profile gives each kind of message a time that grows with the subscription table. It decides times
only; when a broker is served is decided by its node. `docs/reference/service-times.md` says where
the numbers of the profiles come from.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec

from byway.core.inputs import ClientRequested, FrameReceived, Input
from byway.model.errors import BywayError, shortened
from byway.model.messages import (
    Advertise,
    AdvertiseRequest,
    Batch,
    Publish,
    PublishRequest,
    Retire,
    Subscribe,
    SubscribeAlong,
    SubscribeMany,
    SubscribeRequest,
    Unadvertise,
    UnadvertiseRequest,
    Unsubscribe,
    UnsubscribeRequest,
)

_KINDS: Final[dict[type, tuple[str, ...]]] = {
    Publish: ("publication",),
    PublishRequest: ("publication",),
    Subscribe: ("subscribe", "covering"),
    SubscribeAlong: ("subscribe", "covering"),
    SubscribeRequest: ("subscribe", "covering"),
    SubscribeMany: ("subscribe", "packed"),
    Unsubscribe: ("unsubscribe",),
    UnsubscribeRequest: ("unsubscribe",),
    Retire: ("unsubscribe",),
    Advertise: ("advertise",),
    AdvertiseRequest: ("advertise",),
    Unadvertise: ("unadvertise",),
    UnadvertiseRequest: ("unadvertise",),
}
"""The kinds of work that a broker does for a message."""
_OTHER: Final = ("other",)


class ProfileError(BywayError):
    """A service profile that does not exist or cannot be read."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(f"service profile {shortened(name)!r}: {reason}")


class Cost(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The time for one message: a base, and a time for each entry of the subscription table."""

    base_us: float = 0.0
    per_entry_us: float = 0.0

    def __post_init__(self) -> None:
        for value in (self.base_us, self.per_entry_us):
            if not 0 <= value < 1e12:
                raise ValueError(f"a time of {value:g} us: expected 0 up")


class PolicyCosts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The costs that differ under one covering policy; None: as the profile says."""

    publication: Cost | None = None
    subscribe: Cost | None = None
    unsubscribe: Cost | None = None
    covering: Cost | None = None


class ServiceProfile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The costs by kind of work. A message about several subscriptions costs as much as several."""

    name: str
    about: str = ""
    pickup_us: int = 0
    """The time from when a message reaches an idle broker until it takes all that wait by then."""
    batch_us: float = 0.0
    """The time for each batch, whatever is in it."""
    publication: Cost = Cost()
    subscribe: Cost = Cost()
    unsubscribe: Cost = Cost()
    advertise: Cost = Cost()
    unadvertise: Cost = Cost()
    other: Cost = Cost()
    """The cost of settlements, table comparisons and loads; link acknowledgements cost nothing."""
    covering: Cost = Cost()
    """The further cost of a subscription where the policy looks for covering ones."""
    packed: Cost | None = None
    """The further cost of a subscription in a pack; None: the same as `covering`."""
    policies: dict[str, PolicyCosts] = msgspec.field(default_factory=dict)
    """By covering policy, the costs that differ."""

    def times(self, policy: str) -> ServiceTimes:
        """The service times of a broker with this covering policy."""
        own = self.policies.get(policy, PolicyCosts())
        covering = own.covering or self.covering
        costs = {
            "publication": own.publication or self.publication,
            "subscribe": own.subscribe or self.subscribe,
            "unsubscribe": own.unsubscribe or self.unsubscribe,
            "advertise": self.advertise,
            "unadvertise": self.unadvertise,
            "other": self.other,
        }
        if policy != "none":
            costs |= {"covering": covering, "packed": self.packed or covering}
        return ServiceTimes(self.batch_us, costs)


class Work:
    """The work that a broker has done."""

    __slots__ = ("busy_us", "messages")

    def __init__(self) -> None:
        self.busy_us: dict[str, float] = {}
        """By kind of work, the time spent on it."""
        self.messages: dict[str, int] = {}
        """By their first kind of work, the messages handled."""

    def add(self, other: Work) -> None:
        """Add the work of another broker."""
        for own, others in ((self.busy_us, other.busy_us), (self.messages, other.messages)):
            for kind, number in others.items():
                own[kind] = own.get(kind, 0) + number  # type: ignore[assignment]


class ServiceTimes:
    """The service times of one broker, and the work it has done."""

    __slots__ = ("_batch_us", "_other", "_parts", "instant", "work")

    def __init__(self, batch_us: float, costs: dict[str, Cost]) -> None:
        self._batch_us = batch_us
        self._parts = {
            kind: tuple((w, costs[w].base_us, costs[w].per_entry_us) for w in words if w in costs)
            for kind, words in {**_KINDS, object: _OTHER}.items()
        }
        self._other = self._parts.pop(object)
        self.instant = not batch_us and all(cost == Cost() for cost in costs.values())
        self.work = Work()

    def of(self, events: Sequence[Input], entries: int) -> float:
        """The time for a batch in microseconds, with `entries` entries in the subscription table.
        It is added to the work done."""
        total = 0.0
        messages = 0
        busy_us, handled = self.work.busy_us, self.work.messages
        for event in events:
            for message in _messages(event):
                messages += 1
                kind = type(message)
                parts = self._parts.get(kind, self._other)
                times = _weight(message)
                handled[parts[0][0]] = handled.get(parts[0][0], 0) + 1
                for word, base, per_entry in parts:
                    needed = times * (base + per_entry * entries)
                    busy_us[word] = busy_us.get(word, 0.0) + needed
                    total += needed
        return total + self._batch_us if messages else 0.0


def _messages(event: Input) -> Sequence[Any]:
    if type(event) is FrameReceived:
        return event.frame.messages if type(event.frame) is Batch else ()
    return event.requests if type(event) is ClientRequested else ()


def _weight(message: Any) -> int:
    """The number of subscriptions that a message is about."""
    kind = type(message)
    if kind is Unsubscribe or kind is Retire:
        return len(message.ids)
    if kind is SubscribeMany:
        return len(message.subscriptions)
    return len(message.names) if kind is UnsubscribeRequest else 1


# --- profiles -------------------------------------------------------------------------------------

INSTANT: Final = ServiceProfile(name="instant", about="no time at all")


@cache
def profile_names() -> tuple[str, ...]:
    """The names of the profiles that `load_profile` knows, sorted."""
    files = (file.name for file in _directory().iterdir())
    stored = (name.removesuffix(".toml") for name in files if name.endswith(".toml"))
    return tuple(sorted([INSTANT.name, *stored]))


@cache
def load_profile(name: str) -> ServiceProfile:
    """The profile of this name. Raises `ProfileError` if there is none."""
    if name == INSTANT.name:
        return INSTANT
    if name not in profile_names():
        raise ProfileError(name, f"expected one of {', '.join(profile_names())}")
    return read_profile(name, (_directory() / f"{name}.toml").read_text(encoding="utf-8"))


def read_profile(name: str, text: str) -> ServiceProfile:
    """The profile that a TOML text describes. Raises `ProfileError` if it cannot be read."""
    try:
        return msgspec.convert({"name": name, **tomllib.loads(text)}, ServiceProfile)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ProfileError(name, str(error)) from error


def _directory() -> Any:
    return resources.files("byway.sim") / "profiles"
