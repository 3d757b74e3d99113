"""What a person who has just started a broker can type next."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Final

from byway.model.addresses import BROKER_VARIABLE, PORT, Address
from byway.model.errors import ConfigError

FILTER: Final = "price > 18"
PUBLICATION: Final = '{"symbol": "IBM", "price": 20}'
_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def first_steps(broker: str, address: Address, environment: Mapping[str, str]) -> str:
    """Lines that tell how to subscribe to a broker and to publish to it, on this machine."""
    reached = Address(_EVERYWHERE.get(address.host, address.host), address.port)
    where = [] if _default(environment) == reached else ["--broker", str(reached)]
    return "\n".join(
        [
            f"{broker} is ready. Type in another terminal:",
            f"  {shlex.join(['byway', 'sub', *where, FILTER])}",
            "and in a third one:",
            f"  {shlex.join(['byway', 'pub', *where, PUBLICATION])}",
        ]
    )


def _default(environment: Mapping[str, str]) -> Address | None:
    """The broker that client commands take if they are not told one."""
    try:
        given = environment.get(BROKER_VARIABLE) or f"127.0.0.1:{PORT}"
        return Address.parse(given, BROKER_VARIABLE)
    except ConfigError:
        return None
