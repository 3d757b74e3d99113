"""Drives one broker: gathers inputs, hands them in together, keeps them if there is a place to, and
has done what the broker says.

It decides when the broker works and on how much at a time: control before data, data only while
there is room for its copies, a turn for everyone. If the broker raises it goes on with one that was
made again (`recovery`). It opens no connection itself.
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
from byway.storage.recovery import InputJournal, recognise, recover
from byway.storage.set_aside import SetAsideFiles, SetAsideInput

log = logging.getLogger("byway.driver")

TURN_MESSAGES: Final = 1_024
"""Data messages taken in one turn, and what requests may cost in it; then connections are
served."""


class ActionPerformer(Protocol):
    """Whoever has connections and does what the broker says."""

    def send(self, link: str, frame: Frame) -> None:
        """Send a frame to a neighbour, if it is connected."""

    def tell(self, client: str, replies: tuple[Reply, ...]) -> None:
        """Tell a client, if it is connected."""

    def open_link(self, link: str) -> None:
        """Try to reach a neighbour."""

    def close_link(self, link: str, reason: str) -> None:
        """Drop a neighbour's connection."""

    def taken_from(self, client: str) -> None:
        """Some of what a client asked for was handed in."""

    def close_client(self, client: str, reason: str) -> None:
        """Drop a client's connection; it may come back."""


class Driver:
    """One broker at work in an event loop."""

    def __init__(
        self, broker: Broker, hands: ActionPerformer, journal: InputJournal | None = None
    ) -> None:
        self.broker = broker
        self.turns = 0
        self.busy_ns = 0
        """Time spent in the broker."""
        self.holding = False
        """No publications are taken: someone is too slow, and must not lose anything."""
        self.draining = False
        """No publications are taken any more: the broker is about to stop."""
        self.before_acting: Callable[[], None] | None = None
        """Called after the broker has taken inputs, before anything is done about them."""
        self._hands = hands
        self._journal = journal
        self.aside = None if journal is None else journal.aside
        """Inputs that could not be handled, if there is a place to set them aside."""
        self._loop = asyncio.get_running_loop()
        self._control: list[Input] = []
        self._data: dict[str, deque[FrameReceived]] = {}
        """By neighbour, data frames that wait for their turn."""
        self.requests = RequestQueues()
        """What clients ask for and is not handed in yet."""
        self.deaf: Container[str] = ()
        """Clients that do not read their answers: nothing that they ask for is handed in."""
        self._waiting = 0
        """Messages of data frames that wait."""
        self._scheduled = self._stopped = False
        self.broken: BrokenError | None = None
        """Why the broker does nothing any more, if it cannot go on."""
        self._timers: dict[Timer, asyncio.TimerHandle] = {}
        self._doers: dict[type, Callable[[Any], None]] = {
            Send: lambda action: hands.send(action.link, action.frame),
            SendReply: lambda action: hands.tell(action.client, action.replies),
            SetTimer: self._set_timer,
            CancelTimer: self._cancel_timer,
            OpenLink: lambda action: hands.open_link(action.link),
            CloseLink: lambda action: hands.close_link(action.link, action.reason),
        }

    @property
    def waiting(self) -> int:
        """Messages that wait for their turn."""
        return self._waiting + self.requests.count + len(self._control)

    @property
    def has_control(self) -> bool:
        """Whether something waits that is taken though the broker is about to stop."""
        return bool(self._control) or self.requests.has_overtaking

    def waiting_from(self, client: str) -> tuple[int, int]:
        """Requests of a client that wait for their turn, and the bytes of their frames."""
        return self.requests.waiting_from(client)

    # --- inputs --------------------------------------------------------------------------------

    def control(self, event: Input) -> None:
        """Something that never waits behind publications."""
        self._control.append(event)
        self._schedule()

    def now(self, *events: Input) -> None:
        """Something that must have happened when this returns. What came before it goes first."""
        self._handle([*self._take_control(), *events])

    def data(self, link: str, event: FrameReceived, messages: int) -> None:
        """A data frame of a neighbour."""
        self._data.setdefault(link, deque()).append(event)
        self._waiting += messages
        self._schedule()

    def request(self, client: str, requests: tuple[Request, ...], bytes: int = 0) -> None:
        """Requests of a client, and the bytes of their frame. They keep their order, but for what
        may overtake publications."""
        self.requests.put(client, requests, bytes)
        self._schedule()

    def forget_link(self, link: str) -> None:
        """A connection is gone: frames of it must not come after a new one has begun."""
        for event in self._data.pop(link, ()):
            self._waiting -= len(event.frame.messages)  # type: ignore[union-attr]
        self._control = [
            e for e in self._control if not (isinstance(e, FrameReceived) and e.link == link)
        ]

    def forget_client(self, client: str) -> None:
        """A client's connection is gone."""
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
        """Publications are taken again."""
        self.holding = False
        self._schedule()

    def wake(self) -> None:
        """A client reads its answers again."""
        self._schedule()

    def _take_control(self) -> list[Input]:
        events, self._control = self._control, []
        return events

    def _take_data(self) -> list[Input]:
        """What may be read now, a share from everyone."""
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
            self._hands.taken_from(client)
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
        if self.aside is not None and self.aside.entries:
            self._recognise(self.aside, events)
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

    def _recognise(self, aside: SetAsideFiles, events: list[Input]) -> None:
        """Hand in what was not set aside before."""
        known = recognise(aside, events)
        if known.events:
            self._hand_in(known.events)
        for entry in known.done:
            if entry.digest in aside.entries:
                aside.remove(entry.digest)
        for entry in known.again:
            aside.bar(entry)
            self._close(entry, "it was set aside before, and an operator has to give it up")

    def _close(self, entry: SetAsideInput, reason: str) -> None:
        """Whoever sent something that raises is closed, and may come back."""
        words = f"{entry.what}: {reason} ({entry.digest})"
        if entry.role == "link":
            self.forget_link(entry.name)
            self._handle([LinkDown(entry.name)])
            self._hands.close_link(entry.name, words)
        elif entry.role == "client":
            self.forget_client(entry.name)
            self._hands.close_client(entry.name, words)

    def bars(self, role: str, name: str) -> str:
        """Why a `link` or `client` must stay out until an operator has given something up, or
        nothing."""
        return "" if self.aside is None else self.aside.bars(role, name)

    def discard(self, which: str) -> list[str]:
        """An operator's command: give up an input that was set aside, by its digest (or the
        beginning of it), or `all` of them. What is lost by that, one line each; none if nothing is
        set aside under that name.

        Whoever sent it may come back at once. A message or request that comes again counts as
        handled then: of a neighbour it is acknowledged and confirmed, a client is told that it is
        refused. Nothing else follows from it, here or further on. Raises `StorageError`.
        """
        if self.aside is None:
            return []
        try:
            chosen = self.aside.discard(which)
        except OSError as error:
            reason = f"cannot be written to: {error.strerror}"
            raise StorageError(self.aside.directory, reason) from error
        for entry in chosen:
            log.warning("given up, and lost: %s", entry.words)
        return [entry.words for entry in chosen]

    def do(self, actions: list[Action]) -> None:
        """Have actions done, in their order."""
        doers = self._doers
        for action in actions:
            doers[type(action)](action)

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
        """Nothing happens to the broker any more."""
        self._stopped = True
        for handle in self._timers.values():
            handle.cancel()
        self._timers.clear()
