"""docs/reference/scenarios.md has every kind of fault, message and violation; its example runs."""

import re
import tomllib
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from byway.core.broker_config import BrokerConfig
from byway.core.mesh.mesh_config import MeshConfig
from byway.model.messages import Message
from byway.sim.engine.node_storage import StorageOptions
from byway.sim.oracle.violations import Violations
from byway.sim.run import run_scenario
from byway.sim.scenario import Scenario, fault_spec, scenario_of
from byway.sim.scenario.broker_spec import BrokerSpec
from byway.sim.scenario.build import configs_of, storage_of, topology_of
from byway.sim.scenario.schema import Expect
from tests.docs.option_tables import own_default

PAGE = (Path(__file__).parents[3] / "docs/reference/scenarios.md").read_text()


def rows(title: str) -> list[list[str]]:
    section = re.split(rf"^## {re.escape(title)}$", PAGE, flags=re.M)[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def words(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_kinds_of_faults_have_their_keys() -> None:
    documented = {words(kind)[0]: words(keys) for kind, keys, _ in rows("faults")}
    assert documented == {
        fault.__struct_config__.tag: [field.name for field in msgspec.structs.fields(fault)]
        for fault in get_args(fault_spec.Fault)
    }
    told = "\n".join(meaning for _, _, meaning in rows("faults"))
    assert f"`extra_ms` (`{fault_spec.Delay.__struct_defaults__[0]:g}`)" in told
    assert f"`factor` (`{fault_spec.Slow.__struct_defaults__[0]:g}`)" in told


def test_kinds_of_messages() -> None:
    documented = {kind for row in rows("Messages by kind") for kind in words(row[0])}
    assert documented == {kind.__struct_config__.tag for kind in get_args(Message)}


def test_kinds_of_violations() -> None:
    documented = [kind for row in rows("Violations by kind") for kind in words(row[0])]
    assert documented == list(Violations.KINDS)


def test_every_setting_reaches_the_broker() -> None:
    """Each is set to something that it is not by default."""
    brokers: dict[str, Any] = {
        "covering": "active",
        "incremental_bursts": [7, 8],
        "incremental_similarities": [0.8, 0.7],
        "selective_similarity": 0.7,
        "merging_false_positives": 0.7,
        "durability": "power",
        "behaviours": ["load"],
        "mesh_strategy": "S1",
        "mesh_order": "none",
        "mesh_load_threshold": 0.7,
    }
    for field in msgspec.structs.fields(BrokerSpec):
        default = own_default(field.name)
        brokers.setdefault(field.name, not default if isinstance(default, bool) else 7)
    topology = {"kind": "chain", "brokers": 1}
    scenario = scenario_of({"name": "x", "topology": topology, "brokers": brokers})
    network = topology_of(scenario, 1)
    config = configs_of(scenario, network)["B1"]
    found = config, config.mesh, storage_of(scenario, network)["B1"]
    defaults = BrokerConfig(), MeshConfig(), StorageOptions()
    for options, default in zip(found, defaults, strict=True):
        names = options.__struct_fields__
        assert [n for n in names if getattr(options, n) == getattr(default, n)] == []


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
    expected = {field.encode_name for field in msgspec.structs.fields(Expect)} - {"received"}
    assert printed == {"scenario", "seed", "ok"} | expected | listed
