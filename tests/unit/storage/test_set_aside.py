"""An input that raises costs its sender the connection, and nobody anything else."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from byway.core.actions import Timer
from byway.core.broker import Broker
from byway.core.discards import GIVEN_UP
from byway.core.inputs import (
    ClientAttached,
    ClientDetached,
    ClientRequested,
    LinkDown,
    LinkLoad,
    LinkUp,
    LoadSampled,
    NeighbourAdded,
    RequestDiscarded,
    Started,
    TimerFired,
)
from byway.core.invariants import validate
from byway.model import ANY, parse
from byway.model.addresses import Address, Neighbour
from byway.model.errors import BrokenError
from byway.model.messages import (
    Acknowledge,
    AdvertiseRequest,
    Batch,
    Body,
    DeliveriesReceived,
    Delivery,
    Hello,
    Lane,
    Load,
    LoadReport,
    PublicationsConfirmed,
    Publish,
    PublishRequest,
    Refused,
    SubscribeRequest,
    UnadvertiseRequest,
    UnsubscribeRequest,
)
from byway.runtime.driver import Driver
from byway.storage import set_aside as aside_module
from byway.storage.file_system import OS_FILES
from byway.storage.record_files import RecordFile
from byway.storage.storage import Storage
from tests.lone_broker import Lone, advertise, publication, publish, subscribe
from tests.trapped import ASSERTS, CONFIG, RAISES, Trapped, trap

NEIGHBOURS = (Neighbour(Address("h", 1), "A"), Neighbour(Address("h", 2), "C"))
SESSION_US = 60_000_000


class Hands:
    """Everyone the broker is connected to."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, object]] = []
        self.told: list[tuple[str, object]] = []
        self.closed: list[tuple[str, str]] = []

    def send(self, link, frame):
        self.sent.append((link, frame))

    def tell(self, client, replies):
        self.told += [(client, reply) for reply in replies]

    def open_link(self, action):
        del action

    def close_link(self, action):
        self.closed.append((action.link, action.reason))

    def close_client(self, client, reason):
        self.closed.append((client, reason))
        self.driver.now(ClientDetached(client))


class Driven(Lone):
    """Broker B under a real driver with real storage; A and C and clients are played."""

    def __init__(self, directory: Path | None, fresh: bool = True) -> None:
        self.performer, self.now_us = Hands(), 0
        self.storage = None if directory is None else Storage(str(directory))
        if self.storage is None:
            broker = Broker("B", ("A", "C"), CONFIG)
        else:
            broker = self.storage.restore(1, "B", CONFIG, NEIGHBOURS)
        self.driver = self.performer.driver = Driver(broker, self.performer, self.storage)
        self.sent = {"A": [0, 0], "C": [0, 0]}
        self.handle(Started())
        if fresh:
            self.agree("A")
            self.agree("C")
            self.receive("C", subscribe("s", "p > 0"))
            self.receive("A", advertise("a"))
            self.attach("c", ttl_us=SESSION_US)
            self.ask("c", AdvertiseRequest("mine", ANY), SubscribeRequest("w", parse("p > 5")))

    @property
    def broker(self) -> Broker:
        return self.driver.broker

    @property
    def set_aside(self):
        return self.storage.set_aside

    def handle(self, *events):
        self.driver.now(*events)
        return []

    def back(self, link: str) -> None:
        """A neighbour that was closed is back, and goes on by its numbers."""
        facts, said = self.broker.links[link], self.broker.hello(link)
        control, data = facts.sent
        hello = Hello(link, 1, said.incarnation, control, data, data, said.epoch)
        self.sent[link] = list(facts.received)
        self.handle(LinkUp(link, hello, said))

    def confirmed_to(self, link: str) -> int:
        found = [f for to, f in self.performer.sent if to == link and isinstance(f, Acknowledge)]
        return found[-1].confirmed

    def delivered(self) -> list[int]:
        told = [reply for _, reply in self.performer.told if isinstance(reply, Delivery)]
        return [delivery.publication.sequence for delivery in told]


@pytest.fixture
def driven(tmp_path, monkeypatch):
    """Opens a broker in the place of the one before."""
    trap(monkeypatch)
    opened: list[Driven] = []

    async def open_(directory=tmp_path, **options) -> Driven:
        for one in opened:
            one.driver.stop()
            if one.storage is not None:
                one.storage.abandon()
        opened.append(Driven(directory, **options))
        return opened[-1]

    yield open_
    for one in opened:
        one.driver.stop()
        if one.storage is not None:
            one.storage.abandon()


def run(test):
    """Run a test in an event loop."""

    def wrapped(driven):
        asyncio.run(test(driven))

    wrapped.__name__ = test.__name__
    return wrapped


def bad(sequence: int, text: bytes = RAISES) -> Publish:
    return publication(sequence, p=9, text=text.decode())


def restored(broker: Broker) -> bytes:
    """What a restart gives; clients have time to come back then."""
    again = Broker.restore(broker.snapshot(), CONFIG)
    again.handle(1, Started())
    return again.snapshot()


@run
async def test_only_what_raises_is_left_out_and_only_its_sender_closed(driven):
    """In one turn: three publications of A of which the second raises, a request, a frame of C."""
    b = await driven()
    b.handle(
        b.frame("A", publication(1, p=7), bad(2), publication(3, p=8)),
        ClientRequested("c", (publish(1, p=6),)),
        b.frame("C", publication(1, publisher="other", p=9)),
    )
    assert b.delivered() == [1, 1, 1]
    assert [name for name, _ in b.performer.closed] == ["A"]
    assert b.broker.links["A"].received[Lane.DATA] == 1
    assert not b.broker.links["A"].up
    assert b.broker.links["C"].up
    assert b.broker.links["C"].received[Lane.DATA] == 1
    assert "half" not in b.broker.advertisements.alternates
    assert validate(b.broker) == []
    (entry,) = b.set_aside.waiting
    assert entry.what.startswith("publication far/1/2 of ")
    assert (entry.role, entry.name, entry.error) == ("link", "A", "TrappedError: at publication")
    assert "tests/trapped.py" in entry.traceback
    (path,) = b.set_aside.directory.iterdir()
    assert path.name == entry.digest
    assert len(list(RecordFile(OS_FILES, path, "set-aside"))) == 1
    expected = restored(b.broker)
    again = await driven(fresh=False)
    assert "inputs were set aside" not in again.storage.start_summary
    assert again.set_aside.waiting == [entry]
    assert restored(again.broker) == expected


@run
async def test_the_same_coming_again_is_refused_before_the_broker_sees_it(driven):
    b = await driven()
    b.receive("A", publication(1, p=7))
    b.receive("A", bad(2))
    for restart in (False, True):
        if restart:
            b = await driven(fresh=False)
        assert b.driver.bars("link", "A") == ""  # it may come back
        b.back("A")
        before, seen = b.storage.set_aside.total, len(Trapped.handled)
        b.receive("A", publication(1 + restart, p=7, publisher="x"), bad(2), publication(3, p=7))
        assert Trapped.handled[seen:].count("publication") == 1  # the one before it
        assert (b.set_aside.total, b.set_aside.refused) == (before, 1)
        assert [name for name, _ in b.performer.closed][-1] == "A"
        assert "publication far/1/2" in b.driver.bars("link", "A")
        assert b.driver.bars("link", "C") == b.driver.bars("client", "A") == ""
        assert len(b.set_aside.waiting) == 1


@run
async def test_what_is_given_up_counts_as_handled_when_it_comes_again(driven):
    b = await driven()
    b.receive("A", publication(1, p=7))
    b.receive("A", bad(2))
    b.back("A")
    b.receive("A", bad(2))
    (entry,) = b.set_aside.waiting
    assert b.driver.discard("no such") == []
    told = b.driver.discard(entry.digest[:6])
    assert told == [entry.words]
    assert b.set_aside.waiting == []
    assert b.driver.bars("link", "A") == ""
    assert b.driver.discard("all") == []
    b = await driven(fresh=False)  # that is known to the next process too
    b.back("A")
    b.back("C")
    b.receive("A", bad(2), publication(3, p=7))
    b.acknowledge("C", 2)
    assert b.broker.links["A"].received[Lane.DATA] == 3
    assert b.confirmed_to("A") == 3
    assert b.performer.closed == []
    assert list(b.set_aside.directory.iterdir()) == []
    expected = restored(b.broker)
    again = await driven(fresh=False)
    assert restored(again.broker) == expected


@run
async def test_a_client_is_closed_and_told_what_was_given_up(driven):
    b = await driven()
    wrong = PublishRequest(2, msgspec.msgpack.encode(Body({"p": 1, "text": RAISES.decode()})))
    b.ask("c", publish(1, p=7), wrong, publish(3, p=7))
    assert [name for name, _ in b.performer.closed] == ["c"]
    assert not b.broker.sessions["c"].attached  # its session stays
    assert b.broker.sessions["c"].sequence == 1
    b.attach("c", ttl_us=SESSION_US)
    b.ask("c", wrong)
    assert b.driver.bars("client", "c")
    assert b.broker.sessions["c"].sequence == 1
    assert len(b.driver.discard("all")) == 1
    b.attach("c", ttl_us=SESSION_US)
    b.ask("c", wrong, publish(3, p=7))
    b.acknowledge("C", 2)
    assert ("c", Refused("2", GIVEN_UP)) in b.performer.told
    assert ("c", PublicationsConfirmed(3)) in b.performer.told
    assert b.broker.sessions["c"].sequence == 3


@run
async def test_a_control_message_that_raises(driven):
    b = await driven()
    fine, wrong = (LoadReport((Load(n, 1, 0, 0.0, 0.0, 0.0, 0, 0.0),)) for n in ("x", "raises"))
    b.receive("A", fine, wrong, subscribe("t", "p > 1"))
    assert b.broker.links["A"].received[Lane.CONTROL] == 6
    assert len(b.set_aside.waiting) == 1
    b.driver.discard("all")
    b.back("A")
    b.receive("A", wrong, subscribe("t", "p > 1"))
    assert b.broker.links["A"].received[Lane.CONTROL] == 8
    assert len(b.broker.subscriptions) == 3
    assert b.set_aside.entries == {}


@run
async def test_what_nobody_sent_is_set_aside_and_nobody_closed(driven):
    b = await driven()
    for event in (TimerFired(Timer("load", "raises")), LoadSampled(0, (LinkLoad("raises"),))):
        for _ in range(2):
            b.handle(event, b.frame("A", publication(len(b.delivered()) + 1, p=7)))
    assert b.delivered() == [1, 2, 3, 4]
    assert b.performer.closed == []
    assert (len(b.set_aside.waiting), b.set_aside.total, b.set_aside.refused) == (2, 2, 2)


@run
async def test_a_greeting_that_raises(driven):
    b = await driven()
    b.handle(NeighbourAdded("raises"))
    hello = LinkUp("raises", Hello("raises", 1, 0, 0, 0, 0))
    b.handle(hello)
    assert not b.broker.links["raises"].up
    b.handle(hello)
    assert b.driver.bars("link", "raises")
    assert len(b.driver.discard("all")) == 1
    assert b.set_aside.entries == {}  # nothing of it is kept by anyone
    b.handle(hello)
    assert b.set_aside.total == 2


@run
async def test_the_end_of_a_connection_that_raises(driven):
    """It is over, whatever the broker makes of it: nobody is closed for it."""
    b = await driven()
    b.handle(NeighbourAdded("falls"), LinkUp("falls", Hello("falls", 1, 0, 0, 0, 0)))
    for _ in range(2):
        b.handle(LinkDown("falls"), b.frame("A", publication(len(b.delivered()) + 1, p=7)))
    assert (b.delivered(), b.performer.closed) == ([1, 2], [])
    assert (b.set_aside.total, b.set_aside.refused) == (1, 1)
    b.sent["falls"] = [0, 0]
    wrong = publication(1, publisher="z", text="raises")
    b.receive("falls", wrong)  # its sender is closed, and that raises
    assert [name for name, _ in b.performer.closed] == ["falls"]
    b.receive("falls", wrong)
    assert b.driver.bars("link", "falls")
    assert len(b.driver.discard("all")) == 2


@run
async def test_an_input_that_cannot_even_be_written(driven):
    b = await driven()
    b.handle(ClientAttached("huge", 2**64), b.frame("A", publication(1, p=7)))
    assert b.delivered() == [1]
    assert [name for name, _ in b.performer.closed] == ["huge"]
    (entry,) = b.set_aside.waiting
    assert entry.payload == b""
    b.handle(ClientAttached("huge", 2**64))
    assert b.driver.bars("client", "huge")


@run
async def test_a_failed_assertion_ends_the_process_and_is_set_aside_at_the_next_start(driven):
    b = await driven()
    b.receive("A", publication(1, p=7))
    before = restored(b.broker)
    with pytest.raises(BrokenError, match=r"AssertionError: at publication.*at the next start"):
        b.receive("A", publication(2, p=7, publisher="x"), bad(2, ASSERTS))
    b.receive("A", publication(3, p=8))  # nothing happens any more
    assert b.delivered() == [1]
    again = await driven(fresh=False)
    assert "1 inputs were set aside" in again.storage.start_summary
    assert "may not be the last state" not in again.storage.start_summary  # nobody was told
    (entry,) = again.set_aside.waiting
    assert (entry.name, entry.error) == ("A", "AssertionError: at publication")
    assert again.broker.links["A"].received[Lane.DATA] == 2
    assert before != restored(again.broker)
    assert again.broker.incarnation == b.broker.incarnation
    third = await driven(fresh=False)
    assert third.set_aside.waiting == [entry]


@pytest.mark.parametrize("text", [RAISES, ASSERTS])
def test_without_data_the_broker_ends(driven, text):
    async def test():
        b = await driven(None)
        with pytest.raises(BrokenError, match=r"input of link A failed.* without --data"):
            b.receive("A", bad(1, text))
        b.receive("A", publication(1, p=7))
        assert b.delivered() == []
        assert b.driver.broken is not None

    asyncio.run(test())


@run
async def test_a_broker_that_cannot_begin_ends(driven):
    b = await driven()
    b.storage.stop()
    trapped = Trapped.on_started
    Trapped.on_started = lambda self: self._see("start", RAISES)
    try:
        with pytest.raises(BrokenError, match="it cannot start"):
            await driven(fresh=False)
    finally:
        Trapped.on_started = trapped


def test_only_so_many_are_kept(driven, monkeypatch, caplog):
    async def test():
        monkeypatch.setattr(aside_module, "KEPT_MAX", 2)
        b = await driven()
        for sequence in range(1, 5):
            b.receive("A", publication(sequence, publisher=f"p{sequence}", text="raises"))
            b.back("A")
        assert (len(b.set_aside.waiting), b.set_aside.total) == (2, 4)
        assert "is full: the input is not kept" in caplog.text
        b.driver.discard(b.set_aside.waiting[0].digest)
        b.receive("A", publication(9, publisher="p9", text="raises"))
        assert [entry.what[:16] for entry in b.set_aside.waiting] == [
            "publication p2/1",
            "publication p9/1",
        ]  # what was given up made room

    asyncio.run(test())


def test_a_file_that_is_damaged_is_not_known_any_more(driven, caplog):
    async def test():
        b = await driven()
        b.receive("A", bad(1))
        (path,) = b.set_aside.directory.iterdir()
        path.write_bytes(path.read_bytes()[:-1])
        again = await driven(fresh=False)
        assert again.set_aside.entries == {}
        assert f"{path}: ends within the record" in caplog.text

    asyncio.run(test())


def test_a_state_that_cannot_be_written_down_leaves_the_journal(driven, caplog, monkeypatch):
    """A behaviour has come to hold what no snapshot can."""

    async def test():
        b = await driven()
        monkeypatch.setattr(Trapped, "snapshot", lambda _: [2**65])
        b.storage._journal_bytes_least = 0
        monkeypatch.setattr("byway.storage.storage.JOURNAL_SNAPSHOTS", 0)
        b.receive("C", publication(1, p=7))
        assert b.delivered() == [1]
        assert "a snapshot failed, its journals are kept" in caplog.text

    asyncio.run(test())


# --- the core's part -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "told"),
    [
        (AdvertiseRequest("x", ANY), ["x"]),
        (UnadvertiseRequest("x"), ["x"]),
        (SubscribeRequest("x", ANY), ["x"]),
        (UnsubscribeRequest(("x", "y")), ["x", "y"]),
        (DeliveriesReceived(1), []),
        (PublishRequest(1, b""), ["1"]),
        (PublishRequest(2, b""), []),  # another one has to come first
    ],
)
def test_a_request_that_is_given_up_is_refused_and_changes_nothing(request_, told):
    lone = Lone("A")
    lone.attach("c")
    before = lone.broker.snapshot()
    replies = [r for a in lone.handle(RequestDiscarded("c", request_)) for r in a.replies]
    assert [r for r in replies if isinstance(r, Refused)] == [Refused(n, GIVEN_UP) for n in told]
    if not isinstance(request_, PublishRequest):
        assert lone.broker.snapshot() == before
    (nobody,) = lone.handle(RequestDiscarded("d", request_))
    assert nobody.replies == (Refused("", "not attached"),)


def test_a_batch_is_its_units():
    frame = Lone("A", agreed=False).frame("A", publication(1), publication(2))
    assert [u.frame for u in aside_module.units(frame)] == [
        Batch(Lane.DATA, 1, (publication(1),)),
        Batch(Lane.DATA, 2, (publication(2),)),
    ]
    one, two = aside_module.units(frame)
    again = msgspec.structs.replace(one, frame=Batch(Lane.DATA, 7, one.frame.messages))
    assert (
        aside_module.digest_of(one) == aside_module.digest_of(again) != aside_module.digest_of(two)
    )
    other = msgspec.structs.replace(one, link="C")
    assert aside_module.digest_of(one) != aside_module.digest_of(other)
