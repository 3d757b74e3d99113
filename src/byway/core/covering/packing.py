"""Packing: active covering, with subscriptions that go out together in one message.

What an unsubscription releases is one message a link instead of thousands. The receiver still has
to handle each subscription in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from byway.core.covering.active import Active
from byway.model.messages import Message, Subscribe, SubscribeMany

PACK_MAX: Final = 1_024
"""Subscriptions in one message."""
PACK_BYTES_MAX: Final = 262_144
"""Their encoded size together: the message must fit a frame."""
_encode = msgspec.msgpack.Encoder().encode


class Packing(Active):
    """Forwards the maximal subscriptions, several in one message."""

    name = "packing"
    packs = True


def packed(messages: Iterable[Message]) -> Iterator[Message]:
    """The messages in their order, with consecutive subscriptions packed into one."""
    pack: list[Subscribe] = []
    size = 0
    for message in messages:
        if not isinstance(message, Subscribe):
            yield from _closed(pack)
            pack, size = [], 0
            yield message
            continue
        size += len(_encode(message))
        if len(pack) == PACK_MAX or size > PACK_BYTES_MAX:
            yield from _closed(pack)
            pack, size = [], len(_encode(message))
        pack.append(message)
    yield from _closed(pack)


def _closed(pack: list[Subscribe]) -> Iterator[Message]:
    if len(pack) > 1:
        yield SubscribeMany(tuple(pack))
    else:
        yield from pack
