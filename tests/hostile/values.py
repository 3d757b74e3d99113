"""What hostile fields hold: numbers at every bound, texts, filters and bodies, valid and not.

Pure tables; nothing is drawn here. Values are plain objects that msgpack can carry, so that a frame
can be wrong in every way that bytes can be.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from byway.model import ANY, FALSE, TRUE, Filter, parse
from byway.model.constraints import (
    PARTS_MAX,
    SET_SIZE_MAX,
    Constraint,
    NumberRange,
    NumberSet,
    StringPattern,
    one_of,
    string_pattern,
)
from byway.model.filters import ALTERNATIVES_MAX, TERMS_MAX, Conjunction
from byway.model.messages import Body
from byway.model.values import ATTRIBUTES_MAX, STRING_LENGTH_MAX
from byway.wire.codec import BODY_BYTES_MAX, NAME_LENGTH_MAX

encode = msgspec.msgpack.encode

INTEGERS = (
    -(2**63), -(2**31) - 1, -1, 0, 1, 255, 2**16, 2**30, 2**30 + 1, 2**31 - 1, 2**31, 2**32 - 1,
    2**32, 2**53 - 1, 2**53, 2**53 + 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1,
)  # fmt: skip
TEXTS = (
    "", "\0", " ", "'", "é" * 128, "\U0001d11e", "\ufeff", "a.b", "../../x", "%s%n", "0",
    "x" * (NAME_LENGTH_MAX - 1), "x" * NAME_LENGTH_MAX, "x" * (NAME_LENGTH_MAX + 1),
    "x" * (STRING_LENGTH_MAX + 1),
)  # fmt: skip


def _deep(levels: int, opening: bytes = b"\x91") -> msgspec.Raw:
    return msgspec.Raw(opening * levels + b"\xc0")


ANYTHING: tuple[Any, ...] = (
    None, True, False, -1, 2**64 - 1, 1.5, float("nan"), float("inf"), -0.0, "", "x", b"", b"\xc1",
    [], [[]], {}, {"a": 1}, {1: 2}, list(range(5_000)),
    msgspec.msgpack.Ext(1, b"x"), msgspec.msgpack.Ext(-1, b"\0" * 4), msgspec.msgpack.Ext(127, b""),
    _deep(100), _deep(3_000), _deep(100_000), _deep(3_000, b"\x81\xa1a"),
    msgspec.Raw(b"\xc1"),  # no type of msgpack
    msgspec.Raw(b"\xa2\xff\xfe"),  # no UTF-8
    msgspec.Raw(b"\xa3\xed\xa0\x80"),  # half of a surrogate pair
    msgspec.Raw(b"\xdd\xff\xff\xff\xff"), msgspec.Raw(b"\xdf\xff\xff\xff\xff"),
    msgspec.Raw(b"\xdb\xff\xff\xff\xff"), msgspec.Raw(b"\xc6\xff\xff\xff\xff"),
    msgspec.Raw(b"\xc9\xff\xff\xff\xff\x01"),  # lengths that lie
)  # fmt: skip


def plain(value: object) -> Any:
    """A value of byway as the lists, texts and numbers that travel."""
    return msgspec.msgpack.decode(encode(value))


FILTER_TEXTS = (
    "n >= 0", "kind = 'honest'", "kind = 'honest' AND n >= 0", "n < 0", "price > 18.5",
    "symbol = 'YHOO' AND price BETWEEN 18 AND 20", "s LIKE 'a%'", "s LIKE '%b'", "s LIKE '%c%'",
    "s NOT LIKE 'a%' AND s <> 'q'", "EXISTS(n)", "NOT EXISTS(n)", "n IN (1, 2, 3)", "flag = TRUE",
    "n = 1 OR n = 2.5 OR s = 'x'", "n > 9007199254740993", "n <= -9223372036854775808",
    "x < 5 OR y > 3 AND z = 'a' OR NOT EXISTS(w)", "price >= 1.5e300", "s >= 'a' AND s < 'b'",
)  # fmt: skip


@cache
def filters() -> tuple[Any, ...]:
    """Filters that are valid, most of them usual."""
    made = [parse(text) for text in FILTER_TEXTS]
    return tuple(plain(f) for f in (TRUE, FALSE, ANY, *made))


def filter_of(a: int, b: int) -> Any:
    """One of many small filters."""
    return plain(parse(f"v{a} BETWEEN {min(a, b)} AND {max(a, b)} AND s{b} = 't{a}'"))


@cache
def limit_filters() -> tuple[Any, ...]:
    """Filters at their bounds: many bytes, many alternatives, many parts."""
    words = [f"{i:04d}" for i in range(SET_SIZE_MAX)]
    numbers = Filter.where({"n": one_of(tuple(range(SET_SIZE_MAX)))})
    texts = Filter.where({"s": one_of(tuple(words))})
    terms = Filter.where({f"a{i:02d}": one_of((i,)) for i in range(TERMS_MAX)})
    either = Filter.of([{f"a{i:02d}": one_of((i,))} for i in range(ALTERNATIVES_MAX)])
    parts = Filter.where({"s": string_pattern(not_contains=tuple(words[:PARTS_MAX]))})
    long = Filter.where({"s": one_of(("x" * STRING_LENGTH_MAX,))})
    return tuple(plain(f) for f in (numbers, texts, terms, either, parts, long))


@cache
def wide_filter(texts: int, less: int = 0) -> Any:
    """A valid filter of so many texts of the largest size; the last one is a little shorter."""
    values = [f"{i:04d}".ljust(STRING_LENGTH_MAX, "x") for i in range(texts)]
    values[-1] = values[-1][: STRING_LENGTH_MAX - less]
    return plain(Filter.where({"s": one_of(tuple(values))}))


@cache
def slow_filter(kind: int, size: int = SET_SIZE_MAX) -> Any:
    """A filter that takes long to check or compare: alternatives that nearly cover each other."""
    alternatives = []
    for i in range(ALTERNATIVES_MAX):
        if kind == 0:
            wide: Constraint = NumberSet(tuple(range(1_000, 1_000 + size - i)))
        elif kind == 1:
            wide = NumberRange(excluded=tuple(range(1_000, 1_000 + size - i)))
        else:
            parts = tuple(sorted("ab" * (size // 32) + f"{k:02x}" for k in range(32 - i // 4)))
            wide = StringPattern(not_contains=parts)
        alternatives.append(Conjunction((("a", wide), ("z", NumberSet((i,))))))
    return plain(Filter(tuple(sorted(alternatives, key=encode))))


SLOW_KINDS = 3


@cache
def bodies() -> tuple[bytes, ...]:
    """What a publication may say, and what is no body at all; the first ones are valid."""
    valid = (
        Body({"n": 1, "kind": "honest"}),  # honest clients want this
        Body({"n": 1, "kind": "hostile"}),
        Body({"n": -5, "price": 19.5, "symbol": "YHOO", "flag": True}, b"data"),
        Body({"s": "abc", "x": 1, "y": 9, "z": "a"}),
        Body({}),
        Body({"n": 2**63 - 1, "m": -(2**63), "f": float("nan")}),
        Body({f"a{i:03d}": i for i in range(ATTRIBUTES_MAX)}),
    )
    wrong = (
        Body({f"a{i:03d}": i for i in range(ATTRIBUTES_MAX + 1)}),
        Body({"n": 1, "": 2}),
        Body({"x" * 256: 2}),
        Body({"s": "x" * (STRING_LENGTH_MAX + 1)}),
    )
    raw = (
        b"", b"\xc0", b"\xc1", b"\x90", b"\x92\x80", b"\x91\x81\xa1n\xcf" + b"\xff" * 8,
        b"\x91\x81\xa1n\xc0", b"\x91\x81\xa1n\x90", b"\x91\x81\x01\x01", b"\x91" * 2_000,
        b"\x91\x82\xa1n\x01\xa1n\x02", b"\x92\x81\xa1n\x01\xc6\xff\xff\xff\xff", b"not msgpack",
        b"\x91\x81\xa1n\xc7\x01\x01x",
    )  # fmt: skip
    return (*(encode(b) for b in valid), *(encode(b) for b in wrong), *raw)


VALID_BODIES = 7
"""So many of `bodies` are valid, from the first on."""


@cache
def large_bodies() -> tuple[bytes, ...]:
    """Bodies at the bound of their bytes: just within it, and just beyond."""
    over = len(encode(Body({"n": 1}, b"x" * 70_000))) - 70_000
    within = encode(Body({"n": 1}, b"x" * (BODY_BYTES_MAX - over)))
    beyond = encode(Body({"n": 1}, b"x" * (BODY_BYTES_MAX - over + 1)))
    return within, beyond
