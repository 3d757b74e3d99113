"""The window of seen sequences against a plain set of all that was seen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byway.model.errors import BywayError
from byway.model.seen_sequences import SeenSequences


@given(
    size=st.integers(1, 9),
    sequences=st.lists(st.one_of(st.integers(1, 40), st.integers(1, 2**63 - 1)), max_size=60),
)
def test_it_answers_as_a_set_does_within_the_window_and_counts_the_rest_as_seen(
    size: int, sequences: list[int]
) -> None:
    window, seen = SeenSequences(size), set[int]()

    def is_seen(sequence: int) -> bool:
        return sequence in seen or sequence <= max(seen, default=0) - size

    for sequence in sequences:
        expected = not is_seen(sequence)
        assert (sequence not in window) is expected
        assert window.add(sequence) is expected
        seen.add(sequence)
        assert window.last == max(seen)
        assert window.mask.bit_length() <= size
        around = range(max(1, window.last - size - 2), window.last + 3)
        assert [x in window for x in around] == [is_seen(x) for x in around]


@given(
    size=st.integers(1, 9),
    before=st.lists(st.integers(1, 40), max_size=30),
    after=st.lists(st.integers(1, 40), max_size=30),
)
def test_one_that_is_built_from_last_and_mask_goes_on_the_same(
    size: int, before: list[int], after: list[int]
) -> None:
    window = SeenSequences(size)
    for sequence in before:
        window.add(sequence)
    restored = SeenSequences(size, window.last, window.mask)
    assert [restored.add(x) for x in after] == [window.add(x) for x in after]


@pytest.mark.parametrize(("size", "last", "mask"), [(0, 0, 0), (4, -1, 0), (4, 9, 16), (4, 9, -1)])
def test_it_refuses_what_is_no_window(size: int, last: int, mask: int) -> None:
    with pytest.raises(BywayError, match=f"no window of {size} sequences"):
        SeenSequences(size, last, mask)
