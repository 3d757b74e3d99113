"""Turns the rows of a user's frame into publications or subscriptions.

It decides what a publication or a subscription is made of, and rejects rows that are neither. Where
rows come from and go to is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec

from byway.model import BywayError
from byway.model.errors import InvalidValueError
from byway.model.values import ATTRIBUTES_MAX, check_name
from byway.pipeline.bulk_matching.filter_texts import FilterTexts
from byway.pipeline.importing.types import Type, declared, value_and_reason
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
_ROW: Final = "_row"


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
    numbered = frame.select(sql.struct(*columns.values()).alias(_ROW), number.alias("_number"))
    cells = {name: numbered[_ROW].getField(name) for name in columns}
    marked = numbered.select(_ROW, *table_columns(numbered, cells, numbered["_number"], layout))
    good = marked.where(sql.col(REASON).isNull()).select(*TABLES[layout.kind].names)
    bad = marked.where(sql.col(REASON).isNotNull())
    return Imported(good, bad.select(f"{_ROW}.*", REASON))


def table_columns(
    frame: DataFrame,
    cells: Mapping[str, Column],
    number: Column,
    layout: Layout,
    fault: Column | None = None,
) -> list[Column]:
    """The columns of the table, and the `reason`, of cells in `frame`. `number` is the id of a row
    if rows are numbered; `fault` is what is wrong with the row as a whole, null: nothing."""
    from pyspark.sql import functions as sql

    fields = frame.select(*cells.values()).schema
    of = {name: field.dataType for name, field in zip(cells, fields, strict=True)}

    def converted(name: str, type_: Type) -> tuple[Column, Column]:
        value, reason = value_and_reason(cells[name], of[name], type_)
        return value, sql.when(reason.isNotNull(), sql.concat(sql.lit(f"{name}: "), reason))

    reasons = [] if fault is None else [fault]
    id, broker = number, sql.lit(None).cast("string")
    if layout.id is not None:
        id, reason = converted(layout.id, Type.INTEGER)
        reasons += [reason, sql.when(id.isNull(), f"{layout.id}: it has no number")]
    if layout.broker is not None and layout.broker in cells:
        broker, reason = converted(layout.broker, Type.STRING)
        reasons.append(reason)
    found = [id.alias("id"), broker.alias("broker")]
    if layout.kind == "subscriptions":
        assert layout.filter is not None
        text = cells[layout.filter].cast("string")
        found.append(text.alias("filter"))
        reasons.append(_filter_reason()(text, sql.lit(layout.filter)))
    else:
        values: dict[Type, dict[str, Column]] = {type_: {} for type_ in _MAPS.values()}
        for name, type_ in layout.attributes.items():
            if type_ is not Type.SKIP and name in cells:
                values[type_][name], reason = converted(name, type_)
                reasons.append(reason)
        every = [value for some in values.values() for value in some.values()]
        if len(every) > ATTRIBUTES_MAX:
            reasons.append(_too_many(every))
        found += [_map(name, values[type_]) for name, type_ in _MAPS.items()]
    return [*found, sql.coalesce(*reasons, sql.lit(None).cast("string")).alias(REASON)]


def _map(name: str, values: Mapping[str, Column]) -> Column:
    """A map column of the values that are not null."""
    from pyspark.sql import functions as sql

    type_ = next(str(column.type) for column in PUBLICATIONS.columns if column.name == name)
    if not values:
        return sql.create_map().cast(type_).alias(name)
    entries = [
        sql.when(value.isNotNull(), sql.struct(sql.lit(key).alias("key"), value.alias("value")))
        for key, value in values.items()
    ]
    there = sql.array_compact(sql.array(*entries))
    return sql.map_from_entries(there).cast(type_).alias(name)


def _too_many(values: list[Column]) -> Column:
    from pyspark.sql import functions as sql

    count = sum((value.isNotNull().cast("int") for value in values), sql.lit(0))
    told = f" attributes, but a publication has at most {ATTRIBUTES_MAX}"
    return sql.when(count > ATTRIBUTES_MAX, sql.concat(count.cast("string"), sql.lit(told)))


def _filter_reason() -> Any:
    """A function of Spark: why a filter cannot be read, with the name of its column."""
    from pyspark.sql.pandas.functions import arrow_udf

    def reasons(texts: Any, names: Any) -> Any:
        import pyarrow as pa

        column = names[0].as_py() if len(names) else ""
        found = map(why_no_filter, texts.to_pylist())
        return pa.array([why and f"{column}: {why}" for why in found], pa.string())

    return arrow_udf(reasons, "string")  # type: ignore[call-overload]


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
