"""What is sent over a connection, and how long it waits for a peer that does not read."""

from byway.transport.output_times import OutputSample, OutputTimes


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_does_not_wait_takes_no_time():
    output = OutputTimes(Clock())
    output.bytes, output.messages = 700, 7
    assert output.sample() == OutputSample(700, 0, 0)
    assert output.sample() == OutputSample(0, 0, 0)


def test_what_waits_for_a_peer_that_reads_slowly():
    clock = Clock()
    output = OutputTimes(clock)
    output.waits(4)
    clock.now = 0.5
    output.messages += 4
    output.waits(0)
    clock.now = 1.0
    # four messages waited for half a second each; one left every 125 ms meanwhile
    assert output.sample() == OutputSample(0, 500_000, 125_000)


def test_a_peer_that_does_not_read_at_all_is_slower_with_every_sample():
    clock = Clock()
    output = OutputTimes(clock)
    output.waits(3)
    clock.now = 1.0
    assert output.sample() == OutputSample(0, 1_000_000, 1_000_000)
    clock.now = 3.0
    assert output.sample() == OutputSample(0, 2_000_000, 2_000_000)
