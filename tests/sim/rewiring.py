"""A behaviour that opens and closes links when a test says so, in words: its timers are its orders.

    open soft B3        dial B3 for a soft link; also `open opening B3` and `open primary B3`
    close B3            close the link to B3
    part B3             close it for good

Over a link outside the tree that comes up it sends one report, which the other end notes.
"""

from collections import Counter
from typing import Any, ClassVar

from byway.core.actions import Timer
from byway.core.behaviours import Behaviour, register
from byway.core.inputs import TimerFired
from byway.model.messages import LinkKind, Load, LoadReport


@register
class Rewiring(Behaviour):
    """Does what its timers are called."""

    name: ClassVar[str] = "rewiring"
    messages: ClassVar[tuple[type, ...]] = ()
    messages_outside_tree: ClassVar[tuple[type, ...]] = (LoadReport,)
    heard: ClassVar[Counter[tuple[str, str]]] = Counter()
    """How many reports came, by receiver and sender, of all brokers since a test cleared it."""

    def on_timer(self, detail: str) -> None:
        match detail.split():
            case ["open", kind, peer, *addresses]:
                self.view.open_link(peer, "".join(addresses) or f"at {peer}", LinkKind(kind))
            case ["close", peer]:
                self.view.close_link(peer, "the test wants so")
            case ["part", peer]:
                self.view.close_link(peer, "the test parts them", for_good=True)
            case _:
                raise AssertionError(detail)

    def on_link_up(self, link: str) -> None:
        if self.view.kind(link) is not LinkKind.PRIMARY:
            self.view.send(link, LoadReport((Load(self.view.broker, 1, 0, 0.0, 0.0, 0.0, 0, 0.0),)))

    def on_message(self, link: str, message: Any) -> None:
        (load,) = message.loads
        assert load.broker == link
        self.heard[self.view.broker, link] += 1


def order(world: Any, broker: str, words: str) -> None:
    """Have a broker that is up carry out an order."""
    node = world.nodes[broker]
    if node.broker is not None:
        node.control(TimerFired(Timer(Rewiring.name, words)))
