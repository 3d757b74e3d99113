"""Receipts of publications: what they tell, and waiting for it."""

import asyncio
from collections.abc import Awaitable

import pytest

from byway.client.publishing import (
    MandatoryReceipt,
    PublicationWaits,
    Receipt,
    RoutedReceipt,
    Watermark,
)
from byway.model.errors import (
    ClosedError,
    NotAcceptedError,
    NotConfirmedError,
    NotInTimeError,
    RefusedError,
    UnroutedError,
)
from byway.session.outgoing_publications import OutgoingPublications, Routes


class Patient:
    """Waits for a short time."""

    async def wait(
        self,
        awaited: Awaitable[None],
        error: type[NotInTimeError],
        subject: str,
        timeout: float | None,
    ) -> None:
        try:
            async with asyncio.timeout(0.01 if timeout is None else timeout):
                await awaited
        except TimeoutError:
            raise error(subject, 0.01, "testing") from None


class Publisher:
    """Publications and those who wait for them; answers reach both, as a driver does it."""

    def __init__(self, window: int = 100, window_bytes: int = 10_000) -> None:
        self.made = OutgoingPublications("c", window, window_bytes)
        self.waits = PublicationWaits(self.made, Patient())

    def add(self, body: bytes, kind: type[Receipt] = Receipt) -> Receipt:
        receipt = kind(body, self.waits)
        self.made.add(receipt)
        return receipt

    def accept(self, sequence: int) -> None:
        self.made.accept(sequence)
        self.waits.accepted.rise(self.made.accepted)

    def confirm(self, sequence: int) -> None:
        self.made.confirm(sequence)
        self.waits.accepted.rise(self.made.accepted)
        self.waits.confirmed.rise(self.made.confirmed)
        self.waits.give_room()

    def close(self, reason: str) -> None:
        self.made.close(reason)
        self.waits.fail("c", reason)


# --- receipts -------------------------------------------------------------------------------------


def test_a_receipt_tells_what_happened_to_its_publication() -> None:
    publisher = Publisher()
    first, second, third = (publisher.add(body) for body in (b"a", b"b", b"c"))
    assert repr(first) == "<Receipt 1: not accepted yet>"
    publisher.accept(1)
    assert (first.is_accepted, second.is_accepted) == (True, False)
    assert repr(first) == "<Receipt 1: accepted>"
    publisher.made.refuse(2, "no")
    publisher.confirm(3)
    assert repr(first) == "<Receipt 1: confirmed>"
    assert repr(second) == "<Receipt 2: refused>"
    assert [one.is_accepted for one in (first, second, third)] == [True, False, True]
    assert [one.is_confirmed for one in (first, second, third)] == [True, False, True]


def test_receipts_are_confirmed_across_sessions() -> None:
    publisher = Publisher()
    receipts = [publisher.add(b"x") for _ in range(4)]
    publisher.accept(4)
    publisher.confirm(2)
    publisher.made.restart()
    receipts.append(publisher.add(b"y"))
    publisher.confirm(2)
    assert [receipt.is_confirmed for receipt in receipts] == [True] * 4 + [False]
    publisher.made.restart()
    publisher.confirm(1)
    assert receipts[4].is_confirmed


def test_an_answer_beyond_what_was_published_is_no_answer_to_later_ones() -> None:
    publisher = Publisher()
    publisher.add(b"x")
    publisher.confirm(99)
    assert not publisher.add(b"y").is_confirmed


def test_a_refusal_is_told_once() -> None:
    async def run() -> None:
        publisher = Publisher()
        told, untold = publisher.add(b"x"), publisher.add(b"y")
        for sequence in (1, 2):
            publisher.made.refuse(sequence, "no")
        publisher.confirm(2)
        for wait in (told.accepted, told.confirmed):
            with pytest.raises(RefusedError, match="publication 1 was refused"):
                await wait()
        with pytest.raises(RefusedError, match="publication 2 was refused"):
            publisher.made.raise_refusal()
        publisher.made.raise_refusal()
        assert untold.error is not None

    asyncio.run(run())


@pytest.mark.parametrize(
    ("routes", "fails"), [(Routes(0, (), True), True), (Routes(1, (), True), False)]
)
def test_a_mandatory_receipt_raises_iff_surely_nobody_gets_it(routes: Routes, fails: bool) -> None:
    async def run() -> None:
        publisher = Publisher()
        receipt = publisher.add(b"x", MandatoryReceipt)
        indifferent = publisher.add(b"x", RoutedReceipt)
        publisher.made.routed(1, routes)
        publisher.made.routed(2, routes)
        publisher.confirm(2)
        assert receipt.routes == indifferent.routes == routes
        await indifferent.confirmed()
        if not fails:
            await receipt.confirmed()
            return
        with pytest.raises(UnroutedError, match="publication 1 was refused: it is mandatory"):
            await receipt.accepted()

    asyncio.run(run())


# --- waiting --------------------------------------------------------------------------------------


def test_waiting_ends_with_the_answer_in_whatever_order_it_was_begun() -> None:
    async def run() -> None:
        publisher = Publisher()
        receipts = [publisher.add(b"x") for _ in range(3)]
        waiting = [asyncio.create_task(r.accepted(1)) for r in reversed(receipts)]
        await asyncio.sleep(0)
        publisher.accept(2)
        done, pending = await asyncio.wait(waiting, timeout=0.01)
        assert len(done) == 2
        publisher.confirm(3)
        await asyncio.gather(*pending)
        await receipts[2].confirmed(0)

    asyncio.run(run())


def test_a_wait_that_is_given_up_leaves_nothing_behind() -> None:
    async def run() -> None:
        publisher = Publisher()
        receipt = publisher.add(b"x")
        for _ in range(3):
            with pytest.raises(NotAcceptedError, match="publication 1 is not accepted"):
                await receipt.accepted(0.001)
        assert not publisher.waits.accepted._waiters
        publisher.accept(1)
        await receipt.accepted(0)
        with pytest.raises(NotConfirmedError, match="publication 1 is not confirmed"):
            await receipt.confirmed(0.001)

    asyncio.run(run())


def test_a_mark_wakes_those_it_has_reached_and_fails_the_others() -> None:
    async def run() -> None:
        mark = Watermark()
        await mark.reached(0)
        waiting = [asyncio.create_task(mark.reached(number)) for number in (1, 1, 2, 5)]
        await asyncio.sleep(0)
        mark.rise(3)
        await asyncio.gather(*waiting[:3])
        assert not waiting[3].done()
        mark.fail(lambda: ClosedError("client c", "the end"))
        for late in (waiting[3], mark.reached(4)):
            with pytest.raises(ClosedError, match="the end"):
                await late
        await mark.reached(3)

    asyncio.run(run())


def test_room_goes_to_one_who_uses_it() -> None:
    async def run() -> None:
        publisher = Publisher(window=1)
        publisher.add(b"x")
        gives_up, waits = (asyncio.create_task(publisher.waits.until_room(1)) for _ in range(2))
        await asyncio.sleep(0)
        publisher.confirm(1)
        gives_up.cancel()  # it has been told of the room, and does not know yet
        await waits
        assert publisher.made.has_room

    asyncio.run(run())


def test_room_for_many_small_ones_is_passed_on() -> None:
    async def run() -> None:
        publisher = Publisher(window_bytes=10)
        publisher.add(b"x" * 10)

        async def publish() -> None:
            await publisher.waits.until_room(1)
            publisher.add(b"y")

        waiting = [asyncio.create_task(publish()) for _ in range(5)]
        await asyncio.sleep(0)
        publisher.confirm(1)
        await asyncio.gather(*waiting)
        assert len(publisher.made.kept) == 5

    asyncio.run(run())


def test_whoever_waits_is_told_that_the_client_is_closed() -> None:
    async def run() -> None:
        publisher = Publisher(window=1)
        receipt = publisher.add(b"x")
        waiting = [
            asyncio.create_task(receipt.accepted(1)),
            asyncio.create_task(publisher.waits.until_room(1)),
        ]
        await asyncio.sleep(0)
        publisher.close("the end")
        with pytest.raises(ClosedError, match="client c is closed: the end"):
            await waiting[0]
        await waiting[1]
        with pytest.raises(ClosedError):
            publisher.add(b"y")
        with pytest.raises(ClosedError):
            await receipt.confirmed()

    asyncio.run(run())
