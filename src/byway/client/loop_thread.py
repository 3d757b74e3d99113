"""An event loop in a thread of its own, for the blocking client and the blocking local overlay."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from byway.model.errors import ClosedError

T = TypeVar("T")


class LoopThread:
    """A thread with one event loop, which runs coroutines for other threads."""

    def __init__(self, name: str) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        self._is_ready.wait()

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            self._is_ready.set()
            self._loop.run_forever()

    @property
    def is_running(self) -> bool:
        """Whether the thread still runs coroutines."""
        return self._thread.is_alive()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the thread, and wait for its result. Raises `ClosedError` if the
        thread has ended."""
        if self._loop is None or not self.is_running:
            work.close()
            raise ClosedError(self._thread.name, "its thread has ended")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # the wait may have been interrupted
            raise

    def stop(self) -> None:
        """Stop the event loop, and wait for the thread to end."""
        if self._loop is not None and self.is_running:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
