"""Writes the trace files of a live broker: rows from its buffer, and samples of its queues.

The buffer is drained often, so that it does not overflow, and written by a thread, so that the
broker does not wait for the disk. This module decides when; `trace` defines rows and files.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from byway.clock import now_us
from byway.core.backlogs import sample_backlogs
from byway.core.placeholders import sample_placeholders
from byway.model.trace_schema import Queue, TableKind
from byway.runtime.server import BrokerServer
from byway.trace import RowBatch, TraceBuffer
from byway.trace.trace_writer import TraceWriter

log = logging.getLogger("byway.trace")

DRAIN_S: Final = 0.1
SAMPLE_EVERY: Final = 10
"""Number of drains between two samples of queues and tables."""
FILE_EVERY: Final = 600
"""Number of drains after which a file is completed, however short; a crash loses rows that are in
no complete file."""


class Tracer:
    """Writes the rows of one broker's trace buffer to files."""

    def __init__(self, directory: str, run: str, buffer: TraceBuffer) -> None:
        self.buffer = buffer
        self._writer = TraceWriter(directory, run, buffer.broker)
        self._thread = ThreadPoolExecutor(1, "byway-trace")
        self._task: asyncio.Task[None] | None = None

    def start(self, server: BrokerServer) -> None:
        """Drain the buffer and sample the server from now on."""
        self._task = asyncio.get_running_loop().create_task(self._write_for_ever(server))

    async def _write_for_ever(self, server: BrokerServer) -> None:
        loop = asyncio.get_running_loop()
        drains = 0
        while True:
            await asyncio.sleep(DRAIN_S)
            drains += 1
            if drains % SAMPLE_EVERY == 0:
                self._sample(server)
            batch, is_last = self.buffer.drain(), drains % FILE_EVERY == 0
            # shielded: a row that was taken is written, also if this task ends before the thread
            # comes to it
            await asyncio.shield(loop.run_in_executor(self._thread, self._write, batch, is_last))

    def _write(self, batch: RowBatch, is_last: bool) -> None:
        try:
            self._writer.write(batch)
            if is_last:
                self._writer.flush()
        except OSError as error:
            log.error("trace rows are lost: %s", error)

    def _sample(self, server: BrokerServer) -> None:
        at_us, buffer = now_us(), self.buffer
        buffer.queue_sampled(at_us, Queue.INPUT, server.driver.inbox.waiting, 0)
        for link, connection in sorted(server.links.items()):
            if not server.broker.is_neighbour(link):
                continue  # it is not a neighbour yet
            waiting = connection.waiting_messages, connection.waiting_bytes
            buffer.queue_sampled(at_us, Queue.OUTPUT, *waiting, link)
        sample_backlogs(server.broker, buffer, at_us)
        buffer.table_sampled(at_us, TableKind.SUBSCRIPTIONS, len(server.broker.subscriptions))
        buffer.table_sampled(at_us, TableKind.ADVERTISEMENTS, len(server.broker.advertisements))
        sample_placeholders(server.broker, buffer, at_us)

    async def stop(self) -> None:
        """Write the remaining rows, and close the files."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._thread.shutdown()
        self._writer.write(self.buffer.drain())
        self._writer.close()
