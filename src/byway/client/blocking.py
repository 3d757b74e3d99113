"""The client for programs without an event loop: the same names, and calls that block.

    with byway.blocking.connect("byway://127.0.0.1:7001") as client:
        with client.subscribe("price > 18") as subscription:
            for event in subscription: ...

Each client runs the asyncio client in a thread of its own, which answers the broker while the
program is busy. Every call is passed on to that client; this file decides nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from types import TracebackType
from typing import Any, Final, Self

from byway.client import client as clients
from byway.client import subscription as subscriptions
from byway.client.client import ClientStatus, Publication
from byway.client.loop_thread import LoopThread
from byway.client.publishing import Receipt as AsyncReceipt
from byway.model import Filter
from byway.model.status import BrokerStatus
from byway.model.values import Value
from byway.session.client_options import WhenFull
from byway.session.events import Event
from byway.session.outgoing_publications import Data, Routes

TOGETHER: Final = 256
"""Events and publications passed between threads in one call."""


class Receipt:
    """The state of one publication: accepted by the broker, confirmed at every receiver."""

    def __init__(self, thread: LoopThread, receipt: AsyncReceipt) -> None:
        self._thread = thread
        self._receipt = receipt

    def __repr__(self) -> str:
        return repr(self._receipt)

    @property
    def number(self) -> int:
        """Number of the publication, counted from 1 by its client."""
        return self._receipt.number

    @property
    def is_accepted(self) -> bool:
        """Whether the broker has accepted the publication."""
        return self._receipt.is_accepted

    @property
    def is_confirmed(self) -> bool:
        """Whether every copy of the publication has arrived."""
        return self._receipt.is_confirmed

    @property
    def routes(self) -> Routes | None:
        """Where the publication went when the broker accepted it, if `publish` was asked to find
        out and the broker has told."""
        return self._receipt.routes

    def accepted(self, timeout: float | None = None) -> None:
        """Wait until the broker has accepted it. Raises `RefusedError`, `NotAcceptedError`."""
        self._thread.run(self._receipt.accepted(timeout))

    def confirmed(self, timeout: float | None = None) -> None:
        """Wait until every copy has arrived. Raises `RefusedError`, `NotConfirmedError`."""
        self._thread.run(self._receipt.confirmed(timeout))


class Advertisement:
    """The announcement of what a client will publish; leaving its block withdraws it."""

    def __init__(self, thread: LoopThread, advertisement: subscriptions.Advertisement) -> None:
        self._thread = thread
        self._advertisement = advertisement

    def __repr__(self) -> str:
        return repr(self._advertisement)

    @property
    def name(self) -> str:
        """The label of the advertisement."""
        return self._advertisement.name

    @property
    def is_settled(self) -> bool:
        """Whether it is in force at every broker that needs it; false while disconnected."""
        return self._advertisement.is_settled

    def settled(self, timeout: float | None = None) -> None:
        """Wait until it is in force at every broker that needs it. Raises `NotSettledError`,
        `RefusedError`, `ClosedError`."""
        self._thread.run(self._advertisement.settled(timeout))

    def unadvertise(self) -> None:
        """Withdraw the advertisement; publications made before are not affected."""
        self._thread.run(self._advertisement.unadvertise())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._thread.is_running:
            self.unadvertise()


class Subscription:
    """Filters of a client, and the queue of events that match them; leaving its block withdraws it.

    One thread at a time may take events.
    """

    def __init__(self, thread: LoopThread, subscription: subscriptions.Subscription) -> None:
        self._thread = thread
        self._subscription = subscription
        self._taken: deque[Event] = deque()

    def __repr__(self) -> str:
        return repr(self._subscription)

    @property
    def name(self) -> str:
        """The label of the subscription."""
        return self._subscription.name

    @property
    def pending(self) -> int:
        """Number of events that the application has not taken."""
        return len(self._taken) + self._subscription.pending

    @property
    def dropped(self) -> int:
        """Events dropped because the queue was full."""
        return self._subscription.dropped

    @property
    def is_settled(self) -> bool:
        """Whether it is in force at every broker that needs it; false while disconnected."""
        return self._subscription.is_settled

    def settled(self, timeout: float | None = None) -> None:
        """Wait until it is in force at every broker that needs it. Raises `NotSettledError`,
        `RefusedError`, `ClosedError`."""
        self._thread.run(self._subscription.settled(timeout))

    def update(self, *filters: str | Filter, timeout: float | None = None) -> None:
        """Replace the filters, without a gap for events that match both old and new ones."""
        self._thread.run(self._subscription.update(*filters, timeout=timeout))

    def unsubscribe(self) -> None:
        """Withdraw the subscription. Events received before can still be taken; then iteration
        ends."""
        self._thread.run(self._subscription.unsubscribe())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        if not self._taken:
            self._taken.extend(self._thread.run(self._subscription.take(TOGETHER)))
        if not self._taken:
            raise StopIteration
        return self._taken.popleft()

    def next(self, timeout: float | None = None) -> Event:
        """The next event. Raises `TimeoutError`, or `ClosedError` if none can come any more."""
        if self._taken:
            return self._taken.popleft()
        return self._thread.run(self._subscription.next(timeout))

    def take(self, most: int, timeout: float | None = None) -> list[Event]:
        """One to `most` events; empty if none arrived in time or the subscription has ended."""
        if not self._taken:
            return self._thread.run(self._subscription.take(most, timeout))
        return [self._taken.popleft() for _ in range(min(most, len(self._taken)))]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._thread.is_running:
            self.unsubscribe()


class Client:
    """One client of a network. Made, and opened, by `connect`."""

    def __init__(self, thread: LoopThread, client: clients.Client) -> None:
        self._thread = thread
        self._client = client

    def __repr__(self) -> str:
        return repr(self._client)

    @property
    def name(self) -> str:
        """The client's name, by which brokers and subscribers know it."""
        return self._client.name

    @property
    def is_attached(self) -> bool:
        """Whether the client is connected and a broker has attached it."""
        return self._client.is_attached

    @property
    def status(self) -> ClientStatus:
        """The state and the counters of the client."""
        return self._client.status

    def broker_status(self, timeout: float | None = None) -> BrokerStatus:
        """The status of the broker: its tables, links and neighbours. Raises `NotToldError`."""
        return self._thread.run(self._client.broker_status(timeout))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._thread.is_running:
            try:
                self._thread.run(self._client.__aexit__(kind, error, traceback))
            finally:
                self._thread.stop()

    def close(self) -> None:
        """Disconnect and end the session at once; what the broker has not accepted is dropped."""
        if self._thread.is_running:
            self._thread.run(self._client.close())
            self._thread.stop()

    def drain(self, timeout: float | None = None) -> None:
        """Accept no more publications, wait until all are confirmed, then withdraw all
        registrations and end the session. Events already received can be taken until `close`."""
        self._thread.run(self._client.drain(timeout))

    def publish(
        self,
        attributes: Mapping[str, Value],
        data: Data = b"",
        *,
        routes: bool = False,
        mandatory: bool = False,
        timeout: float | None = None,
    ) -> Receipt:
        """Publish, and wait until the broker has accepted it. Raises `RefusedError`,
        `NotAcceptedError`. `routes`: the receipt tells where it went. `mandatory`: raises
        `UnroutedError` if that is nowhere and the advertisement is settled."""
        work = self._client.publish(
            attributes, data, routes=routes, mandatory=mandatory, timeout=timeout
        )
        return Receipt(self._thread, self._thread.run(work))

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

        async def work() -> AsyncReceipt:
            return self._client.publish_nowait(attributes, data, routes=routes, mandatory=mandatory)

        return Receipt(self._thread, self._thread.run(work()))

    def publish_all(
        self, publications: Iterable[Publication], *, timeout: float | None = None
    ) -> int:
        """Publish many, a window of them at a time, and wait until the broker has accepted all;
        their number."""
        count, source = 0, iter(publications)
        while some := list(islice(source, TOGETHER)):
            self._thread.run(self._client.send_all(some, timeout=timeout))
            count += len(some)
        self.flush(timeout)
        return count

    def flush(self, timeout: float | None = None) -> None:
        """Wait until the broker has accepted everything published."""
        self._thread.run(self._client.flush(timeout))

    def confirmed(self, timeout: float | None = None) -> None:
        """Wait until every copy of everything published has arrived."""
        self._thread.run(self._client.confirmed(timeout))

    def advertise(
        self,
        *filters: str | Filter,
        name: str | None = None,
        settled: bool = True,
        timeout: float | None = None,
    ) -> Advertisement:
        """Announce what will be published, and wait until that is settled."""

        async def work() -> subscriptions.Advertisement:
            return await self._client.advertise(
                *filters, name=name, settled=settled, timeout=timeout
            )

        return Advertisement(self._thread, self._thread.run(work()))

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
        """Subscribe to what matches one of the filters, and wait until that is settled."""

        async def work() -> subscriptions.Subscription:
            return await self._client.subscribe(
                *filters, name=name, settled=settled, timeout=timeout,
                pending_messages=pending_messages, pending_bytes=pending_bytes,
                when_full=when_full,
            )  # fmt: skip

        return Subscription(self._thread, self._thread.run(work()))


def connect(url: str | Sequence[str] | None = None, **options: Any) -> Client:
    """A client of the broker at `byway://host:port`, connected; address and options are those of
    `byway.connect`. Use it in `with`, or call `close`."""

    async def work() -> clients.Client:
        return await clients.connect(url, **options)

    thread = LoopThread("byway client")
    try:
        return Client(thread, thread.run(work()))
    except BaseException:
        thread.stop()
        raise
