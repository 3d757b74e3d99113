"""Drafts: a second routing beside the one in force, made in steps, and dropped or put in force.

A draft is copied a few entries at a time, on a timer, so that the broker is never busy with it for
long. It decides when a step is done; what a draft keeps is decided in `routing_copy`, what it is
for by whoever begins one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from byway.core.actions import SetTimer, Timer
from byway.core.context import Context
from byway.core.routing import Routing
from byway.core.routing_copy import RoutingCopy
from byway.core.routing_outlet import RoutingOutlet

TIMER: Final = Timer("draft")
DISSOLVED: Final = 5_000
"""Entries of a routing that was given up which are forgotten in one step."""


class Drafts:
    """The draft of one broker, if there is one."""

    def __init__(self, context: Context, outlet: RoutingOutlet) -> None:
        """`outlet` is the one of the routing in force."""
        self._context = context
        self._outlet = outlet
        self._copy: RoutingCopy | None = None
        self._on_complete: Callable[[Routing], None] | None = None
        self._on_released: Callable[[], None] | None = None
        self._given_up: list[Routing] = []
        """Routings that nobody uses any more."""

    def begin(
        self,
        outlet: RoutingOutlet,
        on_complete: Callable[[Routing], None],
        on_released: Callable[[], None],
        *,
        without: Iterable[str] = (),
        joining: Iterable[str] = (),
        leaving: Iterable[str] = (),
    ) -> None:
        """Begin to copy the routing in force: nothing that was learnt over links `without`, or sent
        there, and to a tree with the links that are `joining` and without those `leaving`.

        `on_complete` is called when the draft is complete. From then on it is `Context.draft`, no
        longer follows the routing in force, and has to be told of changes. `on_released` is called
        when it has forwarded, too, what entries that were left out had quenched.
        """
        assert self._copy is None, "there is a draft already"
        self._on_complete, self._on_released = on_complete, on_released
        self._copy = RoutingCopy(
            self._context.routing, outlet, without=without, joining=joining, leaving=leaving
        )
        self._go_on()

    def on_timer(self) -> None:
        """Do the next step, if there is one to do."""
        if self._given_up:
            if self._given_up[-1].dissolve(DISSOLVED):
                self._given_up.pop()
            if self.is_busy:
                self._go_on()
            return
        copy = self._copy
        if copy is None:
            return  # it was dropped, or the broker has restarted
        if not copy.is_done:
            if copy.step():
                self._context.draft = copy.draft
                assert self._on_complete is not None
                self._on_complete(copy.draft)
        elif copy.release():
            assert self._on_released is not None
            self._on_released()
            return
        if self._copy is copy:
            self._go_on()

    @property
    def is_busy(self) -> bool:
        """Whether there is a draft, or one to be forgotten."""
        return self._copy is not None or bool(self._given_up)

    def _go_on(self) -> None:
        self._context.out.do(SetTimer(TIMER, self._context.now_us))

    def drop(self) -> None:
        """Give the draft up, complete or not; the routing in force is as if there had been none."""
        if self._copy is not None:
            self._copy.abandon()
            self._forget(self._copy.draft)

    def put_in_force(self) -> None:
        """Let the draft, which is complete and released, take the place of the routing in force."""
        draft, old = self._context.draft, self._context.routing
        assert draft is not None, "there is no draft"
        self._forget(old)
        self._context.routing = draft
        draft.put_in_force(self._outlet)
        hooks = self._context.hooks
        hooks.unwatch(old)
        hooks.watch(draft)
        for hook in hooks.on_tables_replaced:
            hook()

    def _forget(self, given_up: Routing) -> None:
        self._copy = self._context.draft = None
        self._on_complete = self._on_released = None
        self._given_up.append(given_up)
        self._go_on()
