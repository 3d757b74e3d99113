"""The bracket style of PADRES: `[class,=,'STOCK'],[price,>,18]`, a conjunction of triples."""

from __future__ import annotations

from typing import Final

from byway.model.constraints import ANY_STRING, EXISTS, string_pattern
from byway.model.errors import (
    FilterError,
    FilterLimitError,
    FilterSyntaxError,
    InvalidValueError,
    shortened,
)
from byway.model.filters import FALSE, Filter, conjoin
from byway.model.predicates import Alternatives, compare, single
from byway.model.scanning import BARE_WORD, BLANK, SCANNER, TOKENS_MAX, number_of, unreadable
from byway.model.values import NAME_LENGTH_MAX, Value

_BRACKET_OPERATORS: Final = {
    "=": "=", "==": "=", "eq": "=", "str-eq": "=",
    "<>": "<>", "!=": "<>", "neq": "<>", "str-neq": "<>",
    "<": "<", "<=": "<=", ">": ">", ">=": ">=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "str-lt": "<", "str-le": "<=", "str-gt": ">", "str-ge": ">=",
    "str-prefix": "prefix", "str-suffix": "suffix", "str-postfix": "suffix",
    "str-contains": "contains", "ispresent": "exists",
}  # fmt: skip


def parse_brackets(text: str) -> Filter:
    """`[class,=,'STOCK'],[price,>,18]`: a conjunction of (name, operator, value) triples."""
    terms: list[Alternatives] = []
    position = 0
    while True:
        position = _expect(text, position, "[", "[")
        start = BLANK.match(text, position).end()  # type: ignore[union-attr]
        name, position = _bracket_word(text, position, "an attribute name")
        if not 0 < len(str(name)) <= NAME_LENGTH_MAX:
            raise FilterSyntaxError(text, start, f"a name of 1 to {NAME_LENGTH_MAX} characters")
        position = _expect(text, position, ",", "a comma")
        start = BLANK.match(text, position).end()  # type: ignore[union-attr]
        word, position = _bracket_word(text, position, "an operator")
        operator = _BRACKET_OPERATORS.get(str(word).lower())
        if operator is None or not isinstance(word, str):
            choices = "=, <>, <, <=, >, >=, str-prefix, str-suffix, str-contains or isPresent"
            raise FilterSyntaxError(text, start, choices, shortened(repr(word)))
        value: Value = ""
        position = BLANK.match(text, position).end()  # type: ignore[union-attr]
        if operator != "exists" or text[position : position + 1] == ",":
            position = _expect(text, position, ",", "a comma")
            start = BLANK.match(text, position).end()  # type: ignore[union-attr]
            value, position = _bracket_word(text, position, "a value", literal=True)
            if word.lower().startswith("str-") and not isinstance(value, str):
                raise FilterSyntaxError(text, start, f"a quoted string after {word}")
        position = _expect(text, position, "]", "]")
        terms.append(_bracket_term(text, start, str(name), operator, value))
        if len(terms) * 7 > TOKENS_MAX:
            raise FilterLimitError("tokens", TOKENS_MAX)
        position = BLANK.match(text, position).end()  # type: ignore[union-attr]
        if position == len(text):
            joined = conjoin([term[0] for term in terms]) if all(terms) else None
            return FALSE if joined is None else Filter.where(joined)
        position = _expect(text, position, ",", "a comma or the end")


def _bracket_term(text: str, start: int, name: str, operator: str, value: Value) -> Alternatives:
    if operator == "exists":
        return [{name: EXISTS}]
    try:
        if operator not in ("prefix", "suffix", "contains"):
            return compare(name, operator, value, False)
        assert isinstance(value, str)
        if not value:
            return [{name: ANY_STRING}]
        if operator == "contains":
            return single(name, string_pattern(contains=(value,)))
        if operator == "prefix":
            return single(name, string_pattern(prefix=value))
        return single(name, string_pattern(suffix=value))
    except FilterLimitError:
        raise
    except (FilterError, InvalidValueError) as error:
        raise FilterSyntaxError(text, start, str(error)) from None


def _expect(text: str, position: int, char: str, expected: str) -> int:
    position = BLANK.match(text, position).end()  # type: ignore[union-attr]
    if text[position : position + 1] != char:
        found = repr(text[position]) if position < len(text) else "the end"
        raise FilterSyntaxError(text, position, expected, found)
    return position + 1


def _bracket_word(
    text: str, position: int, expected: str, literal: bool = False
) -> tuple[Value, int]:
    """A quoted string, a number or boolean (if `literal`), or a bare word."""
    position = BLANK.match(text, position).end()  # type: ignore[union-attr]
    found = SCANNER.match(text, position)
    if found is not None and found.lastgroup in ("string", "quoted"):
        raw = found[found.lastgroup]
        return raw[1:-1].replace(raw[0] * 2, raw[0]), found.end()
    if text[position : position + 1] in ("'", '"'):
        raise unreadable(text, position)
    word = BARE_WORD.match(text, position)
    if word is None:
        shown = repr(text[position]) if position < len(text) else "the end"
        raise FilterSyntaxError(text, position, expected, shown)
    raw = word[0]
    if literal:
        if found is not None and found.lastgroup == "number" and found.end() == word.end():
            return number_of(text, raw, position), word.end()
        if raw.lower() in ("true", "false"):
            return raw.lower() == "true", word.end()
        if raw.upper() in ("INFINITY", "-INFINITY"):
            return float(raw), word.end()
    return raw, word.end()
