"""Generates workloads of any size: subscriptions, publications and schedules as tables.

`kinds` names them and checks requests, `workload_columns` turns chunks into rows, `generate` has
workers write the files.
"""

from byway.pipeline.workloads.generate import Description, generate
from byway.pipeline.workloads.kinds import KINDS, WorkloadRequest, request_of

__all__ = ["KINDS", "Description", "WorkloadRequest", "generate", "request_of"]
