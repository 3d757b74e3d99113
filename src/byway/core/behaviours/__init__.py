"""Behaviours: what a broker does besides routing. The router does not know them."""

from byway.core.behaviours.behaviour import Behaviour
from byway.core.behaviours.broker_view import BrokerView, LinkOpener
from byway.core.behaviours.load_exchange import LoadExchange
from byway.core.behaviours.registry import make_behaviours, register, registered

__all__ = [
    "Behaviour",
    "BrokerView",
    "LinkOpener",
    "LoadExchange",
    "make_behaviours",
    "register",
    "registered",
]
