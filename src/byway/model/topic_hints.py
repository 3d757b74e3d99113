"""What to write instead of a topic pattern, for those who come from NATS, MQTT or RabbitMQ.

A text that is no filter may be a subject (`sensors.>`), a topic filter (`sensors/#`) or a binding
key (`sensors.*.temperature`). This file recognises them and writes a filter that is close; it
decides nothing about filters.
"""

from __future__ import annotations

import re
from typing import Final

from byway.model.constraints import equal_to, string_pattern
from byway.model.filters import TRUE, Filter
from byway.model.scanning import keyword_of

_LENGTH_MAX: Final = 256
_TOPIC: Final = re.compile(r"(?:[\w$:*+#./-]*[./])?>|[\w$:*+#./-]+")
_WILDCARDS: Final = re.compile(r"[*+#>]+")
_WORD: Final = re.compile(r"[^\W\d]\w*")
_NO_TOPICS: Final = "There are no topics here: a filter compares the attributes of publications."


def topic_hint(text: str) -> str:
    """What to write instead of a text that is no filter but looks like a topic or a pattern of
    topics; empty if it does not."""
    text = text.strip()
    if len(text) > _LENGTH_MAX or not _TOPIC.fullmatch(text) or keyword_of(text) != "name":
        return ""
    if _WORD.fullmatch(text):
        return (
            f"{_NO_TOPICS} Write {text} EXISTS for all that carry the attribute {text}, or "
            f"{_as_filter(text)} where publishers set an attribute named topic."
        )
    if _is_number(text):
        return ""
    wanted = _as_filter(text)
    if wanted == TRUE:
        return f"{_NO_TOPICS} Write TRUE for all publications."
    return f"{_NO_TOPICS} Write {wanted} where publishers set an attribute named topic."


def _as_filter(pattern: str) -> Filter:
    """The filter on an attribute `topic` that matches what the pattern does, and maybe more."""
    first, *others = _WILDCARDS.split(pattern)
    if not others:
        return Filter.where({"topic": equal_to(first)})
    *parts, last = others
    if not (first or last or any(part not in ("", ".", "/") for part in parts)):
        return TRUE
    constraint = string_pattern(prefix=first, suffix=last, contains=tuple(filter(None, parts)))
    assert constraint is not None, "only exclusions make a pattern empty"
    return Filter.where({"topic": constraint})


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
