"""Dials the neighbours in the settings, each until it answers and again when it is lost.

It decides when a neighbour is dialled, and how long to wait between attempts: longer after each
failure, longest where the neighbour refuses. What a connection is for is decided elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

from byway.model.addresses import Neighbour
from byway.runtime.acceptance import Acceptance
from byway.runtime.neighbour_links import NeighbourLinks
from byway.runtime.settings import Limits
from byway.transport.connection import Connection
from byway.transport.os_words import os_reason

log = logging.getLogger("byway.broker")


class Dialler:
    """One task for each neighbour in the settings."""

    def __init__(
        self,
        limits: Limits,
        links: NeighbourLinks,
        acceptance: Acceptance,
        unidentified: dict[Connection, None],
        new_connection: Callable[[], Connection],
    ) -> None:
        self.limits = limits
        self._links = links
        self._acceptance = acceptance
        self._unidentified = unidentified
        self._new_connection = new_connection
        self._tasks: dict[Neighbour, asyncio.Task[None]] = {}

    def dial(self, neighbours: tuple[Neighbour, ...]) -> None:
        """Dial these from now on, and no others. A connection that exists stays."""
        for neighbour in [n for n in self._tasks if n not in neighbours]:
            self._tasks.pop(neighbour).cancel()
        for neighbour in neighbours:
            if neighbour not in self._tasks:
                self._tasks[neighbour] = asyncio.create_task(self._dial_forever(neighbour))

    async def stop(self) -> None:
        """Dial nobody any more."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _dial_forever(self, neighbour: Neighbour) -> None:
        """Connect whenever the neighbour is not connected."""
        delay_s = self.limits.retry_ms / 1e3
        refused = reported = False
        while True:
            limits = self.limits
            if self._acceptance.known_as(neighbour) not in self._links.connections:
                connection = self._new_connection()
                connection.expects = neighbour.id
                error = await self._connect(connection, neighbour)
                if error is not None:
                    level = logging.DEBUG if reported else logging.INFO
                    log.log(level, "cannot reach %s, trying on: %s", neighbour, os_reason(error))
                    reported = True
                elif connection.was_up and not connection.was_cut:
                    delay_s, reported = limits.retry_ms / 1e3, False
                is_useless = connection.was_cut or not connection.was_up
                refused = is_useless and bool(connection.peer is not None or connection.refusal)
            await asyncio.sleep(delay_s * random.uniform(0.5, 1.0))
            longest_ms = limits.refused_ms_max if refused else limits.retry_ms_max
            delay_s = min(2 * delay_s, longest_ms / 1e3)

    async def _connect(self, connection: Connection, neighbour: Neighbour) -> OSError | None:
        """Connect, and wait until the connection is lost; the error if there was none."""
        loop = asyncio.get_running_loop()
        connection.when_lost = lost = loop.create_future()
        self._unidentified[connection] = None  # it may be greeted, or lost, before this resumes
        self._links.dialled[connection] = neighbour
        host, port = neighbour.address.host, neighbour.address.port
        try:
            await loop.create_connection(lambda: connection, host, port)
            await lost
        except OSError as error:
            self._unidentified.pop(connection, None)
            del self._links.dialled[connection]
            return error
        del self._links.dialled[connection]
        return None
