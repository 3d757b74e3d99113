"""What can go wrong in the pipeline through no fault of its own, with the facts to act on."""

from __future__ import annotations

from byway.model.errors import BywayError


class PipelineError(BywayError):
    """Base of all errors that the pipeline raises on purpose."""


class SessionError(PipelineError):
    """There is no Spark to work with."""


class JobError(PipelineError):
    """Spark, or a worker, failed at what it was to do."""


class TableError(PipelineError):
    """A table, or one file of it, that cannot be read or written."""

    def __init__(self, path: object, reason: str) -> None:
        self.path = str(path)
        self.reason = reason
        super().__init__(f"{path}: {reason}")


class SweepError(PipelineError, ValueError):
    """A sweep file that cannot be understood; `key` is the one at fault."""

    def __init__(self, source: object, key: str, reason: str) -> None:
        self.source = str(source)
        self.key = key
        self.reason = reason
        super().__init__(": ".join(part for part in (self.source, key, reason) if part))


class WorkloadRequestError(PipelineError, ValueError):
    """A workload that cannot be made; `what` was said that is at fault."""

    def __init__(self, what: str, reason: str) -> None:
        self.what = what
        self.reason = reason
        super().__init__(f"{what}: {reason}")
