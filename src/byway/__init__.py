"""byway: content-based publish/subscribe that reshapes itself.

Names are loaded when first used, so that `import byway` stays quick and compiles nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from byway._version import __version__
from byway.model import (
    ANY,
    FALSE,
    TRUE,
    Attributes,
    BywayError,
    DuplicateKeyError,
    Filter,
    FilterError,
    FilterLimitError,
    FilterSyntaxError,
    InvalidValueError,
    Merge,
    UnknownKeyError,
    Value,
    conforms,
    covers,
    intersects,
    merge,
    parse,
)
from byway.model.errors import (
    ClientError,
    ClosedError,
    ConfigError,
    ConnectError,
    NotAcceptedError,
    NotConfirmedError,
    NotInTimeError,
    NotSettledError,
    NotToldError,
    RefusedError,
    TopologyError,
    WindowFullError,
)

if TYPE_CHECKING:
    from byway.matching import MatchIndex
    from byway.runtime import blocking
    from byway.runtime.client import Client, ClientStatus, connect
    from byway.runtime.events import Event
    from byway.runtime.overlay import LocalOverlay
    from byway.runtime.publishing import Receipt
    from byway.runtime.subscription import Advertisement, Subscription

_LAZY = {
    "Advertisement": "byway.runtime.subscription",
    "Client": "byway.runtime.client",
    "ClientStatus": "byway.runtime.client",
    "Event": "byway.runtime.events",
    "LocalOverlay": "byway.runtime.overlay",
    "MatchIndex": "byway.matching",
    "Receipt": "byway.runtime.publishing",
    "Subscription": "byway.runtime.subscription",
    "connect": "byway.runtime.client",
}


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    if name == "blocking":
        return import_module("byway.runtime.blocking")
    raise AttributeError(f"module 'byway' has no attribute {name!r}")


__all__ = [
    "ANY",
    "FALSE",
    "TRUE",
    "Advertisement",
    "Attributes",
    "BywayError",
    "Client",
    "ClientError",
    "ClientStatus",
    "ClosedError",
    "ConfigError",
    "ConnectError",
    "DuplicateKeyError",
    "Event",
    "Filter",
    "FilterError",
    "FilterLimitError",
    "FilterSyntaxError",
    "InvalidValueError",
    "LocalOverlay",
    "MatchIndex",
    "Merge",
    "NotAcceptedError",
    "NotConfirmedError",
    "NotInTimeError",
    "NotSettledError",
    "NotToldError",
    "Receipt",
    "RefusedError",
    "Subscription",
    "TopologyError",
    "UnknownKeyError",
    "Value",
    "WindowFullError",
    "__version__",
    "blocking",
    "conforms",
    "connect",
    "covers",
    "intersects",
    "merge",
    "parse",
]
