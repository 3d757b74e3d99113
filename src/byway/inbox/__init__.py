"""The scheduler of a broker process: the queues of its inputs, and whose turn it is. Pure: the
broker process and the simulator drive it."""

from byway.inbox.inbox import DataReader, Inbox
from byway.inbox.shares import TURN
from byway.inbox.turn_times import TurnTimes

__all__ = ["TURN", "DataReader", "Inbox", "TurnTimes"]
