"""The tables of options in the documentation, made from the declarations.

`python -m tests.docs.option_tables` puts them into the pages; `test_option_tables` fails while a
page has another one.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

from byway.core.broker_config import BrokerConfig
from byway.core.mesh.mesh_config import MeshConfig
from byway.model.addresses import Address
from byway.model.durations import MICROSECONDS, format_duration
from byway.model.options import Option, OptionKind, kind_of, options_of, unit_of, words
from byway.pipeline.sweeps.plan import SweepFile
from byway.runtime.settings import SETTINGS
from byway.session.client_options import ClientOptions
from byway.sim.engine.node_storage import StorageOptions
from byway.sim.scenario import schema as s
from byway.sim.scenario.broker_spec import scenario_name
from byway.sim.scenario.fault_spec import RandomFaults
from byway.sim.topology import topology_spec as t
from byway.sim.topology.transit_stub import UnderlayOptions

DOCS = Path(__file__).parents[2] / "docs"
HEAD = "| key | value | default | meaning |\n|---|---|---|---|\n"


class Table(NamedTuple):
    page: str
    title: str
    options: list[Option]

    @property
    def text(self) -> str:
        return HEAD + "".join(row(option) for option in self.options)


def row(option: Option) -> str:
    about = option.kind.given.facts["about"]
    return f"| `{option.key}` | {value(option)} | {default(option)} | {about} |\n"


def value(option: Option) -> str:
    kind = option.kind.given
    if is_table(kind):
        return f"a table, [below](#{option.key})"
    if isinstance(kind.type, inspect.VarTupleType) and is_table(kind_of(kind.type.item_type)):
        return f"any number of tables, [below](#{option.key})"
    if isinstance(kind.type, inspect.LiteralType):
        return "one of " + ", ".join(f"`{choice}`" for choice in kind.type.values)
    unit = "" if kind.facts.get("is_time") else unit_of(option.kind)
    return words(kind) + (f", in {unit}" if unit else "") + order_words(kind)


def is_table(kind: OptionKind) -> bool:
    if isinstance(kind.type, inspect.UnionType):
        return all(is_table(choice) for choice in kind.choices)
    is_struct = isinstance(kind.type, inspect.StructType) and not kind.type.array_like
    return is_struct and "parse" not in kind.facts


def order_words(kind: OptionKind) -> str:
    words_ = {"rising": "; the first not larger", "falling": "; the second not larger"}
    return words_.get(kind.facts.get("order", ""), "")


def default(option: Option) -> str:
    facts = option.kind.facts
    if "otherwise" in facts:
        return facts["otherwise"]
    if option.required:
        return "required"
    if facts.get("cleared_by_empty"):
        return '`""`'
    found = option.default
    if facts.get("is_time"):
        return f'`"{format_duration(found * MICROSECONDS[facts["unit"]])}"`'
    if isinstance(found, Address):
        return f'`"{found}"`'
    if is_table(option.kind.given) or found in (None, {}) or isinstance(found, msgspec.Struct):
        return ""
    if isinstance(found, tuple) and value(option).startswith("any number of tables"):
        return ""
    return f"`{plain(found)}`"


def plain(found: Any) -> str:
    if isinstance(found, tuple):
        return f"[{', '.join(map(plain, found))}]"
    return f"{found:g}" if isinstance(found, float) else json.dumps(found)


# --- what is where -----------------------------------------------------------------------------


def broker_options(table: str) -> list[Option]:
    return [option for key, option in SETTINGS.items() if key.rpartition(".")[0] == table]


def simulated_broker_options() -> list[Option]:
    """With the defaults of the core, in the units of a scenario."""
    found = []
    for option in options_of(s.Brokers):
        own = own_default(option.key) if option.default is None else option.default
        found.append(option._replace(default=own))
    return found


def own_default(key: str) -> Any:
    """What a broker does when it is told nothing, in the units of a scenario."""
    for own in (BrokerConfig(), MeshConfig(), StorageOptions()):
        for declared in options_of(type(own)):
            if scenario_name(type(own), declared.field) == key:
                found = getattr(own, declared.field)
                return found / 1_000_000 if declared.kind.facts.get("is_time") else found
    raise AssertionError(key)


SCENARIO_TABLES = {
    "The scenario": s.Scenario,
    "network": s.Network,
    "brokers": s.Brokers,
    "workload": s.Workload,
    "churn": s.Churn,
    "unsubscribe": s.UnsubscribeBurst,
    "moves": s.SubscriptionMoves,
    "monitor": s.Monitor,
    "probe": s.Probe,
    "measure": s.MeasureSpec,
    "faults_random": RandomFaults,
    "client": s.ClientSpec,
    "step": s.Step,
    "expect": s.Expect,
}


def client_options() -> list[Option]:
    """What `byway.connect` takes by keyword."""
    return [option for option in options_of(ClientOptions) if option.key != "urls"]


TOPOLOGY_TABLES = {
    "chain and star": t.ChainSpec,
    "balanced-tree": t.BalancedTreeSpec,
    "random-tree": t.RandomTreeSpec,
    "links": t.LinksSpec,
    "seed": t.SeedTreeSpec,
    "transit-stub": t.TransitStubSpec,
    "Transit-stub underlays": UnderlayOptions,
}


def topology_options(struct: type) -> list[Option]:
    """Without those of the underlay, which have a table of their own."""
    below = [] if struct is UnderlayOptions else UnderlayOptions.__struct_fields__
    return [option for option in options_of(struct) if option.key not in below]


def tables() -> Iterator[Table]:
    configuration = "reference/configuration.md"
    yield Table(configuration, "The process", broker_options(""))
    yield Table(configuration, "`[core]`", broker_options("core"))
    yield Table(configuration, "`[mesh]`", broker_options("mesh"))
    yield Table(configuration, "`[limits]`", broker_options("limits"))
    for title, struct in SCENARIO_TABLES.items():
        options = simulated_broker_options() if title == "brokers" else options_of(struct)
        yield Table("reference/scenarios.md", title, options)
    for title, struct in TOPOLOGY_TABLES.items():
        yield Table("reference/topologies.md", title, topology_options(struct))
    yield Table("guide/pipeline.md", "What happens if …?", options_of(SweepFile))
    yield Table("guide/client.md", "Settings", client_options())


def position(table: Table, page: str) -> tuple[int, int]:
    """Where the first table below a title begins and ends."""
    heading = re.search(rf"^###? {re.escape(table.title)}$", page, re.M)
    assert heading is not None, table.title
    found = re.compile(r"^\| key .*\n(?:\|.*\n)+", re.M).search(page, heading.end())
    assert found is not None, table.title
    assert not re.search(r"^###? ", page[heading.end() : found.start()], re.M), table.title
    return found.span()


def rewrite() -> None:
    for table in tables():
        path = DOCS / table.page
        page = path.read_text()
        start, end = position(table, page)
        path.write_text(page[:start] + table.text + page[end:])


if __name__ == "__main__":
    rewrite()
