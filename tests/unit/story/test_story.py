"""What a story finds in journals, snapshots and traces, in which order, and what it refuses."""

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner, Result

from byway.cli.main import app
from byway.core.actions import Timer
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import (
    ClientAttached,
    ClientDetached,
    ClientRequested,
    FrameReceived,
    Input,
    MessageDiscarded,
    NeighbourRemoved,
    RequestDiscarded,
    Started,
    TimerFired,
)
from byway.model import ANY, parse
from byway.model.messages import (
    CONTROL,
    DATA,
    Advertise,
    AdvertisementSettled,
    AdvertiseRequest,
    Batch,
    Body,
    Disconnect,
    EntryId,
    Message,
    Publish,
    PublishRequest,
    Retire,
    Subscribe,
    SubscribeMany,
    SubscribeRequest,
    SubscriptionsSettled,
    SubscriptionsSynced,
    SyncNames,
    Unadvertise,
    UnadvertiseRequest,
    Unsubscribe,
    UnsubscribeRequest,
)
from byway.sim.run import run_scenario
from byway.sim.scenario import read_scenario
from byway.storage.file_system import FileSystem
from byway.storage.set_aside import raised_input
from byway.storage.state_files import JOURNAL, STATE
from byway.storage.storage import Storage
from byway.story import StoryError, StoryStep, read_story
from byway.story.subject import PublicationId, parse_subject
from byway.trace import TraceBuffer, TraceWriter

ROOT = Path(__file__).parents[3]
ID = EntryId("ann", "wide", 1, 7)
OTHER = EntryId("bob", "wide", 1, 8)
FILTER = parse("price > 18")
BODY = msgspec.msgpack.encode(Body({"price": 20}))
PUBLICATION = Publish("ticker", 3, 17, 1, 2, 0, 0, BODY)


class Kept:
    """The data directory of a broker that runs."""

    def __init__(self, directory: Path, id: str = "B1") -> None:
        self.directory = directory
        self.storage = Storage(str(directory))
        self.broker: Broker = self.storage.restore(1, id, BrokerConfig())

    def keep(self, at_us: int, *events: Input) -> None:
        """Write inputs to the journal."""
        self.storage.keep(at_us, list(events))

    def do(self, at_us: int, *events: Input) -> None:
        """Write inputs, and hand them to the broker."""
        self.keep(at_us, *events)
        self.broker.handle_batch(at_us, events)

    def journal(self) -> Path:
        (path,) = self.directory.glob(f"{JOURNAL}-*")
        return path


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    kept = Kept(tmp_path / "B1")
    yield kept
    kept.storage.abandon()


def control(link: str, *messages: Message) -> FrameReceived:
    return FrameReceived(link, Batch(CONTROL, 1, messages))


def told(steps: tuple[StoryStep, ...]) -> list[tuple[int | None, str, str]]:
    return [(step.at_us, step.what, step.origin) for step in steps]


# --- ids ------------------------------------------------------------------------------------------


def test_an_id_is_read_in_every_way_it_can_be_meant() -> None:
    plain = parse_subject("ann/wide")
    assert (plain.entries, plain.publications) == ({("ann", "wide")}, set())
    assert parse_subject("a/3/17").entries == {("a", "3/17"), ("a/3", "17")}
    assert parse_subject("a/3/17").publications == {
        PublicationId("a", 3, 17),
        PublicationId("a/3", None, 17),
    }


@pytest.mark.parametrize("text", ["", "ann", "/", "/17", "ann/"])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(StoryError, match="expected CLIENT/NAME"):
        parse_subject(text)


def test_an_incarnation_that_is_not_known_may_be_any() -> None:
    subject = parse_subject("ticker/3/17")
    assert subject.is_publication(PublicationId("ticker", 3, 17))
    assert subject.is_publication(PublicationId("ticker", None, 17))
    assert not subject.is_publication(PublicationId("ticker", 4, 17))
    assert not subject.is_publication(PublicationId("ticker", 3, 18))


# --- journals -------------------------------------------------------------------------------------


def test_all_inputs_that_name_a_subscription_are_told(kept: Kept) -> None:
    kept.keep(
        10,
        ClientAttached("ann", 1),
        ClientRequested("ann", (SubscribeRequest("wide", FILTER), SubscribeRequest("x", ANY))),
        ClientRequested("bob", (SubscribeRequest("wide", FILTER),)),
    )
    kept.keep(11, control("B2", SubscriptionsSettled((OTHER, ID))))
    kept.keep(12, ClientRequested("ann", (UnsubscribeRequest(("x", "wide")),)))
    kept.keep(13, ClientDetached("ann"), ClientDetached("bob"))
    kept.keep(14, TimerFired(Timer("session", "ann")))
    story = read_story("ann/wide", [kept.directory])
    assert told(story.steps) == [
        (10, "client attached", "client ann"),
        (10, "subscribe", "client ann"),
        (11, "subscription settled", "link B2"),
        (12, "unsubscribe", "client ann"),
        (13, "client detached", "client ann"),
        (14, "session expired", "client ann"),
    ]
    assert {step.broker for step in story.steps} == {"B1"}
    assert [step.detail for step in story.steps if step.what == "subscribe"] == ["price > 18"]
    (source,) = story.sources
    assert (source.kind, source.broker, source.files, source.records) == ("data", "B1", 1, 8)


def test_messages_of_neighbours_are_told_with_the_full_id(kept: Kept) -> None:
    kept.keep(1, control("B2", Subscribe(OTHER, ANY), Subscribe(ID, FILTER)))
    kept.keep(2, control("B2", SubscribeMany((Subscribe(ID, FILTER), Subscribe(OTHER, ANY)))))
    kept.keep(3, control("B2", Unsubscribe((ID, OTHER)), Retire((ID,))))
    kept.keep(4, control("B2", SyncNames(((OTHER, True),), ((ID, False),))))
    kept.keep(5, control("B2", SubscriptionsSynced((ID,))))
    kept.keep(6, ClientAttached("ann", 2), TimerFired(Timer("covering")))
    story = read_story("ann/wide", [kept.directory])
    assert told(story.steps) == [
        (1, "subscribe", "link B2"),
        (2, "subscribe", "link B2"),
        (3, "unsubscribe", "link B2"),
        (3, "retire", "link B2"),
        (4, "sync: neighbour holds it", "link B2"),
        (5, "sync: it has ended", "link B2"),
    ]
    assert {step.id for step in story.steps} == {"ann/wide/1/7"}


def test_an_advertisement_is_told_like_a_subscription(kept: Kept) -> None:
    kept.keep(1, ClientRequested("ann", (AdvertiseRequest("wide", FILTER),)))
    kept.keep(2, control("B2", AdvertisementSettled(ID), Advertise(ID, FILTER)))
    kept.keep(3, FrameReceived("B2", Batch(DATA, 1, (Unadvertise(ID, FILTER),))))
    kept.keep(4, ClientRequested("ann", (UnadvertiseRequest("wide"),)))
    assert [what for _, what, _ in told(read_story("ann/wide", [kept.directory]).steps)] == [
        "advertise", "advertisement settled", "advertise", "unadvertise", "unadvertise",
    ]  # fmt: skip


def test_the_end_of_a_neighbour_is_told_if_the_subscription_came_from_it(kept: Kept) -> None:
    kept.keep(1, control("B2", Subscribe(ID, FILTER)))
    kept.keep(2, NeighbourRemoved("B3"), control("B3", Disconnect("bye")))
    kept.keep(3, control("B2", Disconnect("bye")), NeighbourRemoved("B2"))
    story = read_story("ann/wide", [kept.directory])
    assert told(story.steps) == [
        (1, "subscribe", "link B2"),
        (3, "disconnect", "link B2"),
        (3, "neighbour removed", "link B2"),
    ]


def test_publications_are_told_with_the_incarnation_that_attached(kept: Kept) -> None:
    publish = ClientRequested("ticker", (PublishRequest(16, BODY), PublishRequest(17, BODY)))
    kept.keep(1, publish)
    kept.keep(2, ClientAttached("ticker", 3))
    kept.keep(3, publish)
    kept.keep(4, ClientAttached("ticker", 4))
    kept.keep(5, publish)
    kept.keep(6, FrameReceived("B2", Batch(DATA, 1, (PUBLICATION,))))
    ids = [(step.id, step.hop) for step in read_story("ticker/17", [kept.directory]).steps]
    assert ids == [("ticker/?/17", 0), ("ticker/3/17", 0), ("ticker/4/17", 0), ("ticker/3/17", 2)]
    exact = read_story("ticker/3/17", [kept.directory]).steps
    assert [step.id for step in exact] == ["ticker/?/17", "ticker/3/17", "ticker/3/17"]


def test_what_an_operator_gave_up_is_told(kept: Kept) -> None:
    kept.keep(1, MessageDiscarded("B2", Batch(CONTROL, 1, (Subscribe(ID, FILTER),))))
    kept.keep(2, RequestDiscarded("ann", UnsubscribeRequest(("wide",))))
    assert told(read_story("ann/wide", [kept.directory]).steps) == [
        (1, "discarded: subscribe", "link B2"),
        (2, "discarded: unsubscribe", "client ann"),
    ]


def test_what_was_set_aside_is_told_with_its_error(kept: Kept) -> None:
    event = control("B2", Subscribe(ID, FILTER))
    kept.storage.set_aside.put(raised_input(9, event, ValueError("no way")))
    (step,) = read_story("ann/wide", [kept.directory]).steps
    assert (step.evidence, step.at_us, step.what) == ("set-aside", 9, "subscribe")
    assert step.detail.startswith("set aside ")
    assert step.detail.endswith("ValueError: no way")


def test_a_snapshot_tells_what_it_holds(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "B1")
    kept.do(1, Started(), ClientAttached("ann", 1, 60_000_000), ClientAttached("ticker", 3))
    kept.do(2, ClientRequested("ann", (SubscribeRequest("wide", FILTER),)))
    kept.do(3, ClientRequested("ticker", (AdvertiseRequest("all", ANY),)))
    kept.do(4, ClientRequested("ticker", (PublishRequest(1, BODY),)))
    kept.storage.stop()
    (held,) = read_story("ann/wide", [kept.directory]).steps
    assert (held.evidence, held.what, held.at_us) == ("snapshot", "subscription held", None)
    assert (held.origin, held.detail) == ("client ann", "price > 18")
    (delivery,) = read_story("ticker/1", [kept.directory]).steps
    assert (delivery.what, delivery.target) == ("in session", "client ann")
    assert delivery.id == "ticker/3/1"


def test_a_running_broker_is_not_disturbed(kept: Kept) -> None:
    kept.keep(1, control("B2", Subscribe(ID, FILTER)))
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in kept.directory.iterdir()}
    assert read_story("ann/wide", [kept.directory]).steps
    after = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in kept.directory.iterdir()}
    assert before == after
    kept.keep(2, control("B2", Unsubscribe((ID,))))
    assert len(read_story("ann/wide", [kept.directory]).steps) == 2


def test_a_torn_end_and_a_damaged_journal_are_noted(kept: Kept) -> None:
    kept.keep(1, control("B2", Subscribe(ID, FILTER)))
    whole = kept.journal().read_bytes()
    kept.keep(2, control("B2", Unsubscribe((ID,))))
    longer = kept.journal().read_bytes()
    kept.journal().write_bytes(longer[:-3])
    torn = read_story("ann/wide", [kept.directory])
    assert told(torn.steps) == [(1, "subscribe", "link B2")]
    assert "ends within the record" in torn.sources[0].notes[0]
    kept.journal().write_bytes(whole[:-1] + b"?" + longer[len(whole) :])
    damaged = read_story("ann/wide", [kept.directory])
    assert damaged.steps == ()
    assert "does not match" in damaged.sources[0].notes[0]


def test_a_journal_that_is_replaced_meanwhile_is_read_again(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.keep(1, control("B2", Subscribe(ID, FILTER)))
    from byway.story import journal_steps

    listed = [[99], [1]]
    numbers = journal_steps.journal_numbers

    def once(files: FileSystem, directory: Path) -> list[int]:
        return [*(listed.pop(0) if len(listed) > 1 else []), *numbers(files, directory)]

    monkeypatch.setattr(journal_steps, "journal_numbers", once)
    assert len(read_story("ann/wide", [kept.directory]).steps) == 1


# --- traces ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace of a simulated chain of three brokers."""
    directory = tmp_path_factory.mktemp("traces")
    run_scenario(
        read_scenario(ROOT / "examples/scenarios/small-chain.toml"), trace_dir=str(directory)
    )
    return directory


def test_a_simulated_publication_is_told_broker_by_broker(simulated: Path) -> None:
    story = read_story("ticker/2", [simulated])
    steps = [(s.broker, s.hop, s.what, s.origin or s.target) for s in story.steps]
    assert steps == [
        ("B1", 0, "published", "client ticker"),
        ("B1", 0, "forwarded", "link B2"),
        ("B2", 1, "received", "link B1"),
        ("B2", 1, "forwarded", "link B3"),
        ("B3", 2, "received", "link B2"),
        ("B3", 2, "delivered", "client ann"),
        ("B3", 2, "delivered", "client bob"),
    ]
    assert {step.id for step in story.steps} == {"ticker/1/2"}
    assert read_story("ticker/1/2", [simulated]).steps == story.steps
    assert read_story("ticker/2/2", [simulated]).steps == ()


def test_a_dropped_publication_is_told_with_the_reason(simulated: Path) -> None:
    (step,) = read_story("ticker/4", [simulated]).steps
    assert (step.what, step.detail) == ("dropped", "nonconforming")


def test_runs_are_kept_apart(tmp_path: Path) -> None:
    for run, at_us in (("first", 50), ("second", 10)):
        buffer = TraceBuffer("B1")
        buffer.published(at_us, "ticker", 1, 2, at_us, 0, 1, 8)
        buffer.forwarded(at_us, ["B2"], "ticker", 1, 2, at_us, 1, 1, 8)
        with TraceWriter(tmp_path / run, run) as writer:
            writer.write(buffer.drain())
    steps = read_story("ticker/2", [tmp_path]).steps
    assert [(step.run, step.what) for step in steps] == [
        ("first", "published"), ("first", "forwarded"),
        ("second", "published"), ("second", "forwarded"),
    ]  # fmt: skip


def test_a_journal_and_a_trace_of_one_broker_make_one_story(kept: Kept, tmp_path: Path) -> None:
    kept.keep(5, ClientAttached("ticker", 1), ClientRequested("ticker", (PublishRequest(2, BODY),)))
    buffer = TraceBuffer("B1")
    buffer.published(5, "ticker", 1, 2, 5, 0, 0, 8)
    with TraceWriter(tmp_path / "traces", "live", "B1") as writer:
        writer.write(buffer.drain())
    story = read_story("ticker/2", [tmp_path / "traces", kept.directory])
    assert [(s.evidence, s.what) for s in story.steps] == [
        ("journal", "publish"),
        ("trace", "published"),
    ]


# --- the command ----------------------------------------------------------------------------------


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["trace", "story", *map(str, arguments)], env={"COLUMNS": "120"})


def test_the_command_prints_a_table(simulated: Path) -> None:
    done = run("ticker/2", simulated)
    assert done.exit_code == 0
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["ticker/1/2"]
    assert lines[2][:5] == ["B1", "0", "0.600000", "s", "published"]
    assert lines[3][:4] == ["0", "0.600000", "s", "forwarded"]
    assert done.stderr.startswith(f"searched {simulated}: a trace of ")


def test_the_command_prints_json(simulated: Path) -> None:
    story = json.loads(run("ticker/2", simulated, "--json").stdout)
    assert (story["id"], len(story["steps"])) == ("ticker/2", 7)
    assert story["steps"][0]["at_us"] == 600_000


def test_the_command_prints_live_times_in_utc(kept: Kept) -> None:
    kept.keep(1_700_000_000_000_001, control("B2", Subscribe(ID, FILTER)))
    assert "2023-11-14 22:13:20.000001" in run("ann/wide", kept.directory).stdout


def test_nothing_found_says_what_was_searched(kept: Kept, simulated: Path) -> None:
    done = run("ann/narrow", simulated, kept.directory)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.splitlines()[0] == "nothing about ann/narrow was found"
    assert "traces name publications only" in done.stderr
    expected = f"searched {kept.directory}: broker B1, its snapshot and 0 inputs in 1 journal"
    assert expected in done.stderr


def test_a_path_that_is_no_source_is_named(tmp_path: Path, simulated: Path) -> None:
    done = run("ann/wide", simulated, tmp_path)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"{tmp_path}: neither a trace nor a broker's data directory")
    assert run("ann/wide", tmp_path / "x").stderr == (
        f"{tmp_path / 'x'}: there is no such file or directory\n"
    )
    assert run("ann", simulated).exit_code == 2


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    table = tmp_path / "trace-00000.parquet"
    table.write_text("no table")
    assert run("ticker/2", tmp_path).exit_code == 2
    assert str(table) in run("ticker/2", tmp_path).stderr
    state = tmp_path / "data" / STATE
    state.parent.mkdir()
    state.write_text("no state")
    done = run("ticker/2", tmp_path / "data")
    assert done.exit_code == 2
    assert done.stderr.startswith(f"{state}: ")
