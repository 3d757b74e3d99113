"""Load samples of a broker process: round trips, waits and the use of the uplink."""

import asyncio

from byway.core.broker_config import BrokerConfig
from byway.core.inputs import LinkLoad, LoadSampled
from byway.model.addresses import Address, Neighbour
from byway.model.messages import CONTROL, Batch, LoadReport
from byway.runtime.load_sampling import LoadSampler, RoundTrip
from byway.runtime.server import BrokerServer
from byway.runtime.settings import BrokerSettings, Limits

ANYWHERE = Address("127.0.0.1", 0)


def batch(first: int, count: int = 1) -> Batch:
    return Batch(CONTROL, first, (LoadReport(()),) * count)


def test_a_round_trip_ends_with_the_acknowledgement_of_its_last_message():
    trip = RoundTrip()
    trip.acknowledged(4, 0.5)  # of messages that were not timed
    trip.sent(batch(5, 3), 1.0)
    trip.sent(batch(8), 1.5)  # one is timed already
    trip.acknowledged(6, 2.0)
    assert trip.mean_s == 0
    trip.acknowledged(7, 3.0)
    assert trip.mean_s == 2.0
    trip.acknowledged(8, 9.0)
    trip.sent(batch(9), 10.0)
    trip.acknowledged(9, 11.0)
    assert trip.mean_s == 2.0 + (1.0 - 2.0) / 8


def test_a_sample_of_two_processes_that_are_linked():
    async def main() -> tuple[LoadSampled, LoadSampled, LoadSampled]:
        core = BrokerConfig(load_interval_us=60_000_000, load_sample_us=60_000_000)
        limits = Limits(uplink_bytes=1_000)
        first = BrokerServer(BrokerSettings(id="B1", listen=ANYWHERE, core=core, limits=limits))
        sampler = LoadSampler(first)
        alone = sampler.sample(1.0)
        await first.start()
        dialled = Neighbour(first.address, "B1")
        second = BrokerServer(
            BrokerSettings(id="B2", listen=ANYWHERE, neighbours=(dialled,), core=core)
        )
        await second.start()
        async with asyncio.timeout(20):
            while True:
                trips = first.neighbour_links.round_trips
                if "B2" in trips and trips["B2"].mean_s:
                    break
                await asyncio.sleep(0.001)
        linked, after = sampler.sample(2.0), sampler.sample(2.0)
        await second.stop()
        await first.stop()
        assert first.neighbour_links.round_trips == {}
        return alone, linked, after

    alone, linked, after = asyncio.run(main())
    assert alone == LoadSampled(0)
    (link,) = linked.links
    written = link.sent_bytes
    assert written > 0
    assert link.round_trip_us > 0
    assert link == LinkLoad("B2", sent_bytes=written, round_trip_us=link.round_trip_us)
    assert 0 < linked.uplink <= 1
    assert linked.service_us > 0
    unchanged = LinkLoad("B2", round_trip_us=link.round_trip_us)
    assert after == LoadSampled(0, (unchanged,))  # nothing was done meanwhile
