"""Of a client no more publications are handed over than there is room for."""

from byway.core.inputs import ClientRequested
from byway.inbox import Inbox
from byway.model import TRUE
from byway.model.messages import AdvertiseRequest, PublishRequest
from tests.unit.inbox.inputs import SUBSCRIBE, Room

ADVERTISE = AdvertiseRequest("a", TRUE)


def publications(*sequences: int) -> tuple[PublishRequest, ...]:
    return tuple(PublishRequest(sequence, b"") for sequence in sequences)


def test_a_frame_is_handed_over_in_parts_as_there_is_room():
    inbox = Inbox()
    inbox.put_requests("c", publications(1, 2, 3, 4, 5), 50)
    assert inbox.take(Room(None, c=2)) == [ClientRequested("c", publications(1, 2))]
    assert (inbox.waiting, bool(inbox)) == (3, True)
    assert inbox.take(Room(None, c=0)) == []
    assert inbox.take(Room(None, c=7)) == [ClientRequested("c", publications(3, 4, 5))]
    assert (inbox.waiting, bool(inbox)) == (0, False)


def test_room_is_for_several_frames_together():
    inbox = Inbox()
    inbox.put_requests("c", publications(1, 2), 20)
    inbox.put_requests("c", publications(3, 4), 20)
    assert inbox.take(Room(None, c=3)) == [
        ClientRequested("c", publications(1, 2)),
        ClientRequested("c", publications(3)),
    ]


def test_other_clients_do_not_wait():
    inbox = Inbox()
    inbox.put_requests("c", publications(1), 10)
    inbox.put_requests("d", publications(1), 10)
    assert inbox.take(Room(None, c=0)) == [ClientRequested("d", publications(1))]


def test_what_stands_behind_a_publication_waits_with_it_but_what_overtakes():
    inbox = Inbox()
    inbox.put_requests("c", (ADVERTISE, *publications(1), ADVERTISE), 30)
    inbox.put_requests("c", (SUBSCRIBE,), 10)
    assert inbox.take(Room(None, c=0)) == [
        ClientRequested("c", (SUBSCRIBE,)),
        ClientRequested("c", (ADVERTISE,)),
    ]
    assert inbox.take(Room(None, c=1)) == [ClientRequested("c", (*publications(1), ADVERTISE))]
