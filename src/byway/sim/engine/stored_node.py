"""A node whose broker keeps its inputs on a disk, as a broker process does.

Inputs are kept before the broker handles them. If that fails, or the process ends within it, the
broker is gone: nothing more of it is performed. What it was about to read then counts as read if
the whole of it is on the disk, because the next process handles it. What a disk does is decided in
`node_storage`, when the broker is started again by the world.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from byway.core.actions import Action, SetTimer
from byway.core.clients import SESSION_TIMER
from byway.core.inputs import ClientAttached, ClientDetached, ClientRequested, Input, TimerFired
from byway.model.errors import StorageError
from byway.sim.engine.node_storage import NodeStorage, StorageOptions
from byway.sim.engine.nodes import Node, Read
from byway.sim.engine.simulated_files import SimulatedCrashError

if TYPE_CHECKING:
    from byway.sim.engine.client_wire import ClientWire

Death = Callable[[str, str], None]
"""Is called with a broker that has ended by itself, and the reason; empty if a crash was due."""


class StoredNode(Node):
    """One broker of a world that has a disk, up or down."""

    keeps_inputs = True

    def __init__(
        self,
        *node: Any,
        options: StorageOptions,
        rng: Random,
        died: Death,
        expired: Callable[[str], None],
    ) -> None:
        """`rng` decides what a crash leaves on the disk. `expired` is called with a client when the
        broker reads that the time of its session is over."""
        super().__init__(*node)
        later = partial(self._write_later, options.snapshot_us)
        self.disk = NodeStorage(self.name, rng, options, later)
        self.has_unanswered = False
        """Whether the last process kept inputs at its end that it had not handled."""
        self._died = died
        self._expired = expired

    # --- life ----------------------------------------------------------------------------------

    def _write_later(self, delay_us: int, write: Callable[[], None]) -> None:
        """Write a snapshot after a time, if this process lives then."""
        at_us = self._clock.now_us + delay_us
        self._clock.background_at(at_us, self._write_snapshot, (write, self.epoch))

    def _write_snapshot(self, what: tuple[Callable[[], None], int]) -> None:
        write, epoch = what
        if epoch == self.epoch and self.broker is not None:
            try:
                write()
            except SimulatedCrashError:
                self._die("")

    def handle_now(self, event: Input, read: Read | None = None) -> None:
        """Let the broker handle an input that does not queue, once it is kept."""
        assert self.broker is not None, f"{self.name} is down"
        if type(event) is TimerFired and event.timer.owner == SESSION_TIMER.owner:
            read = partial(self._expired, event.timer.detail)
        if self._keep([event], read):
            super().handle_now(event, read)

    def _keep(self, events: list[Input], read: Read | None) -> bool:
        """Keep inputs; False if the process has ended instead."""
        try:
            self.disk.keep(self._clock.now_us, events)
        except (StorageError, SimulatedCrashError) as error:
            self._die(_reason(error), events, read)
            return False
        return True

    def _die(
        self, reason: str, events: list[Input] | None = None, read: Read | None = None
    ) -> None:
        """The process has ended, while it was about to keep these inputs."""
        self.disk.crash()
        if events is not None and self.disk.has(self._clock.now_us, list(events)):
            self.has_unanswered = True
            if read is not None:
                read()
            for event in events:
                if type(event) is ClientAttached:
                    self.clients[event.client].watch.on_attached_unheard()
        self._died(self.name, reason)

    # --- the server ----------------------------------------------------------------------------

    def _work(self, events: list[Input]) -> None:
        """Let the broker handle a batch once it is kept, and perform its actions."""
        broker, epoch = self.broker, self.epoch
        assert broker is not None
        requested = [
            (event, self.clients[event.client])
            for event in events
            if isinstance(event, ClientRequested | ClientDetached)
        ]

        def read() -> None:
            for event, wire in requested:
                _report_read(event, wire)
            for event, wire in requested:
                self._report_done(event, wire)

        if not self._keep(events, read):
            return
        for event, wire in requested:
            _report_read(event, wire)
        self._perform(broker.handle_batch(self._clock.now_us, events))
        for event, wire in requested:
            if self.epoch != epoch or self.clients.get(event.client) is wire:
                self._report_done(event, wire)

    def _report_done(self, event: ClientRequested | ClientDetached, wire: ClientWire) -> None:
        if type(event) is ClientRequested:
            for request in event.requests:
                wire.watch.request_handled(request)
        else:
            self.clients.pop(event.client, None)
            wire.watch.lose_session()

    # --- actions -------------------------------------------------------------------------------

    def _perform(self, actions: Sequence[Action]) -> None:
        assert self.broker is not None
        try:
            self.disk.mark(self.broker)
        except (StorageError, SimulatedCrashError) as error:
            self._die(_reason(error))
            return
        super()._perform(actions)

    def _set_timer(self, action: SetTimer) -> None:
        if self.broker is not None:  # it may have ended among the actions before
            super()._set_timer(action)


def _report_read(event: ClientRequested | ClientDetached, wire: ClientWire) -> None:
    if type(event) is ClientRequested:
        for request in event.requests:
            wire.watch.request_read(request)


def _reason(error: BaseException) -> str:
    return str(error) if isinstance(error, StorageError) else ""
