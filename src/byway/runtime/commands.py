"""The operator's commands to a running broker: reload its settings, forget a neighbour, leave for
good, discard an input that was set aside. (`replacing`: replace a neighbour.)

This module decides what each command does, when it is refused, and what it reports as dropped. The
operations port receives commands; the command line sends them, and so imports this module without
any broker.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from itertools import chain
from typing import TYPE_CHECKING, Final

import msgspec

from byway.core.inputs import NeighbourRemoved
from byway.model.errors import BywayError, StorageError
from byway.runtime.client_reports import (
    DISCONNECT_CLIENT,
    LIST_CLIENTS,
    LIST_SUBSCRIPTIONS,
    SHOW_CLIENT,
)
from byway.runtime.http_answers import Answer, Commands, Facts, json_answer, text_answer

if TYPE_CHECKING:
    from byway.core.broker import Broker
    from byway.runtime.server import BrokerServer

log = logging.getLogger("byway.commands")

FORGET: Final = "/topology/forget"
DISCARD: Final = "/topology/discard"
LEAVE: Final = "/topology/leave"
RELOAD: Final = "/topology/reload"
CONFIRM_S: Final = 5.0
"""How long the neighbour of a broker that leaves may take to confirm that it has forgotten it."""
PUBLISHERS_MAX: Final = 100
"""Publishers that a report names, those with the most publications first."""

Command = Callable[["BrokerServer", Facts], Awaitable[object]]


class Forgotten(msgspec.Struct, frozen=True, kw_only=True):
    """The report of `forget`: what a broker dropped together with a neighbour."""

    broker: str
    neighbour: str
    listed: bool
    """Whether the settings still list it: then it is a neighbour again when it is reached, and is
    waited for after the next start."""
    publications: int = 0
    """Number of publications that waited for it. They count as confirmed now."""
    by_publisher: dict[str, int] = {}
    """These by publisher; not all, if they are many."""
    advertisements: int = 0
    """Number of advertisements received from it; they have ended."""
    subscriptions: int = 0
    """Number of subscriptions received from it; they have ended."""


class Discarded(msgspec.Struct, frozen=True, kw_only=True):
    """The report of `discard`: the inputs set aside that are lost."""

    broker: str
    discarded: list[str] = []
    """One line in words for each input lost."""


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """The report of `leave`: what ended when a broker left the network."""

    broker: str
    neighbour: str = ""
    """The first neighbour that it disconnected from; empty if it had none."""
    neighbours: list[str] = []
    """The neighbours that it disconnected from. If there were two, each holds from the other now
    what it held from this broker."""
    confirmed: bool = True
    """Whether the neighbours confirmed that they are no neighbours of this broker any more."""
    silent: list[str] = []
    """Neighbours that have not confirmed it."""
    clients: int = 0
    """Number of clients that were connected."""
    sessions: int = 0
    """Number of sessions that have ended, those of connected clients included."""
    deliveries: int = 0
    """Number of unacknowledged deliveries that were dropped."""


class Reloaded(msgspec.Struct, frozen=True, kw_only=True):
    """The report of `reload`: which settings have changed."""

    broker: str
    taken: list[str] = []
    """Keys whose new values are in force."""
    later: list[str] = []
    """Keys whose new values take effect at the next start."""


class ReloadRefusedError(BywayError):
    """New settings that the broker does not take over; nothing has changed."""

    def __init__(self, reasons: list[str]) -> None:
        self.reasons = reasons
        super().__init__("; ".join(reasons))


class CommandError(BywayError):
    """A command that was refused or failed, with the HTTP status of its answer."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        self.status = status
        self.reason = reason
        super().__init__(reason)


class OperatorCommands:
    """The commands of one broker process."""

    def __init__(
        self,
        server: Callable[[], BrokerServer | None],
        end: Callable[[], None],
        reload: Callable[[bool], Reloaded],
    ) -> None:
        """`server` gives the broker's server once it is created; `end` ends the process after the
        broker has left; `reload` takes over the settings anew, also a move of a part of the network
        if traffic has stopped, or raises `ReloadRefusedError`."""
        self._server = server
        self._end = end
        self._reload = reload

    def table(self) -> Commands:
        """By path, the command that is performed."""
        from byway.runtime import client_commands, replacing

        return {
            replacing.REPLACE: self._answering(replacing.replace),
            FORGET: self._answering(self.forget),
            DISCARD: self._answering(self.discard),
            LEAVE: self._answering(self.leave),
            RELOAD: self._answering(self.reload),
            DISCONNECT_CLIENT: self._answering(client_commands.disconnect),
        }

    def queries(self) -> Commands:
        """By path, what only reads: it needs not wait for a command that is under way."""
        from byway.runtime import client_commands

        return {
            LIST_CLIENTS: self._answering(client_commands.list_clients),
            SHOW_CLIENT: self._answering(client_commands.show_client),
            LIST_SUBSCRIPTIONS: self._answering(client_commands.list_subscriptions),
        }

    def _answering(self, command: Command) -> Callable[[Facts], Awaitable[Answer]]:
        async def answer(facts: Facts) -> Answer:
            try:
                server = self._server()
                if server is None or server.address is None:
                    raise CommandError(HTTPStatus.SERVICE_UNAVAILABLE, "the broker is starting")
                if server.stopping:
                    raise CommandError(HTTPStatus.SERVICE_UNAVAILABLE, "the broker stops")
                return json_answer(HTTPStatus.OK, await command(server, facts))
            except CommandError as error:
                return text_answer(error.status, error.reason)

        return answer

    # --- forget ----------------------------------------------------------------------------------

    async def forget(self, server: BrokerServer, facts: Facts) -> Forgotten:
        """Forget a neighbour that is not connected, so that nothing waits for it."""
        name = text_of(facts, "neighbour")
        neighbours = server.broker.neighbours
        here = server.settings.id
        if name not in neighbours:
            known = f"it has {', '.join(neighbours)}" if neighbours else "it has none"
            reason = f"{name} is not a neighbour of {here}: {known}"
            raise CommandError(HTTPStatus.NOT_FOUND, reason)
        if name in server.links:
            reason = (
                f"{name} is connected to {here}, so nothing waits for it: stop it first, "
                "or remove it from the list of neighbours"
            )
            raise CommandError(HTTPStatus.CONFLICT, reason)
        report = _dropped_with(server, name)
        server.neighbour_links.forget(name)
        log.warning("%s is forgotten: %s", name, _in_words(report))
        return report

    # --- reload ----------------------------------------------------------------------------------

    async def reload(self, server: BrokerServer, facts: Facts) -> Reloaded:
        """Read the settings again, and take over those that can change while the broker runs."""
        del server
        stopped = facts.get("traffic_stopped")
        if not isinstance(stopped, bool):
            reason = f"expected true or false as 'traffic_stopped', found {stopped!r}"
            raise CommandError(HTTPStatus.BAD_REQUEST, reason)
        try:
            return self._reload(stopped)
        except ReloadRefusedError as error:
            raise CommandError(HTTPStatus.CONFLICT, f"not reloaded: {error}") from error

    # --- discard ---------------------------------------------------------------------------------

    async def discard(self, server: BrokerServer, facts: Facts) -> Discarded:
        """Discard inputs that were set aside."""
        which = text_of(facts, "which")
        try:
            lost = server.driver.discard(which)
        except StorageError as error:
            raise CommandError(HTTPStatus.INTERNAL_SERVER_ERROR, str(error)) from error
        if not lost and which != "all":
            raise CommandError(HTTPStatus.NOT_FOUND, f"{which} is not set aside")
        return Discarded(broker=server.settings.id, discarded=lost)

    # --- leave -----------------------------------------------------------------------------------

    async def leave(self, server: BrokerServer, facts: Facts) -> Left:
        """Disconnect from the neighbours for good, and end the process. Two of them take the place
        of this broker, each for the other."""
        del facts
        here, neighbours = server.settings.id, server.broker.neighbours
        leaving = _farewells(server)
        await self._drain(server, neighbours)
        sessions = server.broker.session_totals()
        report = Left(
            broker=here,
            neighbour=next(iter(neighbours), ""),
            neighbours=list(neighbours),
            clients=len(server.clients),
            sessions=sessions.sessions,
            deliveries=sessions.kept,
        )
        why = f", and disconnects from {' and '.join(neighbours)}" if neighbours else ""
        log.warning("the broker leaves for good%s", why)
        if leaving:
            silent = await server.disconnect_for_good(leaving, CONFIRM_S)
            report = msgspec.structs.replace(report, confirmed=not silent, silent=silent)
        self._end()
        return report

    async def _drain(self, server: BrokerServer, neighbours: Sequence[str]) -> None:
        """Wait until nothing of this broker is under way; raise `CommandError` and resume if that
        takes too long. What passes between two neighbours need not be waited for: they send it to
        each other."""
        limit_ms = server.settings.limits.drain_ms
        drain = server.drain_clients if len(neighbours) > 1 else server.drain
        if await drain(limit_ms / 1e3):
            return
        server.undrain()
        waiting = {name: server.broker.unconfirmed(name) for name in neighbours}
        if len(neighbours) > 1:
            waiting = {" and ".join(neighbours): server.broker.unconfirmed_of_clients()}
        what = next((f"{n} publications are not confirmed by {name}" for name, n in waiting.items()
                     if n), "clients have not read what was sent to them")  # fmt: skip
        within = f"within {limit_ms / 1e3:g} s (limits.drain)"
        reason = f"{what} {within}: nothing has changed, try again"
        raise CommandError(HTTPStatus.CONFLICT, reason)


def _farewells(server: BrokerServer) -> list[NeighbourRemoved]:
    """What is done with each neighbour of a broker that leaves. Raises `CommandError` if it may
    not."""
    here, broker = server.settings.id, server.broker
    neighbours = broker.neighbours
    if len(neighbours) > 2:
        names = ", ".join(neighbours)
        reason = (
            f"{here} has {len(neighbours)} neighbours ({names}), which would lose each other: to "
            "link more than two without it needs the exchange of links, which byway does not have "
            f"yet. Stop {here}, and have another broker take its place (byway topology replace)"
        )
        raise CommandError(HTTPStatus.CONFLICT, reason)
    away = [name for name in neighbours if name not in server.links or not _is_up(broker, name)]
    if away:
        reason = (
            f"{away[0]} is not connected and cannot be told: wait for it, or stop {here} "
            f"and have {away[0]} forget it (byway topology forget {here}, there)"
        )
        raise CommandError(HTTPStatus.CONFLICT, reason)
    if len(neighbours) < 2:
        return [NeighbourRemoved(name) for name in neighbours]
    one, other = neighbours
    addresses = {name: link.address for name, link in broker.links.items()}
    if not addresses[one] and not addresses[other]:
        reason = (
            f"neither {one} nor {other} has said where it can be dialled, so they cannot link: set "
            "advertise at one of them"
        )
        raise CommandError(HTTPStatus.CONFLICT, reason)
    return [
        NeighbourRemoved(one, other, addresses[other]),
        NeighbourRemoved(other, one, addresses[one]),
    ]


def _is_up(broker: Broker, name: str) -> bool:
    link = broker.link(name)
    return link is not None and link.up


def text_of(facts: Facts, key: str) -> str:
    """The text that a command has under a key. Raises `CommandError`."""
    value = facts.get(key)
    if not isinstance(value, str) or not value:
        raise CommandError(HTTPStatus.BAD_REQUEST, f"expected a text as {key!r}, found {value!r}")
    return value


def _dropped_with(server: BrokerServer, name: str) -> Forgotten:
    broker = server.broker
    waiting = chain(broker.unconfirmed_publications(name), broker.parked_publications(name))
    publishers = Counter(publication.publisher for publication in waiting)
    listed = any(name in (n.id, server.acceptance.known_as(n)) for n in server.settings.neighbours)
    return Forgotten(
        broker=server.settings.id,
        neighbour=name,
        listed=listed,
        publications=publishers.total(),
        by_publisher=dict(publishers.most_common(PUBLISHERS_MAX)),
        advertisements=len(broker.advertisements.came_from(name)),
        subscriptions=len(broker.subscriptions.came_from(name)),
    )


def _in_words(report: Forgotten) -> str:
    return (
        f"{report.publications} publications that waited for it, "
        f"{report.advertisements} advertisements and {report.subscriptions} subscriptions that "
        f"came from it are dropped{', though it is listed' if report.listed else ''}"
    )
