"""A network of brokers in one process, on loopback ports, for tests, demos and first steps.

    async with byway.LocalOverlay("chain:3") as net:
        async with net.connect("B1") as publisher, net.connect("B3") as subscriber: ...

The brokers are the real ones, connected over TCP. This module decides where they listen and which
dials which; the caller gives the tree.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, runtime_checkable

from byway.client.client import Client, connect
from byway.clock import now_us
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.model.addresses import SCHEME, Address, Neighbour
from byway.model.errors import TopologyError
from byway.model.tree_shapes import (
    balanced_parents,
    chain_parents,
    links_of,
    numbered_names,
    star_parents,
)
from byway.runtime.kernel_loading import kernels_loaded
from byway.runtime.server import BrokerServer
from byway.runtime.settings import BrokerSettings, Limits
from byway.trace import TraceBuffer

if TYPE_CHECKING:
    from byway.runtime.tracing import Tracer

HOST: Final = "127.0.0.1"
BROKERS_MAX: Final = 256
START_S: Final = 10.0
"""How long links may take to come up."""
_SHAPES: Final[dict[str, Callable[[int], Iterable[int]]]] = {
    "chain": chain_parents,
    "star": star_parents,
    "tree": lambda count: balanced_parents(count, fan_out=2),
}


class Link(Protocol):
    """A link between two brokers."""

    @property
    def a(self) -> str:
        """The name of one broker."""

    @property
    def b(self) -> str:
        """The name of the other broker."""


@runtime_checkable
class Tree(Protocol):
    """Brokers and their links, such as a `byway.sim.topology.tree.Topology`."""

    @property
    def brokers(self) -> tuple[str, ...]:
        """The names of the brokers."""

    @property
    def links(self) -> Sequence[Link]:
        """The links between the brokers."""


Shape = str | Tree | Mapping[str, Iterable[str]] | Iterable[tuple[str, str]]
"""`chain:5`, `star:5`, `tree:7` (two below each), a tree, names with their neighbours, or pairs."""


class LocalOverlay:
    """A network of brokers in this process, linked as a tree."""

    def __init__(
        self,
        topology: Shape = "chain:1",
        *,
        core: BrokerConfig | None = None,
        limits: Limits | None = None,
        trace: str | None = None,
        run: str = "overlay",
    ) -> None:
        """`trace`: a directory for trace files, in which the run has the name `run`."""
        self.neighbours = tree_of(topology)
        """By broker, the brokers it is linked to."""
        self.brokers: dict[str, BrokerServer] = {}
        """By name, the brokers that run."""
        self._core = core or BrokerConfig(probe_cycles=True)
        self._limits = limits or Limits(drain_ms=1_000)
        self._trace = trace
        self._run = run
        self._tracers: dict[str, Tracer] = {}
        self._addresses: dict[str, Address] = {}
        self._kept: dict[str, bytes] = {}
        """By broker that was killed, the snapshot of its state."""

    def __repr__(self) -> str:
        return f"<LocalOverlay of {len(self.neighbours)} brokers, {len(self.brokers)} of them run>"

    async def __aenter__(self) -> Self:
        """Start all brokers and link them. The first time on a machine, kernels are compiled, which
        takes about 15 s; the event loop runs meanwhile."""
        await kernels_loaded()
        try:
            for name in self.neighbours:
                await self._start(name, self._fresh(name))
            await self.linked()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._stop()

    async def _stop(self) -> None:
        await asyncio.gather(*(server.stop() for server in self.brokers.values()))
        self.brokers.clear()
        for broker in list(self._tracers):
            await self._tracers.pop(broker).stop()

    def _fresh(self, name: str) -> Broker:
        return Broker(name, self.neighbours[name], self._core, now_us(), self._buffer(name))

    def _buffer(self, name: str) -> TraceBuffer | None:
        if self._trace is None:
            return None
        from byway.runtime.tracing import Tracer  # it needs pyarrow, which takes 30 MiB

        buffer = TraceBuffer(name)
        self._tracers[name] = Tracer(self._trace, self._run, buffer)
        return buffer

    async def _start(self, name: str, broker: Broker) -> None:
        """Start a broker; it dials those of its neighbours that have an address by now."""
        neighbours = tuple(
            Neighbour(self._addresses[other], other)
            for other in self.neighbours[name]
            if other in self._addresses
        )
        listen = self._addresses.get(name, Address(HOST, 0))
        settings = BrokerSettings(
            id=name,
            listen=listen,
            neighbours=neighbours,
            core=self._core,
            mesh=self._core.mesh,
            limits=self._limits,
        )
        server = BrokerServer(settings, broker)
        await server.start()
        assert server.address is not None
        self._addresses[name] = server.address
        self.brokers[name] = server
        if name in self._tracers:
            self._tracers[name].start(server)

    # --- for the application --------------------------------------------------------------------

    def url(self, broker: str) -> str:
        """The URL of a broker. Raises `TopologyError` if there is none of this name."""
        if broker not in self._addresses:
            known = ", ".join(self.neighbours)
            raise TopologyError(f"broker {broker!r}", f"there is none; there are {known}")
        return f"{SCHEME}{self._addresses[broker]}"

    def connect(self, broker: str | None = None, **options: Any) -> Client:
        """A client of a broker, by default the first one; options are those of `byway.connect`."""
        return connect(self.url(broker or next(iter(self.neighbours))), **options)

    async def linked(self, timeout: float = START_S) -> None:
        """Wait until all running brokers are linked and have exchanged their tables. Raises
        `TopologyError`."""
        try:
            async with asyncio.timeout(timeout):
                while not self._is_linked():
                    await asyncio.sleep(0.005)
        except TimeoutError:
            raise TopologyError("overlay", f"is not linked within {timeout:g} s") from None

    def _is_linked(self) -> bool:
        return all(
            not server.broker.missing.keys() & self.brokers.keys()
            and all(
                other in server.links and server.links[other].was_up
                for other in self.neighbours[name]
                if other in self.brokers
            )
            for name, server in self.brokers.items()
        )

    async def kill(self, broker: str) -> None:
        """End a broker as a crash would: it sends nothing and waits for nothing."""
        server = self.brokers.pop(broker)
        self._kept[broker] = server.broker.snapshot()
        await server.kill()
        if broker in self._tracers:
            await self._tracers.pop(broker).stop()

    async def restart(self, broker: str, *, keeps_state: bool = False) -> None:
        """Start a broker that was killed, at the same address, with its state or without."""
        state = self._kept.pop(broker)
        if keeps_state:
            started = Broker.restore(state, self._core, trace=self._buffer(broker))
        else:
            started = self._fresh(broker)
        await self._start(broker, started)


# --- trees --------------------------------------------------------------------------------------


def tree_of(topology: Shape) -> dict[str, list[str]]:
    """By broker, its neighbours. Raises `TopologyError` if the shape is not a tree."""
    if isinstance(topology, str):
        names, pairs = _shape(topology)
    elif isinstance(topology, Mapping):
        names = list(topology)
        pairs = [(a, b) for a, others in topology.items() for b in others]
    elif isinstance(topology, Tree):
        names, pairs = list(topology.brokers), [(link.a, link.b) for link in topology.links]
    else:
        names, pairs = [], [(a, b) for a, b in topology]
    return _checked(names, pairs)


def _shape(text: str) -> tuple[list[str], list[tuple[str, str]]]:
    kind, _, count = text.partition(":")
    if kind not in _SHAPES or not count.isdecimal() or not 1 <= int(count) <= BROKERS_MAX:
        expected = f"one of {', '.join(_SHAPES)} and a number from 1 to {BROKERS_MAX}"
        raise TopologyError(f"topology {text!r}", f"expected {expected}, such as 'chain:3'")
    names = numbered_names("B", int(count), digits=len(count))
    return list(names), links_of(names, _SHAPES[kind](len(names)))


def _checked(names: list[str], pairs: list[tuple[str, str]]) -> dict[str, list[str]]:
    tree: dict[str, list[str]] = {name: [] for name in names}
    for a, b in dict.fromkeys((min(pair), max(pair)) for pair in pairs):
        if a == b:
            raise TopologyError(f"broker {a}", "is linked to itself")
        tree.setdefault(a, []).append(b)
        tree.setdefault(b, []).append(a)
    if not 1 <= len(tree) <= BROKERS_MAX:
        raise TopologyError(f"{len(tree)} brokers", f"expected 1 to {BROKERS_MAX}")
    reached = _reached(tree, next(iter(tree)))
    links = sum(map(len, tree.values())) // 2
    if len(reached) < len(tree):
        apart = next(name for name in tree if name not in reached)
        raise TopologyError(f"broker {apart}", "is not linked to the others")
    if links != len(tree) - 1:
        raise TopologyError("topology", f"{links} links between {len(tree)} brokers make a cycle")
    return tree


def _reached(tree: Mapping[str, list[str]], start: str) -> list[str]:
    """All brokers that can be reached from one over links."""
    order = {start: None}
    waiting = [start]
    while waiting:
        new = [other for other in tree[waiting.pop()] if other not in order]
        order.update(dict.fromkeys(new))
        waiting += new
    return list(order)
