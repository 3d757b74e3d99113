"""A stored index, and publications that lie in columns, give the answers of the naive oracle."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from byway.matching import NaiveIndex
from byway.matching.columns import EncodedRows, Values, encode_rows
from byway.matching.encoding import Codes
from byway.matching.stored import IndexBuilder, StoredIndex
from byway.matching.vocabulary import Vocabulary
from byway.model import Filter, Value
from byway.model.values import Kind
from tests.strategies import filters, publications

Publications = list[dict[str, Value]]
KINDS: dict[type, tuple[Kind, str]] = {
    int: (Kind.NUMBER, "i8"),
    float: (Kind.NUMBER, "f8"),
    bool: (Kind.BOOLEAN, "?"),
    str: (Kind.STRING, "i8"),
}


def column(rows: Publications, kind: type) -> Values:
    """The attributes of one kind."""
    entries = [[(n, v) for n, v in row.items() if type(v) is kind] for row in rows]
    flat = [entry for row in entries for entry in row]
    names = sorted({name for name, _ in flat})
    strings = sorted({str(value) for _, value in flat}) if kind is str else []
    values = [strings.index(str(value)) if kind is str else value for _, value in flat]
    tag, dtype = KINDS[kind]
    return Values(
        tag,
        np.cumsum([0, *map(len, entries)]),
        names,
        np.array([names.index(name) for name, _ in flat], np.int64),
        np.array(values, dtype),
        strings,
    )


def in_columns(rows: Publications, vocabulary: Vocabulary) -> EncodedRows:
    return encode_rows([column(rows, kind) for kind in KINDS], vocabulary)


def stored(path: Path, wanted: Sequence[Filter], sample: Publications) -> StoredIndex:
    builder = IndexBuilder()
    for filter in wanted:
        builder.add(filter)
    builder.learn(sample)
    builder.store(path)
    return StoredIndex(path)


@settings(max_examples=60)
@given(st.lists(filters(), max_size=12), st.lists(publications(), max_size=12))
def test_answers_are_those_of_the_oracle(
    tmp_path_factory: pytest.TempPathFactory, wanted: list[Filter], rows: Publications
) -> None:
    index = stored(tmp_path_factory.mktemp("index") / "an.index", wanted, rows[:3])
    oracle = NaiveIndex()
    for key, filter in enumerate(wanted):
        oracle.add(key, filter)
    encoded = in_columns(rows, index.vocabulary)
    by_key = np.zeros(len(wanted), np.int64)
    expected = [oracle.match(row) for row in rows]
    for _ in range(2):  # matching leaves nothing behind
        answers: list[list[int]] = []
        for first, keys, counts in index.match(encoded):
            assert first == len(answers)
            ends = np.cumsum(counts).tolist()
            answers += [sorted(keys[a:b].tolist()) for a, b in zip([0, *ends], ends, strict=False)]
        assert answers == expected
    assert index.count(encoded, by_key).tolist() == [len(keys) for keys in expected]
    assert by_key.tolist() == [sum(key in keys for keys in expected) for key in range(len(wanted))]
    assert len(index) == len(wanted)


@given(st.lists(filters(), max_size=8), st.lists(publications(), max_size=8))
def test_columns_are_encoded_as_objects_are(wanted: list[Filter], rows: Publications) -> None:
    builder = IndexBuilder()
    for filter in wanted:
        builder.add(filter)
    vocabulary = builder._index.vocabulary
    found = in_columns(rows, vocabulary)
    assert len(found) == len(rows)
    for number, row in enumerate(rows):
        codes = Codes()
        codes.put(row, vocabulary)
        expected_codes, nums, marks = codes.arrays()
        ends = marks if codes.texts else [0] * (len(expected_codes) + 1)
        expected = {
            (code, repr(num), bytes(codes.texts[ends[i] : ends[i + 1]]))
            for i, (code, num) in enumerate(zip(expected_codes, nums, strict=True))
        }
        start, end = found.starts[number : number + 2].tolist()
        assert expected == {
            (
                int(found.codes[i]),
                repr(float(found.nums[i])),
                found.texts[found.marks[i] : found.marks[i + 1]].tobytes(),
            )
            for i in range(start, end)
        }
