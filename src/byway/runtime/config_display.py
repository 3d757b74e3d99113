"""How the options of a broker process are shown: as plain values, as a file, as what changed."""

from __future__ import annotations

from typing import Any

import msgspec

from byway.model.addresses import Address
from byway.model.durations import MICROSECONDS, format_duration
from byway.model.options import Option
from byway.runtime.config_sources import Reading
from byway.runtime.settings import SETTINGS, BrokerSettings


def plain(settings: BrokerSettings) -> dict[str, Any]:
    """Every key and its value, as a TOML file could give it; None for what is not there."""
    return {key: _plain(_value(settings, option), option) for key, option in SETTINGS.items()}


def changed_keys(before: BrokerSettings, after: BrokerSettings) -> list[str]:
    """Keys whose values differ."""
    old, new = plain(before), plain(after)
    return [key for key in SETTINGS if old[key] != new[key]]


def as_json(reading: Reading) -> bytes:
    """Tables and keys as one JSON object, with `sources` by key."""
    tables = _tables(reading.settings)
    return msgspec.json.encode({**tables.pop(""), **tables, "sources": reading.sources})


def as_toml(reading: Reading) -> str:
    """A file that gives the same settings, with the source of each value that is no default in a
    comment. An option that is not set is an empty text."""
    lines = []
    for table, members in _tables(reading.settings).items():
        if table:
            lines += ["", f"[{table}]"]
        for name, value in members.items():
            text = msgspec.json.encode("" if value is None else value).decode()
            source = reading.sources.get(f"{table}.{name}".lstrip("."))
            lines.append(f"{name} = {text}" + (f"  # {source}" if source else ""))
    return "\n".join(lines)


def _tables(settings: BrokerSettings) -> dict[str, dict[str, Any]]:
    """Settings by table; those outside one under an empty name."""
    tables: dict[str, dict[str, Any]] = {}
    for key, value in plain(settings).items():
        table, _, name = key.rpartition(".")
        tables.setdefault(table, {})[name] = value
    return tables


def _value(settings: BrokerSettings, option: Option) -> Any:
    value: Any = settings
    for part in option.field.split("."):
        value = getattr(value, part)
    return value


def _plain(value: Any, option: Option) -> Any:
    facts = option.kind.given.facts
    if facts.get("is_time"):
        return format_duration(value * MICROSECONDS[facts["unit"]])
    if isinstance(value, Address):
        return str(value)
    if isinstance(value, tuple):
        return [m if isinstance(m, int | float) else str(m) for m in value]
    return value
