"""Behaviours: what a broker does besides routing. The router does not know them."""

from byway.core.behaviours.behaviour import Behaviour, Surroundings
from byway.core.behaviours.load_exchange import LoadExchange

__all__ = ["Behaviour", "LoadExchange", "Surroundings"]
