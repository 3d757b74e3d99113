"""The page about workload tables says what is so."""

import re
from pathlib import Path

import msgspec
import pytest

from byway.pipeline import workload_schemas
from byway.pipeline.schemas import TableSchema
from byway.pipeline.workloads import KINDS, Description

DOCS = Path(__file__).parents[2] / "docs"
REFERENCE = (DOCS / "reference/workload-tables.md").read_text()
GUIDE = (DOCS / "guide/pipeline.md").read_text()
TABLES = [table for table in vars(workload_schemas).values() if isinstance(table, TableSchema)]


def section(title: str) -> str:
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", REFERENCE, re.M | re.S)
    assert found is not None, title
    return found[1]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: str(table.name))
def test_the_reference_has_every_column(table: TableSchema) -> None:
    told = section(table.name)
    assert f"Version {table.version}." in told
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (yes|no) \| (.*) \|$", told, re.M)
    assert rows == [
        (column.name, column.type, "yes" if column.nullable else "no", column.meaning)
        for column in table.columns
    ]


def test_the_table_has_every_field_of_the_description() -> None:
    names = [field.name for field in msgspec.structs.fields(Description)]
    assert names == workload_schemas.DESCRIPTION.names


def test_the_guide_has_every_kind() -> None:
    assert re.findall(r"^\| `(\w+)` \| (?:\w|\[).*\(\.\./reference/workloads", GUIDE, re.M) == [
        *KINDS
    ]
