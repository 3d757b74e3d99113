"""Chunks: from flat arrays to model objects and back to texts."""

import numpy as np
import pytest

from byway.model import Filter
from byway.model.constraints import equal_to, number_range
from byway.workload import FilterChunk, Operator, PublicationChunk, ValueKind


def publication_chunk() -> PublicationChunk:
    return PublicationChunk(
        names=("price", "symbol", "volume"),
        strings=("IBM", "YHOO"),
        offsets=np.array([0, 3, 3, 4], np.int32),
        name_ids=np.array([1, 0, 2, 0], np.int32),
        kinds=np.array(
            [ValueKind.STRING, ValueKind.FLOAT, ValueKind.INTEGER, ValueKind.FLOAT], np.uint8
        ),
        numbers=np.array([0, 18.37, 6200, 7.0]),
        string_ids=np.array([1, -1, -1, -1], np.int32),
    )


def filter_chunk() -> FilterChunk:
    entries = [
        # name, operator, number, high, string
        (0, Operator.GREATER, 18.5, 0, -1),
        (1, Operator.EQUAL, 0, 0, 1),
        (0, Operator.BETWEEN, 1, 2.5, -1),
        (2, Operator.LESS_EQUAL, 6200, 0, -1),
        (0, Operator.BETWEEN, 4, 4, -1),
        (2, Operator.LESS, -3, 0, -1),
        (0, Operator.EQUAL, 7, 0, -1),
        (2, Operator.GREATER_EQUAL, 0.25, 0, -1),
    ]
    columns = list(zip(*entries, strict=True))
    return FilterChunk(
        names=("price", "symbol", "volume"),
        strings=("IBM", "YHOO"),
        offsets=np.array([0, 2, 4, 6, 8, 8], np.int32),
        name_ids=np.array(columns[0], np.int32),
        operators=np.array(columns[1], np.uint8),
        numbers=np.array(columns[2], np.float64),
        highs=np.array(columns[3], np.float64),
        string_ids=np.array(columns[4], np.int32),
    )


def test_publications_keep_kinds_and_order() -> None:
    publications = publication_chunk().publications()
    assert repr(publications) == repr(
        [{"symbol": "YHOO", "price": 18.37, "volume": 6200}, {}, {"price": 7.0}]
    )


def test_filters_equal_those_of_the_model() -> None:
    expected = [
        {"price": number_range(low=18.5, low_open=True), "symbol": equal_to("YHOO")},
        {"price": number_range(1, False, 2.5, False), "volume": number_range(high=6200)},
        {"price": equal_to(4), "volume": number_range(high=-3, high_open=True)},
        {"price": equal_to(7), "volume": number_range(low=0.25)},
        {},
    ]
    filters = filter_chunk().filters()
    assert filters == [Filter.where(constraints) for constraints in expected]  # type: ignore[arg-type]
    assert repr(filters[3].conjunctions[0].terms[0][1].values) == "(7,)"  # type: ignore[union-attr]


def test_texts() -> None:
    assert filter_chunk().texts() == [
        "price > 18.5 AND symbol = 'YHOO'",
        "price BETWEEN 1 AND 2.5 AND volume <= 6200",
        "price = 4 AND volume < -3",
        "price = 7 AND volume >= 0.25",
        "TRUE",
    ]


@pytest.mark.parametrize(("start", "stop"), [(0, 5), (1, 3), (2, 2), (4, 9), (3, 1), (7, 9)])
def test_a_slice_is_those_rows(start: int, stop: int) -> None:
    filters, publications = filter_chunk(), publication_chunk()
    assert filters.slice(start, stop).filters() == filters.filters()[start:stop]
    found = publications.slice(start, stop).publications()
    assert found == publications.publications()[start:stop]


def test_repr_tells_sizes() -> None:
    assert repr(filter_chunk()) == "FilterChunk(5 filters, 8 constraints)"
    assert repr(publication_chunk()) == "PublicationChunk(3 publications, 4 attributes)"


def test_arrays_that_do_not_fit_are_noticed() -> None:
    with pytest.raises(AssertionError):
        PublicationChunk(
            (), (), np.array([0, 1], np.int32), np.zeros(1, np.int32),
            np.zeros(2, np.uint8), np.zeros(1), np.zeros(1, np.int32),
        )  # fmt: skip
