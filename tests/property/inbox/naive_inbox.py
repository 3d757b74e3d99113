"""What an inbox promises, written down naively: lists of what waits, and a judge of every turn."""

from collections.abc import Collection, Mapping

from byway.core.inputs import (
    ClientAttached,
    ClientDetached,
    ClientRequested,
    FrameReceived,
    Input,
)
from byway.inbox import TURN, Inbox
from byway.model.messages import (
    DATA,
    Batch,
    DeliveriesReceived,
    Frame,
    PublishRequest,
    Request,
    SubscribeRequest,
    UnsubscribeRequest,
)
from byway.model.request_costs import cost_of

OVERTAKING = (SubscribeRequest, UnsubscribeRequest, DeliveriesReceived)


class Piece:
    """What came from a client at one time: the requests of a frame, or an attachment."""

    def __init__(self, event: Input, bytes: int, overtakes: bool) -> None:
        self.event = event
        self.bytes = bytes
        self.overtakes = overtakes
        is_frame = isinstance(event, ClientRequested)
        self.left: list[Request] = list(event.requests) if is_frame else []
        self.is_fixed = not is_frame or (
            not overtakes and any(isinstance(r, OVERTAKING) for r in self.left)
        )

    @property
    def count(self) -> int:
        return len(self.left) or 1


def messages_in(event: Input) -> int:
    if isinstance(event, FrameReceived) and isinstance(event.frame, Batch):
        return len(event.frame.messages)
    return 0


class NaiveInbox:
    """The same inputs as in an inbox under test, which is judged turn by turn."""

    def __init__(self) -> None:
        self.inbox = Inbox()
        self.control: list[Input] = []
        self.data: dict[str, list[FrameReceived]] = {}
        self.pieces: dict[str, list[Piece]] = {}
        self.peak = 0
        self.passed_over: dict[str, dict[str, int]] = {"data": {}, "requests": {}}
        """By sender, the turns in a row in which it could have had a share and got nothing."""

    # --- what comes in ---------------------------------------------------------------------------

    def put_frame(self, link: str, frame: Frame) -> None:
        self.inbox.put_frame(link, frame)
        if isinstance(frame, Batch) and frame.lane is DATA and frame.messages:
            self.data.setdefault(link, []).append(FrameReceived(link, frame))
        else:
            self.control.append(FrameReceived(link, frame))
        self.check()

    def put_control(self, event: Input) -> None:
        self.inbox.put_control(event)
        self.control.append(event)
        self.check()

    def put_requests(self, client: str, requests: tuple[Request, ...], bytes: int) -> None:
        self.inbox.put_requests(client, requests, bytes)
        if requests:
            before = self.pieces.setdefault(client, [])
            overtakes = all(isinstance(r, OVERTAKING) for r in requests) and not any(
                piece.is_fixed for piece in before
            )
            before.append(Piece(ClientRequested(client, requests), bytes, overtakes))
        self.check()

    def put_attachment(self, event: ClientAttached | ClientDetached) -> None:
        self.inbox.put_attachment(event)
        self.pieces.setdefault(event.client, []).append(Piece(event, 0, False))
        self.check()

    def drop_link(self, link: str) -> None:
        self.inbox.drop_link(link)
        self.control = [
            e for e in self.control if not (isinstance(e, FrameReceived) and e.link == link)
        ]
        self.data.pop(link, None)
        self.check()

    def drop_connection(self, client: str) -> None:
        pieces = self.pieces.get(client, [])
        goodbyes = [at for at, p in enumerate(pieces) if isinstance(p.event, ClientDetached)]
        assert self.inbox.drop_connection(client) == (not goodbyes)
        del pieces[goodbyes[-1] + 1 if goodbyes else 0 :]
        self.check()

    def drop_client(self, client: str) -> None:
        pieces = self.pieces.pop(client, [])
        said = any(isinstance(p.event, ClientDetached) for p in pieces)
        assert self.inbox.drop_client(client) == said
        self.check()

    # --- counts ----------------------------------------------------------------------------------

    def check(self) -> None:
        """Everything that waits is counted, and nothing else."""
        inbox = self.inbox
        self.pieces = {client: pieces for client, pieces in self.pieces.items() if pieces}
        self.data = {link: events for link, events in self.data.items() if events}
        all_pieces = [piece for pieces in self.pieces.values() for piece in pieces]
        of_clients = sum(piece.count for piece in all_pieces)
        data = [event for events in self.data.values() for event in events]
        waiting = of_clients + sum(map(messages_in, self.control)) + sum(map(messages_in, data))
        self.peak = max(self.peak, waiting)
        assert (inbox.waiting, inbox.peak) == (waiting, self.peak)
        assert inbox.requests.count == of_clients
        assert inbox.requests.bytes == sum(piece.bytes for piece in all_pieces)
        assert bool(inbox) == bool(self.control or data or all_pieces)
        for client in "abc":
            pieces = self.pieces.get(client, [])
            counted = sum(p.count for p in pieces), sum(p.bytes for p in pieces)
            assert inbox.requests.waiting_from(client) == counted
            assert inbox.requests.has(client) == bool(pieces)
        assert len(list(inbox)) == len(self.control) + len(all_pieces) + len(data)

    # --- turns -----------------------------------------------------------------------------------

    def turn(
        self, read: Collection[str | None], rooms: Mapping[str, int] | None = None
    ) -> list[Input]:
        """Let the inbox hand over a turn to a broker that has room for the data of these
        neighbours; None: for all data. `rooms`: for so many publications of some clients."""
        room = Room(read, rooms)
        ready = bool(self.control) or any(
            any(p.overtakes for p in pieces) or not self._waits(pieces[0], 0)
            for client, pieces in self.pieces.items()
            if client not in self.inbox.deaf
        )
        assert self.inbox.has_ready == ready
        is_full = sum(map(messages_in, self.control)) > TURN
        taken = self.inbox.take(room)
        rest = self._judge_control(taken)
        if is_full:
            assert not rest, "data or requests overtake control"
        else:
            requests = [e for e in rest if not isinstance(e, FrameReceived)]
            data = rest[len(requests) :]
            stopped = self.inbox.holding or self.inbox.draining
            takes = not stopped and room.reads_data_from(None)
            self._judge_requests(
                requests, {c: room.publication_room(c) if takes else 0 for c in self.pieces}
            )
            self._judge_data(data, [] if stopped else [x for x in "ABCDE" if room.reads(x)])
        self.check()
        return taken

    def _judge_control(self, taken: list[Input]) -> list[Input]:
        count = 0
        while self.control and taken[count : count + 1] == [self.control[0]]:
            del self.control[0]
            count += 1
        sizes = list(map(messages_in, taken[:count]))
        assert sum(sizes[:-1]) < TURN
        assert sum(sizes) >= TURN or not self.control
        return taken[count:]

    def _judge_data(self, taken: list[Input], links: list[str]) -> None:
        could = {link for link in links if self.data.get(link)}
        got: set[str] = set()
        sizes = []
        for event in taken:
            assert isinstance(event, FrameReceived)
            assert event.link in could, "data that the broker does not read"
            assert self.data[event.link].pop(0) == event, "the order of a neighbour"
            got.add(event.link)
            sizes.append(messages_in(event))
        assert sum(sizes[:-1]) < TURN
        assert sum(sizes) >= TURN or not any(self.data.get(link) for link in links)
        self._judge_fairness("data", could, got, len("BCDE"))

    def _judge_fairness(self, kind: str, could: set[str], got: set[str], others: int) -> None:
        """A sender waits for each of the others once at most."""
        before = self.passed_over[kind]
        after = {sender: before.get(sender, 0) + 1 for sender in could - got}
        assert max(after.values(), default=0) <= others, f"{after} starve"
        self.passed_over[kind] = after

    def _judge_requests(self, taken: list[Input], room: dict[str, int]) -> None:
        """`room`: by client, for how many of its publications there is room."""
        could = {c for c, pieces in self.pieces.items() if self._next(c, pieces, room[c], False)}
        got: set[str] = set()
        costs: dict[bool, list[int]] = {True: [], False: []}
        for event in taken:
            assert isinstance(event, ClientRequested | ClientAttached | ClientDetached)
            assert event.client not in self.inbox.deaf
            piece = self._piece_of(event)
            if not piece.overtakes:
                got.add(event.client)
            if isinstance(event, ClientRequested):
                room[event.client] -= sum(isinstance(r, PublishRequest) for r in event.requests)
                assert room[event.client] >= 0, "more publications than there is room for"
                costs[piece.overtakes] += map(cost_of, event.requests)
                del piece.left[: len(event.requests)]
                if piece.left:
                    continue
            else:
                costs[False].append(1)
            self.pieces[event.client].remove(piece)
        for overtakes, spent in costs.items():
            assert sum(spent[:-1]) < TURN
            if sum(spent) < TURN:
                for client, pieces in self.pieces.items():
                    assert not self._next(client, pieces, room[client], overtakes)
        self._judge_fairness("requests", could, got, len("bc"))

    def _piece_of(self, event: ClientRequested | ClientAttached | ClientDetached) -> Piece:
        """The piece that an input hands over, or a part of; it must be the client's next."""
        pieces = self.pieces[event.client]
        if not isinstance(event, ClientRequested):
            assert pieces[0].event == event, "an attachment overtakes"
            return pieces[0]
        for piece in pieces:
            if piece.left[: len(event.requests)] == list(event.requests):
                if not piece.overtakes:
                    assert piece is pieces[0], "the order of a client"
                return piece
            earlier = [r for r in piece.left if isinstance(r, OVERTAKING)]
            assert not earlier, "it overtakes what it may not"
            assert isinstance(piece.event, ClientRequested), "it overtakes an attachment"
        raise AssertionError("nothing like that waits")

    def _next(self, client: str, pieces: list[Piece], publications: int, overtakes: bool) -> bool:
        """Whether something of a client in this lane may be taken now."""
        if client in self.inbox.deaf or not pieces:
            return False
        if overtakes:
            return any(piece.overtakes for piece in pieces)
        return not pieces[0].overtakes and not self._waits(pieces[0], publications)

    @staticmethod
    def _waits(piece: Piece, publications: int) -> bool:
        first = piece.left[0] if piece.left else None
        return isinstance(first, PublishRequest) and not publications


class Room:
    """A broker that has room for the data of some neighbours; None: for all data. Of some clients
    it has room for few publications."""

    def __init__(
        self, read: Collection[str | None], rooms: Mapping[str, int] | None = None
    ) -> None:
        self.read = read
        self.rooms = rooms or {}
        self.limits_publications = bool(self.rooms)

    def publication_room(self, client: str) -> int:
        return self.rooms.get(client, TURN)

    def reads_data_from(self, link: str | None) -> bool:
        return None in self.read or (link is not None and link in self.read)

    def reads(self, link: str) -> bool:
        return self.reads_data_from(link)
