"""A broker as a process: starting, the line that says it is ready, reloading, stopping.

This module creates storage, broker, connections, trace and operations port, connects them, and
answers signals. It decides the order in which they start and stop, and the exit code.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST

from byway.clock import now_us
from byway.core.broker import Broker
from byway.core.inputs import NeighboursListed
from byway.extras import need
from byway.model.addresses import Address
from byway.model.errors import BrokenError, StorageError
from byway.runtime import logs, memory
from byway.runtime.commands import OperatorCommands, Reloaded, ReloadRefusedError
from byway.runtime.config_display import changed_keys
from byway.runtime.config_sources import Reading, SettingsError
from byway.runtime.first_steps import first_steps
from byway.runtime.http_answers import Answer, text_answer
from byway.runtime.kernel_loading import KernelLoading
from byway.runtime.metrics import Metrics
from byway.runtime.operations import Operations
from byway.runtime.reloading import RELOADED, check_move
from byway.runtime.restart_marker import RestartMarker
from byway.runtime.server import BrokerServer
from byway.runtime.settings import BrokerSettings
from byway.storage.forked_snapshots import process_snapshots
from byway.storage.storage import Storage
from byway.trace import NullTrace, TraceBuffer
from byway.transport.os_words import os_reason

if TYPE_CHECKING:
    from byway.runtime.tracing import Tracer

log = logging.getLogger("byway.process")

TRACE_RUN: Final = "live"
LARGE_STATE_BYTES: Final = 100_000
"""Stored state from which on a broker waits for its kernels: without them, the time to restore it
grows with the square of the number of subscriptions."""
Reread = Callable[[], Reading]


class StartError(Exception):
    """The broker cannot start, for a reason that its operator can fix."""


def run(reading: Reading, reread: Reread, may_be_stale: bool = False) -> int:
    """Run a broker until a signal ends it; the exit code. `may_be_stale`: replay a journal of
    another version, or a damaged one, as far as possible."""
    settings = reading.settings
    if settings.trace is not None:
        need("byway.runtime.tracing")  # before anything is opened
    logs.set_up(settings.log, settings.log_level, settings.id)
    for note in reading.notes:
        log.warning("%s", note)
    memory.keep_large_blocks_apart()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        process = BrokerProcess(settings, reread, may_be_stale, guides="id" not in reading.sources)
        return runner.run(process.live())


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's event loop, where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


class BrokerProcess:
    """One broker process: its parts, its signals, its end."""

    def __init__(
        self,
        settings: BrokerSettings,
        reread: Reread,
        may_be_stale: bool = False,
        guides: bool = False,
    ) -> None:
        """`guides`: tell a person on stderr what to type next, when the broker is ready."""
        self.settings = settings
        self._guides = guides
        self._may_be_stale = may_be_stale
        self._reread = reread
        self._storage: Storage | None = None
        self._restart_marker: RestartMarker | None = None
        self._tracer: Tracer | None = None
        self._operations: Operations | None = None
        self._server: BrokerServer | None = None
        self._metrics: Metrics | None = None
        self._kernels = KernelLoading()
        self._memory: asyncio.Task[None] | None = None
        self._end: asyncio.Future[None] | None = None

    async def live(self) -> int:
        """Start, serve until the end, stop; the exit code."""
        loop = asyncio.get_running_loop()
        self._end = loop.create_future()
        loop.set_exception_handler(self._fault)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop_on, number)
        loop.add_signal_handler(signal.SIGHUP, self._reload_on_signal)
        try:
            if await self._start():
                await self._end
                await self._stop()
            else:
                await self._give_up()
        except (StartError, StorageError, BrokenError) as error:
            is_fault = isinstance(error, BrokenError)
            log.critical("%s", error, exc_info=error.__cause__ if is_fault else None)
            await self._give_up()
            return 1
        log.info("stopped")
        return 0

    # --- starting ------------------------------------------------------------------------------

    async def _start(self) -> bool:
        """Start all parts; False if a signal came while kernels were compiled for a large state."""
        settings = self.settings
        await _try_listening("listen", settings.listen)  # before anything that takes long
        if settings.http is not None:
            commands = OperatorCommands(lambda: self._server, self._leave, self._reload)
            self._operations = Operations(
                settings.http, self._paths(), commands.table(), commands.queries()
            )
            await _listening("http", settings.http, self._operations.start)
            log.info("operations at http://%s", self._operations.address)
        trace = self._open_trace()
        if settings.data is not None:
            self._storage = Storage(
                settings.data, settings.durability, snapshots=process_snapshots()
            )
        self._kernels.start()
        if settings.data is not None and _stored_bytes(settings.data) > LARGE_STATE_BYTES:
            assert self._end is not None
            await self._kernels.wait(self._end)
            if self._end.done():
                return False
        if settings.state_dir is not None:
            self._restart_marker = RestartMarker(settings.state_dir, settings.id)
        broker = self._broker(trace)
        gc.collect()
        gc.freeze()  # these objects stay; the collector need not visit them again
        self._server = server = BrokerServer(settings, broker, self._storage)
        self._metrics = Metrics(server, self._storage)
        if self._restart_marker is not None:
            self._restart_marker.follow(server)
        await _listening("listen", settings.listen, server.start)
        if self._tracer is not None:
            self._tracer.start(server)
        self._memory = asyncio.create_task(memory.give_back())
        print(f"ready {settings.id} {server.address} {self._promise()}", flush=True)
        if self._guides:
            assert server.address is not None
            print(first_steps(settings.id, server.address, os.environ), file=sys.stderr, flush=True)
        return True

    def _open_trace(self) -> TraceBuffer:
        if self.settings.trace is None:
            return NullTrace(self.settings.id)
        from byway.runtime.tracing import Tracer  # it needs pyarrow, which takes 30 MiB

        buffer = TraceBuffer(self.settings.id)
        try:
            self._tracer = Tracer(self.settings.trace, TRACE_RUN, buffer)
        except OSError as error:
            raise StartError(f"trace: {self.settings.trace}: {error.strerror}") from error
        return buffer

    def _broker(self, trace: TraceBuffer) -> Broker:
        settings, marker = self.settings, self._restart_marker
        marked_neighbours = [] if marker is None else marker.names(settings.neighbours)
        restarting = marker is not None and marker.was_here
        expects_unlisted = settings.limits.neighbours > 0 and not restarting
        learnt = {} if marker is None else marker.learnt
        former = {} if marker is None else marker.former(settings.neighbours)
        successors = {} if marker is None else marker.successors
        listing = None if marker is None else marker.listing
        if self._storage is None:
            listed = (n.id for n in settings.neighbours if n.id and n.id not in former)
            named = {*marked_neighbours, *listed}
            broker = Broker(
                settings.id,
                named,
                settings.core,
                now_us(),
                trace,
                restarting=restarting,
                expects_unlisted=expects_unlisted,
                learnt=learnt,
                former=former,
                successors=successors,
            )
            if listing is not None:
                broker.handle(now_us(), NeighboursListed(listing))
        else:
            broker = self._storage.restore(
                now_us(),
                settings.id,
                settings.core,
                settings.neighbours,
                trace,
                may_be_stale=self._may_be_stale,
                marked_neighbours=marked_neighbours,
                restarting=restarting,
                expects_unlisted=expects_unlisted,
                learnt=learnt,
                former=former,
                successors=successors,
                listing=listing,
            )
            log.info("state is kept in %s: %s", settings.data, self._storage.start_summary)
        if broker.is_restarting:
            names = ", ".join(sorted(filter(None, broker.missing))) or "neighbours that connect"
            log.info("the broker restarts without its last state: it waits for %s", names)
        return broker

    def _promise(self) -> str:
        """What survives a crash, for the line that says that the broker is ready."""
        if self.settings.data is not None:
            return f"keeps state in {self.settings.data}"
        return (
            "in memory only: sessions and undelivered messages are lost in a crash "
            "(use --data DIR to keep them)"
        )

    # --- while it lives ------------------------------------------------------------------------

    def _reload_on_signal(self) -> None:
        """Reload, and log why not if that is refused."""
        try:
            self._reload()
        except ReloadRefusedError as error:
            for reason in error.reasons:
                log.error("not reloaded: %s", reason)

    def _reload(self, traffic_stopped: bool = False) -> Reloaded:
        """Read the settings again, and take over those that can change while the broker runs.
        Raises `ReloadRefusedError`; then nothing has changed."""
        if self._server is None:
            return Reloaded(broker=self.settings.id)  # they have only just been read
        try:
            reading = self._reread()
        except SettingsError as error:
            raise ReloadRefusedError(list(map(str, error.problems))) from error
        changed = changed_keys(self.settings, reading.settings)
        taken = [key for key in changed if key.partition(".")[0] in RELOADED]
        new = {key: getattr(reading.settings, key) for key in RELOADED}
        settings = msgspec.structs.replace(self.settings, **new)
        check_move(self._server, settings, traffic_stopped)
        later = [key for key in changed if key not in taken]
        for key in later:
            log.warning("%s has changed: that takes effect at the next start", key)
        self.settings = settings
        logs.set_up(settings.log, settings.log_level, settings.id)
        self._server.reload(settings)
        nothing = "nothing takes effect now" if later else "nothing has changed"
        log.info("reloaded: %s", ", ".join(taken) or nothing)
        return Reloaded(broker=settings.id, taken=taken, later=later)

    def _fault(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Handle an error that reached the event loop; one that the broker cannot continue after
        ends the process."""
        del loop
        error = context.get("exception")
        if isinstance(error, StorageError | BrokenError):
            if self._end is not None and not self._end.done():
                self._end.set_exception(error)
            return
        if self._metrics is not None:
            self._metrics.errors += 1
        log.error("%s", context["message"], exc_info=error)

    def _paths(self) -> dict[str, Callable[[], Answer]]:
        return {
            "/metrics": self._tell_metrics,
            "/healthz": self._tell_health,
            "/readyz": self._tell_ready,
        }

    def _tell_metrics(self) -> Answer:
        if self._metrics is None:
            return text_answer(HTTPStatus.SERVICE_UNAVAILABLE, "starting")
        return Answer(HTTPStatus.OK, self._metrics.text(), CONTENT_TYPE_LATEST)

    def _tell_health(self) -> Answer:
        errors = 0 if self._metrics is None else self._metrics.errors
        if errors:
            reason = f"{errors} internal errors, see the log; restart this broker"
            return text_answer(HTTPStatus.INTERNAL_SERVER_ERROR, reason)
        return text_answer(HTTPStatus.OK, "alive")

    def _tell_ready(self) -> Answer:
        if self._server is None or self._server.address is None:
            return text_answer(HTTPStatus.SERVICE_UNAVAILABLE, "starting")
        if self._server.stopping:
            return text_answer(HTTPStatus.SERVICE_UNAVAILABLE, "stopping")
        return text_answer(HTTPStatus.OK, "ready")

    # --- the end -------------------------------------------------------------------------------

    def _stop_on(self, number: signal.Signals) -> None:
        """Stop cleanly at the first signal, at once at the second."""
        assert self._end is not None
        if self._end.done():
            log.warning("%s again: exiting without waiting", number.name)
            os._exit(128 + number)
        log.info("%s: stopping", number.name)
        self._end.set_result(None)

    def _leave(self) -> None:
        """End the process after the broker has left for good, without its restart marker."""
        assert self._end is not None
        if self._end.done():
            return
        try:
            if self._restart_marker is not None:
                self._restart_marker.forget()
            self._end.set_result(None)
        except StorageError as error:
            self._end.set_exception(error)

    async def _stop(self) -> None:
        assert self._server is not None
        await self._server.stop()
        if self._storage is not None:
            self._storage.stop()
        await self._close_ports_and_files()

    async def _give_up(self) -> None:
        """End as a crash would: what cannot be kept must not have effects."""
        if self._server is not None:
            await self._server.kill()
        if self._storage is not None:
            self._storage.abandon()
        await self._close_ports_and_files()

    async def _close_ports_and_files(self) -> None:
        if self._memory is not None:
            self._memory.cancel()
        await self._kernels.stop()
        if self._tracer is not None:
            await self._tracer.stop()
        if self._operations is not None:
            await self._operations.stop()


def _stored_bytes(directory: str) -> int:
    return sum(file.stat().st_size for file in Path(directory).iterdir() if file.is_file())


async def _listening(key: str, address: Address, start: Callable[[], Any]) -> None:
    try:
        await start()
    except OSError as error:
        reason = os_reason(error)
        if error.errno == errno.EADDRINUSE:
            other, free = (Address(address.host, p) for p in (address.port % 65_535 + 1, 0))
            reason = (
                "another process uses this port; stop that one, or choose another port "
                f"(--{key} {other}, or --{key} {free} for any that is free)"
            )
        elif error.errno == errno.EADDRNOTAVAIL:
            reason = "this machine does not have that address"
        raise StartError(f"{key}: cannot listen on {address}: {reason}") from error


async def _try_listening(key: str, address: Address) -> None:
    loop = asyncio.get_running_loop()

    async def start() -> None:
        server = await loop.create_server(
            asyncio.Protocol, address.host, address.port, reuse_address=True
        )
        server.close()
        await server.wait_closed()

    await _listening(key, address, start)
