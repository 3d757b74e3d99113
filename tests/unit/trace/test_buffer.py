"""The buffer: what is appended is drained, within its bound."""

import struct

import pytest

from byway.model.trace_schema import DropReason, TraceEvent
from byway.trace import NullTrace, TraceBuffer
from byway.trace.files import record_batch


def rows(buffer):
    """What a drain gives, as dicts without nulls, the run and the broker."""
    return [
        {name: value for name, value in row.items() if value is not None}
        for row in record_batch(buffer.drain(), "run").drop_columns(["run", "broker"]).to_pylist()
    ]


def test_a_row_a_link_and_a_row_a_client():
    buffer = TraceBuffer("A")
    buffer.forwarded(9, ["C", "B"], "p", 1, 7, 1, 2, 3, 100, span=4)
    buffer.delivered(9, ("x",), "p", 1, 7, 1, 2, 3, 100)
    publication = {
        "publisher": "p",
        "incarnation": 1,
        "sequence": 7,
        "t_pub_us": 1,
        "hop": 2,
        "distance": 3,
    }
    common = {"t_us": 9, "size_bytes": 100, **publication}
    assert rows(buffer) == [
        {"event": TraceEvent.FORWARDED, "link": "C", "span": 4, **common},
        {"event": TraceEvent.FORWARDED, "link": "B", "span": 4, **common},
        {"event": TraceEvent.DELIVERED, "client": "x", **common},
    ]


def test_zero_is_a_value_and_not_a_null():
    buffer = TraceBuffer("A")
    buffer.table_sampled(0, "subscriptions", 0)
    assert rows(buffer) == [
        {"event": TraceEvent.TABLE_SAMPLED, "t_us": 0, "kind": "subscriptions", "count": 0}
    ]


def test_names_and_nothing_may_alternate():
    buffer = TraceBuffer("A")
    for link in ("B", None, "C", None, "B", "D"):
        buffer.table_sampled(1, "forwarded", 5, link)
    assert [row.get("link") for row in rows(buffer)] == ["B", None, "C", None, "B", "D"]


def test_a_word_of_the_schema_is_the_same_as_its_text():
    buffer = TraceBuffer("A")
    for reason in (DropReason.DUPLICATE, "duplicate"):
        buffer.dropped(1, reason, "p", 1, 1, 1, 1, 1, 9, link="B")
    batch = buffer.drain()
    assert batch.names["kind"] == ["duplicate"]
    assert type(batch.names["kind"][0]) is str


def test_a_drain_empties_the_buffer():
    buffer = TraceBuffer("A")
    buffer.link_changed(1, "B", "opened")
    assert (buffer.rows, repr(buffer)) == (1, "TraceBuffer(1 rows of broker 'A')")
    first = buffer.drain()
    assert (len(first), repr(first)) == (1, "RowBatch(1 rows of broker 'A')")
    assert buffer.rows == 0
    buffer.link_changed(2, "C", "opened")
    assert buffer.drain().names["link"] == ["C"]
    assert first.names["link"] == ["B"]
    assert len(buffer.drain()) == 0


def test_rows_beyond_the_bound_are_counted_and_told():
    buffer = TraceBuffer("A", capacity_rows=2)
    buffer.published(10, "p", 1, 1, 10, 0, 3, 50)
    buffer.forwarded(
        11, ["B", "C", "D"], "p", 1, 1, 10, 0, 0, 50
    )  # began below the bound: kept whole
    buffer.forwarded(12, ["B", "C", "D"], "p", 1, 2, 12, 0, 0, 50)
    buffer.delivered(13, ["x", "y"], "p", 1, 2, 12, 0, 0, 50)
    buffer.table_sampled(14, "subscriptions", 5)
    assert (buffer.rows, buffer.lost) == (4, 6)
    assert repr(buffer) == "TraceBuffer(4 rows of broker 'A', 6 lost)"
    assert rows(buffer)[-1] == {"event": TraceEvent.TRACE_LOST, "t_us": 12, "count": 6}
    buffer.published(15, "p", 1, 3, 15, 0, 0, 50)
    assert (buffer.rows, buffer.lost) == (1, 0)
    assert [row["event"] for row in rows(buffer)] == [TraceEvent.PUBLISHED]


def test_a_number_that_does_not_fit_is_our_mistake():
    with pytest.raises(struct.error):
        TraceBuffer("A").published(1, "p", 1, 2**63, 1, 0, 0, 9)


def test_no_trace_keeps_nothing():
    trace = NullTrace("A")
    assert (TraceBuffer("A").enabled, trace.enabled) == (True, False)
    trace.published(1, "p", 1, 1, 1, 0, 0, 9)
    trace.received(1, "B", "p", 1, 1, 1, 1, 1, 0, 0, 9, span=2)
    trace.forwarded(1, ["B"], "p", 1, 1, 1, 1, 1, 9)
    trace.delivered(1, ["x"], "p", 1, 1, 1, 1, 1, 9)
    trace.dropped(1, "duplicate", "p", 1, 1, 1, 1, 1, 9)
    trace.queue_sampled(1, "input", 1, 9)
    trace.table_sampled(1, "subscriptions", 1)
    trace.control_sent(1, "B", "subscribe", 9)
    trace.link_changed(1, "B", "opened")
    trace.reconfigured(1, "exchange", "A-1", "lock")
    assert (trace.rows, trace.lost, len(trace.drain())) == (0, 0, 0)
