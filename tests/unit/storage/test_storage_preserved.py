"""Preserved subscriptions, statistics and merged filters in a directory: what a restart gives back,
and which policies may go on with it."""

from pathlib import Path

import msgspec
import pytest

from byway.core.actions import SetTimer, Timer
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import Input, LoadSampled, Started, TimerFired
from byway.core.placeholders import by_link, placeholders
from byway.core.tables import PlaceholderState
from byway.model import parse
from byway.model.addresses import Address, Neighbour
from byway.model.errors import StorageError
from byway.model.messages import Retire, SubscribeRequest, SubscriptionsSettled, UnsubscribeRequest
from byway.storage import storage as storage_module
from byway.storage.storage import Storage
from tests.lone_broker import Lone, advertise, entry, publication, subscribe

COVERING = TimerFired(Timer("covering"))
NEIGHBOURS = (Neighbour(Address("h", 1), "A"), Neighbour(Address("h", 2), "C"))
CONFIG = BrokerConfig(
    covering="incremental", incremental_bursts=(1, 5_000), pruning_samples_min=2, retire_batch=1
)
SECOND_US = 1_000_000


class KeptLone(Lone):
    """Broker B, whose inputs are kept before it sees them; publications come from A."""

    def __init__(self, directory: Path, config: BrokerConfig, now_us: int = 0) -> None:
        self.storage = Storage(str(directory), journal_bytes=0)
        try:
            self.broker = self.storage.restore(1, "B", config, NEIGHBOURS)
        except StorageError:
            self.storage.abandon()
            raise
        self.now_us = now_us
        self.sent = {"A": [0, 0], "C": [0, 0]}

    def handle(self, *events: Input):
        self.storage.keep(self.now_us, list(events))
        return super().handle(*events)

    def begin(self, *filters: str) -> None:
        """Clients subscribe, the broadest first, and five publications come that all match."""
        self.handle(Started())
        self.agree("A")
        self.agree("C")
        self.receive("A", advertise("a"))
        for number, filter in enumerate(filters):
            self.attach(f"c{number}")
            self.ask(f"c{number}", SubscribeRequest("s", parse(filter)))
        self.settle()
        for sequence in range(1, 6):
            self.receive("A", publication(sequence, p=7, q=7))

    def settle(self) -> None:
        """A has what it was sent."""
        sent = [e.id for e in self.broker.subscriptions if "A" in e.awaiting]
        self.receive("A", SubscriptionsSettled(tuple(sent)))

    def wake(self) -> None:
        """The timer of the policy, an interval later."""
        self.now_us += SECOND_US
        self.handle(COVERING)

    def sent_to_a(self) -> list[str]:
        """Clients whose subscriptions stand there."""
        return [e.id.client for e in self.broker.subscriptions if "A" in e.forwarded]

    def as_restored(self) -> bytes:
        return Broker.restore(self.broker.snapshot(), self.broker.config).snapshot()

    def preserved(self) -> dict[str, int]:
        return dict(by_link(placeholders(self.broker)[0]))


@pytest.fixture(params=[0, 1_000_000], ids=["snapshots", "one journal"])
def kept(request, tmp_path, monkeypatch):
    """Opens the broker; whoever had the directory before is dead by then."""
    monkeypatch.setattr(storage_module, "JOURNAL_SNAPSHOTS", request.param)
    opened: list[KeptLone] = []

    def open_(config: BrokerConfig = CONFIG, now_us: int = 0) -> KeptLone:
        for one in opened:
            one.storage.abandon()
        opened.append(KeptLone(tmp_path, config, now_us))
        return opened[-1]

    yield open_
    for one in opened:
        one.storage.abandon()


def stopped(kept, config: BrokerConfig = CONFIG) -> KeptLone:
    """A broker that preserves c0's subscription on the link to A, in place of c1's."""
    lone = kept(config)
    lone.begin("p > 0", "p > 5")
    lone.ask("c0", UnsubscribeRequest(("s",)))
    assert lone.preserved() == {"A": 1}
    return lone


# --- going on ----------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["incremental", "selective"])
def test_preserved_subscriptions_and_statistics_survive(kept, policy):
    config = msgspec.structs.replace(CONFIG, covering=policy, selective_count_min=1)
    first = stopped(kept, config)
    second = kept(config)
    assert second.broker.snapshot() == first.as_restored()
    assert second.preserved() == {"A": 1}
    statistics = second.broker.policy.statistics
    assert statistics is not None
    assert len(statistics) == 5  # what c1 received


def test_what_is_preserved_is_retired_after_the_restart(kept):
    stopped(kept)
    lone = kept(now_us=60 * SECOND_US)
    assert SetTimer(COVERING.timer, 61 * SECOND_US) in lone.handle(Started())
    lone.wake()  # what stands behind it is sent, and it goes
    assert (lone.sent_to_a(), lone.preserved()) == (["c1"], {})


def test_how_far_retiring_is_survives(kept):
    """One subscription a step: after the restart the second one goes, and not the first again."""
    lone = kept()
    lone.begin("p > 0", "p > 5 AND q > 1", "p > 5 AND r IS NULL")
    lone.ask("c0", UnsubscribeRequest(("s",)))
    lone.now_us = 60 * SECOND_US
    lone.wake()
    assert lone.sent_to_a() == ["c1"]
    again = kept(now_us=lone.now_us)
    assert again.broker.snapshot() == lone.as_restored()
    again.handle(Started())
    again.wake()
    assert again.sent_to_a() == ["c1", "c2"]
    assert again.broker.counters.triggered == 1


def states(lone):
    return [entry.placeholder.state for entry in lone.broker.placeholders]


def test_congestion_and_what_was_postponed_survive(kept):
    lone = kept()
    lone.begin("p > 0", "p > 5")
    lone.handle(LoadSampled(2_000))
    lone.ask("c0", UnsubscribeRequest(("s",)))
    assert states(lone) == [PlaceholderState.POSTPONED]
    again = kept()
    assert again.broker.snapshot() == lone.as_restored()
    again.handle(Started())
    again.wake()
    assert states(again) == [PlaceholderState.POSTPONED]  # there is still no time
    again.handle(LoadSampled(0))
    again.wake()
    assert states(again) == [PlaceholderState.PRESERVED]


def test_what_neighbours_retire_and_pack_is_replayed(kept):
    lone = kept()
    lone.handle(Started())
    lone.agree("A")
    lone.agree("C")
    lone.receive("A", advertise("a"))
    lone.receive("C", subscribe("wide", "p > 0"), subscribe("narrow", "p > 5"))
    lone.receive("C", Retire((entry("wide"),)))
    assert kept().broker.snapshot() == lone.as_restored()
    assert [e.id.name for e in lone.broker.subscriptions] == ["narrow"]


def test_merged_filters_survive(kept):
    config = BrokerConfig(covering="active", merging=True)
    lone = kept(config)
    lone.begin("q = 1 AND p > 0 AND p < 5", "q = 1 AND p >= 5 AND p < 9")
    lone.wake()
    assert len(placeholders(lone.broker)[1]) == 1
    again = kept(config)
    assert again.broker.snapshot() == lone.as_restored()


# --- another policy ----------------------------------------------------------------------------

POLICIES = ("none", "active", "lazy", "packing", "incremental", "selective")
ALIKE = ("active", "packing", "incremental", "selective")


def may_follow(before: str, after: str) -> bool:
    """With nothing preserved."""
    if before in ("none", after):
        return True
    return before in ALIKE and after in (*ALIKE, "lazy")


@pytest.mark.parametrize("after", POLICIES)
@pytest.mark.parametrize("before", POLICIES)
def test_policies_that_may_follow_one_another(tmp_path, before, after):
    lone = KeptLone(tmp_path, BrokerConfig(covering=before))
    lone.begin("p > 0", "p > 5")
    lone.storage.stop()
    if may_follow(before, after):
        second = KeptLone(tmp_path, BrokerConfig(covering=after))
        assert second.broker.policy.name == after
        second.storage.abandon()
        return
    words = (
        f"was made with covering = {before!r} and cannot be used with {after!r}: keep the setting"
    )
    with pytest.raises(StorageError, match=words):
        KeptLone(tmp_path, BrokerConfig(covering=after))


@pytest.mark.parametrize("after", POLICIES)
def test_what_is_preserved_needs_a_policy_that_knows_of_it(kept, after):
    stopped(kept)
    config = msgspec.structs.replace(CONFIG, covering=after)
    if after in ("incremental", "selective"):
        lone = kept(config, now_us=60 * SECOND_US)
        lone.handle(Started())
        lone.wake()
        lone.wake()
        assert lone.preserved() == {}  # it was retired
        return
    words = "cannot be used with 'none': keep the setting"
    if after != "none":
        words = f"cannot be used with '{after}' while 1 subscriptions are preserved: let it retire"
    with pytest.raises(StorageError, match=words):
        kept(config)
    assert kept().preserved() == {"A": 1}  # a refusal changes nothing


def test_merged_filters_need_the_policy_that_made_them(kept):
    config = BrokerConfig(covering="active", merging=True)
    lone = kept(config)
    lone.begin("q = 1 AND p > 0 AND p < 5", "q = 1 AND p >= 5 AND p < 9")
    lone.wake()
    other = msgspec.structs.replace(config, covering="packing")
    with pytest.raises(StorageError, match="'packing' while it has 1 merged placeholders"):
        kept(other)
