"""Which brokers may dial in.

It decides by the settings and by who is a neighbour already; it changes nothing, so that a broker
that is refused leaves no trace. What an address answered with when it was dialled is remembered: a
neighbour may be listed without its id.
"""

from __future__ import annotations

from collections.abc import Collection

from byway.model.addresses import Neighbour
from byway.runtime.settings import BrokerSettings


class Acceptance:
    """The list of one broker's neighbours, with the ids that were learnt."""

    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings
        self._learnt: dict[Neighbour, str] = {}
        """By neighbour, the id that its address answered with last."""

    def learn(self, neighbour: Neighbour, broker: str) -> None:
        """A neighbour was dialled, and this broker answered."""
        self._learnt[neighbour] = broker

    def known_as(self, neighbour: Neighbour) -> str:
        """The id of a neighbour, as far as it is known."""
        return neighbour.id or self._learnt.get(neighbour, "")

    def is_listed(self, broker: str) -> bool:
        """Whether a broker is one of the neighbours in the settings."""
        return any(self.known_as(neighbour) == broker for neighbour in self.settings.neighbours)

    def refusal(self, broker: str, neighbours: Collection[str]) -> str:
        """Why a broker that dials in is not taken in, if it is not. `neighbours` are there, or
        about to be."""
        if broker in neighbours or self.is_listed(broker):
            return ""
        own = self.settings.id
        if self.settings.accept == "listed":
            return (
                f"broker {broker} is not among the neighbours of {own}, "
                'which takes in no other (accept = "listed")'
            )
        unlisted = sum(not self.is_listed(neighbour) for neighbour in neighbours)
        if unlisted >= self.settings.limits.neighbours:
            return (
                f"{own} has {unlisted} neighbours that are not listed, "
                "the most there may be (limits.neighbours)"
            )
        return ""
