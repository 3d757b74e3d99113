"""Plans a sweep: reads a sweep file, and checks all of its runs before the first begins.

It decides what a sweep file can say, and what makes two runs the same: their scenario after all
settings, the settings, the seed, and whether a trace is wanted. Nothing is run here.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from hashlib import sha256
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, Final

import msgspec

from byway.pipeline.pipeline_errors import SweepError
from byway.pipeline.schemas import METRICS
from byway.sim.revision import revision
from byway.sim.scenario import Scenario, ScenarioError, read_scenario
from byway.sim.scenario.value_types import SEED_MAX

RUNS_MAX: Final = 1_000_000
_KEYS: Final = ("name", "scenario", "seeds", "traces", "set", "grid")


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the simulator: a scenario with settings and a seed."""

    id: str
    scenario: Scenario
    settings: dict[str, str]
    """Key and TOML value, as `byway simulate --set` takes them."""
    seed: int


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of a sweep file."""

    name: str
    source: str
    traces: bool
    runs: tuple[Run, ...]
    trace_rows_max: int | None = None
    """A run with more rows keeps no trace; None: every run keeps its trace."""


def read_sweep(path: str | os.PathLike[str]) -> Sweep:
    """The sweep in a file. Raises `SweepError` with the key at fault."""
    path = Path(path)
    data = _load(path)
    unknown = [key for key in data if key not in _KEYS]
    if unknown:
        raise SweepError(path, unknown[0], f"unknown key; expected one of {', '.join(_KEYS)}")
    scenario = path.parent / _text(path, data, "scenario")
    name = _text(path, data, "name", path.stem)
    traces = data.get("traces", False)
    if not isinstance(traces, bool):
        raise SweepError(path, "traces", f"expected true or false, found {traces!r}")
    seeds = _seeds(path, data.get("seeds", [1]))
    fixed = {key: toml_text(value) for key, value in _flat(path, data, "set")}
    axes = _axes(path, data, fixed)
    points = prod(map(len, axes.values()))
    if points * len(seeds) > RUNS_MAX:
        reason = f"{points:,} points with {len(seeds):,} seeds are too many; at most"
        raise SweepError(path, "grid", f"{reason} {RUNS_MAX:,} runs")
    runs = tuple(
        run
        for settings in _points(fixed, axes)
        for run in runs_of(_scenario(path, scenario, settings), settings, seeds, traces)
    )
    return Sweep(name=name, source=str(path), traces=traces, runs=runs)


def runs_of(
    scenario: Scenario, settings: dict[str, str], seeds: list[int], traces: bool
) -> Iterator[Run]:
    """The runs of a scenario, one for each seed; its id is a hash of all that a run depends on."""
    for seed in seeds:
        content = [METRICS.version, revision(), scenario, settings, seed, traces]
        digest = sha256(msgspec.json.encode(content, order="sorted")).hexdigest()
        yield Run(id=digest[:16], scenario=scenario, settings=settings, seed=seed)


def _scenario(path: Path, file: Path, settings: Mapping[str, str]) -> Scenario:
    try:
        return read_scenario(file, [f"{key}={value}" for key, value in settings.items()])
    except ScenarioError as error:
        if not error.source.startswith("--set "):
            raise SweepError(path, "scenario", str(error)) from None
        setting = error.source.removeprefix("--set ")
        raise SweepError(path, setting, f"{error.key}: {error.reason}") from None


# --- the parts of a file ----------------------------------------------------------------------


def _load(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise SweepError(path, "", f"cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SweepError(path, "", f"not TOML: {error}") from None


def _text(path: Path, data: dict[str, Any], key: str, default: str | None = None) -> str:
    value = data.get(key, default)
    if value is None:
        raise SweepError(path, key, "missing; expected a string")
    if not isinstance(value, str) or not value:
        raise SweepError(path, key, f"expected a string, found {value!r}")
    return value


def _seeds(path: Path, value: Any) -> list[int]:
    """The seeds: an array such as `[1, 2, 3]`, or a number such as `5` for the seeds 1 to 5."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= RUNS_MAX:
        return list(range(1, value + 1))
    if not isinstance(value, list) or not value:
        reason = "expected an array of seeds, or how many, counted from 1"
        raise SweepError(path, "seeds", f"{reason}; found {value!r}")
    for number, seed in enumerate(value):
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed <= SEED_MAX:
            reason = f"expected an integer from 0 to {SEED_MAX}, found {seed!r}"
            raise SweepError(path, f"seeds.{number}", reason)
        if seed in value[:number]:
            raise SweepError(path, f"seeds.{number}", f"{seed} is there twice")
    return value


def _axes(path: Path, data: dict[str, Any], fixed: Mapping[str, str]) -> dict[str, list[str]]:
    """The keys of `grid`, each with its values as TOML text."""
    axes: dict[str, list[str]] = {}
    for key, values in _flat(path, data, "grid"):
        if key in fixed:
            raise SweepError(path, f"grid.{key}", "is in set already")
        axes[key] = _axis(path, key, values)
    return axes


def _points(fixed: dict[str, str], axes: Mapping[str, list[str]]) -> Iterator[dict[str, str]]:
    """The settings of every point: those of `set`, and one value of each key of `grid`."""
    for values in product(*axes.values()):
        yield fixed | dict(zip(axes, values, strict=True))


def _axis(path: Path, key: str, values: Any) -> list[str]:
    if not isinstance(values, list) or not values:
        raise SweepError(path, f"grid.{key}", f"expected an array of values, found {values!r}")
    texts = [toml_text(value) for value in values]
    for number, text in enumerate(texts):
        if text in texts[:number]:
            raise SweepError(path, f"grid.{key}.{number}", f"{text} is there twice")
    return texts


def _flat(path: Path, data: dict[str, Any], table: str) -> Iterator[tuple[str, Any]]:
    """The keys of a table of tables with dots between them, as TOML itself writes them."""
    value = data.get(table, {})
    if not isinstance(value, dict):
        raise SweepError(path, table, f"expected a table, found {value!r}")
    yield from _below(value, "")


def _below(table: dict[str, Any], path: str) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from _below(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def toml_text(value: Any) -> str:
    """A value as TOML text on one line."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case list():
            return f"[{', '.join(map(toml_text, value))}]"
        case dict():
            members = (f"{json.dumps(key)} = {toml_text(item)}" for key, item in value.items())
            return f"{{{', '.join(members)}}}"
    return str(value)
