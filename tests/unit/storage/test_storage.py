"""What a directory gives back, what it refuses, and what is said about it."""

import os
from pathlib import Path

import msgspec
import pytest

from byway.core.actions import SendReply
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import ClientAttached, ClientDetached, ClientRequested, Input, Started
from byway.core.links import UNLISTED
from byway.model import ANY, parse
from byway.model.addresses import Listing, Neighbour
from byway.model.errors import StorageError
from byway.model.messages import (
    AdvertiseRequest,
    Body,
    PublicationsConfirmed,
    PublishRequest,
    SubscribeRequest,
)
from byway.sim.engine.node_storage import HeldSnapshots
from byway.storage import file_system, replay
from byway.storage import storage as storage_module
from byway.storage.file_system import OsFileSystem
from byway.storage.storage import Storage

CONFIG = BrokerConfig()
BODY = msgspec.msgpack.encode(Body({"price": 20}))
CLIENT = "c"


class Kept:
    """A broker and its storage, driven as the driver does."""

    def __init__(self, directory: Path, config: BrokerConfig = CONFIG, **options: object) -> None:
        neighbours, start = options.pop("neighbours", ()), options.pop("start", True)
        restoring = {
            name: options.pop(name, False) for name in ("may_be_stale", "expects_unlisted")
        }
        at_once = HeldSnapshots(lambda write: write())
        self.storage = Storage(str(directory), **{"snapshots": at_once, **options})
        try:
            self.broker = self.storage.restore(1, "B1", config, neighbours, **restoring)
        except StorageError:
            self.storage.abandon()
            raise
        if start:
            self.do(Started())

    def do(self, *events: Input) -> None:
        self.storage.keep(1, list(events))
        self.broker.handle_batch(1, events)

    def begin(self, ttl_us: int = 0) -> None:
        """A client that subscribes and publishes; `B2` wants nothing."""
        self.do(ClientAttached(CLIENT, 1, ttl_us))
        self.do(
            ClientRequested(CLIENT, (AdvertiseRequest("a", ANY),)),
            ClientRequested(CLIENT, (SubscribeRequest("s", parse("price > 18")),)),
        )
        self.publish(1)

    def publish(self, sequence: int) -> None:
        self.do(ClientRequested(CLIENT, (PublishRequest(sequence, BODY),)))

    @property
    def incarnation(self) -> int:
        return self.broker.incarnation

    def as_restored(self) -> bytes:
        """The state that a restart must give; clients have time to come back then."""
        restored = Broker.restore(self.broker.snapshot(), self.broker.config)
        restored.handle(1, Started())
        return restored.snapshot()


@pytest.fixture
def kept(tmp_path):
    """Opens a broker; whatever is open in the end is let go."""
    opened: list[Kept] = []

    def open_(**options) -> Kept:
        opened.append(Kept(tmp_path, **options))
        return opened[-1]

    yield open_
    for one in opened:
        one.storage.abandon()


# --- going on ----------------------------------------------------------------------------------


@pytest.mark.parametrize("ttl_us", [0, 60_000_000])
@pytest.mark.parametrize("journal_bytes", [0, 1_000_000], ids=["snapshots", "one journal"])
@pytest.mark.parametrize("durability", ["process", "power"])
def test_a_broker_goes_on_after_its_process_died(
    kept, ttl_us, journal_bytes, durability, monkeypatch
):
    monkeypatch.setattr(storage_module, "JOURNAL_SNAPSHOTS", 0)
    first = kept(journal_bytes=journal_bytes, durability=durability)
    first.begin(ttl_us)
    for sequence in range(2, 9):
        first.publish(sequence)
    first.storage.abandon()
    second = kept(durability=durability)
    assert second.incarnation == first.incarnation
    assert second.broker.snapshot() == first.as_restored()
    assert len(second.broker.subscriptions) == 1
    kept_deliveries = second.broker.kept_deliveries(CLIENT)
    assert len(kept_deliveries) == (8 if ttl_us else 0)
    assert second.storage.starts == 2
    assert first.storage.snapshots == (1 if journal_bytes else 12)


def test_a_broker_goes_on_where_it_stopped(kept, tmp_path):
    first = kept()
    first.begin()
    first.storage.stop()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lock", "state", "written"]
    second = kept()
    assert second.broker.snapshot() == first.as_restored()
    assert second.storage.start_summary == "resumed after a clean stop"


def test_inputs_that_were_kept_count_though_nothing_was_done_about_them(kept):
    first = kept()
    first.begin()
    first.storage.keep(1, [ClientDetached(CLIENT, for_good=True)])
    first.storage.abandon()
    assert kept().broker.sessions == {}


def test_a_snapshot_that_is_not_safe_yet_is_not_needed(kept, monkeypatch):
    """The process dies between a new journal's beginning and the snapshot's arrival."""
    monkeypatch.setattr(storage_module, "JOURNAL_SNAPSHOTS", 0)
    first = kept(journal_bytes=0, snapshots=HeldSnapshots(lambda _: None))
    first.begin()
    first.publish(2)
    first.storage.abandon()
    assert kept().broker.snapshot() == first.as_restored()


class DiedError(Exception):
    pass


@pytest.mark.parametrize("installed", [False, True], ids=["before", "after"])
def test_a_broker_that_dies_while_it_starts_loses_nothing(kept, tmp_path, installed):
    first = kept()
    first.begin()
    first.storage.abandon()

    class Dying(OsFileSystem):
        def rename(self, path: Path, new: Path) -> None:
            if installed or new.name != "state":
                super().rename(path, new)
            if new.name == "state":
                raise DiedError

    second = Storage(str(tmp_path), files=Dying())
    with pytest.raises(DiedError):
        second.restore(1, "B1", CONFIG)
    second.abandon()
    assert kept().broker.snapshot() == first.as_restored()


def test_a_journal_of_another_number_is_refused(kept, tmp_path):
    kept().storage.abandon()
    kept().storage.abandon()
    (tmp_path / "journal-00000002").rename(tmp_path / "journal-00000003")
    (tmp_path / "journal-00000002").write_bytes((tmp_path / "journal-00000003").read_bytes())
    with pytest.raises(StorageError, match="journal-00000003: is journal 2 of 'B1'"):
        kept()


def test_the_configuration_may_change(kept):
    first = kept()
    first.begin()
    first.storage.abandon()
    second = kept(config=BrokerConfig(covering="active", hops_max=7))
    assert second.broker.config.hops_max == 7
    assert len(second.broker.subscriptions) == 1
    second.storage.abandon()
    with pytest.raises(StorageError, match="covering = 'active' and cannot be used with 'none'"):
        kept()


def test_the_neighbours_that_were_listed_are_known(kept):
    def listed(*texts: str) -> tuple[Neighbour, ...]:
        return tuple(Neighbour.parse(text, "neighbours") for text in texts)

    before = listed("B2@h:2", "B3@h:3", "B4@h:4", "h:5")
    kept(neighbours=before).storage.abandon()
    second = kept(neighbours=listed("B2@elsewhere:2", "h:3"))
    assert second.broker.listing == Listing(before)  # until whoever starts it has seen to that
    assert sorted(second.broker.neighbours) == ["B2", "B3", "B4"]


# --- what may be lost --------------------------------------------------------------------------


@pytest.fixture
def restart_the_machine(tmp_path_factory, monkeypatch):
    """Another boot of the same machine, as far as storage can tell."""
    file = tmp_path_factory.mktemp("machine") / "boot_id"
    file.write_text("one\n")
    monkeypatch.setattr(file_system, "_BOOT_ID", file)
    return lambda: file.write_text("another\n")


@pytest.mark.parametrize(
    ("durability", "stop", "same"),
    [("process", False, False), ("process", True, True), ("power", False, True)],
)
def test_after_a_loss_of_power_tables_are_compared_unless_all_is_there(
    kept, restart_the_machine, durability, stop, same
):
    first = kept(durability=durability)
    first.begin()
    first.storage.stop() if stop else first.storage.abandon()
    restart_the_machine()
    second = kept(start=False)
    assert (second.incarnation == first.incarnation) is same
    assert second.incarnation >= first.incarnation
    assert ("tables are compared" in second.storage.start_summary) is not same
    assert len(second.broker.subscriptions) == 1


@pytest.mark.parametrize("start", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("stop", [False, True], ids=["killed", "stopped"])
def test_an_older_state_is_one_whenever_the_next_process_ends(
    kept, restart_the_machine, start, stop
):
    """Clients cannot go on with it, and no further restart may bring them back."""
    first = kept()
    first.begin(ttl_us=60_000_000)
    first.storage.abandon()
    restart_the_machine()
    second = kept(start=start)
    second.storage.stop() if stop else second.storage.abandon()
    third = kept()
    assert third.incarnation == second.incarnation
    assert third.broker.sessions == {}


@pytest.mark.parametrize("is_older", [True, False])
def test_whoever_may_have_joined_since_an_older_state_is_waited_for(
    kept, restart_the_machine, is_older
):
    """The state has no neighbour; one may have connected after it. The last state knows."""
    first = kept(durability="process" if is_older else "power")
    first.begin()
    first.storage.abandon()
    restart_the_machine()
    second = kept(expects_unlisted=True)
    assert (UNLISTED in second.broker.missing) is is_older
    second.do(ClientAttached("late", 1, 0), ClientRequested("late", (AdvertiseRequest("a", ANY),)))
    actions = second.broker.handle(1, ClientRequested("late", (PublishRequest(1, BODY),)))
    replies = [reply for a in actions if isinstance(a, SendReply) for reply in a.replies]
    assert (PublicationsConfirmed(1) in replies) is not is_older


def test_where_the_system_does_not_name_its_boots_no_state_is_taken_for_the_last(
    kept, tmp_path, monkeypatch
):
    monkeypatch.setattr(file_system, "_BOOT_ID", tmp_path / "nowhere")
    first = kept()
    first.storage.abandon()
    assert kept().incarnation > first.incarnation


def test_what_another_version_did_is_not_taken_for_the_last_state(kept, monkeypatch):
    first = kept()
    first.begin()
    first.storage.abandon()
    for module in (replay, storage_module):
        monkeypatch.setattr(module, "__version__", "another")
    with pytest.raises(StorageError, match="give --stale"):
        kept()
    second = kept(start=False, may_be_stale=True)
    assert second.incarnation > first.incarnation
    assert len(second.broker.subscriptions) == 1
    second.storage.stop()
    monkeypatch.undo()
    assert kept().incarnation == second.incarnation  # a clean stop is no reason to doubt


def journals(directory: Path) -> list[Path]:
    return sorted(directory.glob("journal-*"))


def test_a_journal_that_ends_within_a_record_is_used_up_to_there(kept, tmp_path):
    first = kept()
    first.begin()
    first.storage.abandon()
    (journal,) = journals(tmp_path)
    journal.write_bytes(journal.read_bytes()[:-1])
    second = kept(start=False)
    assert len(second.broker.subscriptions) == 1
    assert second.broker.sessions[CLIENT].sequence == 0  # the publication is lost
    assert second.incarnation > first.incarnation


def test_after_a_loss_of_power_a_damaged_end_is_left_out(kept, tmp_path, restart_the_machine):
    first = kept()
    first.begin()
    first.storage.abandon()
    (journal,) = journals(tmp_path)
    journal.write_bytes(journal.read_bytes() + bytes(4_096))
    restart_the_machine()
    assert kept(start=False).broker.sessions[CLIENT].sequence == 1


# --- what is refused ---------------------------------------------------------------------------


def test_two_brokers_cannot_use_one_directory(kept, tmp_path):
    kept()
    with pytest.raises(StorageError, match=f"in use by another broker, process {os.getpid()}"):
        Storage(str(tmp_path))


def test_another_broker_is_refused(kept, tmp_path):
    kept().storage.abandon()
    other = Storage(str(tmp_path))
    with pytest.raises(StorageError, match="state: belongs to broker 'B1', not to 'B2'"):
        other.restore(1, "B2", CONFIG)
    other.abandon()


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda d: flip(d / "state", 60), "state: is damaged"),
        (lambda d: (d / "state").write_bytes((d / "state").read_bytes()[:50]), "state: ends"),
        (lambda d: (d / "state").write_bytes(b""), "state: ends within its first line"),
        (
            lambda d: (d / "state").write_bytes(b"SQLite format 3\0"),
            "state: is not a state of a byway",
        ),
        (lambda d: (d / "state").write_bytes(b"byway state 3\n"), "layout version 3"),
        (lambda d: (d / "state").write_bytes(b"byway state 2\n"), "holds 0 records"),
        (lambda d: (d / "state").unlink(), "state: is missing"),
        (lambda d: flip(journals(d)[0], 60), "journal-00000001: is damaged"),
        (lambda d: journals(d)[0].write_bytes(b"else\n"), "journal-00000001: is not a journal"),
        (
            lambda d: journals(d)[0].rename(d / "journal-00000002"),
            "journal-00000001: is missing",
        ),
    ],
)
def test_spoilt_files_are_named(kept, tmp_path, spoil, reason):
    first = kept()
    first.begin()
    first.storage.abandon()
    before = {path.name for path in tmp_path.iterdir()}
    spoil(tmp_path)
    spoilt = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(StorageError, match=reason) as caught:
        kept()
    assert str(tmp_path) in str(caught.value)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == spoilt, before


def test_inputs_that_cannot_be_read_are_set_aside(kept):
    first = kept()
    first.begin()
    first.storage._append(b"\x92\x01\x91\x92\xa4what\x80")
    first.storage._append(b"no record of ours")
    first.publish(2)
    first.storage.abandon()
    second = kept(start=False)
    assert second.broker.sessions[CLIENT].sequence == 2
    assert second.incarnation > first.incarnation  # something followed
    assert [entry.what for entry in second.storage.set_aside.waiting] == [
        "an input of kind 'what' that cannot be read",
        "inputs that cannot be read",
    ]
    assert "2 inputs were set aside" in second.storage.start_summary
    second.storage.abandon()
    third = kept()
    assert len(third.storage.set_aside.waiting) == 2
    assert third.incarnation == second.incarnation


@pytest.mark.parametrize("missing", [False, True], ids=["damaged", "missing"])
def test_what_is_damaged_is_used_up_to_there_if_one_says_so(kept, tmp_path, missing):
    first = kept()
    first.begin()
    first.storage.abandon()
    (journal,) = journals(tmp_path)
    if missing:
        journal.unlink()
    else:
        flip(journal, -1)
    with pytest.raises(StorageError):
        kept()
    second = kept(start=False, may_be_stale=True)
    assert second.incarnation > first.incarnation
    assert len(second.broker.sessions) == (0 if missing else 1)


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_directory_that_cannot_be_made_is_named(tmp_path, place):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be used"):
        Storage(str(tmp_path / place))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_what_cannot_be_kept_does_not_happen_and_nothing_after_it(kept):
    first = kept()
    first.begin()
    before = first.broker.snapshot()
    os.close(first.storage._file)
    first.storage._file = os.open("/dev/full", os.O_WRONLY)
    for _ in range(2):
        with pytest.raises(StorageError, match="cannot be written to: No space left"):
            first.publish(2)
    assert first.broker.snapshot() == before
    first.storage.stop()
    assert kept().broker.snapshot() == first.as_restored()
