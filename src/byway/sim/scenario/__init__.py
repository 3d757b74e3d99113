"""Scenario files: what a TOML file says becomes a world with everything scheduled.

`schema` holds the keys, with `value_types` and `broker_spec`; `read` reads files; `check`, with
`check_faults`, `check_measure` and `check_steps`, refuses what cannot be done; `resolve` says which
brokers and times are meant. `build` makes a world of it: `listed_clients`, `publishers` and
`subscribers` (with `groups` and `workload_source`) add clients, `faults` and `measure` the rest.
They share a `run_context`, and draw from `random_streams`.
"""

from byway.sim.scenario.read import ScenarioFile, read_scenario, scenario_of
from byway.sim.scenario.schema import Scenario, ScenarioError

__all__ = ["Scenario", "ScenarioError", "ScenarioFile", "read_scenario", "scenario_of"]
