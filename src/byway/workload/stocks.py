"""Stock quotes: publications and rated subscriptions of "Publisher placement" (section V-A).

This file decides prices and volumes (a geometric random walk for each symbol, one quote a trading
day) and thresholds such that a subscription sinks a known share of its symbol's quotes.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from byway.workload.chunks import (
    NO_STRING,
    FilterChunk,
    Operator,
    PublicationChunk,
    ValueKind,
    row_offsets,
)
from byway.workload.draws import Floats, Integers, bell, chunk_rng, draw_zipf, growth
from byway.workload.generator import PUBLICATIONS, SUBSCRIPTIONS, Generator, require
from byway.workload.zipf import EXPONENT_MAX

_PROFILES: Final = 16
_LEVELS: Final = 17
_STEPS: Final = 18

SYMBOLS_MAX: Final = 20_000

ATTRIBUTES: Final = (
    "class", "symbol", "open", "high", "low", "close", "volume", "date",
    "openClose%Diff", "highLow%Diff", "closeEqualsLow", "closeEqualsHigh",
)  # fmt: skip
_NAMES: Final = tuple(sorted(ATTRIBUTES))
_ID: Final = {name: number for number, name in enumerate(_NAMES)}

_FIRST_DAY: Final = "1996-09-05"
_MONTHS: Final = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()
_QUARTER: Final = 64  # trading days between two levels that a symbol's walk passes through
_LEVEL_SPREAD: Final = 5.0  # of those levels, in days' moves; free walks would spread by 8
_REFERENCE_QUARTERS: Final = 4
_VOLUME_SHARE: Final = 0.8  # of quotes that pass the volume predicate of a medium subscription


class Rating(IntEnum):
    """How much of its symbol's traffic a subscription sinks: about 10 %, about 50 %, or all."""

    LOW = 0
    MEDIUM = 1
    HIGH = 2


_MIXES: Final = {"random": (0.70, 0.25), "enterprise": (0.95, 0.0)}  # low, medium; the rest high
_SHARE: Final = {Rating.LOW: 0.1, Rating.MEDIUM: 0.5}


class _Profiles(NamedTuple):
    """What distinguishes symbols: a typical price, its daily move (relative), a typical volume."""

    price: Floats
    move: Floats
    volume: Floats


class _Quotes(NamedTuple):
    """Quotes of some days and symbols. Prices in cents, differences in hundredths of a percent."""

    day: Integers
    symbol: Integers
    open: Integers
    high: Integers
    low: Integers
    close: Integers
    volume: Integers
    open_close: Integers
    high_low: Integers


class _Reference(NamedTuple):
    """Ascending samples, each relative to the symbol's move or volume; the same for all symbols."""

    open_close: Floats
    high_low: Floats
    volume: Floats


class StockQuotes(Generator, frozen=True, kw_only=True, tag=True):
    """Daily quotes of `symbols` stocks and subscriptions to them, both without end.

    **Publications.** Row r is the quote of symbol r mod `symbols` on trading day r div `symbols`
    (day 0 is 5-Sep-96, weekends are skipped), with the twelve attributes of the paper's example.
    Closing prices are a geometric random walk that every 64 days is led through a level near the
    symbol's typical price, so it neither dies out nor explodes; `open` is the last close with a
    small gap. `openClose%Diff` is |close - open| / open and `highLow%Diff` is (high - low) / low,
    rounded to four digits; `closeEqualsLow` and `closeEqualsHigh` are the strings 'true' and
    'false'.

    **Subscriptions** name a symbol, drawn with Zipf weights of `popularity_exponent` (0: all
    alike). `mix` is the paper's: `random`, 70 % low-rated, 25 % medium, 5 % high, or `enterprise`,
    95 % low and 5 % high. Low-rated ones ask for `highLow%Diff > x` and sink about 10 % of the
    symbol's quotes; medium ones for `volume > v AND openClose%Diff > x` and sink about 50 %;
    high-rated ones sink all. The share aimed at varies by ± `spread` of itself from one
    subscription to another. Thresholds come from the distribution of quotes, scaled to each symbol.
    `ratings` tells which row has which rating.

    With `ranges` a subscription is instead class, symbol and one or two ranges (BETWEEN) over
    `open`, `high`, `low`, `close` and `volume`, for benches of matching; `mix` and `spread` then
    say nothing.
    """

    symbols: int = 100
    mix: Literal["random", "enterprise"] = "random"
    spread: float = 0.2
    ranges: bool = False
    popularity_exponent: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require("symbols", self.symbols, 1, SYMBOLS_MAX)
        require("spread", self.spread, 0, 0.9)
        require("popularity_exponent", self.popularity_exponent, 0, EXPONENT_MAX)

    def symbol_names(self) -> tuple[str, ...]:
        """The names of the symbols, in the order of their numbers."""
        return _symbol_names(self.symbols)

    # --- publications

    def publications(self, chunk: int) -> PublicationChunk:
        rng = chunk_rng(self.seed, PUBLICATIONS, chunk)
        rows = np.arange(chunk * self.ROWS, (chunk + 1) * self.ROWS)
        return _publication_chunk(self._quotes(rng, rows), self.symbol_names())

    def _profiles(self) -> _Profiles:
        price, move, volume = chunk_rng(self.seed, _PROFILES, 0).random((self.symbols, 3)).T
        return _Profiles(
            price=5.0 + 195.0 * price * price,
            move=0.01 + 0.02 * move,
            volume=100_000.0 * growth(4.0 * volume),
        )

    def _quotes(self, rng: np.random.Generator, rows: Integers) -> _Quotes:
        """The quotes of consecutive rows; `rng` gives what the walk leaves open."""
        day, symbol = rows // self.symbols, rows % self.symbols
        price, move, volume = (column[symbol] for column in self._profiles())
        before, after = self._walk(day, symbol)
        gap = bell(rng, len(rows)) * 0.2
        opened = _cents(price * growth(move * (before + gap)))
        closed = _cents(price * growth(move * after))
        # One day in five ends its range at the opening or closing price, on either side.
        beyond = np.maximum(rng.random((2, len(rows))) * 1.25 - 0.25, 0.0) * 0.8
        high = np.maximum(opened, closed) + _cents(price * move * beyond[0])
        low = np.maximum(np.minimum(opened, closed) - _cents(price * move * beyond[1]), 1)
        traded = _hundreds(volume * growth(bell(rng, len(rows)) * 0.5))
        return _Quotes(
            day=day,
            symbol=symbol,
            open=opened,
            high=high,
            low=low,
            close=closed,
            volume=traded.astype(np.int64),
            open_close=_ten_thousandths(np.abs(closed - opened), opened),
            high_low=_ten_thousandths(high - low, low),
        )

    def _walk(self, day: Integers, symbol: Integers) -> tuple[Floats, Floats]:
        """The walk before and after each day, in units of the symbol's daily move."""
        before, after = np.empty(len(day)), np.empty(len(day))
        quarter = day // _QUARTER
        for number in np.unique(quarter).tolist():
            walk = self._quarter(number)
            rows = quarter == number
            within = day[rows] - number * _QUARTER
            before[rows], after[rows] = walk[within, symbol[rows]], walk[within + 1, symbol[rows]]
        return before, after

    def _quarter(self, number: int) -> Floats:
        """One quarter's walk between two levels: row 0 before the first day, row i after day i."""
        start, end = self._levels(number), self._levels(number + 1)
        steps = bell(chunk_rng(self.seed, _STEPS, number), (_QUARTER, self.symbols))
        walk = np.zeros((_QUARTER + 1, self.symbols))
        np.cumsum(steps, axis=0, out=walk[1:])
        passed = np.arange(_QUARTER + 1)[:, None] / _QUARTER
        bridged: Floats = start + walk + passed * (end - start - walk[-1])
        return bridged

    def _levels(self, quarter: int) -> Floats:
        return bell(chunk_rng(self.seed, _LEVELS, quarter), self.symbols) * _LEVEL_SPREAD

    # --- subscriptions

    def subscriptions(self, chunk: int) -> FilterChunk:
        rng, symbol, ratings = self._subscribers(chunk)
        if self.ranges:
            return self._range_chunk(rng, symbol)
        return self._rated_chunk(rng, symbol, ratings)

    def ratings(self, chunk: int) -> npt.NDArray[np.uint8]:
        """The `Rating` of each row of the chunk (for rated subscriptions, not for ranges)."""
        return self._subscribers(chunk)[2]

    def _subscribers(
        self, chunk: int
    ) -> tuple[np.random.Generator, Integers, npt.NDArray[np.uint8]]:
        rng = chunk_rng(self.seed, SUBSCRIPTIONS, chunk)
        symbol = draw_zipf(rng, self.symbols, self.popularity_exponent, self.ROWS)
        low, medium = _MIXES[self.mix]
        chance = rng.random(self.ROWS)
        ratings = (chance >= low).astype(np.uint8) + (chance >= low + medium)
        return rng, symbol, ratings.astype(np.uint8)

    def _rated_chunk(
        self, rng: np.random.Generator, symbol: Integers, ratings: npt.NDArray[np.uint8]
    ) -> FilterChunk:
        _, move, volume = (column[symbol] for column in self._profiles())
        reference = _reference()
        varied = 1.0 + self.spread * (2.0 * rng.random(self.ROWS) - 1.0)
        low_share = _SHARE[Rating.LOW] * varied
        medium_share = np.minimum(_SHARE[Rating.MEDIUM] * varied / _VOLUME_SHARE, 1.0)
        wide = _exceeded_by(reference.high_low, low_share) * move
        moved = _exceeded_by(reference.open_close, medium_share) * move
        traded = _exceeded_by(reference.volume, np.full(self.ROWS, _VOLUME_SHARE)) * volume
        is_low, is_medium = ratings == Rating.LOW, ratings == Rating.MEDIUM
        terms = _Terms(self.symbol_names(), symbol)
        terms.greater("highLow%Diff", np.rint(wide * 10_000.0) / 10_000.0, is_low)
        terms.greater("openClose%Diff", np.rint(moved * 10_000.0) / 10_000.0, is_medium)
        terms.greater("volume", _hundreds(traded), is_medium)
        return terms.chunk()

    def _range_chunk(self, rng: np.random.Generator, symbol: Integers) -> FilterChunk:
        price, move, volume = (column[symbol] for column in self._profiles())
        terms = _Terms(self.symbol_names(), symbol)
        attributes = ("open", "high", "low", "close", "volume")
        first = rng.integers(0, 5, self.ROWS)
        second = (first + rng.integers(1, 5, self.ROWS)) % 5
        has_second = rng.random(self.ROWS) < 0.5
        middle = bell(rng, self.ROWS)  # of prices: ranges of one filter do not contradict
        for number, attribute in enumerate(attributes):
            wanted = (first == number) | (has_second & (second == number))
            half = 0.25 + 2.0 * rng.random(self.ROWS)
            if attribute == "volume":
                around = volume * growth(0.5 * bell(rng, self.ROWS))
                lows, highs = (
                    _hundreds(around * growth(-0.5 * half)),
                    _hundreds(around * growth(0.5 * half)),
                )
            else:
                around = price * growth(_LEVEL_SPREAD * move * middle)
                reach = _LEVEL_SPREAD * move * half
                lows, highs = (
                    _cents(around * growth(-reach)) / 100.0,
                    _cents(around * growth(reach)) / 100.0,
                )
            terms.between(attribute, lows, highs, wanted)
        return terms.chunk()


class _Terms:
    """Filters on class and symbol under construction: a column for each attribute, used or not."""

    def __init__(self, symbols: tuple[str, ...], symbol: Integers) -> None:
        shape = (len(symbol), len(_NAMES))
        self.strings = ("STOCK", *symbols)
        self.used = np.zeros(shape, bool)
        self.operators = np.full(shape, Operator.EQUAL, np.uint8)
        self.numbers, self.highs = np.zeros(shape), np.zeros(shape)
        self.string_ids = np.full(shape, NO_STRING, np.int32)
        self.used[:, [_ID["class"], _ID["symbol"]]] = True
        self.string_ids[:, _ID["class"]] = 0
        self.string_ids[:, _ID["symbol"]] = 1 + symbol

    def greater(self, name: str, numbers: Floats, wanted: npt.NDArray[np.bool_]) -> None:
        """Add `name > number` to the rows wanted."""
        self._add(name, Operator.GREATER, numbers, wanted)

    def between(
        self, name: str, lows: Floats, highs: Floats, wanted: npt.NDArray[np.bool_]
    ) -> None:
        """Add `name BETWEEN low AND high` to the rows wanted."""
        self._add(name, Operator.BETWEEN, lows, wanted)
        self.highs[:, _ID[name]] = highs

    def _add(
        self, name: str, operator: Operator, numbers: Floats, wanted: npt.NDArray[np.bool_]
    ) -> None:
        column = _ID[name]
        self.used[:, column] = wanted
        self.operators[:, column] = operator
        self.numbers[:, column] = numbers

    def chunk(self) -> FilterChunk:
        """The filters as they are now."""
        used = self.used
        return FilterChunk(
            names=_NAMES,
            strings=self.strings,
            offsets=row_offsets(used.sum(axis=1)),
            name_ids=np.nonzero(used)[1].astype(np.int32),
            operators=self.operators[used],
            numbers=self.numbers[used],
            highs=self.highs[used],
            string_ids=self.string_ids[used],
        )


def _publication_chunk(quotes: _Quotes, symbols: tuple[str, ...]) -> PublicationChunk:
    count, width = len(quotes.day), len(ATTRIBUTES)
    days, day_of_row = np.unique(quotes.day, return_inverse=True)
    numbers = {
        "open": quotes.open / 100.0,
        "high": quotes.high / 100.0,
        "low": quotes.low / 100.0,
        "close": quotes.close / 100.0,
        "volume": quotes.volume.astype(np.float64),
        "openClose%Diff": quotes.open_close / 10_000.0,
        "highLow%Diff": quotes.high_low / 10_000.0,
    }
    first_symbol = 3
    string_ids = {
        "class": np.zeros(count, np.int64),
        "symbol": first_symbol + quotes.symbol,
        "date": first_symbol + len(symbols) + day_of_row,
        "closeEqualsLow": 1 + (quotes.close == quotes.low),
        "closeEqualsHigh": 1 + (quotes.close == quotes.high),
    }
    no_number, no_string = np.zeros(count), np.full(count, NO_STRING)
    kinds = np.full(width, ValueKind.FLOAT, np.uint8)
    kinds[[ATTRIBUTES.index(name) for name in string_ids]] = ValueKind.STRING
    kinds[ATTRIBUTES.index("volume")] = ValueKind.INTEGER
    return PublicationChunk(
        names=_NAMES,
        strings=("STOCK", "false", "true", *symbols, *_dates(days)),
        offsets=np.arange(count + 1, dtype=np.int32) * np.int32(width),
        name_ids=np.tile(np.array([_ID[name] for name in ATTRIBUTES], np.int32), count),
        kinds=np.tile(kinds, count),
        numbers=np.stack([numbers.get(n, no_number) for n in ATTRIBUTES], axis=1).ravel(),
        string_ids=np.stack([string_ids.get(n, no_string) for n in ATTRIBUTES], axis=1)
        .astype(np.int32)
        .ravel(),
    )


def _cents(price: Floats) -> Integers:
    return np.rint(price * 100.0).astype(np.int64)


def _hundreds(volume: Floats) -> Floats:
    return np.rint(volume / 100.0) * 100.0


def _ten_thousandths(part: Integers, whole: Integers) -> Integers:
    return np.rint(part / whole * 10_000.0).astype(np.int64)


def _dates(days: Integers) -> list[str]:
    """Trading days as the paper writes them: `5-Sep-96`."""
    dates = np.busday_offset(np.datetime64(_FIRST_DAY), days)
    months = dates.astype("datetime64[M]")
    numbers = zip(
        ((dates - months).astype(np.int64) + 1).tolist(),
        (months.astype(np.int64) % 12).tolist(),
        (dates.astype("datetime64[Y]").astype(np.int64) + 1970).tolist(),
        strict=True,
    )
    return [f"{day}-{_MONTHS[month]}-{year % 100:02d}" for day, month, year in numbers]


@lru_cache(maxsize=8)
def _symbol_names(count: int) -> tuple[str, ...]:
    """Four letters each, all different: multiples of a number prime to 26, modulo 26^4."""
    codes = [(number * 100_003 + 17_576) % 26**4 for number in range(count)]
    return tuple("".join(chr(65 + code // 26**i % 26) for i in (3, 2, 1, 0)) for code in codes)


@lru_cache(maxsize=1)
def _reference() -> _Reference:
    """The distributions that thresholds are taken from: some quarters of other symbols."""
    market = StockQuotes(seed=0, symbols=256)
    rows = np.arange(market.symbols * _QUARTER * _REFERENCE_QUARTERS)
    quotes = market._quotes(chunk_rng(0, PUBLICATIONS, 0), rows)
    _, move, volume = (column[quotes.symbol] for column in market._profiles())
    return _Reference(
        open_close=np.sort(quotes.open_close / 10_000.0 / move),
        high_low=np.sort(quotes.high_low / 10_000.0 / move),
        volume=np.sort(quotes.volume / volume),
    )


def _exceeded_by(samples: Floats, share: Floats) -> Floats:
    """Thresholds that such a share of the (ascending) samples exceeds."""
    place = np.rint((1.0 - share) * (len(samples) - 1)).astype(np.int64)
    return samples[place]
