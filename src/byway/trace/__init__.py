"""Traces: the buffer a broker writes to, and the Parquet files a driver makes of it."""

from byway.trace.buffer import Batch, NullTrace, TraceBuffer
from byway.trace.files import TraceWriter, read_trace

__all__ = ["Batch", "NullTrace", "TraceBuffer", "TraceWriter", "read_trace"]
