"""Errors that the pipeline raises on purpose, with the facts to act on."""

from __future__ import annotations

from collections.abc import Sequence

from byway.model.errors import BywayError
from byway.model.option_reading import Problem


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


class RowError(PipelineError, ValueError):
    """A row of a table cannot be used; the message says which and why."""


class SweepError(PipelineError, ValueError):
    """A sweep that cannot be run; `key` is the key at fault, `further` are other problems."""

    def __init__(
        self, source: object, key: str, reason: str, further: Sequence[Problem] = ()
    ) -> None:
        self.source = str(source)
        self.key = key
        self.reason = reason
        self.further = tuple(further)
        super().__init__(self.source, key, reason, self.further)

    @classmethod
    def of(cls, source: object, problems: Sequence[Problem]) -> SweepError:
        """One error with all that is wrong in one file."""
        first, *others = problems
        return cls(source, first.key, first.reason, others)

    @property
    def problems(self) -> list[Problem]:
        """All that is wrong."""
        found = [Problem(self.key, self.reason), *self.further]
        return [problem._replace(source=self.source) for problem in found]

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


class WorkloadRequestError(PipelineError, ValueError):
    """A requested workload cannot be made; `what` is the option or kind at fault."""

    def __init__(self, what: str, reason: str) -> None:
        self.what = what
        self.reason = reason
        super().__init__(f"{what}: {reason}")
