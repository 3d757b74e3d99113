"""An operator has another broker take the place of a neighbour: the command, and what is reported.

The command concerns one broker's link to the old neighbour, so it is given at each neighbour of
that one. Given again, it changes nothing and tells how far the succession is. What follows from it
is decided in `core.successions`.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from byway.model.addresses import Address
from byway.model.bounds import NAME_LENGTH_MAX, NEIGHBOURS_MAX
from byway.model.errors import ConfigError, shortened
from byway.model.status import LostPublications, SuccessionStatus, succession_words
from byway.runtime.commands import CommandError, text_of
from byway.runtime.dial_rules import dialled_address
from byway.runtime.http_answers import Facts

if TYPE_CHECKING:
    from byway.core.broker import Broker
    from byway.core.successions import Succession
    from byway.runtime.server import BrokerServer

log = logging.getLogger("byway.commands")

REPLACE: Final = "/topology/replace"
LOST_MAX: Final = 1_000
"""Runs of lost publications that an answer or a status has; all are counted."""
LOGGED_MAX: Final = 20
"""Runs that a line of the log has."""


class Replaced(msgspec.Struct, frozen=True, kw_only=True):
    """The report of `replace`: how far a succession is at one broker."""

    broker: str
    succession: SuccessionStatus
    again: bool = False
    """Whether the command had been given before."""
    waiting: int = 0
    """Number of publications that wait for the successor."""
    neighbours: list[str] = []
    """The other neighbours of the old broker, as far as this one was told: each of them has to be
    told of the successor."""
    cannot_name: bool = False
    """Whether this broker knows of no other neighbours because it has lost its state."""
    listed: bool = False
    """Whether the settings still list the old neighbour."""
    not_dialled: str = ""
    """Why this broker does not dial the successor; empty if it does."""


async def replace(server: BrokerServer, facts: Facts) -> Replaced:
    """Have another broker take the place of a neighbour, or tell how far that is."""
    broker, old = server.broker, text_of(facts, "neighbour")
    by, address = _successor(text_of(facts, "by"))
    known = broker.succession_of.get(old)
    again = known is not None and known.successor == by and not broker.is_neighbour(old)
    if not again:
        reason = broker.reason_not_to_replace(old, by)
        if reason:
            status = HTTPStatus.CONFLICT if broker.is_neighbour(old) else HTTPStatus.NOT_FOUND
            raise CommandError(status, reason)
        server.neighbour_links.forgotten.discard(by)
        from byway.core.inputs import NeighbourReplaced  # the command needs no extra

        others = _others(facts, {broker.name, by, old})
        server.driver.now(NeighbourReplaced(old, by, address, others))
        waiting = server.broker.unconfirmed(by)
        log.warning("%s takes the place of %s for good: %d messages wait for it", by, old, waiting)
    return _report(server, old, again)


def _successor(text: str) -> tuple[str, str]:
    """The id of a successor, and its address if that is given: `id` or `id@host:port`."""
    name, at, address = text.partition("@")
    if not 0 < len(name) <= NAME_LENGTH_MAX:
        reason = f"by: expected the id of a broker, or id@host:port, found {shortened(repr(text))}"
        raise CommandError(HTTPStatus.BAD_REQUEST, reason)
    try:
        return name, str(Address.parse(address, "by")) if at else ""
    except ConfigError as error:
        raise CommandError(HTTPStatus.BAD_REQUEST, str(error)) from error


def _others(facts: Facts, known: set[str]) -> tuple[str, ...]:
    """The brokers that are told with this one."""
    others = facts.get("others", [])
    if not isinstance(others, list) or len(others) > NEIGHBOURS_MAX:
        reason = f"others: expected a list of at most {NEIGHBOURS_MAX} ids"
        raise CommandError(HTTPStatus.BAD_REQUEST, reason)
    for name in others:
        if not isinstance(name, str) or not 0 < len(name) <= NAME_LENGTH_MAX:
            reason = f"others: expected the id of a broker, found {shortened(repr(name))}"
            raise CommandError(HTTPStatus.BAD_REQUEST, reason)
    return tuple(sorted({*others} - known))


def _report(server: BrokerServer, old: str, again: bool) -> Replaced:
    broker = server.broker
    (succession,) = (one for one in successions(broker) if one.neighbour == old)
    new = succession.successor
    known = set() if succession.done else set(broker.neighbours_of(new))
    link = broker.link(new)
    reason = ""
    if link is not None and not link.up and not server.acceptance.is_listed(new):
        rules = server.acceptance.settings.dial_allow or ()
        reason = dialled_address(link.address, rules)[1]
    return Replaced(
        broker=broker.name,
        succession=succession,
        again=again,
        waiting=broker.unconfirmed(new),
        neighbours=sorted(known - {broker.name, new, old}),
        cannot_name=not succession.done and not known,
        listed=server.acceptance.is_listed(old),
        not_dialled=reason,
    )


def successions(broker: Broker, runs_max: int = LOST_MAX) -> list[SuccessionStatus]:
    """The successions at a broker, the oldest first, each with some of what was lost."""
    return [_status(old, one, runs_max) for old, one in broker.succession_of.items()]


def _status(old: str, succession: Succession, runs_max: int) -> SuccessionStatus:
    lost = succession.lost
    return SuccessionStatus(
        neighbour=old,
        successor=succession.successor,
        done=succession.done,
        lost=lost.count,
        runs=[
            LostPublications(
                publisher=run.publisher, incarnation=run.incarnation, first=run.first, last=run.last
            )
            for run in islice(lost, runs_max)
        ],
    )


class SuccessionLog:
    """Tells in the log, once, what became of each succession."""

    def __init__(self, broker: Broker) -> None:
        self._told = {old for old, one in broker.succession_of.items() if one.done}

    def look(self, broker: Broker) -> None:
        """Tell of those that have ended since the last look."""
        known = broker.succession_of
        self._told.intersection_update(known)
        for old, succession in known.items():
            if succession.done and old not in self._told:
                self._told.add(old)
                words = succession_words(_status(old, succession, LOGGED_MAX))
                log.log(logging.WARNING if succession.lost.count else logging.INFO, "%s", words)
