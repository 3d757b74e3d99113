"""Addresses of brokers, and neighbours as the settings list them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final

import msgspec

from byway.model.errors import ConfigError, shortened

SCHEME: Final = "byway://"
PORT: Final = 7001
"""Where a broker listens, and clients look for one, if nothing else is said."""
BROKER_VARIABLE: Final = "BYWAY_BROKER"
"""The variable with the address of the broker, for clients that are told none."""
OPERATIONS_SCHEME: Final = "http://"
OPERATIONS_PORT: Final = 9001
"""The port of operations, where an address does not name one."""
_HOST_PORT = re.compile(
    r"(?:\[([0-9A-Fa-f:.%\w]+)\]|([^\s:/@?#\[\]]+))(?::([0-9]{1,5}))?", re.ASCII
)


class Address(msgspec.Struct, frozen=True):
    """A host and a port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str, key: str, scheme: str = SCHEME, port: int = PORT) -> Address:
        """The address in `host:port`, `[host]:port` or `host`, with or without the scheme. Raises
        `ConfigError` that names the key; `port` is the one that need not be written."""
        found = _HOST_PORT.fullmatch(text.removeprefix(scheme).removesuffix("/"))
        if found is not None:
            bracketed, host, digits = found.groups()
            number = port if digits is None else int(digits)
            is_port_alone = host is not None and host.isdecimal()
            if number <= 65_535 and not is_port_alone:
                return cls(bracketed or host, number)
        example = f"such as localhost:{port} or [::1]:{port}"
        raise ConfigError(
            key, f"{shortened(repr(text))} is no address: expected host:port, {example}"
        )

    @classmethod
    def parse_operations(cls, text: str, key: str) -> Address:
        """The address of an operations port, which may be written as `http://host:port`."""
        return cls.parse(text, key, OPERATIONS_SCHEME, OPERATIONS_PORT)

    @property
    def is_loopback(self) -> bool:
        """Whether the host is `localhost` or a loopback address; other names are not resolved."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    @property
    def is_unspecified(self) -> bool:
        """Whether the host stands for all interfaces of a machine; names are not resolved."""
        try:
            return ip_address(self.host).is_unspecified
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Neighbour(msgspec.Struct, frozen=True):
    """A broker to connect to. If its id is known, a restart without storage waits for it."""

    address: Address
    id: str = ""

    @classmethod
    def parse(cls, text: str, key: str) -> Neighbour:
        """The neighbour in `host:port` or `id@host:port`. Raises `ConfigError`."""
        id, at, address = text.removeprefix(SCHEME).rpartition("@")
        if at and not id:
            raise ConfigError(key, f"{text!r}: expected an id before the @")
        return cls(Address.parse(address, key), id)

    def __str__(self) -> str:
        return f"{self.id}@{self.address}" if self.id else str(self.address)


class Listing(msgspec.Struct, frozen=True):
    """The neighbours that the settings of a broker list, and what is known of them beside that."""

    listed: tuple[Neighbour, ...] = ()
    """Each with its id as far as that is known, though the settings may name its address alone."""
    added: tuple[Neighbour, ...] = ()
    """Those that an operator has added and that were not linked since, as the settings list them:
    one of them becomes a neighbour although it is a former one."""

    def named(self, neighbours: Iterable[Neighbour]) -> list[Neighbour]:
        """Neighbours that settings list now, each with its id as far as that is known here."""
        ids = {n.address: n.id for n in self.listed}
        return [Neighbour(n.address, n.id or ids.get(n.address, "")) for n in neighbours]

    def followed_by(self, neighbours: Iterable[Neighbour]) -> tuple[Listing, list[str]]:
        """The settings list other neighbours now: what that makes of this, and the ids of those
        that an operator has removed. A neighbour is the same by its id or by its address."""
        neighbours = list(neighbours)
        named = self.named(neighbours)
        ids, addresses = {n.id for n in named}, {n.address for n in named}
        removed = [
            n.id for n in self.listed
            if n.id and n.id not in ids and n.address not in addresses
        ]  # fmt: skip
        added = [n for n in neighbours if not _names(self.listed, n) or _names(self.added, n)]
        return Listing(tuple(named), tuple(added)), list(dict.fromkeys(removed))


def _names(neighbours: Iterable[Neighbour], one: Neighbour) -> bool:
    """Whether one of these is a neighbour, by its id or by its address."""
    return any(n.address == one.address or (n.id and n.id == one.id) for n in neighbours)
