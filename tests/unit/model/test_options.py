"""Options as structs declare them: what is read, what is refused, and where bounds do not hold."""

from __future__ import annotations

from math import inf, nan
from typing import Annotated, Any, Literal

import msgspec
import pytest

from byway.core.broker_config import BrokerConfig
from byway.model.errors import ConfigError
from byway.model.option_reading import (
    OptionsError,
    check,
    check_bounds,
    check_option,
    from_text,
    read,
)
from byway.model.options import (
    Count,
    Share,
    above,
    all_options_of,
    at_least,
    in_order,
    option,
    options_of,
    parsed,
    unit_of,
    within,
    words,
)


def parse_even(text: str, key: str) -> int:
    if int(text) % 2:
        raise ConfigError(key, f"expected an even number, found {text}")
    return int(text)


class Inner(msgspec.Struct, frozen=True, kw_only=True):
    count: Annotated[Count, option("A count.")] = 1
    share: Annotated[Share | None, option("A share.")] = None


class Outer(msgspec.Struct, frozen=True, kw_only=True, rename={"class_": "class"}):
    class_: Annotated[Literal["b", "a"], option("A choice.")]
    span: Annotated[float, above(0, 10, unit="s"), option("A time.")] = 1.0
    name: Annotated[str, within(1, 5), option("A name.")] = "x"
    pair: Annotated[tuple[Count, Count], in_order("rising"), option("Two counts.")] = (0, 1)
    even: Annotated[Annotated[int, parsed(parse_even, "an even number")], option("Even.")] = 0
    path: Annotated[str | None, option("A path.", cleared_by_empty=True)] = None
    mixed: Annotated[bool | int | float | str | None, option("Anything.")] = None
    inner: Annotated[Inner, option("A table.")] = Inner(count=5)
    many: Annotated[tuple[Inner, ...], within(0, 2), option("Tables.")] = ()


def problems(data: Any, struct: type = Outer) -> list[str]:
    with pytest.raises(OptionsError) as caught:
        read(struct, data)
    assert str(caught.value).splitlines() == [str(problem) for problem in caught.value.problems]
    return str(caught.value).splitlines()


def test_plain_data_becomes_the_struct() -> None:
    data = {
        "class": "a",
        "span": 2,
        "pair": [3, 3],
        "even": "4",
        "path": "",
        "inner": {"share": 1},
        "many": [{}, {"count": 0}],
    }
    made = read(Outer, data)
    assert made == Outer(
        class_="a",
        span=2.0,
        pair=(3, 3),
        even=4,
        inner=Inner(count=5, share=1.0),
        many=(Inner(), Inner(count=0)),
    )
    assert isinstance(made.span, float)


@pytest.mark.parametrize("value", [True, 1, 1.5, "x"])
def test_a_value_of_several_kinds_stays_what_it_is(value: Any) -> None:
    made = read(Outer, {"class": "a", "mixed": value})
    assert (made.mixed, type(made.mixed)) == (value, type(value))


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"class": "c"}, "class: expected one of a, b, found 'c'"),
        ({"span": 0}, "span: expected a number above 0 to 10, found 0"),
        ({"span": nan}, "span: expected a number above 0 to 10, found nan"),
        ({"span": True}, "span: expected a number above 0 to 10, found true"),
        ({"name": "toolong"}, "name: expected a string of 1 to 5 characters, found 'toolong'"),
        ({"pair": [2, 1]}, "pair: 2 is more than 1"),
        ({"pair": [2]}, "pair: expected an array of 2, each an integer of at least 0, found an "),
        ({"pair": [2, -1]}, "pair.1: expected an integer of at least 0, found -1"),
        ({"even": 4}, "even: expected an even number, found 4"),
        ({"even": "3"}, "even: expected an even number, found 3"),
        ({"mixed": {}}, "mixed: expected true or false or an integer or a string or a number, "),
        ({"inner": 3}, "inner: expected a table, found 3"),
        ({"inner": {"cout": 3}}, "inner.cout: unknown key; did you mean 'inner.count'?"),
        (
            {"many": [{}, {}, {}]},
            "many: expected an array of at most 2 tables, found an array of 3",
        ),
        ({"many": [{"share": 2}]}, "many.0.share: expected a number from 0 to 1, found 2"),
        ({"many": [{"spam": 2}]}, "many.0.spam: unknown key; expected one of count, share"),
        ({"count": 3}, "count: unknown key; did you mean 'inner.count'?"),
        ({"inner": {"span": 3}}, "inner.span: unknown key; did you mean 'span'?"),
    ],
)
def test_a_problem_names_key_expected_and_found(given: dict[str, Any], problem: str) -> None:
    (found,) = problems({"class": "a", **given})
    assert found.startswith(problem)


def test_all_problems_are_reported() -> None:
    assert problems({"span": -1, "inner": {"count": -1, "share": "x"}}) == [
        "span: expected a number above 0 to 10, found -1",
        "inner.count: expected an integer of at least 0, found -1",
        "inner.share: expected a number from 0 to 1, found 'x'",
        "class: missing; expected one of a, b",
    ]


def test_data_that_is_no_table() -> None:
    with pytest.raises(OptionsError, match=r"^there: expected a table, found 3$"):
        check(Outer, 3, "there")


def test_options_can_be_walked() -> None:
    assert [found.key for found in options_of(Inner)] == ["count", "share"]
    found = {found.key: found for found in all_options_of(Outer)}
    assert list(found)[-3:] == ["inner.count", "inner.share", "many"]
    assert found["inner.count"].default == 5
    assert (found["class"].required, found["span"].required) == (True, False)
    assert (unit_of(found["span"].kind), unit_of(found["pair"].kind)) == ("s", "")
    assert words(found["inner.share"].kind.given) == "a number from 0 to 1"


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("span", "2.5", 2.5),
        ("span", "soon", "soon"),
        ("pair", "[1, 2]", [1, 2]),
        ("pair", "1", "1"),
        ("path", "x", "x"),
        ("inner.share", ".5", 0.5),
        ("inner.count", "1_000", 1_000),
    ],
)
def test_texts_mean_what_their_option_is(key: str, text: str, value: Any) -> None:
    kinds = {found.key: found.kind for found in all_options_of(Outer)}
    assert from_text(text, kinds[key]) == value


class Entry(msgspec.Struct, frozen=True, array_like=True):
    name: Annotated[str, at_least(1)]
    count: Count
    share: Share | None = None


class Large(msgspec.Struct, frozen=True, kw_only=True):
    entries: Annotated[tuple[Entry, ...], option("Entries.")] = ()
    seed: Annotated[int, at_least(0), option("A seed.")] = 0
    cost: Annotated[float, at_least(0), option("A cost.")] = 0.0
    free: Annotated[float | None, option("Any number.")] = None


def test_an_entry_is_an_array_whose_last_members_may_be_left_out() -> None:
    made = read(Large, {"entries": [["a", 1], ("b", 0, 1)]})
    assert made == Large(entries=(Entry("a", 1), Entry("b", 0, 1.0)))
    (found,) = (found for found in options_of(Large) if found.key == "entries")
    assert words(found.kind) == "an array, each [name, count] or [name, count, share]"


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        (["a"], "entries.0: expected [name, count] or [name, count, share], found an array of 1"),
        (["a", 1, 1, 1], "entries.0: expected [name, count] or [name, count, share], found an arr"),
        ({"name": "a"}, "entries.0: expected [name, count] or [name, count, share], found a table"),
        ("ab", "entries.0: expected [name, count] or [name, count, share], found 'ab'"),
        (["", 1], "entries.0.0: expected a non-empty string, found ''"),
        (["a", -1], "entries.0.1: expected an integer of at least 0, found -1"),
        (["a", 1, None], "entries.0.2: expected a number from 0 to 1, found None"),
    ],
)
def test_a_problem_of_an_entry_names_its_member(entry: Any, problem: str) -> None:
    (found,) = problems({"entries": [entry]}, Large)
    assert found.startswith(problem)


def test_numbers_without_an_upper_bound_are_finite() -> None:
    made = read(Large, {"seed": 10**400, "cost": 1e300, "free": -(2**60)})
    assert made == Large(seed=10**400, cost=1e300, free=float(-(2**60)))
    for data in ({"cost": inf}, {"cost": nan}, {"cost": 10**400}, {"free": -(10**400)}):
        (found,) = problems(data, Large)
        assert "expected a number" in found


class Times(msgspec.Struct, frozen=True, kw_only=True):
    wait: Annotated[float, within(0, inf), option("A wait.")] = 0.0
    way: Annotated[Literal["in", "out"], option("A way.")] = "in"
    name: Annotated[str, within(1, 5), option("A name.")] = "x"


def test_bounds_of_what_a_program_builds_are_checked() -> None:
    check_bounds(Times(wait=inf))
    check_bounds(Times(wait=3))
    for wait in (-1.0, nan):
        with pytest.raises(ConfigError, match="wait: expected a number of at least 0, found"):
            check_bounds(Times(wait=wait))
    with pytest.raises(ConfigError, match="way: expected one of in, out, found 'up'"):
        check_bounds(Times(way="up"))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="name: expected a string of 1 to 5 characters, found"):
        check_bounds(Times(name=""))
    with pytest.raises(ConfigError, match="name: expected a string of 1 to 5 characters, found 3"):
        check_option(Times, "name", 3)


def test_bounds_are_not_enforced_where_kept_state_is_decoded() -> None:
    config = BrokerConfig(hops_max=0, merging_false_positives=7.5)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(config), type=BrokerConfig) == config
