"""Drives one broker: collects inputs, keeps them in the journal if there is one, hands them to the
broker in turns, and has its actions performed.

This module decides when the broker works and on how much at a time: control before data, data only
while the broker has room for the copies, a share for every neighbour and client. If the broker
raises, it continues with one that was rebuilt (`recovery`). It opens no connection itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Container
from time import monotonic_ns
from typing import Any, Final, Protocol

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
from byway.core.inputs import FrameReceived, Input, LinkDown, TimerFired
from byway.model.errors import BrokenError, StorageError
from byway.model.messages import Frame, Reply, Request
from byway.runtime.requests import RequestQueues
from byway.storage.input_recovery import InputJournal, recognise, recover
from byway.storage.set_aside import SetAsideFiles, SetAsideInput

log = logging.getLogger("byway.driver")

TURN_MESSAGES: Final = 1_024
"""Data messages handled in one turn, and the cost of the requests handled in it; then connections
are served."""


class ActionPerformer(Protocol):
    """Performs the broker's actions over connections; `BrokerServer` is the real one."""

    def send(self, link: str, frame: Frame) -> None:
        """Send a frame to a neighbour, if it is connected."""

    def tell(self, client: str, replies: tuple[Reply, ...]) -> None:
        """Send replies to a client, if it is connected."""

    def open_link(self, link: str) -> None:
        """Begin to connect to a neighbour."""

    def close_link(self, link: str, reason: str) -> None:
        """Close a neighbour's connection."""

    def taken_from(self, client: str) -> None:
        """Some requests of a client were handed to the broker."""

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
        self.holding = False
        """Whether publications wait because a client is slow and must lose nothing."""
        self.draining = False
        """Whether no publications are handled because the broker is about to stop."""
        self.before_acting: Callable[[], None] | None = None
        """Called after the broker has handled inputs, before its actions are performed."""
        self._performer = performer
        self._journal = journal
        self.set_aside = None if journal is None else journal.set_aside
        """Inputs that raised and were set aside; None without a journal."""
        self._loop = asyncio.get_running_loop()
        self._control: list[Input] = []
        self._data: dict[str, deque[FrameReceived]] = {}
        """By neighbour, data frames that were not handed to the broker yet."""
        self.requests = RequestQueues()
        """Requests of clients that were not handed to the broker yet."""
        self.deaf: Container[str] = ()
        """Clients that do not read their answers; their requests wait."""
        self._waiting = 0
        """Number of messages in the data frames that wait."""
        self._scheduled = self._stopped = False
        self.broken: BrokenError | None = None
        """Why the broker has stopped working, if it has."""
        self._timers: dict[Timer, asyncio.TimerHandle] = {}
        self._performers: dict[type, Callable[[Any], None]] = {
            Send: lambda action: performer.send(action.link, action.frame),
            SendReply: lambda action: performer.tell(action.client, action.replies),
            SetTimer: self._set_timer,
            CancelTimer: self._cancel_timer,
            OpenLink: lambda action: performer.open_link(action.link),
            CloseLink: lambda action: performer.close_link(action.link, action.reason),
        }

    @property
    def waiting(self) -> int:
        """Number of messages, requests and control inputs that wait for their turn."""
        return self._waiting + self.requests.count + len(self._control)

    @property
    def has_control(self) -> bool:
        """Whether an input waits that is handled even while the broker drains."""
        return bool(self._control) or self.requests.has_overtaking

    def waiting_from(self, client: str) -> tuple[int, int]:
        """Number of requests of a client that wait, and the bytes of their frames."""
        return self.requests.waiting_from(client)

    # --- inputs --------------------------------------------------------------------------------

    def control(self, event: Input) -> None:
        """Queue an input that never waits behind publications."""
        self._control.append(event)
        self._schedule()

    def now(self, *events: Input) -> None:
        """Handle inputs before this returns, after the control inputs that wait."""
        self._handle([*self._take_control(), *events])

    def data(self, link: str, event: FrameReceived, messages: int) -> None:
        """Queue a data frame of a neighbour."""
        self._data.setdefault(link, deque()).append(event)
        self._waiting += messages
        self._schedule()

    def request(self, client: str, requests: tuple[Request, ...], bytes: int = 0) -> None:
        """Queue the requests in a client's frame of so many bytes. They keep their order, except
        for those that may overtake publications."""
        self.requests.put(client, requests, bytes)
        self._schedule()

    def forget_link(self, link: str) -> None:
        """Drop the frames of a neighbour's lost connection, which must not be handled after those
        of a new one."""
        for event in self._data.pop(link, ()):
            self._waiting -= len(event.frame.messages)  # type: ignore[union-attr]
        self._control = [
            e for e in self._control if not (isinstance(e, FrameReceived) and e.link == link)
        ]

    def forget_client(self, client: str) -> None:
        """Drop the requests of a client whose connection was lost."""
        self.requests.drop(client)

    # --- work ----------------------------------------------------------------------------------

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        events = [*self._take_control(), *self._take_data()]
        if events:
            self._handle(events)
            self.turns += 1
            if self._waiting or self.requests:
                self._schedule()

    def resume(self) -> None:
        """Handle publications again."""
        self.holding = False
        self._schedule()

    def wake(self) -> None:
        """Handle the requests of a client that reads its answers again."""
        self._schedule()

    def _take_control(self) -> list[Input]:
        events, self._control = self._control, []
        return events

    def _take_data(self) -> list[Input]:
        """The data that may be handled now, a share of every neighbour and client."""
        if not self._waiting and not self.requests:
            return []
        if self.holding or self.draining:
            return self._take_requests(False)
        taken = self._take_requests(self.broker.reads_data_from(None))
        room = TURN_MESSAGES
        for link in list(self._data):
            if self.broker.reads_data_from(link):
                room -= self._take_frames(link, taken, room)
        return taken

    def _take_requests(self, reads: bool) -> list[Input]:
        if not self.requests:
            return []
        taken, clients = self.requests.take(TURN_MESSAGES, reads, self.deaf)
        for client in clients:
            self._performer.taken_from(client)
        return taken

    def _take_frames(self, link: str, taken: list[Input], room: int) -> int:
        queue, count = self._data[link], 0
        while queue and count < room:
            event = queue.popleft()
            taken.append(event)
            count += len(event.frame.messages)  # type: ignore[union-attr]
        if not queue:
            del self._data[link]
        else:
            self._data[link] = self._data.pop(link)
        self._waiting -= count
        return count

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
            self.busy_ns += monotonic_ns() - began_ns
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
            self.forget_link(entry.name)
            self._handle([LinkDown(entry.name)])
            self._performer.close_link(entry.name, words)
        elif entry.role == "client":
            self.forget_client(entry.name)
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
