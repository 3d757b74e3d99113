"""Bodies of publications: what is in one, and where it has to go.

Every broker on the way reads the same bytes. The index reads plain bodies itself; others are
decoded first.
"""

from __future__ import annotations

import msgspec

from byway.matching import Routes, TableIndex
from byway.model.messages import Body
from byway.model.values import Attributes

_decode = msgspec.msgpack.Decoder(Body).decode


def read(body: bytes) -> Attributes:
    """The attributes in the body of a publication. Raises `msgspec.DecodeError` for other bytes."""
    try:
        return _decode(body).attributes
    except (UnicodeDecodeError, RecursionError) as error:  # msgspec lets these through
        raise msgspec.DecodeError(str(error)) from error


def routes_of(body: bytes, index: TableIndex, exclude: int | None) -> Routes:
    """Where the publication with this body has to go; see `MatchIndex.match_routes`. Raises
    `msgspec.DecodeError` for bytes that are none."""
    found = index.match_body(body, exclude)
    return index.match_routes(read(body), exclude) if found is None else found
