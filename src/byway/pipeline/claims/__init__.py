"""Claims: the measurements of the papers, repeated, each with a computed verdict.

`claim` is the vocabulary, `catalogue` has one file for each claim, `estimates` turns the metrics of
runs into means with intervals, `judging` decides, `reproduction` runs it all, `report` and
`claim_plots` show the results. A new claim is a new file in `catalogue`.
"""

from byway.pipeline.claims.catalogue import CLAIMS
from byway.pipeline.claims.claim import Claim
from byway.pipeline.claims.reproduction import Reproduction, plan_runs, reproduce

__all__ = ["CLAIMS", "Claim", "Reproduction", "plan_runs", "reproduce"]
