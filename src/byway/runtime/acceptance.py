"""Decides which brokers may dial in, by the settings and by who is a neighbour already.

The decision changes nothing, so a refused broker leaves no trace. The settings may list a neighbour
without its id, so the id that answers at a dialled address is kept here.
"""

from __future__ import annotations

from collections.abc import Collection

from byway.model.addresses import Neighbour, removed_neighbours
from byway.runtime.settings import BrokerSettings


class Acceptance:
    """The neighbours in one broker's settings, with the ids that answered at their addresses."""

    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings
        self._learnt: dict[Neighbour, str] = {}
        """By neighbour, the id that answered last at its address."""

    def learn(self, neighbour: Neighbour, broker: str) -> None:
        """Note that this broker answered when a neighbour was dialled."""
        self._learnt[neighbour] = broker

    def known_as(self, neighbour: Neighbour) -> str:
        """The id of a neighbour; empty while it is not known."""
        return neighbour.id or self._learnt.get(neighbour, "")

    def is_listed(self, broker: str) -> bool:
        """Whether a broker is one of the neighbours in the settings."""
        return any(self.known_as(neighbour) == broker for neighbour in self.settings.neighbours)

    def removed_by(self, after: tuple[Neighbour, ...]) -> list[str]:
        """Ids of neighbours in the settings that a new list does not have any more."""
        known = [Neighbour(n.address, self.known_as(n)) for n in self.settings.neighbours]
        return removed_neighbours(known, after)

    def refusal(self, broker: str, neighbours: Collection[str]) -> str:
        """Why a broker that dials in is refused; empty if it is accepted. `neighbours` are present,
        or about to be."""
        if broker in neighbours or self.is_listed(broker):
            return ""
        own = self.settings.id
        if self.settings.accept == "listed":
            return (
                f"broker {broker} is not among the neighbours of {own}, "
                'which accepts no other (accept = "listed")'
            )
        unlisted = sum(not self.is_listed(neighbour) for neighbour in neighbours)
        if unlisted >= self.settings.limits.neighbours:
            return (
                f"{own} has {unlisted} neighbours that are not listed, "
                "the most there may be (limits.neighbours)"
            )
        return ""
