"""Hooks: functions that the router calls when something happens, for those who want to know.

`Broker` fills them from the behaviours that it has; the router calls what is there, and does not
know whom. A list that is empty costs one look at it, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from byway.core.tables import Entry, Table
from byway.model.messages import Publish
from byway.model.trace_schema import TableKind

if TYPE_CHECKING:
    from byway.core.routing import Routing

Published = Callable[[Publish], Publish]
Routed = Callable[[Publish, str | None, Sequence[str], Sequence[str]], None]
Confirmed = Callable[[str, int], None]
Finished = Callable[[str, int], None]
EntryChanged = Callable[[TableKind, Entry], None]


class Hooks:
    """What is called at one broker; `Behaviour` has a method of the same name for each, which says
    when."""

    def __init__(self) -> None:
        self.on_published: Final[list[Published]] = []
        self.on_publication_routed: Final[list[Routed]] = []
        self.on_copies_confirmed: Final[list[Confirmed]] = []
        self.on_publication_finished: Final[list[Finished]] = []
        self.on_entry_added: Final[list[EntryChanged]] = []
        self.on_entry_removed: Final[list[EntryChanged]] = []
        self.on_tables_replaced: Final[list[Callable[[], None]]] = []
        self.on_batch_handled: Final[list[Callable[[], None]]] = []

    def connect(self, behaviour: object, base: type) -> None:
        """Call the methods of a behaviour that differ from those of its base class."""
        for name, hooks in vars(self).items():
            if getattr(type(behaviour), name) is not getattr(base, name):
                hooks.append(getattr(behaviour, name))

    @property
    def sees_publications(self) -> bool:
        """Whether anybody wants to know of single publications."""
        return bool(self.on_published or self.on_publication_routed or self.on_publication_finished)

    def watch(self, routing: Routing) -> None:
        """Tell of entries that come and go in the tables of a routing from now on, if anybody wants
        to know; once is enough."""
        if not (self.on_entry_added or self.on_entry_removed):
            return
        for kind, table in (
            (TableKind.ADVERTISEMENTS, routing.adverts),
            (TableKind.SUBSCRIPTIONS, routing.subscriptions),
        ):
            if not any(isinstance(watcher, _TableHooks) for watcher in table.watchers):
                table.watchers = (*table.watchers, _TableHooks(kind, self))

    def unwatch(self, routing: Routing) -> None:
        """Tell no more of the tables of a routing."""
        for table in (routing.adverts, routing.subscriptions):
            _remove_hooks(table)


def _remove_hooks(table: Table) -> None:
    table.watchers = tuple(w for w in table.watchers if not isinstance(w, _TableHooks))


class _TableHooks:
    """Watches one table for the hooks."""

    def __init__(self, kind: TableKind, hooks: Hooks) -> None:
        self._kind = kind
        self._hooks = hooks

    def added(self, entry: Entry) -> None:
        """An entry was added."""
        for hook in self._hooks.on_entry_added:
            hook(self._kind, entry)

    def changed(self, entry: Entry) -> None:
        """What was done with an entry has changed, which concerns nobody here."""

    def removed(self, entry: Entry) -> None:
        """An entry was removed."""
        for hook in self._hooks.on_entry_removed:
            hook(self._kind, entry)
