"""Workloads: subscriptions and publications as seeded chunks, for simulator, benches and Spark.

A generator is a frozen struct of parameters. Its chunk number `k` is a function of those parameters
and `k` alone, so the output is the same however chunks are shared out, and the same bytes on every
machine (see `draws`).
"""

from byway.workload.chunks import (
    FilterChunk,
    Operator,
    PublicationChunk,
    ScheduleChunk,
    ValueKind,
)
from byway.workload.clustered import Clustered
from byway.workload.covering_degree import CoveringDegree
from byway.workload.feeds import Feeds
from byway.workload.generator import Generator, WorkloadError
from byway.workload.mobile import Mobile
from byway.workload.stocks import Rating, StockQuotes
from byway.workload.workflow import Workflow
from byway.workload.zipf import Siena, Zipf

Workload = Siena | Zipf | CoveringDegree | Clustered | StockQuotes | Feeds | Mobile | Workflow

__all__ = [
    "Clustered",
    "CoveringDegree",
    "Feeds",
    "FilterChunk",
    "Generator",
    "Mobile",
    "Operator",
    "PublicationChunk",
    "Rating",
    "ScheduleChunk",
    "Siena",
    "StockQuotes",
    "ValueKind",
    "Workflow",
    "Workload",
    "WorkloadError",
    "Zipf",
]
