"""The bounds on everything in a message.

Decoded messages are within these bounds, and so is what the core makes of them: names are forwarded
unchanged, numbers leave room to count up, and long lists are split or cut. So what one broker
accepts, every broker accepts. `messages` gives each field its bound; a test fails for a field
without one.
"""

from __future__ import annotations

from sys import float_info
from typing import Annotated, Final

from msgspec import Meta

NAME_LENGTH_MAX: Final = 256
"""Characters in the name of a broker, client, subscription or advertisement."""
OWNER_LENGTH_MAX: Final = NAME_LENGTH_MAX + 6
"""Characters in the owner of an entry: a merger's is `merge@` and the name of its broker."""
ADDRESS_LENGTH_MAX: Final = 270
"""Characters in the address of a broker: a host, brackets and a port."""
REASON_LENGTH_MAX: Final = 4_096
"""Characters in a reason; longer ones are cut."""
ROLE_LENGTH_MAX: Final = 16
IDS_MAX: Final = 1_024
"""Ids that brokers put into one message; more are sent in several."""
IDS_BYTES_MAX: Final = 524_288
"""Bytes of the ids in one message, with the same effect: `IDS_MAX` ids with the longest names fit
no frame."""
BUCKETS_MAX: Final = 64
"""Buckets of a table, and digests in one message."""
HINTS_MAX: Final = 256
"""Publishers in the hints of one unsubscription."""
SIMILARITIES_MAX: Final = 8
PATH_MAX: Final = 1_024
"""Brokers that a probe may pass; it is forwarded no further."""
DELTA_MAX: Final = 16
"""Hops that the neighbourhood of a broker may reach; brokers in the path of a subscription."""
RECORDS_MAX: Final = 1_024
"""Records of brokers that one neighbour tells at a time; of more, the nearest (then the first by
name)."""
NAMED_MAX: Final = 8_192
"""Neighbours that these records name in all, with the same effect."""
RECORDS_BYTES_MAX: Final = 524_288
"""Bytes of text in one update of records; more are told in several. A larger record has one of its
own."""
NEIGHBOURS_MAX: Final = 1_024
"""Neighbours, or brokers out of reach, named in one message."""
LOADS_MAX: Final = 4_097
"""Brokers in one load report: the sender and those behind it."""
LOADS_BYTES_MAX: Final = 1_048_576
"""Bytes of one load report; beyond, the farthest brokers are left out."""
NAMES_MAX: Final = 65_536
"""Names in one request of a client."""
DELIVERED_NAMES_MAX: Final = 512
"""Subscriptions named in one delivery; a publication that matches more of one client is delivered
several times, each time for others of them."""
RUNS_MAX: Final = 512
"""Runs of confirmed numbers in one frame; more are told in further ones."""
MESSAGES_MAX: Final = 65_536
"""Messages, requests or replies in one frame."""
PUBLISHER_WINDOW: Final = 4_096
"""Unconfirmed publications of one publisher, unless a network is configured otherwise."""
CLIENT_WINDOW_MAX: Final = 1_048_576
"""Sequences of one publisher that a client tells apart, where order is not kept."""
BODY_BYTES_MAX: Final = 1_048_576
"""Bytes in the body of a publication."""
KEEPALIVE_MS_MAX: Final = 3_600_000
"""The longest keep-alive interval that a peer may ask for; more counts as this."""

INT64_MAX: Final = 2**63 - 1

Int64 = Annotated[int, Meta(ge=0, le=INT64_MAX)]
"""Incarnations, sequences, numbers and times. What counts them up begins far below: at 0, or at the
time in microseconds. For what begins where a peer says, see `LinkEnd.meet`."""
Number = Annotated[int, Meta(ge=1, le=INT64_MAX)]
"""As `Int64`, without 0."""
Int31 = Annotated[int, Meta(ge=0, le=2**30)]
"""Hops and counts in headers. The core stops counting before they are full."""
Integer = Annotated[int, Meta(ge=-(2**63), le=INT64_MAX)]
Digest = Annotated[int, Meta(ge=0, extra={"bits": 64})]
"""A word of 64 bits; no encoding has a larger integer."""
Delta = Annotated[int, Meta(ge=1, le=DELTA_MAX)]
"""Hops of the tree within a neighbourhood."""
Bucket = Annotated[int, Meta(ge=0, le=BUCKETS_MAX - 1)]

Share = Annotated[float, Meta(ge=0, le=1)]
Rate = Annotated[float, Meta(ge=0, le=float_info.max)]
"""Finite: neither bound lets NaN or an infinity through."""

Name = Annotated[str, Meta(min_length=1, max_length=NAME_LENGTH_MAX)]
OwnerName = Annotated[str, Meta(min_length=1, max_length=OWNER_LENGTH_MAX)]
Subject = Annotated[str, Meta(max_length=NAME_LENGTH_MAX)]
AddressText = Annotated[str, Meta(max_length=ADDRESS_LENGTH_MAX)]
Reason = Annotated[str, Meta(max_length=REASON_LENGTH_MAX)]
Role = Annotated[str, Meta(max_length=ROLE_LENGTH_MAX)]
BodyBytes = Annotated[bytes, Meta(max_length=BODY_BYTES_MAX)]
