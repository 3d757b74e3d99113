"""The local overlay for programs without an event loop; it runs `overlay` in a thread."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from byway.client.blocking import Client, connect
from byway.client.loop_thread import LoopThread
from byway.core.broker_config import BrokerConfig
from byway.local import overlay
from byway.local.overlay import Shape
from byway.runtime.settings import Limits


class LocalOverlay:
    """A network of brokers in this process, which run in a thread of their own."""

    def __init__(
        self,
        topology: Shape = "chain:1",
        *,
        core: BrokerConfig | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._overlay = overlay.LocalOverlay(topology, core=core, limits=limits)
        self._thread: LoopThread | None = None

    def __repr__(self) -> str:
        return repr(self._overlay)

    def __enter__(self) -> Self:
        self._thread = LoopThread("byway overlay")
        try:
            self._thread.run(self._overlay.__aenter__())
        except BaseException:
            self._thread.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._thread is not None
        try:
            self._thread.run(self._overlay.__aexit__(kind, error, traceback))
        finally:
            self._thread.stop()

    def url(self, broker: str) -> str:
        """The URL of a broker. Raises `TopologyError` if there is none of this name."""
        return self._overlay.url(broker)

    def connect(self, broker: str | None = None, **options: Any) -> Client:
        """A connected client of a broker, by default the first one; options are those of
        `byway.connect`."""
        return connect(self.url(broker or next(iter(self._overlay.neighbours))), **options)
