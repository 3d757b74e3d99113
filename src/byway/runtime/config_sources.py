"""Where the options of a broker process come from: a TOML file, the environment, flags.

It decides which source counts, and which source a problem is blamed on. What options there are is
declared in `settings` and `core.broker_config`; how they are checked is in `model.option_reading`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NamedTuple

from byway.model.addresses import BROKER_VARIABLE
from byway.model.errors import ConfigError
from byway.model.option_reading import OptionsError, Problem, from_text, read
from byway.runtime.settings import SETTINGS, BrokerSettings

PREFIX: Final = "BYWAY_"
FILE_BYTES_MAX: Final = 1_048_576
_TABLES: Final = frozenset(table for key in SETTINGS if (table := key.rpartition(".")[0]))
_FIELDS: Final = {option.field: key for key, option in SETTINGS.items()}
"""Keys by the names of their fields, which are read too: a time has its unit there."""
_RENAMED: Final = {
    f"{key.rpartition('.')[0]}.{was}": option.field
    for key, option in SETTINGS.items()
    if (was := option.kind.facts.get("was"))
}
"""Keys of earlier versions, and the fields that have another name now."""
_GONE: Final = {"core.strangers_wait_us": "brokers learn the names of each other's neighbours"}
"""Keys of earlier versions that have no effect any more, and why."""
_OLD: Final = (*_RENAMED, *_GONE)


class SettingsError(ConfigError):
    """Settings that cannot be used, with everything that is wrong with them."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(problems[0].key, problems[0].reason)
        self.problems = list(problems)

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


class Given(NamedTuple):
    """A value, as plain data, its source, and the key that it has there."""

    value: Any
    source: str
    key: str


class Reading(NamedTuple):
    """Settings that can be used."""

    settings: BrokerSettings
    sources: dict[str, str]
    """The source of each value by key; keys that have their default are left out."""
    notes: list[str]
    """What may be a mistake."""


def read_settings(
    file: str | None,
    environment: Mapping[str, str],
    flags: Mapping[str, Any],
    assignments: Iterable[str] = (),
) -> Reading:
    """The settings of a file, changed by the environment, by flags and by `key=value` texts, each
    stronger than those before. Raises `SettingsError`."""
    problems: list[Problem] = []
    notes: list[str] = []
    given = {} if file is None else _up_to_date(_from_file(file), notes)
    given |= _up_to_date(_from_environment(environment, notes), notes)
    given |= {
        key: Given(_plain_data(key, value), flag_of(key), key) for key, value in flags.items()
    }
    given |= _up_to_date(_from_assignments(assignments, problems), notes)
    settings = None
    try:
        settings = read(BrokerSettings, _nested(given))
        problems += _contradictions(settings)
    except OptionsError as error:
        problems += error.problems
    if problems or settings is None:
        raise SettingsError([_blamed(problem, given, file or "") for problem in problems])
    return Reading(settings, {key: found.source for key, found in given.items()}, notes)


def flag_of(key: str) -> str:
    """The flag of `byway broker` that sets an option; empty if none does."""
    return SETTINGS[key].kind.facts.get("flag", "").partition(" ")[0]


def variable_of(key: str) -> str:
    """The variable of the environment that sets an option."""
    return PREFIX + key.replace(".", "__").upper()


# --- the sources -------------------------------------------------------------------------------


def _from_file(file: str) -> dict[str, Given]:
    try:
        data = Path(file).read_bytes()
        if len(data) > FILE_BYTES_MAX:
            reason = f"has {len(data)} bytes, at most {FILE_BYTES_MAX} are read"
            raise SettingsError([Problem("", reason, file)])
        document = tomllib.loads(data.decode())
    except OSError as error:
        problem = Problem("", f"cannot be read: {error.strerror}", file)
        raise SettingsError([problem]) from error
    except ValueError as error:
        raise SettingsError([Problem("", f"is not TOML: {error}", file)]) from error
    return {key: Given(value, file, key) for key, value in _flat(document)}


def _flat(document: dict[str, Any]) -> Iterable[tuple[str, Any]]:
    for key, value in document.items():
        if key in _TABLES and isinstance(value, dict):
            yield from ((f"{key}.{below}", member) for below, member in value.items())
        else:
            yield key, value


def _from_environment(environment: Mapping[str, str], notes: list[str]) -> dict[str, Given]:
    """Variables may be others' business too, so an unknown one is worth a note only if it looks
    like a slip."""
    given = {}
    names = {variable_of(key): key for key in (*_FIELDS, *_OLD, *SETTINGS)}
    for name in sorted(environment):
        if name in names:
            key = names[name]
            given[key] = Given(_plain_data(key, environment[name]), name, key)
        elif name.startswith(PREFIX) and name != BROKER_VARIABLE:
            near = get_close_matches(name, names, n=1, cutoff=0.85)
            notes += [f"{name} is not known; did you mean {n}?" for n in near]
    return given


def _from_assignments(texts: Iterable[str], problems: list[Problem]) -> dict[str, Given]:
    given = {}
    for text in texts:
        key, equals, value = (part.strip() for part in text.partition("="))
        if equals:
            given[key] = Given(_plain_data(key, value), f"--set {text}", key)
        else:
            problems.append(Problem("", "expected key=value", f"--set {text}"))
    return given


def _plain_data(key: str, value: Any) -> Any:
    """What a text means for its key; other values are plain data already."""
    option = SETTINGS.get(_current(key))
    return from_text(value, option.kind) if option and isinstance(value, str) else value


def _current(key: str) -> str:
    """The name that a key has now, if it is an old one, or the name of a field."""
    field = _RENAMED.get(key, key)
    return _FIELDS.get(field, field)


def _up_to_date(given: dict[str, Given], notes: list[str]) -> dict[str, Given]:
    """What one source gave, by the names that keys have now. An old key counts, unless the source
    has the new one too."""
    found: dict[str, Given] = {}
    for key, value in given.items():
        current = _current(key)
        if key in _GONE:
            notes.append(f"{value.source}: {key} is not needed any more and ignored: {_GONE[key]}")
        elif current != key and current in given:
            notes.append(f"{value.source}: {key} is ignored: {current}, its new name, is there too")
        else:
            if key in _RENAMED:
                value = value._replace(key=_RENAMED[key])
                is_time = SETTINGS[current].kind.facts.get("is_time")
                form = ', a time such as "30s"' if is_time else ""
                notes.append(f"{value.source}: {key} is called {current} now{form}")
            found[current] = value
    return found


# --- what they give together -------------------------------------------------------------------


def _nested(given: Mapping[str, Given]) -> dict[str, Any]:
    """The values as one document with tables. A value in the place of a table stays there."""
    document: dict[str, Any] = {}
    for found in given.values():
        table, _, name = found.key.partition(".")
        if name and table in _TABLES:
            members = document.setdefault(table, {})
            if isinstance(members, dict):
                members[name] = found.value
        else:
            document[found.key] = found.value
    return document


def _blamed(problem: Problem, given: Mapping[str, Given], file: str) -> Problem:
    """A problem with the source of the value that it is about; what is missing lacks in `file`."""
    if problem.source:
        return problem
    key = _current(problem.key)
    while key and key not in given:
        key = key.rpartition(".")[0]
    return problem._replace(source=given[key].source if key else file)


def _contradictions(settings: BrokerSettings) -> list[Problem]:
    """What is wrong although every value alone is right."""
    found = []
    neighbours = settings.neighbours
    for number, neighbour in enumerate(neighbours):
        before = neighbours[:number]
        if neighbour.id == settings.id or neighbour.address == settings.listen:
            found.append(Problem("neighbours", f"{neighbour} is this broker itself"))
        elif neighbour.address in [other.address for other in before]:
            found.append(Problem("neighbours", f"{neighbour.address} is listed twice"))
        elif neighbour.id and neighbour.id in [other.id for other in before]:
            found.append(Problem("neighbours", f"{neighbour.id} is listed twice"))
    http = settings.http
    if http is not None and http.port and http == settings.listen:
        reason = f"{http} is the address that brokers and clients connect to"
        found.append(Problem("http", reason))
    return found
