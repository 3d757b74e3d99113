"""Stock quotes: the schema of the paper's example, plausible prices, and ratings that hold."""

from typing import Any

import numpy as np
import pytest

from byway.model import Value
from byway.workload import Operator, Rating, StockQuotes
from byway.workload.stocks import ATTRIBUTES

DAYS = 512


def quotes_by_symbol(workload: StockQuotes) -> dict[str, list[dict[str, Value]]]:
    quotes: dict[str, list[dict[str, Value]]] = {name: [] for name in workload.symbol_names()}
    for publication in workload.take_publications(workload.symbols * DAYS):
        quotes[str(publication["symbol"])].append(publication)
    return quotes


def test_a_quote_has_exactly_the_attributes_of_the_example() -> None:
    publications = StockQuotes(seed=1, symbols=3).take_publications(300)
    kinds = [str, str, float, float, float, float, int, str, float, float, str, str]
    for publication in publications:
        assert tuple(publication) == ATTRIBUTES
        assert [type(value) for value in publication.values()] == kinds
        assert publication["class"] == "STOCK"
    assert [p["date"] for p in publications[::3][:4]] == [
        "5-Sep-96", "6-Sep-96", "9-Sep-96", "10-Sep-96",
    ]  # fmt: skip


def test_quotes_are_consistent() -> None:
    publications: Any = StockQuotes(seed=2, symbols=10).take_publications(2_000)
    for p in publications:
        assert 0 < p["low"] <= min(p["open"], p["close"])
        assert p["high"] >= max(p["open"], p["close"])
        assert p["closeEqualsLow"] == str(p["close"] == p["low"]).lower()
        assert p["closeEqualsHigh"] == str(p["close"] == p["high"]).lower()
        move = abs(p["close"] - p["open"]) / p["open"]
        assert p["openClose%Diff"] == pytest.approx(move, abs=1e-4)
        assert p["highLow%Diff"] == pytest.approx((p["high"] - p["low"]) / p["low"], abs=1e-4)
        assert p["volume"] > 0
        assert p["volume"] % 100 == 0
        assert round(p["close"], 2) == p["close"]
    assert {p["closeEqualsHigh"] for p in publications} == {"true", "false"}


def test_every_symbol_is_quoted_every_day_and_walks_on() -> None:
    workload = StockQuotes(seed=3, symbols=20)
    for quotes in quotes_by_symbol(workload).values():
        assert len({q["date"] for q in quotes}) == len(quotes) == DAYS
        opens, closes = (np.array([q[name] for q in quotes], float) for name in ("open", "close"))
        steps = np.diff(np.log(closes))
        assert 0.008 < steps.std() < 0.035
        assert abs(np.corrcoef(steps[1:], steps[:-1])[0, 1]) < 0.2
        gaps = np.log(opens[1:] / closes[:-1])  # also from one quarter and chunk to the next
        assert np.abs(gaps).max() < 0.03
        assert closes.max() / closes.min() < 5


def test_symbols_are_distinct_and_keep_their_profile() -> None:
    many, few = StockQuotes(seed=4, symbols=20_000), StockQuotes(seed=4, symbols=10)
    assert len(set(many.symbol_names())) == 20_000
    assert many.symbol_names()[:10] == few.symbol_names()
    assert all(name.isalpha() and len(name) == 4 for name in few.symbol_names())
    prices = [w.take_publications(10) for w in (many, few)]
    ratio = [a["close"] / b["close"] for a, b in zip(*prices, strict=True)]  # type: ignore[operator]
    assert max(ratio) < 3
    assert min(ratio) > 1 / 3


@pytest.mark.parametrize(
    ("mix", "shares"), [("random", [0.70, 0.25, 0.05]), ("enterprise", [0.95, 0.0, 0.05])]
)
def test_mixes(mix: Any, shares: list[float]) -> None:
    workload = StockQuotes(seed=5, mix=mix)
    ratings = np.concatenate([workload.ratings(k) for k in range(5)])
    assert np.allclose(np.bincount(ratings, minlength=3) / len(ratings), shares, atol=0.015)


def test_rated_subscriptions_have_the_form_of_the_example() -> None:
    workload = StockQuotes(seed=6)
    chunk = workload.subscriptions(0)
    forms = {
        Rating.LOW: ("class", "highLow%Diff", "symbol"),
        Rating.MEDIUM: ("class", "openClose%Diff", "symbol", "volume"),
        Rating.HIGH: ("class", "symbol"),
    }
    for f, rating in zip(chunk.filters(), workload.ratings(0).tolist(), strict=True):
        assert f.attributes() == forms[Rating(rating)]
    assert chunk.texts()[0] == (
        "class = 'STOCK' AND openClose%Diff > 0.0114 AND symbol = 'RJBW' AND volume > 2191100"
    )
    number_terms = chunk.string_ids < 0
    assert set(chunk.operators[number_terms].tolist()) == {Operator.GREATER}


def test_ratings_hold_for_every_symbol() -> None:
    workload = StockQuotes(seed=7, symbols=40, spread=0.0)
    quotes = quotes_by_symbol(workload)
    shares: dict[tuple[int, str], float] = {}
    for f, rating in zip(workload.take_filters(1_500), workload.ratings(0)[:1_500], strict=True):
        symbol = dict(f.conjunctions[0].terms)["symbol"].values[0]  # type: ignore[union-attr]
        if (rating, symbol) not in shares:  # without spread, those of one rating are equal
            matched = [f.matches(quote) for quote in quotes[symbol]]  # type: ignore[index]
            shares[rating, symbol] = float(np.mean(matched))
    expected = {Rating.LOW: (0.1, 0.05), Rating.MEDIUM: (0.5, 0.08), Rating.HIGH: (1.0, 0.0)}
    for rating, (share, tolerance) in expected.items():
        found = [value for (r, _), value in shares.items() if r == rating]
        assert len(found) > 20
        assert np.mean(found) == pytest.approx(share, rel=0.05)
        assert max(abs(value - share) for value in found) <= tolerance


def test_spread_varies_the_share() -> None:
    workload = StockQuotes(seed=8, symbols=1, spread=0.5)
    chunk = workload.subscriptions(0)
    thresholds = chunk.numbers[chunk.name_ids == chunk.names.index("highLow%Diff")]
    assert len(np.unique(thresholds)) > 20
    quotes: Any = workload.take_publications(4_000)
    wide = np.sort([q["highLow%Diff"] for q in quotes])
    shares = 1 - np.searchsorted(wide, thresholds, side="right") / len(wide)
    assert shares.min() == pytest.approx(0.05, abs=0.02)
    assert shares.max() == pytest.approx(0.15, abs=0.03)
    assert shares.mean() == pytest.approx(0.1, abs=0.015)


def test_ranges_are_one_or_two_and_sometimes_match() -> None:
    workload = StockQuotes(seed=9, symbols=10, ranges=True)
    chunk = workload.subscriptions(0)
    sizes = np.diff(chunk.offsets)
    assert set(sizes.tolist()) == {3, 4}
    assert abs((sizes == 4).mean() - 0.5) < 0.03
    assert {chunk.names[i] for i in set(chunk.name_ids.tolist())} == {
        "class", "symbol", "open", "high", "low", "close", "volume",
    }  # fmt: skip
    ranged = chunk.operators == Operator.BETWEEN
    assert (chunk.string_ids[ranged] < 0).all()
    assert (chunk.numbers[ranged] < chunk.highs[ranged]).all()
    filters, quotes = chunk.filters()[:200], workload.take_publications(600)
    matched = np.mean([[f.matches(q) for q in quotes] for f in filters])
    assert 0.02 < matched < 0.08  # of at most 0.1: one symbol of ten
