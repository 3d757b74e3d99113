"""The buffer a broker appends trace rows to: one packed row each, nothing but bytes.

It decides the layout of a row in memory and what happens when the buffer is not drained; it knows
neither files nor clocks. Every event has a packer of its own over the same layout: columns that an
event does not fill are zero padding, and become null by the model's table of filled columns.
Packing a row costs as much as a tuple in a list, and draining costs nothing, where lists of Python
objects would be walked a second time.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from byway.model.trace_schema import COLUMNS, FILLED, TraceColumnType, TraceEvent

CAPACITY_ROWS: Final = 65_536

_CODES: Final = {
    TraceColumnType.INT8: ("b", "i1"),
    TraceColumnType.INT32: ("i", "<i4"),
    TraceColumnType.INT64: ("q", "<i8"),
    TraceColumnType.STRING: ("I", "<u4"),  # a number of the column's names, 0 for null
}
_PACKED: Final = tuple(c for c in COLUMNS if c.name not in ("run", "broker"))

ROW_DTYPE: Final = np.dtype([(c.name, _CODES[c.type][1]) for c in _PACKED])
ROW_BYTES: Final = ROW_DTYPE.itemsize


def _packer(event: TraceEvent) -> struct.Struct:
    """A struct that packs the columns that `event` fills, in schema order, and pads the others."""
    filled = {"event", "t_us", *FILLED[event].required, *FILLED[event].optional}
    codes = [
        _CODES[c.type][0] if c.name in filled else f"{ROW_DTYPE[c.name].itemsize}x" for c in _PACKED
    ]
    return struct.Struct("<" + "".join(codes))


_PUBLISHED: Final = int(TraceEvent.PUBLISHED)
_RECEIVED: Final = int(TraceEvent.RECEIVED)
_FORWARDED: Final = int(TraceEvent.FORWARDED)
_DELIVERED: Final = int(TraceEvent.DELIVERED)
_DROPPED: Final = int(TraceEvent.DROPPED)
_pack_published = _packer(TraceEvent.PUBLISHED).pack
_pack_received = _packer(TraceEvent.RECEIVED).pack
_pack_forwarded = _packer(TraceEvent.FORWARDED).pack
_pack_delivered = _packer(TraceEvent.DELIVERED).pack
_pack_dropped = _packer(TraceEvent.DROPPED).pack
_pack_queue = _packer(TraceEvent.QUEUE_SAMPLED).pack
_pack_table = _packer(TraceEvent.TABLE_SAMPLED).pack
_pack_control = _packer(TraceEvent.CONTROL_SENT).pack
_pack_link = _packer(TraceEvent.LINK_CHANGED).pack
_pack_reconfigured = _packer(TraceEvent.RECONFIGURED).pack
_pack_lost = _packer(TraceEvent.TRACE_LOST).pack


class _Names(dict[str | None, int]):
    """Numbers names in order of appearance, from 1; None is 0."""

    def __missing__(self, name: str | None) -> int:
        number = self[name] = 0 if name is None else len(self) + (None not in self)
        return number

    def list(self) -> list[str]:
        return [str(name) for name in self if name is not None]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RowBatch:
    """Rows of one broker. In a string column `n` stands for `names[column][n - 1]`, 0 for null."""

    broker: str
    rows: npt.NDArray[Any]
    names: dict[str, list[str]]

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"RowBatch({len(self)} rows of broker {self.broker!r})"


class TraceBuffer:
    """The rows of one broker that the driver has not drained yet.

    Each method appends what its event fills (`byway.model.trace_schema`). A call that finds
    `capacity_rows` rows or more stores nothing, its rows are counted as lost, and the next drain
    ends with one TRACE_LOST row with their number and the time of the first. Names are kept until
    the drain only, so nothing here grows with the number of clients.
    """

    __slots__ = (
        "_clients",
        "_data",
        "_kinds",
        "_limit_bytes",
        "_links",
        "_lost",
        "_lost_since_us",
        "_operations",
        "_phases",
        "_publishers",
        "broker",
    )

    enabled: ClassVar[bool] = True  # a caller may skip its own preparations when there is no trace

    def __init__(self, broker: str, capacity_rows: int = CAPACITY_ROWS) -> None:
        self.broker = broker
        self._limit_bytes = capacity_rows * ROW_BYTES
        self._reset()

    def __repr__(self) -> str:
        lost = f", {self._lost} lost" if self._lost else ""
        return f"{type(self).__name__}({self.rows} rows of broker {self.broker!r}{lost})"

    @property
    def rows(self) -> int:
        """Number of rows to be drained."""
        return len(self._data) // ROW_BYTES

    @property
    def lost(self) -> int:
        """Number of rows lost since the last drain."""
        return self._lost

    def drain(self) -> RowBatch:
        """All rows in the order they were appended; the buffer is empty afterwards."""
        if self._lost:
            self._data += _pack_lost(TraceEvent.TRACE_LOST, self._lost_since_us, self._lost)
        names = {
            "publisher": self._publishers.list(),
            "link": self._links.list(),
            "client": self._clients.list(),
            "kind": self._kinds.list(),
            "operation": self._operations.list(),
            "phase": self._phases.list(),
        }
        batch = RowBatch(self.broker, np.frombuffer(self._data, ROW_DTYPE), names)
        self._reset()
        return batch

    def published(
        self,
        t_us: int,
        publisher: str,
        incarnation: int,
        sequence: int,
        t_pub_us: int,
        matches: int,
        copies: int,
        size_bytes: int,
    ) -> None:
        """A local client published, and the broker has matched the publication."""
        if len(self._data) >= self._limit_bytes:
            return self._lose(t_us)
        number = self._publishers[publisher]
        self._data += _pack_published(
            _PUBLISHED,
            t_us,
            number,
            incarnation,
            sequence,
            t_pub_us,
            0,
            0,
            matches,
            copies,
            size_bytes,
        )

    def received(
        self,
        t_us: int,
        link: str,
        publisher: str,
        incarnation: int,
        sequence: int,
        t_pub_us: int,
        hop: int,
        distance: int,
        matches: int,
        copies: int,
        size_bytes: int,
        span: int = 1,
    ) -> None:
        """A publication came over `link`, and the broker has matched it."""
        if len(self._data) >= self._limit_bytes:
            return self._lose(t_us)
        self._data += _pack_received(
            _RECEIVED,
            t_us,
            self._publishers[publisher],
            incarnation,
            sequence,
            t_pub_us,
            hop,
            distance,
            self._links[link],
            span,
            matches,
            copies,
            size_bytes,
        )

    def forwarded(
        self,
        t_us: int,
        links: Sequence[str],
        publisher: str,
        incarnation: int,
        sequence: int,
        t_pub_us: int,
        hop: int,
        distance: int,
        size_bytes: int,
        span: int = 1,
    ) -> None:
        """A publication was sent on over each of `links`: one row a link."""
        data = self._data
        if len(data) >= self._limit_bytes:
            return self._lose(t_us, len(links))
        number = self._publishers[publisher]
        numbers = self._links
        for link in links:
            data += _pack_forwarded(
                _FORWARDED,
                t_us,
                number,
                incarnation,
                sequence,
                t_pub_us,
                hop,
                distance,
                numbers[link],
                span,
                size_bytes,
            )

    def delivered(
        self,
        t_us: int,
        clients: Sequence[str],
        publisher: str,
        incarnation: int,
        sequence: int,
        t_pub_us: int,
        hop: int,
        distance: int,
        size_bytes: int,
    ) -> None:
        """A publication was delivered to each of the local `clients`: one row a client."""
        data = self._data
        if len(data) >= self._limit_bytes:
            return self._lose(t_us, len(clients))
        number = self._publishers[publisher]
        numbers = self._clients
        for client in clients:
            data += _pack_delivered(
                _DELIVERED,
                t_us,
                number,
                incarnation,
                sequence,
                t_pub_us,
                hop,
                distance,
                numbers[client],
                size_bytes,
            )

    def dropped(
        self,
        t_us: int,
        reason: str,
        publisher: str,
        incarnation: int,
        sequence: int,
        t_pub_us: int,
        hop: int,
        distance: int,
        size_bytes: int,
        link: str | None = None,
        client: str | None = None,
    ) -> None:
        """A publication, or its copy for one link or client, goes no further from here."""
        if len(self._data) >= self._limit_bytes:
            return self._lose(t_us)
        self._data += _pack_dropped(
            _DROPPED,
            t_us,
            self._publishers[publisher],
            incarnation,
            sequence,
            t_pub_us,
            hop,
            distance,
            self._links[link],
            self._clients[client],
            size_bytes,
            self._kinds[reason],
        )

    def queue_sampled(
        self,
        t_us: int,
        queue: str,
        count: int,
        size_bytes: int,
        link: str | None = None,
        publisher: str | None = None,
    ) -> None:
        """A queue holds `count` messages of `size_bytes` bytes together."""
        if len(self._data) >= self._limit_bytes:
            return self._lose(t_us)
        self._data += _pack_queue(
            TraceEvent.QUEUE_SAMPLED, t_us, self._publishers[publisher], self._links[link],
            size_bytes, self._kinds[queue], count,
        )  # fmt: skip

    def table_sampled(self, t_us: int, table: str, count: int, link: str | None = None) -> None:
        """A table holds `count` entries."""
        if len(self._data) >= self._limit_bytes:
            return self._lose(t_us)
        self._data += _pack_table(
            TraceEvent.TABLE_SAMPLED, t_us, self._links[link], self._kinds[table], count
        )

    def control_sent(
        self, t_us: int, link: str, kind: str, size_bytes: int, count: int = 1
    ) -> None:
        """A message with `count` entries that is not a publication was sent to a broker."""
        if len(self._data) >= self._limit_bytes:
            return self._lose(t_us)
        self._data += _pack_control(
            TraceEvent.CONTROL_SENT, t_us, self._links[link], size_bytes, self._kinds[kind], count
        )

    def link_changed(self, t_us: int, link: str, change: str, span: int = 1) -> None:
        """A link was opened, closed, lost or resumed at this end."""
        if len(self._data) >= self._limit_bytes:
            return self._lose(t_us)
        self._data += _pack_link(
            TraceEvent.LINK_CHANGED, t_us, self._links[link], span, self._kinds[change]
        )

    def reconfigured(
        self,
        t_us: int,
        kind: str,
        operation: str,
        phase: str,
        link: str | None = None,
        publisher: str | None = None,
    ) -> None:
        """This broker reached a phase of a reconfiguration."""
        if len(self._data) >= self._limit_bytes:
            return self._lose(t_us)
        self._data += _pack_reconfigured(
            TraceEvent.RECONFIGURED,
            t_us,
            self._publishers[publisher],
            self._links[link],
            self._kinds[kind],
            self._operations[operation],
            self._phases[phase],
        )

    def _lose(self, t_us: int, rows: int = 1) -> None:
        if not self._lost:
            self._lost_since_us = t_us
        self._lost += rows

    def _reset(self) -> None:
        self._data = bytearray()
        self._publishers, self._links, self._clients = _Names(), _Names(), _Names()
        self._kinds, self._operations, self._phases = _Names(), _Names(), _Names()
        self._lost = 0
        self._lost_since_us = 0


class NullTrace(TraceBuffer):
    """A buffer that keeps nothing, for a broker without a trace."""

    __slots__ = ()

    enabled: ClassVar[bool] = False

    def __init__(self, broker: str = "") -> None:
        super().__init__(broker, 0)

    def _nothing(self, *args: Any, **options: Any) -> None:
        pass

    published = received = forwarded = delivered = dropped = _nothing
    queue_sampled = table_sampled = control_sent = link_changed = reconfigured = _nothing
