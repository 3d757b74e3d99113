"""Clients and overlays for programs without an event loop: the same names, and calls that block.

`connect` and `LocalOverlay` here have the same arguments as `byway.connect` and
`byway.LocalOverlay`. The module loads a name when it is first used: an overlay needs the code of
the broker, a client does not.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from byway.client.blocking import Advertisement, Client, Receipt, Subscription, connect
    from byway.local.blocking_overlay import LocalOverlay

_LAZY = {
    "Advertisement": "byway.client.blocking",
    "Client": "byway.client.blocking",
    "LocalOverlay": "byway.local.blocking_overlay",
    "Receipt": "byway.client.blocking",
    "Subscription": "byway.client.blocking",
    "connect": "byway.client.blocking",
}


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'byway.blocking' has no attribute {name!r}")


__all__ = ["Advertisement", "Client", "LocalOverlay", "Receipt", "Subscription", "connect"]
