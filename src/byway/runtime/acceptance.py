"""Decides which brokers may dial in, and what for, by the settings and by the links there are.

The decision changes nothing, so a refused broker leaves no trace. The settings may list a neighbour
without its id, so the id that answers at a dialled address is kept here; and which of the listed
ones an operator has added since the broker ran last, or was reloaded.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from byway.model.addresses import Listing, Neighbour
from byway.runtime.dial_rules import admits
from byway.runtime.settings import BrokerSettings

_NOTHING: Final = Listing()


class Acceptance:
    """The neighbours in one broker's settings, with the ids that answered at their addresses."""

    def __init__(self, settings: BrokerSettings, listing: Listing = _NOTHING) -> None:
        """`listing`: what was known of the neighbours in the settings when the broker began."""
        self.settings = settings
        self.added = set(listing.added)
        """Neighbours that an operator has added to the list and that were not linked since: one of
        them becomes a neighbour although it is a former one."""
        named = zip(settings.neighbours, listing.named(settings.neighbours), strict=True)
        self._learnt = {neighbour: known.id for neighbour, known in named if known.id}
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

    @property
    def listing(self) -> Listing:
        """The neighbours in the settings with all that is known of them."""
        listed = self.settings.neighbours
        known = [Neighbour(n.address, self.known_as(n)) for n in listed]
        return Listing(tuple(known), tuple(n for n in listed if n in self.added))

    def take_over(self, settings: BrokerSettings) -> list[str]:
        """Go by other settings from now on; the ids of neighbours that they do not list any
        more."""
        listing, removed = self.listing.followed_by(settings.neighbours)
        self.added = set(listing.added)
        for neighbour, known in zip(settings.neighbours, listing.listed, strict=True):
            self._learnt.setdefault(neighbour, known.id)
        self.settings = settings
        return removed

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
