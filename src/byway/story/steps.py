"""The vocabulary of a story: its steps, the sources that were searched, and why there is none."""

from __future__ import annotations

from typing import Literal

import msgspec

from byway.model.errors import BywayError

Evidence = Literal["snapshot", "journal", "set-aside", "trace"]
"""What a step was found in."""


class StoryError(BywayError, ValueError):
    """A story that cannot be read; `subject` is the id or path at fault."""

    def __init__(self, subject: object, reason: str) -> None:
        self.subject = str(subject)
        self.reason = reason
        super().__init__(f"{subject}: {reason}")


class StoryStep(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened, at one broker, to what the story is about."""

    broker: str
    evidence: Evidence
    what: str
    """The event of a trace row, or what an input asked for, such as `subscribe`."""
    id: str
    """The full id: CLIENT/NAME, then incarnation and number where the source has them; or
    PUBLISHER/INCARNATION/SEQUENCE."""
    at_us: int | None = None
    """On the broker's clock; None for what a snapshot holds, which is older than the journal."""
    origin: str = ""
    """`link NAME` or `client NAME` it came from, where that is known."""
    target: str = ""
    """`link NAME` or `client NAME` it went to."""
    hop: int | None = None
    """Links that a publication had crossed to reach the broker."""
    run: str = ""
    """The run that a trace names."""
    detail: str = ""
    """Facts in words: a filter, a reason, counts."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """A trace or a data directory that was searched."""

    path: str
    kind: Literal["trace", "data"]
    files: int
    """Trace files or journals."""
    records: int
    """Rows of the trace, or inputs of the journals."""
    broker: str = ""
    """The owner of a data directory."""
    notes: tuple[str, ...] = ()
    """What could not be read, and what is not there yet."""


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """What was found about an id: the brokers in the order of hops and time, and the steps of each
    in the order of time."""

    id: str
    steps: tuple[StoryStep, ...]
    sources: tuple[Source, ...]
