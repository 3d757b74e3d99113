"""Frames survive any cutting of the stream, and no bytes do more than end a connection."""

import random
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from byway.model.errors import FrameError
from byway.wire import FrameReader, decode, encode
from tests.wire_examples import FRAMES

ALL = list(FRAMES.values())
STREAM = b"".join(bytes(encode(frame)) for frame in ALL)


@given(st.lists(st.integers(0, len(STREAM)), max_size=40))
def test_any_cutting_gives_the_same_frames(cuts):
    reader = FrameReader(2**20)
    edges = [0, *sorted(cuts), len(STREAM)]
    found = []
    for start, stop in pairwise(edges):
        found += [decode(payload) for payload in reader.feed(STREAM[start:stop])]
    assert found == ALL
    assert reader.waiting_bytes == 0


@given(st.binary(max_size=200))
def test_random_bytes_are_frames_or_errors(data):
    try:
        for payload in FrameReader(1_000).feed(data):
            decode(payload)
    except FrameError:
        pass


def test_damaged_frames_are_frames_or_errors():
    """Every example with some bytes changed: nothing but `FrameError` comes out."""
    rng = random.Random(5)
    read = refused = 0
    for frame in ALL:
        whole = bytes(encode(frame))[4:]
        for _ in range(200):
            damaged = bytearray(whole)
            for _ in range(rng.randint(1, 3)):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            if rng.random() < 0.3:
                del damaged[rng.randrange(len(damaged)) :]
            try:
                decode(bytes(damaged))
                read += 1
            except FrameError:
                refused += 1
    assert read > 100
    assert refused > 1_000
