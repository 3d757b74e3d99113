"""Several inputs in one call have the effect of each in turn: the same state, the same messages in
the same order, in fewer frames.

What may differ is told here: answers for subscriptions are gathered into one message behind the
others of a lane, confirmations and acknowledgements are cumulative, so only the last one counts,
and that data arrived is told in passing.
"""

import random
from collections import Counter, defaultdict

import pytest

from byway.core.actions import Send, SendReply
from byway.core.broker import Broker
from byway.core.inputs import ClientRequested, FrameReceived
from byway.core.snapshot import BrokerState, read
from byway.model.messages import (
    Acknowledge,
    PublicationsAccepted,
    PublicationsConfirmed,
    SubscriptionsSettled,
)
from tests.core_net import Net, is_data
from tests.lone_broker import twin_of
from tests.sim import test_routing_is_exact as runs

CUMULATIVE = (PublicationsAccepted, PublicationsConfirmed)


class BatchNet(Net):
    """Brokers get several frames and requests at once; a twin of each gets them one by one, and
    must come to the same."""

    rng = random.Random(0)
    batches = 0

    def __init__(self, *arguments):
        self.held: dict[str, list] = defaultdict(list)
        super().__init__(*arguments)

    def ask(self, client, *requests):
        """Some requests wait, and come with what comes next."""
        home = self.home[client]
        self.held[home].append(ClientRequested(client, requests))
        if self.rng.random() < 0.5:
            self.flush(home)

    def step(self, way, overtake=False):
        """Take frames from all sides of a broker together."""
        _, receiver = way
        sides = sorted(w for w in self.flying if w[1] == receiver)
        events = self.held.pop(receiver, [])
        for _ in range(self.rng.randint(1, 6)):
            side = self.rng.choice(sides)
            queue = self.flying[side]
            if queue:
                at = next((i for i, f in enumerate(queue) if not is_data(f)), 0) if overtake else 0
                events.append(FrameReceived(side[0], queue.pop(at)))
        if events:
            self.do_together(receiver, events)

    def settle(self):
        while any(self.flying.values()) or any(self.held.values()):
            for broker in sorted(self.brokers):
                self.flush(broker)
            for way in sorted(self.flying):
                self.step(way)

    def flush(self, broker):
        """What waited comes alone, before something that is no input of one broker."""
        events = self.held.pop(broker, [])
        if events:
            self.do_together(broker, events)

    def disconnect(self, a, b):
        self.flush(a)
        self.flush(b)
        super().disconnect(a, b)

    def restart(self, broker, stored, down=()):
        self.flush(broker)
        super().restart(broker, stored, down)

    def do_together(self, broker, events):
        original = self.brokers[broker]
        twin = twin_of(original)
        expected = [action for event in events for action in twin.handle(0, event)]
        actions = original.handle_batch(0, events)
        assert essence(actions) == essence(expected)
        assert state(original) == state(twin)
        BatchNet.batches += len(events) > 1
        for action in actions:
            self.perform(broker, action)


def essence(actions: list) -> dict:
    """What actions come to, however they are cut into frames."""
    found: dict[tuple, list] = defaultdict(list)
    last: dict[tuple, object] = {}
    for action in actions:
        if isinstance(action, SendReply):
            for reply in action.replies:
                if isinstance(reply, CUMULATIVE):
                    last[action.client, type(reply)] = reply
                else:
                    found["told", action.client].append(reply)
        elif isinstance(action, Send) and isinstance(action.frame, Acknowledge):
            # how much data has arrived is told in passing, sooner or later
            last["acknowledged", action.link] = action.frame.control, action.frame.confirmed
        elif isinstance(action, Send):
            for message in action.frame.messages:
                if isinstance(message, SubscriptionsSettled):
                    found["settled", action.link].extend(message.ids)
                else:
                    found["sent", action.link, action.frame.lane].append(message)
        else:
            found["done"].append(action)
    return dict(found) | without_what_a_confirmation_says(last)


def without_what_a_confirmation_says(last: dict) -> dict:
    """A publication that is confirmed is here."""
    return {
        key: reply
        for key, reply in last.items()
        if not (
            key[1] is PublicationsAccepted
            and (key[0], PublicationsConfirmed) in last
            and last[key[0], PublicationsConfirmed].sequence >= reply.sequence
        )
    }


def state(broker: Broker) -> BrokerState:
    """The whole state but for the numbers of control messages, which depend on the frames."""
    found = read(broker.snapshot())
    for link in found.links:
        link.control, link.control_next = [], 0
        link.told[1] = 0  # of data
    return found


@pytest.mark.parametrize("seed", range(17))
def test_a_batch_is_its_inputs_one_by_one(seed, monkeypatch):
    monkeypatch.setattr(runs, "Net", BatchNet)
    monkeypatch.setattr(BatchNet, "rng", random.Random(seed))
    monkeypatch.setattr(BatchNet, "batches", 0)
    runs.run(seed, Counter(), faults=True)
    assert BatchNet.batches > 10
