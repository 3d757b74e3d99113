"""Bodies of publications, read once for all brokers of a process."""

import msgspec

from byway.core.bodies import SharedBodies
from byway.model.messages import Body

encode = msgspec.msgpack.Encoder().encode


def body(n: int) -> bytes:
    return encode(Body({"n": n}))


def test_a_body_is_encoded_once_while_it_is_among_the_latest():
    bodies = SharedBodies(4)
    first = bodies.for_matching(body(0))
    for n in (1, 2):  # with 0 and 1 a generation is full
        bodies.for_matching(body(n))
    assert bodies.for_matching(body(0)) is first
    for n in range(3, 6):
        bodies.for_matching(body(n))
    assert bodies.for_matching(body(0)) is not first


def test_no_more_bodies_are_kept_than_the_bound():
    bodies = SharedBodies(8)
    for n in range(100):
        bodies.for_matching(body(n))
        assert len(bodies.young) + len(bodies.old) <= 8
    assert len(bodies.young) + len(bodies.old) >= 4
