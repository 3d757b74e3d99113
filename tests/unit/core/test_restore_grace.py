"""Clients have time to come back after a restart: nothing is lost for them meanwhile.

Every test is done twice: once as it is, and once with a broker that is restored from its snapshot
before every input.
"""

from collections.abc import Callable

import msgspec
import pytest

from byway.core.actions import Action, CancelTimer, Send, SendReply, SetTimer, Timer
from byway.core.broker import Broker
from byway.core.broker_config import BrokerConfig
from byway.core.inputs import ClientDetached, LinkUp, Started, TimerFired
from byway.core.invariants import validate
from byway.model import TRUE
from byway.model.messages import (
    Acknowledge,
    Attached,
    DeliveriesReceived,
    Delivery,
    Hello,
    Settled,
    SubscribeRequest,
)
from tests.lone_broker import Lone, acknowledged, publication, without_reachability

RESTORE = Timer("restore")
SESSION = Timer("session", "c")
TTL = 60_000_000
GRACE = 30_000_000
FIRST, SECOND, THIRD, FOURTH = (publication(n, p=n) for n in range(1, 5))
TWO = BrokerConfig(session_messages_max=2)
BODY_BYTES = len(FIRST.body)

Restart = Callable[..., Lone]


@pytest.fixture(params=[False, True], ids=["", "restored"])
def restarted(request) -> Restart:
    def restart(config: BrokerConfig = TWO, clients: tuple[str, ...] = ("c",)) -> Lone:
        """Clients that want everything are away, B went down and is back, and so is A."""
        lone = Lone("A", config=config)
        for client in clients:
            lone.attach(client, ttl_us=TTL)
            lone.ask(client, SubscribeRequest("s", TRUE))
        lone.broker = Broker.restore(lone.broker.snapshot(), config)
        lone.restored = request.param
        lone.handle(Started())
        lone.handle(LinkUp("A", Hello("A", 1, 1, 4, 0, 0, epoch=1)))
        return lone

    return restart


def confirmed(actions: list[Action]) -> list[int]:
    """What is confirmed to A."""
    return [
        a.frame.confirmed
        for a in actions
        if isinstance(a, Send) and isinstance(a.frame, Acknowledge)
    ]


def delivery(number: int, publication) -> Delivery:
    return Delivery(number, publication, ("s",))


def test_what_finds_room_is_confirmed_and_what_does_not_is_not(restarted):
    lone = restarted()
    assert lone.receive("A", FIRST, SECOND) == [acknowledged("A", 4, data=2, confirmed=2)]
    assert lone.receive("A", THIRD) == []
    assert lone.receive("A", FOURTH) == []
    assert validate(lone.broker) == []


def test_nothing_is_lost_for_who_comes_back_in_time(restarted):
    lone = restarted()
    lone.receive("A", FIRST, SECOND, THIRD, FOURTH)
    assert lone.attach("c", ttl_us=TTL) == [
        CancelTimer(SESSION),
        SendReply(
            "c",
            (
                Attached(resumed=True, published=0, lost=0),
                Settled("s"),
                delivery(1, FIRST),
                delivery(2, SECOND),
                delivery(3, THIRD),
                delivery(4, FOURTH),
            ),
        ),
    ]


def test_room_by_acknowledgement_confirms_in_order(restarted):
    lone = restarted()
    lone.receive("A", FIRST, SECOND, THIRD, FOURTH)
    lone.attach("c", ttl_us=TTL)
    assert lone.ask("c", DeliveriesReceived(1)) == [acknowledged("A", 4, data=4, confirmed=3)]
    assert lone.ask("c", DeliveriesReceived(2)) == [acknowledged("A", 4, data=4, confirmed=4)]
    assert lone.ask("c", DeliveriesReceived(4)) == []
    assert lone.broker.held_deliveries == 0


def test_what_it_had_received_before_makes_room_at_once(restarted):
    lone = restarted()
    lone.receive("A", FIRST, SECOND, THIRD, FOURTH)
    assert confirmed(lone.attach("c", ttl_us=TTL, received=4)) == [4]


def test_the_end_of_the_time_drops_the_oldest_and_tells_who_comes_later(restarted):
    lone = restarted()
    lone.receive("A", FIRST, SECOND, THIRD, FOURTH)
    lone.now_us = GRACE
    assert lone.handle(TimerFired(RESTORE)) == [acknowledged("A", 4, data=4, confirmed=4)]
    (_, told) = lone.attach("c", ttl_us=TTL)
    assert told.replies == (
        Attached(resumed=True, published=0, lost=2),
        Settled("s"),
        delivery(3, THIRD),
        delivery(4, FOURTH),
    )


def test_afterwards_the_bound_is_what_it_always_is(restarted):
    lone = restarted()
    lone.handle(TimerFired(RESTORE))
    fifth = publication(5, p=5)
    for number, message in enumerate((FIRST, SECOND, THIRD, FOURTH, fifth), 1):
        assert confirmed(lone.receive("A", message)) == [number]
    assert [kept.number for kept in lone.broker.kept_deliveries("c")] == [4, 5]


def test_bytes_are_a_bound_as_well(restarted):
    lone = restarted(BrokerConfig(session_bytes_max=2 * BODY_BYTES))
    assert confirmed(lone.receive("A", FIRST, SECOND)) == [2]
    assert lone.receive("A", THIRD) == []
    lone.attach("c", ttl_us=TTL)
    assert confirmed(lone.ask("c", DeliveriesReceived(1))) == [3]


def test_a_large_one_holds_up_smaller_ones_behind_it(restarted):
    """What has no room is always the latest: confirmations stay in order."""
    large = publication(2, p=2, text="x" * 3 * BODY_BYTES)
    lone = restarted(BrokerConfig(session_bytes_max=len(large.body) + BODY_BYTES - 1))
    assert confirmed(lone.receive("A", FIRST)) == [1]
    assert lone.receive("A", large, THIRD) == []
    lone.attach("c", ttl_us=TTL)
    assert confirmed(lone.ask("c", DeliveriesReceived(1))) == [2]  # without FIRST it fits
    assert confirmed(lone.ask("c", DeliveriesReceived(2))) == [3]


def test_it_waits_for_the_one_client_that_has_no_room(restarted):
    lone = restarted(clients=("c", "d"))
    lone.attach("d", ttl_us=TTL)
    lone.receive("A", FIRST, SECOND)
    lone.ask("d", DeliveriesReceived(2))
    assert confirmed(lone.receive("A", THIRD)) == []
    assert confirmed(lone.ask("d", DeliveriesReceived(3))) == []
    lone.attach("c", ttl_us=TTL)
    assert confirmed(lone.ask("c", DeliveriesReceived(1))) == [3]


def test_who_is_here_and_slow_is_spared_too(restarted):
    """It may vanish again."""
    lone = restarted()
    lone.attach("c", ttl_us=TTL)
    lone.receive("A", FIRST, SECOND)
    assert lone.receive("A", THIRD) == [SendReply("c", (delivery(3, THIRD),))]
    lone.handle(ClientDetached("c"))
    (_, told, *rest) = lone.attach("c", ttl_us=TTL, received=1)
    assert told == acknowledged("A", 4, data=3, confirmed=3)
    (told,) = rest
    assert told.replies[2:] == (delivery(2, SECOND), delivery(3, THIRD))


@pytest.mark.parametrize(
    "leave",
    [
        lambda lone: lone.handle(ClientDetached("c", for_good=True)),
        lambda lone: lone.handle(TimerFired(SESSION)),
        lambda lone: lone.attach("c", incarnation=2),
        lambda lone: lone.attach("c", ttl_us=0),
    ],
    ids=["it says goodbye", "its session ends", "it begins anew", "it keeps no session any more"],
)
def test_what_waits_for_one_that_goes_is_confirmed(restarted, leave):
    lone = restarted()
    lone.receive("A", FIRST, SECOND, THIRD, FOURTH)
    assert confirmed(leave(lone)) == [4]
    assert lone.broker.held_deliveries == 0
    assert validate(lone.broker) == []


def test_many_that_wait_stop_data(restarted):
    lone = restarted(msgspec.structs.replace(TWO, link_bytes_max=500))
    lone.receive("A", FIRST, SECOND, THIRD)
    assert [lone.broker.reads_data_from(link) for link in ("A", None)] == [True, True]
    lone.receive("A", FOURTH)
    assert [lone.broker.reads_data_from(link) for link in ("A", None)] == [False, False]
    lone.attach("c", ttl_us=TTL)
    lone.ask("c", DeliveriesReceived(1))
    assert lone.broker.reads_data_from(None)


def test_the_end_of_the_time_lets_data_in_again(restarted):
    lone = restarted(msgspec.structs.replace(TWO, link_bytes_max=500))
    lone.receive("A", FIRST, SECOND, THIRD, FOURTH)
    lone.handle(TimerFired(RESTORE))
    assert lone.broker.reads_data_from(None)


def test_another_restart_gives_the_time_again(restarted):
    lone = restarted()
    lone.receive("A", FIRST, SECOND, THIRD)
    lone.broker = Broker.restore(lone.broker.snapshot(), TWO)
    assert lone.broker.held_deliveries == 1
    lone.now_us = 7
    started = without_reachability(lone.handle(Started()))
    assert started[:2] == [SetTimer(SESSION, 7 + TTL), SetTimer(RESTORE, 7 + GRACE)]
    lone.handle(LinkUp("A", Hello("A", 1, 1, 4, 0, 0, epoch=1)))
    lone.attach("c", ttl_us=TTL)
    assert confirmed(lone.ask("c", DeliveriesReceived(1))) == [3]


def test_without_clients_there_is_no_such_time():
    restored = Broker.restore(Lone("A").broker.snapshot())
    assert SetTimer(RESTORE, GRACE) not in restored.handle(0, Started())


def test_a_first_start_gives_no_such_time():
    lone = Lone("A", config=TWO)
    lone.attach("c", ttl_us=TTL)
    lone.ask("c", SubscribeRequest("s", TRUE))
    lone.handle(ClientDetached("c"))
    assert confirmed(lone.receive("A", FIRST, SECOND, THIRD)) == [3]
