"""Turns the rows of a user's frame into publications or subscriptions.

It decides what a publication or a subscription is made of, and rejects rows that are neither. Where
rows come from and go to is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec
import pyarrow as pa

from byway.model import BywayError
from byway.model.errors import InvalidValueError
from byway.model.values import ATTRIBUTES_MAX, check_name
from byway.pipeline.bulk_matching.filter_texts import FilterTexts
from byway.pipeline.importing.types import Type, can_fail, cell_of, declared, reason_of, value_of
from byway.pipeline.pipeline_errors import TableError
from byway.pipeline.schemas import TableSchema
from byway.pipeline.workload_schemas import PUBLICATIONS, SUBSCRIPTIONS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Kind = Literal["publications", "subscriptions"]
TABLES: Final[dict[Kind, TableSchema]] = {
    "publications": PUBLICATIONS,
    "subscriptions": SUBSCRIPTIONS,
}
REASON: Final = "reason"
"""The column that says why a row was rejected; null: it was not."""
_MAPS: Final = {
    "integers": Type.INTEGER,
    "numbers": Type.NUMBER,
    "strings": Type.STRING,
    "booleans": Type.BOOLEAN,
}
_ROW: Final = "_whole"
_NUMBER: Final = "_id"
_FAULT: Final = "_wrong"
_FILTER: Final = "_filter"
_BARRIER: Final = "_barrier"
"""A column that is not deterministic. Spark pushes no condition below it, where it would compute
the reasons twice."""


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """How the columns are used. A column has one use at most."""

    kind: Kind
    id: str | None = None
    """The column with the ids; None: rows are numbered."""
    broker: str | None = None
    filter: str | None = None
    attributes: dict[str, Type] = {}


class Imported(NamedTuple):
    """Rows of a user's frame as a table, and those that were rejected. Nothing is computed before
    one of the two is used."""

    rows: DataFrame
    rejects: DataFrame
    """The columns of the user's frame, and the `reason`."""


def publications_from(
    frame: DataFrame,
    columns: Mapping[str, Type | str] | Iterable[str] | None = None,
    *,
    id: str | None = None,
    broker: str | None = None,
) -> Imported:
    """Publications of a frame: each row is one, each of the `columns` an attribute, by default
    every column. A null, or an empty string, is an absent attribute.

    `columns` may say the type of each (integer, number, string, boolean or skip); else it is that
    of the frame. `id` names the column with the numbers of the publications, which must be unique;
    without it they get unique numbers. `broker` names the column with their brokers. Raises
    `TableError` with the column at fault.
    """
    taken = (id, broker)
    if columns is None:
        columns = [name for name in frame.columns if name not in taken]
    given = dict(columns) if isinstance(columns, Mapping) else dict.fromkeys(columns)
    _check_names(frame, (*given, id, broker))
    of = {field.name: field.dataType for field in frame.schema}
    attributes: dict[str, Type] = {}
    for name, type_ in given.items():
        found = Type(type_) if type_ is not None else declared(of[name])
        if found is None:
            reason = f"column {name!r} is {of[name].simpleString()}, which no attribute can hold"
            raise TableError("the frame", f"{reason}; declare its type, string or skip")
        attributes[name] = found
    layout = Layout(kind="publications", id=id, broker=broker, attributes=attributes)
    check_attribute_names("the frame", layout)
    return _imported(frame, layout)


def subscriptions_from(
    frame: DataFrame, column: str = "filter", *, id: str | None = None, broker: str | None = None
) -> Imported:
    """Subscriptions of a frame: each row is one, with the filter in `column`.

    `id` and `broker` are as for publications. A row whose filter cannot be read is rejected.
    """
    _check_names(frame, (column, id, broker))
    return _imported(frame, Layout(kind="subscriptions", id=id, broker=broker, filter=column))


def _imported(frame: DataFrame, layout: Layout) -> Imported:
    from pyspark.sql import functions as sql

    columns = {name: frame[_quoted(name)] for name in frame.columns}
    number = sql.monotonically_increasing_id() + 1
    whole = sql.struct(*columns.values()).alias(_ROW)
    marked = marked_rows(frame, columns, number, layout, kept=[whole])
    good = marked.where(is_good()).select(*TABLES[layout.kind].names)
    return Imported(good, marked.where(is_bad()).select(f"{_ROW}.*", REASON))


def is_good() -> Column:
    """Whether a marked row was not rejected."""
    from pyspark.sql import functions as sql

    return sql.col(REASON).isNull() & (sql.col(_BARRIER) >= 0)


def is_bad() -> Column:
    """Whether a marked row was rejected."""
    from pyspark.sql import functions as sql

    return sql.col(REASON).isNotNull() & (sql.col(_BARRIER) >= 0)


def marked_rows(
    frame: DataFrame,
    cells: Mapping[str, Column],
    number: Column,
    layout: Layout,
    fault: Column | None = None,
    kept: Sequence[Column] = (),
) -> DataFrame:
    """The columns of the table, the `reason`, and those that are `kept`, of the cells of a frame.
    `number` is the id of a row if rows are numbered; `fault` is what is wrong with the row as a
    whole, null: nothing."""
    from pyspark.sql import functions as sql

    wanted = {name: type_ for name, type_ in layout.attributes.items() if type_ is not Type.SKIP}
    if layout.id is not None:
        wanted[layout.id] = Type.INTEGER
    if layout.broker is not None:
        wanted[layout.broker] = Type.STRING
    used = [name for name in (layout.filter, *wanted) if name is not None and name in cells]
    of = {
        name: field.dataType
        for name, field in zip(
            used, frame.select(*(cells[name] for name in used)).schema, strict=True
        )
    }
    # a step of its own, so that what several others need is computed once
    own = {name: f"_{place}" for place, name in enumerate(wanted) if name in cells}
    no_fault = sql.lit(None).cast("string")
    values = []
    for name, column in own.items():
        cell = cell_of(cells[name], of[name])
        value = value_of(cell, of[name], wanted[name])
        values.append(value.alias(f"{column}v"))
        if can_fail(of[name], wanted[name]):
            values.append(cell.alias(f"{column}c"))
    if layout.filter is not None:
        values.append(cells[layout.filter].cast("string").alias(_FILTER))
    fault = (no_fault if fault is None else fault).alias(_FAULT)
    step = frame.select(*kept, number.alias(_NUMBER), fault, *values)
    names = step.columns[: len(kept)]

    reasons = [sql.col(_FAULT)]
    for name, column in own.items():
        if not can_fail(of[name], wanted[name]):
            continue
        told = reason_of(step[f"{column}c"], step[f"{column}v"], of[name], wanted[name])
        reasons.append(sql.concat(sql.lit(f"{name}: "), told))  # null with a null in it
    id, broker = sql.col(_NUMBER), no_fault
    if layout.id is not None:
        id = step[f"{own[layout.id]}v"]
        reasons.append(sql.when(id.isNull(), f"{layout.id}: it has no number"))
    if layout.broker in own:
        broker = step[f"{own[layout.broker]}v"]
    found = [id.alias("id"), broker.alias("broker")]
    if layout.filter is not None:
        found.append(sql.col(_FILTER).alias("filter"))
        reasons.append(_filter_reason(layout.filter))
    else:
        maps = {
            name: _map(
                name,
                {
                    attribute: step[f"{own[attribute]}v"]
                    for attribute, its in layout.attributes.items()
                    if its is type_ and attribute in own
                },
            )
            for name, type_ in _MAPS.items()
        }
        if len(layout.attributes) > ATTRIBUTES_MAX:
            reasons.append(_too_many(maps.values()))
        found += [column.alias(name) for name, column in maps.items()]
    reason = sql.coalesce(*reasons, no_fault).alias(REASON)
    return step.select(*names, *found, reason, sql.spark_partition_id().alias(_BARRIER))


def _filter_reason(name: str) -> Column:
    from pyspark.sql import functions as sql
    from pyspark.sql.pandas.functions import arrow_udf

    told = arrow_udf(filter_reasons, "string")  # type: ignore[call-overload]
    reason: Column = told(sql.col(_FILTER), sql.lit(name))
    return reason


def _map(name: str, values: Mapping[str, Column]) -> Column:
    """A map column of the values that are not null."""
    from pyspark.sql import functions as sql

    type_ = next(str(column.type) for column in PUBLICATIONS.columns if column.name == name)
    if not values:
        return sql.create_map().cast(type_)
    entries = [
        sql.when(value.isNotNull(), sql.struct(sql.lit(key).alias("key"), value.alias("value")))
        for key, value in values.items()
    ]
    there = sql.array_compact(sql.array(*entries))
    return sql.map_from_entries(there).cast(type_)


def _too_many(maps: Iterable[Column]) -> Column:
    from pyspark.sql import functions as sql

    count = sum(map(sql.size, maps), sql.lit(0))
    told = f" attributes, but a publication has at most {ATTRIBUTES_MAX}"
    return sql.when(count > ATTRIBUTES_MAX, sql.concat(count.cast("string"), sql.lit(told)))


def filter_reasons(texts: pa.Array, names: pa.Array) -> pa.Array:
    """Run in a worker: why filters cannot be read, with the name of their column."""
    column = names[0].as_py() if len(names) else ""
    found = map(why_no_filter, texts.to_pylist())
    return pa.array([why and f"{column}: {why}" for why in found], pa.string())


def why_no_filter(text: str | None) -> str | None:
    """Why a text is no filter, in a line; None if it is one."""
    if text is None or not text.strip():
        return "there is no filter"
    try:
        _filter_texts().read(text)
    except BywayError as error:
        return str(error).partition("\n")[0]
    return None


@cache
def _filter_texts() -> FilterTexts:
    """The parser of this worker, which remembers what it has seen in other tasks."""
    return FilterTexts()


def check_attribute_names(place: object, layout: Layout) -> None:
    """Raise `TableError` with a column that cannot be an attribute because of its name."""
    for name, type_ in layout.attributes.items():
        try:
            if type_ is not Type.SKIP:
                check_name(name)
        except InvalidValueError as error:
            raise TableError(place, f"column {name!r}: {error}") from None


def _check_names(frame: DataFrame, names: Iterable[str | None]) -> None:
    for name in names:
        if name is not None and name not in frame.columns:
            known = ", ".join(frame.columns)
            raise TableError("the frame", f"there is no column {name!r}; it has {known}")


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
