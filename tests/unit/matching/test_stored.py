"""Stored indexes: what a file holds, who shares it, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

from byway.matching import stored
from byway.matching.columns import Values, encode_rows
from byway.matching.stored import IndexBuilder, StoredIndex, StoredIndexError
from byway.model import parse
from byway.model.values import Kind


def build(path: Path, *texts: str) -> Path:
    builder = IndexBuilder()
    for text in texts:
        builder.add(parse(text))
    builder.store(path)
    return path


def matches(index: StoredIndex, number: int) -> list[int]:
    offsets, name_ids = np.array([0, 1]), np.array([0])
    values = Values(Kind.NUMBER, offsets, ["a"], name_ids, np.array([number]))
    rows = encode_rows([values], index.vocabulary)
    return sorted(key for _, keys, _ in index.match(rows) for key in keys.tolist())


def test_processes_share_a_file_that_nobody_changes(tmp_path: Path) -> None:
    path = build(tmp_path / "an.index", "a > 1", "a > 2 OR b = 1", "a = 3", "FALSE", "TRUE")
    before = path.read_bytes()
    first, second = StoredIndex(path), StoredIndex(path)
    assert matches(first, 3) == [0, 1, 2, 4]
    assert matches(second, 2) == [0, 4]
    assert matches(first, 0) == [4]
    assert path.read_bytes() == before
    assert len(first) == 5
    assert repr(first) == f"StoredIndex({str(path)!r}, 5 filters)"


def test_an_index_without_filters_can_be_stored(tmp_path: Path) -> None:
    index = StoredIndex(build(tmp_path / "an.index"))
    assert (len(index), matches(index, 1)) == (0, [])


def test_a_builder_tells_how_large_it_is() -> None:
    builder = IndexBuilder()
    small = builder.memory_bytes
    for number in range(5_000):
        builder.add(parse(f"a = {number}"))
    assert len(builder) == 5_000
    assert builder.memory_bytes > small + 5_000 * 50


def test_what_is_no_index_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "an.index"
    for content in (b"something else, long enough", b"BYWAYIX1" + b"\xff" * 16):
        path.write_bytes(content)
        with pytest.raises(StoredIndexError, match="this is no index"):
            StoredIndex(path)
    build(path, "a = 1")
    monkeypatch.setattr(stored, "_layout", lambda: "of the next version")
    with pytest.raises(StoredIndexError, match="stored by another version of byway"):
        StoredIndex(path)
