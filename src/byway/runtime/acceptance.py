"""Decides which brokers may dial in, and what for, by the settings and by the links there are.

The decision changes nothing, so a refused broker leaves no trace. The settings may list a neighbour
without its id, so the id that answers at a dialled address is kept here; and which of the listed
ones an operator has added since the broker ran last, or was reloaded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from byway.model.addresses import Neighbour, removed_neighbours
from byway.runtime.dial_rules import admits
from byway.runtime.settings import BrokerSettings


class Acceptance:
    """The neighbours in one broker's settings, with the ids that answered at their addresses."""

    def __init__(self, settings: BrokerSettings, added: Iterable[Neighbour] = ()) -> None:
        self.settings = settings
        self.added = set(added)
        """Neighbours that an operator has added to the list and that were not linked since: one of
        them becomes a neighbour although it is a former one."""
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

    def is_added(self, broker: str) -> bool:
        """Whether an operator has added a broker to the list, and it was not linked since."""
        return any(self.known_as(neighbour) == broker for neighbour in self.added)

    def linked(self, broker: str) -> None:
        """Note that a broker is linked: that an operator has added it has had its effect."""
        self.added = {n for n in self.added if self.known_as(n) != broker}

    def removed_by(self, after: tuple[Neighbour, ...]) -> list[str]:
        """Ids of neighbours in the settings that a new list does not have any more."""
        known = [Neighbour(n.address, self.known_as(n)) for n in self.settings.neighbours]
        return removed_neighbours(known, after)

    def refusal(self, broker: str, neighbours: Collection[str]) -> str:
        """Why a broker may not become a neighbour by dialling in; empty if it may. `neighbours` are
        those there are."""
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

    def refusal_outside_tree(self, broker: str, host: str, opened: Collection[str]) -> str:
        """Why a broker at this host may not open a link outside the tree; empty if it may. `opened`
        are brokers that have opened one and keep it."""
        own = self.settings.id
        if (
            self.settings.accept == "listed"
            and not self.is_listed(broker)
            and not admits(self.settings.dial_allow or (), host)
        ):
            return (
                f"broker {broker} is not among the neighbours of {own}, which lets others open "
                f"links only from hosts that dial_allow admits, and not from {host}"
            )
        if broker not in opened and len(opened) >= self.settings.limits.soft_links:
            return (
                f"{len(opened)} links outside the tree were opened to {own}, "
                "the most there may be (limits.soft_links)"
            )
        return ""
