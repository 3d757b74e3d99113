"""Turns the rows of a user's file into publications or subscriptions.

It decides what a publication or a subscription is made of, and rejects rows that are neither. Where
rows come from and go to is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec
import pyarrow as pa

from byway.model import BywayError, parse
from byway.model.errors import InvalidValueError
from byway.model.values import ATTRIBUTES_MAX, check_name
from byway.pipeline.importing.formats import Row
from byway.pipeline.importing.types import CellError, Type, value_of
from byway.pipeline.schemas import TableSchema
from byway.pipeline.workload_schemas import PUBLICATIONS, REJECTS, SUBSCRIPTIONS

Kind = Literal["publications", "subscriptions"]
TABLES: Final[dict[Kind, TableSchema]] = {
    "publications": PUBLICATIONS,
    "subscriptions": SUBSCRIPTIONS,
}
_MAPS: Final = {
    Type.INTEGER: "integers",
    Type.NUMBER: "numbers",
    Type.STRING: "strings",
    Type.BOOLEAN: "booleans",
}


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """How the columns are used. A column has one use at most."""

    kind: Kind
    id: str | None = None
    """The column with the ids; None: rows are numbered."""
    broker: str | None = None
    filter: str | None = None
    attributes: dict[str, Type] = {}


class Reader:
    """Turns the rows of one file into rows of a table, or into rejects."""

    def __init__(self, layout: Layout, file: str, columns: list[str], first: int) -> None:
        """`first` is the id of the first row, if rows are numbered."""
        self.layout = layout
        self.file = file
        self._first = first
        places = {name: place for place, name in enumerate(columns)}
        self._id, self._broker, self._filter = (
            None if name is None else places.get(name)
            for name in (layout.id, layout.broker, layout.filter)
        )
        self._attributes = [
            (places[name], name, type_)
            for name, type_ in layout.attributes.items()
            if name in places and type_ is not Type.SKIP
        ]
        read: dict[Kind, Callable[[list[Any]], dict[str, Any]]] = {
            "publications": self._publication,
            "subscriptions": self._subscription,
        }
        self._read = read[layout.kind]
        self._good: list[dict[str, Any]] = []
        self._bad: list[dict[str, Any]] = []

    def __repr__(self) -> str:
        return f"Reader({self.file!r}, {len(self._good)} good, {len(self._bad)} bad)"

    def __len__(self) -> int:
        """Number of rows that were put and not taken yet."""
        return len(self._good) + len(self._bad)

    def put(self, row: Row) -> None:
        """Convert one row; it becomes a row of the table, or a reject."""
        try:
            if row.fault is not None:
                raise CellError(row.fault)
            number = self._number(row)
            broker = self._text(row.cells, self._broker, self.layout.broker)
            self._good.append({"id": number, "broker": broker, **self._read(row.cells)})
        except CellError as error:
            self._bad.append(
                {
                    "file": self.file,
                    "row": row.number,
                    "line": row.line,
                    "reason": str(error),
                    "content": row.content(),
                }
            )

    def take(self) -> tuple[Any, Any]:
        """The rows and the rejects since the last call, as Arrow tables."""
        good = pa.Table.from_pylist(self._good, TABLES[self.layout.kind].arrow_schema())
        bad = pa.Table.from_pylist(self._bad, REJECTS.arrow_schema())
        self._good, self._bad = [], []
        return good, bad

    def _number(self, row: Row) -> int:
        if self._id is None:
            return self._first + row.number - 1
        cell = row.cells[self._id]
        if _is_empty(cell):
            raise CellError(f"{self.layout.id}: it has no number")
        return int(_value(self.layout.id or "", cell, Type.INTEGER))

    def _text(self, cells: list[Any], place: int | None, name: str | None) -> str | None:
        if place is None or name is None or _is_empty(cells[place]):
            return None
        return str(_value(name, cells[place], Type.STRING))

    def _publication(self, cells: list[Any]) -> dict[str, Any]:
        maps: dict[str, list[tuple[str, Any]]] = {name: [] for name in _MAPS.values()}
        count = 0
        for place, name, type_ in self._attributes:
            cell = cells[place]
            if not _is_empty(cell):
                maps[_MAPS[type_]].append((name, _value(name, cell, type_)))
                count += 1
        if count > ATTRIBUTES_MAX:
            raise CellError(f"{count} attributes, but a publication has at most {ATTRIBUTES_MAX}")
        return maps

    def _subscription(self, cells: list[Any]) -> dict[str, Any]:
        text = self._text(cells, self._filter, self.layout.filter)
        if text is None or not text.strip():
            raise CellError(f"{self.layout.filter}: there is no filter")
        try:
            parse(text)
        except BywayError as error:
            raise CellError(f"{self.layout.filter}: {str(error).partition(chr(10))[0]}") from None
        return {"filter": text}


def _is_empty(cell: Any) -> bool:
    return cell is None or cell == ""


def _value(name: str, cell: Any, type_: Type) -> Any:
    try:
        return value_of(cell, type_)
    except CellError as error:
        raise CellError(f"{name}: {error}") from None


def check_attribute_name(name: str) -> str | None:
    """Why a column cannot be an attribute; None if it can."""
    try:
        check_name(name)
    except InvalidValueError as error:
        return str(error)
    return None
