"""Scenario files: what a TOML file says becomes a world with everything scheduled.

`schema` holds the keys, `read` reads files (checked by `shape` and `check`), `build` makes a world
with the help of the other files, one for each thing that a scenario can ask for.
"""

from byway.sim.scenario.read import read_scenario, scenario_of
from byway.sim.scenario.schema import Scenario, ScenarioError

__all__ = ["Scenario", "ScenarioError", "read_scenario", "scenario_of"]
