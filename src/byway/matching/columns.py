"""Columns: publications that lie in flat arrays, as tables hold them, encoded without a Python
object for each. The codes are those of `encoding.Codes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from byway.matching import layout as lay
from byway.matching.layout import Array
from byway.matching.vocabulary import Vocabulary
from byway.model.values import Kind, number_key

_EXACT: Final = 2**53
_NO_ROUNDING: Final = 32768 << 40
_CODES: Final = {
    Kind.BOOLEAN: lay.BOOLEAN << 32,
    Kind.NUMBER: lay.NUMBER << 32,
    Kind.STRING: lay.STRING << 32,
}
_NOT_A_NUMBER: Final = lay.NAN << 32
_NO_TEXT: Final = np.zeros(1, np.uint8)

Integers = npt.NDArray[np.int64]


class Values(NamedTuple):
    """Attributes of one kind, of many publications: row i owns the entries `offsets[i]` up to
    `offsets[i + 1]` of the other arrays."""

    kind: Kind
    offsets: Array
    names: Sequence[str]
    name_ids: Array
    """For each entry its place in `names`."""
    values: Array
    """Booleans, integers or floats; for strings the place in `strings`."""
    strings: Sequence[str] = ()


class EncodedRows(NamedTuple):
    """Publications as kernels read them."""

    starts: Integers
    codes: Integers
    nums: npt.NDArray[np.float64]
    texts: npt.NDArray[np.uint8]
    marks: Integers

    def __len__(self) -> int:
        return len(self.starts) - 1


class _Part(NamedTuple):
    rows: Array
    codes: Array
    nums: Array
    strings: Array
    """For values whose text may be looked at their place in the table of texts, else -1."""


def encode_rows(parts: Sequence[Values], vocabulary: Vocabulary) -> EncodedRows:
    """Encode publications; names that no filter uses are left out."""
    rows = len(parts[0].offsets) - 1
    texts: list[bytes] = []
    encoded = [_encoded(part, vocabulary, texts) for part in parts if len(part.name_ids)]
    if not encoded:
        return _in_rows(rows, _Part(*(np.zeros(0, kind) for kind in ("i8", "i8", "f8", "i8"))), [])
    columns = (np.concatenate(column) for column in zip(*encoded, strict=True))
    together = _Part(*columns)
    if len(encoded) > 1:
        order = np.argsort(together.rows, kind="stable")
        together = _Part(*(column[order] for column in together))
    return _in_rows(rows, together, texts)


def _in_rows(rows: int, part: _Part, texts: list[bytes]) -> EncodedRows:
    starts = np.zeros(rows + 1, np.int64)
    np.cumsum(np.bincount(part.rows, minlength=rows), out=starts[1:])
    marks = np.zeros(len(part.codes) + 1, np.int64)
    read = part.strings[part.strings >= 0]
    if not len(read):
        return EncodedRows(starts, part.codes, part.nums, _NO_TEXT, marks)
    sizes = np.array([len(text) for text in texts])
    lengths = np.where(part.strings >= 0, sizes[part.strings], 0)
    np.cumsum(lengths, out=marks[1:])
    joined = bytearray().join([texts[place] for place in read.tolist()])
    held = np.frombuffer(joined or bytearray(1), np.uint8)  # read-only, it needs kernels of its own
    return EncodedRows(starts, part.codes, part.nums, held, marks)


def _encoded(part: Values, vocabulary: Vocabulary, texts: list[bytes]) -> _Part:
    table = np.array([vocabulary.names.get(name, -1) for name in part.names], np.int64)
    numbers = table[part.name_ids]
    known = numbers >= 0
    rows = np.repeat(np.arange(len(part.offsets) - 1), np.diff(part.offsets))[known]
    numbers, values = numbers[known], part.values[known]
    codes = numbers | (_CODES[part.kind] | _NO_ROUNDING)
    strings = np.full(len(numbers), -1)
    if part.kind is Kind.STRING:
        read = np.array([name in vocabulary.text_names for name in table.tolist()], bool)
        strings = np.where(read[part.name_ids][known], values + len(texts), -1)
        texts += [text.encode() for text in part.strings]
        ids = [vocabulary.strings.get(text, -1) for text in part.strings]
        return _Part(rows, codes, np.array(ids, np.float64)[values], strings)
    nums = values.astype(np.float64)
    if part.kind is Kind.NUMBER:
        _mend_numbers(numbers, values, codes, nums)
    return _Part(rows, codes, nums, strings)


def _mend_numbers(numbers: Integers, values: Array, codes: Integers, nums: Any) -> None:
    """NaN is a kind of its own, and large integers say what rounding lost."""
    if values.dtype.kind == "f":
        lost = np.isnan(values)
        codes[lost] = numbers[lost] | (_NOT_A_NUMBER | _NO_ROUNDING)
        return
    for place in np.flatnonzero((values > _EXACT) | (values < -_EXACT)).tolist():
        nearest, rest = number_key(int(values[place]))
        nums[place] = nearest
        codes[place] = int(numbers[place]) | _CODES[Kind.NUMBER] | (rest + 32768) << 40
