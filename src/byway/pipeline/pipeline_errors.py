"""Errors that the pipeline raises on purpose, with the facts to act on."""

from __future__ import annotations

from byway.model.errors import BywayError


class PipelineError(BywayError):
    """Base of all errors that the pipeline raises on purpose."""


class SessionError(PipelineError):
    """No usable Spark, Java or Spark Connect server was found."""


class JobError(PipelineError):
    """A job failed in Spark or in a worker."""


class TableError(PipelineError):
    """A table, or one file of it, cannot be read or written."""

    def __init__(self, path: object, reason: str) -> None:
        self.path = str(path)
        self.reason = reason
        super().__init__(f"{path}: {reason}")


class SweepError(PipelineError, ValueError):
    """A sweep file is not valid; `key` is the key at fault."""

    def __init__(self, source: object, key: str, reason: str) -> None:
        self.source = str(source)
        self.key = key
        self.reason = reason
        super().__init__(": ".join(part for part in (self.source, key, reason) if part))


class WorkloadRequestError(PipelineError, ValueError):
    """A requested workload cannot be made; `what` is the option or kind at fault."""

    def __init__(self, what: str, reason: str) -> None:
        self.what = what
        self.reason = reason
        super().__init__(f"{what}: {reason}")
