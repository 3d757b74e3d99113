"""docs/reference/scenarios.md has every key with its default, no other, and its example runs."""

import re
import tomllib
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from byway.core.broker_config import BrokerConfig
from byway.model.messages import Message
from byway.sim.oracle.violations import Violations
from byway.sim.run import run_scenario
from byway.sim.scenario import Scenario, scenario_of
from byway.sim.scenario import schema as s
from byway.sim.scenario.build import configs_of, topology_of

PAGE = (Path(__file__).parents[3] / "docs/reference/scenarios.md").read_text()
TABLES = {
    "The scenario": Scenario,
    "network": s.Network,
    "brokers": s.Brokers,
    "workload": s.Workload,
    "churn": s.Churn,
    "unsubscribe": s.UnsubscribeBurst,
    "moves": s.SubscriptionMoves,
    "monitor": s.Monitor,
    "probe": s.Probe,
    "measure": s.MeasureSpec,
    "faults_random": s.RandomFaults,
    "client": s.ClientSpec,
    "step": s.Step,
}


def rows(title: str) -> list[list[str]]:
    section = re.split(rf"^## {re.escape(title)}$", PAGE, flags=re.M)[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def words(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def documented_default(cell: str) -> Any:
    return tomllib.loads(f"x = {words(cell)[0]}")["x"]


def own_default(key: str) -> Any:
    """What a broker does when it is told nothing, in the units of a scenario."""
    if hasattr(BrokerConfig, key):
        default = getattr(BrokerConfig(), key)
        return list(default) if isinstance(default, tuple) else default
    return getattr(BrokerConfig(), re.sub(r"_s(_max)?$", r"_us\1", key)) / 1_000_000


@pytest.mark.parametrize("title", TABLES)
def test_a_table_has_every_key_with_its_default(title: str) -> None:
    documented = {words(key)[0]: cell for key, cell, _ in rows(title)}
    fields = {field.encode_name: field for field in msgspec.structs.fields(TABLES[title])}
    assert list(documented) == sorted(fields, key=list(documented).index)
    for key, field in fields.items():
        cell = documented[key]
        if field.required:
            assert cell == "required", key
        elif title == "brokers" and field.default is None:
            assert documented_default(cell) == own_default(key), key
        elif isinstance(field.default, bool | int | float | str):
            assert documented_default(cell) == field.default, key
        else:  # a table, or a default that another key decides
            assert cell != "required", key


def test_kinds_of_faults_have_their_keys() -> None:
    documented = {words(kind)[0]: words(keys) for kind, keys, _ in rows("faults")}
    assert documented == {
        fault.__struct_config__.tag: [field.name for field in msgspec.structs.fields(fault)]
        for fault in get_args(s.Fault)
    }
    told = "\n".join(meaning for _, _, meaning in rows("faults"))
    assert f"`extra_ms` (`{s.Delay.__struct_defaults__[0]:g}`)" in told
    assert f"`factor` (`{s.Slow.__struct_defaults__[0]:g}`)" in told


def test_expectations() -> None:
    fields = [field.encode_name for field in msgspec.structs.fields(s.Expect)]
    assert [words(row[0])[0] for row in rows("expect")] == fields


def test_kinds_of_messages() -> None:
    documented = {kind for row in rows("Messages by kind") for kind in words(row[0])}
    assert documented == {kind.__struct_config__.tag for kind in get_args(Message)}


def test_kinds_of_violations() -> None:
    documented = [kind for row in rows("Violations by kind") for kind in words(row[0])]
    assert documented == list(Violations.KINDS)


def test_brokers_have_the_settings_of_the_core() -> None:
    settings = {field.name for field in msgspec.structs.fields(s.BrokerSpec)}
    in_us = {re.sub(r"_us(_max)?$", r"_s\1", name) for name in BrokerConfig.__struct_fields__}
    assert settings == in_us
    kind = {f.name: f.type for f in msgspec.inspect.type_info(BrokerConfig).fields}["covering"]
    own = {f.name: f.type for f in msgspec.inspect.type_info(s.BrokerSpec).fields}["covering"]
    assert own.types[0] == kind


def test_every_setting_reaches_the_broker() -> None:
    """Each is set to something that it is not by default."""
    brokers: dict[str, Any] = {
        "covering": "active",
        "incremental_bursts": [7, 8],
        "incremental_similarities": [0.8, 0.7],
        "selective_similarity": 0.7,
        "merging_false_positives": 0.7,
    }
    for field in msgspec.structs.fields(s.BrokerSpec):
        default = own_default(field.name)
        brokers.setdefault(field.name, not default if isinstance(default, bool) else 7)
    topology = {"kind": "chain", "brokers": 1}
    scenario = scenario_of({"name": "x", "topology": topology, "brokers": brokers})
    config = configs_of(scenario, topology_of(scenario, 1))["B1"]
    names = BrokerConfig.__struct_fields__
    assert [n for n in names if getattr(config, n) == getattr(BrokerConfig(), n)] == []


# --- the example ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def example() -> Scenario:
    block = re.search(r"^```toml\n(.*?)^```$", PAGE, re.M | re.S)
    assert block is not None
    return scenario_of(tomllib.loads(block[1]))


def test_the_example_is_complete(example: Scenario) -> None:
    unset = [name for name in Scenario.__struct_fields__ if not getattr(example, name)]
    assert unset == []


@pytest.mark.sim
def test_the_example_runs(example: Scenario) -> None:
    result = run_scenario(example)
    assert result.ok, result.violations
    assert configs_of(example, topology_of(example, 7))["hub"].covering == "none"


def test_json_keys_are_documented(example: Scenario) -> None:
    printed = set(run_scenario(example).facts())
    listed = {key for row in rows("What `--json` prints") for key in words(row[0])}
    expected = {field.encode_name for field in msgspec.structs.fields(s.Expect)} - {"received"}
    assert printed == {"scenario", "seed", "ok"} | expected | listed
