"""Reloading: which settings a running broker takes over, and when it refuses to.

This module decides whether new settings would *move* a part of the network: the broker would lose a
neighbour that is connected and gain another one in its place. Publications that are under way then
are lost, though they were or will be confirmed, so a move is refused unless the operator says that
traffic has stopped, and nothing of this broker is under way. Losing a neighbour that is not
connected is no move: it is forgotten, or replaced. This module changes nothing itself.
"""

from __future__ import annotations

from typing import Final

from byway.runtime.commands import ReloadRefusedError
from byway.runtime.server import BrokerServer
from byway.runtime.settings import BrokerSettings

RELOADED: Final = ("accept", "dial_allow", "limits", "log", "log_level", "neighbours")
"""Settings that a running broker takes over; a table includes all its keys."""


def check_move(server: BrokerServer, settings: BrokerSettings, traffic_stopped: bool) -> None:
    """Raise `ReloadRefusedError` if new settings would move a part of the network, unless traffic
    has stopped."""
    lost, gained = _moved(server, settings)
    if not lost or not gained:
        return
    here = server.settings.id
    if not traffic_stopped:
        raise ReloadRefusedError([
            f"{here} would lose {', '.join(lost)}, which is connected, and gain "
            f"{', '.join(gained)}: moving a part of the network loses publications under way. "
            "Stop all publishers, then reload with: byway topology reload --traffic-stopped"
        ])  # fmt: skip
    counts = {link: server.broker.unconfirmed(link) for link in server.broker.links}
    busy = [f"{count:,} are not confirmed by {link}" for link, count in counts.items() if count]
    if server.driver.inbox.waiting:
        busy.append(f"{server.driver.inbox.waiting:,} messages wait at {here}")
    if busy:
        raise ReloadRefusedError([f"publications are still under way: {', '.join(busy)}"])


def _moved(server: BrokerServer, settings: BrokerSettings) -> tuple[list[str], list[str]]:
    """The connected neighbours that would be lost, and the listed ones that are not connected and
    may come in their place, whether they are new in the list or not. A link outside the tree makes
    no neighbour, and a former one comes back only if it is new in the list."""
    acceptance, broker = server.acceptance, server.broker
    links = [name for name in server.links if broker.is_neighbour(name)]
    listing, removed = acceptance.listing.followed_by(settings.neighbours)
    lost = [id for id in removed if id in links]
    connected = {n.address for n in server.settings.neighbours if acceptance.known_as(n) in links}
    gained = [
        str(neighbour)
        for neighbour in settings.neighbours
        if acceptance.known_as(neighbour) not in links
        and neighbour.address not in connected
        and (neighbour in listing.added or acceptance.known_as(neighbour) not in broker.former)
    ]
    return lost, gained
