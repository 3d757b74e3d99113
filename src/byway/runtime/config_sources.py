"""Where the settings of a broker process come from: a TOML file, the environment, flags.

It decides which source counts, what a value may be, and how a fault is told: with its source, key,
what was found and what was expected. All faults are told at once. What settings mean is in
`settings` and `core.config`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import inspect

from byway.core.broker_config import BrokerConfig
from byway.model.addresses import Address, Neighbour
from byway.model.bounds import BODY_BYTES_MAX, KEEPALIVE_MS_MAX, NAME_LENGTH_MAX
from byway.model.errors import ConfigError, shortened
from byway.runtime.settings import BrokerSettings, Limits

PREFIX: Final = "BYWAY_"
FILE_BYTES_MAX: Final = 1_048_576
NEIGHBOURS_MAX: Final = 1_024
"""Neighbours that may be listed."""
_TABLES: Final = ("core", "limits")
_LARGEST: Final = 2**53
_BOUNDS: Final = {
    "core.incremental_bursts": (0, _LARGEST),
    "core.selective_count_min": (0, _LARGEST),
    "core.statistics_max": (2, _LARGEST),
    "core.statistics_window_us": (0, _LARGEST),
    "core.congestion_queue": (0, _LARGEST),
    "core.retire_interval_us": (0, _LARGEST),
    "core.retire_batch": (0, _LARGEST),
    "core.retire_after_us": (0, _LARGEST),
    "core.preserved_max": (0, _LARGEST),
    "core.hops_max": (1, 2**30 - 1),
    "core.body_bytes_max": (1, BODY_BYTES_MAX),
    "core.session_ttl_us_max": (0, _LARGEST),
    "core.session_messages_max": (0, _LARGEST),
    "core.session_bytes_max": (0, _LARGEST),
    "core.sessions_max": (0, _LARGEST),
    "core.sessions_bytes_max": (0, _LARGEST),
    "core.sync_wait_us": (0, _LARGEST),
    "core.restore_grace_us": (0, _LARGEST),
    "core.load_interval_us": (0, _LARGEST),
    "core.load_radius": (1, 2**30 - 1),
    "limits.keepalive_ms": (10, KEEPALIVE_MS_MAX),
    "limits.neighbours": (0, NEIGHBOURS_MAX),
    "limits.drain_ms": (0, _LARGEST),
}
"""Of integers, where they are not 1 and `_LARGEST`."""


class Problem(NamedTuple):
    """One thing that is wrong."""

    source: str
    key: str
    reason: str

    def __str__(self) -> str:
        return ": ".join(part for part in self if part)


class SettingsError(ConfigError):
    """Settings that cannot be used, with everything that is wrong with them."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__(problems[0].key, problems[0].reason)
        self.problems = list(problems)

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


class Given(NamedTuple):
    """A value and who gave it. `as_text`: it was written outside a TOML file."""

    value: Any
    source: str
    as_text: bool


class Reading(NamedTuple):
    """Settings that can be used."""

    settings: BrokerSettings
    sources: dict[str, str]
    """By key, who gave its value; keys that have their default are left out."""
    notes: list[str]
    """What may be a mistake."""


# --- the keys ----------------------------------------------------------------------------------


def _kinds() -> dict[str, inspect.Type]:
    kinds: dict[str, inspect.Type] = {}
    for table, struct in (("", BrokerSettings), ("core.", BrokerConfig), ("limits.", Limits)):
        info = inspect.type_info(struct)
        assert isinstance(info, inspect.StructType)
        for field in info.fields:
            if field.name not in _TABLES:
                kinds[table + field.name] = _given_type(field.type)
    return kinds


def _given_type(kind: inspect.Type) -> inspect.Type:
    """The type of a value that is given; whether it may be left out is another matter."""
    if isinstance(kind, inspect.UnionType):
        return next(t for t in kind.types if not isinstance(t, inspect.NoneType))
    return kind


KEYS: Final = _kinds()
"""Every key there is, and the type of its value."""
_OPTIONAL: Final = ("data", "state_dir", "http", "trace")
_RENAMED: Final = {"core.agreement_wait_us": "core.sync_wait_us"}
"""Keys of earlier versions, and what they are called now."""
_GONE: Final = {
    "core.strangers_wait_us": "neighbours name each other's neighbours, so nobody waits for it"
}
"""Keys of earlier versions that mean nothing any more, and why."""
_OLD: Final = (*_RENAMED, *_GONE)
_REQUIRED: Final = {"id": "the name of this broker", "listen": "host:port"}


def unknown_key(key: str) -> str:
    """What is said of a key that does not exist, with the nearest one, rather of the same table."""
    table, _, name = key.rpartition(".")
    names = {known: known.rpartition(".")[2] for known in KEYS}
    same = [known for known in KEYS if known.rpartition(".")[0] == table]
    for among in (same, list(KEYS)):
        near = get_close_matches(name, [names[known] for known in among], n=1)
        if near:
            meant = next(known for known in among if names[known] == near[0])
            return f"unknown key; did you mean {meant!r}?"
    return "unknown key"


def _flag(key: str) -> str:
    return "--neighbour" if key == "neighbours" else f"--{key.replace('_', '-')}"


# --- reading -----------------------------------------------------------------------------------


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
    given = {} if file is None else _up_to_date(_from_file(file, problems), notes)
    given |= _up_to_date(_from_environment(environment, notes), notes)
    given |= {key: Given(value, _flag(key), True) for key, value in flags.items()}
    given |= _up_to_date(_from_assignments(assignments, problems), notes)
    values: dict[str, Any] = {}
    for key, found in given.items():
        try:
            values[key] = _converted(key, found)
        except ConfigError as error:
            problems.append(Problem(found.source, key, error.reason))
    problems += [
        Problem(file or "", key, f"missing; expected {what}")
        for key, what in _REQUIRED.items()
        if key not in given
    ]
    if not problems:
        problems += _contradictions(values, given)
    if problems:
        raise SettingsError(problems)
    return Reading(_settings(values), {key: found.source for key, found in given.items()}, notes)


def _up_to_date(given: dict[str, Given], notes: list[str]) -> dict[str, Given]:
    """What one source gave, without keys of earlier versions. One that has another name now counts
    under it, unless the source has that, too."""
    for old in [key for key in given if key in _OLD]:
        found = given.pop(old)
        new = _RENAMED.get(old)
        if new is None:
            notes.append(f"{found.source}: {old} is not needed any more and ignored: {_GONE[old]}")
        elif new in given:
            notes.append(f"{found.source}: {old} is ignored: {new}, its new name, is there too")
        else:
            notes.append(f"{found.source}: {old} is called {new} now")
            given[new] = found
    return given


def _from_file(file: str, problems: list[Problem]) -> dict[str, Given]:
    try:
        data = Path(file).read_bytes()
        if len(data) > FILE_BYTES_MAX:
            reason = f"has {len(data)} bytes, at most {FILE_BYTES_MAX} are read"
            raise SettingsError([Problem(file, "", reason)])
        document = tomllib.loads(data.decode())
    except OSError as error:
        problem = Problem(file, "", f"cannot be read: {error.strerror}")
        raise SettingsError([problem]) from error
    except ValueError as error:
        raise SettingsError([Problem(file, "", f"is not TOML: {error}")]) from error
    given = {}
    for key, value in _flat(document, file, problems):
        if key in KEYS or key in _OLD:
            given[key] = Given(value, file, False)
        else:
            problems.append(Problem(file, key, unknown_key(key)))
    return given


def _flat(
    document: dict[str, Any], file: str, problems: list[Problem]
) -> Iterable[tuple[str, Any]]:
    for key, value in document.items():
        if key not in _TABLES:
            yield key, value
        elif isinstance(value, dict):
            yield from ((f"{key}.{below}", member) for below, member in value.items())
        else:
            problems.append(Problem(file, key, f"found {_shown(value)}, expected a table"))


def _from_environment(environment: Mapping[str, str], notes: list[str]) -> dict[str, Given]:
    """Variables may be others' business too, so an unknown one is worth a note only if it looks
    like a slip."""
    given = {}
    names = {PREFIX + key.replace(".", "__").upper(): key for key in (*KEYS, *_OLD)}
    for name in sorted(environment):
        if name in names:
            given[names[name]] = Given(environment[name], name, True)
        elif name.startswith(PREFIX):
            near = get_close_matches(name, names, n=1, cutoff=0.85)
            notes += [f"{name} is not known; did you mean {n}?" for n in near]
    return given


def _from_assignments(texts: Iterable[str], problems: list[Problem]) -> dict[str, Given]:
    given = {}
    for text in texts:
        key, equals, value = (part.strip() for part in text.partition("="))
        source = f"--set {text}"
        if not equals:
            problems.append(Problem(source, "", "expected key=value"))
        elif key not in KEYS and key not in _OLD:
            problems.append(Problem(source, key, unknown_key(key)))
        else:
            given[key] = Given(value, source, True)
    return given


# --- values ------------------------------------------------------------------------------------


def _converted(key: str, given: Given) -> Any:
    """The value as its key needs it. Raises `ConfigError`."""
    if key in _OPTIONAL and given.value == "":
        return None
    if key in _SPECIAL:
        return _SPECIAL[key](key, given)
    value = _from_text(given.value, KEYS[key]) if given.as_text else given.value
    if isinstance(KEYS[key], inspect.TupleType) and isinstance(value, list):
        value = tuple(value)
    if not _fits(key, value, KEYS[key]):
        raise ConfigError(key, f"found {_shown(given.value)}, expected {expected(key)}")
    return value


def _from_text(value: Any, kind: inspect.Type) -> Any:
    """What a text means; the text itself if it means nothing."""
    match kind:
        case inspect.BoolType():
            return {"true": True, "false": False}.get(value.lower(), value)
        case inspect.IntType() if re.fullmatch(r"[+-]?[0-9][0-9_]*", value):
            return int(value)
        case inspect.FloatType() if re.fullmatch(r"[+-]?[0-9]*\.?[0-9]+", value):
            return float(value)
        case inspect.TupleType(item_types=kinds):
            members = value.removeprefix("[").removesuffix("]").split(",")
            if len(members) == len(kinds):
                return [_from_text(m.strip(), k) for m, k in zip(members, kinds, strict=True)]
    return value


def _fits(key: str, value: Any, kind: inspect.Type) -> bool:
    match kind:
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.IntType():
            least, most = bounds(key)
            return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
        case inspect.FloatType():
            return (
                isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
            )
        case inspect.LiteralType(values=values):
            return value in values
        case inspect.TupleType(item_types=kinds):
            if not isinstance(value, tuple) or len(value) != len(kinds):
                return False
            return all(_fits(key, m, k) for m, k in zip(value, kinds, strict=True))
    return isinstance(value, str) and value != ""


def bounds(key: str) -> tuple[int, int]:
    """The least and the largest value of an integer."""
    return _BOUNDS.get(key, (1, _LARGEST))


def expected(key: str) -> str:
    """What a key's value may be, in words."""
    kind = KEYS[key]
    if isinstance(kind, inspect.TupleType):
        return f"an array of {len(kind.item_types)}, each {_expected(key, kind.item_types[0])}"
    return _expected(key, kind)


def _expected(key: str, kind: inspect.Type) -> str:
    match kind:
        case inspect.BoolType():
            return "true or false"
        case inspect.IntType():
            least, most = bounds(key)
            upper = "" if most == _LARGEST else f" to {most}"
            return f"an integer from {least}{upper}" if upper else f"an integer of at least {least}"
        case inspect.FloatType():
            return "a number from 0 to 1"
        case inspect.LiteralType(values=values):
            return "one of " + ", ".join(sorted(str(value) for value in values))
    return "a text"


def _text(key: str, given: Given, what: str) -> str:
    if not isinstance(given.value, str):
        raise ConfigError(key, f"found {_shown(given.value)}, expected {what}")
    return given.value


def _id(key: str, given: Given) -> str:
    text = _text(key, given, "a text")
    if not 0 < len(text) <= NAME_LENGTH_MAX or not text.isprintable() or " " in text:
        words = f"a text of 1 to {NAME_LENGTH_MAX} characters without spaces"
        raise ConfigError(key, f"found {_shown(text)}, expected {words}")
    return text


def _address(key: str, given: Given) -> Address:
    return Address.parse(_text(key, given, "host:port"), key)


def _neighbours(key: str, given: Given) -> tuple[Neighbour, ...]:
    texts = given.value
    if isinstance(texts, str) and given.as_text:
        texts = [text.strip() for text in texts.split(",") if text.strip()]
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        words = 'an array of texts such as "127.0.0.1:7002" or "B2@127.0.0.1:7002"'
        raise ConfigError(key, f"found {_shown(texts)}, expected {words}")
    if len(texts) > NEIGHBOURS_MAX:
        raise ConfigError(key, f"found {len(texts)} neighbours, expected at most {NEIGHBOURS_MAX}")
    return tuple(Neighbour.parse(text, key) for text in texts)


_SPECIAL: Final[dict[str, Callable[[str, Given], Any]]] = {
    "id": _id,
    "listen": _address,
    "http": _address,
    "neighbours": _neighbours,
}


def _shown(value: Any) -> str:
    return shortened(repr(value))


def _contradictions(values: dict[str, Any], given: dict[str, Given]) -> list[Problem]:
    """What is wrong although every value alone is right."""
    found = []
    neighbours: tuple[Neighbour, ...] = values.get("neighbours", ())
    for number, neighbour in enumerate(neighbours):
        before = neighbours[:number]
        if neighbour.id == values["id"] or neighbour.address == values["listen"]:
            found.append(("neighbours", f"{neighbour} is this broker itself"))
        elif neighbour.address in [other.address for other in before]:
            found.append(("neighbours", f"{neighbour.address} is listed twice"))
        elif neighbour.id and neighbour.id in [other.id for other in before]:
            found.append(("neighbours", f"{neighbour.id} is listed twice"))
    http: Address | None = values.get("http")
    if http is not None and http.port and http == values["listen"]:
        found.append(("http", f"{http} is the address that brokers and clients connect to"))
    some, many = values.get("core.incremental_bursts", (0, 0))
    if some > many:
        found.append(("core.incremental_bursts", f"{some} is more than {many}"))
    more, less = values.get("core.incremental_similarities", (1, 0))
    if more < less:
        found.append(("core.incremental_similarities", f"{more:g} is less than {less:g}"))
    return [Problem(given[key].source, key, reason) for key, reason in found]


def _settings(values: dict[str, Any]) -> BrokerSettings:
    top = {key: value for key, value in values.items() if "." not in key}
    settings = BrokerSettings(**top)
    for table in _TABLES:
        members = {k.partition(".")[2]: v for k, v in values.items() if k.startswith(f"{table}.")}
        changed = msgspec.structs.replace(getattr(settings, table), **members)
        settings = msgspec.structs.replace(settings, **{table: changed})
    return settings


# --- telling -----------------------------------------------------------------------------------


def plain(settings: BrokerSettings) -> dict[str, Any]:
    """Every key and its value, as a TOML file could give it; None for what is not there."""
    return {key: _plain(_value(settings, key)) for key in KEYS}


def _value(settings: BrokerSettings, key: str) -> Any:
    value: Any = settings
    for part in key.split("."):
        value = getattr(value, part)
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, Address):
        return str(value)
    if isinstance(value, tuple):
        return [m if isinstance(m, int | float) else str(m) for m in value]
    return value


def changed_keys(before: BrokerSettings, after: BrokerSettings) -> list[str]:
    """Keys whose values differ."""
    old, new = plain(before), plain(after)
    return [key for key in KEYS if old[key] != new[key]]
