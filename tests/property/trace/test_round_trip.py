"""What is appended is what is read back, wherever buffers are drained and files are cut."""

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from byway.model.trace_schema import COLUMNS, TraceEvent
from byway.trace import TraceBuffer, TraceWriter, read_trace
from byway.trace.files import DirectoryWriter
from byway.trace.trace_directories import DAY_US, date_of

NAMES = st.sampled_from(["A", "B", "é", ""]) | st.text(
    st.characters(codec="utf-8"), min_size=0, max_size=5
)
INT32 = st.integers(0, 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
MANY = {"links": "link", "clients": "client"}  # arguments that make a row for each of their names
KINDS = ("reason", "queue", "table", "change")

MAYBE = st.none() | NAMES
SHARED = {
    "publisher": NAMES, "incarnation": INT64, "sequence": INT64, "t_pub_us": INT64,
    "size_bytes": INT64,
}  # fmt: skip
PUBLICATION = SHARED | {"hop": INT32, "distance": INT32}
METHODS = {
    "published": SHARED | {"matches": INT32, "copies": INT32},
    "received": PUBLICATION | {"link": NAMES, "span": INT32, "matches": INT32, "copies": INT32},
    "forwarded": PUBLICATION | {"links": st.lists(NAMES, max_size=3), "span": INT32},
    "delivered": PUBLICATION | {"clients": st.lists(NAMES, max_size=3)},
    "dropped": PUBLICATION | {"reason": NAMES, "link": MAYBE, "client": MAYBE},
    "queue_sampled": {
        "queue": NAMES, "count": INT64, "size_bytes": INT64, "link": MAYBE, "publisher": MAYBE,
    },
    "table_sampled": {"table": NAMES, "count": INT64, "link": MAYBE},
    "control_sent": {"link": NAMES, "kind": NAMES, "size_bytes": INT64, "count": INT64},
    "link_changed": {"link": NAMES, "change": NAMES, "span": INT32},
    "reconfigured": {
        "kind": NAMES, "operation": NAMES, "phase": NAMES, "link": MAYBE, "publisher": MAYBE,
    },
}  # fmt: skip
CALLS = st.sampled_from(sorted(METHODS)).flatmap(
    lambda name: st.tuples(st.just(name), st.fixed_dictionaries({"t_us": INT64} | METHODS[name]))
)


def expected_rows(method, arguments):
    row = dict.fromkeys(column.name for column in COLUMNS)
    row |= {"run": "r", "broker": "A", "event": TraceEvent[method.upper()]}
    if method == "published":
        row |= {"hop": 0, "distance": 0}
    row |= {"kind" if k in KINDS else k: v for k, v in arguments.items() if k not in MANY}
    for name in MANY.keys() & arguments.keys():
        return [row | {MANY[name]: one} for one in arguments[name]]
    return [row]


@given(st.lists(st.lists(CALLS, max_size=6), max_size=5), st.integers(1, 5), st.integers(0, 9))
def test_what_is_appended_is_read_back(batches, rows_per_group, more_rows):
    buffer = TraceBuffer("A")
    expected = []
    with tempfile.TemporaryDirectory() as place:
        one, other = Path(place) / "one", Path(place) / "other"
        bounds = {"rows_per_group": rows_per_group, "rows_per_file": rows_per_group + more_rows}
        with DirectoryWriter(one, "r", **bounds) as writer:
            for calls in batches:
                for method, arguments in calls:
                    getattr(buffer, method)(**arguments)
                    expected += expected_rows(method, arguments)
                writer.write(buffer.drain())
        assert read_trace(one).to_pylist() == expected
        with DirectoryWriter(other, "r", **bounds) as writer:  # drained once instead
            for calls in batches:
                for method, arguments in calls:
                    getattr(buffer, method)(**arguments)
            writer.write(buffer.drain())
        files = sorted(path.name for path in one.iterdir())
        assert files == sorted(path.name for path in other.iterdir())
        for name in files:
            assert (one / name).read_bytes() == (other / name).read_bytes()


TIMES = st.integers(-3 * DAY_US, 3 * DAY_US) | st.sampled_from([-1, 0, DAY_US - 1, DAY_US])


@given(st.lists(st.lists(TIMES, max_size=5), max_size=4))
def test_every_row_is_in_the_directory_of_its_day(batches):
    """Whatever the order of times; rows of one day keep theirs."""
    buffer = TraceBuffer("A")
    with tempfile.TemporaryDirectory() as place:
        with TraceWriter(place, "a/b", rows_per_group=2, rows_per_file=3) as writer:
            for times in batches:
                for t_us in times:
                    buffer.table_sampled(t_us, "subscriptions", 1)
                writer.write(buffer.drain())
        days = {}
        for t_us in (t_us for times in batches for t_us in times):
            days.setdefault(f"date={date_of(t_us // DAY_US)}", []).append(t_us)
        (run,) = Path(place).iterdir()
        assert run.name == "run=a%2Fb"
        found = {day.name: read_trace(day)["t_us"].to_pylist() for day in run.iterdir() if days}
        assert found == days
        assert read_trace(place).num_rows == sum(map(len, batches))
