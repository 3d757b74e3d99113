"""Worlds small enough that every number can be computed by hand."""

from functools import partial

import pytest

from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import LinkLoad, LoadSampled
from byway.inbox import TURN
from byway.sim.engine.network import ChannelOptions, NetworkOptions, UplinkOptions
from byway.sim.engine.service import Cost, ServiceProfile
from byway.sim.topology.seed_trees import seed_topology
from byway.sim.topology.shapes import chain, star
from byway.sim.world import World
from byway.trace import TraceWriter, read_trace

pytestmark = pytest.mark.sim

SECOND = 1_000_000
BODY_BYTES = 7  # of {"p": 1}, encoded, without data


def make(topology=None, **options):
    options.setdefault("config", BrokerConfig())
    return World(topology or chain(3), **options)


def pair(world, publisher="B1", subscriber="B3", ttl_us=0, source_ttl_us=0):
    """A publisher of everything and a subscriber to everything, settled."""
    source = world.client("source", publisher, source_ttl_us)
    sink = world.client("sink", subscriber, ttl_us)
    source.advertise("ANY")
    sink.subscribe("TRUE")
    assert world.quiet(100 * SECOND)
    return source, sink


def finish(world):
    """All comes to rest, and all is well; the metrics."""
    assert world.quiet(1_000 * SECOND)
    report = world.check()
    assert report.violations == ()
    assert report.ok
    assert report.tables_compared
    return world.metrics()


# --- time -----------------------------------------------------------------------------------------


def test_latencies_add_up():
    world = make(network=NetworkOptions(channels={("B1", "B2"): ChannelOptions(latency_us=250)}))
    source, sink = pair(world)
    source.publish({"p": 1})
    metrics = finish(world)
    assert sink.deliveries == 1
    assert (metrics.publications, metrics.deliveries, metrics.mean_hops) == (1, 1, 2.0)
    assert metrics.mean_delay_ms == 1.25
    assert metrics.bytes_sent is None
    assert (metrics.matched_brokers, metrics.pure_forwarders, metrics.yield_) == (1, 1, 0.5)
    assert metrics.messages["pub"] == metrics.publication_hops == 2


def test_a_frame_takes_its_size_over_the_bandwidth():
    network = NetworkOptions(bandwidth_bytes_per_s=1_000, latency_us=0)
    world = make(network=network)
    source, _ = pair(world)
    before = world.metrics().bytes_sent
    source.publish({"p": 1}, data=bytes(60 - BODY_BYTES))  # 100 bytes with the header: 100 ms
    metrics = finish(world)
    assert metrics.mean_delay_ms == 200.0
    assert metrics.bytes_sent - before == 200


def test_an_uplink_is_shared():
    world = make(star(3), network=NetworkOptions(uplinks={"B1": UplinkOptions(messages_per_s=100)}))
    source, _ = pair(world, "B1", "B2")
    world.client("other", "B3").subscribe("TRUE")
    world.quiet(SECOND)
    source.publish({"p": 1})
    metrics = finish(world)
    # 10 ms for the copy to B2, then 10 ms for that to B3, each 1 ms on its way
    assert (metrics.mean_delay_ms, metrics.delay_ms_max) == (16.0, 21.0)


def test_service_times_come_on_top():
    profile = ServiceProfile(name="test", publication=Cost(100, 10))
    world = make(profile=profile)
    source, _ = pair(world)
    source.publish({"p": 1})
    # B1 takes 110 us before the publication counts as published; B2 and B3 the same after 1 ms each
    assert finish(world).mean_delay_ms == 2.22


def test_a_slow_broker_takes_longer_for_a_time():
    world = make(profile=ServiceProfile(name="test", publication=Cost(100)))
    source, _ = pair(world)
    world.slow("B2", 30, world.now_us + 50_000)
    source.publish({"p": 1})
    world.quiet(SECOND)
    assert world.metrics().mean_delay_ms == 2 + 0.1 * 31
    world.run(world.now_us + 100_000)
    source.publish({"p": 2})
    world.quiet(SECOND)
    assert finish(world).mean_delay_ms == pytest.approx(2 + 0.1 * (31 + 2) / 2)


def test_messages_queue_for_a_busy_broker():
    world = make(profile=ServiceProfile(name="test", publication=Cost(1_000)))
    source, _ = pair(world)
    count = 2 * TURN + 200
    for number in range(count):
        source.publish({"p": number})
    world.run(world.now_us)
    assert world.nodes["B1"].waiting == count - TURN  # a turn is served
    world.run(world.now_us + 1_000 * TURN)
    assert world.nodes["B1"].waiting == count - 2 * TURN
    metrics = finish(world)
    assert metrics.peak_queue == count
    assert metrics.deliveries == count
    # turn by turn: each is sent on when all of it is served, so B2 and B3 work on whole turns
    assert metrics.delay_ms_max >= 2 + 2 * TURN


def test_a_broker_at_rest_looks_at_its_inbox_after_a_while():
    world = make(profile=ServiceProfile(name="test", pickup_us=400))
    source, _ = pair(world)
    source.publish({"p": 1})
    world.run(world.now_us + 300)
    source.publish({"p": 2})
    metrics = finish(world)
    assert metrics.publications == 2
    assert metrics.mean_delay_ms == 2 + 2 * 0.4  # both are taken together


def test_a_delay_spike_holds_up_what_comes_behind_it():
    world = make(chain(2))
    source, _ = pair(world, "B1", "B2")
    world.delay("B2", "B1", 50_000, world.now_us + 10)
    source.publish({"p": 1})
    world.run(world.now_us + 100)
    source.publish({"p": 2})
    metrics = finish(world)
    assert metrics.delay_ms_max == 51.0
    assert metrics.mean_delay_ms == pytest.approx((51.0 + 50.9) / 2)


def test_progress_is_told_and_time_runs_out():
    world, seen = make(), []
    world.run(SECOND, seen.append)
    assert seen[-1] == SECOND
    assert seen == sorted(seen)
    assert 10 < len(seen) < 1_000
    pair(world)
    begin_us = world.now_us
    world.clients["source"].publish({"p": 1})
    assert not world.quiet(1_500)  # two hops need two milliseconds, and as long to be confirmed
    assert world.now_us <= begin_us + 10_000
    assert world.quiet(SECOND)


def test_periodic_messages_do_not_keep_a_world_busy():
    world = make(config=BrokerConfig(load_interval_us=100_000), sample_us=50_000)
    source, _ = pair(world)
    for number in range(200):
        source.publish({"p": number})
    world.run(SECOND)
    metrics = finish(world)
    assert metrics.messages["load"] >= 4 * 9
    known = world.nodes["B3"].broker.loads_behind("B2")
    assert [(load.broker, load.hops) for load in known] == [("B2", 1), ("B1", 2)]


def test_the_worked_case_of_pure_forwarders():
    """CASES 25: thirteen sends, eight pure forwarders."""
    topology = seed_topology("case-t21")
    world = make(topology)
    publisher = world.client("p", "3")
    publisher.advertise("ANY")
    for home in topology.role("subscribers"):
        world.client(f"s{home}", home).subscribe("TRUE")
    world.quiet(SECOND)
    publisher.publish({"p": 1})
    metrics = finish(world)
    assert (metrics.messages["pub"], metrics.pure_forwarders, metrics.matched_brokers) == (13, 8, 5)
    assert metrics.yield_ == 5 / 13


# --- clients --------------------------------------------------------------------------------------


def test_publications_beyond_the_window_wait_in_the_client():
    world = make()
    source, sink = pair(world)
    window = source.core.options.window
    for number in range(3 * window):
        source.publish({"p": number})
    assert source.unconfirmed == window
    assert finish(world).deliveries == sink.deliveries == 3 * window
    assert source.unconfirmed == 0


def test_what_is_refused_is_not_published():
    world = make()
    source = world.client("source", "B1")
    source.advertise("p > 0", "mine")
    with pytest.raises(ValueError, match="'mine' names something else already"):
        source.advertise("p > 5", "mine")
    with pytest.raises(ValueError, match="client source has nothing called 'nothing'"):
        source.unsubscribe("nothing")
    source.publish({"p": -1})
    source.publish({"p": 1, "q": 1})
    source.publish({"p": 1})
    assert finish(world).publications == 1
    assert [refusal.subject for refusal in source.watch.refusals] == ["1", "2"]
    assert source.core.publications.refused == 2


def test_a_filter_is_replaced_in_place():
    world = make()
    source, sink = pair(world)
    sink.subscribe("p > 5", "narrow")
    world.quiet(SECOND)
    sink.unsubscribe("s1")
    sink.subscribe("p > 7", "narrow")
    world.quiet(SECOND)
    for number in range(10):
        source.publish({"p": number})
    finish(world)
    assert sink.deliveries == 2
    assert sink.subscriptions == ("narrow",)


def test_names_are_of_one_thing():
    world = make()
    client = world.client("c", "B1")
    assert client.subscribe("TRUE") == "s1"
    assert client.advertise("ANY") == "a2"
    with pytest.raises(ValueError, match="client c: 's1' names something else already"):
        client.advertise("ANY", "s1")
    with pytest.raises(ValueError, match="there is a client 'c' already"):
        world.client("c", "B2")


def test_a_client_that_left_says_nothing_more():
    world = make()
    source, sink = pair(world)
    source.publish({"p": 1})
    source.leave()
    sink.leave()
    assert finish(world).publications == 1
    assert all(len(node.broker.subscriptions) == 0 for node in world.nodes.values())
    assert all(len(node.broker.advertisements) == 0 for node in world.nodes.values())
    for act in (lambda: source.publish({"p": 2}), lambda: sink.subscribe("TRUE"), sink.come_back):
        with pytest.raises(ValueError, match="has left"):
            act()


def test_a_session_is_kept_for_its_time():
    world = make()
    source, sink = pair(world, ttl_us=SECOND)
    sink.vanish()
    source.publish({"p": 1})
    world.run(world.now_us + SECOND // 2)
    assert sink.deliveries == 0
    sink.come_back()
    finish(world)
    assert (sink.deliveries, sink.incarnation) == (1, 1)


def test_a_session_that_is_over_starts_anew():
    world = make()
    source, sink = pair(world, ttl_us=SECOND)
    sink.vanish()
    source.publish({"p": 1})
    world.run(world.now_us + SECOND + 5_000)  # and as long as it takes to unsubscribe
    assert all(len(node.broker.subscriptions) == 0 for node in world.nodes.values())
    sink.come_back()
    world.quiet(SECOND)
    source.publish({"p": 2})
    finish(world)
    assert (sink.deliveries, sink.core.sessions) == (1, 2)
    assert sink.incarnation > 1


def test_a_full_session_loses_the_oldest():
    world = make(config=BrokerConfig(session_messages_max=3))
    source, sink = pair(world, ttl_us=SECOND)
    sink.vanish()
    for number in range(10):
        source.publish({"p": number})
    world.quiet(SECOND)
    sink.come_back()
    metrics = finish(world)
    assert (sink.deliveries, metrics.lost_in_sessions) == (3, 7)


def test_requests_that_were_not_read_are_said_again():
    world = make(profile=ServiceProfile(name="test", other=Cost(10), publication=Cost(500)))
    source, sink = pair(world, source_ttl_us=SECOND)
    for number in range(100):
        source.publish({"p": number})
    source.unadvertise("a1")
    world.run(world.now_us + 100)  # the first batch is being served
    source.vanish()
    source.come_back()
    finish(world)
    assert (sink.deliveries, source.incarnation) == (100, 1)


# --- faults ---------------------------------------------------------------------------------------


def test_what_was_on_a_broken_link_is_sent_again():
    world = make(network=NetworkOptions(reconnect_us=5_000))
    source, sink = pair(world)
    source.publish({"p": 1})
    begin_us = world.now_us
    world.at(begin_us + 1_500, lambda: world.cut("B3", "B2"))
    world.at(begin_us + 10_000, lambda: world.mend("B2", "B3"))
    metrics = finish(world)
    assert sink.deliveries == 1
    assert metrics.mean_delay_ms == 10 + 5 + 1


@pytest.mark.parametrize("stored", [True, False])
def test_an_inner_broker_that_crashes_loses_nothing(stored):
    world = make(network=NetworkOptions(reconnect_us=5_000))
    source, sink = pair(world)
    source.publish({"p": 1})
    world.run(world.now_us + 500)
    world.crash("B2")
    world.crash("B2")
    source.publish({"p": 2})
    world.run(world.now_us + 10_000)
    assert sink.deliveries == 0
    world.restart("B2", stored)
    world.restart("B2", stored)
    finish(world)
    assert sink.deliveries == 2
    assert world.nodes["B2"].broker.incarnation == (1 if stored else 2)


def test_clients_of_a_broker_without_its_state_start_anew():
    world = make()
    source, sink = pair(world)
    source.publish({"p": 1})
    world.crash("B3")
    source.publish({"p": 2})
    world.run(world.now_us + 10_000)
    world.restart("B3", stored=False)
    world.quiet(SECOND)
    source.publish({"p": 3})
    finish(world)
    assert sink.core.sessions == 2
    assert sink.deliveries >= 1  # the first two had no claim any more


def test_a_publisher_goes_on_after_its_broker_was_restored():
    world = make()
    source, sink = pair(world)
    for number in range(5):
        source.publish({"p": number})
    world.crash("B1")
    for number in range(5):
        source.publish({"p": number})
    world.run(world.now_us + 10_000)
    world.restart("B1", stored=True)
    finish(world)
    assert (sink.deliveries, source.incarnation) == (10, 1)


def test_a_partition_ends():
    world = make(chain(4))
    source, sink = pair(world, "B1", "B4")
    world.partition(["B1", "B3"])
    source.publish({"p": 1})
    world.run(world.now_us + SECOND)
    assert sink.deliveries == 0
    report_before = world.quiet(SECOND)
    assert report_before  # nothing can move
    world.partition(["B1"])
    world.heal(["B1", "B3"])
    world.run(world.now_us + SECOND)
    assert sink.deliveries == 0  # the other partition stands
    world.heal()
    finish(world)
    assert sink.deliveries == 1


def test_claims_stand_while_a_broker_without_state_waits():
    """No timer ends the wait of a broker that was here before: B1 holds something from it."""
    world = make(config=BrokerConfig(sync_wait_us=SECOND))
    source, sink = pair(world)
    world.crash("B2")
    world.cut("B2", "B3")
    source.publish({"p": 1})
    world.restart("B2", stored=False)
    world.run(world.now_us + 2 * SECOND)
    source.publish({"p": 2})
    world.run(world.now_us + SECOND)
    assert source.unconfirmed == 2
    world.mend("B2", "B3")
    world.quiet(10 * SECOND)
    assert source.unconfirmed == 0
    source.publish({"p": 3})
    world.quiet(10 * SECOND)
    report = world.check()
    assert report.ok
    assert report.tables_compared
    assert sink.deliveries == 3


def test_a_world_that_is_not_whole_is_not_compared():
    world = make()
    source, _ = pair(world)
    world.cut("B1", "B2")
    source.publish({"p": 1})
    world.quiet(SECOND)
    report = world.check()
    assert report.ok
    assert not report.tables_compared


# --- samples --------------------------------------------------------------------------------------


def test_samples_tell_queues_and_tables(tmp_path):
    with TraceWriter(tmp_path, "run") as writer:
        world = make(trace=writer, sample_us=1_000, profile=ServiceProfile(
            name="test", publication=Cost(100)
        ))  # fmt: skip
        source, sink = pair(world)
        count = TURN + 100
        for number in range(count):
            source.publish({"p": number})
        world.quiet(SECOND)
        sink.unsubscribe("s1")
        metrics = finish(world)
    assert (metrics.table_entries, metrics.table_entries_peak) == (0, 3)
    rows = read_trace(tmp_path).to_pylist()
    queued = [row["count"] for row in rows if row["event"] == 6 and row["kind"] == "input"]
    assert count - TURN <= max(queued) <= metrics.peak_queue == count
    tables = {
        (row["broker"], row["count"])
        for row in rows
        if row["event"] == 7 and row["kind"] == "subscriptions"
    }
    assert tables == {(broker, count) for broker in ("B1", "B2", "B3") for count in (0, 1)}
    assert sum(row["event"] == 4 for row in rows) == count


@pytest.mark.interpreted
def test_loads_are_sampled_at_an_interval_of_their_own(monkeypatch):
    told = []

    class Told(Broker):
        def handle_batch(self, now_us, events):
            events = list(events)
            told.extend((self.name, now_us) for e in events if isinstance(e, LoadSampled))
            return super().handle_batch(now_us, events)

    config = {
        "B1": BrokerConfig(load_interval_us=SECOND, load_sample_us=300_000),
        "B2": BrokerConfig(load_interval_us=SECOND, load_sample_us=0),
        "B3": BrokerConfig(load_sample_us=100_000),  # it does not go by loads
    }
    monkeypatch.setattr("byway.sim.broker_starts.Broker", Told)
    World(chain(3), config=config, sample_us=50_000).run(SECOND)
    assert told == [("B1", 300_000), ("B1", 600_000), ("B1", 900_000)]


@pytest.mark.interpreted
def test_load_samples_tell_waits_round_trips_and_the_use_of_the_uplink(monkeypatch):
    """B1 publishes every millisecond, and its uplink takes two for a message."""
    told = []

    class Told(Broker):
        def handle_batch(self, now_us, events):
            events = list(events)
            told.extend((self.name, e) for e in events if isinstance(e, LoadSampled))
            return super().handle_batch(now_us, events)

    monkeypatch.setattr("byway.sim.broker_starts.Broker", Told)
    config = BrokerConfig(load_interval_us=60 * SECOND, load_sample_us=100_000)
    network = NetworkOptions(latency_us=700, uplinks={"B1": UplinkOptions(messages_per_s=500)})
    world = World(chain(2), config=config, network=network)
    source, sink = pair(world, subscriber="B2")
    began_us = 100_000 * (1 + world.now_us // 100_000)
    for number in range(40):
        world.at(began_us + 1_000 * number, partial(source.publish, {"p": number}))
    world.run(began_us)
    told.clear()
    world.run(began_us + 100_000)
    assert sink.deliveries == 40
    sample, other = (dict(told)[broker] for broker in ("B1", "B2"))
    (link,) = sample.links
    assert link == LinkLoad(
        "B2", sent_bytes=link.sent_bytes, waited_us=19_500, service_us=2_000, round_trip_us=1_400
    )  # the last one waits for 39 ms
    assert link.sent_bytes >= 40 * 40
    assert sample == LoadSampled(0, (link,), 0.8)
    assert other == LoadSampled(0, (LinkLoad("B1", round_trip_us=1_400),))


@pytest.mark.interpreted
def test_load_samples_tell_waits_and_service_times_of_a_broker(monkeypatch):
    samples = []

    class Told(Broker):
        def handle_batch(self, now_us, events):
            events = list(events)
            if self.name == "B1":
                samples.extend(e for e in events if isinstance(e, LoadSampled))
            return super().handle_batch(now_us, events)

    monkeypatch.setattr("byway.sim.broker_starts.Broker", Told)
    config = BrokerConfig(load_interval_us=60 * SECOND, load_sample_us=100_000)
    profile = ServiceProfile(name="test", publication=Cost(1_000))
    world = World(chain(2), config=config, profile=profile)
    source, _ = pair(world, subscriber="B2")
    began_us = 100_000 * (1 + world.now_us // 100_000)
    for number in range(50):
        world.at(began_us + 500 * number, partial(source.publish, {"p": number}))
    world.run(began_us)
    samples.clear()
    world.run(began_us + 100_000)
    sample = samples[-1]
    assert (sample.queued, sample.service_us) == (0, 1_000)
    assert 500 < sample.waited_us < 50_000
