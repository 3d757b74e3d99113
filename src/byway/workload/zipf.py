"""Zipf: number attributes with Zipf-distributed names and values; SIENA is one case of it.

This file decides how many constraints and attributes there are, and their names, operators and
values.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np

from byway.model.filters import TERMS_MAX
from byway.model.values import ATTRIBUTES_MAX
from byway.workload.chunks import NO_STRING, FilterChunk, Operator, PublicationChunk, row_offsets
from byway.workload.draws import (
    TABLE_SIZE_MAX,
    Integers,
    chunk_rng,
    draw_zipf,
    draw_zipf_distinct,
    zipf_mass_after,
)
from byway.workload.generator import (
    PUBLICATIONS,
    SUBSCRIPTIONS,
    Generator,
    WorkloadError,
    require,
)

EXPONENT_MAX: Final = 8.0
_NEW_NAME_MASS_MIN: Final = 0.01  # bounds how often a distinct name is drawn again


class Zipf(Generator, frozen=True, kw_only=True, tag=True):
    """Subscriptions and publications over number attributes, without end.

    A subscription has `constraints_min` to `constraints_max` constraints (uniformly), each on
    another attribute; a publication has `attributes_min` to `attributes_max` attributes. Names are
    drawn one by one, without repetition, out of `names`, the one of rank r with weight
    1 / r^`name_exponent`; the table of names is in order of rank. Values are integers
    0 … `values` - 1, value v with weight 1 / (v + 1)^`value_exponent` (0: uniform). An operator is
    `<`, `>` or BETWEEN (two values drawn and ordered) with the shares given, else `=`. Some filters
    can match nothing (`a0 < 0`), as a user's may.
    """

    names: int = 1_000
    name_exponent: float = 1.0
    values: int = 100
    value_exponent: float = 1.0
    constraints_min: int = 1
    constraints_max: int = 10
    attributes_min: int = 1
    attributes_max: int = 19
    less_share: float = 0.2
    greater_share: float = 0.2
    between_share: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require("names", self.names, 1, TABLE_SIZE_MAX)
        require("values", self.values, 1, TABLE_SIZE_MAX)
        require("name_exponent", self.name_exponent, 0, EXPONENT_MAX)
        require("value_exponent", self.value_exponent, 0, EXPONENT_MAX)
        require("constraints_max", self.constraints_max, 1, min(TERMS_MAX, self.names))
        require("constraints_min", self.constraints_min, 1, self.constraints_max)
        require("attributes_max", self.attributes_max, 1, min(ATTRIBUTES_MAX, self.names))
        require("attributes_min", self.attributes_min, 1, self.attributes_max)
        for share in ("less_share", "greater_share", "between_share"):
            require(share, getattr(self, share), 0, 1)
        total = self.less_share + self.greater_share + self.between_share
        require("sum of shares", total, 0, 1 + 1e-9)
        drawn = max(self.constraints_max, self.attributes_max)
        if zipf_mass_after(self.names, self.name_exponent, drawn - 1) < _NEW_NAME_MASS_MIN:
            raise WorkloadError("names", self.names, f"more, or flatter: {drawn} must be distinct")

    def subscriptions(self, chunk: int) -> FilterChunk:
        rng = chunk_rng(self.seed, SUBSCRIPTIONS, chunk)
        sizes = rng.integers(self.constraints_min, self.constraints_max + 1, self.ROWS)
        name_ids = draw_zipf_distinct(rng, self.names, self.name_exponent, sizes)
        operators = self._operators(rng, len(name_ids))
        numbers = self._values(rng, len(name_ids))
        highs = np.zeros(len(name_ids), np.int64)
        if self.between_share:
            between = operators == Operator.BETWEEN
            others = np.where(between, self._values(rng, len(name_ids)), numbers)
            numbers, highs = np.minimum(numbers, others), np.maximum(numbers, others) * between
        return FilterChunk(
            names=_names(self.names),
            strings=(),
            offsets=row_offsets(sizes),
            name_ids=name_ids.astype(np.int32),
            operators=operators,
            numbers=numbers.astype(np.float64),
            highs=highs.astype(np.float64),
            string_ids=np.full(len(name_ids), NO_STRING, np.int32),
        )

    def publications(self, chunk: int) -> PublicationChunk:
        rng = chunk_rng(self.seed, PUBLICATIONS, chunk)
        sizes = rng.integers(self.attributes_min, self.attributes_max + 1, self.ROWS)
        name_ids = draw_zipf_distinct(rng, self.names, self.name_exponent, sizes)
        numbers = self._values(rng, len(name_ids))
        return PublicationChunk(
            names=_names(self.names),
            strings=(),
            offsets=row_offsets(sizes),
            name_ids=name_ids.astype(np.int32),
            kinds=np.zeros(len(name_ids), np.uint8),
            numbers=numbers.astype(np.float64),
            string_ids=np.full(len(name_ids), NO_STRING, np.int32),
        )

    def _operators(self, rng: np.random.Generator, size: int) -> np.typing.NDArray[np.uint8]:
        bounds = np.cumsum([self.less_share, self.greater_share, self.between_share])
        codes = np.array(
            [Operator.LESS, Operator.GREATER, Operator.BETWEEN, Operator.EQUAL], np.uint8
        )
        return codes[np.searchsorted(bounds, rng.random(size), side="right")]

    def _values(self, rng: np.random.Generator, size: int) -> Integers:
        return draw_zipf(rng, self.values, self.value_exponent, size)


class Siena(Zipf, frozen=True, kw_only=True, tag=True):
    """The SIENA workload, as "Incremental filter aggregation" uses it for its mobile scenario:
    `Zipf` with uniform values.

    1–10 constraints, 60 % `=`, 20 % `<`, 20 % `>`, values 0–99, names Zipf out of 1,000 words;
    publications of 1–19 attributes. The paper does not say whether names repeat within a
    subscription or publication: here they do not, and are drawn one by one with rejection.
    """

    value_exponent: float = 0.0


@lru_cache(maxsize=8)
def _names(count: int) -> tuple[str, ...]:
    """Names in order of rank, which is their own order too: `a000`, `a001` …"""
    width = len(str(count - 1))
    return tuple(f"a{rank:0{width}d}" for rank in range(count))
