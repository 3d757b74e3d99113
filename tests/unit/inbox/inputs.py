"""Frames and requests that wait in an inbox, made by hand."""

from byway.core.inputs import FrameReceived, Input
from byway.inbox import TURN, Inbox
from byway.model import TRUE
from byway.model.messages import (
    Acknowledge,
    Batch,
    Lane,
    Publish,
    PublishRequest,
    SubscribeRequest,
    SubscriptionsSettled,
    UnsubscribeRequest,
)

ACK = Acknowledge(1, 0, 0)
SUBSCRIBE = SubscribeRequest("s", TRUE)
UNSUBSCRIBE = UnsubscribeRequest(("s",))


class Room:
    """A broker that has room for data of these neighbours only; None stands for clients. Of these
    clients it has room for so many publications."""

    def __init__(self, *read: str | None, **rooms: int) -> None:
        self.read = read
        self.rooms = rooms
        self.limits_publications = bool(rooms)

    def publication_room(self, client: str) -> int:
        return self.rooms.get(client, TURN)

    def reads_data_from(self, link: str | None) -> bool:
        return link in self.read


class RoomForAll:
    """A broker that has room for all data."""

    limits_publications = False

    def publication_room(self, client: str) -> int:
        raise AssertionError(f"the room of {client} is as large as that of all")

    def reads_data_from(self, link: str | None) -> bool:
        del link
        return True


ALL = RoomForAll()


def control(first: int = 1, count: int = 1) -> Batch:
    return Batch(Lane.CONTROL, first, (SubscriptionsSettled(()),) * count)


def data(first: int = 1, count: int = 1) -> Batch:
    return Batch(Lane.DATA, first, (Publish("p", 1, 1, 0, 0, 0, 0, b"123"),) * count)


def publications(count: int, size: int = 8, first: int = 1) -> tuple[PublishRequest, ...]:
    return tuple(PublishRequest(n, bytes(size)) for n in range(first, first + count))


def frames(*told: tuple[str, Batch | Acknowledge]) -> list[Input]:
    return [FrameReceived(link, frame) for link, frame in told]


def turns(inbox: Inbox, room: Room | RoomForAll = ALL) -> list[list[Input]]:
    """What is taken, turn by turn, until nothing is."""
    taken = []
    while events := inbox.take(room):
        taken.append(events)
    return taken
