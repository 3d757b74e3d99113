"""Times as people type them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byway.model.durations import format_duration, parse_duration
from byway.model.errors import InvalidValueError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10s", 10.0),
        ("250ms", 0.25),
        ("2m", 120.0),
        ("1h", 3_600.0),
        ("5", 5.0),
        ("0", 0.0),
        ("0.1", 0.1),
        (".5s", 0.5),
        ("1.5h", 5_400.0),
        (" 3 s ", 3.0),
    ],
)
def test_units_and_bare_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "s", "ten", "-1s", "+1s", "1 0s", "10S", "1d", "1h30m", "1e3", "inf", "nan", ".", "١s"],
)
def test_what_is_no_time_is_refused_and_quoted(text: str) -> None:
    with pytest.raises(InvalidValueError, match=r"expected a time such as 10s") as caught:
        parse_duration(text)
    assert repr(text) in str(caught.value)


def test_a_number_that_is_too_large_is_refused() -> None:
    with pytest.raises(InvalidValueError):
        parse_duration("9" * 400)


@given(st.integers(0, 10**9))
def test_units_agree(count: int) -> None:
    assert parse_duration(f"{count}ms") == parse_duration(str(count)) / 1_000
    assert parse_duration(f"{count}m") == parse_duration(f"{60 * count}s")
    assert parse_duration(f"{count}h") == parse_duration(f"{60 * count}m")


@pytest.mark.parametrize(
    ("microseconds", "text"),
    [
        (0, "0s"),
        (1, "0.001ms"),
        (1_500, "1.5ms"),
        (250_000, "250ms"),
        (1_500_000, "1500ms"),
        (90_000_000, "90s"),
        (120_000_000, "2m"),
        (86_400_000_000, "24h"),
    ],
)
def test_a_time_is_written_in_the_largest_unit_without_decimals(
    microseconds: int, text: str
) -> None:
    assert format_duration(microseconds) == text


@given(st.integers(0, 10**15))
def test_what_is_written_means_the_same(microseconds: int) -> None:
    assert round(parse_duration(format_duration(microseconds)) * 1e6) == microseconds
