"""Made the directories `stopped` and `killed` beside it, with the program as it was at b438cdc
(version 0.3.0, snapshot layout 6, file layout of that version). It is kept to tell what is in them;
a later program writes another layout.

Broker B between A and C, under `incremental`: an advertisement of A, clients `here` (attached) and
`away` (its session is kept, with deliveries in it), subscriptions of both and of C, one that `here`
took back and that is preserved at A, publications of A that C has not confirmed, and some of client
`here` too. `stopped` ended cleanly. `killed` did not: its state is that of the start, and a journal
of inputs follows. `facts.json` tells what either must give back.

    PYTHONPATH=src:. python testdata/state/layout-6/make.py
"""

import json
import shutil
from pathlib import Path

from byway._version import __version__
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import ClientDetached, Started
from byway.core.placeholders import by_link, placeholders
from byway.model import parse
from byway.model.addresses import Address, Neighbour
from byway.model.messages import (
    AdvertiseRequest,
    DeliveriesReceived,
    SubscribeRequest,
    SubscriptionsSettled,
    Unsubscribe,
    UnsubscribeRequest,
)
from byway.storage import file_system, storage
from tests.lone_broker import Lone, advertise, entry, publication, publish, subscribe

HERE = Path(__file__).parent
NEIGHBOURS = (
    Neighbour(Address("127.0.0.1", 7001), "A"),
    Neighbour(Address("127.0.0.1", 7003), "C"),
)
CONFIG = BrokerConfig(covering="incremental", incremental_bursts=(1, 5_000), pruning_samples_min=2)
SESSION_US = 3_600_000_000
BEGAN_US = 1_700_000_000_000_000


class Kept(Lone):
    def __init__(self, directory: Path) -> None:
        self.storage = storage.Storage(str(directory), "power")
        self.broker = self.storage.restore(BEGAN_US, "B", CONFIG, NEIGHBOURS)
        self.now_us = BEGAN_US
        self.sent = {"A": [0, 0], "C": [0, 0]}

    def handle(self, *events):
        self.now_us += 1_000
        self.storage.keep(self.now_us, list(events))
        return super().handle(*events)

    def settle(self) -> None:
        sent = [e.id for e in self.broker.subscriptions if "A" in e.awaiting]
        self.receive("A", SubscriptionsSettled(tuple(sent)))


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


def facts(broker: Broker) -> dict[str, object]:
    """What anyone can check of a broker."""
    return {
        "incarnation": broker.incarnation,
        "links": sorted(broker.neighbours),
        "advertisements": sorted(f"{e.id.client}/{e.id.name}" for e in broker.advertisements),
        "subscriptions": sorted(f"{e.id.client}/{e.id.name}" for e in broker.subscriptions),
        "preserved": dict(by_link(placeholders(broker)[0])),
        "unconfirmed": {name: link.unconfirmed for name, link in broker.links.items()},
        "received": {name: list(link.received) for name, link in broker.links.items()},
        "kept": {
            name: [delivery.publication.sequence for delivery in broker.kept_deliveries(name)]
            for name in broker.sessions
        },
        "published": {name: session.sequence for name, session in broker.sessions.items()},
    }


def main() -> None:
    file_system._BOOT_ID = Path("/nowhere")
    told: dict[str, object] = {"version": __version__}
    for name in ("stopped", "killed"):
        shutil.rmtree(HERE / name, ignore_errors=True)
        kept = Kept(HERE / name)
        live(kept)
        told[name] = facts(kept.broker)
        if name == "stopped":
            kept.storage.stop()
        else:
            kept.storage.abandon()
        (HERE / name / "lock").unlink(missing_ok=True)
    (HERE / "facts.json").write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
