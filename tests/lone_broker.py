"""One broker, B, whose neighbours and clients are played by the test: frames made by hand.

`Lone` keeps the numbers of what each neighbour sends, so that a test says only what matters. The
functions below it make the actions to expect, and things to send.
"""

from collections.abc import Iterable

import msgspec

from byway.core.actions import Action, Send, SetTimer
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import (
    ClientAttached,
    ClientRequested,
    FrameReceived,
    Input,
    LinkUp,
    Started,
)
from byway.core.reachability import TIMER as REACHABILITY_TIMER
from byway.model import ANY, TRUE, Filter, parse
from byway.model.messages import (
    LANE_OF,
    Acknowledge,
    Advertise,
    AdvertisementsSynced,
    Batch,
    Body,
    EntryId,
    Hello,
    Lane,
    Message,
    NeighbourNames,
    Publish,
    PublishRequest,
    Request,
    Subscribe,
    SubscriptionsSynced,
    SyncDigest,
    Unadvertise,
    UnorderedHello,
)
from byway.trace import TraceBuffer

encode = msgspec.msgpack.encode
DEFAULT = BrokerConfig()
NOTHING = SyncDigest((), ())
NAMES = NeighbourNames(("B",))
"""What a neighbour that has no other sends when it knows what B holds: it takes data."""
TOLD = AdvertisementsSynced(), SubscriptionsSynced()


class Lone:
    """Broker B, connected to its neighbours, which have compared tables with it (unless not
    `agreed`): each of the two has sent four messages by then.

    Every change of a link sets the timer of `reachability`, which is left out of the actions unless
    a test asks for it (`all_timers`). `restored`: before every input B is replaced by a broker that
    is restored from its snapshot, so that a test shows that a snapshot holds all that matters to
    it.
    """

    all_timers = False
    restored = False

    def __init__(
        self,
        *links: str,
        config: BrokerConfig = DEFAULT,
        trace: TraceBuffer | None = None,
        agreed: bool = True,
        restarting: bool = False,
        expects_unlisted: bool = False,
        all_timers: bool = False,
        restored: bool = False,
    ) -> None:
        self.broker = Broker(
            "B",
            links,
            config,
            trace=trace,
            restarting=restarting,
            expects_unlisted=expects_unlisted,
        )
        self.trace = trace
        self.all_timers = all_timers
        self.restored = restored
        self.now_us = 0
        self.sent = {link: [0, 0] for link in links}
        self.handle(Started())
        for link in links if agreed else ():
            self.agree(link)

    def handle(self, *events: Input) -> list[Action]:
        """Let B handle a batch. Returns its actions."""
        if self.restored:
            self._restore()
        actions = self.broker.handle_batch(self.now_us, events)
        return actions if self.all_timers else without_reachability(actions)

    def _restore(self) -> None:
        """Another broker goes on from the snapshot; connections are as they were."""
        stored = self.broker.snapshot()
        self.broker = twin_of(self.broker, self.trace)
        assert self.broker.snapshot() == stored

    # --- neighbours ----------------------------------------------------------------------------

    def meet(self, link: str, incarnation: int = 1) -> list[Action]:
        """Connect a neighbour that knows nothing of B. Returns B's actions."""
        self.sent[link] = [0, 0]
        window = self.broker.config.publisher_window
        ordered = self.broker.config.mesh.order == "publisher"
        kind = Hello if ordered else UnorderedHello
        hello = kind(link, incarnation, 0, 0, 0, 0, publisher_window=window)
        return self.handle(LinkUp(link, hello))

    def agree(self, link: str, incarnation: int = 1) -> list[Action]:
        """Connect a neighbour that holds nothing, and compare tables. Returns B's last actions."""
        self.meet(link, incarnation)
        self.receive(link, NOTHING, NAMES)
        return self.receive(link, *TOLD)

    def frame(self, link: str, *messages: Message) -> FrameReceived:
        """The next frame of a neighbour, numbered behind all that it sent."""
        lane = LANE_OF[type(messages[0])]
        first = self.sent[link][lane] + 1
        self.sent[link][lane] += len(messages)
        return FrameReceived(link, Batch(lane, first, messages))

    def receive(self, link: str, *messages: Message) -> list[Action]:
        return self.handle(self.frame(link, *messages))

    def acknowledge(self, link: str, confirmed: int) -> list[Action]:
        """A neighbour has everything, and confirms data up to a number."""
        control, data = self.broker.links[link].sent
        return self.handle(FrameReceived(link, Acknowledge(control, data, confirmed)))

    # --- clients -------------------------------------------------------------------------------

    def attach(
        self, client: str, incarnation: int = 1, ttl_us: int = 0, received: int = 0
    ) -> list[Action]:
        return self.handle(ClientAttached(client, incarnation, ttl_us, received))

    def ask(self, client: str, *requests: Request) -> list[Action]:
        return self.handle(ClientRequested(client, requests))


def twin_of(original: Broker, trace: TraceBuffer | None = None) -> Broker:
    """A broker that goes on from another one's snapshot, with its connections."""
    return Broker.restore(
        original.snapshot(), original.config, trace=trace, up=original.links_up,
        attached=original.clients_attached,
    )  # fmt: skip


# --- actions to expect ---------------------------------------------------------------------------


def control(link: str, first: int, *messages: Message) -> Send:
    return Send(link, Batch(Lane.CONTROL, first, messages))


def data(link: str, first: int, *messages: Message) -> Send:
    return Send(link, Batch(Lane.DATA, first, messages))


def acknowledged(link: str, control: int, data: int = 0, confirmed: int = 0) -> Send:
    return Send(link, Acknowledge(control, data, confirmed))


def without_acknowledgements(actions: Iterable[Action]) -> list[Action]:
    return [a for a in actions if not (isinstance(a, Send) and isinstance(a.frame, Acknowledge))]


def without_reachability(actions: Iterable[Action]) -> list[Action]:
    """The actions without the timer that each change of a link sets."""
    return [a for a in actions if not (isinstance(a, SetTimer) and a.timer == REACHABILITY_TIMER)]


# --- things to send ------------------------------------------------------------------------------


def entry(name: str, client: str = "far", number: int = 1) -> EntryId:
    """The id of an advertisement or subscription of another broker's client."""
    return EntryId(client, name, 1, number)


def filter_of(wanted: str | Filter) -> Filter:
    return parse(wanted) if isinstance(wanted, str) else wanted


def advertise(name: str, wanted: str | Filter = ANY) -> Advertise:
    return Advertise(entry(name), filter_of(wanted))


def unadvertise(name: str, wanted: str | Filter = ANY) -> Unadvertise:
    return Unadvertise(entry(name), filter_of(wanted))


def subscribe(name: str, wanted: str | Filter = TRUE) -> Subscribe:
    return Subscribe(entry(name), filter_of(wanted))


def body(**attributes: bool | int | float | str) -> bytes:
    return encode(Body(attributes))


def publication(
    sequence: int, hop: int = 1, distance: int = 1, publisher: str = "far", incarnation: int = 1,
    published_us: int = 0, **attributes: bool | int | float | str,
) -> Publish:  # fmt: skip
    """A publication as a neighbour sends it."""
    content = body(**attributes)
    return Publish(publisher, incarnation, sequence, published_us, hop, distance, 0, content)


def onward(message: Publish, distance: int | None = None) -> Publish:
    """The copy of a publication that B forwards."""
    longer = message.distance + 1 if distance is None else distance
    return msgspec.structs.replace(message, hop=message.hop + 1, distance=longer)


def publish(sequence: int, **attributes: bool | int | float | str) -> PublishRequest:
    return PublishRequest(sequence, body(**attributes))
