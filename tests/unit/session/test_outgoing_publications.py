"""Publications of a client: bodies, numbers, refusals, and what is sent again."""

from enum import IntEnum

import msgspec
import numpy as np
import pytest

from byway.model.errors import (
    ClosedError,
    InvalidValueError,
    RefusedError,
    UnroutedError,
    WindowFullError,
)
from byway.model.messages import Body, PublishRequest, RoutesRequest
from byway.session.outgoing_publications import (
    ASKED_MAX,
    REFUSALS_KEPT,
    OutgoingPublication,
    OutgoingPublications,
    RoutedPublication,
    Routes,
    encode_body,
)


class Colour(IntEnum):
    RED = 1


class MandatoryPublication(RoutedPublication):
    is_mandatory = True


def publications(window: int = 100, window_bytes: int = 10_000) -> OutgoingPublications:
    return OutgoingPublications("c", window, window_bytes)


def add(
    made: OutgoingPublications,
    body: bytes,
    kind: type[OutgoingPublication] = OutgoingPublication,
) -> OutgoingPublication:
    publication = kind(body)
    made.add(publication)
    return publication


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
    first, second = OutgoingPublication(b"a"), OutgoingPublication(b"b")
    assert [made.add(first), made.add(second)] == [True, False]  # the first asks for a flush
    assert [first.number, second.number] == [1, 2]
    assert made.take() == (PublishRequest(1, b"a"), PublishRequest(2, b"b"))
    assert not made.has_unsent
    made.accept(1)
    assert (made.accepted, made.confirmed) == (1, 0)
    made.confirm(2)
    assert (made.accepted, made.confirmed) == (2, 2)
    assert (first.body, second.body) == (b"", b"")
    assert not made.kept
    assert made.kept_bytes == 0
    assert made.add(OutgoingPublication(b"c"))


def test_the_window_is_bounded_by_count_and_bytes() -> None:
    made = publications(window=2)
    add(made, b"a")
    add(made, b"b")
    with pytest.raises(WindowFullError, match="2 unconfirmed publications of 2 bytes"):
        add(made, b"c")
    made.confirm(1)
    assert add(made, b"c").number == 3
    made = publications(window_bytes=10)
    add(made, b"x" * 10)
    with pytest.raises(WindowFullError):
        add(made, b"y")


def test_a_publication_that_the_broker_would_refuse_for_its_size_is_not_sent() -> None:
    made = publications()
    made.body_bytes_max = 3
    with pytest.raises(InvalidValueError, match="4 bytes: at most 3"):
        add(made, b"long")
    assert (made.last, made.has_unsent) == (0, False)


def test_a_session_that_goes_on_is_sent_what_the_broker_does_not_have() -> None:
    made = publications()
    for _ in range(4):
        add(made, b"x")
    made.take()
    made.confirm(1)
    made.resume(published=3)
    assert made.accepted == 3
    assert sequences(made) == [4]


def test_a_new_session_is_sent_all_that_is_not_confirmed_numbered_from_one() -> None:
    made = publications()
    for _ in range(4):
        add(made, b"x")
    made.take()
    made.accept(4)
    made.confirm(2)
    made.restart()
    last = add(made, b"y")
    assert sequences(made) == [1, 2, 3]
    made.confirm(2)
    assert (made.accepted, made.confirmed) == (4, 4)
    assert list(made.kept) == [last]
    made.restart()
    assert sequences(made) == [1]
    made.confirm(1)
    assert made.confirmed == last.number == 5


def test_an_answer_beyond_what_was_published_is_no_answer_to_later_ones() -> None:
    made = publications()
    add(made, b"x")
    made.confirm(99)
    later = add(made, b"y")
    assert made.confirmed < later.number
    assert list(made.kept) == [later]


def test_what_is_closed_takes_nothing_more_and_keeps_what_it_has() -> None:
    made = publications()
    add(made, b"x")
    made.close("it is draining")
    made.close("the end")
    with pytest.raises(ClosedError, match="client c is closed: it is draining"):
        add(made, b"y")
    assert sequences(made) == [1]


# --- refusals -------------------------------------------------------------------------------------


def test_a_refused_publication_stays_refused_in_a_new_session() -> None:
    made = publications()
    first, bad, last = add(made, b"x"), add(made, b"bad"), add(made, b"y")
    made.take()
    assert made.refuse(2, "it conforms to nothing") is bad
    assert made.kept_bytes == 2
    made.accept(3)
    made.restart()
    assert made.take() == (PublishRequest(1, b"x"), PublishRequest(2, b""), PublishRequest(3, b"y"))
    assert made.refuse(2, "it cannot be read") is None
    assert made.refused == 1
    assert str(bad.error) == "publication 2 was refused: it conforms to nothing"
    assert first.error is last.error is None


def test_a_refusal_of_what_is_not_under_way_is_none() -> None:
    made = publications()
    add(made, b"x")
    add(made, b"y")
    made.confirm(1)
    assert [made.refuse(sequence, "no") for sequence in (0, 1, 3)] == [None] * 3
    assert made.refused == 0


def test_a_refusal_is_told_once() -> None:
    made = publications()
    told, untold, another = add(made, b"x"), add(made, b"y"), add(made, b"z")
    for sequence in (1, 2, 3):
        made.refuse(sequence, "no")
    told.is_reported = True
    made.confirm(3)
    with pytest.raises(RefusedError, match="publication 2 was refused") as caught:
        made.raise_refusal()
    assert caught.value.__notes__ == ["and 1 more publications were refused"]
    made.raise_refusal()
    assert untold.error is not None
    assert another.error is not None


def test_of_many_refusals_the_last_ones_are_kept() -> None:
    made = publications(window=REFUSALS_KEPT + 2)
    for sequence in range(1, REFUSALS_KEPT + 3):
        add(made, b"x")
        made.refuse(sequence, "no")
    with pytest.raises(RefusedError, match="publication 3 was refused") as caught:
        made.raise_refusal()
    assert caught.value.__notes__ == [f"and {REFUSALS_KEPT - 1} more publications were refused"]
    assert made.refused == REFUSALS_KEPT + 2


# --- routes ---------------------------------------------------------------------------------------


def test_the_broker_is_asked_only_for_the_routes_that_are_wanted() -> None:
    made = publications()
    plain, routed = add(made, b"x"), add(made, b"y", RoutedPublication)
    assert made.take_to_ask() == (RoutesRequest(2),)
    assert made.take() == (PublishRequest(1, b"x"), PublishRequest(2, b"y"))
    routes = Routes(0, ("B2",), True)
    for sequence in (1, 2, 3):
        made.routed(sequence, routes)
    assert (plain.routes, routed.routes) == (None, routes)
    add(made, b"z")
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
    made = publications()
    publication = add(made, b"x", MandatoryPublication)
    indifferent = add(made, b"x", RoutedPublication)
    made.take()
    assert made.routed(1, routes) is (publication if fails else None)
    assert made.routed(2, routes) is None
    assert (publication.routes, indifferent.routes, made.refused) == (routes, routes, int(fails))
    assert indifferent.error is None
    assert isinstance(publication.error, UnroutedError) is fails
    if fails:
        assert "publication 1 was refused: it is mandatory" in str(publication.error)
        assert made.routed(1, routes) is None  # it has failed before


def test_routes_are_asked_for_again_with_what_is_sent_again_but_not_for_ever() -> None:
    made = publications()
    add(made, b"x", RoutedPublication)
    add(made, b"y", RoutedPublication)
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
