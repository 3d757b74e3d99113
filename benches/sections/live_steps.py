"""The steps of a publication through one live broker: publisher, broker, subscriber.

Each step is the code of the product, called in this process with what the step before it gave, and
timed alone. What a process spends besides (event loop, sockets, queues, memory that is freed) is
what processes of their own take in all, less the steps.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from time import process_time_ns

from benches.net_clients import DIFFERENT, workload
from benches.net_flows import in_turn
from benches.net_processes import chain
from benches.net_sections import IN_TURN, SUBSCRIPTIONS, SYMBOLS, network_traffic
from benches.report import Figure, Section
from benches.run import Run
from byway.core.actions import SendReply
from byway.core.bodies import routes_of
from byway.core.broker import Broker
from byway.core.inputs import ClientAttached, ClientRequested, Started
from byway.matching import TableIndex
from byway.model import ANY, TRUE, Filter
from byway.model.messages import (
    CLIENT_PROTOCOL_VERSION,
    AdvertiseRequest,
    Attached,
    Delivery,
    Preamble,
    PublicationsConfirmed,
    Replies,
    Reply,
    Requests,
    Settled,
    SubscribeRequest,
)
from byway.session.client_actions import ClientTimer, WriteFrame
from byway.session.client_core import ClientCore
from byway.session.client_inputs import (
    ClientOpened,
    ClientTimerFired,
    FrameArrived,
    Greeted,
    PublicationMade,
    Registered,
)
from byway.session.client_options import BrokerUrl, ClientOptions
from byway.session.event_queue import EventQueue
from byway.session.outgoing_publications import OutgoingPublication, encode_body
from byway.session.registrations import Registration
from byway.wire import FRAME_BYTES_MAX, decode, encode_counted
from byway.wire.frames import HEADER_BYTES

TITLE = "a publication through one broker, step by step"
COUNT = 40_000
ROUNDS = 5
FLUSHED = 256
"""Publications that a client sends together: `byway.client.client.TOGETHER`."""
TURN = 1_024
"""Publications that a broker handles in one turn."""
PUBLISHER = (
    "check and encode the body", "number, keep and queue", "make and encode the frame", "confirm"
)  # fmt: skip
BROKER = ("decode the frame", "match", "route and number", "encode deliveries")
SUBSCRIBER = ("decode deliveries", "take them in", "hand out")
REST = "event loop, sockets, queues"


@dataclass
class Spent:
    """Nanoseconds by process and step."""

    count: int
    ns: dict[str, int] = field(default_factory=dict)

    def time(self, step: str, action: Callable[[], object]) -> None:
        """Add what an action takes to a step."""
        began = process_time_ns()
        action()
        self.ns[step] = self.ns.get(step, 0) + process_time_ns() - began

    def us(self, step: str) -> float:
        """Microseconds of a step for one publication."""
        return self.ns[step] / self.count / 1e3


def measure(run: Run) -> Section:
    """The steps in this process, then the processes."""
    count, subscriptions = run.scaled(COUNT), run.scaled(SUBSCRIPTIONS)
    filters = workload(SYMBOLS).take_filters(subscriptions)
    quotes = workload(SYMBOLS).take_publications(min(DIFFERENT, count))
    gc.enable()  # as in the product
    gc.freeze()
    rounds = []
    for number in range(ROUNDS):
        run.step(f"steps: round {number + 1} of {ROUNDS}")
        rounds.append(_steps(filters, list(islice(cycle(quotes), count))))
    gc.disable()
    best = {step: min(spent.us(step) for spent in rounds) for step in rounds[0].ns}
    with chain(1) as net:
        traffic = network_traffic(run, net, SYMBOLS)
        (flow,) = in_turn(
            [traffic], IN_TURN, lambda number: run.step(f"processes: round {number} of {IN_TURN}")
        )
    figures: list[Figure] = []
    for process, steps, total in (
        ("publisher", PUBLISHER, flow.publisher_us),
        ("broker", BROKER, flow.broker_us),
        ("subscriber", SUBSCRIBER, flow.subscriber_us),
    ):
        figures += [
            Figure(f"{process}: {step}", best[f"{process}: {step}"], "µs") for step in steps
        ]
        rest = total - sum(best[f"{process}: {step}"] for step in steps)
        figures += [
            Figure(f"{process}: {REST}", max(rest, 0.0), "µs"),
            Figure(f"{process}: all, as a process", total, "µs"),
        ]
    sizes = {
        "subscriptions": subscriptions + 1,
        "symbols": SYMBOLS,
        "publications": count,
        "body, bytes": round(sum(map(len, map(encode_body, quotes))) / len(quotes)),
        "publications a frame": FLUSHED,
        "publications a turn": TURN,
    }
    return Section("live", TITLE, sizes, figures, [
        "Steps: in this process, one after the other, the best of several rounds. All, as a "
        "process: of processes of their own that exchange publications over loopback TCP, the best "
        "of several rounds. Event loop, sockets, queues: the difference.",
        "Match: reading the body and finding the subscriptions that it matches. Route: the rest of "
        "what the core does.",
    ])  # fmt: skip


def _steps(filters: Sequence[Filter], quotes: list[dict[str, bool | int | float | str]]) -> Spent:
    """All steps of these publications."""
    spent = Spent(len(quotes))
    frames = _publish(spent, quotes)
    deliveries = _route(spent, filters, frames)
    _take(spent, deliveries)
    return spent


# --- the publisher -------------------------------------------------------------------------------


def _attached_client() -> ClientCore:
    """A client that a broker has attached."""
    options = ClientOptions(urls=(BrokerUrl.parse("byway://127.0.0.1:7001"),), name="client")
    core = ClientCore(options, 1, lambda: 1.0)
    core.handle(0, ClientOpened())
    peer = Preamble(CLIENT_PROTOCOL_VERSION, "broker", "B", 1, FRAME_BYTES_MAX, 5_000)
    core.handle(0, Greeted(1, peer))
    core.handle(0, FrameArrived(1, Replies((Attached(False, 0),))))
    return core


def _publish(spent: Spent, quotes: list[dict[str, bool | int | float | str]]) -> list[bytes]:
    core = _attached_client()
    frames: list[bytes] = []
    for first in range(0, len(quotes), FLUSHED):
        some = quotes[first : first + FLUSHED]
        bodies: list[bytes] = []
        check, queue, make, confirm = (f"publisher: {step}" for step in PUBLISHER)
        spent.time(check, lambda b=bodies, s=some: b.extend(map(encode_body, s)))  # type: ignore[misc]
        spent.time(queue, lambda b=bodies: _queue(core, b))  # type: ignore[misc]
        spent.time(make, lambda: frames.extend(_flushed(core)))
        answer = Replies((PublicationsConfirmed(first + len(some)),))
        spent.time(confirm, lambda a=answer: core.handle(1, FrameArrived(1, a)))  # type: ignore[misc]
    return frames


def _queue(core: ClientCore, bodies: list[bytes]) -> None:
    for body in bodies:
        publication = OutgoingPublication(body)
        if not core.join(publication):
            core.handle(1, PublicationMade(publication))


def _flushed(core: ClientCore) -> list[bytes]:
    actions = core.handle(1, ClientTimerFired(ClientTimer.FLUSH))
    written = [action.frame for action in actions if isinstance(action, WriteFrame)]
    return [bytes(data) for frame in written for data, _ in encode_counted(frame)]


# --- the broker ----------------------------------------------------------------------------------


def _route(spent: Spent, filters: Sequence[Filter], frames: list[bytes]) -> list[bytes]:
    """Let a broker handle publications; frames of deliveries to the subscriber of everything."""
    broker = _subscribed(filters)
    index = _index(filters)
    written: list[bytes] = []
    decode_step, match, route, encode = (f"broker: {step}" for step in BROKER)
    for first in range(0, len(frames), TURN // FLUSHED):
        events: list[ClientRequested] = []
        some = frames[first : first + TURN // FLUSHED]
        spent.time(decode_step, lambda e=events, s=some: e.extend(map(_requested, s)))  # type: ignore[misc]
        bodies = [request.body for event in events for request in event.requests]  # type: ignore[union-attr]
        spent.time(match, lambda b=bodies: _match(index, b))  # type: ignore[misc]
        began = process_time_ns()
        actions = broker.handle_batch(5, events)
        spent.ns[route] = spent.ns.get(route, 0) + process_time_ns() - began
        told = [action for action in actions if isinstance(action, SendReply)]
        spent.time(encode, lambda t=told: written.extend(_written(t)))  # type: ignore[misc]
    spent.ns[route] -= spent.ns[match]
    return written


def _subscribed(filters: Sequence[Filter]) -> Broker:
    """A broker with all subscriptions, and a client that may publish anything."""
    broker = Broker("B")
    broker.handle(1, Started())
    for client in ("client", "everything", "owner"):
        broker.handle(1, ClientAttached(client, 1))
    requests = [SubscribeRequest(f"s.1.{n}", one) for n, one in enumerate(filters)]
    broker.handle(2, ClientRequested("owner", tuple(requests)))
    broker.handle(2, ClientRequested("everything", (SubscribeRequest("s.1.1", TRUE),)))
    broker.handle(3, ClientRequested("client", (AdvertiseRequest("a.1.1", ANY),)))
    return broker


def _index(filters: Sequence[Filter]) -> TableIndex:
    """An index of the same subscriptions, to match alone."""
    index = TableIndex()
    for key, one in enumerate((*filters, TRUE)):
        index.add(key, one)
    return index


def _match(index: TableIndex, bodies: list[bytes]) -> None:
    for body in bodies:
        routes_of(body, index, None)


def _requested(frame: bytes) -> ClientRequested:
    requests = decode(memoryview(frame)[HEADER_BYTES:], requests_later=True)
    assert isinstance(requests, Requests)
    return ClientRequested("client", requests.requests)


def _written(told: list[SendReply]) -> list[bytes]:
    """Frames of deliveries, encoded for all clients; those of the subscriber of everything."""
    written: list[bytes] = []
    for action in told:
        frames = [bytes(data) for data, _ in encode_counted(Replies(action.replies))]
        if action.client == "everything":
            written += frames
    return written


# --- the subscriber ------------------------------------------------------------------------------


def _take(spent: Spent, frames: list[bytes]) -> None:
    core = _attached_client()
    queue = EventQueue(2 * spent.count, 2**40, "block")
    core.handle(1, Registered(Registration("s", [TRUE], queue)))
    core.handle(1, FrameArrived(1, Replies((Settled("s.1.1"),))))
    decode_step, take, hand_out = (f"subscriber: {step}" for step in SUBSCRIBER)
    for frame in frames:
        found: list[tuple[Reply, ...]] = []
        spent.time(decode_step, lambda f=frame, o=found: o.append(_replies(f)))  # type: ignore[misc]
        arrived = FrameArrived(1, Replies(found[0]))
        spent.time(take, lambda a=arrived: core.handle(1, a))  # type: ignore[misc]
        spent.time(hand_out, lambda: queue.take_some(TURN))
    assert core.deliveries.events == spent.count


def _replies(frame: bytes) -> tuple[Reply, ...]:
    replies = decode(memoryview(frame)[HEADER_BYTES:])
    assert isinstance(replies, Replies)
    return tuple(reply for reply in replies.replies if type(reply) is Delivery)
