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
from typing import Any

from byway.core.actions import Action, SetTimer
from byway.core.inputs import ClientAttached, Input
from byway.model.errors import StorageError
from byway.sim.engine.node_storage import NodeStorage, StorageOptions
from byway.sim.engine.nodes import Node, Read, Watched
from byway.sim.engine.simulated_files import SimulatedCrashError

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
    ) -> None:
        """`rng` decides what a crash leaves on the disk."""
        super().__init__(*node)
        later = partial(self._write_later, options.snapshot_us)
        self.disk = NodeStorage(self.name, rng, options, later)
        self.has_unanswered = False
        """Whether the last process kept inputs at its end that it had not handled."""
        self._died = died

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

    # --- the server ----------------------------------------------------------------------------

    def _keep(self, events: list[Input], watched: Watched, read: Read | None) -> bool:
        try:
            self.disk.keep(self._clock.now_us, events)
        except (StorageError, SimulatedCrashError) as error:
            self._die(_reason(error), partial(self._end_within, events, watched, read))
            return False
        return True

    def _end_within(self, events: list[Input], watched: Watched, read: Read | None) -> None:
        """The process has ended while it was about to keep these inputs. If they are on the disk
        all the same, they count as read, because the next process handles them."""
        if not self.disk.has(self._clock.now_us, events):
            return
        self.has_unanswered = True
        self._report_read(watched, read)
        self._report_handled(watched)
        for event, watch in watched:
            if type(event) is ClientAttached and watch is not None:
                watch.on_attached_unheard()

    def _die(self, reason: str, ended: Callable[[], None] | None = None) -> None:
        """The process has ended; `ended` looks at what it left on the disk."""
        self.disk.crash()
        if ended is not None:
            ended()
        self._died(self.name, reason)

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


def _reason(error: BaseException) -> str:
    return str(error) if isinstance(error, StorageError) else ""
