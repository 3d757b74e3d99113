"""Turns chunks of a workload into rows of its tables: subscriptions, publications, schedule.

Whole chunks at a time; no filter or publication becomes a Python object on the way.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from byway.model.writing import name_text, value_text
from byway.pipeline.workload_schemas import PUBLICATIONS, SCHEDULE, SUBSCRIPTIONS
from byway.workload import FilterChunk, Operator, PublicationChunk, ScheduleChunk, ValueKind
from byway.workload.chunks import NO_STRING, NOWHERE, Array, FloatArray

_OPERATORS: Final = {
    Operator.EQUAL: " = ",
    Operator.LESS: " < ",
    Operator.LESS_EQUAL: " <= ",
    Operator.GREATER: " > ",
    Operator.GREATER_EQUAL: " >= ",
    Operator.BETWEEN: " BETWEEN ",
}
_TRUE: Final = "TRUE"


def subscription_rows(first: int, chunk: FilterChunk, brokers: Any) -> Any:
    """A table of the chunk's subscriptions, numbered from `first`; `brokers`: one each, or null."""
    ids = pa.array(np.arange(first, first + len(chunk)))
    columns = [ids, brokers, filter_texts(chunk)]
    return pa.Table.from_arrays(columns, schema=SUBSCRIPTIONS.arrow_schema())


def publication_rows(first: int, chunk: PublicationChunk, brokers: Any) -> Any:
    """A table of the chunk's publications, numbered from `first`; `brokers`: one each, or null."""
    ids = pa.array(np.arange(first, first + len(chunk)))
    names, strings = _array(chunk.names), _array(chunk.strings)
    maps = []
    for kind in (ValueKind.INTEGER, ValueKind.FLOAT, ValueKind.STRING):
        mask = chunk.kinds == kind
        numbers = chunk.numbers[mask]
        if kind == ValueKind.INTEGER:
            values = pa.array(numbers.astype(np.int64))
        elif kind == ValueKind.FLOAT:
            values = pa.array(numbers)
        else:
            values = strings.take(pa.array(chunk.string_ids[mask]))
        maps.append(_map(chunk.offsets, mask, names.take(pa.array(chunk.name_ids[mask])), values))
    nothing = pa.array([], pa.string()), pa.array([], pa.bool_())
    maps.append(_map(chunk.offsets, np.zeros(len(chunk.kinds), bool), *nothing))
    return pa.Table.from_arrays([ids, brokers, *maps], schema=PUBLICATIONS.arrow_schema())


def schedule_rows(chunk: ScheduleChunk, names: tuple[str, ...]) -> Any:
    """A table of where and when the chunk's subscriptions join and leave."""
    columns = [
        pa.array(chunk.times_us),
        pa.array(chunk.rows),
        broker_column(chunk.leaves, names),
        broker_column(chunk.joins, names),
    ]
    return pa.Table.from_arrays(columns, schema=SCHEDULE.arrow_schema())


def broker_column(numbers: Array | None, names: tuple[str, ...], rows: int = 0) -> Any:
    """The names of brokers; null where there is none. Without `numbers`, `rows` nulls."""
    if numbers is None:
        return pa.nulls(rows, pa.string())
    return _array(names).take(pa.array(numbers, mask=numbers == NOWHERE))


def _map(offsets: Array, mask: Array, keys: Any, values: Any) -> Any:
    """A map column of the entries that `mask` chooses, where rows begin at `offsets` of all."""
    chosen = np.concatenate([[0], np.cumsum(mask)])[offsets].astype(np.int32)
    return pa.MapArray.from_arrays(pa.array(chosen), keys, values)


# --- texts ------------------------------------------------------------------------------------


def filter_texts(chunk: FilterChunk) -> Any:
    """The filter texts of a chunk, equal to `chunk.texts()`, as an Arrow array."""
    empty = (chunk.operators == Operator.BETWEEN) & (chunk.numbers == chunk.highs)
    operators = np.where(empty, np.uint8(Operator.EQUAL), chunk.operators)
    names = _name_texts(chunk.names).take(pa.array(chunk.name_ids))
    between = operators == Operator.BETWEEN
    parts = [names, _operator_texts().take(pa.array(operators)), _value_texts(chunk)]
    if between.any():
        highs = pc.binary_join_element_wise(" AND ", number_texts(chunk.highs), "")
        parts.append(pc.if_else(pa.array(between), highs, ""))
    predicates = pc.binary_join_element_wise(*parts, "")
    texts = pc.binary_join(pa.ListArray.from_arrays(pa.array(chunk.offsets), predicates), " AND ")
    unconstrained = np.diff(chunk.offsets) == 0
    return pc.if_else(pa.array(unconstrained), _TRUE, texts) if unconstrained.any() else texts


def _value_texts(chunk: FilterChunk) -> Any:
    is_string = chunk.string_ids != NO_STRING
    numbers = number_texts(chunk.numbers)
    if not is_string.any():
        return numbers
    ids = pa.array(np.where(is_string, chunk.string_ids, 0))
    return pc.if_else(pa.array(is_string), _string_texts(chunk.strings).take(ids), numbers)


def number_texts(numbers: FloatArray) -> Any:
    """Numbers as filters write them: integral ones as integers."""
    whole = numbers == np.floor(numbers)
    integers = pc.cast(pa.array(np.where(whole, numbers, 0.0).astype(np.int64)), pa.string())
    if whole.all():
        return integers
    among, places = np.unique(numbers, return_inverse=True)
    texts = pa.array([value_text(number) for number in among.tolist()])
    return pc.if_else(pa.array(whole), integers, texts.take(pa.array(places)))


@lru_cache(maxsize=16)
def _array(strings: tuple[str, ...]) -> Any:
    return pa.array(strings, pa.string())


@lru_cache(maxsize=16)
def _name_texts(names: tuple[str, ...]) -> Any:
    return pa.array([name_text(name) for name in names], pa.string())


@lru_cache(maxsize=16)
def _string_texts(strings: tuple[str, ...]) -> Any:
    return pa.array([value_text(string) for string in strings], pa.string())


@lru_cache(maxsize=1)
def _operator_texts() -> Any:
    return pa.array([_OPERATORS[operator] for operator in Operator])
