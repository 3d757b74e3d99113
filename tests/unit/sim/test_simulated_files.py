"""What a simulated file system keeps, tears, forgets and refuses; and a broker's disk on it."""

import errno
import random
from pathlib import Path

import pytest

from byway.core.broker_config import BrokerConfig
from byway.core.inputs import ClientAttached, Started
from byway.model.errors import StorageError
from byway.sim.engine.node_storage import NodeStorage, StorageOptions
from byway.sim.engine.simulated_files import SimulatedCrashError, SimulatedFileSystem
from byway.storage.file_system import FileSystem, write_synced

DIRECTORY = Path("/d")
FILE = DIRECTORY / "file"
OTHER = DIRECTORY / "other"
SEEDS = range(40)


def made(seed: int = 0, capacity_bytes: int | None = None) -> SimulatedFileSystem:
    files = SimulatedFileSystem(random.Random(seed), capacity_bytes)
    files.make_directory(DIRECTORY)
    return files


def as_protocol(files: SimulatedFileSystem) -> FileSystem:
    return files


def test_a_crash_keeps_what_was_written():
    files = made()
    file = files.create(FILE)
    files.append(file, b"one")
    files.append(file, b"two")
    files.crash()
    assert files.read(FILE) == b"onetwo"
    assert files.boot_id() == "1"
    with pytest.raises(OSError, match="Bad file descriptor"):
        files.append(file, b"three")


def test_a_crash_within_a_write_tears_it():
    found = set()
    for seed in SEEDS:
        files = made(seed)
        file = files.create(FILE)
        files.append(file, b"one")
        files.crash_at = files.operations + 1
        with pytest.raises(SimulatedCrashError):
            files.append(file, b"two")
        with pytest.raises(SimulatedCrashError):
            files.sync(file)  # nothing happens after the end
        files.crash()
        found.add(files.read(FILE))
    assert found == {b"one", b"onet", b"onetw", b"onetwo"}


def test_a_loss_of_power_forgets_contents_that_were_not_synced():
    found = set()
    for seed in SEEDS:
        files = made(seed)
        write_synced(as_protocol(files), FILE, b"kept")
        files.sync_path(DIRECTORY)
        file = files.open(FILE)
        files.append(file, b"12")
        files.crash(power=True)
        found.add(files.read(FILE))
        assert files.boot_id() == "2"
    assert found == {b"kept", b"kept1", b"kept12", b"kept\0", b"kept\0\0"}


def test_a_loss_of_power_forgets_names_that_were_not_synced():
    found = set()
    for seed in SEEDS:
        files = made(seed)
        write_synced(as_protocol(files), FILE, b"old")
        files.sync_path(DIRECTORY)
        write_synced(as_protocol(files), OTHER, b"new")
        files.rename(OTHER, FILE)
        files.crash(power=True)
        found.add((*files.names(DIRECTORY), files.read(FILE)))
    assert found == {("file", b"old"), ("file", "other", b"old"), ("file", b"new")}


def test_a_file_that_is_removed_may_come_back():
    found = set()
    for seed in SEEDS:
        files = made(seed)
        write_synced(as_protocol(files), FILE, b"old")
        files.sync_path(DIRECTORY)
        files.remove(FILE)
        assert not files.exists(FILE)
        files.crash(power=True)
        found.add(files.exists(FILE))
    assert found == {True, False}


def test_a_full_disk_takes_what_has_room():
    files = made(capacity_bytes=5)
    file = files.create(FILE)
    files.append(file, b"one")
    with pytest.raises(OSError, match="No space left") as caught:
        files.append(file, b"two")
    assert caught.value.errno == errno.ENOSPC
    assert files.read(FILE) == b"onetw"
    files.truncate(file, 0)
    files.append(file, b"three")


def test_an_operation_fails_while_a_test_says_so():
    files = made()
    file = files.create(FILE)
    files.failing["sync"] = errno.EIO
    files.append(file, b"one")
    with pytest.raises(OSError, match="Input/output error"):
        files.sync(file)
    files.failing.clear()
    files.sync(file)


def test_what_a_file_system_refuses():
    files = made()
    lock = files.lock(FILE)
    with pytest.raises(BlockingIOError):
        files.lock(FILE)
    files.close(lock)
    files.close(files.lock(FILE))
    for refused in (files.read, files.remove, files.size, files.sync_path):
        with pytest.raises(FileNotFoundError):
            refused(OTHER)
    with pytest.raises(FileNotFoundError):
        files.create(Path("/nowhere/file"))


def test_a_simulated_brokers_disk():
    """How a node keeps inputs, crashes, and is what it was; and what a damaged disk does to it."""
    disk = NodeStorage("B1", random.Random(1), StorageOptions(data=True, durability="power"))
    broker = disk.start(1, BrokerConfig(), ["B2"])
    assert list(broker.neighbours) == ["B2"]
    for now_us, event in ((1, Started()), (2, ClientAttached("c", 1, 60_000_000))):
        disk.keep(now_us, [event])
        broker.handle(now_us, event)
    disk.crash(power=True)
    again = disk.start(3, BrokerConfig(), ["B2"])
    assert (again.incarnation, list(again.sessions)) == (broker.incarnation, ["c"])
    disk.stop()
    disk.files.damage(Path("/data/state"), lambda data: data[:-1])
    with pytest.raises(StorageError, match="state: ends within the record"):
        disk.start(4, BrokerConfig())
    assert disk.storage is None
