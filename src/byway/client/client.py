"""The client: publish, advertise, subscribe, over a connection that is restored after a loss.

    async with byway.connect("byway://127.0.0.1:7001") as client:
        async with client.subscribe("price > 18") as subscription:
            async for event in subscription: ...

One event loop, no threads. This file is the interface for applications; `client_driver` does the
work, and the package `session` decides.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterable, Generator, Iterable, Mapping, Sequence
from secrets import token_hex
from types import TracebackType
from typing import Final, Self

import msgspec

from byway.client.client_driver import ClientDriver
from byway.client.publishing import MandatoryReceipt, Receipt, RoutedReceipt
from byway.client.subscription import Advertisement, Subscription
from byway.model import Filter
from byway.model.addresses import BROKER_VARIABLE, PORT, SCHEME
from byway.model.status import BrokerStatus
from byway.model.values import Value
from byway.session.client_inputs import PublishingEnded
from byway.session.client_options import BrokerUrl, ClientOptions, WhenFull
from byway.session.outgoing_publications import Data, encode_body

Publication = Mapping[str, Value] | tuple[Mapping[str, Value], Data]
"""Attributes, or attributes and data."""
TOGETHER: Final = 256
"""Publications that are queued before other tasks of the event loop run."""


class ClientStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The state and the counters of a client."""

    state: str
    """`new`, `connecting`, `attached`, `away` or `closed`."""
    reason: str
    """Why the client is away or closed."""
    broker: str
    url: str
    incarnation: int
    attachments: int
    """Number of times that a broker has attached the client."""
    sessions: int
    """Number of sessions started; each after the first is a gap in what was received."""
    published: int
    accepted: int
    confirmed: int
    refused: int
    received: int
    """Events received, each counted once."""
    duplicates: int
    """Events dropped because they had been received before."""
    lost: int
    """Events that the broker could not keep while the client was away or did not read."""
    pending: int
    """Events that the application has not taken."""


class Client:
    """One client of a network. Made by `connect`; opened by `await` or `async with`."""

    def __init__(self, options: ClientOptions) -> None:
        self.options = options
        self._driver: Final = ClientDriver(options)
        self._core: Final = self._driver.core
        self._waits: Final = self._driver.publications
        self._labels = 0

    def __repr__(self) -> str:
        registrations = self._core.registrations.all.values()
        subscriptions = sum(registration.is_subscription for registration in registrations)
        return (
            f"<Client {self.name}, {self._core.describe()}: {subscriptions} subscriptions, "
            f"{len(registrations) - subscriptions} advertisements, "
            f"{len(self._core.publications.kept)} unconfirmed>"
        )

    @property
    def name(self) -> str:
        """The client's name, by which brokers and subscribers know it."""
        return self.options.name

    @property
    def is_attached(self) -> bool:
        """Whether the client is connected and a broker has attached it."""
        return self._core.state == "attached"

    @property
    def status(self) -> ClientStatus:
        """The state and the counters of the client."""
        core, attaching = self._core, self._core.attaching
        publications, deliveries = core.publications, core.deliveries
        registrations = core.registrations.all.values()
        return ClientStatus(
            state=attaching.state,
            reason=attaching.reason,
            broker=attaching.broker,
            url="" if attaching.url is None else attaching.url.text,
            incarnation=attaching.incarnation,
            attachments=core.attachments,
            sessions=core.sessions,
            published=publications.last,
            accepted=publications.accepted,
            confirmed=publications.confirmed,
            refused=publications.refused,
            received=deliveries.events,
            duplicates=deliveries.duplicates,
            lost=deliveries.lost,
            pending=sum(len(r.queue.events) for r in registrations if r.queue is not None),
        )

    async def broker_status(self, timeout: float | None = None) -> BrokerStatus:
        """The status of the broker: its tables, links and neighbours. Raises `NotToldError`."""
        return await self._driver.broker_status(timeout)

    # --- life -----------------------------------------------------------------------------------

    def __await__(self) -> Generator[object, None, Self]:
        return self._open().__await__()

    async def _open(self) -> Self:
        await self._driver.open()
        return self

    async def __aenter__(self) -> Self:
        return await self._open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if kind is None and self._core.state != "closed":
                await self.flush()
        finally:
            await self.close()

    async def close(self) -> None:
        """Disconnect and end the session at once; what the broker has not accepted is dropped."""
        await self._driver.close("the application closed it")

    async def drain(self, timeout: float | None = None) -> None:
        """Accept no more publications, wait until all are confirmed, then withdraw all
        registrations and end the session. Events already received can still be taken."""
        self._driver.handle(PublishingEnded("it is draining"))
        self._waits.give_room()
        try:
            await self.confirmed(timeout)
        finally:
            await self._driver.close("the application drained it")

    # --- publishing -----------------------------------------------------------------------------

    async def publish(
        self,
        attributes: Mapping[str, Value],
        data: Data = b"",
        *,
        routes: bool = False,
        mandatory: bool = False,
        timeout: float | None = None,
    ) -> Receipt:
        """Publish, and wait until the broker has accepted it. Raises `RefusedError`, or
        `NotAcceptedError` if there is no answer in time: it may still be published then.

        `routes`: the broker tells where the publication goes, in the receipt's `routes`.
        `mandatory`: it does, and `UnroutedError` is raised if that is nowhere and an advertisement
        that the publication conforms to is settled.
        """
        body = encode_body(attributes, data)
        await self._waits.until_room(timeout)
        receipt = self._driver.publish(body, _kind(routes, mandatory))
        await receipt.accepted(timeout)
        return receipt

    def publish_nowait(
        self,
        attributes: Mapping[str, Value],
        data: Data = b"",
        *,
        routes: bool = False,
        mandatory: bool = False,
    ) -> Receipt:
        """Publish without waiting. Raises `WindowFullError` when too many are unconfirmed. The
        options are those of `publish`."""
        return self._driver.publish(encode_body(attributes, data), _kind(routes, mandatory))

    async def publish_all(
        self,
        publications: Iterable[Publication] | AsyncIterable[Publication],
        *,
        timeout: float | None = None,
    ) -> int:
        """Publish many, a window of them at a time, and wait until the broker has accepted all;
        their number. Raises the first `RefusedError`."""
        count = await self.send_all(publications, timeout=timeout)
        await self.flush(timeout)
        return count

    async def send_all(
        self,
        publications: Iterable[Publication] | AsyncIterable[Publication],
        *,
        timeout: float | None = None,
    ) -> int:
        """Publish many, and wait only while the window is full; their number."""
        count, waits, publish = 0, self._waits, self._driver.publish
        if isinstance(publications, AsyncIterable):
            async for publication in publications:
                body = _encoded(publication)
                await waits.until_room(timeout)
                publish(body)
                count += 1
        else:
            for publication in publications:
                body = _encoded(publication)
                if not waits.has_room:
                    await waits.until_room(timeout)
                publish(body)
                count += 1
                if not count % TOGETHER:
                    await asyncio.sleep(0)  # let them be sent, and other tasks run
        return count

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until the broker has accepted everything published. Raises the first `RefusedError`
        that no receipt has raised."""
        await self._waits.until_accepted(self._core.publications.last, timeout)
        self._core.publications.raise_refusal()

    async def confirmed(self, timeout: float | None = None) -> None:
        """Wait until every copy of everything published has arrived. Raises as `flush` does."""
        await self._waits.until_confirmed(self._core.publications.last, timeout)
        self._core.publications.raise_refusal()

    # --- advertising and subscribing ------------------------------------------------------------

    def advertise(
        self,
        *filters: str | Filter,
        name: str | None = None,
        settled: bool = True,
        timeout: float | None = None,
    ) -> Advertisement:
        """Announce what will be published. `await` it or use it in `async with`; either waits until
        it is settled, unless `settled` is false."""
        return Advertisement(self._driver, self._label("adv", name), filters, settled, timeout)

    def subscribe(
        self,
        *filters: str | Filter,
        name: str | None = None,
        settled: bool = True,
        timeout: float | None = None,
        pending_messages: int | None = None,
        pending_bytes: int | None = None,
        when_full: WhenFull | None = None,
    ) -> Subscription:
        """Subscribe to what matches one of the filters. `await` it or use it in `async with`;
        either waits until it is settled, unless `settled` is false."""
        options = self.options
        return Subscription(
            self._driver,
            self._label("sub", name),
            filters,
            settled,
            timeout,
            pending_messages or options.pending_messages,
            pending_bytes or options.pending_bytes,
            when_full or options.when_full,
        )

    def _label(self, prefix: str, name: str | None) -> str:
        if name is not None:
            return name
        self._labels += 1
        return f"{prefix}{self._labels}"


def _encoded(publication: Publication) -> bytes:
    if isinstance(publication, tuple):
        return encode_body(*publication)
    return encode_body(publication)


def _kind(routes: bool, mandatory: bool) -> type[Receipt]:
    """The kind of receipt for the options of `publish`."""
    if mandatory:
        return MandatoryReceipt
    return RoutedReceipt if routes else Receipt


def parse_urls(urls: str | Sequence[str] | None) -> tuple[BrokerUrl, ...]:
    """One address or several; without one that of `BYWAY_BROKER`, or of this machine."""
    if urls is None:
        urls = os.environ.get(BROKER_VARIABLE) or f"{SCHEME}127.0.0.1:{PORT}"
    return tuple(BrokerUrl.parse(url) for url in ([urls] if isinstance(urls, str) else urls))


def connect(
    url: str | Sequence[str] | None = None,
    *,
    name: str | None = None,
    session_ttl: float = 0.0,
    window: int = 4_096,
    window_bytes: int = 67_108_864,
    pending_messages: int = 65_536,
    pending_bytes: int = 67_108_864,
    when_full: WhenFull = "block",
    reconnect: bool = True,
    retry: float = 0.1,
    retry_max: float = 2.0,
    connect_wait: float = 0.0,
    connect_timeout: float = 5.0,
    timeout: float = 30.0,
    settle_wait: float = 5.0,
    keepalive: float = 5.0,
) -> Client:
    """A client of the broker at `byway://host:port`, or of the first of several that answers.

    The scheme and port 7001 may be left out. Without an address the client takes the one in the
    variable `BYWAY_BROKER`, else `byway://127.0.0.1:7001`.
    Use it in `async with`, or `await` it and call `close`. Times are in seconds; `ClientOptions`
    explains each setting. Raises `ConfigError`; opening it raises `ConnectError`.
    """
    return Client(
        ClientOptions(
            urls=parse_urls(url),
            name=f"client-{token_hex(4)}" if name is None else name,
            session_ttl=session_ttl,
            window=window,
            window_bytes=window_bytes,
            pending_messages=pending_messages,
            pending_bytes=pending_bytes,
            when_full=when_full,
            reconnect=reconnect,
            retry=retry,
            retry_max=retry_max,
            connect_wait=connect_wait,
            connect_timeout=connect_timeout,
            timeout=timeout,
            settle_wait=settle_wait,
            keepalive=keepalive,
        )
    )
