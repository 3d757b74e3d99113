"""Checks of steps: the clients that a scenario names itself, and what each is to do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import lru_cache
from typing import Final

from byway.model import BywayError, check_attributes, parse
from byway.model.errors import shortened
from byway.sim.scenario.resolve import check_before_end
from byway.sim.scenario.schema import Scenario, ScenarioError, Step

DEFAULT_NAMES: Final = {"advertise": "a", "subscribe": "s"}
_ACTIONS: Final = (
    "advertise", "subscribe", "unadvertise", "unsubscribe", "publish", "vanish", "return", "leave",
)  # fmt: skip

_parsed: Final = lru_cache(maxsize=1_024)(parse)
"""The scenarios of a sweep have the same steps."""


def check_clients(scenario: Scenario) -> None:
    """Raise `ScenarioError` unless clients can be told from one another."""
    seen: set[str] = set()
    for number, client in enumerate(scenario.client):
        if client.name in seen:
            raise ScenarioError(f"client.{number}.name", f"{client.name!r} is named twice")
        if scenario.workload is not None and client.name[:1] in "ps" and client.name[1:].isdigit():
            reason = f"{client.name!r} is what a client of the workload may be called"
            raise ScenarioError(f"client.{number}.name", reason)
        seen.add(client.name)


def check_steps(scenario: Scenario) -> None:
    """Raise `ScenarioError` unless every step can be done."""
    known = [client.name for client in scenario.client]
    for number, step in enumerate(scenario.step):
        _check_step(step, f"step.{number}", known, scenario)
    _check_step_names(scenario.step)


def _check_step(step: Step, key: str, known: Sequence[str], scenario: Scenario) -> None:
    if step.client not in known:
        raise ScenarioError(f"{key}.client", no_client(step.client, known))
    check_before_end(f"{key}.at_s", step.at_s, scenario)
    given = _actions_of(step)
    if len(given) != 1:
        found = ", ".join(given) or "none"
        raise ScenarioError(key, f"expected one of {', '.join(_ACTIONS)}, found {found}")
    if step.name is not None and given[0] not in ("advertise", "subscribe"):
        raise ScenarioError(f"{key}.name", "goes with advertise or subscribe")
    if step.data is not None and given[0] != "publish":
        raise ScenarioError(f"{key}.data", "goes with publish")
    _check_content(step, key, given[0])


def _check_step_names(steps: Sequence[Step]) -> None:
    """An answer of a broker names what it is about, so one name means one kind of thing."""
    uses: dict[tuple[str, str], str] = {}
    for number, step in enumerate(steps):
        if step.advertise is not None or step.subscribe is not None:
            kind = "subscribe" if step.advertise is None else "advertise"
            name = step.name or DEFAULT_NAMES[kind]
            if uses.setdefault((step.client, name), kind) != kind:
                reason = f"{step.client} uses {name!r} for an advertisement and a subscription"
                raise ScenarioError(f"step.{number}.name", reason)


def _actions_of(step: Step) -> Sequence[str]:
    """The keys of a step that say what is done; there should be one."""
    done = {
        "advertise": step.advertise,
        "subscribe": step.subscribe,
        "unadvertise": step.unadvertise,
        "unsubscribe": step.unsubscribe,
        "publish": step.publish,
        "vanish": step.vanish,
        "return": step.come_back,
        "leave": step.leave,
    }
    return [name for name in _ACTIONS if done[name] is not None]


def _check_content(step: Step, key: str, action: str) -> None:
    """Filters can be read, attributes can be carried, and `false` is no way to say no."""
    try:
        if step.advertise is not None:
            _parsed(step.advertise)
        if step.subscribe is not None:
            _parsed(step.subscribe)
        if step.publish is not None:
            check_attributes(step.publish)
    except BywayError as error:
        raise ScenarioError(f"{key}.{action}", str(error)) from None
    if False in (step.vanish, step.come_back, step.leave):
        raise ScenarioError(f"{key}.{action}", "expected true, found false")


def no_client(name: str, known: Iterable[str]) -> str:
    """Why a client cannot be meant."""
    names = sorted(known)
    near = get_close_matches(name, names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"there is no client {shortened(name)!r} in [[client]]{hint}"
