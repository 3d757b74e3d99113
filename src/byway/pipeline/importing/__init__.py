"""Imports frames, and CSV and Parquet files, as tables of publications and subscriptions.

`types` converts cells, `user_frames` turns rows into rows of a table or into rejects, `formats`
reads files, `loading` writes the tables.
"""

from byway.pipeline.importing.loading import (
    ImportOptions,
    ImportOutcome,
    ImportPlan,
    load,
    plan_load,
)
from byway.pipeline.importing.types import Type
from byway.pipeline.importing.user_frames import Imported, publications_from, subscriptions_from

__all__ = [
    "ImportOptions", "ImportOutcome", "ImportPlan", "Imported", "Type", "load", "plan_load",
    "publications_from", "subscriptions_from",
]  # fmt: skip
