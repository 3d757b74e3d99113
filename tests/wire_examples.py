"""One example of everything that travels over a connection."""

from byway.model import ANY, TRUE, parse
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
    ClientHello,
    DeliveriesReceived,
    Delivery,
    Disconnect,
    EntryId,
    Goodbye,
    Hello,
    Hint,
    HoldDeliveries,
    KeepAlive,
    Lane,
    LinkProbe,
    Load,
    LoadReport,
    NeighbourNames,
    Preamble,
    PublicationRouted,
    PublicationsAccepted,
    PublicationsConfirmed,
    Publish,
    PublishRequest,
    Refused,
    Replies,
    Requests,
    Retire,
    RoutesRequest,
    SelectiveAcknowledge,
    Settled,
    Status,
    StatusRequest,
    Subscribe,
    SubscribeAlong,
    SubscribeMany,
    SubscribeRequest,
    SubscriptionsSettled,
    SubscriptionsSynced,
    SyncDigest,
    SyncNames,
    SyncNamesAlong,
    SyncRequest,
    Unadvertise,
    UnadvertiseRequest,
    Unsubscribe,
    UnsubscribeRequest,
    Welcome,
)
from byway.wire.codec import _encoder

ID = EntryId("alice", "cheap", 7, 2)
OTHER_ID = EntryId("alice", "dear", 7, 3)
FILTER = parse(
    "symbol = 'YHOO' AND price > 18.5 OR name LIKE 'Ab%' AND volume BETWEEN 1 AND 9 "
    "OR flag = TRUE AND NOT EXISTS(x) OR n IN (1, 2) AND s NOT LIKE '%q'"
)
BODY = _encoder.encode(Body({"symbol": "YHOO", "price": 19.5, "open": True, "n": -3}, b"data"))
PUBLICATION = Publish("bob", 5, 9, 1_000_000, 2, 1, 4, BODY)
HINTED = Unsubscribe((ID, OTHER_ID), (0.6, 0.9), ((Hint("bob", (0, 3)), Hint("carol", (1, 1))), ()))

CONTROL = (
    Advertise(ID, ANY),
    AdvertisementSettled(ID),
    Subscribe(ID, FILTER),
    SubscribeAlong(ID, TRUE, ("B2", "B3")),
    SubscribeMany((Subscribe(ID, FILTER), Subscribe(OTHER_ID, TRUE))),
    SubscriptionsSettled((ID, ID)),
    Unsubscribe((ID,)),
    Retire((ID, OTHER_ID)),
    SyncDigest((1, 2**64 - 1), (), ("B2", "B3"), True),
    NeighbourNames(("B1", "B3"), True),
    BrokersUnreachable(("B4", "B5")),
    SyncRequest((3,), (4, 5)),
    SyncNames(((ID, True),), ((ID, False),)),
    SyncNamesAlong(((ID, True),), ((ID, False), (OTHER_ID, True)), False, (0, 2**64 - 1)),
    AdvertisementsSynced((ID,)),
    SubscriptionsSynced(()),
    LinkProbe(("B1", "B2"), 3, 1),
    Disconnect("it is no neighbour any more"),
    LoadReport((Load("B1", 1, 17, 100.5, 200.25, 3.0, 12, 0.5),)),
)
DATA = (PUBLICATION, Unadvertise(ID, FILTER))
REQUESTS = (
    AdvertiseRequest("a", ANY),
    UnadvertiseRequest("a"),
    SubscribeRequest("s", FILTER),
    UnsubscribeRequest(("s", "t")),
    PublishRequest(3, BODY),
    DeliveriesReceived(8),
    RoutesRequest(9),
)
REPLIES = (
    Attached(True, 4, 1),
    Settled("s"),
    Refused("3", "it conforms to no advertisement of this client"),
    PublicationsAccepted(6),
    PublicationsConfirmed(5),
    Delivery(2, PUBLICATION, ("s", "t")),
    PublicationRouted(9, 2, ("B2", "B3"), True),
)
FRAMES = {
    "preamble": Preamble(2, "broker", "B1", 3, 4_194_304, 5_000),
    "hello": Hello("B1", 3, 2, 10, 20, 15, 4),
    "acknowledge": Acknowledge(4, 5, 3),
    "selective-acknowledge": SelectiveAcknowledge(4, 9, 3, ((5, 6), (9, 9))),
    "client-hello": ClientHello(60_000_000, 7, True),
    "welcome": Welcome(1_048_576),
    "keep-alive": KeepAlive(),
    "hold-deliveries": HoldDeliveries(True),
    "status-request": StatusRequest(),
    "status": Status(b'{"broker":"B1"}'),
    "goodbye": Goodbye("the broker stops", True),
    **{f"control-{type(m).__name__}": Batch(Lane.CONTROL, 1, (m,)) for m in CONTROL},
    "control-Unsubscribe-hinted": Batch(Lane.CONTROL, 1, (HINTED,)),
    **{f"data-{type(m).__name__}": Batch(Lane.DATA, 9, (m,)) for m in DATA},
    **{f"request-{type(m).__name__}": Requests((m,)) for m in REQUESTS},
    **{f"reply-{type(m).__name__}": Replies((m,)) for m in REPLIES},
}
