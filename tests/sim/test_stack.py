"""The real stack in a world: frames that travel as bytes, and brokers that keep their state on
disks, which tear, forget, fail and fill up."""

from pathlib import Path

import pytest

from byway.core.broker_config import BrokerConfig
from byway.model.errors import StorageError
from byway.model.messages import Batch, PublishRequest, Requests, UnsubscribeRequest
from byway.sim.engine.network import NetworkOptions
from byway.sim.engine.node_storage import DIRECTORY, StorageOptions
from byway.sim.run import run_scenario
from byway.sim.scenario import read_scenario
from byway.sim.topology.shapes import chain
from byway.sim.world import World
from byway.storage.replay import Replay
from byway.storage.storage import Storage
from byway.trace import read_trace
from byway.wire import REQUESTS_BYTES_MAX, encode
from tests.sim.world_runs import RandomRun

pytestmark = pytest.mark.sim

SECOND = 1_000_000
TTL_US = 60 * SECOND
EXAMPLES = Path(__file__).parents[2] / "examples/scenarios"
BROKERS = ("B1", "B2", "B3")
KEEPING = StorageOptions(data=True, journal_bytes=400, snapshot_us=3_000)


def make(options=KEEPING, codec=False, **others):
    """A chain of three brokers, all with such a disk."""
    network = NetworkOptions(reconnect_us=5_000, reattach_us=5_000, codec=codec)
    storage = None if options is None else dict.fromkeys(BROKERS, options)
    return World(chain(3), config=BrokerConfig(), network=network, storage=storage, **others)


def pair(world, ttl_us=TTL_US):
    """A publisher of everything and a subscriber to everything, settled."""
    source, sink = world.client("source", "B1", ttl_us), world.client("sink", "B3", ttl_us)
    source.advertise("ANY")
    sink.subscribe("TRUE")
    assert world.quiet(100 * SECOND)
    return source, sink


def publish(world, source, count=10):
    """Publish one after another, a millisecond apart."""
    for number in range(count):
        world.at(world.now_us + 1_000 * number, lambda number=number: source.publish({"p": number}))


def finish(world):
    assert world.quiet(1_000 * SECOND)
    report = world.check()
    assert report.violations == ()
    assert report.tables_compared


def incarnations(world):
    return [world.nodes[name].broker.incarnation for name in BROKERS]


# --- bytes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["small-chain", "inner-broker-crash", "sessions"])
def test_bytes_lead_to_the_same_run(name, tmp_path):
    """Without limits nothing depends on sizes: the traces are the same."""
    found = []
    for codec in (False, True):
        scenario = read_scenario(EXAMPLES / f"{name}.toml", [f"network.codec={str(codec).lower()}"])
        directory = tmp_path / str(codec)
        result = run_scenario(scenario, trace_dir=directory)
        assert result.ok, result.violations
        assert (result.metrics.bytes_sent is not None) == codec
        found.append(read_trace(directory))
    assert found[0].equals(found[1])
    assert found[0].num_rows > 50


def test_a_frame_takes_its_bytes_over_the_bandwidth(monkeypatch):
    sizes = []

    def counted(frame):
        data = encode(frame)
        if isinstance(frame, Batch):
            sizes.append(len(data))
        return data

    monkeypatch.setattr("byway.wire.codec.encode", counted)
    world = World(
        chain(2),
        config=BrokerConfig(),
        network=NetworkOptions(codec=True, latency_us=1_000, bandwidth_bytes_per_s=1_000),
    )
    source, sink = world.client("source", "B1"), world.client("sink", "B2")
    source.advertise("ANY")
    sink.subscribe("TRUE")
    assert world.quiet(100 * SECOND)
    sizes.clear()
    source.publish({"p": 1})
    assert world.quiet(100 * SECOND)
    assert world.check().ok
    (size_bytes,) = sizes
    assert world.metrics().mean_delay_ms == 1 + size_bytes


def test_a_client_that_sends_what_cannot_be_read_is_found():
    for data, words in (
        (encode(Requests((UnsubscribeRequest(("x" * 9_999,)),))), "cannot be decoded"),
        (encode(Requests((PublishRequest(1, bytes(REQUESTS_BYTES_MAX)),) * 2)), "not one publ"),
    ):
        world = make(None, codec=True)
        _, sink = pair(world)
        sink._wire._on_bytes(data)
        assert world.quiet(100 * SECOND)
        report = world.check()
        assert report.protocol == 1
        assert "client sink of B3 sends what cannot be read" in report.violations[0]
        assert words in report.violations[0]


def test_a_broker_that_sends_what_cannot_be_read_is_found():
    world = make(None, codec=True)
    pair(world)
    world.nodes["B2"].channels["B1"]._depart(bytearray(b"\0\0\0\1\xc1"))
    assert world.quiet(100 * SECOND)
    report = world.check()
    assert report.protocol == 1
    assert report.violations[0].startswith("B1 closed its connection to B2, which sends what")


# --- restarts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("durability", ["process", "power"])
@pytest.mark.parametrize("power", [False, True], ids=["killed", "power lost"])
@pytest.mark.parametrize("broker", BROKERS)
def test_a_broker_continues_from_its_files(broker, power, durability):
    world = make(StorageOptions(data=True, durability=durability))
    source, sink = pair(world)
    publish(world, source)
    world.run(world.now_us + 4_500)
    world.crash(broker, power=power)
    world.run(world.now_us + 20_000)
    world.restart(broker, stored=True)
    finish(world)
    is_last = durability == "power" or not power
    assert (world.nodes[broker].broker.incarnation == 1) == is_last
    assert (source.incarnation == 1) == (is_last or broker != "B1")
    if is_last:
        assert sink.deliveries == 10


@pytest.mark.parametrize("durability", ["process", "power"])
def test_a_crash_within_any_operation_on_files(durability):
    """Each broker in turn ends within each of its operations, and comes back."""
    options = StorageOptions(data=True, durability=durability, journal_bytes=400, snapshot_us=500)
    crashes = 0
    for broker in BROKERS:
        first, last = operations(options, broker)
        for crash_at in range(first, last + 1):
            world = make(options)
            source, sink = pair(world)
            world.crash(broker, power=durability == "power", torn=True)
            world.nodes[broker].disk.files.crash_at = crash_at
            publish(world, source)
            world.run(world.now_us + 30_000)
            assert world.nodes[broker].broker is None
            world.restart(broker, stored=True)
            finish(world)
            assert incarnations(world) == [1, 1, 1]
            assert sink.deliveries == 10
            crashes += 1
    assert crashes > 60


def operations(options, broker):
    """The first and the last operation on files of a broker while publications pass through."""
    world = make(options)
    source, _ = pair(world)
    files = world.nodes[broker].disk.files
    first = files.operations + 1
    publish(world, source)
    world.run(world.now_us + 30_000)
    return first, files.operations


def test_a_directory_that_was_moved_away():
    world = make()
    source, sink = pair(world)
    publish(world, source)
    world.run(world.now_us + 4_500)
    world.crash("B2")
    world.restart("B2", stored=False)
    finish(world)
    assert incarnations(world)[1] > 1
    assert sink.deliveries == 10


@pytest.mark.parametrize("seed", range(6))
def test_a_damaged_journal_is_replayed_as_far_as_it_goes(seed):
    world = make(StorageOptions(data=True), disk_seed=seed)
    source, sink = pair(world)
    publish(world, source)
    world.run(world.now_us + 4_500)
    world.crash("B2")
    world.restart("B2", stored=True, stale=True)
    finish(world)
    assert incarnations(world)[1] > 1
    assert sink.deliveries == 10


def test_snapshots_are_taken_meanwhile():
    world = make()
    source, sink = pair(world)
    publish(world, source, 200)
    assert world.quiet(100 * SECOND)
    storage = world.nodes["B2"].disk.storage
    assert storage.snapshots > 3
    world.crash("B2")
    world.restart("B2", stored=True)
    finish(world)
    assert sink.deliveries == 200


def test_a_broker_without_data_remembers_its_neighbours():
    """B2 is not told of B3, and would confirm what B3 has to get."""
    world = make(StorageOptions(state_dir=True), unlisted=[("B2", "B3")])
    source, sink = pair(world)
    world.crash("B2")
    world.cut("B2", "B3")
    world.restart("B2", stored=False)
    publish(world, source, 1)
    world.run(world.now_us + 60 * SECOND)
    assert source.unconfirmed == 1
    world.mend("B2", "B3")
    finish(world)
    assert sink.deliveries == 1


# --- disks that do not work -----------------------------------------------------------------------


@pytest.mark.parametrize("room_bytes", [None, 0, 50, 500])
@pytest.mark.parametrize("broker", BROKERS)
def test_a_broker_that_cannot_write_ends(broker, room_bytes):
    world = make(StorageOptions(data=True))
    source, sink = pair(world)
    world.break_disk(broker, room_bytes=room_bytes)
    publish(world, source)
    world.run(world.now_us + 50_000)
    assert [name for name in BROKERS if world.nodes[name].broker is None] == [broker]
    world.restart(broker, stored=True)
    assert world.nodes[broker].broker is None, "its disk still does not work"
    world.mend_disk(broker)
    finish(world)
    assert incarnations(world) == [1, 1, 1]
    assert sink.deliveries == 10


def test_a_snapshot_that_does_not_fit_ends_nobody():
    world = make(StorageOptions(data=True, journal_bytes=400, snapshot_us=3_000))
    source, sink = pair(world)
    disk = world.nodes["B2"].disk
    disk.fail(["create"])
    publish(world, source)
    world.run(world.now_us + 9_000)
    disk.mend()
    publish(world, source)
    finish(world)
    assert sink.deliveries == 20


def test_a_world_without_disks_has_none_to_break():
    with pytest.raises(ValueError, match="B1 keeps nothing on a disk"):
        make(None).break_disk("B1")


# --- the checks turn red --------------------------------------------------------------------------


def test_a_storage_that_forgets_is_found(monkeypatch):
    """Every third group of inputs is not written."""
    world, kept, keep = make(StorageOptions(data=True)), [], Storage.keep

    def forgetful(storage, at_us, inputs):
        kept.append(inputs)
        if len(kept) % 3:
            keep(storage, at_us, inputs)

    source, _ = pair(world)
    monkeypatch.setattr(Storage, "keep", forgetful)
    publish(world, source)
    world.run(world.now_us + 4_500)
    monkeypatch.setattr(Storage, "keep", keep)
    world.crash("B2")
    world.restart("B2", stored=True)
    world.quiet(10 * SECOND)
    report = world.check()
    assert report.storage == 1
    assert report.violations[0] == "B2 has started with a state that is not its last one"


def test_an_older_state_that_is_taken_for_the_last_one_is_found(monkeypatch):
    world = make(StorageOptions(data=True))
    source, _ = pair(world)
    publish(world, source)
    world.run(world.now_us + 4_500)
    world.crash("B2", power=True)
    replay = Replay._replay
    monkeypatch.setattr(Replay, "_replay", lambda self, rebuild: replay(self, rebuild) or True)
    world.restart("B2", stored=True)
    report = world.check()
    assert report.storage == 1
    assert report.violations[0] == "B2 takes an older state for its last one"


def test_a_broker_that_refuses_its_files_is_found():
    world = make(StorageOptions(data=True))
    pair(world)
    world.crash("B2")
    files = world.nodes["B2"].disk.files
    files.damage(DIRECTORY / "state", lambda content: content[:-1])
    world.restart("B2", stored=True)
    report = world.check()
    assert report.storage == 1
    assert report.violations[0].startswith("B2 does not start: /data/state: ends within")
    with pytest.raises(StorageError):
        world.nodes["B2"].disk.start(1, BrokerConfig(), ["B1", "B3"])


# --- runs that failed -----------------------------------------------------------------------------

BOTH = ("codec", "storage")


@pytest.mark.parametrize(
    ("seed", "options"),
    [
        (0, {"storm": True, "outages": True, "stack": BOTH}),
        (567, {"storm": True, "stack": BOTH}),
        (576, {"storm": True, "stack": BOTH}),
        (645, {"storm": True, "outages": True, "stack": BOTH}),
        (1_353, {"storm": True, "stack": BOTH}),
        (1_360, {"outages": True, "stack": BOTH}),
        (1_485, {"storm": True, "outages": True, "stack": BOTH}),
        (3_441, {"storm": True, "stack": ("storage",)}),
    ],
    ids=[
        "a client left after it had subscribed anew",
        "a refusal was kept, and nobody was told",
        "a journal came back with the power",
        "a session began, and nobody was told",
        "a damaged journal on a full disk",
        "a session began, and nobody was told, once more",
        "a session began, and nobody was told, late",
        "a broker that was rebuilt reported another load",
    ],
)
def test_runs_that_failed(seed, options):
    report = RandomRun(seed, **options).run()
    assert report.violations == ()
    assert report.tables_compared
