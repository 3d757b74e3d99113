"""Times: when things of a scenario may happen, and the refusal of those that come too late."""

from __future__ import annotations

from byway.sim.scenario.schema import Churn, MovesSpec, RandomFaults, Scenario, ScenarioError

Window = Churn | MovesSpec | RandomFaults


def check_before_end(key: str, time_s: float, scenario: Scenario) -> None:
    if time_s >= scenario.duration_s:
        end = f"the run ends at {scenario.duration_s:g} s"
        raise ScenarioError(key, f"{time_s:g} s is too late: {end}")


def check_window(key: str, window: Window, needed_s: float, scenario: Scenario) -> None:
    """From the warm-up to the end unless said otherwise, and long enough."""
    from_s, to_s = window_of(window, scenario)
    if to_s > scenario.duration_s:
        raise ScenarioError(f"{key}.to_s", f"the run ends at {scenario.duration_s:g} s")
    if to_s - from_s < needed_s or to_s <= from_s:
        told = f"from {from_s:g} s to {to_s:g} s there are less than {needed_s:g} s"
        raise ScenarioError(f"{key}.from_s", told if needed_s else "must be less than to_s")


def window_of(window: Window, scenario: Scenario) -> tuple[float, float]:
    """From when to when, in seconds."""
    from_s = scenario.warmup_s if window.from_s is None else window.from_s
    return from_s, scenario.duration_s if window.to_s is None else window.to_s
