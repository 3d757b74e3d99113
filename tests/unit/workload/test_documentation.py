"""docs/reference/workloads.md names every parameter with the default it has."""

import re
from pathlib import Path

import msgspec
import pytest

from byway.workload import (
    Clustered,
    CoveringDegree,
    Feeds,
    Generator,
    Mobile,
    Siena,
    StockQuotes,
    Workflow,
    Zipf,
)

PAGE = (Path(__file__).parents[3] / "docs/reference/workloads.md").read_text()


def section(title: str) -> str:
    return re.split(rf"^## {title}$", PAGE, flags=re.M)[1].split("\n## ")[0]


@pytest.mark.parametrize("kind", [Zipf, CoveringDegree, StockQuotes, Feeds, Workflow])
def test_parameters_and_defaults_are_those_of_the_page(kind: type[Generator]) -> None:
    documented = re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", section(kind.__name__), re.M)
    fields = msgspec.structs.fields(kind)
    assert documented == [(field.name, repr(field.default)) for field in fields]


@pytest.mark.parametrize(("kind", "base"), [(Clustered, CoveringDegree), (Mobile, Siena)])
def test_additional_parameters_are_those_of_the_page(
    kind: type[Generator], base: type[Generator]
) -> None:
    documented = re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", section(kind.__name__), re.M)
    fields = msgspec.structs.fields(kind)[len(msgspec.structs.fields(base)) :]
    assert documented == [(field.name, repr(field.default)) for field in fields]


def test_siena_is_zipf_with_uniform_values() -> None:
    changed = [
        (a.name, b.default)
        for a, b in zip(msgspec.structs.fields(Zipf), msgspec.structs.fields(Siena), strict=True)
        if a.default != b.default
    ]
    assert changed == [("value_exponent", 0.0)]


def test_the_example_filter_is_a_real_one() -> None:
    assert CoveringDegree(seed=1).subscriptions(0).texts()[0] in section("CoveringDegree")
