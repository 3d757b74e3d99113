"""What the claims about pruning have in common: measures of the simulator, and small sizes.

Traces hold neither the time that brokers are busy nor their tables at one moment between samples.
"""

from __future__ import annotations

from typing import Final

from byway.pipeline.claims.claim import Measure, Settings, Size

_BUSY: Final = ("publication", "subscribe", "covering", "packed", "unsubscribe")


def fact(path: str) -> str:
    """The SQL expression for a number of `byway simulate --json`."""
    return f"cast(get_json_object(facts, '$.{path}') AS double)"


def policies(*names: str) -> dict[str, Settings]:
    """Contenders that differ only in their covering policy, by its name."""
    return {name: {"brokers.covering": f'"{name}"'} for name in names}


def _of_part(name: str, unit: str, path: str, form: str = "{}") -> Measure:
    """A measure of the measured part of a run, by its path in `byway simulate --json`."""
    counted, traced = fact(f"measured.{path}"), f"measured['{path}']"
    return Measure(name=name, unit=unit, value=form.format(counted), traced=form.format(traced))


MEAN_DELAY: Final = _of_part("mean delay", "s", "delays.mean_ms", "{} / 1000")
LONGEST_DELAY: Final = _of_part("longest delay", "s", "delays.max_ms", "{} / 1000")
PROBED_DELAY: Final = _of_part("mean delay of probes", "s", "probes.mean_ms", "{} / 1000")
ARRIVED_AT_E: Final = _of_part(
    "subscription messages that arrive at E", "", "groups.E.subscription_messages"
)
CORE_QUEUE: Final = _of_part("peak queue of the core", "messages", "groups.core.peak_queue")
CORE_TABLES: Final = _of_part("core tables in the end", "entries", "groups.core.table_entries_end")
CORE_TABLES_BEFORE: Final = Measure(
    name="core tables before",
    unit="entries",
    value=fact("measured.groups.core.table_entries_begin"),
)
MEAN_TABLES: Final = Measure(
    name="tables on average", unit="entries", value=fact("measured.groups.all.table_entries_mean")
)
TABLES_KEPT: Final = Measure(
    name="tables in the end",
    unit="% of those before",
    value=f"100 * {fact('measured.groups.all.table_entries_end')} / "
    f"{fact('measured.groups.all.table_entries_begin')}",
)
FALSE_POSITIVES: Final = _of_part(
    "false positives", "% of publications", "groups.all.false_positive_share", "100 * {}"
)
CORE_FALSE_POSITIVES: Final = _of_part(
    "false positives at the core",
    "% of publications",
    "groups.core.false_positive_share",
    "100 * {}",
)
CORE_TIME: Final = Measure(
    name="time of a core broker",
    unit="s",
    value=" + ".join(
        f"coalesce({fact(f'measured.groups.core.busy_s.{word}')}, 0)" for word in _BUSY
    ),
)
CORE_PUBLICATION_TIME: Final = Measure(
    name="of it, publications", unit="s", value=fact("measured.groups.core.busy_s.publication")
)

SMALL_CONTROLLED: Final = Size(
    settings={
        "duration_s": "80", "brokers.instant_until_s": "20", "warmup_s": "20",
        "unsubscribe.0.at_s": "50", "measure.from_s": "50", "measure.tables_from_s": "52",
        "measure.to_s": "53", "unsubscribe.0.count": "8", "unsubscribe.0.gap_s": "0.1",
        "workload.subscriptions": "2_400", "workload.scattered_groups": "8",
        "workload.subscribers": "24", "workload.parameters.degree": "150",
        "workload.parameters.width": "0.7", "workload.parameters.hot": "8",
        "workload.subscribe_for_s": "5", "workload.rate_per_s": "20",
        "workload.publish_for_s": "40",
        "brokers.incremental_bursts": "[10, 1_000]",
    }
)  # fmt: skip
SMALL_TABLE_II: Final = Size(
    settings={
        "duration_s": "110", "warmup_s": "60", "workload.subscribe_for_s": "50",
        "workload.subscriptions": "1_050", "workload.parameters.degree": "209",
        "workload.parameters.width": "0.2", "workload.rate_per_s": "20", "workload.burst": "20",
    }
)  # fmt: skip
SMALL_SELECTIVE: Final = Size(
    settings={
        "duration_s": "360", "unsubscribe.0.at_s": "260", "unsubscribe.0.count": "20",
        "unsubscribe.0.gap_s": "0.01", "probe.at_s": "260.2", "probe.count": "12",
        "probe.gap_s": "0.05", "measure.from_s": "260", "measure.tables_from_s": "270",
        "measure.to_s": "360", "sample_s": "1", "workload.subscriptions": "1_860",
        "workload.parameters.hot": "20", "workload.rate_per_s": "2", "workload.subscribers": "29",
    }
)  # fmt: skip
SMALL_MOBILE: Final = Size(
    settings={
        "duration_s": "50", "workload.subscriptions": "1_200", "workload.rate_per_s": "15",
        "moves.per_s": "4", "brokers.incremental_bursts": "[2, 1_000]",
    }
)  # fmt: skip
SMALL_WORKFLOW: Final = Size(
    settings={
        "duration_s": "160",
        "workload.parameters": "{ small = 8, medium = 8, large = 4, instances = 4 }",
        "workload.subscriptions": "838", "workload.rate_per_s": "10", "monitor.0.away_s": "20",
        "monitor.1.away_s": "20", "monitor.2.away_s": "20", "monitor.3.away_s": "20",
        "brokers.incremental_bursts": "[2, 1_000]",
    }
)  # fmt: skip
SMALL_MOVING: Final = Size(
    settings={
        "duration_s": "160", "workload.subscriptions": "600", "workload.publishers": "4",
        "workload.rate_per_s": "5", "moves.from_s": "60", "measure.from_s": "60",
        "monitor.0.stay_s": "20", "monitor.1.stay_s": "20", "monitor.2.stay_s": "20",
        "monitor.3.stay_s": "20", "monitor.1.from_s": "20", "monitor.2.from_s": "25",
        "monitor.3.from_s": "30",
    }
)  # fmt: skip
