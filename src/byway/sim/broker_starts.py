"""Makes the brokers of a world when they start: for the first time, after a crash, from a disk.

It decides what a broker knows when it starts, as a broker process does. When a broker starts, and
who is told, is the world's business.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from byway.core.broker import Broker
from byway.sim.engine.nodes import Node
from byway.sim.engine.stored_node import StoredNode
from byway.sim.topology.tree import Topology


class BrokerStarts:
    """The starts of the brokers of one world; `World` says what `unlisted` and `remembering`
    are."""

    def __init__(
        self,
        topology: Topology,
        unlisted: Collection[tuple[str, str]],
        remembering: Collection[str],
    ) -> None:
        self._topology = topology
        self._unlisted = frozenset(unlisted)
        self._remembering = frozenset(remembering)

    def first(self, node: Node) -> Broker:
        """A broker that never ran before."""
        if isinstance(node, StoredNode):
            broker = self.from_disk(node, incarnation=1)
            node.disk.started(broker)
            return broker
        return self._new(node, self._listed(node.name), incarnation=1)

    def again(self, node: Node, before: Broker, *, stored: bool) -> Broker:
        """A broker without a disk after a crash, with the state it had then (`stored`) or without
        any."""
        if stored:
            return Broker.restore(before.snapshot(), node.config, trace=node.trace)
        remembers = node.name in self._remembering
        neighbours = list(before.neighbours) if remembers else self._listed(node.name)
        return self._new(node, neighbours, before.incarnation + 1, restarting=remembers)

    def from_disk(self, node: StoredNode, incarnation: int, *, stale: bool = False) -> Broker:
        """The broker of a disk, under this incarnation if it has to be a new one. Raises
        `StorageError`."""
        return node.disk.start(
            incarnation,
            node.config,
            self._listed(node.name),
            node.trace,
            may_be_stale=stale,
            expects_unlisted=self._expects_unlisted(node.name),
        )

    def _new(
        self, node: Node, neighbours: Iterable[str], incarnation: int, restarting: bool = False
    ) -> Broker:
        return Broker(
            node.name,
            neighbours,
            node.config,
            incarnation,
            trace=node.trace,
            restarting=restarting,
            expects_unlisted=not restarting and self._expects_unlisted(node.name),
        )

    def _listed(self, name: str) -> list[str]:
        """The neighbours that a broker lists when it starts."""
        neighbours = self._topology.neighbours(name)
        return [other for other in neighbours if (name, other) not in self._unlisted]

    def _expects_unlisted(self, name: str) -> bool:
        return any(own == name for own, _ in self._unlisted)
