"""Plans a sweep: reads a sweep file, and checks all of its runs before the first begins.

It decides what a sweep file can say, and what makes two runs the same: their scenario after all
settings, the settings, the seed, and whether a trace is wanted. Nothing is run here.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import product
from math import prod
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from byway.model.option_reading import OptionsError, Problem, quoted, read
from byway.model.options import at_least, joined, option, within
from byway.pipeline.jobs import Progress
from byway.pipeline.pipeline_errors import SweepError
from byway.pipeline.schemas import METRICS
from byway.sim.revision import revision
from byway.sim.scenario import Scenario, ScenarioError, ScenarioFile
from byway.sim.scenario.value_types import SEED_MAX

RUNS_MAX: Final = 1_000_000
TOLD_EVERY: Final = 1_000
"""Points that are planned between two calls of `progress`."""
FAILED_POINTS_MAX: Final = 20
"""The points of a grid whose problems are reported; the others are not looked at."""

_Seed = Annotated[int, within(0, SEED_MAX)]


class SweepFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a sweep file can say."""

    scenario: Annotated[
        str, at_least(1), option("The scenario file; its path is relative to the sweep file.")
    ]
    name: Annotated[
        str | None, at_least(1), option("The name of the sweep.", otherwise="the file's")
    ] = None
    seeds: Annotated[
        Annotated[int, within(1, RUNS_MAX)] | Annotated[tuple[_Seed, ...], within(1)],
        option("The seeds in an array, or a number such as `5` for the seeds 1 to 5."),
    ] = (1,)
    grid: Annotated[
        dict[str, Any],
        option(
            "The keys that vary, each with an array of values; the sweep runs every combination."
        ),
    ] = msgspec.field(default_factory=dict)
    set: Annotated[dict[str, Any], option("Keys with a value that is the same in all runs.")] = (
        msgspec.field(default_factory=dict)
    )
    traces: Annotated[bool, option("Whether every run writes a trace.")] = False


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


def read_sweep(path: str | os.PathLike[str], progress: Progress | None = None) -> Sweep:
    """The sweep in a file; `progress` is called with the points of the grid that are planned.
    Raises `SweepError` with every key at fault."""
    path = Path(path)
    try:
        file = read(SweepFile, _load(path))
        seeds = _seeds(file)
        fixed = {key: toml_text(value) for key, value in _flat(file.set)}
        axes = dict(_flat(file.grid))
        _check(seeds, fixed, axes)
        texts = {key: [toml_text(value) for value in values] for key, values in axes.items()}
        scenario = path.parent / file.scenario
        runs = [
            run
            for settings, changed in _scenarios(scenario, _told(fixed, texts, progress))
            for run in runs_of(changed, settings, seeds, file.traces)
        ]
    except OptionsError as error:
        raise SweepError.of(path, error.problems) from None
    name = path.stem if file.name is None else file.name
    return Sweep(name=name, source=str(path), traces=file.traces, runs=tuple(runs))


def runs_of(
    scenario: Scenario, settings: dict[str, str], seeds: list[int], traces: bool
) -> Iterator[Run]:
    """The runs of a scenario, one for each seed; its id is a hash of all that a run depends on."""
    same = [METRICS.version, revision(), scenario, settings]
    begun = sha256(msgspec.json.encode(same, order="sorted")[:-1])
    for seed in seeds:
        content = begun.copy()
        content.update(b",%d,%s]" % (seed, b"true" if traces else b"false"))
        yield Run(id=content.hexdigest()[:16], scenario=scenario, settings=settings, seed=seed)


# --- the parts of a file ----------------------------------------------------------------------


def _load(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise SweepError(path, "", f"cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SweepError(path, "", f"not TOML: {error}") from None


def _seeds(file: SweepFile) -> list[int]:
    return list(range(1, file.seeds + 1) if isinstance(file.seeds, int) else file.seeds)


def _flat(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """The keys of a table of tables with dots between them, as TOML itself writes them."""
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def _points(fixed: dict[str, str], axes: Mapping[str, list[str]]) -> Iterator[dict[str, str]]:
    """The settings of every point: those of `set`, and one value of each key of `grid`."""
    for values in product(*axes.values()):
        yield fixed | dict(zip(axes, values, strict=True))


def _told(
    fixed: dict[str, str], axes: Mapping[str, list[str]], progress: Progress | None
) -> Iterator[dict[str, str]]:
    """The same, with progress."""
    total = prod(map(len, axes.values()))
    for number, point in enumerate(_points(fixed, axes)):
        if progress is not None and number % TOLD_EVERY == 0:
            progress(number, total, "planning")
        yield point


# --- rules that no type tells -----------------------------------------------------------------


def _check(seeds: list[int], fixed: Mapping[str, str], axes: Mapping[str, Any]) -> None:
    """Raise `OptionsError` with what parts of a file cannot say, or not together."""
    problems = [*_repeated("seeds", seeds)]
    for key, values in axes.items():
        at = joined("grid", key)
        if key in fixed:
            problems.append(Problem(at, "is in set already"))
        if not isinstance(values, list) or not values:
            reason = f"expected a non-empty array of values, found {quoted(values)}"
            problems.append(Problem(at, reason))
        else:
            problems += _repeated(at, [toml_text(value) for value in values])
    points = 0 if problems else prod(map(len, axes.values()))
    if points * len(seeds) > RUNS_MAX:
        reason = f"{points:,} points with {len(seeds):,} seeds are too many; at most"
        problems.append(Problem("grid", f"{reason} {RUNS_MAX:,} runs"))
    if problems:
        raise OptionsError(problems)


def _repeated(key: str, values: Sequence[object]) -> Iterator[Problem]:
    seen = set()
    for number, value in enumerate(values):
        if value in seen:
            yield Problem(joined(key, number), f"{value} is there twice")
        seen.add(value)


def _scenarios(
    file: Path, points: Iterable[dict[str, str]]
) -> Iterator[tuple[dict[str, str], Scenario]]:
    """The scenario of every point. Raises `OptionsError` at the end if some of them have none."""
    problems: dict[Problem, None] = {}
    failed = 0
    try:
        scenario = ScenarioFile(file)
    except ScenarioError as error:
        raise OptionsError(list(map(_of_sweep, error.problems))) from None
    for settings in points:
        try:
            changed = scenario.changed([f"{key}={text}" for key, text in settings.items()])
            yield settings, changed
        except ScenarioError as error:
            problems |= dict.fromkeys(map(_of_sweep, error.problems))
            failed += 1
            if failed == FAILED_POINTS_MAX:
                break
    if problems:
        raise OptionsError(list(problems))


def _of_sweep(problem: Problem) -> Problem:
    """A problem of a scenario, as one of the file that chose and changed it."""
    if not problem.source.startswith("--set "):
        return Problem("scenario", str(problem))
    setting = problem.source.removeprefix("--set ")
    return Problem(setting, f"{problem.key}: {problem.reason}" if problem.key else problem.reason)


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
