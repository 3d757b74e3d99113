"""Digests of what one end of a link holds from the other: sums of hashes in a few buckets.

Two ends that hold the same, settled alike, have the same digests, in whatever order it came.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

import msgspec

from byway.core.sync_state import Expected
from byway.model.messages import EntryId, path_of

BUCKETS: Final = 64
_WORD: Final = 1 << 64
_SETTLED: Final = 0x9E37_79B9_7F4A_7C15  # odd, so that no two digests become one
_encode = msgspec.msgpack.Encoder().encode


def bucket_of(id: EntryId) -> int:
    """The bucket that an entry counts in."""
    return _hash(id) % BUCKETS


def digests(items: Iterable[tuple[EntryId, tuple[str, ...], bool]]) -> tuple[int, ...]:
    """One sum for each bucket, of ids, the path that each came along behind the neighbour, and
    whether it is settled; empty if there are none."""
    sums = [0] * BUCKETS
    found = False
    for id, path, settled in items:
        value = _hash(id)
        bucket = value % BUCKETS
        if path:
            value += path_hash(path)
        sums[bucket] += value * _SETTLED if settled else value
        found = True
    return tuple(value % _WORD for value in sums) if found else ()


def differing(held: tuple[int, ...], expected: Expected) -> tuple[int, ...]:
    """The buckets in which a neighbour does not hold what it should."""
    ours = digests(
        (id, path_of(announcement), settled) for id, (announcement, settled) in expected.items()
    )
    ours, theirs = ours or (0,) * BUCKETS, held or (0,) * BUCKETS
    return tuple(i for i in range(BUCKETS) if ours[i] != theirs[i])


def path_hash(path: tuple[str, ...]) -> int:
    """A hash of the path behind a neighbour that a subscription came along; 0: there is none."""
    return _word(path) if path else 0


def _hash(id: EntryId) -> int:
    return _word(id)


def _word(value: object) -> int:
    return int.from_bytes(blake2b(_encode(value), digest_size=8).digest(), "big")
