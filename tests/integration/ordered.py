"""Broker processes that open and close links when a test says so.

`ORDERED` is the program of such a process: the ordinary one, with a behaviour whose timers are its
orders, in words. A test writes orders into a file of the broker, one on a line (`Orders`); the
process fires the timer. So an order is an input like any other: it is kept in the journal.

    open soft B3 127.0.0.1:7003     dial B3 there for a soft link; also opening and primary
    close B3                        close the link to B3
    part B3                         close it for good
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, ClassVar

from byway.core.actions import Timer
from byway.core.behaviours import Behaviour, register
from byway.core.inputs import TimerFired
from byway.model.messages import LinkKind, Load, LoadReport
from tests.integration.processes import PROGRAM, BrokerProcess

DIRECTORY = "TEST_ORDERS"
"""The variable with the directory of the files with orders."""
ORDERED = f"from tests.integration.ordered import obey\nobey()\n{PROGRAM}"
SETTINGS = ("--set", "core.behaviours=ordered")


class Ordered(Behaviour):
    """Does what its timers are called, and sends a report over a link outside the tree that comes
    up."""

    name: ClassVar[str] = "ordered"
    messages_outside_tree: ClassVar[tuple[type, ...]] = (LoadReport,)

    def on_timer(self, detail: str) -> None:
        match detail.split():
            case ["open", kind, peer, address]:
                self.view.open_link(peer, address, LinkKind(kind))
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


def obey() -> None:
    """Have the broker of this process obey orders, from the end of its file on."""
    from byway.runtime.server import BrokerServer

    register(Ordered)
    start = BrokerServer.start

    async def start_and_obey(server: BrokerServer) -> None:
        await start(server)
        path = _path(server.settings.id)
        server._tasks.append(asyncio.create_task(_take_orders(server, path, _size(path))))

    BrokerServer.start = start_and_obey  # type: ignore[method-assign]


async def _take_orders(server: Any, path: Path, position: int) -> None:
    while True:
        await asyncio.sleep(0.005)
        if _size(path) > position:
            text = path.read_text()[position:]
            orders = text[: text.rfind("\n") + 1]
            position += len(orders)
            for order in orders.splitlines():
                server.driver.control(TimerFired(Timer(Ordered.name, order)))


def _path(broker: str) -> Path:
    return Path(os.environ[DIRECTORY]) / f"{broker}.orders"


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def order(broker: BrokerProcess, words: str) -> None:
    """Have a broker process carry out an order."""
    name = broker.arguments[broker.arguments.index("--id") + 1]
    with _path(name).open("a") as file:
        file.write(f"{words}\n")
