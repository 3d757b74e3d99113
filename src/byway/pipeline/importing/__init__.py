"""Imports CSV and Parquet files as tables of publications and subscriptions.

`formats` reads rows, `types` converts cells, `user_tables` turns rows into rows of a table or into
rejects, `loading` runs it all.
"""

from byway.pipeline.importing.loading import (
    ImportOptions,
    ImportOutcome,
    ImportPlan,
    load,
    plan_load,
)
from byway.pipeline.importing.types import Type

__all__ = ["ImportOptions", "ImportOutcome", "ImportPlan", "Type", "load", "plan_load"]
