"""Broker processes that open and close links when a test says so.

`ORDERED` is the program of such a process: the ordinary one, with the behaviour `Rewiring`, whose
timers are its orders, in words. A test writes orders into a file of the broker, one on a line
(`order`); the process fires the timer. So an order is an input like any other: it is kept in the
journal.

    open soft B3 127.0.0.1:7003     dial B3 there for a soft link; also opening and primary
    close B3                        close the link to B3
    part B3                         close it for good
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from byway.core.actions import Timer
from byway.core.inputs import TimerFired
from tests.integration.processes import PROGRAM, BrokerProcess
from tests.sim.rewiring import Rewiring

DIRECTORY = "TEST_ORDERS"
"""The variable with the directory of the files with orders."""
ORDERED = f"from tests.integration.ordered import obey\nobey()\n{PROGRAM}"
SETTINGS = ("--set", f"core.behaviours={Rewiring.name}")


def obey() -> None:
    """Have the broker of this process obey orders, from the end of its file on."""
    from byway.runtime.server import BrokerServer

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
                server.driver.control(TimerFired(Timer(Rewiring.name, order)))


def _path(broker: str) -> Path:
    return Path(os.environ[DIRECTORY]) / f"{broker}.orders"


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def order(broker: BrokerProcess, words: str) -> None:
    """Have a broker process carry out an order."""
    name = broker.arguments[broker.arguments.index("--id") + 1]
    with _path(name).open("a") as file:
        file.write(f"{words}\n")
