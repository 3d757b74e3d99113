"""How long messages wait in an inbox, and how long a broker takes for one."""

from byway.inbox import TurnTimes


def test_an_idle_broker_has_no_waits():
    times = TurnTimes()
    times.turn(1_000_000, 0, 0)
    assert times.sample() == (0, 0)


def test_messages_that_a_turn_leaves_wait_until_the_next():
    times = TurnTimes()
    times.turn(0, 10, 8)
    times.worked(60)
    times.turn(100, 8, 0)  # 8 of them have waited for 100 µs
    times.worked(240)
    assert times.sample() == (80, 30)
    assert times.sample() == (0, 0)


def test_messages_that_come_between_two_turns_wait_half_of_that_time():
    times = TurnTimes()
    times.turn(0, 2, 0)
    times.turn(100, 6, 0)
    assert times.sample() == (6 * 100 // 2 // 8, 0)
