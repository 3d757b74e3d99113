"""Makes `layout-N`: what broker B of this program leaves, N being the present snapshot layout.

    PYTHONPATH=src:. python testdata/state/make.py testdata/state

Broker B between A and C, under `incremental`: an advertisement of A, clients `here` (attached) and
`away` (its session is kept, with deliveries in it), subscriptions of both and of C, one that `here`
took back and that is preserved at A, publications of A that C has not confirmed, and some of client
`here` too. D became a neighbour while B ran, and said where it can be dialled; S has a soft link,
O one that is opening, and F was a neighbour and is none any more. `stopped` ended cleanly. `killed`
did not: its state is that of the start, and a journal of inputs follows. `facts.json` says what
either must give back. The same program makes the same bytes.
"""

import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from byway._version import __version__
from byway.core import snapshot
from byway.core.actions import Action
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import ClientDetached, Input, LinkUp, NeighbourAdded, Started
from byway.core.placeholders import by_link, placeholders
from byway.model import parse
from byway.model.addresses import Address, Neighbour
from byway.model.messages import (
    AdvertiseRequest,
    DeliveriesReceived,
    Disconnect,
    Hello,
    LinkKind,
    SubscribeRequest,
    SubscriptionsSettled,
    Unsubscribe,
    UnsubscribeRequest,
)
from byway.storage import file_system
from byway.storage.storage import Storage
from tests.lone_broker import Lone, advertise, entry, publication, publish, subscribe

NEIGHBOURS = (
    Neighbour(Address("127.0.0.1", 7001), "A"),
    Neighbour(Address("127.0.0.1", 7003), "C"),
)
CONFIG = BrokerConfig(covering="incremental", incremental_bursts=(1, 5_000), pruning_samples_min=2)
SESSION_US = 3_600_000_000
BEGAN_US = 1_700_000_000_000_000


class Kept(Lone):
    """Broker B, which keeps its state."""

    def __init__(self, directory: Path) -> None:
        self.storage = Storage(str(directory), "power")
        self.broker = self.storage.restore(BEGAN_US, "B", CONFIG, NEIGHBOURS)
        self.trace = None
        self.now_us = BEGAN_US
        self.sent = {"A": [0, 0], "C": [0, 0]}

    def handle(self, *events: Input) -> list[Action]:
        self.now_us += 1_000
        self.storage.keep(self.now_us, list(events))
        return super().handle(*events)

    def settle(self) -> None:
        sent = [e.id for e in self.broker.subscriptions if "A" in e.awaiting]
        self.receive("A", SubscriptionsSettled(tuple(sent)))

    def greeted(self, link: str, kind: LinkKind, **fields: Any) -> None:
        self.sent[link] = [0, 0]
        self.handle(LinkUp(link, Hello(link, 1, 0, 0, 0, 0, kind=kind, **fields)))


def live(kept: Kept) -> None:
    kept.handle(Started())
    kept.agree("A")
    kept.agree("C")
    kept.receive("A", advertise("a"))
    kept.attach("here", ttl_us=SESSION_US)
    kept.attach("away", ttl_us=SESSION_US)
    kept.ask(
        "here", AdvertiseRequest("mine", parse("x > 0")), SubscribeRequest("s", parse("p > 0"))
    )
    kept.ask("away", SubscribeRequest("t", parse("p > 3 AND q > 3")))
    kept.receive("C", subscribe("c", "p > 5"), subscribe("x", "x > 1"))
    kept.settle()
    for sequence in range(1, 6):
        kept.receive("A", publication(sequence, p=7, q=7))
    kept.acknowledge("C", 2)
    kept.ask("here", DeliveriesReceived(3))
    kept.handle(ClientDetached("away"))
    kept.receive("A", publication(6, p=8, q=8))
    kept.ask("here", publish(1, x=5), publish(2, x=6), publish(3, x=1))
    kept.ask("here", UnsubscribeRequest(("s",)))
    kept.ask("here", SubscribeRequest("u", parse("p > 6")))
    kept.receive("C", Unsubscribe((entry("x"),)))
    gain_and_lose_links(kept)


def gain_and_lose_links(kept: Kept) -> None:
    kept.handle(NeighbourAdded("F"))
    kept.agree("F")
    kept.receive("F", Disconnect("F has another place", for_good=True))
    kept.handle(NeighbourAdded("D"))
    kept.greeted("D", LinkKind.PRIMARY, learnt=True, address="127.0.0.1:7004")
    kept.greeted("S", LinkKind.SOFT, address="127.0.0.1:7005")
    kept.receive("S", publication(7, p=9, q=9))
    kept.greeted("O", LinkKind.OPENING, address="127.0.0.1:7006")


def facts(broker: Broker) -> dict[str, Any]:
    """What anyone can check of a broker. Older directories have a part of it."""
    links = broker.links.items()
    return {
        "incarnation": broker.incarnation,
        "links": sorted(broker.neighbours),
        "advertisements": sorted(f"{e.id.client}/{e.id.name}" for e in broker.advertisements),
        "subscriptions": sorted(f"{e.id.client}/{e.id.name}" for e in broker.subscriptions),
        "preserved": dict(by_link(placeholders(broker)[0])),
        "unconfirmed": {name: link.unconfirmed for name, link in links},
        "received": {name: list(link.received) for name, link in links},
        "kept": {
            name: [delivery.publication.sequence for delivery in broker.kept_deliveries(name)]
            for name in broker.sessions
        },
        "published": {name: session.sequence for name, session in broker.sessions.items()},
        "kinds": {name: link.kind.value for name, link in links},
        "addresses": {name: link.address for name, link in links if link.address},
        "dialled": sorted(name for name, _ in links if broker.dials(name)),
        "former": dict(broker.former),
    }


@contextmanager
def no_boot_id() -> Iterator[None]:
    """The machine's boot id stays out of what is kept."""
    own = file_system._BOOT_ID
    file_system._BOOT_ID = Path("/nowhere")
    try:
        yield
    finally:
        file_system._BOOT_ID = own


def make(into: Path) -> Path:
    """Make the directory of the present layout; its path."""
    directory = into / f"layout-{snapshot.VERSION}"
    shutil.rmtree(directory, ignore_errors=True)
    told: dict[str, Any] = {"version": __version__}
    for name in ("stopped", "killed"):
        with no_boot_id():
            kept = Kept(directory / name)
            live(kept)
            told[name] = facts(kept.broker)
            if name == "stopped":
                kept.storage.stop()
            else:
                kept.storage.abandon()
        (directory / name / "lock").unlink(missing_ok=True)
    (directory / "facts.json").write_text(json.dumps(told, indent=1) + "\n")
    return directory


if __name__ == "__main__":
    make(Path(sys.argv[1]))
