"""Covering policies: which subscriptions are sent on over which link. One file each."""

from byway.core.covering.active import Active
from byway.core.covering.none import NoCovering
from byway.core.covering.policy import Covering, Moves

POLICIES: dict[str, type[Covering]] = {"none": NoCovering, "active": Active}

__all__ = ["POLICIES", "Covering", "Moves"]
