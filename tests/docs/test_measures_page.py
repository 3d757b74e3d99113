"""The page about measures says what `byway.model.measurement` declares, and so does the trace's."""

import re
from pathlib import Path

import pytest

from byway.core.counters import Counters
from byway.model import measurement
from byway.model.measurement import COUNTED, CountedWord

REFERENCE = Path(__file__).parents[2] / "docs/reference"
PAGE = (REFERENCE / "measures.md").read_text()
TRACE_PAGE = (REFERENCE / "trace.md").read_text()


def test_every_counted_word_is_on_the_page() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) \| `(\w+)` \|$", PAGE, re.M)
    assert rows == [(w.name, w.meaning, str(w.rows), w.counter) for w in COUNTED]


def test_what_follows_from_them_is_on_the_page() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*?) \|$", PAGE, re.M)
    words = {
        "yield": measurement.YIELD_MEANING,
        "hops": measurement.HOPS_MEANING,
        "messages": measurement.MESSAGES_MEANING,
        "table_entries": measurement.TABLE_ENTRIES_MEANING,
    }
    assert {name: meaning for name, meaning in rows if name in words} == words


@pytest.mark.parametrize("word", COUNTED, ids=lambda word: str(word.name))
def test_a_broker_has_the_counter(word: CountedWord) -> None:
    assert getattr(Counters(), word.counter) == 0


@pytest.mark.parametrize(
    ("quantity", "word"),
    [
        ("deliveries", measurement.DELIVERIES),
        ("matched brokers", measurement.MATCHED_BROKERS),
        ("pure forwarders", measurement.PURE_FORWARDERS),
        ("false positives", measurement.FALSE_POSITIVES),
    ],
)
def test_the_page_about_traces_has_the_same_rows(quantity: str, word: CountedWord) -> None:
    assert f"| {quantity} | {word.rows} |" in TRACE_PAGE
