"""Writes a trace below a directory, by run and day.

It decides when the rows of a day are over: a broker writes its rows in the order of its clock, so
one file is open at a time. Files, their bounds and bytes are those of `files`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import TracebackType

import numpy as np

from byway.trace.buffer import RowBatch
from byway.trace.files import ROWS_PER_FILE, ROWS_PER_GROUP, DirectoryWriter
from byway.trace.trace_directories import DAY_US, date_directory, run_directory


class TraceWriter:
    """Writes batches below `directory`, the rows of a day to `run=RUN/date=YYYY-MM-DD`.

    The files there are those of `DirectoryWriter`, with the same `broker` and bounds. A trace
    without rows is one file without rows in `run=RUN`. A trace with more than `rows_max` rows is
    given up: its files are removed, further rows are only counted.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        run: str,
        broker: str | None = None,
        *,
        rows_per_group: int = ROWS_PER_GROUP,
        rows_per_file: int = ROWS_PER_FILE,
        rows_max: int | None = None,
    ) -> None:
        self.rows = 0
        """Number of rows taken over."""
        self.directory = Path(directory)
        self.run = run
        self.broker = broker
        self._rows_max = rows_max
        self._bounds = {"rows_per_group": rows_per_group, "rows_per_file": rows_per_file}
        self._day: int | None = None
        self._writer: DirectoryWriter | None = None
        self._earlier: list[DirectoryWriter] = []
        self._closed = False
        run_directory(self.directory, run).mkdir(parents=True, exist_ok=True)

    def __repr__(self) -> str:
        return f"TraceWriter({str(self.directory)!r}, run {self.run!r}, {self.rows} rows)"

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()  # after an error too: the rows up to it are what one wants to read

    def write(self, batch: RowBatch) -> None:
        """Take over the rows of `batch`; they are in a complete file after `flush` or `close`."""
        assert not self._closed, "the writer is closed"
        self.rows += len(batch)
        if self.is_given_up:
            self._give_up()
            return
        for day, rows in _by_day(batch):
            self._of_day(day).write(rows)

    @property
    def is_given_up(self) -> bool:
        """Whether the trace has more rows than it may have."""
        return self._rows_max is not None and self.rows > self._rows_max

    def flush(self) -> None:
        """Complete the present file, so that every row taken over can be read."""
        if self._writer is not None:
            self._writer.flush()

    def close(self) -> None:
        """Flush, and leave an empty file if there was no row: an empty trace is a trace."""
        if self._closed:
            return
        if self._writer is not None:
            self._writer.close()
        elif not self.rows:
            self._open(run_directory(self.directory, self.run)).close()
        self._closed = True

    def _of_day(self, day: int) -> DirectoryWriter:
        if self._writer is None or day != self._day:
            if self._writer is not None:
                self._writer.close()
                self._earlier.append(self._writer)
            self._writer = self._open(date_directory(self.directory, self.run, day))
            self._day = day
        return self._writer

    def _open(self, directory: Path) -> DirectoryWriter:
        return DirectoryWriter(directory, self.run, self.broker, **self._bounds)

    def _give_up(self) -> None:
        for writer in self._earlier:
            writer.discard()
        self._earlier.clear()
        if self._writer is not None:
            self._writer.discard()
            self._writer = None


def _by_day(batch: RowBatch) -> Iterator[tuple[int, RowBatch]]:
    """The rows of a batch in their order, cut where the day changes."""
    if not len(batch):
        return
    days = batch.rows["t_us"] // DAY_US
    cuts = [0, *(np.flatnonzero(np.diff(days)) + 1).tolist(), len(batch)]
    for begin, end in pairwise(cuts):
        yield int(days[begin]), RowBatch(batch.broker, batch.rows[begin:end], batch.names)
