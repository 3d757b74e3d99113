"""One line an event, whatever is in it."""

import json
import logging
import re

import pytest

from byway.runtime import logs


@pytest.fixture(autouse=True)
def _restored():
    log = logging.getLogger(logs.ROOT)
    before = log.handlers, log.level, log.propagate
    yield
    log.handlers, log.propagate = before[0], before[2]
    log.setLevel(before[1])


def say(text: str, *arguments: object) -> None:
    log = logging.getLogger("byway.broker")
    log.debug("below the level")
    log.info(text, *arguments)
    try:
        raise ValueError("two\nlines")
    except ValueError:
        log.exception("failed")


def test_for_people(capsys):
    logs.set_up("human", "info", "B1")
    say("link to %s is up", "B2\nforged line \x1b[31m")
    first, second = capsys.readouterr().err.splitlines()
    time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    assert re.fullmatch(time + r" info    link to B2 \| forged line \\x1b\[31m is up", first)
    assert re.match(time + r" error   failed: Traceback .*\| ValueError: two \| lines$", second)


def test_as_json(capsys):
    logs.set_up("json", "info", "B1")
    say("link to %s is up", "B2\n")
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert first.pop("time").endswith("Z")
    assert first == {
        "level": "info",
        "logger": "byway.broker",
        "broker": "B1",
        "message": "link to B2\n is up",
    }
    assert second["exception"].endswith("ValueError: two\nlines")


def test_the_level_can_be_changed(capsys):
    logs.set_up("human", "debug", "B1")
    say("x")
    assert "below the level" in capsys.readouterr().err
    logs.set_up("json", "error", "B1")
    say("x")
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["level"] == "error"
