"""Filter texts: SQL-92 selectors and PADRES brackets in, canonical selector text out.

One pass of a regular-expression scanner, then one loop with an explicit stack: time grows with the
length of the text, never faster, and nothing recurses. Negation is pushed down while reading (a
group under NOT swaps AND and OR), so what comes out of a group is already a disjunction.

This file knows the two grammars and nothing of how filters relate or are indexed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from byway.model.brackets import parse_brackets
from byway.model.constraints import ABSENT, EXISTS
from byway.model.errors import (
    FilterError,
    FilterLimitError,
    FilterSyntaxError,
    InvalidValueError,
    shortened,
)
from byway.model.filters import ANY, CANDIDATES_MAX, Filter, check_filter_bytes, conjoin
from byway.model.predicates import (
    MIRROR,
    Alternatives,
    between,
    compare,
    either,
    like_pattern,
    membership,
    reduced,
)
from byway.model.scanning import TEXT_LENGTH_MAX, Token, check_unicode, scan_tokens
from byway.model.values import NAME_LENGTH_MAX, Value
from byway.model.writing import filter_text

NESTING_MAX: Final = 64


PRODUCTS_MAX: Final = 1_024  # alternatives made, in all, by multiplying out AND over OR


_SURELY_SHORT: Final = TEXT_LENGTH_MAX // 8  # no alternative grows eightfold by being normalised


def parse(text: str) -> Filter:
    """The filter that `text` says: a selector such as `price > 18`, or PADRES brackets.

    Raises `FilterSyntaxError` (with a position) or `FilterLimitError`.
    """
    if len(text) > TEXT_LENGTH_MAX:
        raise FilterLimitError("characters", TEXT_LENGTH_MAX, len(text))
    if not text.isascii():
        check_unicode(text)
    if text.lstrip().startswith("["):
        parsed = parse_brackets(text)
    else:
        tokens = scan_tokens(text)
        if len(tokens) == 2 and tokens[0].kind == "ANY":
            return ANY
        parsed = _Reader(text, tokens).filter()
    if len(parsed.conjunctions) * len(text) > _SURELY_SHORT:
        _check_normal_form(parsed)
        check_filter_bytes(parsed)
    return parsed


def _check_normal_form(f: Filter) -> None:
    """Refuse what multiplying out made too long to be read back."""
    text = filter_text(f)
    if len(text) > TEXT_LENGTH_MAX:
        raise FilterLimitError("characters in its normal form", TEXT_LENGTH_MAX, len(text))
    scan_tokens(text)


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
        """The filter that all tokens together write."""
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
            return self.both([either(factors) for factors in group.groups])
        return either([self.both(factors) for factors in group.groups])

    def both(self, factors: list[Alternatives]) -> Alternatives:
        """AND of disjunctions. All single factors join first; only real choices multiply."""
        if len(factors) == 1:
            return factors[0]
        factors = [reduced(factor) if len(factor) > 1 else factor for factor in factors]
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
            product = reduced(product)
        size = len(product) * len(factor)
        self.products += size
        if size > CANDIDATES_MAX or self.products > PRODUCTS_MAX:
            raise FilterLimitError(
                "alternatives when AND is multiplied out over OR", CANDIDATES_MAX
            )
        return [both for a in product for b in factor if (both := conjoin((a, b))) is not None]

    def unexpected(self, token: Token, expected: str) -> FilterSyntaxError:
        """The error for a token that may not stand where it is."""
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
                return self.guard(follow, lambda: compare(name, operator, value, negated))
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
        operator = MIRROR[str(token.value)]
        name = self.take_name()
        return self.guard(token, lambda: compare(name, operator, value, negated))

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
            return self.guard(token, lambda: membership(name, values, negated))
        if kind == "LIKE":
            return self.like(name, negated)
        if kind == "BETWEEN":
            low = self.value()
            self.take("AND")
            high = self.value()
            return self.guard(token, lambda: between(name, low, high, negated))
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
        """A LIKE predicate, from its pattern on."""
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
        return self.guard(token, lambda: like_pattern(name, pattern, escape, negated))

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
        """The value at the cursor; a number may have a sign."""
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
        """The values in parentheses at the cursor, separated by commas."""
        self.take("(")
        values = [self.value()]
        while not self.skip(")"):
            self.take(",", "a comma or )")
            values.append(self.value())
        return values

    def skip(self, what: str) -> bool:
        """Whether a keyword or mark is at the cursor; if so, step over it."""
        token = self.tokens[self.at]
        if token.kind == what or (token.kind == "mark" and token.value == what):
            self.at += 1
            return True
        return False

    def take(self, what: str, expected: str | None = None) -> None:
        """Step over a keyword or mark, which must be there."""
        if not self.skip(what):
            raise self.unexpected(self.tokens[self.at], expected or what)

    def take_name(self) -> str:
        """The attribute name at the cursor, with or without parentheses."""
        bracket = self.skip("(")
        token = self.tokens[self.at]
        if token.kind != "name":
            raise self.unexpected(token, "an attribute name")
        self.at += 1
        if bracket:
            self.take(")")
        return self.check_name(token)

    def check_name(self, token: Token) -> str:
        """The name of a token, if it is not too long."""
        name = str(token.value)
        if not 0 < len(name) <= NAME_LENGTH_MAX:
            raise FilterSyntaxError(
                self.text, token.position, f"a name of 1 to {NAME_LENGTH_MAX} characters"
            )
        return name
