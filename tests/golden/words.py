"""Inputs and actions of brokers in words, one line each: what golden files are made of.

It decides how things are written, not what is shown. Nothing here depends on how an object prints
itself, nor on values that mean nothing to a reader (digests are counted, not shown).
"""

from collections.abc import Iterable, Mapping

import msgspec

from byway.core.actions import CancelTimer, CloseLink, OpenLink, Send, SendReply, SetTimer, Timer
from byway.core.inputs import (
    ClientAttached,
    ClientDetached,
    ClientRequested,
    FrameReceived,
    LinkDown,
    LinkUp,
    LoadSampled,
    NeighbourAdded,
    NeighbourRemoved,
    NeighbourReplaced,
    Started,
    TimerFired,
)
from byway.model.messages import (
    Acknowledge,
    Advertise,
    AdvertisementSettled,
    AdvertisementsSynced,
    AdvertiseRequest,
    Attached,
    Batch,
    Body,
    BrokersUnreachable,
    DeliveriesReceived,
    Delivery,
    Disconnect,
    EntryId,
    Hello,
    LinkKind,
    LinkProbe,
    Load,
    LoadReport,
    NeighbourNames,
    PublicationRouted,
    PublicationsAccepted,
    PublicationsConfirmed,
    PublicationsUnconfirmed,
    Publish,
    PublishRequest,
    RecordUpdate,
    Refused,
    RelayedRecord,
    RoutesRequest,
    SelectiveAcknowledge,
    Settled,
    SoftSpan,
    SpanTaken,
    Subscribe,
    SubscribeAlong,
    SubscribeRequest,
    SubscriptionsSettled,
    SubscriptionsSynced,
    SyncDigest,
    SyncNames,
    SyncNamesAlong,
    SyncRequest,
    Unadvertise,
    UnadvertiseRequest,
    UnorderedAttached,
    UnorderedHello,
    Unsubscribe,
    UnsubscribeRequest,
)

_decode_body = msgspec.msgpack.Decoder(Body).decode


def input_line(broker: str, event: object) -> str:
    """`B2 <- B1      control 4: Subscribe sub/s#1 price > 80`."""
    match event:
        case FrameReceived():
            return _line(f"{broker} <- {event.link}", frame(event.frame))
        case ClientAttached() | ClientDetached() | ClientRequested():
            return _line(f"{broker} <= {event.client}", _of_client(event))
        case _:
            return _line(f"{broker} **", _of_driver(event))


def action_line(broker: str, action: object) -> str:
    """The same for what a broker wants done; it stands under the input, indented."""
    match action:
        case Send():
            line = _line(f"{broker} -> {action.link}", frame(action.frame))
        case SendReply():
            told = "; ".join(reply(r) for r in action.replies)
            line = _line(f"{broker} => {action.client}", told)
        case _:
            line = _line(f"{broker} **", _other_action(action))
    return f"  {line}"


def _line(who: str, what: str) -> str:
    return f"{who:<11} {what}"


# --- what happens --------------------------------------------------------------------------------


def _of_driver(event: object) -> str:
    match event:
        case Started():
            return "starts"
        case LinkUp():
            return f"link to {event.link} up: {_hello(event.hello)}"
        case LinkDown():
            return f"link to {event.link} down"
        case TimerFired():
            return f"timer {_timer(event.timer)} fires"
        case LoadSampled():
            return f"load sampled: {event.queued} queued, uplink {event.uplink:.0%}"
        case NeighbourAdded():
            return f"neighbour {event.neighbour} added"
        case NeighbourRemoved():
            return f"neighbour {event.neighbour} removed"
        case NeighbourReplaced():
            return f"neighbour {event.neighbour} replaced by {event.successor}"
    raise AssertionError(f"no words for {event}")


def _of_client(event: ClientAttached | ClientDetached | ClientRequested) -> str:
    match event:
        case ClientAttached():
            ttl = f", kept for {duration(event.session_ttl_us)}" if event.session_ttl_us else ""
            has = f", has {event.received}" if event.received else ""
            had = ", had a session" if event.resumes else ""
            return f"attaches as incarnation {event.incarnation}{ttl}{has}{had}"
        case ClientDetached():
            return "says goodbye" if event.for_good else "vanishes"
        case ClientRequested():
            return "; ".join(request(r) for r in event.requests)


def request(what: object) -> str:
    """A client's request."""
    match what:
        case AdvertiseRequest():
            return f"advertise {what.name}: {what.filter}"
        case UnadvertiseRequest():
            return f"unadvertise {what.name}"
        case SubscribeRequest():
            return f"subscribe {what.name}: {what.filter}"
        case UnsubscribeRequest():
            return f"unsubscribe {', '.join(what.names)}"
        case PublishRequest():
            return f"publish {what.sequence} {_attributes(what.body)}"
        case DeliveriesReceived():
            return f"has deliveries up to {what.number}"
        case RoutesRequest():
            return f"wants to know where {what.sequence} goes"
    raise AssertionError(f"no words for {what}")


# --- what is done --------------------------------------------------------------------------------


def _other_action(action: object) -> str:
    match action:
        case SetTimer():
            return f"timer {_timer(action.timer)} set for {duration(action.at_us)}"
        case CancelTimer():
            return f"timer {_timer(action.timer)} cancelled"
        case OpenLink():
            soft = "soft " if action.kind is LinkKind.SOFT else ""
            return f"open {soft}link to {action.link}"
        case CloseLink():
            return f"close link to {action.link}: {action.reason}"
    raise AssertionError(f"no words for {action}")


def reply(what: object) -> str:
    """What a client is told."""
    match what:
        case Attached():
            state = "session resumed" if what.resumed else "new session"
            lost = f", deliveries lost: {what.lost}" if what.lost else ""
            order = ""
            if isinstance(what, UnorderedAttached):
                order = f", no order kept, a window of {what.window} sequences"
            return f"Attached, {state}, {what.published} published{lost}{order}"
        case Settled():
            return f"Settled {what.name}"
        case Refused():
            return f"Refused{what.subject and ' '}{what.subject}: {what.reason}"
        case PublicationRouted():
            settled = "settled" if what.settled else "not settled"
            links = ", ".join(what.links) or "no link"
            return f"{what.sequence} went to {what.clients} clients and {links}, {settled}"
        case PublicationsAccepted() | PublicationsConfirmed():
            return f"{type(what).__name__} {what.sequence}"
        case Delivery():
            names = ", ".join(what.names)
            return f"Delivery {what.number} {_publication(what.publication)} [{names}]"
    raise AssertionError(f"no words for {what}")


# --- frames and messages -------------------------------------------------------------------------


def frame(what: Batch | Acknowledge | Hello) -> str:
    """A frame; its messages are parted by semicolons."""
    match what:
        case Batch():
            said = "; ".join(message(m) for m in what.messages)
            return f"{what.lane.name.lower()} {what.first}: {said}"
        case Acknowledge():
            numbers = f"control {what.control}, data {what.data}"
            runs = what.runs if isinstance(what, SelectiveAcknowledge) else ()
            return f"acknowledge: {numbers}, confirmed {what.confirmed}{_runs(runs)}"
        case Hello():
            return _hello(what)


def message(what: object) -> str:
    """A message between brokers."""
    kind = type(what).__name__
    match what:
        case SubscribeAlong():
            return f"{kind} {entry(what.id)} {what.filter} along {', '.join(what.path)}"
        case Advertise() | Subscribe() | Unadvertise():
            return f"{kind} {entry(what.id)} {what.filter}"
        case AdvertisementSettled():
            return f"{kind} {entry(what.id)}"
        case SubscriptionsSettled() | Unsubscribe():
            return f"{kind} {_entries(what.ids)}"
        case AdvertisementsSynced() | SubscriptionsSynced():
            return f"{kind}, ended {_entries(what.ended)}" if what.ended else kind
        case Publish():
            return f"Publish {_publication(what)} hop {what.hop} distance {what.distance}"
        case LoadReport():
            return f"{kind} {', '.join(_load(load) for load in what.loads)}"
        case LinkProbe():
            return f"{kind} {what.number} {' – '.join(what.path)}"
        case Disconnect():
            return f"{kind}: {what.reason}"
        case NeighbourNames():
            return f"{kind} {', '.join(what.names)}{_restarting(what)}"
        case BrokersUnreachable():
            return f"{kind} {', '.join(what.brokers) or 'none'}"
        case RecordUpdate():
            return f"{kind} {_records(what)}"
        case SoftSpan() | SpanTaken():
            return f"{kind} past {', '.join(what.path)}" if what.path else f"{kind} ended"
        case PublicationsUnconfirmed():
            told = (f"{publisher}:{life} to {last}" for publisher, life, last in what.publishers)
            return f"{kind} {', '.join(told)}"
        case SyncDigest() | SyncRequest() | SyncNames():
            return f"{kind} {_compared(what)}"
    raise AssertionError(f"no words for {what}")


def _compared(what: SyncDigest | SyncRequest | SyncNames) -> str:
    parts = []
    for kind, items in (
        ("advertisement", what.advertisements),
        ("subscription", what.subscriptions),
    ):
        if isinstance(what, SyncNames):
            names = [f"{entry(id)} {'settled' if ok else 'unsettled'}" for id, ok in items]
            if isinstance(what, SyncNamesAlong) and items is what.subscriptions:
                along = zip(names, what.paths, strict=True)
                names = [f"{name} along a path" if path else name for name, path in along]
            parts += [f"{kind}s {', '.join(names)}"] if names else []
        else:
            asked = isinstance(what, SyncRequest)
            buckets = len(items) if asked else sum(digest != 0 for digest in items)
            parts += [f"{kind} buckets: {buckets}"] if buckets else []
    if isinstance(what, SyncDigest) and what.neighbours:
        parts.append(f"neighbours {', '.join(what.neighbours)}")
    said = ", ".join(parts) or "nothing"
    return f"{said}{_restarting(what)}" if isinstance(what, SyncDigest) else said


def _records(what: RecordUpdate) -> str:
    parts = ["anew"] if what.anew else []
    parts += [f"without {', '.join(what.gone)}"] if what.gone else []
    parts += [_record(relayed) for relayed in what.records]
    return ", ".join(parts) or "nothing"


def _record(relayed: RelayedRecord) -> str:
    record = relayed.record
    neighbours = " ".join(record.neighbours) or "nobody"
    said = f"{record.broker} v{record.version} beside {neighbours}, delta {record.delta}"
    return f"({said}, {record.address or 'nowhere'}, hops {relayed.hops})"


def _restarting(what: SyncDigest | NeighbourNames) -> str:
    return ", restarting" if what.restarting else ""


def entry(id: EntryId) -> str:
    """`sub/s#1`, the first thing the client made; of its second incarnation `sub:2/s#1`."""
    return f"{_client(id.client, id.incarnation)}/{id.name}#{id.number}"


def _entries(ids: Iterable[EntryId]) -> str:
    return ", ".join(entry(id) for id in ids)


def _client(name: str, incarnation: int) -> str:
    return name if incarnation == 1 else f"{name}:{incarnation}"


def _publication(what: Publish) -> str:
    name = f"{_client(what.publisher, what.incarnation)}/{what.sequence}"
    return f"{name} {_attributes(what.body)}"


def _attributes(body: bytes) -> str:
    attributes: Mapping[str, object] = _decode_body(body).attributes
    return "{" + ", ".join(f"{name}: {value}" for name, value in attributes.items()) + "}"


def _load(load: Load) -> str:
    rates = f"in {load.publications_in:g}/s out {load.publications_out:g}/s"
    return (
        f"{load.broker} hops {load.hops} {rates} delivers {load.deliveries:g}/s "
        f"queued {load.queued} uplink {load.uplink:.0%}"
    )


def _hello(hello: Hello) -> str:
    said = f"{hello.broker} is incarnation {hello.incarnation}"
    if isinstance(hello, UnorderedHello):
        said += ", keeps no order"
    if not hello.knows:
        return f"{said}, knows none"
    numbers = f"control {hello.control}, data {hello.data}, confirmed {hello.confirmed}"
    numbers += _runs(hello.runs)
    return f"{said}, knows incarnation {hello.knows} epoch {hello.epoch} up to {numbers}"


def _runs(runs: Iterable[tuple[int, int]]) -> str:
    """Numbers that are confirmed too."""
    said = (str(first) if first == last else f"{first} to {last}" for first, last in runs)
    return "".join(f" and {run}" for run in said)


def _timer(timer: Timer) -> str:
    return f"{timer.owner}/{timer.detail}" if timer.detail else timer.owner


def duration(time_us: int) -> str:
    """`5 ms`, `30 s`."""
    for unit_us, name in ((1_000_000, "s"), (1_000, "ms")):
        if time_us % unit_us == 0:
            return f"{time_us // unit_us} {name}"
    return f"{time_us} us"
