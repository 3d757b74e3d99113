"""Claims: what the documents measured, measured again, with a verdict that nobody writes by hand.

`claim` is the vocabulary, `catalogue` has one file a claim, `estimates` turns the metrics of runs
into means with intervals, `judging` decides, `drive` runs them, `report` and `plots` show. A new
claim is a new file in `catalogue`.
"""

from byway.pipeline.claims.catalogue import CLAIMS
from byway.pipeline.claims.claim import Claim
from byway.pipeline.claims.reproduction import Reproduction, plan_runs, reproduce

__all__ = ["CLAIMS", "Claim", "Reproduction", "plan_runs", "reproduce"]
