"""The pages tell of every option as it is declared, and every option is declared in full."""

import re
from typing import get_args

import pytest

from byway.model.options import options_of
from byway.sim.topology.topology_spec import ChainSpec, StarSpec, TopologySpec
from tests.docs.option_tables import DOCS, TOPOLOGY_TABLES, Table, position, tables

TABLES = list(tables())
ALL = [pytest.param(table, id=f"{table.page}-{table.title}") for table in TABLES]


@pytest.mark.parametrize("table", ALL)
def test_the_page_has_the_table(table: Table) -> None:
    """If not: `python -m tests.docs.option_tables` puts it there."""
    page = (DOCS / table.page).read_text()
    start, end = position(table, page)
    assert page[start:end] == table.text


@pytest.mark.parametrize("table", ALL)
def test_options_have_full_sentences(table: Table) -> None:
    for option in table.options:
        about = option.kind.given.facts["about"]
        assert re.fullmatch(r"[A-Z`].*\.", about), option.key
        assert "|" not in about, option.key


def test_every_kind_of_topology_has_a_table() -> None:
    assert {*get_args(TopologySpec)} - {*TOPOLOGY_TABLES.values()} == {StarSpec}
    assert options_of(StarSpec) == options_of(ChainSpec)
