"""Reading: a TOML file, and settings of the command line over it, become a `Scenario`.

It decides how files and settings are read and whom a fault is blamed on. What keys there are is in
`schema`, how they are checked in `model.option_reading` and `check`.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from byway.model.option_reading import OptionsError, Problem, read_member
from byway.model.option_reading import read as read_options
from byway.model.options import joined, struct_info
from byway.sim.scenario.check import check_scenario
from byway.sim.scenario.schema import Scenario, ScenarioError

FILE_BYTES_MAX: Final = 16_777_216
MEMBERS_MAX: Final = 100_000
"""Values of keys that a scenario file remembers; then it forgets them all."""

_BARE_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_TIME: Final = re.compile(r"[0-9.]+(ms|s|m|h)")
_NOT_WORDS: Final = ("true", "false", "inf", "nan")
_REQUIRED: Final = {field.name for field in struct_info(Scenario).fields if field.required}


class Setting(NamedTuple):
    """`key=value` of the command line: a path into the file, and a TOML value."""

    text: str
    path: tuple[str, ...]
    value: Any

    def __str__(self) -> str:
        return f"--set {self.text}"


class ScenarioFile:
    """A scenario file, read once for any number of changes to it. Raises `ScenarioError`.

    A key of the file, such as `network`, is read once for the settings below it: a million points
    of a grid with a thousand values on each of two axes read some two thousand tables.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = str(path)
        self._data = _load(Path(path))
        self._settings: dict[str, Setting] = {}
        self._members: dict[tuple[str, tuple[str, ...]], dict[str, Any]] = {}

    def __repr__(self) -> str:
        return f"ScenarioFile({self._path!r})"

    def changed(self, settings: Sequence[str] = ()) -> Scenario:
        """The scenario, changed by settings such as `network.latency_ms=5`.

        Raises `ScenarioError`, which says whether the file or a setting is at fault.
        """
        changes = [self._settings.get(text) or self._parsed(text) for text in settings]
        try:
            scenario = self._of_members(changes)
            if scenario is None:
                return scenario_of(self._changed_data(changes))
            check_scenario(scenario)
        except ScenarioError as error:
            raise blamed(error, self._path, changes) from None
        return scenario

    def _changed_data(self, changes: Sequence[Setting]) -> dict[str, Any]:
        data: dict[str, Any] = _copied(self._data)
        for change in changes:
            _apply(data, change._replace(value=_copied(change.value)))
        return data

    def _of_members(self, changes: Sequence[Setting]) -> Scenario | None:
        """The scenario, not yet checked; None if it must be read as a whole, to say what is wrong
        with it."""
        texts: dict[str, tuple[str, ...]] = dict.fromkeys(self._data, ())
        for change in changes:
            key = change.path[0]
            texts[key] = (*texts.get(key, ()), change.text)
        members: dict[str, Any] = {}
        for known in texts.items():
            member = self._members.get(known)
            members.update(self._member(*known) if member is None else member)
        if len(members) != len(texts) or not members.keys() >= _REQUIRED:
            return None
        return Scenario(**members)

    def _member(self, key: str, settings: tuple[str, ...]) -> dict[str, Any]:
        """What stands under a key, changed by settings; nothing if anything is wrong with it."""
        data = {key: _copied(self._data[key])} if key in self._data else {}
        try:
            for change in map(self._settings.__getitem__, settings):
                _apply(data, change._replace(value=_copied(change.value)))
            found = read_member(Scenario, key, data[key])
        except (OptionsError, ScenarioError):
            found = {}
        if len(self._members) == MEMBERS_MAX:
            self._members.clear()
        self._members[key, settings] = found
        return found

    def _parsed(self, text: str) -> Setting:
        found = self._settings[text] = parse_setting(text)
        return found


def read_scenario(path: str | os.PathLike[str], settings: Sequence[str] = ()) -> Scenario:
    """The scenario in a file, changed by settings such as `network.latency_ms=5`.

    Raises `ScenarioError`, which says whether the file or a setting is at fault.
    """
    for text in settings:
        parse_setting(text)  # a setting that cannot be read is told before a file that cannot
    return ScenarioFile(path).changed(settings)


def _copied(data: Any) -> Any:
    """Plain data that can be changed without the original."""
    if isinstance(data, dict):
        return {key: _copied(value) for key, value in data.items()}
    return [_copied(value) for value in data] if isinstance(data, list) else data


def scenario_of(data: dict[str, Any]) -> Scenario:
    """The scenario that plain data describes, checked as far as it can be without a seed."""
    try:
        scenario = read_options(Scenario, data)
    except OptionsError as error:
        raise ScenarioError.of(error.problems) from None
    check_scenario(scenario)
    return scenario


def blamed(error: ScenarioError, path: str, settings: Sequence[Setting]) -> ScenarioError:
    """The same error; each problem says which setting is to blame, or else the file."""
    return ScenarioError.of([_blamed(problem, path, settings) for problem in error.problems])


def _blamed(problem: Problem, path: str, settings: Sequence[Setting]) -> Problem:
    if problem.source:
        return problem
    return problem._replace(source=_source_of(problem.key, path, settings))


def _source_of(key: str, path: str, settings: Sequence[Setting]) -> str:
    """Who said what stands at a key: the last setting above or below it, or else the file."""
    at = tuple(key.split("."))
    for setting in reversed(settings):
        shared = min(len(at), len(setting.path))
        if at[:shared] == setting.path[:shared]:
            return str(setting)
    return path


def parse_setting(text: str) -> Setting:
    """`key=value` with a TOML value; a plain word or a time such as 5s need not be quoted."""
    key, equals, value = text.partition("=")
    path = tuple(part.strip() for part in key.split("."))
    if not equals or not all(path):
        raise ScenarioError("", "expected key=value, such as network.latency_ms=5", f"--set {text}")
    return Setting(text, path, _value(value.strip(), text))


def _value(text: str, setting: str) -> Any:
    if (_BARE_WORD.fullmatch(text) and text not in _NOT_WORDS) or _TIME.fullmatch(text):
        return text
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        parsed = {}
    if list(parsed) != ["value"]:
        reason = 'expected a TOML value after =: a number, true, "text", [1, 2] or a word'
        raise ScenarioError("", reason, f"--set {setting}")
    return parsed["value"]


def _load(path: Path) -> dict[str, Any]:
    try:
        data = path.read_bytes() if path.stat().st_size <= FILE_BYTES_MAX else None
    except OSError as error:
        raise ScenarioError("", f"cannot be read: {error.strerror}", str(path)) from None
    if data is None:
        raise ScenarioError("", f"larger than {FILE_BYTES_MAX} bytes", str(path))
    try:
        return tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ScenarioError("", f"not TOML: {error}", str(path)) from None


def _apply(data: dict[str, Any], setting: Setting) -> None:
    """Put the value where the path leads; tables on the way are made, members of arrays are not."""
    place: Any = data
    walked = ""
    for part in setting.path[:-1]:
        place = _below(place, part, walked, setting)
        walked = joined(walked, part)
    last = setting.path[-1]
    if isinstance(place, list):
        place[_position(place, last, walked, setting)] = setting.value
    else:
        place[last] = setting.value


def _below(place: Any, part: str, walked: str, setting: Setting) -> Any:
    if isinstance(place, list):
        found = place[_position(place, part, walked, setting)]
    else:
        found = place.setdefault(part, {})
    if not isinstance(found, dict | list):
        raise ScenarioError(joined(walked, part), "is no table", str(setting))
    return found


def _position(array: list[Any], part: str, walked: str, setting: Setting) -> int:
    if not part.isdecimal() or int(part) >= len(array):
        reason = f"expected the number of one of its {len(array)} members, counted from 0"
        raise ScenarioError(joined(walked, part), reason, str(setting))
    return int(part)
