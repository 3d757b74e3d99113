"""Tables of one's own: CSV and Parquet become tables of publications and subscriptions.

`formats` gives rows, `types` says what cells mean, `tables` makes rows of tables or rejects of
them, `load` drives it.
"""

from byway.pipeline.inputs.load import Options, Outcome, Plan, load, plan_load
from byway.pipeline.inputs.types import Type

__all__ = ["Options", "Outcome", "Plan", "Type", "load", "plan_load"]
