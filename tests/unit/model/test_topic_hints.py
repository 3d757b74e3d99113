"""Topic patterns of other systems, and the filters that are suggested instead."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from byway.model import parse
from byway.model.topic_hints import topic_hint

SUGGESTED = {
    "sensors.>": "topic LIKE 'sensors.%'",
    "sensors/#": "topic LIKE 'sensors/%'",
    "sensors.#": "topic LIKE 'sensors.%'",
    "sensors/+/temperature": "topic LIKE 'sensors/%' AND topic LIKE '%/temperature'",
    "*.kitchen": "topic LIKE '%.kitchen'",
    "sensors.kitchen": "topic = 'sensors.kitchen'",
    "/sensors/kitchen": "topic = '/sensors/kitchen'",
    "living_room/#": "topic LIKE 'living\\_room/%' ESCAPE '\\'",
    "*": "TRUE",
    "#": "TRUE",
    ">": "TRUE",
    "+/+": "TRUE",
    "sensors": "sensors EXISTS",
}


@pytest.mark.parametrize(("pattern", "filter"), SUGGESTED.items())
def test_each_pattern_has_a_filter_instead(pattern: str, filter: str) -> None:
    hint = topic_hint(pattern)
    assert hint.startswith("There are no topics here: ")
    assert f" Write {filter} " in hint
    parse(filter)


@pytest.mark.parametrize(
    "text",
    ["", "18", "1.5", "-3", "AND", "true", "price >", "price>", "price > 18 AND", "x = 'a", "(a)"],
)
def test_other_mistakes_get_no_such_hint(text: str) -> None:
    assert topic_hint(text) == ""


LEVELS = st.lists(
    st.one_of(st.sampled_from(["*", "+", "#"]), st.from_regex(r"[a-z0-9_-]{1,5}", fullmatch=True)),
    min_size=2,
    max_size=5,
)


@given(LEVELS, st.sampled_from("./"), st.lists(st.from_regex(r"[a-z_]{1,4}", fullmatch=True)))
def test_what_a_pattern_matches_the_suggested_filter_does(
    levels: list[str], separator: str, words: list[str]
) -> None:
    hint = topic_hint(separator.join(levels))
    if not hint:  # two levels that are a number
        return
    found = re.search(r" Write (.*) (?:where publishers set|for all publications)", hint)
    assert found is not None
    fill = iter([*words, *["x"] * len(levels)])
    topic = separator.join(next(fill) if level in "*+#" else level for level in levels)
    assert parse(found[1]).matches({"topic": topic})
