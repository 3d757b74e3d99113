"""Draws: exact laws, and rows that can be had without those before them."""

from itertools import permutations

import numpy as np
import pytest

from byway.workload.draws import (
    bell,
    below,
    chunk_rng,
    draw_zipf,
    draw_zipf_distinct,
    growth,
    numbered_integers,
    zipf_mass_after,
    zipf_table,
)


def test_zipf_table_is_the_exact_law() -> None:
    weights = np.diff(zipf_table(1_000, 1.0), prepend=0)
    assert np.allclose(weights / weights[0], 1 / np.arange(1, 1_001), rtol=1e-8)
    weights = np.diff(zipf_table(10, 0.5), prepend=0)
    assert np.allclose(weights / weights[0], np.arange(1, 11) ** -0.5, rtol=1e-8)


@pytest.mark.parametrize("exponent", [0.0, 0.8, 1.0, 2.5])
def test_zipf_draws_follow_the_table(exponent: float) -> None:
    draws = draw_zipf(chunk_rng(1, 0, 0), 20, exponent, 100_000)
    probabilities = np.arange(1, 21) ** -exponent
    expected = probabilities / probabilities.sum() * 100_000
    found = np.bincount(draws, minlength=20)
    assert (np.abs(found - expected) < 5 * np.sqrt(expected) + 1).all()


def test_distinct_draws_are_distinct_and_sorted() -> None:
    rng = chunk_rng(2, 0, 0)
    sizes = rng.integers(0, 20, 3_000)
    draws = draw_zipf_distinct(rng, 1_000, 1.0, sizes)
    assert len(draws) == sizes.sum()
    for row in np.split(draws, np.cumsum(sizes)[:-1]):
        assert (np.diff(row) > 0).all()


def test_distinct_draws_have_the_law_of_drawing_one_by_one() -> None:
    count, size, rows = 5, 3, 60_000
    p = 1 / np.arange(1, count + 1)
    p /= p.sum()
    expected: dict[tuple[int, ...], float] = {}
    for a, b, c in permutations(range(count), size):
        chance = p[a] * p[b] / (1 - p[a]) * p[c] / (1 - p[a] - p[b])
        key = tuple(sorted((a, b, c)))
        expected[key] = expected.get(key, 0.0) + chance
    draws = draw_zipf_distinct(chunk_rng(3, 0, 0), count, 1.0, np.full(rows, size))
    found, times = np.unique(draws.reshape(rows, size), axis=0, return_counts=True)
    assert {tuple(row) for row in found.tolist()} == set(expected)
    for row, number in zip(found.tolist(), times.tolist(), strict=True):
        wanted = expected[tuple(row)] * rows
        assert abs(number - wanted) < 5 * np.sqrt(wanted)


def test_all_of_few_names_can_be_drawn() -> None:
    draws = draw_zipf_distinct(chunk_rng(4, 0, 0), 6, 1.0, np.full(100, 6))
    assert (draws.reshape(100, 6) == np.arange(6)).all()


def test_mass_after() -> None:
    assert zipf_mass_after(4, 0.0, 3) == 0.25
    assert zipf_mass_after(4, 0.0, 0) == 1.0


def test_numbered_integers_are_a_function_of_the_number() -> None:
    everything = numbered_integers(5, 9, np.arange(1_000), 3, 64)
    assert everything.shape == (1_000, 3)
    for numbers in (np.arange(60, 70), np.array([0, 63, 64, 65, 999]), np.array([], np.int64)):
        assert (numbered_integers(5, 9, numbers, 3, 64) == everything[numbers]).all()


def test_below_reaches_both_ends() -> None:
    raw = np.array([0, 2**31 - 1])
    assert below(raw, 10).tolist() == [0, 9]
    assert below(raw, np.array([7, 2**31])).tolist() == [0, 2**31 - 1]


def test_bell_and_growth() -> None:
    draws = bell(chunk_rng(6, 0, 0), (100, 1_000))
    assert draws.shape == (100, 1_000)
    assert abs(draws.mean()) < 0.02
    assert abs(draws.std() - 1) < 0.01
    assert np.abs(draws).max() < 3.47
    rates = np.linspace(-1, 1, 11)
    assert np.allclose(growth(rates), np.exp(rates), rtol=1e-3)
