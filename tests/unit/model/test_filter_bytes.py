"""A filter has a bound in bytes, wherever it comes from."""

import asyncio

import msgspec
import pytest
from typer.testing import CliRunner

import byway
from byway.cli.main import app
from byway.core.covering.merging import BYTES_MAX
from byway.model import Filter, FilterLimitError, InvalidValueError, parse
from byway.model.checking import check_filter
from byway.model.constraints import NumberSet, StringSet
from byway.model.filters import FILTER_BYTES_MAX, check_filter_bytes
from byway.model.scanning import TEXT_LENGTH_MAX

SIGN = "\U0001f600"
REASON = f"a filter may have at most {FILTER_BYTES_MAX} bytes as it travels, this one has"


def of_bytes(size: int) -> Filter:
    empty = len(msgspec.msgpack.encode(Filter.where({"x": StringSet(("a" * 256,))}))) - 256
    return Filter.where({"x": StringSet(("a" * (size - empty),))})


def test_the_bound_is_exact():
    longest = of_bytes(FILTER_BYTES_MAX)
    assert len(msgspec.msgpack.encode(longest)) == FILTER_BYTES_MAX
    check_filter_bytes(longest)
    check_filter(longest)
    for check in (check_filter_bytes, check_filter):
        with pytest.raises(FilterLimitError, match=f"{REASON} {FILTER_BYTES_MAX + 1}"):
            check(of_bytes(FILTER_BYTES_MAX + 1))


DENSEST = {
    "one long text": lambda n: f"x = '{SIGN * (n - 6)}'",
    "all but one long text": lambda n: f"x <> '{SIGN * (n - 7)}'",
    "many texts": lambda n: " OR ".join(f"x = '{i}{SIGN * 20}'" for i in range(n // 35)),
    "long names": lambda n: " OR ".join(f'"{i}{SIGN * 240}" > 0.5' for i in range(n // 260)),
    "short terms": lambda n: " AND ".join(f'"{chr(0x1F600 + i)}" > 0.5' for i in range(n // 17)),
    "short patterns": lambda n: " OR ".join(
        f"{chr(97 + i % 26)} LIKE '{i}%'" for i in range(n // 19)
    ),
    "numbers": lambda n: f"x IN ({', '.join(f'{i}.5' for i in range(min(n // 8, 1_024)))})",
    "multiplied out": lambda n: " AND ".join(
        f"(a{i} LIKE '{SIGN * (n // 200)}%' OR b{i} LIKE '%{SIGN * (n // 200)}')" for i in range(6)
    ),
}


@pytest.mark.parametrize("family", DENSEST)
def test_what_can_be_written_can_travel(family):
    """A text has fewer characters than its filter may have bytes, with room for the densest."""
    largest = 0
    for length in (1_000, 4_000, 8_000, 16_000, TEXT_LENGTH_MAX):
        try:
            filter = parse(DENSEST[family](length))
        except FilterLimitError as error:
            assert error.what != "bytes as it travels"  # noqa: PT017
            continue
        largest = max(largest, len(msgspec.msgpack.encode(filter)))
    assert 1_000 < largest <= FILTER_BYTES_MAX


def test_the_command_says_what_is_too_long():
    result = CliRunner().invoke(app, ["filter", "check", f"x = '{SIGN * TEXT_LENGTH_MAX}'"])
    assert result.exit_code == 2
    assert f"at most {TEXT_LENGTH_MAX} characters" in result.stderr


@pytest.mark.parametrize("way", ["subscribe", "advertise"])
def test_the_client_library_says_so_before_it_asks_anybody(way):
    async def ask() -> None:
        client = byway.connect("byway://127.0.0.1:1")
        getattr(client, way)(of_bytes(FILTER_BYTES_MAX + 1))

    with pytest.raises(FilterLimitError, match=REASON):
        asyncio.run(ask())


@pytest.mark.parametrize("bad", [StringSet(("\ud800",)), NumberSet((2**64,))])
def test_values_that_cannot_travel_are_named(bad):
    with pytest.raises(InvalidValueError, match="a value that cannot travel"):
        check_filter_bytes(Filter.where({"x": bad}))


def test_mergers_have_the_same_bound():
    assert BYTES_MAX == FILTER_BYTES_MAX
