"""Schema: what a scenario file can say, as structs with a type, a bound and a default for each key.

Nothing is read, drawn or run here. Times are in seconds, as in the file. A scenario is plain data;
with a seed it determines a run.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from byway.model.errors import BywayError

TIME_S_MAX: Final = 10_000_000.0  # about 115 days
SEED_MAX: Final = 2**32 - 1
COUNT_MAX: Final = 10_000_000

Seconds = Annotated[float, Meta(ge=0, le=TIME_S_MAX)]
Span = Annotated[float, Meta(gt=0, le=TIME_S_MAX)]
Milliseconds = Annotated[float, Meta(ge=0, le=3_600_000)]
Rate = Annotated[float, Meta(ge=0, le=1_000_000)]
Limit = Annotated[float, Meta(gt=0, le=1e15)]
Count = Annotated[int, Meta(ge=0, le=COUNT_MAX)]
Quantity = Annotated[int, Meta(ge=1, le=COUNT_MAX)]
Bound = Annotated[int, Meta(ge=1, le=2**53)]
Share = Annotated[float, Meta(ge=0, le=1)]
Factor = Annotated[float, Meta(ge=1, le=1_000_000)]
Name = Annotated[str, Meta(min_length=1, max_length=255)]
Names = Annotated[tuple[Name, ...], Meta(min_length=1)]
Place = Name | Names
"""Which brokers: `all`, `leaves`, `inner`, `random`, the name of a role, or their own names."""
Expected = float | tuple[float, float]
"""A number, or the least and the most that it may be."""


class ScenarioError(BywayError, ValueError):
    """A scenario that cannot be run, with the key at fault; `source` is who said it, if known."""

    def __init__(self, key: str, reason: str, source: str = "") -> None:
        self.key = key
        self.reason = reason
        self.source = source
        super().__init__(key, reason, source)

    def __str__(self) -> str:
        return ": ".join(part for part in (self.source, self.key, self.reason) if part)

    def said_by(self, source: str) -> ScenarioError:
        """The same fault, with who said it."""
        return ScenarioError(self.key, self.reason, source)


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Network(_Table, frozen=True, kw_only=True):
    """What carries messages between brokers. A cap that is not given does not exist."""

    latency_ms: Milliseconds | None = None
    """Of every link; not given: what the topology says."""
    bandwidth_bytes_per_s: Limit | None = None
    """Of each direction of a link."""
    uplink_bytes_per_s: Limit | None = None
    """Of a broker, shared by all it sends."""
    uplink_messages_per_s: Limit | None = None
    reconnect_ms: Milliseconds = 100.0
    """From both ends of a link being up to their connection."""
    reattach_ms: Milliseconds = 100.0
    """From a home broker being up to its clients' return."""


class BrokerSpec(_Table, frozen=True, kw_only=True):
    """Settings of a broker; what is not given is the broker's own default."""

    covering: Literal["none", "active", "lazy", "packing", "incremental", "selective"] | None = None
    incremental_bursts: tuple[Count, Count] | None = None
    incremental_similarities: tuple[Share, Share] | None = None
    selective_similarity: Share | None = None
    selective_count_min: Count | None = None
    pruning_samples_min: Bound | None = None
    statistics_max: Annotated[int, Meta(ge=2, le=2**53)] | None = None
    statistics_window_s: Seconds | None = None
    congestion_queue: Count | None = None
    merging: bool | None = None
    merging_false_positives: Share | None = None
    retire_interval_s: Seconds | None = None
    retire_batch: Count | None = None
    retire_after_s: Seconds | None = None
    preserved_max: Count | None = None
    conformance: bool | None = None
    hops_max: Bound | None = None
    probe_cycles: bool | None = None
    body_bytes_max: Bound | None = None
    data_window: Bound | None = None
    publishers_max: Bound | None = None
    session_ttl_s_max: Seconds | None = None
    session_messages_max: Bound | None = None
    session_bytes_max: Bound | None = None
    sessions_max: Bound | None = None
    sessions_bytes_max: Bound | None = None
    client_entries_max: Bound | None = None
    client_filter_bytes_max: Bound | None = None
    local_entries_max: Bound | None = None
    local_filter_bytes_max: Bound | None = None
    sync_wait_s: Seconds | None = None
    restore_grace_s: Seconds | None = None
    load_interval_s: Seconds | None = None
    load_radius: Bound | None = None


class Brokers(BrokerSpec, frozen=True, kw_only=True):
    """Settings of all brokers, and in `at` those of some, by name, that differ."""

    profile: Name = "instant"
    """How long brokers work at a message."""
    instant_until_s: Seconds = 0.0
    """Before this nothing takes them any time: tables are there when things begin."""
    at: dict[str, BrokerSpec] = {}


class Workload(_Table, frozen=True, kw_only=True):
    """Generated clients: who subscribes to what, and who publishes what, where and when."""

    kind: Literal["siena", "zipf", "covering", "stocks", "workflow"]
    parameters: dict[str, Any] = {}
    """Of the generator; its seed comes from the run's unless given."""
    subscriptions: Count = 1_000
    subscribers: Quantity | None = None
    """Clients that share the subscriptions; not given: one for each."""
    subscribers_at: Place = "all"
    order: Literal["given", "shuffled", "groups"] = "given"
    """Of the generator's subscriptions, as they arrive; groups (covering only): one after another,
    each shuffled."""
    roots_after: Share = 0.0
    """Of `shuffled` subscriptions, the share that comes before the first root (covering only), of
    `groups` the share of each that comes before its root; but roots of groups in clusters come
    first."""
    clusters: Literal["none", "siblings", "brokers"] = "none"
    """Where groups are (covering only): anywhere, or each among brokers of one neighbour, or at one
    broker."""
    scattered_groups: Count = 0
    """So many groups, the first ones, are anywhere all the same."""
    roots_at: Place | None = None
    """Where roots of groups that are anywhere are; not given: anywhere."""
    subscribe_at_s: Seconds = 0.0
    subscribe_for_s: Seconds = 0.0
    """The span over which subscriptions arrive, evenly."""
    session_ttl_s: Seconds = 0.0
    """For how long a home broker keeps the session of a client that vanished."""
    publishers: Count = 1
    publishers_at: Place = "all"
    advertise: Literal["any", "symbols"] = "any"
    """Each publisher anything, or (stocks only) each its own share of the symbols."""
    rate_per_s: Rate | None = None
    """Publications of all publishers together."""
    rate_per_publisher_per_s: Rate | None = None
    publish_for_s: Seconds | None = None
    """From the end of the warm-up on; not given: to the end of the run."""
    arrivals: Literal["regular", "poisson"] = "regular"
    burst: Quantity = 1
    """Publications that come at the same time, as when a market ticks; the rate stays the same."""
    payload_bytes: Annotated[int, Meta(ge=0, le=1_048_576)] = 0


class Churn(_Table, frozen=True, kw_only=True):
    """Subscribers that change their minds, or vanish and return, at random times."""

    from_s: Seconds | None = None
    """Not given: the end of the warm-up."""
    to_s: Seconds | None = None
    """Not given: the end of the run."""
    subscribe_per_s: Rate = 0.0
    unsubscribe_per_s: Rate = 0.0
    vanish_per_s: Rate = 0.0
    away_s_min: Seconds = 0.5
    away_s_max: Seconds = 2.0


class UnsubscribeBurst(_Table, frozen=True, kw_only=True):
    """Many unsubscriptions in a row."""

    at_s: Seconds
    count: Quantity
    gap_s: Seconds = 0.0
    which: Literal["broadest", "random", "roots"] = "random"
    """Those that cover the most others, any, or the generator's first roots (covering only)."""


class SubscriptionMoves(_Table, frozen=True, kw_only=True):
    """Subscriptions of the workload that end at one broker and begin at another."""

    per_s: Rate
    from_s: Seconds | None = None
    """Not given: the end of the warm-up."""
    to_s: Seconds | None = None
    """Not given: the end of the run."""
    within: Name | None = None
    """The beginning of the names of roles: a move stays among the brokers of one of these."""


class Monitor(_Table, frozen=True, kw_only=True):
    """A subscriber who asks for much, leaves, and comes again somewhere else."""

    filter: str
    at: Place
    """Its brokers, one after another."""
    from_s: Seconds
    stay_s: Span
    away_s: Seconds = 0.0
    """Between leaving a broker and coming to the next."""


class Probe(_Table, frozen=True, kw_only=True):
    """Publications whose delays are measured apart, to one subscriber at each of some brokers."""

    at_s: Seconds
    count: Quantity = 300
    gap_s: Seconds = 0.4
    publishers_at: Place = "all"
    subscribers_at: Place = "all"


class MeasureSpec(_Table, frozen=True, kw_only=True):
    """What is measured in a part of the run, for groups of brokers."""

    from_s: Seconds
    to_s: Seconds | None = None
    """Not given: the end of the run. Publications after it do not count."""
    tables_from_s: Seconds | None = None
    """From when on tables are averaged; not given: `from_s`."""
    at: tuple[Name, ...] = ()
    """Besides all brokers: roles, or brokers, each measured for itself."""


class Crash(_Table, frozen=True, kw_only=True, tag_field="kind", tag="crash"):
    """A broker stops, and starts again."""

    at_s: Seconds
    for_s: Span
    broker: Name
    stored: bool = False
    """Whether it finds its state again."""


class Cut(_Table, frozen=True, kw_only=True, tag_field="kind", tag="cut"):
    """The connection between two neighbours breaks."""

    at_s: Seconds
    for_s: Span
    link: tuple[Name, Name]


class Partition(_Table, frozen=True, kw_only=True, tag_field="kind", tag="partition"):
    """Some brokers lose their connections to all others."""

    at_s: Seconds
    for_s: Span
    brokers: Names


class Delay(_Table, frozen=True, kw_only=True, tag_field="kind", tag="delay"):
    """A link is slower than it was, in both directions."""

    at_s: Seconds
    for_s: Span
    link: tuple[Name, Name]
    extra_ms: Milliseconds = 100.0


class Slow(_Table, frozen=True, kw_only=True, tag_field="kind", tag="slow"):
    """A broker works more slowly."""

    at_s: Seconds
    for_s: Span
    broker: Name
    factor: Factor = 10.0


Fault = Crash | Cut | Partition | Delay | Slow


class RandomFaults(_Table, frozen=True, kw_only=True):
    """How many faults of each kind are drawn from the seed, and how they are."""

    crashes: Count = 0
    cuts: Count = 0
    partitions: Count = 0
    delays: Count = 0
    slows: Count = 0
    from_s: Seconds | None = None
    """Not given: the end of the warm-up."""
    to_s: Seconds | None = None
    """Not given: the end of the run."""
    for_s_min: Span = 0.5
    for_s_max: Span = 2.0
    brokers: Place = "all"
    """Which may crash or be slow."""
    stored: Literal["never", "always", "random"] = "random"
    extra_ms: Milliseconds = 100.0
    factor: Factor = 10.0


class ClientSpec(_Table, frozen=True, kw_only=True):
    """A client of one's own, for `Step`s."""

    name: Name
    broker: Name
    session_ttl_s: Seconds = 0.0


class Step(_Table, frozen=True, kw_only=True, rename={"come_back": "return"}):
    """One thing that a client of one's own does."""

    at_s: Seconds
    client: Name
    advertise: str | None = None
    subscribe: str | None = None
    name: Name | None = None
    """Of what is advertised or subscribed to; not given: `a` or `s`."""
    unadvertise: Name | None = None
    unsubscribe: Place | None = None
    publish: dict[str, bool | int | float | str] | None = None
    data: str | None = None
    """The payload of what is published."""
    vanish: bool | None = None
    come_back: bool | None = None
    leave: bool | None = None


class Expect(_Table, frozen=True, kw_only=True, rename={"yield_": "yield"}):
    """What must hold at the end, besides what is always checked."""

    publications: Expected | None = None
    deliveries: Expected | None = None
    matched_brokers: Expected | None = None
    pure_forwarders: Expected | None = None
    yield_: Expected | None = None
    mean_hops: Expected | None = None
    mean_delay_ms: Expected | None = None
    messages: Expected | None = None
    messages_by_kind: dict[str, Expected] = {}
    peak_queue: Expected | None = None
    table_entries: Expected | None = None
    received: dict[str, Expected] = {}
    """Deliveries by client."""


class Scenario(_Table, frozen=True, kw_only=True):
    """A whole scenario file."""

    name: Name
    about: str = ""
    seed: Annotated[int, Meta(ge=0, le=SEED_MAX)] = 1
    duration_s: Span = 10.0
    warmup_s: Seconds = 0.0
    """When generated publishers begin, and churn and random faults unless they say otherwise."""
    quiet_s: Seconds = 120.0
    """How long the network may take after the end until nothing is under way."""
    sample_s: Span = 1.0
    """Between two samples of queues and tables."""
    compare_tables: bool = True
    """Whether tables are compared in the end with those of a fresh network."""
    topology: dict[str, Any]
    network: Network = Network()
    brokers: Brokers = Brokers()
    workload: Workload | None = None
    churn: Churn | None = None
    unsubscribe: tuple[UnsubscribeBurst, ...] = ()
    moves: SubscriptionMoves | None = None
    monitor: tuple[Monitor, ...] = ()
    probe: Probe | None = None
    measure: MeasureSpec | None = None
    faults: tuple[Fault, ...] = ()
    faults_random: RandomFaults | None = None
    client: tuple[ClientSpec, ...] = ()
    step: tuple[Step, ...] = ()
    expect: Expect = Expect()


def microseconds(seconds: float) -> int:
    """Whole microseconds, as brokers and the simulator count."""
    return round(seconds * 1_000_000)
