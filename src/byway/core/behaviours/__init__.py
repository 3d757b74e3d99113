"""Behaviours: what a broker does besides routing. The router does not know them."""

from byway.core.behaviours.behaviour import Behaviour, BrokerView
from byway.core.behaviours.load_exchange import LoadExchange

BEHAVIOURS: tuple[type[Behaviour], ...] = (LoadExchange,)
"""All there are; a broker's configuration says which are on."""

__all__ = ["BEHAVIOURS", "Behaviour", "BrokerView", "LoadExchange"]
