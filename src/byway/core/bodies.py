"""Bodies of publications as the index takes them.

Every broker on the way reads the same bytes. Brokers of one process, as in the simulator, can share
what was read: a body is decoded and encoded once, not once a hop. Alone, a broker keeps nothing.
"""

from __future__ import annotations

import msgspec

from byway.matching import Encoded
from byway.matching.vocabulary import SHARED
from byway.model.messages import Body
from byway.model.values import Attributes

_decode = msgspec.msgpack.Decoder(Body).decode


def read(body: bytes) -> Attributes:
    """The attributes in the body of a publication. Raises `msgspec.DecodeError` for other bytes."""
    try:
        return _decode(body).attributes
    except (UnicodeDecodeError, RecursionError) as error:  # msgspec lets these through
        raise msgspec.DecodeError(str(error)) from error


class Bodies:
    """Reads bodies of publications. Raises `msgspec.DecodeError` for other bytes."""

    def attributes(self, body: bytes) -> Attributes:
        """The attributes of a publication."""
        return read(body)

    def for_matching(self, body: bytes) -> Attributes | Encoded:
        """The attributes of a publication, in a form that an index takes."""
        return read(body)


class SharedBodies(Bodies):
    """Keeps the encoded attributes of the latest bodies, at most `bodies_max` and at least half as
    many."""

    def __init__(self, bodies_max: int = 16_384) -> None:
        self._half = max(bodies_max // 2, 1)
        self._young: dict[bytes, Encoded] = {}
        self._old: dict[bytes, Encoded] = {}

    def for_matching(self, body: bytes) -> Attributes | Encoded:
        """The attributes as the index encodes them: read once, unless filters have brought new
        words since."""
        encoded = self._young.get(body) or self._old.get(body)
        if encoded is None or encoded.changes != SHARED.changes:
            encoded = Encoded(read(body), SHARED)
            if len(self._young) >= self._half:
                self._old, self._young = self._young, {}
            self._young[body] = encoded
        return encoded
