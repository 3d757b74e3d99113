"""Crashes, losses of power and bad disks against the real storage, on simulated files.

The oracle is a plain list of the inputs that were kept. After every fault the restarted broker is
what `docs/reference/durability.md` promises: the last state after a crash, and after a loss of
power with `power`; else the state after some of the inputs, no fewer than the last snapshot has,
under a new incarnation.
"""

import errno
import random
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import ClientAttached, ClientDetached, ClientRequested, Input, Started
from byway.model import ANY, parse
from byway.model.errors import StorageError
from byway.model.messages import AdvertiseRequest, PublishRequest, SubscribeRequest
from byway.sim.engine.node_storage import NodeStorage, StorageOptions
from byway.sim.engine.simulated_files import SimulatedCrashError
from byway.storage import storage as storage_module
from tests.unit.storage.test_storage import BODY

CONFIG = BrokerConfig()
CLIENT = "c"
SESSION_US = 60_000_000
JOURNAL_BYTES = 400
DURABILITIES = ("process", "power")

Group = tuple[int, list[Input]]


@pytest.fixture(autouse=True)
def snapshots_are_taken_in_the_midst_of_everything(monkeypatch):
    monkeypatch.setattr(storage_module, "JOURNAL_SNAPSHOTS", 0)


class Machine:
    """A broker on a machine that fails, and the inputs that it must know afterwards."""

    def __init__(self, seed: int, durability: str, crash_at: int | None = None) -> None:
        self.rng = random.Random(seed)
        self.now_us = 1
        self.durability = durability
        self.later: list[tuple[int, Callable[[], None]]] = []
        """Snapshots that are not written yet, and how many of the inputs kept each has."""
        options = StorageOptions(data=True, durability=durability, journal_bytes=JOURNAL_BYTES)
        self.disk = NodeStorage("B1", self.rng, options, self._schedule)
        self.files = self.disk.files
        self.files.crash_at = crash_at
        self.kept: list[Group] = []
        """The oracle: what was kept since the start, in order."""
        self.unsure: list[Group] = []
        """What was being kept when the process ended: it counts, or it does not."""
        self.taken_back: list[tuple[int, Group]] = []
        """Inputs that were taken back, and how many were kept before each. What was not synced may
        come back with the power; a real one raises then."""
        self.safe = 0
        """How many of the inputs kept are in a snapshot that is on the disk."""
        self.stopping = self.stopped = self.lost_power = False
        self.sequence = 0
        self.broker: Broker | None = None
        self.restarts: list[str] = []

    def _schedule(self, write: Callable[[], None]) -> None:
        self.later.append((len(self.kept), write))

    # --- work ----------------------------------------------------------------------------------

    def do(self, *events: Input) -> None:
        self.now_us += 1
        group = (self.now_us, list(events))
        self.unsure = [group]
        self.disk.keep(*group)
        self.unsure = []
        self.kept.append(group)
        self.broker.handle_batch(*group)

    def begin(self) -> None:
        """A client comes that keeps a session, subscribes and may publish."""
        self.do(Started())
        self.do(ClientAttached(CLIENT, self.now_us, SESSION_US))
        self.do(
            ClientRequested(CLIENT, (AdvertiseRequest("a", ANY),)),
            ClientRequested(CLIENT, (SubscribeRequest("s", parse("price > 18")),)),
        )
        self.sequence = 0

    def publish(self, count: int = 1) -> None:
        numbers = range(self.sequence + 1, self.sequence + count + 1)
        self.sequence += count
        self.do(ClientRequested(CLIENT, tuple(PublishRequest(n, BODY) for n in numbers)))

    def write_snapshots(self) -> None:
        while self.later:
            count, write = self.later.pop(0)
            write()
            if not self.files.failing and self.files.capacity_bytes is None:
                self.safe = count

    def take_back(self) -> None:
        """An input raises."""
        self.now_us += 1
        group: Group = (self.now_us, [ClientDetached(CLIENT, for_good=True)])
        self.unsure = [group]
        self.disk.keep(*group)
        self.disk.storage.take_back()
        self.unsure = []
        self.taken_back.append((len(self.kept), group))

    def stop(self) -> None:
        self.stopping = True
        self.disk.stop()
        self.stopped = True

    # --- faults --------------------------------------------------------------------------------

    def end(self, *, power: bool = False) -> None:
        """The process has ended, whether or not it noticed."""
        self.disk.crash(power=power)
        self.lost_power |= power
        self.later.clear()
        self.files.failing.clear()
        self.files.capacity_bytes = None

    def attempt(self, work: Callable[[], None], *, power: bool = False) -> bool:
        """Work within which the process may end; whether it did not."""
        try:
            work()
        except (SimulatedCrashError, StorageError) as error:
            # a process that cannot write ends by itself
            self.end(power=power and isinstance(error, SimulatedCrashError))
            return False
        return True

    def resume(self) -> None:
        """Start again, and compare."""
        self.now_us += 1_000
        broker = self.disk.start(self.now_us, CONFIG)
        if self.broker is not None:
            self.compare(broker)
        self.broker = broker
        self.base, self.stale = broker.snapshot(), broker.sessions_stale
        self.kept, self.unsure, self.taken_back, self.safe = [], [], [], 0
        self.stopping = self.stopped = self.lost_power = False

    def compare(self, broker: Broker) -> None:
        must_be_last = self.durability == "power" or self.stopped or not self.lost_power
        found = broker.snapshot()
        if broker.incarnation == self.broker.incarnation:
            assert must_be_last or self.stopping, "an older state is taken for the last one"
            assert found in self.expected(broker, len(self.kept)), "the state is not the last one"
            self.restarts.append("last")
        else:
            assert not must_be_last, "the last state is lost"
            states = self.expected(broker, self.safe)
            for before, group in self.taken_back:
                if before >= self.safe:
                    states += self.expected(broker, before + 1, [*self.kept[:before], group])
            assert found in states, "the state was never there"
            self.restarts.append("stale")

    def expected(
        self, broker: Broker, least: int, groups: list[Group] | None = None
    ) -> list[bytes]:
        """The states after at least so many of the inputs kept, or of these."""
        original = Broker.restore(self.base, CONFIG, stale=self.stale)
        states = []
        groups = self.kept + self.unsure if groups is None else groups
        for count in range(len(groups) + 1):
            if count >= least:
                incarnation = broker.incarnation
                new = None if incarnation == original.incarnation else incarnation
                stale = original.sessions_stale
                again = Broker.restore(original.snapshot(), CONFIG, new, stale=stale)
                states.append(again.snapshot())
            if count < len(groups):
                original.handle_batch(*groups[count])
        return states


def script(machine: Machine) -> list[Callable[[], None]]:
    """Everything that storage does."""
    return [
        machine.begin,
        machine.publish,
        machine.publish,
        machine.write_snapshots,
        machine.publish,
        machine.take_back,
        machine.publish,
        machine.publish,
        machine.publish,
        machine.publish,
        machine.write_snapshots,
        machine.publish,
        machine.stop,
    ]


def operations(durability: str) -> int:
    """The number of operations of a start and the whole script."""
    machine = Machine(0, durability)
    machine.resume()
    for work in script(machine):
        work()
    return machine.files.operations


@pytest.mark.parametrize("durability", DURABILITIES)
@pytest.mark.parametrize("power", [False, True], ids=["killed", "power lost"])
def test_a_crash_within_any_operation_loses_nothing_that_was_promised(durability, power):
    total = operations(durability)
    assert total > 50
    found: set[str] = set()
    for crash_at in range(1, total + 1):
        for seed in range(2):
            machine = Machine(seed, durability, crash_at)
            alive = machine.attempt(machine.resume, power=power)
            for work in script(machine):
                alive = alive and machine.attempt(work, power=power)
            assert not alive, "the crash did not happen"
            machine.resume()
            machine.begin()
            machine.publish()
            machine.end()
            machine.resume()
            found |= set(machine.restarts)
    assert found == ({"last", "stale"} if power and durability == "process" else {"last"})


class Storms(RuleBasedStateMachine):
    """Random work and faults; every restart compares."""

    durability = "process"

    @initialize(seed=st.integers(0, 2**32))
    def start(self, seed: int) -> None:
        self.machine = Machine(seed, self.durability)
        self.power = False
        self.machine.resume()
        self.work(self.machine.begin)

    def work(self, work: Callable[[], None]) -> None:
        if not self.machine.attempt(work, power=self.power):
            self.restart()

    def restart(self) -> None:
        while not self.machine.attempt(self.machine.resume, power=self.power):
            pass
        self.machine.begin()

    @rule(count=st.integers(1, 4))
    def publish(self, count: int) -> None:
        self.work(lambda: self.machine.publish(count))

    @rule()
    def write_snapshots(self) -> None:
        self.work(self.machine.write_snapshots)

    @rule()
    def take_back(self) -> None:
        self.work(self.machine.take_back)

    @rule(operations=st.integers(1, 40), power=st.booleans())
    def crash_soon(self, operations: int, power: bool) -> None:
        self.power = power
        self.machine.files.crash_at = self.machine.files.operations + operations

    @rule(power=st.booleans())
    def crash(self, power: bool) -> None:
        self.machine.end(power=power)
        self.restart()

    @rule(power=st.booleans())
    def stop(self, power: bool) -> None:
        if self.machine.attempt(self.machine.stop, power=self.power):
            self.machine.end(power=power)
        self.restart()

    @rule(room=st.integers(0, 3_000))
    def fill_the_disk(self, room: int) -> None:
        self.machine.files.capacity_bytes = self.machine.files.used_bytes + room

    @rule(
        operation=st.sampled_from(
            ["append", "overwrite", "sync", "sync_path", "truncate", "create", "rename", "remove"]
        )
    )
    def fail(self, operation: str) -> None:
        self.machine.files.failing[operation] = errno.EIO

    @rule()
    def repair(self) -> None:
        self.machine.files.failing.clear()
        self.machine.files.capacity_bytes = None

    def teardown(self) -> None:
        self.machine.end()
        self.machine.resume()


class StormsWithPower(Storms):
    """The same, with a sync at every write."""

    durability = "power"


@pytest.mark.parametrize("storms", [Storms, StormsWithPower])
def test_storms(storms):
    run_state_machine_as_test(
        storms, settings=settings(max_examples=30, stateful_step_count=30, deadline=None)
    )
