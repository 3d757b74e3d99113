"""The settings of a broker process."""

from __future__ import annotations

from typing import Literal

import msgspec

from byway.core.broker_config import BrokerConfig
from byway.model.addresses import Address, Neighbour

Accept = Literal["listed", "any"]


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Bounds of a broker process, beside those of `BrokerConfig`."""

    clients: int = 10_000
    """Connections of clients; one more is refused."""
    neighbours: int = 64
    """Neighbours that dialled in without being listed; one more is refused."""
    strangers: int = 4_096
    """Connections whose peer has not said who it is and what it wants; with one more, the one that
    has taken longest is closed."""
    partial_bytes: int = 67_108_864
    """Bytes of frames that are not complete, of all connections together; beyond, the one begun
    first costs its connection, clients' before neighbours'."""
    client_requests: int = 8_192
    """Requests of one client that wait; with more, nothing is read from it."""
    client_request_bytes: int = 16_777_216
    """Bytes of the frames that they came in, with the same effect."""
    request_bytes: int = 268_435_456
    """The same of all clients together; beyond, nothing more is read from those who have any."""
    client_answer_bytes: int = 4_194_304
    """Bytes of answers that a client has not read; beyond, nothing is read from it and nothing that
    it asks for is done. Beyond twice as many, or if it goes on so for twice `keepalive_ms`, its
    connection is closed (and its session kept, if it has one)."""
    unread_bytes: int = 536_870_912
    """Answers and deliveries that clients have not read, of all together; beyond, the client with
    the most is slow."""
    client_queue_messages: int = 65_536
    """Deliveries that wait for a client to read; beyond, it is slow."""
    client_queue_bytes: int = 67_108_864
    """Their bytes, with the same effect."""
    slow_client: Literal["block", "drop_oldest", "disconnect"] = "disconnect"
    """What happens to a slow client: publications wait for it, it loses the oldest deliveries, or
    its connection is closed (and its session kept, if it has one)."""
    keepalive_ms: int = 5_000
    """How often each side of a connection says that it is there; silent for twice as long, it is
    taken for dead."""
    retry_ms: int = 100
    """Before the second attempt to reach a neighbour; then it doubles, with some chance."""
    retry_ms_max: int = 800
    """The longest time between two attempts."""
    refused_ms_max: int = 30_000
    """The same for a neighbour that answers and refuses us."""
    drain_ms: int = 5_000
    """How long a broker that is stopped waits for confirmations."""
    report_ms: int = 30_000
    """How often the log names who is waited for, while anybody is."""


class BrokerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything about one broker process."""

    id: str
    listen: Address
    neighbours: tuple[Neighbour, ...] = ()
    accept: Accept | None = None
    """Which brokers may dial in: those that are listed in `neighbours`, or any, up to
    `limits.neighbours`. By default any on a loopback listener, where only this machine can dial,
    and the listed ones elsewhere. One that is a neighbour already may always come back."""
    data: str | None = None
    """Directory where state is kept; None: nothing is kept."""
    durability: Literal["process", "power"] = "process"
    """What state that was kept survives: the end of the process, or a loss of power too."""
    state_dir: str | None = None
    """Directory for one small file that says that this broker was here before, and who its
    neighbours were: without `data` it then waits for all of them after a restart."""
    http: Address | None = None
    """Where metrics and health are told."""
    trace: str | None = None
    """Directory for trace files."""
    log: Literal["human", "json"] = "human"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    core: BrokerConfig = BrokerConfig(probe_cycles=True)
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        if self.accept is None:
            default: Accept = "any" if self.listen.is_loopback else "listed"
            msgspec.structs.force_setattr(self, "accept", default)
