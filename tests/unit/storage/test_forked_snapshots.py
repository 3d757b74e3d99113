"""Snapshots that a child process writes: in real processes, on the real file system."""

import contextlib
import errno
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread

import pytest

from byway.core.broker import Broker
from byway.core.inputs import Started
from byway.sim.engine.node_storage import HeldSnapshots
from byway.storage import storage as storage_module
from byway.storage.file_system import OsFileSystem
from byway.storage.forked_snapshots import ForkedSnapshots, process_snapshots
from byway.storage.snapshot_writing import SnapshotJob, ThreadedSnapshots
from byway.storage.storage import Storage
from tests.unit.storage.test_storage import CLIENT, CONFIG, Kept

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no child"),
    pytest.mark.timeout(60),
]
SESSION_US = 60_000_000


class GatedSnapshots(ForkedSnapshots):
    """Children wait at a gate before they encode anything."""

    def __init__(self, gate: Path) -> None:
        super().__init__()
        self.gate = gate
        os.mkfifo(gate)

    def begin(self, job: SnapshotJob):
        def encode() -> bytes:
            self.gate.read_bytes()
            return job.encode()

        return super().begin(job._replace(encode=encode))

    @property
    def child(self) -> int:
        return self._child._pid

    def open(self) -> None:
        """Let the child pass."""
        self.gate.write_bytes(b"")


def ended(kept: Kept) -> None:
    """Wait until the snapshot is installed, or has failed."""
    while not kept.storage._snapshot.done():
        time.sleep(0.01)
    kept.storage._end_snapshot()


def journals(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.glob("journal-*"))


@pytest.fixture
def begun(tmp_path):
    """A broker with a journal, whose snapshots wait at a gate."""
    kept = Kept(tmp_path / "data", snapshots=GatedSnapshots(tmp_path / "gate"))
    kept.begin(SESSION_US)
    yield kept
    kept.storage.abandon()


@pytest.fixture
def again(tmp_path):
    """The broker that a restart gives."""
    opened = []

    def restart() -> Kept:
        opened.append(Kept(tmp_path / "data"))
        return opened[-1]

    yield restart
    for kept in opened:
        kept.storage.abandon()


def test_a_broker_process_forks_where_that_is_safe(monkeypatch):
    assert isinstance(process_snapshots(), ForkedSnapshots)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert isinstance(process_snapshots(), ThreadedSnapshots)


def test_the_broker_goes_on_and_the_snapshot_is_of_the_moment_when_it_was_begun(
    begun, again, tmp_path
):
    begun.storage.refresh()
    for sequence in range(2, 6):
        begun.publish(sequence)
    assert journals(tmp_path / "data") == ["journal-00000001", "journal-00000002"]
    begun.storage._snapshots.open()
    ended(begun)
    assert begun.storage.snapshots_failed == 0
    assert journals(tmp_path / "data") == ["journal-00000002"]
    assert begun.storage.snapshot_bytes == (tmp_path / "data/state").stat().st_size
    begun.storage.abandon()
    second = again()
    assert "replaying 4 inputs" in second.storage.start_summary
    assert second.broker.snapshot() == begun.as_restored()
    assert len(second.broker.kept_deliveries(CLIENT)) == 5


def test_while_one_is_written_the_journal_is_continued(begun, monkeypatch):
    monkeypatch.setattr(storage_module, "JOURNAL_SNAPSHOTS", 0)
    begun.storage._journal_bytes_least = 0
    before = begun.storage.snapshots
    for sequence in range(2, 6):
        begun.publish(sequence)
    assert begun.storage.snapshots == before + 1
    begun.storage._snapshots.open()
    ended(begun)
    begun.publish(6)
    assert begun.storage.snapshots == before + 2


def test_a_child_that_is_killed_is_reported_and_the_next_one_tried(begun, again, tmp_path, caplog):
    begun.storage.refresh()
    begun.publish(2)
    os.kill(begun.storage._snapshots.child, signal.SIGKILL)
    ended(begun)
    assert "a snapshot failed, its journals are kept: its process was killed by SIGKILL" in (
        caplog.text
    )
    assert begun.storage.snapshots_failed == 1
    assert journals(tmp_path / "data") == ["journal-00000001", "journal-00000002"]
    begun.storage.refresh()
    begun.publish(3)
    begun.storage._snapshots.open()
    ended(begun)
    assert begun.storage.snapshots_failed == 1
    assert journals(tmp_path / "data") == ["journal-00000003"]
    begun.storage.abandon()
    assert again().broker.snapshot() == begun.as_restored()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_disk_that_is_full_for_the_snapshot_costs_nothing_but_the_snapshot(tmp_path, caplog):
    class Full(OsFileSystem):
        full = False

        def create(self, path: Path) -> int:
            if self.full and path.name.startswith("state"):
                super().create(path)
                return os.open("/dev/full", os.O_WRONLY)
            return super().create(path)

    files = Full()
    kept = Kept(tmp_path, snapshots=ForkedSnapshots(), files=files)
    kept.begin(SESSION_US)
    files.full = True
    kept.storage.refresh()
    kept.publish(2)
    ended(kept)
    assert f"[Errno {errno.ENOSPC}] No space left on device" in caplog.text
    assert not list(tmp_path.glob("*.new"))
    kept.publish(3)
    kept.storage.abandon()
    second = Kept(tmp_path)
    assert second.broker.snapshot() == kept.as_restored()
    second.storage.abandon()


def test_a_state_that_cannot_be_encoded_is_reported_with_its_traceback(begun, monkeypatch, caplog):
    monkeypatch.setattr(Broker, "snapshot", lambda _: 1 / 0)
    begun.storage.refresh()
    begun.storage._snapshots.open()
    ended(begun)
    assert "ZeroDivisionError: division by zero" in caplog.text
    begun.publish(2)


def test_where_there_can_be_no_child_the_snapshot_is_encoded_here(
    begun, again, tmp_path, monkeypatch, caplog
):
    def fork() -> int:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(os, "fork", fork)
    opening = Thread(target=begun.storage._snapshots.open)
    opening.start()
    begun.storage.refresh()
    opening.join()
    ended(begun)
    assert "no process for a snapshot, it is encoded here: Resource temporarily" in caplog.text
    assert journals(tmp_path / "data") == ["journal-00000002"]
    begun.storage.abandon()
    assert again().broker.snapshot() == begun.as_restored()


def held(process: int) -> set[str]:
    """The files that a process has open, connections by their kind."""
    found = set()
    for file in Path(f"/proc/{process}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed
            found.add(str(file.readlink()).partition(":")[0])
    return found


def test_a_child_has_no_connection_no_lock_and_no_signal_of_its_parent(begun):
    mine, peer = socket.socketpair()
    signals: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))
    waking, wakened = socket.socketpair()
    wakened.setblocking(False)
    waking.setblocking(False)
    old = signal.set_wakeup_fd(wakened.fileno())
    try:
        begun.storage.refresh()
        child = begun.storage._snapshots.child
        mine.close()
        peer.settimeout(10)
        assert peer.recv(1) == b"", "the connection outlives its owner"
        while held(child) != {"/dev/null", "pipe"}:
            time.sleep(0.01)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            os.kill(child, number)
        begun.storage._snapshots.open()
        ended(begun)
        assert begun.storage.snapshots_failed == 0
        with pytest.raises(BlockingIOError):
            waking.recv(1)
        assert signals == []
    finally:
        signal.set_wakeup_fd(old)
        signal.signal(signal.SIGTERM, before)
        for end in (peer, waking, wakened):
            end.close()


def test_a_stop_does_not_wait_for_the_child(begun, again, tmp_path):
    begun.storage.refresh()
    begun.publish(2)
    child = begun.storage._snapshots.child
    begun.storage.stop()
    assert not Path(f"/proc/{child}").exists()
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == [
        "lock", "state", "written",
    ]  # fmt: skip
    second = again()
    assert second.storage.start_summary == "resumed after a clean stop"
    assert second.broker.snapshot() == begun.as_restored()


PARENT = """
import sys, time
from pathlib import Path
from tests.unit.storage.test_forked_snapshots import SESSION_US, GatedSnapshots
from tests.unit.storage.test_storage import Kept

root = Path(sys.argv[1])
kept = Kept(root / "data", snapshots=GatedSnapshots(root / "gate"), durability=sys.argv[2])
kept.begin(SESSION_US)
kept.storage.refresh()
kept.publish(2)
kept.publish(3)
(root / "expected").write_bytes(kept.as_restored())
print(kept.storage._snapshots.child, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("durability", ["process", "power"])
def test_a_child_that_outlives_its_parent_is_in_nobodys_way(tmp_path, again, durability):
    """The parent is killed; another process takes the directory while the child still writes."""
    command = [sys.executable, "-c", PARENT, str(tmp_path), durability]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        parent.kill()
    second = again()
    assert second.broker.snapshot() == (tmp_path / "expected").read_bytes()
    (tmp_path / "gate").write_bytes(b"")
    while Path(f"/proc/{child}").exists():
        time.sleep(0.01)
    second.publish(4)
    second.storage.abandon()
    third = again()
    assert third.broker.snapshot() == second.as_restored()


def test_what_a_lost_child_left_is_removed(tmp_path):
    kept = Kept(tmp_path)
    kept.begin()
    kept.storage.abandon()
    (tmp_path / "state-00000002.new").write_bytes(b"half a st")
    second = Kept(tmp_path)
    assert not list(tmp_path.glob("*.new"))
    second.storage.abandon()


@pytest.mark.parametrize("journals_kept", [2, 4])
@pytest.mark.parametrize("torn", ["whole", "first", "last"])
def test_a_chain_of_journals_is_replayed_in_order_or_refused(tmp_path, journals_kept, torn):
    """No snapshot was ever written: all journals count, and only the last may be torn."""
    never = HeldSnapshots(lambda _: None)
    kept = Kept(tmp_path, snapshots=never)
    kept.begin(SESSION_US)
    for sequence in range(2, journals_kept + 1):
        kept.storage._snapshot = None  # it failed
        kept.storage.refresh()
        kept.publish(sequence)
    kept.storage.abandon()
    names = journals(tmp_path)
    assert len(names) == journals_kept
    if torn != "whole":
        path = tmp_path / names[0 if torn == "first" else -1]
        path.write_bytes(path.read_bytes()[:-1])
    storage = Storage(tmp_path)
    if torn == "first":
        with pytest.raises(storage_module.StorageError, match=f"{names[0]}: is sound up to"):
            storage.restore(1, "B1", CONFIG)
    else:
        broker = storage.restore(1, "B1", CONFIG)
        assert (broker.incarnation == kept.incarnation) is (torn == "whole")
        if torn == "whole":
            broker.handle(1, Started())
            assert broker.snapshot() == kept.as_restored()
    storage.abandon()
