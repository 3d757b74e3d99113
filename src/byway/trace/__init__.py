"""Traces: the buffer a broker writes to, and the Parquet files a driver makes of it.

The files need pyarrow, which is slow to import and takes 30 MiB; it is imported on first use.
"""

from typing import TYPE_CHECKING, Any

from byway.trace.buffer import NullTrace, RowBatch, TraceBuffer

if TYPE_CHECKING:
    from byway.trace.files import read_trace
    from byway.trace.trace_writer import TraceWriter

__all__ = ["NullTrace", "RowBatch", "TraceBuffer", "TraceWriter", "read_trace"]


def __getattr__(name: str) -> Any:
    if name == "TraceWriter":
        from byway.trace.trace_writer import TraceWriter

        return TraceWriter
    if name == "read_trace":
        from byway.trace.files import read_trace

        return read_trace
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
