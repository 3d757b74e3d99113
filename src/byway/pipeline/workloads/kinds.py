"""Kinds: the workloads that have names, and checked requests for them.

It decides which generator a name stands for and how many rows there are; how a generator makes them
is decided in `byway.workload`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, NamedTuple

import msgspec

from byway.model.option_reading import OptionsError, check
from byway.pipeline.pipeline_errors import WorkloadRequestError
from byway.sim.scenario import ScenarioError
from byway.sim.scenario.read import parse_setting
from byway.workload import (
    Clustered,
    CoveringDegree,
    Feeds,
    Generator,
    Mobile,
    Siena,
    StockQuotes,
    Workflow,
    Workload,
    WorkloadError,
    Zipf,
)
from byway.workload.draws import SEED_MAX

ROWS_DEFAULT: Final = 10_000
ROWS_MAX: Final = 1_000_000_000_000


class WorkloadKind(NamedTuple):
    """A generator, and parameters of it that differ from its own defaults."""

    generator: type[Generator]
    preset: Mapping[str, Any] = {}


KINDS: Final[dict[str, WorkloadKind]] = {
    "uniform": WorkloadKind(Zipf, {"name_exponent": 0.0, "value_exponent": 0.0}),
    "zipf": WorkloadKind(Zipf),
    "siena": WorkloadKind(Siena),
    "covering": WorkloadKind(CoveringDegree),
    "clustered": WorkloadKind(Clustered),
    "stocks": WorkloadKind(StockQuotes),
    "dt1": WorkloadKind(Feeds),
    "dt2": WorkloadKind(Feeds, {"feeds": 60, "density": 10.0}),
    "dt3": WorkloadKind(Feeds, {"brokers": 250, "feeds": 250, "subscribers": 125}),
    "mobile": WorkloadKind(Mobile),
    "workflow": WorkloadKind(Workflow, {"auditors": 4}),
}


class WorkloadRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request for a workload, with its numbers of rows."""

    kind: str
    generator: Workload
    subscriptions: int
    publications: int


def request_of(
    kind: str,
    size: int | None = None,
    publications: int = ROWS_DEFAULT,
    seed: int = 0,
    settings: Sequence[str] = (),
) -> WorkloadRequest:
    """A checked request; `settings` are `key=value`, for parameters of the generator.

    Raises `WorkloadRequestError` with the option at fault.
    """
    if kind not in KINDS:
        near = get_close_matches(kind, KINDS, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(KINDS)}"
        raise WorkloadRequestError(kind, f"unknown kind of workload; {hint}")
    _check_rows("--size", size)
    _check_rows("--publications", publications)
    if not 0 <= seed <= SEED_MAX:
        raise WorkloadRequestError("--seed", f"expected 0 to {SEED_MAX}, found {seed}")
    generator = _generator(kind, size, seed, settings)
    available = generator.subscription_count()
    if available is not None and (size or 0) > available:
        reason = f"{size:,}, but with these parameters {kind} has {available:,} subscriptions"
        raise WorkloadRequestError("--size", reason)
    rows = size if size is not None else ROWS_DEFAULT if available is None else available
    return WorkloadRequest(
        kind=kind, generator=generator, subscriptions=rows, publications=publications
    )


def _generator(kind: str, size: int | None, seed: int, settings: Sequence[str]) -> Workload:
    wanted = KINDS[kind]
    given = dict(_parsed(kind, wanted.generator, text) for text in settings)
    fixed: dict[str, Any] = {"seed": seed}
    if issubclass(wanted.generator, CoveringDegree):
        fixed["count"] = max(1, ROWS_DEFAULT if size is None else size)
    for key, value in given.items():
        if key in fixed:
            option = {"seed": "--seed", "count": "--size"}[key]
            raise WorkloadRequestError(f"--set {key}={value}", f"is set by {option}")
    try:
        made = wanted.generator(**{**wanted.preset, **given, **fixed})
    except WorkloadError as error:
        option = f"--set {error.parameter}={error.value}" if error.parameter in given else kind
        reason = f"{error.parameter} = {error.value}: expected {error.expected}"
        raise WorkloadRequestError(option, reason) from None
    assert isinstance(made, Workload)
    return made


def _parsed(kind: str, generator: type[Generator], text: str) -> tuple[str, Any]:
    try:
        setting = parse_setting(text)
        key = ".".join(setting.path)
        check(generator, {key: setting.value})
    except ScenarioError:
        raise WorkloadRequestError(f"--set {text}", f"expected key=value (of {kind})") from None
    except OptionsError as error:
        raise WorkloadRequestError(f"--set {text}", f"{error.problems[0]} (of {kind})") from None
    return key, setting.value


def _check_rows(option: str, rows: int | None) -> None:
    if rows is not None and not 0 <= rows <= ROWS_MAX:
        raise WorkloadRequestError(option, f"expected 0 to {ROWS_MAX:,} rows, found {rows:,}")
