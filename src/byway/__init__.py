"""byway: a content-based publish/subscribe network. This module has the public names.

`connect` attaches a client to a broker, `LocalOverlay` runs brokers in this process, `parse` and
`Filter` make filters, `MatchIndex` matches them; `blocking` has clients and overlays for programs
without an event loop. The module loads a name when it is first used, so that `import byway` stays
quick, compiles nothing, and needs no extra: a name whose extra is missing says which one.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from byway import extras
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
    MissingExtraError,
    NotAcceptedError,
    NotConfirmedError,
    NotInTimeError,
    NotSettledError,
    NotToldError,
    RefusedError,
    TopologyError,
    UnroutedError,
    WindowFullError,
)

if TYPE_CHECKING:
    from byway import blocking
    from byway.client.client import Client, ClientStatus, connect
    from byway.client.publishing import Receipt
    from byway.client.subscription import Advertisement, Subscription
    from byway.local.overlay import LocalOverlay
    from byway.matching import MatchIndex
    from byway.session.events import Event
    from byway.session.outgoing_publications import Routes

extras.check_imports()

_LAZY = {
    "Advertisement": "byway.client.subscription",
    "Client": "byway.client.client",
    "ClientStatus": "byway.client.client",
    "Event": "byway.session.events",
    "LocalOverlay": "byway.local.overlay",
    "MatchIndex": "byway.matching",
    "Receipt": "byway.client.publishing",
    "Routes": "byway.session.outgoing_publications",
    "Subscription": "byway.client.subscription",
    "connect": "byway.client.client",
}


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(import_module(_LAZY[name]), name)
    if name == "blocking":
        return import_module("byway.blocking")
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
    "MissingExtraError",
    "NotAcceptedError",
    "NotConfirmedError",
    "NotInTimeError",
    "NotSettledError",
    "NotToldError",
    "Receipt",
    "RefusedError",
    "Routes",
    "Subscription",
    "TopologyError",
    "UnknownKeyError",
    "UnroutedError",
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
