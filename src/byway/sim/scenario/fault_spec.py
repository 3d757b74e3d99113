"""Faults of a scenario file, as structs whose fields declare their keys: listed and random ones.

Nothing is drawn or scheduled here. Times are in seconds, as in the file.
"""

from __future__ import annotations

from typing import Annotated, Literal

from byway.model.options import option
from byway.sim.scenario.value_types import (
    RUN_END,
    WARMUP_END,
    Count,
    Factor,
    Milliseconds,
    Name,
    Names,
    Place,
    ScenarioTable,
    Seconds,
    Span,
)


class Crash(ScenarioTable, frozen=True, kw_only=True, tag_field="kind", tag="crash"):
    """A broker stops, and starts again."""

    at_s: Annotated[Seconds, option("When the broker stops.")]
    for_s: Annotated[Span, option("How long it is down.")]
    broker: Annotated[Name, option("The broker.")]
    stored: Annotated[
        bool | None,
        option(
            "Whether it starts again with the state that it had; a broker with `data`, from its "
            "files, else without them.",
            otherwise="its `data`",
        ),
    ] = None
    power: Annotated[
        bool, option("Whether its machine loses power: what was not synced may be lost.")
    ] = False
    torn: Annotated[
        bool,
        option("Whether it stops within one of its next operations on files, which may be torn."),
    ] = False
    stale: Annotated[
        bool,
        option("Whether its journal is damaged, so that it is started with `--stale`."),
    ] = False


class Cut(ScenarioTable, frozen=True, kw_only=True, tag_field="kind", tag="cut"):
    """The connection between two neighbours breaks."""

    at_s: Annotated[Seconds, option("When the connection breaks.")]
    for_s: Annotated[Span, option("How long it stays broken.")]
    link: Annotated[tuple[Name, Name], option("The two neighbours.")]


class Partition(ScenarioTable, frozen=True, kw_only=True, tag_field="kind", tag="partition"):
    """Some brokers lose their connections to all others."""

    at_s: Annotated[Seconds, option("When the connections break.")]
    for_s: Annotated[Span, option("How long they stay broken.")]
    brokers: Annotated[Names, option("The brokers on one side.")]


class Delay(ScenarioTable, frozen=True, kw_only=True, tag_field="kind", tag="delay"):
    """A link is slower than it was, in both directions."""

    at_s: Annotated[Seconds, option("When the link becomes slower.")]
    for_s: Annotated[Span, option("How long it is slower.")]
    link: Annotated[tuple[Name, Name], option("The two neighbours.")]
    extra_ms: Annotated[Milliseconds, option("The additional latency.")] = 100.0


class Slow(ScenarioTable, frozen=True, kw_only=True, tag_field="kind", tag="slow"):
    """A broker works more slowly."""

    at_s: Annotated[Seconds, option("When the broker becomes slower.")]
    for_s: Annotated[Span, option("How long it is slower.")]
    broker: Annotated[Name, option("The broker.")]
    factor: Annotated[Factor, option("How many times as long it takes for everything.")] = 10.0


class Disk(ScenarioTable, frozen=True, kw_only=True, tag_field="kind", tag="disk"):
    """The disk of a broker does not take writes. A broker that cannot write stops, and starts again
    at the end of the fault."""

    at_s: Annotated[Seconds, option("When the disk stops taking writes.")]
    for_s: Annotated[Span, option("How long it takes none.")]
    broker: Annotated[Name, option("The broker.")]
    room_bytes: Annotated[
        Count | None,
        option("The bytes that fit on the disk until it is full.", otherwise="every write fails"),
    ] = None


Fault = Crash | Cut | Partition | Delay | Slow | Disk
HowOften = Literal["never", "always", "random"]


class RandomFaults(ScenarioTable, frozen=True, kw_only=True):
    """How many faults of each kind are drawn from the seed, and how they are."""

    crashes: Annotated[Count, option("The number of crashes.")] = 0
    cuts: Annotated[Count, option("The number of cuts, of any links.")] = 0
    partitions: Annotated[
        Count, option("The number of partitions, each of all brokers beyond some link.")
    ] = 0
    delays: Annotated[Count, option("The number of delays, of any links.")] = 0
    slows: Annotated[Count, option("The number of times that a broker is slow.")] = 0
    disks: Annotated[
        Count, option("The number of times that a disk is full or fails, of brokers that have one.")
    ] = 0
    from_s: Annotated[
        Seconds | None, option("No fault begins before this.", otherwise=WARMUP_END)
    ] = None
    to_s: Annotated[
        Seconds | None, option("All faults have ended by this time.", otherwise=RUN_END)
    ] = None
    for_s_min: Annotated[Span, option("The shortest duration of a fault.")] = 0.5
    for_s_max: Annotated[Span, option("The longest duration of a fault.")] = 2.0
    brokers: Annotated[Place, option("The place of the brokers that may crash or be slow.")] = "all"
    stored: Annotated[
        Literal["never", "always", "random"],
        option("Whether a broker that crashed starts again with the state that it had."),
    ] = "random"
    power: Annotated[
        HowOften, option("Whether the machine of a broker with `data` that crashes loses power.")
    ] = "never"
    torn: Annotated[
        HowOften, option("Whether a broker with `data` crashes within an operation on files.")
    ] = "never"
    stale: Annotated[
        HowOften,
        option("Whether the journal of a broker with `data` that starts again is damaged."),
    ] = "never"
    extra_ms: Annotated[Milliseconds, option("The additional latency of delays.")] = 100.0
    factor: Annotated[
        Factor, option("How many times as long a slow broker takes for everything.")
    ] = 10.0
