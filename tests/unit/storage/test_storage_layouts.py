"""What older programs left: a clean stop is gone on from; a journal is not, unless one says so."""

import json
import shutil
from pathlib import Path

import msgspec
import pytest

from byway._version import __version__
from byway.core import snapshot
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import Started
from byway.core.invariants import validate
from byway.core.placeholders import by_link, placeholders
from byway.core.snapshot import older_layouts as layouts
from byway.model.errors import SnapshotError, StorageError
from byway.storage.record_files import record, title
from byway.storage.state_files import STATE, State
from byway.storage.storage import Storage

OLD = Path(__file__).parents[3] / "testdata/state"
LAYOUTS = sorted(path.name for path in OLD.glob("layout-*"))
CONFIG = BrokerConfig(covering="incremental", incremental_bursts=(1, 5_000), pruning_samples_min=2)


@pytest.fixture(params=LAYOUTS)
def old(request, tmp_path):
    """Opens a copy of a directory that an older program left."""
    opened: list[Storage] = []

    def open_(name: str, **options):
        directory = tmp_path / name
        if not directory.exists():
            shutil.copytree(OLD / request.param / name, directory)
        opened.append(Storage(str(directory)))
        told = json.loads((OLD / request.param / "facts.json").read_text())
        facts = told[name] | {"version": told["version"]}
        return opened[-1], facts, lambda: opened[-1].restore(1, "B", CONFIG, **options)

    yield open_
    for storage in opened:
        storage.abandon()


def facts_of(broker, facts):
    return {
        "version": facts["version"],
        "incarnation": broker.incarnation,
        "links": sorted(broker.neighbours),
        "advertisements": sorted(f"{e.id.client}/{e.id.name}" for e in broker.advertisements),
        "subscriptions": sorted(f"{e.id.client}/{e.id.name}" for e in broker.subscriptions),
        "preserved": dict(by_link(placeholders(broker)[0])),
        "unconfirmed": {name: link.unconfirmed for name, link in broker.links.items()},
        "received": {name: list(link.received) for name, link in broker.links.items()},
        "kept": {
            name: [delivery.publication.sequence for delivery in broker.kept_deliveries(name)]
            for name in broker.sessions
        },
        "published": {name: session.sequence for name, session in broker.sessions.items()},
    }


def test_there_is_a_directory_of_every_layout():
    following = layouts.OLDEST + len(LAYOUTS)
    assert [f"layout-{number}" for number in range(layouts.OLDEST, following)] == LAYOUTS
    assert following >= snapshot.VERSION  # that of the present one comes when another follows


def test_a_clean_stop_is_gone_on_from(old):
    storage, facts, restore = old("stopped")
    broker = restore()
    assert facts_of(broker, facts) == facts
    assert validate(broker) == []
    assert storage.start_summary == "resumed after a clean stop"
    storage.keep(facts["incarnation"], [Started()])
    broker.handle(facts["incarnation"], Started())
    storage.abandon()
    _, _, restore = old("stopped")
    assert facts_of(restore(), facts) == facts  # it is of this version by now


def test_a_journal_of_another_version_is_refused_with_two_ways_out(old):
    storage, facts, restore = old("killed")
    version = facts["version"]
    before = {p.name: p.read_bytes() for p in storage.directory.iterdir()}
    with pytest.raises(StorageError) as caught:
        restore()
    told = str(caught.value)
    assert f"left by byway {version} without a clean stop, and this is byway {__version__}" in told
    assert f"start byway {version} and stop it cleanly; or give --stale" in told
    assert {p.name: p.read_bytes() for p in storage.directory.iterdir()} == before


def test_it_is_replayed_under_a_new_incarnation_if_one_says_so(old):
    storage, facts, restore = old("killed", may_be_stale=True)
    broker = restore()
    found = facts_of(broker, facts)
    assert found["links"] == facts["links"]
    assert set(found["subscriptions"]) <= set(facts["subscriptions"])
    assert set(found["advertisements"]) <= set(facts["advertisements"])  # the protocol is another
    assert broker.incarnation > facts["incarnation"]
    assert "that may not be the last state" in storage.start_summary
    assert validate(broker) == []
    broker.handle(broker.incarnation, Started())
    assert broker.sessions == {}  # they begin anew


def test_settings_that_are_not_known_any_more_do_not_matter(tmp_path):
    """A directory outlives names of settings."""
    storage = Storage(str(tmp_path))
    storage.restore(1, "B", CONFIG)
    state = storage._state(complete=True)
    storage.abandon()
    at = State.__struct_fields__.index("config")
    fields = msgspec.msgpack.decode(state[len(title(STATE)) + 12 :])
    fields[at]["what_it_was_called"] = 7
    del fields[at]["hops_max"]
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    (tmp_path / STATE).write_bytes(title(STATE) + record(msgspec.msgpack.encode(fields)))
    storage = Storage(str(tmp_path))
    assert storage.restore(1, "B", CONFIG).name == "B"
    storage.abandon()


def test_layouts_are_converted_step_by_step(monkeypatch):
    first, second = layouts.OLDEST, layouts.OLDEST + 1
    monkeypatch.setitem(layouts.CONVERTERS, first, lambda state: [*state, "one"])
    monkeypatch.setitem(layouts.CONVERTERS, second, lambda state: [*state, "two"])
    assert layouts.converted(["old"], first, second + 1) == ["old", "one", "two"]
    assert layouts.converted(["old"], second, second + 1) == ["old", "two"]
    assert layouts.converted(["old"], second, second) == ["old"]


@pytest.mark.parametrize("version", [0, layouts.OLDEST - 1, snapshot.VERSION + 1])
def test_other_layouts_are_refused(version):
    data = msgspec.msgpack.encode(("byway broker", version, []))
    with pytest.raises(SnapshotError, match=f"layout has version {version}, expected 4 to"):
        snapshot.read(data)
