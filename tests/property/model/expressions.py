"""Boolean expressions as trees: how they read as text, and what they mean.

The meaning is worked out over the tree, in three-valued logic and with regular expressions for
LIKE, so that it shares nothing with the code under test.
"""

import re
from dataclasses import dataclass

from hypothesis import strategies as st

from byway.model import Value
from tests.strategies import INF, NAMES, NUMBERS, PARTS, SMALL_NUMBERS, STRINGS

Truth = bool | None
"""None is *unknown*: what a predicate says of a missing attribute or of a value of another kind."""


@dataclass(frozen=True)
class Predicate:
    """Anything about one attribute; `arguments` depend on the form."""

    name: str
    form: str
    arguments: tuple[Value, ...] = ()
    negated: bool = False


@dataclass(frozen=True)
class Constant:
    value: bool


@dataclass(frozen=True)
class Not:
    part: "Expression"


@dataclass(frozen=True)
class All:
    parts: tuple["Expression", ...]


@dataclass(frozen=True)
class Any:
    parts: tuple["Expression", ...]


Expression = Predicate | Constant | Not | All | Any


# --- meaning ---------------------------------------------------------------------------------


def truth(expression: Expression, attributes: dict[str, Value]) -> Truth:
    """Kleene's three-valued logic."""
    if isinstance(expression, Constant):
        return expression.value
    if isinstance(expression, Not):
        return _negation(truth(expression.part, attributes))
    if isinstance(expression, (All, Any)):
        return _join([truth(p, attributes) for p in expression.parts], isinstance(expression, Any))
    said = _predicate(expression, attributes)
    return _negation(said) if expression.negated else said


def _negation(said: Truth) -> Truth:
    return None if said is None else not said


def _join(parts: list[Truth], wins: bool) -> Truth:
    """OR (`wins` is True) or AND (`wins` is False): the winner decides, then the unknown."""
    if wins in parts:
        return wins
    return None if None in parts else not wins


def _predicate(p: Predicate, attributes: dict[str, Value]) -> Truth:
    if p.form == "IS NULL":
        return p.name not in attributes
    if p.form in ("IS EXISTS", "EXISTS"):
        return p.name in attributes
    if p.name not in attributes:
        return None
    value = attributes[p.name]
    if p.form == "BETWEEN":
        above, below = (
            _compare(o, value, a) for o, a in zip((">=", "<="), p.arguments, strict=True)
        )
        return _join([above, below], wins=False)
    if p.form == "IN":
        return _join([_compare("=", value, a) for a in p.arguments], wins=True)
    if p.form == "LIKE":
        pattern = like_expression(*map(str, p.arguments))
        return re.fullmatch(pattern, value) is not None if isinstance(value, str) else None
    return _compare(p.form, value, p.arguments[0])


def _kind(value: Value) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "string"
    return "number" if value == value else "nan"


def _compare(operator: str, value: Value, argument: Value) -> Truth:
    if _kind(value) != _kind(argument):
        return None
    return {
        "=": value == argument,
        "<>": value != argument,
        "!=": value != argument,
        "<": value < argument,
        "<=": value <= argument,
        ">": value > argument,
        ">=": value >= argument,
    }[operator]


def like_expression(pattern: str, escape: str = "") -> str:
    """The regular expression that says what a LIKE pattern says."""
    said = ""
    chars = iter(pattern)
    for char in chars:
        if char == escape:
            said += re.escape(next(chars))
        else:
            said += "(?s:.*)" if char == "%" else re.escape(char)
    return said


# --- text ------------------------------------------------------------------------------------


def render(expression: Expression, strength: int = 0) -> str:
    """As few parentheses as precedence (OR 0, AND 1, NOT 2) allows."""
    if isinstance(expression, Constant):
        return "TRUE" if expression.value else "FALSE"
    if isinstance(expression, Not):
        return f"NOT {render(expression.part, 2)}"
    if isinstance(expression, (All, Any)):
        mine, word = (1, " AND ") if isinstance(expression, All) else (0, " OR ")
        text = word.join(render(part, mine + 1) for part in expression.parts)
        return f"({text})" if strength > mine else text
    return _predicate_text(expression)


def _predicate_text(p: Predicate) -> str:
    word = "NOT " if p.negated else ""
    if p.form == "EXISTS":
        return f"{word}EXISTS ({p.name})"
    if p.form.startswith("IS "):
        return f"{p.name} IS {word}{p.form[3:]}"
    said = [literal(a) for a in p.arguments]
    if p.form == "BETWEEN":
        return f"{p.name} {word}BETWEEN {said[0]} AND {said[1]}"
    if p.form == "IN":
        return f"{p.name} {word}IN ({', '.join(said)})"
    if p.form == "LIKE":
        return f"{p.name} {word}LIKE {' ESCAPE '.join(said)}"
    return f"{word}{p.name} {p.form} {said[0]}"


def literal(value: Value) -> str:
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if value in (INF, -INF):
        return "INFINITY" if value > 0 else "-INFINITY"
    return repr(value)


# --- strategies ------------------------------------------------------------------------------

_KINDS = {"n": "n", "m": "n", "s": "s", "t": "s", "b": "b"}
_NUMBERS = st.sampled_from(SMALL_NUMBERS * 3 + NUMBERS)
_STRINGS = st.sampled_from(STRINGS)
_BOOLEANS = st.booleans()
_VALUES = {"n": _NUMBERS, "s": _STRINGS, "b": _BOOLEANS}
_FORMS = {
    "n": ("=", "<>", "!=", "<", "<=", ">", ">=", "BETWEEN", "IN", "IS NULL", "EXISTS"),
    "s": ("=", "<>", "<", "<=", ">", ">=", "BETWEEN", "IN", "LIKE", "LIKE", "LIKE", "IS NULL"),
    "b": ("=", "<>", "IN", "IS EXISTS"),
}


@st.composite
def predicates(draw: st.DrawFn) -> Predicate:
    name = draw(st.sampled_from(NAMES))
    kind = _KINDS.get(name) or draw(st.sampled_from("nsb"))
    form = draw(st.sampled_from(_FORMS[kind]))
    negated = draw(_BOOLEANS)
    values = _VALUES[kind]
    if form in ("IS NULL", "IS EXISTS", "EXISTS"):
        return Predicate(name, form, (), negated)
    if form == "BETWEEN":
        return Predicate(name, form, (draw(values), draw(values)), negated)
    if form == "IN":
        mixed = st.lists(
            st.one_of(values, values, values, *_VALUES.values()), min_size=1, max_size=4
        )
        return Predicate(name, form, tuple(draw(mixed)), negated)
    if form == "LIKE":
        return Predicate(name, form, draw(like_patterns()), negated)
    return Predicate(name, form, (draw(values),), negated)


@st.composite
def like_patterns(draw: st.DrawFn) -> tuple[str, ...]:
    """A pattern that reduces, and the escape character if it needs one."""
    part = draw(st.sampled_from((*PARTS, "\\", "a%", "_b")))
    escaped = re.sub(r"[\\%_]", r"\\\g<0>", part)
    form = draw(st.sampled_from(("{}%", "%{}", "%{}%", "{}", "%", "{}%c", "c%%{}", "%%{}%%%")))
    pattern = form.format(escaped)
    return (pattern, "\\") if "\\" in pattern else (pattern,)


def expressions(max_leaves: int = 10) -> st.SearchStrategy[Expression]:
    leaves = st.one_of(predicates(), predicates(), predicates(), st.builds(Constant, _BOOLEANS))
    return st.recursive(leaves, _larger, max_leaves=max_leaves)


def _larger(parts: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    several = st.lists(parts, min_size=2, max_size=3).map(tuple)
    return st.one_of(st.builds(Not, parts), st.builds(All, several), st.builds(Any, several))
