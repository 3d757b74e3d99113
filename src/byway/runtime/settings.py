"""The options of a broker process."""

from __future__ import annotations

import socket
from typing import Annotated, Final, Literal

import msgspec

from byway.core.broker_config import BrokerConfig
from byway.core.mesh.mesh_config import MeshConfig
from byway.model.addresses import PORT, Address, Neighbour
from byway.model.bounds import KEEPALIVE_MS_MAX, NAME_LENGTH_MAX
from byway.model.errors import ConfigError
from byway.model.option_reading import quoted
from byway.model.options import (
    LARGEST,
    Bytes,
    Option,
    Quantity,
    all_options_of,
    option,
    parsed,
    time_within,
    within,
)
from byway.runtime.dial_rules import DIAL_RULES_MAX, LOOPBACK_RULES, RULE_FORM, DialRule
from byway.storage.durability import DurabilityOption

Accept = Literal["listed", "any"]
NEIGHBOURS_MAX: Final = 1_024
"""Neighbours that may be listed."""
_ID_FORM: Final = f"a string of 1 to {NAME_LENGTH_MAX} characters without spaces"


def host_id() -> str:
    """The id of a broker that is not given one: the first part of the host's name, without what an
    id may not have."""
    name = socket.gethostname().partition(".")[0]
    allowed = "".join(sign for sign in name if sign.isprintable() and sign not in " @")
    return allowed[:NAME_LENGTH_MAX] or "broker"


def _parse_id(text: str, key: str) -> str:
    """The name of a broker. Raises `ConfigError`."""
    if not 0 < len(text) <= NAME_LENGTH_MAX or not text.isprintable() or " " in text:
        raise ConfigError(key, f"expected {_ID_FORM}, found {quoted(text)}")
    return text


_BrokerId = Annotated[str, parsed(_parse_id, _ID_FORM)]
_HostPort = Annotated[Address, parsed(Address.parse, "host:port")]
_OperationsPort = Annotated[Address, parsed(Address.parse_operations, "host:port")]
_ListedNeighbour = Annotated[Neighbour, parsed(Neighbour.parse, "host:port or id@host:port")]
_DialRule = Annotated[DialRule, parsed(DialRule.parse, RULE_FORM)]
_Milliseconds = Annotated[int, time_within(1, LARGEST, "ms")]


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds of a broker process, beside those of `BrokerConfig`."""

    clients: Annotated[Quantity, option("Connections of clients; one more is refused.")] = 10_000
    neighbours: Annotated[
        int,
        within(0, NEIGHBOURS_MAX),
        option("Neighbours that connected without being listed; one more is refused."),
    ] = 64
    soft_links: Annotated[
        int,
        within(0, NEIGHBOURS_MAX),
        option(
            "Links outside the tree that other brokers opened; one more is refused, unless one of "
            "them is down and nothing waits for it: that one is closed."
        ),
    ] = 64
    unidentified: Annotated[
        Quantity,
        option(
            "Connections whose peer has not identified itself yet; with one more, the oldest of "
            "them is closed.",
            was="strangers",
        ),
    ] = 4_096
    partial_bytes: Annotated[
        Bytes,
        option(
            "Bytes of incomplete frames of all connections together; with more, the broker closes "
            "the connection whose frame began first, but neighbours' connections last."
        ),
    ] = 67_108_864
    client_requests: Annotated[
        Quantity,
        option(
            "Requests of one client that wait, subscribing and unsubscribing included; with more, "
            "nothing is read from that client."
        ),
    ] = 8_192
    client_request_bytes: Annotated[
        Bytes,
        option(
            "Bytes of the frames in which one client's waiting requests came; with more, nothing "
            "is read from that client."
        ),
    ] = 16_777_216
    request_bytes: Annotated[
        Bytes,
        option(
            "Bytes of the frames in which all clients' waiting requests came; with more, nothing "
            "is read from clients that have any."
        ),
    ] = 268_435_456
    client_answer_bytes: Annotated[
        Bytes,
        option(
            "Bytes of answers that one client has not read; with more, the broker reads nothing "
            "from the client, and its requests wait. With more than twice as many, or after twice "
            "`limits.keepalive`, the client is disconnected, and its session kept if it has one."
        ),
    ] = 4_194_304
    unread_bytes: Annotated[
        Bytes,
        option(
            "Bytes of answers and deliveries that all clients together have not read; with more, "
            "the client with the most unread bytes counts as slow."
        ),
    ] = 536_870_912
    client_queue_messages: Annotated[
        Quantity,
        option("Deliveries that wait for one client to read; with more, it counts as slow."),
    ] = 65_536
    client_queue_bytes: Annotated[
        Bytes,
        option(
            "Bytes of deliveries that wait for one client to read; with more, it counts as slow."
        ),
    ] = 67_108_864
    slow_client: Annotated[
        Literal["block", "drop_oldest", "disconnect"],
        option(
            "What happens to a slow client: publications wait for it (`block`), its oldest "
            "deliveries are dropped (`drop_oldest`), or it is disconnected and its session kept "
            "if it has one (`disconnect`)."
        ),
    ] = "disconnect"
    uplink_bytes: Annotated[
        int,
        within(0, unit="bytes"),
        option(
            "What the uplink of this broker carries in a second; load samples tell the broker "
            "which share of it is in use. With 0 that is not known, and the share always 0. This "
            "limits nothing."
        ),
    ] = 0
    keepalive_ms: Annotated[
        int,
        time_within(10, KEEPALIVE_MS_MAX, "ms"),
        option(
            "How often each side of a connection sends something; a peer silent for twice as long "
            "is considered dead."
        ),
    ] = 5_000
    retry_ms: Annotated[
        _Milliseconds,
        option(
            "The time before the second attempt to connect to a neighbour; it doubles with every "
            "further attempt, with random jitter."
        ),
    ] = 100
    retry_ms_max: Annotated[
        _Milliseconds, option("The longest time between two attempts to connect to a neighbour.")
    ] = 800
    refused_ms_max: Annotated[
        _Milliseconds,
        option("The longest time between two attempts if the neighbour answers and refuses."),
    ] = 30_000
    drain_ms: Annotated[
        int,
        time_within(0, LARGEST, "ms"),
        option("How long a broker that stops, or leaves for good, waits for confirmations."),
    ] = 5_000
    report_ms: Annotated[
        _Milliseconds,
        option(
            "How often the log names the brokers waited for, while a neighbour's tables "
            "are missing or something of a local client is not settled."
        ),
    ] = 30_000


class BrokerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything about one broker process."""

    id: Annotated[
        _BrokerId,
        option(
            "The name of this broker in the network, which no other broker there may have.",
            otherwise="the host's name, up to the first dot",
            flag="--id NAME",
        ),
    ] = msgspec.field(default_factory=host_id)
    listen: Annotated[
        _HostPort,
        option(
            "The address for brokers and clients to connect to; port 0 takes a free one, which the "
            "ready line prints.",
            flag="--listen HOST:PORT",
        ),
    ] = Address("127.0.0.1", PORT)
    advertise: Annotated[
        _HostPort | None,
        option(
            "The address that this broker tells other brokers to dial it at, if that is not "
            "`listen`: behind another name, or with a `listen` of all interfaces, such as "
            "`0.0.0.0:7001`, which is told to nobody.",
            otherwise="`listen`",
            cleared_by_empty=True,
            flag="--advertise HOST:PORT",
        ),
    ] = None
    neighbours: Annotated[
        tuple[_ListedNeighbour, ...],
        within(0, NEIGHBOURS_MAX),
        option("The brokers to connect to.", flag="--neighbour [ID@]HOST:PORT"),
    ] = ()
    accept: Annotated[
        Accept | None,
        option(
            "Which brokers may connect: those listed in `neighbours`, or any, up to "
            "`limits.neighbours`. A broker that is a neighbour already may always reconnect.",
            otherwise='`"any"` if `listen` is a loopback address, else `"listed"`',
        ),
    ] = None
    dial_allow: Annotated[
        tuple[_DialRule, ...] | None,
        within(0, DIAL_RULES_MAX),
        option(
            "The hosts where brokers of this network may be, each a name, `*.domain` or a network "
            "such as `10.0.0.0/8`, with or without a `:port`. An address that another broker says "
            "is dialled only there, and with `accept` as `listed` brokers that are not listed may "
            "open links outside the tree only from there. Listed neighbours need no rule.",
            otherwise="`127.0.0.0/8`, `::1` and `localhost` if `listen` is a loopback address, "
            "else none",
        ),
    ] = None
    data: Annotated[
        str | None,
        option(
            "The directory where state is kept; without one, sessions and undelivered messages are "
            "lost in a crash.",
            cleared_by_empty=True,
            flag="--data DIR",
        ),
    ] = None
    durability: DurabilityOption = "process"
    state_dir: Annotated[
        str | None,
        option(
            "The directory for one small file with the names of the broker's neighbours; with it, "
            "a broker without `data` waits for all of them after a restart.",
            cleared_by_empty=True,
            flag="--state-dir DIR",
        ),
    ] = None
    http: Annotated[
        _OperationsPort | None,
        option(
            "The address of the operations port: metrics, health and commands. Commands are taken "
            "only on a loopback address.",
            cleared_by_empty=True,
            flag="--http HOST:PORT",
        ),
    ] = None
    trace: Annotated[
        str | None,
        option(
            "The directory for trace files, in Parquet.", cleared_by_empty=True, flag="--trace DIR"
        ),
    ] = None
    log: Annotated[Literal["human", "json"], option("The format of the log.", flag="--log")] = (
        "human"
    )
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], option("The least severity that is logged.")
    ] = "info"
    core: Annotated[BrokerConfig, option("How the broker works.")] = BrokerConfig(probe_cycles=True)
    mesh: Annotated[MeshConfig, option("Soft links beside the tree.")] = MeshConfig()
    """What `core.mesh` is."""
    limits: Annotated[Limits, option("Bounds of the process.")] = Limits()

    def __post_init__(self) -> None:
        if self.accept is None:
            default: Accept = "any" if self.listen.is_loopback else "listed"
            msgspec.structs.force_setattr(self, "accept", default)
        if self.dial_allow is None:
            rules = LOOPBACK_RULES if self.listen.is_loopback else ()
            msgspec.structs.force_setattr(self, "dial_allow", rules)
        core = msgspec.structs.replace(self.core, mesh=self.mesh)
        msgspec.structs.force_setattr(self, "core", core)


SETTINGS: Final[dict[str, Option]] = {found.key: found for found in all_options_of(BrokerSettings)}
"""Every key there is, such as `limits.clients`."""
