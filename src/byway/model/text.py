"""Filter texts: SQL-92 selectors and PADRES brackets in, canonical selector text out.

One pass of a regular-expression scanner, then one loop with an explicit stack: time grows with the
length of the text, never faster, and nothing recurses. Negation is pushed down while reading (a
group under NOT swaps AND and OR), so what comes out of a group is already a disjunction.

This file knows the two grammars and nothing of how filters relate or are indexed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import msgspec

from byway.model.constraints import (
    ABSENT,
    ANY_STRING,
    EXISTS,
    Absent,
    BoolSet,
    Constraint,
    Exists,
    NumberRange,
    NumberSet,
    StringPattern,
    StringSet,
    none_of,
    number_range,
    one_of,
    string_pattern,
)
from byway.model.errors import (
    FilterError,
    FilterLimitError,
    FilterSyntaxError,
    InvalidValueError,
    shortened,
)
from byway.model.filters import (
    ANY,
    CANDIDATES_MAX,
    FALSE,
    Conjunction,
    Filter,
    conjoin,
)
from byway.model.values import (
    INFINITY,
    INT_MAX,
    INT_MIN,
    NAME_LENGTH_MAX,
    Kind,
    Number,
    Value,
    kind_of,
)

TEXT_LENGTH_MAX: Final = 16_384
TOKENS_MAX: Final = 4_096
NESTING_MAX: Final = 64
_SURELY_SHORT: Final = TEXT_LENGTH_MAX // 8  # no alternative grows eightfold by being normalised
PRODUCTS_MAX: Final = 1_024  # alternatives made, in all, by multiplying out AND over OR

Alternatives = list[dict[str, Constraint]]

KEYWORDS: Final = frozenset(
    "AND OR NOT IN LIKE BETWEEN IS NULL EXISTS TRUE FALSE ESCAPE ANY INFINITY".split()
)

# Each alternative starts with a different character or fails on its first one, and quoted text is
# matched possessively (*+): no backtracking.
_SCANNER: Final = re.compile(
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
_BLANK: Final = re.compile(r"[ \t\r\n\f\v]*")
_BARE_NAME: Final = re.compile(r"[^\W\d][\w.$%]*\Z")
_BARE_WORD: Final = re.compile(r"[^\s,\[\]'\"]+")


class Token(msgspec.Struct, frozen=True, gc=False):
    """One token: what it is, its text or value, and where it starts."""

    kind: str  # name, value, operator, mark, a keyword in capitals, or "end"
    value: str | Value
    position: int


def parse(text: str) -> Filter:
    """The filter that `text` says: a selector such as `price > 18`, or PADRES brackets.

    Raises `FilterSyntaxError` (with a position) or `FilterLimitError`.
    """
    if len(text) > TEXT_LENGTH_MAX:
        raise FilterLimitError("characters", TEXT_LENGTH_MAX, len(text))
    if not text.isascii():
        _check_unicode(text)
    if text.lstrip().startswith("["):
        parsed = _parse_brackets(text)
    else:
        tokens = _scan(text)
        if len(tokens) == 2 and tokens[0].kind == "ANY":
            return ANY
        parsed = _Reader(text, tokens).filter()
    if len(parsed.conjunctions) * len(text) > _SURELY_SHORT:
        _check_normal_form(parsed)
    return parsed


def _check_normal_form(f: Filter) -> None:
    """Refuse what multiplying out made too long to be read back."""
    text = filter_text(f)
    if len(text) > TEXT_LENGTH_MAX:
        raise FilterLimitError("characters in its normal form", TEXT_LENGTH_MAX, len(text))
    _scan(text)


# --- scanning --------------------------------------------------------------------------------


def _check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise FilterSyntaxError(
            text, error.start, "valid Unicode text", f"the lone surrogate {text[error.start]!a}"
        ) from None


def _scan(text: str) -> list[Token]:
    tokens: list[Token] = []
    position, end = 0, len(text)
    scan = _SCANNER.match
    while True:
        found = scan(text, position)
        if found is None:
            position = _BLANK.match(text, position).end()  # type: ignore[union-attr]
            if position == end:
                tokens.append(Token("end", "", end))
                return tokens
            raise _unreadable(text, position)
        kind = found.lastgroup
        assert kind is not None
        raw = found[found.lastindex]  # type: ignore[index]
        position = found.end()
        start = position - len(raw)
        if kind == "name":
            kind = _keyword(raw)
            tokens.append(Token(kind, raw if kind != "value" else INFINITY, start))
        elif kind == "string":
            tokens.append(Token("value", raw[1:-1].replace("''", "'"), start))
        elif kind == "number":
            tokens.append(Token("value", _number(text, raw, start), start))
        elif kind == "quoted":
            tokens.append(Token("name", raw[1:-1].replace('""', '"'), start))
        else:
            tokens.append(Token(kind, raw, start))
        if len(tokens) > TOKENS_MAX:
            raise FilterLimitError("tokens", TOKENS_MAX)


@lru_cache(maxsize=4_096)
def _keyword(raw: str) -> str:
    """The kind of token a bare word is: a keyword in capitals, the value INFINITY, or a name."""
    upper = raw.upper()
    if upper not in KEYWORDS or not raw.isascii():
        return "name"
    return "value" if upper == "INFINITY" else upper


def _number(text: str, raw: str, start: int) -> Number:
    if not raw.lstrip("+-").isdigit():
        number = float(raw)
        if number in (INFINITY, -INFINITY):
            raise FilterSyntaxError(text, start, "a number below 1.8e308 or INFINITY", raw[:40])
        return number
    if len(raw) > 20 or not INT_MIN <= int(raw) <= INT_MAX:
        raise FilterSyntaxError(text, start, "an integer of at most 64 bits", raw[:40])
    return int(raw)


def _unreadable(text: str, position: int) -> FilterSyntaxError:
    char = text[position]
    if char in "'\"":
        what = "string" if char == "'" else "quoted name"
        return FilterSyntaxError(text, position, f"a closing {char} for this {what}", "the end")
    if char.isdigit() or char == ".":
        return FilterSyntaxError(text, position, "a number such as 18, 18.5 or 1e6")
    return FilterSyntaxError(
        text, position, "a name, a value, an operator or a parenthesis", repr(char)
    )


# --- selectors -------------------------------------------------------------------------------


class _Group:
    """What stands between two parentheses: alternatives of factors, and whether NOT is in force."""

    __slots__ = ("factors", "groups", "negated", "position")

    def __init__(self, negated: bool, position: int) -> None:
        self.negated = negated
        self.position = position
        self.groups: list[list[Alternatives]] = []
        self.factors: list[Alternatives] = []


class _Reader:
    """One parse: a cursor over tokens and a stack of open groups."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.at = 0
        self.products = 0

    def filter(self) -> Filter:
        stack: list[_Group] = []
        group = _Group(False, 0)
        negated = False
        tokens = self.tokens
        while True:
            # --- before an operand
            token = tokens[self.at]
            if token.kind == "NOT":
                negated = not negated
                self.at += 1
                continue
            if token.kind == "mark" and token.value == "(":
                if len(stack) == NESTING_MAX:
                    raise FilterLimitError("nested parentheses", NESTING_MAX)
                stack.append(group)
                group = _Group(group.negated != negated, token.position)
                negated = False
                self.at += 1
                continue
            group.factors.append(self.predicate(group.negated != negated))
            negated = False
            # --- after an operand
            while True:
                token = tokens[self.at]
                self.at += 1
                if token.kind == "AND":
                    break
                if token.kind == "OR":
                    group.groups.append(group.factors)
                    group.factors = []
                    break
                if token.kind == "mark" and token.value == ")" and stack:
                    closed = self.close(group)
                    group = stack.pop()
                    group.factors.append(closed)
                    continue
                if token.kind == "end" and not stack:
                    return Filter.of(self.close(group))
                if token.kind == "end":
                    raise FilterSyntaxError(
                        self.text, group.position, "a closing ) for this parenthesis", "the end"
                    )
                expected = "AND, OR or )" if stack else "AND, OR or the end"
                raise self.unexpected(token, expected)

    def close(self, group: _Group) -> Alternatives:
        """The disjunction a finished group stands for."""
        group.groups.append(group.factors)
        if group.negated:
            return self.both([_either(factors) for factors in group.groups])
        return _either([self.both(factors) for factors in group.groups])

    def both(self, factors: list[Alternatives]) -> Alternatives:
        """AND of disjunctions. All single factors join first; only real choices multiply."""
        if len(factors) == 1:
            return factors[0]
        factors = [_reduced(factor) if len(factor) > 1 else factor for factor in factors]
        if not all(factors):
            return []
        single = conjoin([factor[0] for factor in factors if len(factor) == 1])
        if single is None:
            return []
        product = [single]
        for factor in factors:
            if len(factor) > 1:
                product = self.multiply(product, factor)
        return product

    def multiply(self, product: Alternatives, factor: Alternatives) -> Alternatives:
        """(a OR b) AND (c OR d), written out."""
        if len(product) * len(factor) > CANDIDATES_MAX:
            product = _reduced(product)
        size = len(product) * len(factor)
        self.products += size
        if size > CANDIDATES_MAX or self.products > PRODUCTS_MAX:
            raise FilterLimitError(
                "alternatives when AND is multiplied out over OR", CANDIDATES_MAX
            )
        return [both for a in product for b in factor if (both := conjoin((a, b))) is not None]

    def unexpected(self, token: Token, expected: str) -> FilterSyntaxError:
        found = "the end" if token.kind == "end" else shortened(repr(token.value))
        return FilterSyntaxError(self.text, token.position, expected, found)

    # --- predicates

    def predicate(self, negated: bool) -> Alternatives:
        """One comparison or constant at the cursor, as alternatives."""
        token = self.tokens[self.at]
        self.at += 1
        if token.kind == "name":
            name = self.check_name(token)
            follow = self.tokens[self.at]
            self.at += 1
            if follow.kind == "operator":
                operator = str(follow.value)
                value = self.value()
                return self.guard(follow, lambda: _compare(name, operator, value, negated))
            return self.worded(name, follow, negated)
        if token.kind in ("TRUE", "FALSE") and self.tokens[self.at].kind != "operator":
            return [{}] if (token.kind == "TRUE") != negated else []
        if token.kind == "EXISTS":
            name_token = self.take_name()
            return [{name_token: ABSENT if negated else EXISTS}]
        if token.kind in ("value", "TRUE", "FALSE") or token.value in ("+", "-"):
            self.at -= 1
            return self.flipped(negated)
        if token.kind == "ANY":
            raise self.unexpected(token, "a predicate (ANY stands alone, as an advertisement)")
        raise self.unexpected(token, "an attribute name, NOT, TRUE, FALSE, EXISTS or (")

    def flipped(self, negated: bool) -> Alternatives:
        """`18 < price`: the value stands first."""
        value = self.value()
        token = self.tokens[self.at]
        if token.kind != "operator":
            raise self.unexpected(token, "a comparison operator")
        self.at += 1
        operator = _MIRROR[str(token.value)]
        name = self.take_name()
        return self.guard(token, lambda: _compare(name, operator, value, negated))

    def worded(self, name: str, token: Token, negated: bool) -> Alternatives:
        """The predicates spelled with words: IS, IN, LIKE, BETWEEN, EXISTS, each also after NOT."""
        kind = token.kind
        if kind == "NOT":
            negated = not negated
            token = self.tokens[self.at]
            kind = token.kind
            self.at += 1
            if kind not in ("IN", "LIKE", "BETWEEN"):
                raise self.unexpected(token, "IN, LIKE or BETWEEN")
        if kind == "IN":
            values = self.value_list()
            return self.guard(token, lambda: _membership(name, values, negated))
        if kind == "LIKE":
            return self.like(name, negated)
        if kind == "BETWEEN":
            low = self.value()
            self.take("AND")
            high = self.value()
            return self.guard(token, lambda: _between(name, low, high, negated))
        if kind == "IS":
            wants_null = not self.skip("NOT")
            null = self.tokens[self.at]
            if null.kind not in ("NULL", "EXISTS"):
                raise self.unexpected(null, "NULL or EXISTS")
            self.at += 1
            absent = (wants_null == (null.kind == "NULL")) != negated
            return [{name: ABSENT if absent else EXISTS}]
        if kind == "EXISTS":
            return [{name: ABSENT if negated else EXISTS}]
        raise self.unexpected(
            token, "a comparison operator, IN, LIKE, BETWEEN, IS or NOT after the attribute name"
        )

    def like(self, name: str, negated: bool) -> Alternatives:
        token = self.tokens[self.at]
        if token.kind != "value" or not isinstance(token.value, str):
            raise self.unexpected(token, "a quoted LIKE pattern")
        self.at += 1
        pattern, escape = token.value, None
        if self.skip("ESCAPE"):
            mark = self.tokens[self.at]
            if mark.kind != "value" or not isinstance(mark.value, str) or len(mark.value) != 1:
                raise self.unexpected(mark, "a quoted single character after ESCAPE")
            self.at += 1
            escape = mark.value
        return self.guard(token, lambda: _like(name, pattern, escape, negated))

    def guard(self, token: Token, make: Callable[[], Alternatives]) -> Alternatives:
        """Turn what is wrong with a value into an error at its place."""
        try:
            return make()
        except FilterLimitError:
            raise
        except (InvalidValueError, FilterError) as error:
            raise FilterSyntaxError(self.text, token.position, str(error)) from None

    # --- small pieces

    def value(self) -> Value:
        token = self.tokens[self.at]
        self.at += 1
        if token.kind == "value":
            return token.value
        if token.kind in ("TRUE", "FALSE"):
            return token.kind == "TRUE"
        if token.kind == "mark" and token.value in ("+", "-"):
            number = self.tokens[self.at]
            signed = self.text[number.position : number.position + 1] in ("+", "-")
            if number.kind == "value" and not isinstance(number.value, str) and not signed:
                self.at += 1
                return -number.value if token.value == "-" else number.value
        raise self.unexpected(token, "a number, a quoted string, TRUE or FALSE")

    def value_list(self) -> list[Value]:
        self.take("(")
        values = [self.value()]
        while not self.skip(")"):
            self.take(",", "a comma or )")
            values.append(self.value())
        return values

    def skip(self, what: str) -> bool:
        token = self.tokens[self.at]
        if token.kind == what or (token.kind == "mark" and token.value == what):
            self.at += 1
            return True
        return False

    def take(self, what: str, expected: str | None = None) -> None:
        if not self.skip(what):
            raise self.unexpected(self.tokens[self.at], expected or what)

    def take_name(self) -> str:
        bracket = self.skip("(")
        token = self.tokens[self.at]
        if token.kind != "name":
            raise self.unexpected(token, "an attribute name")
        self.at += 1
        if bracket:
            self.take(")")
        return self.check_name(token)

    def check_name(self, token: Token) -> str:
        name = str(token.value)
        if not 0 < len(name) <= NAME_LENGTH_MAX:
            raise FilterSyntaxError(
                self.text, token.position, f"a name of 1 to {NAME_LENGTH_MAX} characters"
            )
        return name


def _either(parts: list[Alternatives]) -> Alternatives:
    """OR of disjunctions; what covers what is left for later, unless they become too many."""
    if len(parts) == 1:
        return parts[0]
    joined = [alternative for part in parts for alternative in part]
    return joined if len(joined) <= CANDIDATES_MAX else _reduced(joined)


def _reduced(alternatives: Alternatives) -> Alternatives:
    """Within the bound, duplicates and covered alternatives gone."""
    return [dict(c.terms) for c in Filter.of(alternatives).conjunctions]


# --- what a predicate means ------------------------------------------------------------------

_MIRROR: Final = {"=": "=", "<>": "<>", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEGATION: Final = {"=": "<>", "<>": "=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def _alternative(name: str, constraint: Constraint | None) -> Alternatives:
    return [] if constraint is None else [{name: constraint}]


def _compare(name: str, operator: str, value: Value, negated: bool) -> Alternatives:
    if negated:
        operator = _NEGATION[operator]
    if operator == "=":
        return [{name: one_of((value,))}]
    if operator in ("<>", "!="):
        return _alternative(name, none_of((value,)))
    kind = kind_of(value)
    if kind is Kind.STRING:
        text = str(value)
        if operator in ("<", "<="):
            return _alternative(name, string_pattern(high=text, high_open=operator == "<"))
        return _alternative(name, string_pattern(low=text, low_open=operator == ">"))
    if kind is not Kind.NUMBER:
        raise FilterError("= or <>: booleans have no order")
    number: Number = value  # type: ignore[assignment]
    if operator in ("<", "<="):
        return _alternative(name, number_range(high=number, high_open=operator == "<"))
    return _alternative(name, number_range(low=number, low_open=operator == ">"))


def _membership(name: str, values: list[Value], negated: bool) -> Alternatives:
    kinds: dict[Kind, list[Value]] = {}
    for value in values:
        kinds.setdefault(kind_of(value), []).append(value)
    if not negated:
        return [{name: one_of(tuple(group))} for group in kinds.values()]
    if len(kinds) > 1:
        return []  # no value is of two kinds
    return _alternative(name, none_of(tuple(values)))


def _between(name: str, low: Value, high: Value, negated: bool) -> Alternatives:
    if kind_of(low) is not kind_of(high):
        raise FilterError("two bounds of one kind for BETWEEN")
    if negated:
        return _compare(name, "<", low, False) + _compare(name, ">", high, False)
    if isinstance(low, str) and isinstance(high, str):
        return _alternative(name, string_pattern(low=low, high=high))
    if isinstance(low, (bool, str)) or isinstance(high, (bool, str)):
        raise FilterError("numbers or strings for BETWEEN: booleans have no order")
    return _alternative(name, number_range(low=low, high=high))


def _like(name: str, pattern: str, escape: str | None, negated: bool) -> Alternatives:
    prefix, suffix, part, exact = _reduce_like(pattern, escape)
    if exact is not None:
        return _compare(name, "=", exact, negated)
    if part is not None:
        if negated:
            return _alternative(name, string_pattern(not_contains=(part,)))
        return _alternative(name, string_pattern(contains=(part,) if part else ()))
    if not negated:
        return _alternative(name, string_pattern(prefix=prefix, suffix=suffix))
    return (_alternative(name, string_pattern(not_prefix=(prefix,))) if prefix else []) + (
        _alternative(name, string_pattern(not_suffix=(suffix,))) if suffix else []
    )


def _reduce_like(pattern: str, escape: str | None) -> tuple[str, str, str | None, str | None]:
    """(prefix, suffix, part, exact) of a LIKE pattern; exactly one reading is filled."""
    pieces: list[list[str]] = [[]]
    chars = iter(pattern)
    for char in chars:
        if char == escape:
            follow = next(chars, None)
            if follow is None or follow not in ("%", "_", escape):
                raise FilterError("%, _ or the escape character after the escape character")
            pieces[-1].append(follow)
        elif char == "%":
            if pieces[-1] or len(pieces) == 1:
                pieces.append([])
        elif char == "_":
            raise FilterError("a LIKE pattern without _ (only % is a wildcard here)")
        else:
            pieces[-1].append(char)
    texts = ["".join(piece) for piece in pieces]
    if len(texts) == 1:
        return "", "", None, texts[0]
    if len(texts) == 2:
        prefix, suffix = texts
        if prefix and suffix and _can_overlap(prefix, suffix):
            raise FilterError(
                f"a LIKE pattern that is a prefix, a suffix or a part "
                f"({shortened(repr(prefix))} and {shortened(repr(suffix))} could share characters)"
            )
        return prefix, suffix, None, None
    if len(texts) == 3 and not texts[0] and not texts[2]:
        return "", "", texts[1], None
    raise FilterError("a LIKE pattern of the form 'a%', '%a', '%a%' or 'a%b'")


def _can_overlap(prefix: str, suffix: str) -> bool:
    """Whether some string shorter than both together starts with one and ends with the other.

    True iff a non-empty end of `prefix` is a start of `suffix` (the failure function of
    suffix + prefix, linear), or one contains the other at its edge, which is the same test.
    """
    joined = [*suffix, None, *prefix]
    failure = [0] * len(joined)
    length = 0
    for i in range(1, len(joined)):
        while length and joined[i] != joined[length]:
            length = failure[length - 1]
        if joined[i] == joined[length]:
            length += 1
        failure[i] = length
    return failure[-1] > 0


# --- brackets --------------------------------------------------------------------------------

_BRACKET_OPERATORS: Final = {
    "=": "=", "==": "=", "eq": "=", "str-eq": "=",
    "<>": "<>", "!=": "<>", "neq": "<>", "str-neq": "<>",
    "<": "<", "<=": "<=", ">": ">", ">=": ">=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "str-lt": "<", "str-le": "<=", "str-gt": ">", "str-ge": ">=",
    "str-prefix": "prefix", "str-suffix": "suffix", "str-postfix": "suffix",
    "str-contains": "contains", "ispresent": "exists",
}  # fmt: skip


def _parse_brackets(text: str) -> Filter:
    """`[class,=,'STOCK'],[price,>,18]`: a conjunction of (name, operator, value) triples."""
    terms: list[Alternatives] = []
    position = 0
    while True:
        position = _expect(text, position, "[", "[")
        start = _BLANK.match(text, position).end()  # type: ignore[union-attr]
        name, position = _bracket_word(text, position, "an attribute name")
        if not 0 < len(str(name)) <= NAME_LENGTH_MAX:
            raise FilterSyntaxError(text, start, f"a name of 1 to {NAME_LENGTH_MAX} characters")
        position = _expect(text, position, ",", "a comma")
        start = _BLANK.match(text, position).end()  # type: ignore[union-attr]
        word, position = _bracket_word(text, position, "an operator")
        operator = _BRACKET_OPERATORS.get(str(word).lower())
        if operator is None or not isinstance(word, str):
            choices = "=, <>, <, <=, >, >=, str-prefix, str-suffix, str-contains or isPresent"
            raise FilterSyntaxError(text, start, choices, shortened(repr(word)))
        value: Value = ""
        position = _BLANK.match(text, position).end()  # type: ignore[union-attr]
        if operator != "exists" or text[position : position + 1] == ",":
            position = _expect(text, position, ",", "a comma")
            start = _BLANK.match(text, position).end()  # type: ignore[union-attr]
            value, position = _bracket_word(text, position, "a value", literal=True)
            if word.lower().startswith("str-") and not isinstance(value, str):
                raise FilterSyntaxError(text, start, f"a quoted string after {word}")
        position = _expect(text, position, "]", "]")
        terms.append(_bracket_term(text, start, str(name), operator, value))
        if len(terms) * 7 > TOKENS_MAX:
            raise FilterLimitError("tokens", TOKENS_MAX)
        position = _BLANK.match(text, position).end()  # type: ignore[union-attr]
        if position == len(text):
            joined = conjoin([term[0] for term in terms]) if all(terms) else None
            return FALSE if joined is None else Filter.where(joined)
        position = _expect(text, position, ",", "a comma or the end")


def _bracket_term(text: str, start: int, name: str, operator: str, value: Value) -> Alternatives:
    if operator == "exists":
        return [{name: EXISTS}]
    try:
        if operator not in ("prefix", "suffix", "contains"):
            return _compare(name, operator, value, False)
        assert isinstance(value, str)
        if not value:
            return [{name: ANY_STRING}]
        if operator == "contains":
            return _alternative(name, string_pattern(contains=(value,)))
        if operator == "prefix":
            return _alternative(name, string_pattern(prefix=value))
        return _alternative(name, string_pattern(suffix=value))
    except FilterLimitError:
        raise
    except (FilterError, InvalidValueError) as error:
        raise FilterSyntaxError(text, start, str(error)) from None


def _expect(text: str, position: int, char: str, expected: str) -> int:
    position = _BLANK.match(text, position).end()  # type: ignore[union-attr]
    if text[position : position + 1] != char:
        found = repr(text[position]) if position < len(text) else "the end"
        raise FilterSyntaxError(text, position, expected, found)
    return position + 1


def _bracket_word(
    text: str, position: int, expected: str, literal: bool = False
) -> tuple[Value, int]:
    """A quoted string, a number or boolean (if `literal`), or a bare word."""
    position = _BLANK.match(text, position).end()  # type: ignore[union-attr]
    found = _SCANNER.match(text, position)
    if found is not None and found.lastgroup in ("string", "quoted"):
        raw = found[found.lastgroup]
        return raw[1:-1].replace(raw[0] * 2, raw[0]), found.end()
    if text[position : position + 1] in ("'", '"'):
        raise _unreadable(text, position)
    word = _BARE_WORD.match(text, position)
    if word is None:
        shown = repr(text[position]) if position < len(text) else "the end"
        raise FilterSyntaxError(text, position, expected, shown)
    raw = word[0]
    if literal:
        if found is not None and found.lastgroup == "number" and found.end() == word.end():
            return _number(text, raw, position), word.end()
        if raw.lower() in ("true", "false"):
            return raw.lower() == "true", word.end()
        if raw.upper() in ("INFINITY", "-INFINITY"):
            return float(raw), word.end()
    return raw, word.end()


# --- writing ---------------------------------------------------------------------------------


def filter_text(f: Filter) -> str:
    """Canonical selector text; `parse` gives an equal filter back."""
    if f.open:
        return "ANY"
    if not f.conjunctions:
        return "FALSE"
    return " OR ".join(conjunction_text(c) for c in f.conjunctions)


def conjunction_text(conjunction: Conjunction) -> str:
    """Canonical selector text of one alternative."""
    if not conjunction.terms:
        return "TRUE"
    return " AND ".join(
        predicate for name, constraint in conjunction.terms
        for predicate in predicate_texts(name, constraint)
    )  # fmt: skip


def predicate_texts(name: str, constraint: Constraint) -> list[str]:
    """The predicates, joined by AND, that say one constraint."""
    who = name_text(name)
    if isinstance(constraint, Exists):
        return [f"{who} IS NOT NULL"]
    if isinstance(constraint, Absent):
        return [f"{who} IS NULL"]
    if isinstance(constraint, (BoolSet, NumberSet, StringSet)):
        return [_set_text(who, "=", "IN", constraint.values)]
    if isinstance(constraint, NumberRange):
        return _range_texts(who, constraint)
    return _pattern_texts(who, constraint)


def _set_text(who: str, single: str, many: str, values: tuple[Value, ...]) -> str:
    if len(values) == 1:
        return f"{who} {single} {value_text(values[0])}"
    return f"{who} {many} ({', '.join(map(value_text, values))})"


def _range_texts(who: str, c: NumberRange) -> list[str]:
    texts = []
    unbounded_low = c.low == -INFINITY and not c.low_open
    unbounded_high = c.high == INFINITY and not c.high_open
    if not (unbounded_low or unbounded_high or c.low_open or c.high_open):
        texts.append(f"{who} BETWEEN {value_text(c.low)} AND {value_text(c.high)}")
    else:
        if not unbounded_low or (unbounded_high and not c.excluded):
            texts.append(f"{who} {'>' if c.low_open else '>='} {value_text(c.low)}")
        if not unbounded_high:
            texts.append(f"{who} {'<' if c.high_open else '<='} {value_text(c.high)}")
    if c.excluded:
        texts.append(_set_text(who, "<>", "NOT IN", c.excluded))
    return texts


def _pattern_texts(who: str, c: StringPattern) -> list[str]:
    texts = []
    if c.low or c.low_open:
        texts.append(f"{who} {'>' if c.low_open else '>='} {value_text(c.low)}")
    if c.high is not None:
        texts.append(f"{who} {'<' if c.high_open else '<='} {value_text(c.high)}")
    if c.prefix:
        texts.append(_like_text(who, "LIKE", c.prefix, "{}%"))
    if c.suffix:
        texts.append(_like_text(who, "LIKE", c.suffix, "%{}"))
    texts += [_like_text(who, "LIKE", part, "%{}%") for part in c.contains]
    texts += [_like_text(who, "NOT LIKE", part, "{}%") for part in c.not_prefix]
    texts += [_like_text(who, "NOT LIKE", part, "%{}") for part in c.not_suffix]
    texts += [_like_text(who, "NOT LIKE", part, "%{}%") for part in c.not_contains]
    if c.excluded:
        texts.append(_set_text(who, "<>", "NOT IN", c.excluded))
    return texts or [f"{who} LIKE '%'"]


def _like_text(who: str, operator: str, part: str, form: str) -> str:
    if any(char in part for char in "%_\\"):
        part = part.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        return f"{who} {operator} {value_text(form.format(part))} ESCAPE '\\'"
    return f"{who} {operator} {value_text(form.format(part))}"


def name_text(name: str) -> str:
    """A name as it stands in a filter text: bare where that reads back, else quoted."""
    if _BARE_NAME.match(name) and _keyword(name) == "name":
        return name
    return '"' + name.replace('"', '""') + '"'


def value_text(value: Value) -> str:
    """A value as it stands in a filter text."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if value in (INFINITY, -INFINITY):
        return "INFINITY" if value > 0 else "-INFINITY"
    return repr(value)
