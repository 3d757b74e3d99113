"""The summary of a run: its numbers by name, as rows for people, and against expectations.

It decides names, order and formatting, and compares numbers with those that a scenario expects.
What the numbers mean is decided where they are counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isclose
from typing import Any, Final

import msgspec

from byway.sim.meters import Delays, GroupMeasures, Measures
from byway.sim.oracle.violations import Report, Violations
from byway.sim.run_metrics import RunMetrics
from byway.sim.scenario.schema import Expect
from byway.sim.scenario.value_types import Expected

Rows = list[tuple[str, str]]

_CLOSE: Final = 1e-6  # relative: as exact as a person writes a mean down


def numbers_of(metrics: RunMetrics, report: Report) -> dict[str, Any]:
    """Every number of a run by its name; None where there was nothing to measure."""
    numbers = msgspec.to_builtins(metrics)
    by_kind = numbers.pop("messages")
    total = numbers.pop("messages_total")
    return {
        "publications": numbers.pop("publications"),
        "deliveries": numbers.pop("deliveries"),
        "missing": report.missing,
        "duplicates": report.duplicates,
        "out_of_order": report.out_of_order,
        "spurious": report.spurious,
        "messages": total,
        "messages_by_kind": by_kind,
        **numbers,
        "violations_by_kind": {kind: getattr(report, kind) for kind in Violations.KINDS},
    }


# --- expectations -----------------------------------------------------------------------------


def unmet_expectations(
    expect: Expect, numbers: Mapping[str, Any], received: Mapping[str, int]
) -> Iterator[str]:
    """The expectations of a scenario that its run did not meet, in sentences."""
    for field in msgspec.structs.fields(Expect):
        expected = getattr(expect, field.name)
        name = field.encode_name
        if isinstance(expected, dict):
            found = received if name == "received" else numbers[name]
            for key, bounds in expected.items():
                yield from _deviation(f"{name}.{key}", bounds, found.get(key, 0))
        elif expected is not None:
            yield from _deviation(name, expected, numbers[name])


def _deviation(name: str, expected: Expected, found: float | None) -> Iterator[str]:
    if isinstance(expected, tuple):
        low, high = expected
        wanted = f"{low:g} to {high:g}"
        holds = found is not None and low <= found <= high
    else:
        wanted = f"{expected:g}"
        holds = found is not None and isclose(found, expected, rel_tol=_CLOSE, abs_tol=_CLOSE)
    if not holds:
        got = "nothing to measure" if found is None else f"{found:g}"
        yield f"expect.{name}: expected {wanted}, found {got}"


# --- for people -------------------------------------------------------------------------------


def rows_of(metrics: RunMetrics, report: Report, measures: Measures | None = None) -> list[Rows]:
    """The summary as groups of rows, each a name and a formatted number."""
    return [*_rows_of_run(metrics, report), *([] if measures is None else _rows_of_part(measures))]


def _rows_of_run(metrics: RunMetrics, report: Report) -> list[Rows]:
    return [
        [
            ("publications", _count(metrics.publications)),
            ("deliveries", _count(metrics.deliveries)),
            ("missing", _count(report.missing)),
            ("duplicates", _count(report.duplicates)),
            ("out of order", _count(report.out_of_order)),
            ("spurious", _count(report.spurious)),
        ],
        [
            ("matched brokers", _count(metrics.matched_brokers)),
            ("pure forwarders", _count(metrics.pure_forwarders)),
            ("yield", _measure(metrics.yield_, 100, " %")),
            *_if_any("false positives", metrics.false_positives),
            ("mean hops", _measure(metrics.mean_hops)),
            ("mean delay", _measure(metrics.mean_delay_ms, unit=" ms")),
            ("delay, 95th percentile", _measure(metrics.delay_ms_p95, unit=" ms")),
            ("longest delay", _measure(metrics.delay_ms_max, unit=" ms")),
        ],
        [
            ("messages", _count(metrics.messages_total)),
            *((f"  {kind}", _count(count)) for kind, count in metrics.messages.items()),
            *_bytes(metrics.bytes_sent),
            ("peak queue", _count(metrics.peak_queue)),
            ("table entries", _count(metrics.table_entries)),
            ("table entries, peak", _count(metrics.table_entries_peak)),
            *_if_any("redelivered", metrics.redelivered),
            *_if_any("lost in sessions", metrics.lost_in_sessions),
        ],
    ]


def _rows_of_part(measures: Measures) -> list[Rows]:
    """The measures of a part of the run as groups of rows."""
    part = [
        ("measured from", f"{measures.from_s:,.0f} s"),
        ("to", f"{measures.to_s:,.0f} s"),
        *_rows_of_delays("", measures.delays),
    ]
    if measures.probes is not None:
        part += _rows_of_delays("probes, ", measures.probes)
    return [part, *(_rows_of_group(name, group) for name, group in measures.groups.items())]


def _rows_of_delays(what: str, delays: Delays) -> Rows:
    return [
        (f"{what}deliveries", _count(delays.deliveries)),
        (f"{what}mean delay", _measure(delays.mean_ms, unit=" ms")),
        (f"{what}delay, 90th percentile", _measure(delays.p90_ms, unit=" ms")),
        (f"{what}longest delay", _measure(delays.max_ms, unit=" ms")),
    ]


def _rows_of_group(name: str, group: GroupMeasures) -> Rows:
    return [
        (f"{name}, brokers", _count(group.brokers)),
        ("subscriptions arrived", _count(group.subscriptions_arrived)),
        ("peak queue", _count(group.peak_queue)),
        ("table entries, before", f"{group.table_entries_begin:,.0f}"),
        ("table entries, mean", _measure(group.table_entries_mean)),
        ("table entries, in the end", f"{group.table_entries_end:,.0f}"),
        *_if_any("preserved entries", group.preserved_entries),
        *_if_any("false positives", group.false_positives),
        *((f"busy, {kind}", f"{seconds:,.1f} s") for kind, seconds in group.busy_s.items()),
    ]


def _bytes(sent: int | None) -> Rows:
    return [] if sent is None else [("bytes sent", _count(sent))]


def _if_any(word: str, count: int) -> Rows:
    return [(word, _count(count))] if count else []


def _count(number: int) -> str:
    return f"{number:,}"


def _measure(number: float | None, factor: float = 1, unit: str = "") -> str:
    return "-" if number is None else f"{number * factor:,.2f}{unit}"
