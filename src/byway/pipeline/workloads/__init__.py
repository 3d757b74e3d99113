"""Generates workloads of any size: subscriptions, publications and schedules as tables.

`kinds` names them and checks requests, `workload_columns` turns chunks into rows, `generate` makes
DataFrames of them and writes these.
"""

from byway.pipeline.workloads.generate import Description, WorkloadFrames, generate, workload
from byway.pipeline.workloads.kinds import KINDS, WorkloadRequest, request_of

__all__ = [
    "KINDS", "Description", "WorkloadFrames", "WorkloadRequest", "generate", "request_of",
    "workload",
]  # fmt: skip
