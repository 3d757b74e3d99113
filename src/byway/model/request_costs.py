"""The estimated cost of client requests: how much of a turn, or of a check, each one takes."""

from __future__ import annotations

from typing import Final

import msgspec

from byway.model.messages import (
    AdvertiseRequest,
    PublishRequest,
    Request,
    SubscribeRequest,
    UnsubscribeRequest,
)

BODY_SHIFT: Final = 10
"""A publication whose body is shorter than 2 to the power of this costs 1."""
_FILTER_SHIFT: Final = 8

_encode = msgspec.msgpack.Encoder().encode


def cost_of(request: Request) -> int:
    """The estimated cost of a request; 1 is a small publication or subscription. Each alternative
    of a filter is compared with each other one, so the cost grows with their number and length."""
    if isinstance(request, SubscribeRequest | AdvertiseRequest):
        alternatives = len(request.filter.conjunctions)
        return 1 + (len(_encode(request.filter)) * alternatives >> _FILTER_SHIFT)
    if isinstance(request, UnsubscribeRequest):
        return 1 + len(request.names)
    if isinstance(request, PublishRequest):
        return 1 + (len(request.body) >> BODY_SHIFT)
    return 1
