"""Scanning: a filter text becomes tokens, in one pass that never backtracks.

It knows words, numbers, strings and marks, and nothing of what they say together.
"""

from __future__ import annotations

import re
from functools import lru_cache
from sys import intern
from typing import Final

import msgspec

from byway.model.errors import FilterLimitError, FilterSyntaxError
from byway.model.values import INFINITY, INT_MAX, INT_MIN, Number, Value

TEXT_LENGTH_MAX: Final = 16_384
"""Characters of a filter text."""
TOKENS_MAX: Final = 4_096
"""Tokens of a filter text."""

KEYWORDS: Final = frozenset(
    "AND OR NOT IN LIKE BETWEEN IS NULL EXISTS TRUE FALSE ESCAPE ANY INFINITY".split()
)


# Each alternative starts with a different character or fails on its first one, and quoted text is
# matched possessively (*+): no backtracking.
SCANNER: Final = re.compile(
    r"""[ \t\r\n\f\v]*(?:
      (?P<name>[^\W\d][\w.$%]*)
    | (?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    | (?P<string>'[^']*+(?:''[^']*+)*+')
    | (?P<quoted>"[^"]*+(?:""[^"]*+)*+")
    | (?P<operator><=|>=|<>|!=|[=<>])
    | (?P<mark>[(),\[\]+-])
    )""",
    re.VERBOSE,
)


BLANK: Final = re.compile(r"[ \t\r\n\f\v]*")


BARE_WORD: Final = re.compile(r"[^\s,\[\]'\"]+")


class Token(msgspec.Struct, frozen=True, gc=False):
    """One token: what it is, its text or value, and where it starts."""

    kind: str  # name, value, operator, mark, a keyword in capitals, or "end"
    value: str | Value
    position: int


def check_unicode(text: str) -> None:
    """Raise `FilterSyntaxError` at the first character that UTF-8 cannot carry."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise FilterSyntaxError(
            text, error.start, "valid Unicode text", f"the lone surrogate {text[error.start]!a}"
        ) from None


def scan_tokens(text: str) -> list[Token]:
    """The tokens of a text, the last of which is its end. Raises `FilterSyntaxError`, and
    `FilterLimitError` when they are too many."""
    tokens: list[Token] = []
    position, end = 0, len(text)
    scan = SCANNER.match
    while True:
        found = scan(text, position)
        if found is None:
            position = BLANK.match(text, position).end()  # type: ignore[union-attr]
            if position == end:
                tokens.append(Token("end", "", end))
                return tokens
            raise unreadable(text, position)
        kind = found.lastgroup
        assert kind is not None
        raw = found[found.lastindex]  # type: ignore[index]
        position = found.end()
        start = position - len(raw)
        if kind == "name":
            kind = keyword_of(raw)
            tokens.append(Token(kind, intern(raw) if kind != "value" else INFINITY, start))
        elif kind == "string":
            tokens.append(Token("value", raw[1:-1].replace("''", "'"), start))
        elif kind == "number":
            tokens.append(Token("value", number_of(text, raw, start), start))
        elif kind == "quoted":
            tokens.append(Token("name", raw[1:-1].replace('""', '"'), start))
        else:
            tokens.append(Token(kind, raw, start))
        if len(tokens) > TOKENS_MAX:
            raise FilterLimitError("tokens", TOKENS_MAX)


@lru_cache(maxsize=4_096)
def keyword_of(raw: str) -> str:
    """The kind of token a bare word is: a keyword in capitals, the value INFINITY, or a name."""
    upper = raw.upper()
    if upper not in KEYWORDS or not raw.isascii():
        return "name"
    return "value" if upper == "INFINITY" else upper


def number_of(text: str, raw: str, start: int) -> Number:
    """The number that a number token writes: a 64-bit integer or a finite float."""
    if not raw.lstrip("+-").isdigit():
        number = float(raw)
        if number in (INFINITY, -INFINITY):
            raise FilterSyntaxError(text, start, "a number below 1.8e308 or INFINITY", raw[:40])
        return number
    if len(raw) > 20 or not INT_MIN <= int(raw) <= INT_MAX:
        raise FilterSyntaxError(text, start, "an integer of at most 64 bits", raw[:40])
    return int(raw)


def unreadable(text: str, position: int) -> FilterSyntaxError:
    """The error for a place where no token begins."""
    char = text[position]
    if char in "'\"":
        what = "string" if char == "'" else "quoted name"
        return FilterSyntaxError(text, position, f"a closing {char} for this {what}", "the end")
    if char.isdigit() or char == ".":
        return FilterSyntaxError(text, position, "a number such as 18, 18.5 or 1e6")
    return FilterSyntaxError(
        text, position, "a name, a value, an operator or a parenthesis", repr(char)
    )
