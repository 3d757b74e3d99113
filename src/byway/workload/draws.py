"""Draws: the random numbers of one chunk, and the few distributions that generators share.

Everything is made of integers, uniform floats and the four basic operations, which IEEE 754 rounds
the same way everywhere. Logarithms, exponentials and matrix products are avoided: libraries differ
in their last bit. (The one power, in the Zipf table, is cut to 40 bits, and a differing last bit
there would move one draw in 10^12.) This file knows nothing of attributes or filters.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

SEED_MAX: Final = 2**32 - 1  # one word of a SeedSequence each, so that no two triples collide
TABLE_SIZE_MAX: Final = 1_000_000

_WEIGHT_BITS: Final = 40


def chunk_rng(seed: int, stream: int, chunk: int) -> np.random.Generator:
    """The generator of one chunk of one stream of a seed; each number within 0 … `SEED_MAX`."""
    assert all(0 <= word <= SEED_MAX for word in (seed, stream, chunk))
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, stream, chunk])))


def numbered_integers(
    seed: int, stream: int, numbers: Integers, columns: int, block_rows: int
) -> Integers:
    """The rows with these ascending numbers of an endless table of integers below 2^31.

    Row `i` is a function of (seed, stream, i), so any rows can be had without those before them;
    the table is drawn in blocks of `block_rows` rows, and only the blocks that are touched are.
    """
    blocks = numbers // block_rows
    ends = np.flatnonzero(np.diff(blocks)) + 1
    rows = [
        chunk_rng(seed, stream, int(part[0]) // block_rows).integers(
            0, 2**31, (block_rows, columns)
        )[part % block_rows]
        for part in np.split(numbers, ends)
        if len(part)
    ]
    return np.concatenate(rows) if rows else np.empty((0, columns), np.int64)


def below(raw: Integers, bounds: Integers | int) -> Integers:
    """Integers 0 … bounds - 1 from integers below 2^31 (bounds up to 2^31; bias at most 2^-31)."""
    return (raw * bounds) >> 31


def bell(rng: np.random.Generator, shape: int | tuple[int, ...]) -> Floats:
    """Nearly normal draws, mean 0, variance 1, within ±3.47: the sum of four uniform ones."""
    raw = rng.integers(0, 2**64, shape, dtype=np.uint64)
    quarters = raw.view(np.uint16).reshape(*raw.shape, 4)  # their order does not matter
    total: Floats = quarters.sum(axis=-1, dtype=np.float64)  # exact
    return (total - 131_070.0) * (1.7320508075688772 / 65_536.0)


def growth(rate: Floats) -> Floats:
    """Nearly exp(rate), for |rate| up to about 5: a rate compounded 1,024 times."""
    factor: Floats = 1.0 + rate / 1_024.0
    for _ in range(10):
        factor = factor * factor
    return factor


# --- Zipf ------------------------------------------------------------------------------------


@lru_cache(maxsize=32)
def zipf_table(count: int, exponent: float) -> Integers:
    """Cumulative integer weights of ranks 0 … count - 1, rank r weighing 1 / (r + 1)^exponent."""
    weights = [int(2**_WEIGHT_BITS / rank**exponent) for rank in range(1, count + 1)]
    table = np.cumsum(np.array(weights, np.int64))
    table.setflags(write=False)
    return table


def draw_zipf(rng: np.random.Generator, count: int, exponent: float, size: int) -> Integers:
    """Ranks by the exact probabilities (inverse of the table); exponent 0 is uniform."""
    if exponent == 0:
        return rng.integers(0, count, size)
    table = zipf_table(count, exponent)
    return np.searchsorted(table, rng.integers(0, table[-1], size), side="right")


def draw_zipf_distinct(
    rng: np.random.Generator, count: int, exponent: float, sizes: Integers
) -> Integers:
    """For each size so many distinct Zipf ranks, concatenated, ascending within each row.

    The law is that of drawing one by one and rejecting what the row has already. Here all are drawn
    at once, and of equal ones all but the first are drawn again until none are left. That is the
    same law: a rank that has entered a row stays in it, at that place or an earlier one, so a place
    never rejects a rank that it would not have met in the end.
    """
    rows = np.repeat(np.arange(len(sizes)), sizes)
    keys = rows * count + draw_zipf(rng, count, exponent, len(rows))
    suspects = np.arange(len(rows))
    while True:
        order = suspects[np.argsort(keys[suspects], kind="stable")]
        again = order[1:][keys[order[1:]] == keys[order[:-1]]]
        if not len(again):
            break
        keys[again] = rows[again] * count + draw_zipf(rng, count, exponent, len(again))
        unsure = np.zeros(len(sizes), bool)
        unsure[rows[again]] = True
        suspects = suspects[unsure[rows[suspects]]]
    keys.sort()
    return keys - rows * count


def zipf_mass_after(count: int, exponent: float, drawn: int) -> float:
    """The probability of a new rank when the `drawn` likeliest are taken: the worst case above."""
    table: npt.NDArray[Any] = zipf_table(count, exponent)
    return float(1 - table[drawn - 1] / table[-1]) if drawn else 1.0
