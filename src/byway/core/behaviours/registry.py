"""The behaviours that this process knows, and those that a broker has.

`register` makes a behaviour known to this process. A broker has those that its configuration asks
for: each class decides that itself (`Behaviour.make`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from byway.core.behaviours.behaviour import Behaviour
from byway.core.behaviours.broker_view import BrokerView, LinkOpener
from byway.core.behaviours.load_exchange import LoadExchange
from byway.core.client_session import ClientSession
from byway.core.context import Context
from byway.model.errors import ConfigError

_registered: dict[str, type[Behaviour]] = {LoadExchange.name: LoadExchange}


def register(behaviour: type[Behaviour]) -> type[Behaviour]:
    """Make a behaviour known under its name, which no other one may have; a decorator."""
    if _registered.setdefault(behaviour.name, behaviour) is not behaviour:
        raise ValueError(f"there is a behaviour {behaviour.name!r} already")
    return behaviour


def registered() -> tuple[type[Behaviour], ...]:
    """All behaviours that are known, in the order of their names."""
    return tuple(_registered[name] for name in sorted(_registered))


def make_behaviours(
    context: Context, opener: LinkOpener, sessions: Mapping[str, ClientSession]
) -> Iterator[Behaviour]:
    """The behaviours that a broker's configuration asks for. Raises `ConfigError` for one that is
    not known."""
    for name in context.config.behaviours:
        if name not in _registered:
            known = ", ".join(sorted(_registered))
            raise ConfigError("core.behaviours", f"{name!r} is not known; known are: {known}")
    for kind in registered():
        view = BrokerView(context, kind.name, opener, sessions)
        made = kind.make(view, context.config)
        if made is not None:
            yield made
