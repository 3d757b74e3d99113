"""Checks: what a scenario asks for that cannot be done, although every key is well-formed.

`check_scenario` looks at the scenario alone, `check_on` at its names on a topology. Both raise
`ScenarioError` with the key at fault. Nothing is built or drawn here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, get_args

from byway.model.messages import Message
from byway.model.option_reading import unknown_key
from byway.model.options import joined
from byway.sim.engine.service import profile_names
from byway.sim.scenario.check_faults import check_fault_on, check_fault_times
from byway.sim.scenario.check_measure import check_measure, check_measure_on
from byway.sim.scenario.check_steps import check_clients, check_steps, no_client
from byway.sim.scenario.fault_spec import RandomFaults
from byway.sim.scenario.resolve import brokers_of, check_before_end, check_broker, check_window
from byway.sim.scenario.schema import Churn, Expect, Scenario, ScenarioError, Workload
from byway.sim.scenario.workload_source import generator_of, sized
from byway.sim.topology.topology_spec import spec_problems
from byway.sim.topology.tree import Topology
from byway.workload import StockQuotes

MESSAGE_KINDS: Final = tuple(str(kind.__struct_config__.tag) for kind in get_args(Message))


def check_scenario(scenario: Scenario) -> None:
    """Raise `ScenarioError` unless the scenario makes sense, whatever its brokers are called."""
    if problems := spec_problems(scenario.topology):
        raise ScenarioError.of(problems)
    check_before_end("warmup_s", scenario.warmup_s, scenario)
    if scenario.brokers.profile not in profile_names():
        reason = f"expected one of {', '.join(profile_names())}"
        raise ScenarioError("brokers.profile", f"{reason}, found {scenario.brokers.profile!r}")
    if scenario.workload is not None:
        _check_workload(scenario.workload, scenario)
    else:
        _check_nothing_needs_a_workload(scenario)
    for number, burst in enumerate(scenario.unsubscribe):
        last_s = burst.at_s + (burst.count - 1) * burst.gap_s
        check_before_end(f"unsubscribe.{number}.at_s", last_s, scenario)
        if burst.which == "roots":
            _check_covering_only(f"unsubscribe.{number}.which", scenario)
    if scenario.churn is not None:
        _check_churn(scenario.churn, scenario)
    if scenario.moves is not None:
        check_window("moves", scenario.moves, 0.0, scenario)
    if scenario.faults_random is not None:
        _check_random_faults(scenario.faults_random, scenario)
    check_fault_times(scenario)
    check_measure(scenario)
    check_clients(scenario)
    check_steps(scenario)
    _check_expect(scenario.expect, scenario)


def check_on(scenario: Scenario, topology: Topology) -> None:
    """Raise `ScenarioError` if a broker, role or link that the scenario names is not there."""
    for name in scenario.brokers.at:
        check_broker(f"brokers.at.{name}", name, topology)
    for number, client in enumerate(scenario.client):
        check_broker(f"client.{number}.broker", client.broker, topology)
    for number, fault in enumerate(scenario.faults):
        check_fault_on(fault, f"faults.{number}", scenario, topology)
    workload, faults = scenario.workload, scenario.faults_random
    if workload is not None:
        brokers_of("workload.subscribers_at", workload.subscribers_at, topology)
        brokers_of("workload.publishers_at", workload.publishers_at, topology)
        _check_roots_on(workload, topology)
    if faults is not None:
        brokers_of("faults_random.brokers", faults.brokers, topology)
    check_measure_on(scenario, topology)


# --- tables -----------------------------------------------------------------------------------


def _unknown(path: str, key: str, known: Iterable[str]) -> ScenarioError:
    return ScenarioError(joined(path, key), unknown_key(path, key, known))


def _check_workload(workload: Workload, scenario: Scenario) -> None:
    if workload.rate_per_s is not None and workload.rate_per_publisher_per_s is not None:
        raise ScenarioError("workload.rate_per_publisher_per_s", "rate_per_s is given too")
    if workload.advertise == "symbols" and workload.kind != "stocks":
        reason = f"'symbols' is for kind 'stocks', this one is {workload.kind!r}"
        raise ScenarioError("workload.advertise", reason)
    if workload.advertise == "feeds" and workload.kind != "feeds":
        reason = f"'feeds' is for kind 'feeds', this one is {workload.kind!r}"
        raise ScenarioError("workload.advertise", reason)
    generator = generator_of(workload, seed=0)
    workload = sized(workload, generator)
    if workload.subscribers is not None and workload.subscribers > max(1, workload.subscriptions):
        reason = f"{workload.subscribers} share {workload.subscriptions} subscriptions"
        raise ScenarioError("workload.subscribers", reason)
    if workload.clusters != "none":
        _check_covering_only("workload.clusters", scenario)
    if workload.roots_at is not None:
        _check_covering_only("workload.roots_at", scenario)
    if workload.order == "groups":
        _check_covering_only("workload.order", scenario)
    if workload.roots_after:
        _check_covering_only("workload.roots_after", scenario)
        if workload.order == "given":
            raise ScenarioError("workload.roots_after", "goes with order 'shuffled' or 'groups'")
    last_s = workload.subscribe_at_s + workload.subscribe_for_s
    check_before_end("workload.subscribe_at_s", last_s, scenario)
    if isinstance(generator, StockQuotes) and workload.advertise == "symbols":
        _check_symbols(workload.publishers, generator.symbols)
    available = generator.subscription_count()
    if available is not None and workload.subscriptions > available:
        reason = f"{workload.subscriptions}, but workload.parameters.count is {available}"
        raise ScenarioError("workload.subscriptions", reason)


def _check_roots_on(workload: Workload, topology: Topology) -> None:
    if workload.roots_at is None:
        return
    there = brokers_of("workload.subscribers_at", workload.subscribers_at, topology)
    clients = workload.subscriptions if workload.subscribers is None else workload.subscribers
    wanted = brokers_of("workload.roots_at", workload.roots_at, topology)
    if workload.subscribers_at == "random" or not {*there[:clients]} & {*wanted}:
        raise ScenarioError("workload.roots_at", "no subscriber is sure to be there")


def _check_covering_only(key: str, scenario: Scenario) -> None:
    kind = None if scenario.workload is None else scenario.workload.kind
    if kind != "covering":
        raise ScenarioError(key, f"is about groups of kind 'covering', this one is {kind!r}")


def _check_symbols(publishers: int, symbols: int) -> None:
    if publishers > symbols:
        reason = f"{publishers} share {symbols} symbols"
        raise ScenarioError("workload.publishers", reason)


def _check_nothing_needs_a_workload(scenario: Scenario) -> None:
    for key in ("churn", "unsubscribe", "moves"):
        if getattr(scenario, key):
            raise ScenarioError(key, "is about the subscribers of a [workload]; there is none")


def _check_churn(churn: Churn, scenario: Scenario) -> None:
    check_window("churn", churn, 0.0, scenario)
    if churn.away_s_min > churn.away_s_max:
        raise ScenarioError("churn.away_s_min", f"more than away_s_max, {churn.away_s_max:g}")


def _check_random_faults(faults: RandomFaults, scenario: Scenario) -> None:
    if faults.for_s_min > faults.for_s_max:
        reason = f"more than for_s_max, {faults.for_s_max:g}"
        raise ScenarioError("faults_random.for_s_min", reason)
    check_window("faults_random", faults, faults.for_s_max, scenario)


def _check_expect(expect: Expect, scenario: Scenario) -> None:
    for kind in expect.messages_by_kind:
        if kind not in MESSAGE_KINDS:
            raise _unknown("expect.messages_by_kind", kind, MESSAGE_KINDS)
    known = {client.name for client in scenario.client}
    for name in expect.received:
        if name not in known:
            raise ScenarioError(f"expect.received.{name}", no_client(name, known))
