"""Reads a story: finds out what each path is, collects the steps, and puts them in order."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Final

from byway.storage.state_files import is_data_directory
from byway.story.steps import Source, Story, StoryError, StoryStep
from byway.story.subject import parse_subject

_NEITHER: Final = (
    "neither a trace nor a broker's data directory: it has no .parquet file, no state and no "
    "journal"
)


def read_story(id: str, paths: Iterable[str | os.PathLike[str]]) -> Story:
    """What the traces and data directories at `paths` tell of a subscription or publication.

    Raises `StoryError` for an id or a path that cannot be understood, `TraceError` or
    `StorageError` for files that cannot be read.
    """
    subject = parse_subject(id)
    steps: list[StoryStep] = []
    sources: list[Source] = []
    for path in dict.fromkeys(Path(path) for path in paths):
        readers = []
        if is_data_directory(path):
            from byway.story.journal_steps import read_journal_steps  # needs the broker's code

            readers.append(read_journal_steps)
        if _has_traces(path):
            from byway.story.trace_steps import read_trace_steps  # needs pyarrow

            readers.append(read_trace_steps)
        if not readers:
            missing = "there is no such file or directory"
            raise StoryError(path, _NEITHER if path.exists() else missing)
        for reader in readers:
            found, source = reader(path, subject)
            steps += found
            sources.append(source)
    return Story(id=id, steps=tuple(_in_order(steps)), sources=tuple(sources))


def _has_traces(path: Path) -> bool:
    """Whether there are trace files at or below `path`, complete or not."""
    if path.is_dir():
        return next(path.rglob("*.parquet*"), None) is not None
    return path.is_file() and path.suffix == ".parquet"


def _in_order(steps: list[StoryStep]) -> list[StoryStep]:
    """The steps of each broker together, by time; brokers by hop, then by when they began.

    Runs are kept apart where traces name several; the steps of journals come first then.
    """
    several = len({step.run for step in steps if step.evidence == "trace"}) > 1

    def group(step: StoryStep) -> tuple[str, str]:
        return step.run if several else "", step.broker

    def at_us(step: StoryStep) -> int:
        return -1 if step.at_us is None else step.at_us

    groups = [
        sorted(own, key=lambda step: (at_us(step), step.evidence == "trace"))
        for _, own in groupby(sorted(steps, key=group), group)
    ]
    groups.sort(
        key=lambda own: (
            group(own[0])[0],
            min((step.hop for step in own if step.hop is not None), default=0),
            at_us(own[0]),
            own[0].broker,
        )
    )
    return [step for own in groups for step in own]
