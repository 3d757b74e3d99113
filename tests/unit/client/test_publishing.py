"""Publications of a client: bodies, numbers, receipts, and what is sent again."""

import asyncio
from collections.abc import Awaitable
from enum import IntEnum

import msgspec
import numpy as np
import pytest

from byway.client.publishing import (
    ASKED_MAX,
    MandatoryReceipt,
    OutgoingPublications,
    RoutedReceipt,
    Routes,
    encode_body,
)
from byway.model.errors import (
    ClosedError,
    InvalidValueError,
    NotAcceptedError,
    NotInTimeError,
    RefusedError,
    UnroutedError,
    WindowFullError,
)
from byway.model.messages import Body, PublishRequest, RoutesRequest


class Colour(IntEnum):
    RED = 1


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


def publications(window: int = 100, window_bytes: int = 10_000) -> OutgoingPublications:
    return OutgoingPublications("c", window, window_bytes, Patient(), lambda: None)


def sequences(made: OutgoingPublications) -> list[int]:
    return [request.sequence for request in made.take()]


# --- bodies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attributes", "data"),
    [
        ({}, b""),
        ({"a": 1, "b": 2.5, "c": "x", "d": True}, b"payload"),
        ({"n": -(2**63), "m": 2**63 - 1}, bytearray(b"x")),
        ({"nan": float("inf")}, memoryview(b"view")),
    ],
)
def test_a_body_says_what_it_was_made_of(attributes, data) -> None:
    body = msgspec.msgpack.decode(encode_body(attributes, data), type=Body)
    assert body == Body(attributes, bytes(data))


def test_values_of_other_types_become_plain() -> None:
    attributes = {"f": np.float64(2.5), "colour": Colour.RED, np.str_("s"): np.str_("text")}
    body = msgspec.msgpack.decode(encode_body(attributes), type=Body)
    assert body.attributes == {"f": 2.5, "colour": 1, "s": "text"}


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        ({"a": None}, "attribute 'a'"),
        ({"a": [1]}, "attribute 'a'"),
        ({1: 2}, "not an attribute name"),
        ({"": 2}, "not an attribute name"),
        ({"a" * 256: 2}, "not an attribute name"),
        ({f"a{n}": n for n in range(257)}, "at most 256 attributes"),
        ({"a": 2**64}, "64 bits"),
        ({"a": "\ud800"}, "not valid Unicode"),
        ({"a": "x" * 65_537}, "at most 65536 characters"),
    ],
)
def test_what_no_publication_may_carry_is_refused_at_once(attributes, says) -> None:
    with pytest.raises(InvalidValueError, match=says):
        encode_body(attributes)


def test_data_is_bytes() -> None:
    with pytest.raises(InvalidValueError, match="data of type str"):
        encode_body({"a": 1}, "text")  # type: ignore[arg-type]


# --- numbers and windows ------------------------------------------------------------------------


def test_publications_are_numbered_and_sent_once() -> None:
    made = publications()
    receipts = [made.add(b"a"), made.add(b"b")]
    assert [receipt.number for receipt in receipts] == [1, 2]
    assert made.take() == (PublishRequest(1, b"a"), PublishRequest(2, b"b"))
    assert not made.has_unsent
    assert repr(receipts[0]) == "<Receipt 1: not accepted yet>"
    made.accept(1)
    assert (receipts[0].is_accepted, receipts[1].is_accepted) == (True, False)
    made.confirm(2)
    assert all(receipt.is_accepted and receipt.is_confirmed for receipt in receipts)
    assert not made.kept
    assert made.kept_bytes == 0


def test_the_window_is_bounded_by_count_and_bytes() -> None:
    made = publications(window=2)
    made.add(b"a")
    made.add(b"b")
    with pytest.raises(WindowFullError, match="2 unconfirmed publications of 2 bytes"):
        made.add(b"c")
    made.confirm(1)
    made.add(b"c")
    made = publications(window_bytes=10)
    made.add(b"x" * 10)
    with pytest.raises(WindowFullError):
        made.add(b"y")


def test_a_publication_that_the_broker_would_refuse_for_its_size_is_not_sent() -> None:
    made = publications()
    made.body_bytes_max = 3
    with pytest.raises(InvalidValueError, match="4 bytes: at most 3"):
        made.add(b"long")


def test_a_session_that_goes_on_is_sent_what_the_broker_does_not_have() -> None:
    made = publications()
    for _ in range(4):
        made.add(b"x")
    made.take()
    made.confirm(1)
    made.resume(published=3)
    assert made.accepted.value == 3
    assert sequences(made) == [4]


def test_a_new_session_is_sent_all_that_is_not_confirmed_numbered_from_one() -> None:
    made = publications()
    receipts = [made.add(b"x") for _ in range(4)]
    made.take()
    made.accept(4)
    made.confirm(2)
    made.restart()
    receipts.append(made.add(b"y"))
    assert sequences(made) == [1, 2, 3]
    made.confirm(2)
    assert [receipt.is_confirmed for receipt in receipts] == [True] * 4 + [False]
    made.restart()
    assert sequences(made) == [1]
    made.confirm(1)
    assert receipts[4].is_confirmed


def test_an_answer_beyond_what_was_published_is_no_answer_to_later_ones() -> None:
    made = publications()
    made.add(b"x")
    made.confirm(99)
    assert not made.add(b"y").is_confirmed


# --- refusals -------------------------------------------------------------------------------------


def test_a_refused_publication_stays_refused_in_a_new_session() -> None:
    made = publications()
    receipts = [made.add(b"x"), made.add(b"bad"), made.add(b"y")]
    made.take()
    made.refuse(2, "it conforms to nothing")
    made.accept(3)
    assert repr(receipts[1]) == "<Receipt 2: refused>"
    assert not receipts[1].is_accepted
    assert receipts[2].is_accepted
    made.restart()
    assert made.take() == (PublishRequest(1, b"x"), PublishRequest(2, b""), PublishRequest(3, b"y"))
    made.refuse(2, "it cannot be read")
    assert made.refused == 1
    assert str(receipts[1].error) == "publication 2 was refused: it conforms to nothing"


def test_a_refusal_is_told_once() -> None:
    async def run() -> None:
        made = publications()
        told, untold, another = made.add(b"x"), made.add(b"y"), made.add(b"z")
        for sequence in (1, 2, 3):
            made.refuse(sequence, "no")
        made.confirm(3)
        for wait in (told.accepted, told.confirmed):
            with pytest.raises(RefusedError, match="publication 1 was refused"):
                await wait()
        with pytest.raises(RefusedError, match="publication 2 was refused") as caught:
            made.raise_refusal()
        assert caught.value.__notes__ == ["and 1 more publications were refused"]
        made.raise_refusal()
        assert untold.error is not None
        assert another.error is not None

    asyncio.run(run())


# --- waiting --------------------------------------------------------------------------------------


def test_waiting_ends_with_the_answer_in_whatever_order_it_was_begun() -> None:
    async def run() -> None:
        made = publications()
        receipts = [made.add(b"x") for _ in range(3)]
        waiting = [asyncio.create_task(r.accepted(1)) for r in reversed(receipts)]
        await asyncio.sleep(0)
        made.accept(2)
        done, pending = await asyncio.wait(waiting, timeout=0.01)
        assert len(done) == 2
        made.confirm(3)
        await asyncio.gather(*pending)
        await receipts[2].confirmed(0)

    asyncio.run(run())


def test_a_wait_that_is_given_up_leaves_nothing_behind() -> None:
    async def run() -> None:
        made = publications()
        receipt = made.add(b"x")
        for _ in range(3):
            with pytest.raises(NotAcceptedError, match="publication 1 is not accepted"):
                await receipt.accepted(0.001)
        assert not made.accepted._waiters
        made.accept(1)
        await receipt.accepted(0)

    asyncio.run(run())


def test_room_goes_to_one_who_uses_it() -> None:
    async def run() -> None:
        made = publications(window=1)
        made.add(b"x")
        gives_up, waits = (asyncio.create_task(made.until_room(1)) for _ in range(2))
        await asyncio.sleep(0)
        made.confirm(1)
        gives_up.cancel()  # it has been told of the room, and does not know yet
        await waits
        assert made.has_room

    asyncio.run(run())


def test_room_for_many_small_ones_is_passed_on() -> None:
    async def run() -> None:
        made = publications(window_bytes=10)
        made.add(b"x" * 10)

        async def publish() -> None:
            await made.until_room(1)
            made.add(b"y")

        waiting = [asyncio.create_task(publish()) for _ in range(5)]
        await asyncio.sleep(0)
        made.confirm(1)
        await asyncio.gather(*waiting)
        assert len(made.kept) == 5

    asyncio.run(run())


def test_whoever_waits_is_told_that_the_client_is_closed() -> None:
    async def run() -> None:
        made = publications(window=1)
        receipt = made.add(b"x")
        waiting = [
            asyncio.create_task(receipt.accepted(1)),
            asyncio.create_task(made.until_room(1)),
        ]
        await asyncio.sleep(0)
        made.close("the end")
        with pytest.raises(ClosedError, match="client c is closed: the end"):
            await waiting[0]
        await waiting[1]
        with pytest.raises(ClosedError):
            made.add(b"y")
        with pytest.raises(ClosedError):
            await receipt.confirmed()

    asyncio.run(run())


# --- routes ---------------------------------------------------------------------------------------


def test_the_broker_is_asked_only_for_the_routes_that_are_wanted() -> None:
    made = publications()
    plain, routed = made.add(b"x"), made.add(b"y", RoutedReceipt)
    assert made.take_to_ask() == (RoutesRequest(2),)
    assert made.take() == (PublishRequest(1, b"x"), PublishRequest(2, b"y"))
    routes = Routes(0, ("B2",), True)
    for sequence in (1, 2, 3):
        made.routed(sequence, routes)
    assert (plain.routes, routed.routes) == (None, routes)
    made.add(b"z")
    assert made.to_ask == []


@pytest.mark.parametrize(
    ("routes", "fails"),
    [
        (Routes(0, (), True), True),
        (Routes(0, (), False), False),
        (Routes(1, (), True), False),
        (Routes(0, ("B2",), True), False),
    ],
)
def test_a_mandatory_publication_fails_iff_surely_nobody_gets_it(
    routes: Routes, fails: bool
) -> None:
    async def run() -> None:
        made = publications()
        receipt = made.add(b"x", MandatoryReceipt)
        indifferent = made.add(b"x", RoutedReceipt)
        made.take()
        made.routed(1, routes)
        made.routed(2, routes)
        made.confirm(2)
        assert (receipt.routes, made.refused) == (routes, int(fails))
        await indifferent.confirmed()
        if not fails:
            await receipt.confirmed()
            return
        with pytest.raises(UnroutedError, match="publication 1 was refused: it is mandatory"):
            await receipt.accepted()

    asyncio.run(run())


def test_routes_are_asked_for_again_with_what_is_sent_again_but_not_for_ever() -> None:
    made = publications()
    made.add(b"x", RoutedReceipt)
    made.add(b"y", RoutedReceipt)
    made.take_to_ask()
    made.take()
    made.resume(1)
    assert made.take_to_ask() == (RoutesRequest(2),)
    for _ in range(ASKED_MAX - 2):
        made.resume(1)
        assert made.take_to_ask() == (RoutesRequest(2),)
    made.resume(1)
    assert made.take_to_ask() == ()
    assert made.take() == (PublishRequest(2, b"y"),)
    made.restart()
    assert made.take_to_ask() == (RoutesRequest(1),)
