"""Drives one broker: collects inputs, keeps them in the journal if there is one, hands them to the
broker in turns, and has its actions performed.

This module decides when the broker works; `inbox` decides on what and on how much at a time. If the
broker raises, it continues with one that was rebuilt (`recovery`). It opens no connection itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import monotonic_ns
from typing import Any, Protocol

from byway.clock import now_us
from byway.core.actions import (
    Action,
    CancelTimer,
    CloseLink,
    OpenLink,
    Send,
    SendReply,
    SetTimer,
    Timer,
)
from byway.core.broker import Broker
from byway.core.inputs import ClientAttached, ClientDetached, Input, LinkDown, TimerFired
from byway.inbox import Inbox, TurnTimes
from byway.model.errors import BrokenError, StorageError
from byway.model.messages import Frame, Reply, Request
from byway.storage.input_recovery import InputJournal, recognise, recover
from byway.storage.set_aside import SetAsideFiles, SetAsideInput

log = logging.getLogger("byway.driver")


class ActionPerformer(Protocol):
    """Performs the broker's actions over connections; `BrokerServer` is the real one."""

    def send(self, link: str, frame: Frame) -> None:
        """Send a frame to a neighbour, if it is connected."""

    def tell(self, client: str, replies: tuple[Reply, ...]) -> None:
        """Send replies to a client, if it is connected."""

    def open_link(self, action: OpenLink) -> None:
        """Begin to connect to a broker."""

    def close_link(self, action: CloseLink) -> None:
        """Close the connection to a broker."""

    def requests_taken(self) -> None:
        """Some requests of clients were handed to the broker."""

    def close_client(self, client: str, reason: str) -> None:
        """Close a client's connection; it may reconnect."""


class Driver:
    """One broker at work in an event loop."""

    def __init__(
        self, broker: Broker, performer: ActionPerformer, journal: InputJournal | None = None
    ) -> None:
        self.broker = broker
        self.turns = 0
        self.busy_ns = 0
        """Time spent in the broker's handler."""
        self.inbox = Inbox()
        """The inputs that were not handed to the broker yet."""
        self.turn_times = TurnTimes()
        """How long messages wait in the inbox, and the broker takes for one."""
        self.before_acting: Callable[[], None] | None = None
        """Called after the broker has handled inputs, before its actions are performed."""
        self.after_turn: Callable[[], None] | None = None
        """Called after each turn."""
        self._performer = performer
        self._journal = journal
        self.set_aside = None if journal is None else journal.set_aside
        """Inputs that raised and were set aside; None without a journal."""
        self._loop = asyncio.get_running_loop()
        self._scheduled = self._stopped = False
        self.broken: BrokenError | None = None
        """Why the broker has stopped working, if it has."""
        self._timers: dict[Timer, asyncio.TimerHandle] = {}
        self._performers: dict[type, Callable[[Any], None]] = {
            Send: lambda action: performer.send(action.link, action.frame),
            SendReply: lambda action: performer.tell(action.client, action.replies),
            SetTimer: self._set_timer,
            CancelTimer: self._cancel_timer,
            OpenLink: lambda action: performer.open_link(action),
            CloseLink: lambda action: performer.close_link(action),
        }

    # --- inputs --------------------------------------------------------------------------------

    def control(self, event: Input) -> None:
        """Queue an input that never waits behind publications."""
        self.inbox.put_control(event)
        self.wake()

    def now(self, *events: Input) -> None:
        """Handle inputs before this returns, after the control inputs that wait."""
        self._handle([*self.inbox.take_control(), *events])
        if self.inbox:
            self.wake()  # the broker may have room for data now

    def frame(self, link: str, frame: Frame) -> None:
        """Queue a frame of a neighbour."""
        self.inbox.put_frame(link, frame)
        self.wake()

    def request(self, client: str, requests: tuple[Request, ...], bytes: int = 0) -> None:
        """Queue the requests in a client's frame of so many bytes. They keep their order, except
        for those that may overtake publications."""
        self.inbox.put_requests(client, requests, bytes)
        self.wake()

    def attach(self, event: ClientAttached) -> None:
        """Attach a client, after all that waits of it since an earlier connection."""
        self._attachment(event)

    def goodbye(self, client: str) -> None:
        """End the session of a client that said goodbye for good, after the requests that it sent
        before."""
        self._attachment(ClientDetached(client, for_good=True))

    def _attachment(self, event: ClientAttached | ClientDetached) -> None:
        if self.inbox.requests.has(event.client):
            self.inbox.put_attachment(event)
            self.wake()
        else:
            self.now(event)

    def detach(self, client: str, for_good: bool = False) -> None:
        """Detach a client now, and drop the requests that came over its connection. `for_good`: its
        session ends."""
        if self.inbox.drop_connection(client):
            self.now(ClientDetached(client, for_good))

    def expel(self, client: str) -> None:
        """Detach a client now, and drop all its requests, even of an earlier connection."""
        self.now(ClientDetached(client, for_good=self.inbox.drop_client(client)))

    # --- work ----------------------------------------------------------------------------------

    def wake(self) -> None:
        """Have a turn soon: something waits, or may be handled now that could not before."""
        if not self._scheduled:
            self._scheduled = True
            self.turn_times.woken(monotonic_ns() // 1_000)
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        requests, waiting = self.inbox.requests.count, self.inbox.waiting
        events = self.inbox.take(self.broker)
        self.turn_times.turn(monotonic_ns() // 1_000, waiting, self.inbox.waiting)
        if events:
            if self.inbox.requests.count < requests:
                self._performer.requests_taken()
            self._handle(events)
            self.turns += 1
            if self.after_turn is not None:
                self.after_turn()
            if self.inbox:
                self.wake()

    def _handle(self, events: list[Input]) -> None:
        if not events or self._stopped:
            return
        if self.set_aside is not None and self.set_aside.entries:
            self._recognise(self.set_aside, events)
        else:
            self._hand_in(events)

    def _hand_in(self, events: list[Input]) -> None:
        at_us = now_us()
        raised: list[SetAsideInput] = []
        try:
            if self._journal is not None:
                self._journal.keep(at_us, events)
            began_ns = monotonic_ns()
            actions = self.broker.handle_batch(at_us, events)
            worked_ns = monotonic_ns() - began_ns
            self.busy_ns += worked_ns
            self.turn_times.worked(worked_ns // 1_000)
        except StorageError:
            self.stop()
            raise
        except Exception as error:
            try:
                recovered = recover(self._journal, self.broker, at_us, events, error)
            except BrokenError as broken:
                self.broken = broken
                self.stop()
                raise
            self.broker, actions, raised = recovered
        if self.before_acting is not None:
            self.before_acting()
        self.do(actions)
        for entry in raised:
            self._close(entry, "it cannot be handled here and was set aside")

    def _recognise(self, files: SetAsideFiles, events: list[Input]) -> None:
        """Handle inputs, except those that were set aside before."""
        known = recognise(files, events)
        if known.events:
            self._hand_in(known.events)
        for entry in known.done:
            if entry.digest in files.entries:
                files.remove(entry.digest)
        for entry in known.again:
            files.bar(entry)
            self._close(entry, "it was set aside before, and an operator has to discard it")

    def _close(self, entry: SetAsideInput, reason: str) -> None:
        """Close the connection of the sender of an input that raised; it may reconnect."""
        words = f"{entry.what}: {reason} ({entry.digest})"
        if entry.role == "link":
            self.inbox.drop_link(entry.name)
            self._handle([LinkDown(entry.name)])
            self._performer.close_link(CloseLink(entry.name, words, fault=True))
        elif entry.role == "client":
            self._performer.close_client(entry.name, words)

    def bars(self, role: str, name: str) -> str:
        """Why a `link` or `client` is refused until an operator discards an input of it; empty if
        it is not."""
        return "" if self.set_aside is None else self.set_aside.bars(role, name)

    def discard(self, which: str) -> list[str]:
        """An operator's command: discard the input set aside whose digest begins with `which`, or
        `all` of them. One line for each input lost; empty if there is no such input.

        The sender may reconnect at once. A message or request that comes again counts as handled
        then: a neighbour's is acknowledged and confirmed, a client's is refused. It has no other
        effect, here or at another broker. Raises `StorageError`.
        """
        if self.set_aside is None:
            return []
        try:
            chosen = self.set_aside.discard(which)
        except OSError as error:
            reason = f"cannot be written to: {error.strerror}"
            raise StorageError(self.set_aside.directory, reason) from error
        for entry in chosen:
            log.warning("discarded, and lost: %s", entry.words)
        return [entry.words for entry in chosen]

    def do(self, actions: list[Action]) -> None:
        """Perform actions, in their order."""
        performers = self._performers
        for action in actions:
            performers[type(action)](action)

    # --- timers --------------------------------------------------------------------------------

    def _set_timer(self, action: SetTimer) -> None:
        self._cancel_timer(action)
        delay_s = max(action.at_us - now_us(), 0) / 1e6
        timer = action.timer
        self._timers[timer] = self._loop.call_later(delay_s, self._fire, timer)

    def _cancel_timer(self, action: SetTimer | CancelTimer) -> None:
        handle = self._timers.pop(action.timer, None)
        if handle is not None:
            handle.cancel()

    def _fire(self, timer: Timer) -> None:
        del self._timers[timer]
        self.control(TimerFired(timer))

    def stop(self) -> None:
        """Handle no more inputs, and cancel all timers."""
        self._stopped = True
        for handle in self._timers.values():
            handle.cancel()
        self._timers.clear()
