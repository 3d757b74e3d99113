"""Steps from trace files: every row of one publication.

Traces have no ids of subscriptions: a CONTROL_SENT row tells how many entries a message was about,
not which. Rows are filtered while they are read, by the statistics of row groups first, so memory
does not grow with the trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from byway.model.errors import TraceError
from byway.model.trace_schema import TraceEvent
from byway.story.steps import Source, StoryStep
from byway.story.subject import PublicationId, Subject
from byway.trace.files import check_trace_file
from byway.trace.trace_directories import PARTIAL, SUFFIX, listed

_OF_PUBLICATIONS: Final = (
    TraceEvent.PUBLISHED,
    TraceEvent.RECEIVED,
    TraceEvent.FORWARDED,
    TraceEvent.DELIVERED,
    TraceEvent.DROPPED,
)
_COLUMNS: Final = (
    "run broker event t_us publisher incarnation sequence hop link client matches copies "
    "size_bytes kind"
).split()
_BATCH_ROWS: Final = 16_384
_READAHEAD: Final = 2


def read_trace_steps(path: Path, subject: Subject) -> tuple[list[StoryStep], Source]:
    """What the trace at `path` has of a publication. Raises `TraceError`."""
    files = listed(path)
    rows = 0
    for file in files:
        check_trace_file(file)
        rows += pq.read_metadata(file).num_rows
    partial = len(list(path.rglob(f".*{SUFFIX}{PARTIAL}"))) if path.is_dir() else 0
    notes = [f"{partial} files are still being written"] if partial else []
    if not subject.publications:
        notes.append("traces name publications only; data directories tell of subscriptions")
    source = Source(
        path=str(path), kind="trace", files=len(files), records=rows, notes=tuple(notes)
    )
    return [step for file in files for step in _steps(file, subject)], source


def _steps(file: Path, subject: Subject) -> Iterator[StoryStep]:
    if not subject.publications:
        return
    try:
        scanner = ds.dataset(str(file), format=_format()).scanner(
            columns=_COLUMNS,
            filter=reduce(or_, map(_filter, subject.publications)),
            batch_size=_BATCH_ROWS,
            batch_readahead=_READAHEAD,
            fragment_readahead=1,
        )
        for batch in scanner.to_batches():
            yield from map(_step, batch.to_pylist())
    except (pa.ArrowException, OSError) as error:
        raise TraceError(str(file), f"the file is damaged ({error})") from error


def _format() -> Any:
    options = ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    return ds.ParquetFileFormat(default_fragment_scan_options=options)


def _filter(publication: PublicationId) -> Any:
    publisher, incarnation, sequence = publication
    chosen = (ds.field("sequence") == sequence) & (ds.field("publisher") == publisher)
    chosen &= ds.field("event").isin([int(event) for event in _OF_PUBLICATIONS])
    return chosen if incarnation is None else chosen & (ds.field("incarnation") == incarnation)


def _step(row: dict[str, Any]) -> StoryStep:
    event = TraceEvent(row["event"])
    link = "" if row["link"] is None else f"link {row['link']}"
    client = "" if row["client"] is None else f"client {row['client']}"
    publisher = row["publisher"]
    id = PublicationId(publisher, row["incarnation"], row["sequence"])
    return StoryStep(
        broker=row["broker"],
        evidence="trace",
        what=event.name.lower(),
        id=str(id),
        at_us=row["t_us"],
        origin={TraceEvent.PUBLISHED: f"client {publisher}", TraceEvent.RECEIVED: link}.get(
            event, ""
        ),
        target="" if event in (TraceEvent.PUBLISHED, TraceEvent.RECEIVED) else client or link,
        hop=row["hop"] - (event is TraceEvent.FORWARDED),  # that row has the hop of the copy
        run=row["run"],
        detail=_detail(event, row),
    )


def _detail(event: TraceEvent, row: dict[str, Any]) -> str:
    if event is TraceEvent.DROPPED:
        return str(row["kind"])
    if event in (TraceEvent.PUBLISHED, TraceEvent.RECEIVED):
        facts = f"matches {row['matches']:,}, copies {row['copies']:,}"
        return f"{facts}, {row['size_bytes']:,} bytes"
    return ""
