"""The settings of a client, and the addresses of brokers as people write them."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from byway.model.addresses import SCHEME, Address
from byway.model.errors import ConfigError, shortened
from byway.model.option_reading import check_bounds, check_option
from byway.model.options import Bytes, Duration, PositiveDuration, Quantity, option, within

NAME_LENGTH_MAX: Final = 200
"""Of clients, subscriptions and advertisements; the library adds numbers to the latter two."""

WhenFull = Literal["block", "drop_oldest"]


class BrokerUrl(msgspec.Struct, frozen=True):
    """Where a broker listens."""

    text: str
    address: Address

    @classmethod
    def parse(cls, text: str) -> BrokerUrl:
        """From `byway://host:port`, `host:port` or `host`. Raises `ConfigError`."""
        address = Address.parse(text, "url")
        return cls(text if text.startswith(SCHEME) else f"{SCHEME}{address}", address)

    def __str__(self) -> str:
        return self.text


class ClientOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one client. Times are in seconds."""

    urls: Annotated[
        tuple[BrokerUrl, ...],
        option("The addresses of brokers, tried in turn until one accepts the client."),
    ]
    name: Annotated[
        str,
        within(1, NAME_LENGTH_MAX),
        option(
            "The name by which brokers and subscribers know the client; only one client at a time "
            "may have it.",
            otherwise="`client-` and eight digits",
        ),
    ]
    session_ttl: Annotated[
        Duration,
        option(
            "How long the broker keeps subscriptions and deliveries for the client after its "
            "connection is lost; with 0 not at all."
        ),
    ] = 0.0
    window: Annotated[
        Quantity,
        option("Publications that are not confirmed yet; with so many, the next one waits."),
    ] = 4_096
    window_bytes: Annotated[
        Bytes,
        option("Bytes of unconfirmed publications; with so many, the next publication waits."),
    ] = 67_108_864
    pending_messages: Annotated[
        Quantity,
        option("Events of one subscription that the application has not taken yet."),
    ] = 65_536
    pending_bytes: Annotated[
        Bytes,
        option("Bytes of the events of one subscription that the application has not taken yet."),
    ] = 67_108_864
    when_full: Annotated[
        WhenFull,
        option(
            "What happens beyond `pending_messages` or `pending_bytes`: the broker is made to wait "
            "(`block`), or the oldest event is dropped (`drop_oldest`)."
        ),
    ] = "block"
    reconnect: Annotated[
        bool, option("Connects again, to any of the addresses, when the connection is lost.")
    ] = True
    retry: Annotated[
        PositiveDuration,
        option(
            "The time before the second attempt to connect; it doubles with every further "
            "attempt, with random jitter."
        ),
    ] = 0.1
    retry_max: Annotated[
        PositiveDuration, option("The longest time between two attempts to connect.")
    ] = 2.0
    connect_wait: Annotated[
        Duration,
        option("How long the first connection is attempted; with 0 every address once."),
    ] = 0.0
    connect_timeout: Annotated[
        PositiveDuration, option("The longest time that one attempt to connect may take.")
    ] = 5.0
    timeout: Annotated[
        PositiveDuration,
        option(
            "The longest time that a call waits, unless the call has a timeout of its own; "
            "`math.inf` waits for ever."
        ),
    ] = 30.0
    settle_wait: Annotated[
        Duration,
        option(
            "How long publications wait, in a new session after a loss, for advertisements to be "
            "settled again; then they are sent although a remote subscriber may miss them."
        ),
    ] = 5.0
    keepalive: Annotated[
        PositiveDuration,
        option(
            "How often the client sends something even if it has nothing to send; more often if "
            "the broker asks for it."
        ),
    ] = 5.0

    def __post_init__(self) -> None:
        if not self.urls:
            raise ConfigError("url", "expected at least one address")
        check_bounds(self)
        check_label(self.name)


def check_label(label: str) -> None:
    """Raise `ConfigError` unless this can name a client, a subscription or an advertisement."""
    check_option(ClientOptions, "name", label)
    try:
        label.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(
            "name", f"found {shortened(repr(label))}, expected Unicode text: {error.reason}"
        ) from None


def check_when_full(when_full: str) -> None:
    """Raise `ConfigError` unless this says what to do with a full subscription."""
    check_option(ClientOptions, "when_full", when_full)
