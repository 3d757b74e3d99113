"""What older programs left: a clean stop is gone on from; a journal is not, unless one says so."""

import importlib.util
import json
import shutil
from pathlib import Path

import msgspec
import pytest

from byway._version import __version__
from byway.core import snapshot
from byway.core.inputs import Started
from byway.core.invariants import validate
from byway.core.snapshot import older_layouts as layouts
from byway.model.errors import SnapshotError, StorageError
from byway.model.messages import LinkKind
from byway.storage.record_files import record, title
from byway.storage.state_files import STATE, State
from byway.storage.storage import Storage

OLD = Path(__file__).parents[3] / "testdata/state"
LAYOUTS = sorted(path.name for path in OLD.glob("layout-*"))


def script():
    """The script that makes the directory of the present layout."""
    spec = importlib.util.spec_from_file_location("make_state", OLD / "make.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MAKE = script()
CONFIG = MAKE.CONFIG


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
    """The facts of a broker that were known when the directory was made."""
    found = MAKE.facts(broker) | {"version": facts["version"]}
    return {name: found[name] for name in facts}


def test_there_is_a_directory_of_every_layout():
    layouts_there_are = range(layouts.OLDEST, snapshot.VERSION + 1)
    assert [f"layout-{number}" for number in layouts_there_are] == LAYOUTS


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_directory_is_worth_restoring(name):
    told = json.loads((OLD / name / "facts.json").read_text())
    for facts in (told["stopped"], told["killed"]):
        assert min(len(facts[what]) for what in ("links", "advertisements", "subscriptions")) >= 2
        assert all(facts["kept"].values())  # each session has deliveries
        assert sum(facts["preserved"].values()) > 0
        assert sum(facts["unconfirmed"].values()) > 0
        if name > "layout-6":
            assert set(facts["kinds"].values()) == {kind.value for kind in LinkKind}
            assert facts["former"]
            assert facts["addresses"].keys() >= set(facts["dialled"]) > set()


def test_the_directory_of_the_present_layout_is_what_the_script_makes(tmp_path):
    """Not byte for byte, since a state has all settings; but the snapshots are equal."""
    made = MAKE.make(tmp_path)
    assert (tmp_path / LAYOUTS[-1]) == made
    own, kept = (
        json.loads((path / made.name / "facts.json").read_text()) for path in (tmp_path, OLD)
    )
    if kept["version"] != __version__:
        return  # an earlier version had this layout already; its directory stays
    assert kept == own
    found = []
    for path in (made, shutil.copytree(OLD / made.name, tmp_path / "kept")):
        storage = Storage(str(path / "stopped"))
        found.append(storage.restore(1, "B", CONFIG, MAKE.NEIGHBOURS).snapshot())
        storage.abandon()
    assert found[0] == found[1], "the layout of snapshots has changed: see testdata/state/README.md"


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
    if version == __version__:  # that is one of this version
        assert facts_of(restore(), facts) == facts
        return
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
    if facts["version"] == __version__:  # the word has no effect where it is not needed
        assert found == facts
        return
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
