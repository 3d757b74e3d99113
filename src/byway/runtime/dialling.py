"""Dials other brokers, each until it answers and again when it is lost.

Who is dialled: the neighbours in the settings, but for those that the broker has parted with for
good, and brokers that it has a link to which was decided on while one of both ran; these at the
address that they said, if the settings allow it. This module decides when a broker is dialled, and
how long to wait between attempts: longer after each failure, longest where it refuses. What a
connection is for is decided elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable

from byway.model.addresses import Address, Neighbour
from byway.runtime.acceptance import Acceptance
from byway.runtime.dial_rules import dialled_address
from byway.runtime.neighbour_links import NeighbourLinks
from byway.runtime.settings import Limits
from byway.transport.connection import Connection
from byway.transport.os_words import os_reason

log = logging.getLogger("byway.broker")


class Dialler:
    """One task for each neighbour in the settings, and for each other link that is dialled."""

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
        self._listed: dict[Neighbour, asyncio.Task[None]] = {}
        self._opened: dict[str, asyncio.Task[None]] = {}
        """By broker that is dialled for a link that was decided on while one of both ran."""
        self._told: dict[str, str] = {}
        """By broker, why it was last told in the log that it is not dialled."""
        self._is_stopped = False

    def dial(self, neighbours: tuple[Neighbour, ...]) -> None:
        """Dial these from now on, and no others of the settings. A connection that exists stays."""
        for neighbour in [n for n in self._listed if n not in neighbours]:
            self._listed.pop(neighbour).cancel()
        for neighbour in neighbours:
            if neighbour not in self._listed:
                self._listed[neighbour] = asyncio.create_task(self._dial_listed(neighbour))

    def follow(self, name: str) -> None:
        """Dial a broker that may not be listed, or do not any more, as the broker here wants."""
        if not self._wants(name):
            self._told.pop(name, None)
            task = self._opened.pop(name, None)
            if task is not None:
                task.cancel()
        elif name not in self._opened and not self._is_stopped:
            self._opened[name] = asyncio.create_task(self._dial_opened(name))

    def follow_all(self) -> None:
        """The settings have changed: dial at once what they allow now."""
        for name in list(self._opened):
            self._opened.pop(name).cancel()
        self._told.clear()
        for name in self._links.broker.links:
            self.follow(name)

    async def stop(self) -> None:
        """Dial nobody any more."""
        self._is_stopped = True
        tasks = [*self._listed.values(), *self._opened.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # --- whom ---------------------------------------------------------------------------------

    def _wants(self, name: str) -> bool:
        """Whether a broker is dialled though it may not be listed. A neighbour that is listed is
        dialled where the settings say."""
        broker = self._links.broker
        is_listed = broker.is_neighbour(name) and self._acceptance.is_listed(name)
        return broker.dials(name) and not is_listed

    def _address(self, name: str) -> Address | None:
        """Where to dial a broker that is not listed; None if nobody knows, or it is not allowed:
        then the log says why, once."""
        link = self._links.broker.link(name)
        said = "" if link is None else link.address
        rules = self._acceptance.settings.dial_allow or ()
        address, reason = dialled_address(said, rules)
        if self._told.get(name, "") != reason:
            self._told[name] = reason
            if reason:
                log.info("%s is not dialled: %s", name, reason)
        return address

    def _is_kept_out(self, neighbour: Neighbour) -> bool:
        """Whether a listed neighbour is one that the broker has parted with for good; the log says
        so once. An operator who takes it off the list, and adds it later, has it dialled again."""
        name = self._acceptance.known_as(neighbour)
        reason = self._links.broker.former.get(name)
        if reason is None or neighbour in self._acceptance.added:
            self._told.pop(str(neighbour), None)
            return False
        if str(neighbour) not in self._told:
            self._told[str(neighbour)] = reason
            log.info("%s is listed and not dialled, for it parted for good: %s", neighbour, reason)
        return True

    # --- when ---------------------------------------------------------------------------------

    async def _dial_listed(self, neighbour: Neighbour) -> None:
        """Connect whenever a listed neighbour is not connected."""
        attempts = _Attempts(self)
        while True:
            name = self._acceptance.known_as(neighbour)
            if name not in self._links.connections and not self._is_kept_out(neighbour):
                await attempts.connect(neighbour.address, neighbour.id, neighbour)
            await attempts.wait()

    async def _dial_opened(self, name: str) -> None:
        """Connect whenever a broker is not connected, until the link is closed."""
        attempts = _Attempts(self)
        while self._wants(name):
            if name not in self._links.connections:
                address = self._address(name)
                if address is None:
                    attempts.refused = True
                else:
                    await attempts.connect(address, name, None)
            await attempts.wait()
        del self._opened[name]

    async def connect(
        self, connection: Connection, address: Address, listed: Neighbour | None
    ) -> OSError | None:
        """Connect, and wait until the connection is lost; the error if there was none."""
        loop = asyncio.get_running_loop()
        connection.when_lost = lost = loop.create_future()
        self._unidentified[connection] = None  # it may be greeted, or lost, before this resumes
        self._links.dialled[connection] = listed
        is_made = False
        try:
            await loop.create_connection(lambda: connection, address.host, address.port)
            is_made = True
            await lost
        except (OSError, UnicodeError) as error:  # a name may be none that can be looked up
            self._unidentified.pop(connection, None)
            return error if isinstance(error, OSError) else OSError(str(error))
        except asyncio.CancelledError:
            if not connection.was_up:
                self._unidentified.pop(connection, None)
                if is_made:  # else the event loop has closed it, and uvloop's takes no goodbye
                    connection.close("it is not dialled any more")
            raise
        finally:
            del self._links.dialled[connection]
        return None

    def new_connection(self) -> Connection:
        """A connection that is to be dialled."""
        return self._new_connection()


class _Attempts:
    """The attempts to connect to one broker: how the last one went, and when the next one is."""

    def __init__(self, dialler: Dialler) -> None:
        self._dialler = dialler
        self._delay_s = dialler.limits.retry_ms / 1e3
        self._reported = False
        self.refused = False
        """Whether the broker answers and refuses, or may not be dialled."""

    async def connect(self, address: Address, name: str, listed: Neighbour | None) -> None:
        """Connect, and wait until the connection is lost."""
        connection = self._dialler.new_connection()
        connection.expects = name
        error = await self._dialler.connect(connection, address, listed)
        if error is not None:
            level = logging.DEBUG if self._reported else logging.INFO
            who = listed or Neighbour(address, name)
            log.log(level, "cannot reach %s, trying on: %s", who, os_reason(error))
            self._reported = True
        elif connection.was_up and not connection.was_cut:
            self._delay_s, self._reported = self._dialler.limits.retry_ms / 1e3, False
        is_useless = connection.was_cut or not connection.was_up
        self.refused = is_useless and bool(connection.peer is not None or connection.refusal)

    async def wait(self) -> None:
        """Wait until the next attempt is due."""
        limits = self._dialler.limits
        await asyncio.sleep(self._delay_s * random.uniform(0.5, 1.0))
        longest_ms = limits.refused_ms_max if self.refused else limits.retry_ms_max
        self._delay_s = min(2 * self._delay_s, longest_ms / 1e3)
