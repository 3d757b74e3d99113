"""The schema of the trace: frozen numbers and names, and a page that says the same."""

import re
from pathlib import Path

import pytest

from byway.model import trace_schema as trace
from byway.model.trace_schema import COLUMNS, FILLED, SCHEMA_VERSION, TraceColumnType, TraceEvent

PAGE = (Path(__file__).parents[3] / "docs/reference/trace.md").read_text()

# Written out: a change of these lines breaks traces that people have kept.
EVENTS = (
    "1 PUBLISHED, 2 RECEIVED, 3 FORWARDED, 4 DELIVERED, 5 DROPPED, 6 QUEUE_SAMPLED, "
    "7 TABLE_SAMPLED, 8 CONTROL_SENT, 9 LINK_CHANGED, 10 RECONFIGURED, 11 TRACE_LOST"
)
TYPES = (
    "run string, broker string, event int8, t_us int64, publisher string, incarnation int64, "
    "sequence int64, t_pub_us int64, hop int32, distance int32, link string, span int32, "
    "client string, matches int32, copies int32, size_bytes int64, kind string, count int64, "
    "operation string, phase string"
)


def test_version_1_is_what_it_was():
    assert SCHEMA_VERSION == 1
    assert ", ".join(f"{event.value} {event.name}" for event in TraceEvent) == EVENTS
    assert ", ".join(f"{column.name} {column.type}" for column in COLUMNS) == TYPES


def test_every_event_fills_nullable_columns_only():
    nullable = {column.name for column in COLUMNS if column.nullable}
    strings = {column.name for column in COLUMNS if column.type is TraceColumnType.STRING}
    assert set(FILLED) == set(TraceEvent)
    for required, optional in FILLED.values():
        assert set(required) <= nullable
        assert set(optional) <= nullable & strings
        assert not set(required) & set(optional)


def test_every_nullable_column_is_filled_by_some_event():
    filled = {name for required, optional in FILLED.values() for name in required + optional}
    assert filled == {column.name for column in COLUMNS if column.nullable}


def test_the_page_has_every_column():
    documented = re.findall(r"^\| `(\w+)` \| (\w+) \| (yes|no) \| (.+) \|$", PAGE, re.M)
    nullable = {True: "yes", False: "no"}
    assert documented == [(c.name, c.type, nullable[c.nullable], c.meaning) for c in COLUMNS]


def test_the_page_has_every_event_with_what_it_fills():
    documented = re.findall(r"^\| (\d+) \| `(\w+)` \| .+ \| (.+) \|$", PAGE, re.M)
    order = [column.name for column in COLUMNS]
    expected = []
    for event in TraceEvent:
        required, optional = FILLED[event]
        names = sorted(required + optional, key=order.index)
        cells = [f"[`{name}`]" if name in optional else f"`{name}`" for name in names]
        expected.append((str(event.value), event.name, " ".join(cells)))
    assert documented == expected


@pytest.mark.parametrize(
    "name", ["DropReason", "Queue", "TableKind", "LinkChange", "Reconfiguration"]
)
def test_the_page_has_every_kind(name):
    words = set(re.findall(r"`(\w+)`", PAGE.partition("## Kinds")[2].partition("\n## ")[0]))
    assert {str(member) for member in getattr(trace, name)} <= words
