"""Rules for addresses that other brokers say: which are kept, and which of these may be dialled.

A broker that lies may not have this one connect to hosts and ports of its choice. So an address
that no other broker can have is ignored when it is heard, and one that is kept is dialled only if
a rule of `dial_allow` names its host. Rules for networks count for addresses in figures alone, so a
name is never resolved unless a rule names it. This module decides; it resolves and dials nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final

import msgspec

from byway.model.addresses import Address
from byway.model.errors import ConfigError
from byway.model.option_reading import quoted

DIAL_RULES_MAX: Final = 1_024
"""Rules that may be listed."""
RULE_FORM: Final = "a host, *.domain or a network such as 10.0.0.0/8, each with or without a :port"
_NAME: Final = re.compile(r"(?:\*\.)?[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252})", re.ASCII)
_RULE: Final = re.compile(r"(?:\[([^\[\]]+)\]|([^\[\]:]+))(?::([0-9]{1,5}))?", re.ASCII)
_Ip = IPv4Address | IPv6Address


class DialRule(msgspec.Struct, frozen=True):
    """One rule: a name, a domain (`*.example.org`) or a network, and a port or any (0)."""

    host: str
    port: int = 0

    @classmethod
    def parse(cls, text: str, key: str) -> DialRule:
        """The rule in a text. Raises `ConfigError`."""
        found = _RULE.fullmatch(text)
        host, port = (text, 0) if found is None else (found[1] or found[2], int(found[3] or 0))
        network = _network(host)
        is_rule = network is not None or (_NAME.fullmatch(host) and not _is_numeric(host))
        if not is_rule or port > 65_535 or (found is not None and found[3] and not port):
            raise ConfigError(key, f"expected {RULE_FORM}, found {quoted(text)}")
        return cls(host.lower() if network is None else str(network), port)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}" if self.port else host

    def admits(self, host: str, port: int | None = None) -> bool:
        """Whether a host is one that this rule names, at this port or (None) at any."""
        if self.port and port is not None and port != self.port:
            return False
        ip, network = _ip(host), _network(self.host)
        if network is not None:
            return ip is not None and ip.version == network.version and ip in network
        if self.host.startswith("*."):
            return ip is None and host.lower().endswith(self.host[1:])
        return host.lower() == self.host


LOOPBACK_RULES: Final = (DialRule("127.0.0.0/8"), DialRule("::1/128"), DialRule("localhost"))


def admits(rules: Iterable[DialRule], host: str, port: int | None = None) -> bool:
    """Whether one of these rules names a host."""
    return any(rule.admits(host, port) for rule in rules)


def heard_address(text: str, peer_host: str, own: Iterable[Address]) -> tuple[str, str]:
    """The address that a broker says, as it is kept, and why it is not, if it is not. `peer_host`
    is where the broker connects from; `own` are addresses of this broker."""
    if not text:
        return "", ""
    try:
        address = Address.parse(text, "address")
    except ConfigError:
        return "", "it is no address"
    ip = _ip(address.host)
    if ip is None and not _is_name(address.host):
        return "", "it is no address"
    if address.port == 0:
        return "", "it has no port"
    if ip is not None and (ip.is_unspecified or ip.is_multicast or _is_broadcast(ip)):
        return "", "no broker can have it"
    if Address(address.host if ip is None else str(ip), address.port) in own:
        return "", "it is the address of this broker"
    if _is_loopback(address.host) and not _is_loopback(peer_host):
        return "", f"it is a loopback address, and the broker is at {peer_host}"
    return str(address), ""


def dialled_address(text: str, rules: Iterable[DialRule]) -> tuple[Address | None, str]:
    """The address to dial for one that was kept, or why it is not dialled."""
    if not text:
        return None, "it has said no address"
    try:
        address = Address.parse(text, "address")
    except ConfigError:
        return None, f"{text!r} is no address"
    if address.port == 0:
        return None, f"{address} has no port"
    if not admits(rules, address.host, address.port):
        return None, f"no rule of dial_allow admits {address}"
    return address, ""


def _network(host: str) -> IPv4Network | IPv6Network | None:
    """The network of a rule; a single address is a network too. None for a name."""
    try:
        return ip_network(host)
    except ValueError:
        return None


def _ip(host: str) -> _Ip | None:
    """An address in figures; an IPv4 address that is written as one of IPv6 is itself."""
    try:
        ip = ip_address(host)
    except ValueError:
        return None
    mapped = ip.ipv4_mapped if isinstance(ip, IPv6Address) else None
    return mapped or ip


def _is_name(host: str) -> bool:
    """Whether a host can be looked up by this name."""
    labels = host.removesuffix(".").split(".")
    fit = all(1 <= len(label) <= 63 for label in labels)
    return fit and _NAME.fullmatch(host) is not None and not _is_numeric(host)


def _is_numeric(host: str) -> bool:
    """Whether a host is an address in figures in one of the forms that only resolvers read, such as
    `127.1` or `0x7f000001`."""
    last = host.rstrip(".").rpartition(".")[2]
    return last.isdecimal() or re.fullmatch(r"0[xX][0-9A-Fa-f]*", last) is not None


def _is_broadcast(ip: _Ip) -> bool:
    return isinstance(ip, IPv4Address) and ip.is_reserved


def _is_loopback(host: str) -> bool:
    ip = _ip(host)
    return host.lower() == "localhost" if ip is None else ip.is_loopback
