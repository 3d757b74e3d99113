"""Addresses of brokers, and neighbours as the settings list them."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address

import msgspec

from byway.model.errors import ConfigError


class Address(msgspec.Struct, frozen=True):
    """A host and a port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str, key: str) -> Address:
        """The address in `host:port` or `[host]:port`. Raises `ConfigError` that names the key."""
        host, colon, port = text.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not colon or not host or not port.isdecimal() or not 0 <= int(port) <= 65_535:
            raise ConfigError(key, f"{text!r} is no address: expected host:port")
        return cls(host, int(port))

    @property
    def is_loopback(self) -> bool:
        """Whether the host is `localhost` or a loopback address; other names are not resolved."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Neighbour(msgspec.Struct, frozen=True):
    """A broker to connect to. If its id is known, a restart without storage waits for it."""

    address: Address
    id: str = ""

    @classmethod
    def parse(cls, text: str, key: str) -> Neighbour:
        """The neighbour in `host:port` or `id@host:port`. Raises `ConfigError`."""
        id, at, address = text.rpartition("@")
        if at and not id:
            raise ConfigError(key, f"{text!r}: expected an id before the @")
        return cls(Address.parse(address, key), id)

    def __str__(self) -> str:
        return f"{self.id}@{self.address}" if self.id else str(self.address)


def removed_neighbours(before: Iterable[Neighbour], after: Iterable[Neighbour]) -> list[str]:
    """Ids of the neighbours in `before` that `after` names neither by id nor by address."""
    after = list(after)
    ids, addresses = {n.id for n in after}, {n.address for n in after}
    return [n.id for n in before if n.id and n.id not in ids and n.address not in addresses]
