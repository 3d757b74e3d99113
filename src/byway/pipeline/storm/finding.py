"""The finding of a storm: one sentence, computed from the runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from byway.pipeline.storm.script import POLICIES


def finding(runs: Sequence[Mapping[str, Any]], broad: int, is_exact: bool) -> str:
    """What the live runs of the two policies show, in one sentence.

    `runs` has the summary of each run, `broad` is the number of broad subscriptions that ended,
    `is_exact` is whether every subscriber received exactly what it should in every run.
    """
    by_run = {run["run"]: run for run in runs}
    active, selective = (by_run[f"live {policy}"] for policy in POLICIES)
    sent, sent_active = selective["stirred"], active["stirred"]
    parts = [
        f"When {broad} broad subscriptions ended, brokers with selective pruning sent one another "
        f"{sent:,} subscriptions and unsubscriptions where those with active covering sent "
        f"{sent_active:,} ({comparison(sent, sent_active, 'fewer')})"
    ]
    delay, delay_active = selective["delay_ms_p99"], active["delay_ms_p99"]
    if delay is not None and delay_active is not None:
        parts.append(
            f"the 99th percentile of the delay was {_number(delay)} ms instead of "
            f"{_number(delay_active)} ms ({comparison(delay, delay_active, 'less')})"
        )
    who = "every subscriber" if is_exact else "not every subscriber"
    return f"{', '.join(parts)}, and {who} received exactly what it should."


def comparison(value: float, other: float, smaller: str) -> str:
    """How much smaller or larger a value is than another one, in per cent of the other one."""
    if value == other:
        return "the same"
    if not other:
        return "more"
    share = abs(value - other) / other
    digits = 0 if 0.01 <= share < 0.995 or share >= 1 else 2
    return f"{100 * share:,.{digits}f} % {smaller if value < other else 'more'}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
