"""How long messages wait in an inbox, and how long a broker takes for one."""

from byway.inbox import TurnTimes


def test_an_idle_broker_has_no_waits():
    times = TurnTimes()
    times.woken(1_000_000)
    times.turn(1_000_000, 0, 0)
    assert times.sample() == (0, 0)


def test_messages_that_a_turn_leaves_wait_until_the_next():
    times = TurnTimes()
    times.woken(1_000)
    times.turn(1_000, 10, 8)
    times.worked(60)
    times.turn(1_100, 8, 0)  # 8 of them have waited for 100 µs
    times.worked(240)
    assert times.sample() == (80, 30)
    assert times.sample() == (0, 0)


def test_messages_that_come_while_the_broker_works_wait_for_half_of_that_time():
    times = TurnTimes()
    times.turn(0, 2, 0)
    times.turn(100, 6, 0)
    assert times.sample() == (6 * 100 // 2 // 8, 0)


def test_the_time_in_which_a_broker_is_idle_is_no_wait():
    times = TurnTimes()
    times.turn(0, 1, 0)
    times.woken(5_000)
    times.turn(5_020, 1, 0)
    assert times.sample() == (20 // 2 // 2, 0)


def test_what_may_not_be_read_waits_while_the_broker_is_idle():
    times = TurnTimes()
    times.turn(0, 4, 4)
    times.woken(500)
    times.turn(500, 4, 0)
    assert times.sample() == (500, 0)
