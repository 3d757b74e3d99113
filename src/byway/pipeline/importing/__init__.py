"""Tables of one's own: CSV and Parquet become tables of publications and subscriptions.

`formats` gives rows, `types` says what cells mean, `tables` makes rows of tables or rejects of
them, `load` drives it.
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
