"""Whatever happens to the files of a broker, the next start gives the last state, or says that it
may be an older one, or names the file that is at fault. It is never wrong in silence."""

import os
import shutil
from pathlib import Path

import pytest

from byway.core.inputs import ClientDetached, Started
from byway.model.errors import StorageError
from byway.sim.engine.node_storage import HeldSnapshots
from byway.storage import file_system, state_files
from byway.storage import storage as storage_module
from byway.storage.file_system import OsFileSystem
from byway.storage.record_files import record
from byway.storage.storage import Storage
from tests.unit.storage.test_storage import CLIENT, CONFIG, Kept

SESSION_US = 60_000_000


@pytest.fixture(autouse=True)
def machine(tmp_path_factory, monkeypatch):
    """A machine whose boots the test decides about."""
    file = tmp_path_factory.mktemp("machine") / "boot_id"
    file.write_text("one\n")
    monkeypatch.setattr(file_system, "_BOOT_ID", file)
    return file


def one_journal(directory: Path, durability: str) -> Kept:
    """Killed; what it did since its start is in a journal."""
    kept = Kept(directory, durability=durability)
    kept.begin(SESSION_US)
    kept.publish(2)
    kept.storage.abandon()
    return kept


def two_journals(directory: Path, durability: str) -> Kept:
    """Killed before a snapshot took the place of the first of two journals."""
    never = HeldSnapshots(lambda _: None)
    kept = Kept(directory, durability=durability, snapshots=never)
    kept.begin(SESSION_US)
    kept.storage._journal_bytes_least = 0
    storage_module.JOURNAL_SNAPSHOTS, before = 0, storage_module.JOURNAL_SNAPSHOTS
    kept.publish(2)
    storage_module.JOURNAL_SNAPSHOTS = before
    kept.storage._journal_bytes_least = 1_000_000
    kept.publish(3)
    kept.storage.abandon()
    assert len(list(directory.glob("journal-*"))) == 2
    return kept


def no_input(directory: Path, durability: str) -> Kept:
    """Killed as soon as it had begun from what was kept before."""
    one_journal(directory, durability)
    kept = Kept(directory, durability=durability, start=False)
    kept.storage.abandon()
    return kept


def stopped(directory: Path, durability: str) -> Kept:
    """Stopped cleanly."""
    kept = Kept(directory, durability=durability)
    kept.begin(SESSION_US)
    kept.storage.stop()
    return kept


SCENES = [one_journal, two_journals, no_input, stopped]


class Scene:
    """A directory, and what a start from a damaged copy of it comes to."""

    def __init__(self, make, root: Path, durability: str) -> None:
        self.root, self.directory = root, root / "sound"
        kept = make(self.directory, durability)
        self.incarnation, self.expected = kept.incarnation, kept.as_restored()
        self.files = {p.name: p.read_bytes() for p in sorted(self.directory.iterdir())}
        self.last = max((n for n in self.files if n.startswith("journal")), default="")

    def copy(self) -> Path:
        spoilt = self.root / "spoilt"
        shutil.rmtree(spoilt, ignore_errors=True)
        shutil.copytree(self.directory, spoilt)
        return spoilt

    def outcome(self, directory: Path) -> str:
        """`exact`, `stale`, `begun` or `refused`; anything else fails."""
        before = {p.name: p.read_bytes() for p in directory.iterdir()}
        storage = Storage(str(directory))
        try:
            broker = storage.restore(1, "B1", CONFIG)
        except StorageError as error:
            refused = str(error)
            storage.abandon()
            after = {p.name: p.read_bytes() for p in directory.iterdir()}
            assert {**after, "lock": b""} == {**before, "lock": b""}, "a refusal changes nothing"
            return "refused" if refused.startswith(str(directory)) else refused
        storage.abandon()
        if broker.incarnation > self.incarnation:
            if storage.start_summary == "a new broker":
                return "begun"
            assert "may not be the last state" in storage.start_summary
            assert broker.sessions_stale
            return "stale"
        broker.handle(1, Started())
        assert broker.snapshot() == self.expected, "wrong in silence"
        return "exact"


@pytest.mark.parametrize("durability", ["process", "power"])
@pytest.mark.parametrize("make", SCENES)
@pytest.mark.parametrize("restarted", [False, True], ids=["", "restarted"])
def test_a_file_cut_anywhere_is_noticed(make, restarted, durability, tmp_path, machine):
    scene = Scene(make, tmp_path, durability)
    if restarted:
        machine.write_text("another\n")
    found: dict[str, set[str]] = {}
    for name, data in scene.files.items():
        for length in range(0, len(data), 9 if name == "state" else 1):
            directory = scene.copy()
            os.truncate(directory / name, length)
            found.setdefault(name, set()).add(scene.outcome(directory))
    assert found.pop("state") == {"refused"}
    exact = {"exact"} if make is stopped or durability == "power" or not restarted else {"stale"}
    assert found.pop("lock") == found.pop("written") == exact
    for name, outcomes in found.items():
        assert outcomes <= {"stale", "refused"}, name


@pytest.mark.parametrize("make", SCENES)
def test_a_byte_flipped_anywhere_is_noticed(make, tmp_path):
    scene = Scene(make, tmp_path, "process")
    for name, data in scene.files.items():
        for at in range(len(data)):
            directory = scene.copy()
            spoilt = bytearray(data)
            spoilt[at] ^= (0x01, 0x80, 0xFF)[at % 3]
            (directory / name).write_bytes(spoilt)
            outcome = scene.outcome(directory)
            assert outcome == ("exact" if name in ("lock", "written") else "refused"), (name, at)


@pytest.mark.parametrize("make", SCENES)
@pytest.mark.parametrize("restarted", [False, True], ids=["", "restarted"])
@pytest.mark.parametrize("tail", [bytes(1), bytes(5_000), b"?", b"garbage" * 100])
def test_what_is_added_at_an_end_is_no_input(make, restarted, tail, tmp_path, machine):
    scene = Scene(make, tmp_path, "process")
    if restarted:
        machine.write_text("another\n")
    for name in scene.files:
        directory = scene.copy()
        with (directory / name).open("ab") as file:
            file.write(tail)
        outcome = scene.outcome(directory)
        if name == "state":
            assert outcome == "refused"
        elif name in ("lock", "written"):
            assert outcome in ("exact", "stale" if restarted and make is not stopped else "exact")
        elif restarted:
            assert outcome in ("stale", "refused")
        elif name == scene.last and (not any(tail) or len(tail) < len(record(b""))):
            assert outcome == "exact"  # never written: nothing followed from it
        else:
            assert outcome == "refused", name


@pytest.mark.parametrize("make", SCENES)
@pytest.mark.parametrize("durability", ["process", "power"])
@pytest.mark.parametrize("restarted", [False, True], ids=["", "restarted"])
def test_a_file_that_is_lost_is_named(make, durability, restarted, tmp_path, machine):
    scene = Scene(make, tmp_path, durability)
    if restarted:
        machine.write_text("another\n")
    for name in scene.files:
        if name in ("lock", "written"):
            continue
        directory = scene.copy()
        (directory / name).unlink()
        unsure = make is two_journals and name == scene.last and restarted
        if unsure and durability == "process":
            assert scene.outcome(directory) == "stale"  # it may never have been on the disk
            continue
        storage = Storage(str(directory))
        with pytest.raises(StorageError, match=f"{name}: is missing"):
            storage.restore(1, "B1", CONFIG)
        storage.abandon()


@pytest.mark.parametrize("make", SCENES)
@pytest.mark.parametrize("name", ["state.new", "journal.new"])
def test_what_was_left_half_written_does_no_harm(make, name, tmp_path):
    scene = Scene(make, tmp_path, "process")
    directory = scene.copy()
    (directory / name).write_bytes(b"half a fi")
    assert scene.outcome(directory) == "exact"


class DiedError(Exception):
    pass


class MortalFiles(OsFileSystem):
    """From the operation with this number on, nothing reaches the disk."""

    def __init__(self, last: int) -> None:
        self.left = last

    def __getattribute__(self, name: str):
        if name in {"create", "open", "append", "overwrite", "truncate", "sync", "sync_path",
                    "rename", "remove"}:  # fmt: skip
            if not self.left:
                raise DiedError
            self.left -= 1
        return super().__getattribute__(name)


def test_a_process_that_dies_at_any_step_of_a_start_loses_nothing(tmp_path):
    """Every call that changes the directory is the last one once."""
    for make in (*SCENES, None):
        root = tmp_path / getattr(make, "__name__", "empty")
        scene = None if make is None else Scene(make, root, "process")
        for last in range(200):
            directory = root / "new" if scene is None else scene.copy()
            if scene is None:
                shutil.rmtree(directory, ignore_errors=True)
                directory.mkdir(parents=True)
            storage = Storage(str(directory), files=MortalFiles(last))
            try:
                storage.restore(1, "B1", CONFIG)
                ended = True
            except DiedError:
                ended = False
            storage.abandon()
            if scene is None:
                second = Storage(str(directory))
                second.restore(1, "B1", CONFIG)
                second.abandon()
            else:
                assert scene.outcome(directory) == "exact", last
            if ended:
                break
        assert ended
        assert last > 5


@pytest.mark.parametrize("durability", ["process", "power"])
def test_a_process_that_dies_within_a_write_is_exact(durability, tmp_path):
    """Nobody was told of an input that is not written whole."""
    kept = Kept(tmp_path, durability=durability)
    kept.begin(SESSION_US)
    expected = kept.as_restored()
    (journal,) = tmp_path.glob("journal-*")
    before = journal.read_bytes()
    kept.storage.keep(1, [ClientDetached(CLIENT)])
    whole = journal.read_bytes()
    kept.storage.abandon()
    written = (tmp_path / "written").read_bytes()
    for length in range(len(before), len(whole)):
        directory = tmp_path / "copy"
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        for name in ("state", "lock"):
            shutil.copy(tmp_path / name, directory)
        (directory / journal.name).write_bytes(whole[:length])
        (directory / "written").write_bytes(state_files.written_mark(1, len(before)))
        restarted = Kept(directory, start=False)
        assert restarted.incarnation == kept.incarnation
        restarted.broker.handle(1, Started())
        assert restarted.broker.snapshot() == expected
        restarted.storage.abandon()
    assert written == state_files.written_mark(1, len(whole))


def test_a_full_disk_costs_the_input_that_found_no_room_and_nothing_else(tmp_path, monkeypatch):
    kept = Kept(tmp_path)
    kept.begin(SESSION_US)
    expected = kept.as_restored()
    real = os.write

    def partly(file: int, data: bytes) -> int:
        if len(data) > 1:
            return real(file, data[: len(data) // 2])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(os, "write", partly)
        for _ in range(2):
            with pytest.raises(StorageError, match="cannot be written to: No space left"):
                kept.storage.keep(1, [ClientDetached(CLIENT)])
    kept.storage.abandon()
    restarted = Kept(tmp_path, start=False)
    assert restarted.incarnation == kept.incarnation
    restarted.broker.handle(1, Started())
    assert restarted.broker.snapshot() == expected
    assert restarted.broker.sessions[CLIENT].sequence == 1
    restarted.storage.abandon()
