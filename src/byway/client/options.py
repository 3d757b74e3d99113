"""The settings of a client, and the addresses of brokers as people write them."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Final, Literal

import msgspec

from byway.model.addresses import Address
from byway.model.errors import ConfigError, shortened

SCHEME: Final = "byway://"
NAME_LENGTH_MAX: Final = 200
"""Of clients, subscriptions and advertisements; the library adds numbers to the latter two."""

WhenFull = Literal["block", "drop_oldest"]


class BrokerUrl(msgspec.Struct, frozen=True):
    """Where a broker listens."""

    text: str
    address: Address

    @classmethod
    def parse(cls, text: str) -> BrokerUrl:
        """From `byway://host:port`. Raises `ConfigError`."""
        expected = f"{text!r} is no address of a broker: expected {SCHEME}host:port"
        if not text.startswith(SCHEME):
            raise ConfigError("url", expected)
        try:
            address = Address.parse(text.removeprefix(SCHEME).removesuffix("/"), "url")
        except ConfigError:
            raise ConfigError("url", expected) from None
        if any(sign in address.host for sign in "/@?#"):
            raise ConfigError("url", expected)
        return cls(text, address)

    def __str__(self) -> str:
        return self.text


class ClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one client. Times are in seconds."""

    urls: tuple[BrokerUrl, ...]
    name: str
    session_ttl: float = 0.0
    """For how long the broker keeps subscriptions and deliveries of a client that vanished."""
    window: int = 4_096
    """Publications that are not confirmed; one more waits."""
    window_bytes: int = 67_108_864
    """Their bytes, with the same effect."""
    pending_messages: int = 65_536
    """Events of one subscription that the application has not taken."""
    pending_bytes: int = 67_108_864
    when_full: WhenFull = "block"
    """What happens beyond: the broker is asked to wait, or the oldest event is lost."""
    reconnect: bool = True
    retry: float = 0.1
    """Before the second attempt to connect; then it doubles, with some chance."""
    retry_max: float = 2.0
    connect_wait: float = 0.0
    """How long the first connection is tried; 0: every address once."""
    connect_timeout: float = 5.0
    """For one attempt."""
    timeout: float = 30.0
    """For everything that is waited for, unless a call says otherwise."""
    settle_wait: float = 5.0
    """How long publications wait, in a new session after a loss, for advertisements to be settled
    again; then they are sent though a subscriber far away may miss them."""
    keepalive: float = 5.0
    """How often the client says that it is there."""

    def __post_init__(self) -> None:
        if not self.urls:
            raise ConfigError("url", "expected at least one address")
        check_label("name", self.name)
        for key in ("window", "window_bytes", "pending_messages", "pending_bytes"):
            _check_at_least(key, getattr(self, key), 1)
        for key in ("session_ttl", "connect_wait", "settle_wait"):
            _check_at_least(key, getattr(self, key), 0)
        for key in ("retry", "retry_max", "connect_timeout", "timeout", "keepalive"):
            _check_positive(key, getattr(self, key))
        check_when_full(self.when_full)


def parse_urls(urls: str | Sequence[str]) -> tuple[BrokerUrl, ...]:
    """One address or several."""
    return tuple(BrokerUrl.parse(url) for url in ([urls] if isinstance(urls, str) else urls))


def check_label(key: str, label: str) -> None:
    """Raise `ConfigError` unless this can name a client, a subscription or an advertisement."""
    if not 0 < len(label) <= NAME_LENGTH_MAX:
        raise ConfigError(
            key, f"expected 1 to {NAME_LENGTH_MAX} characters, found {len(label)} of them"
        )
    try:
        label.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(
            key, f"found {shortened(repr(label))}, expected Unicode text: {error.reason}"
        ) from None


def check_when_full(when_full: str) -> None:
    """Raise `ConfigError` unless this says what to do with a full subscription."""
    if when_full not in ("block", "drop_oldest"):
        raise ConfigError("when_full", f"expected 'block' or 'drop_oldest', found {when_full!r}")


def _check_at_least(key: str, value: float, least: int) -> None:
    if isnan(value) or value < least:
        raise ConfigError(key, f"expected a number from {least} up, found {value!r}")


def _check_positive(key: str, value: float) -> None:
    if isnan(value) or value <= 0:
        raise ConfigError(key, f"expected a number above 0, found {value!r}")
