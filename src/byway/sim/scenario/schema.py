"""Schema: what a scenario file can say, as structs whose fields declare its keys.

Nothing is read, drawn or run here. A scenario is plain data; with a seed it determines a run. Times
are in seconds, as in the file. The options of brokers are derived in `broker_spec`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec import field

from byway.model.errors import BywayError
from byway.model.measurement import (
    DELIVERIES,
    FALSE_POSITIVES,
    HOPS_MEANING,
    MATCHED_BROKERS,
    MESSAGES_MEANING,
    PUBLICATIONS,
    PURE_FORWARDERS,
    TABLE_ENTRIES_MEANING,
    YIELD_MEANING,
)
from byway.model.option_reading import Problem
from byway.model.options import Share, option, within
from byway.sim.scenario.broker_spec import BrokerSpec
from byway.sim.scenario.fault_spec import Fault, RandomFaults
from byway.sim.scenario.value_types import (
    RUN_END,
    SEED_MAX,
    WARMUP_END,
    ByteRate,
    ClientLatency,
    Count,
    Expected,
    MessageRate,
    Milliseconds,
    Name,
    Place,
    Quantity,
    Rate,
    ScenarioTable,
    Seconds,
    Span,
)
from byway.sim.topology.topology_spec import TopologySpec


class ScenarioError(BywayError, ValueError):
    """A scenario that cannot be run, with the key at fault; `source` is who said it, if known.

    `further` are other problems of the same scenario.
    """

    def __init__(
        self, key: str, reason: str, source: str = "", further: Sequence[Problem] = ()
    ) -> None:
        self.key = key
        self.reason = reason
        self.source = source
        self.further = tuple(further)
        super().__init__(key, reason, source, self.further)

    @classmethod
    def of(cls, problems: Sequence[Problem]) -> ScenarioError:
        """One error with all that is wrong."""
        return cls(*problems[0], problems[1:])

    @property
    def problems(self) -> list[Problem]:
        """All that is wrong."""
        return [Problem(self.key, self.reason, self.source), *self.further]

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


class Network(ScenarioTable, frozen=True, kw_only=True):
    """What carries messages between brokers. A limit that is not given does not exist."""

    latency_ms: Annotated[
        Milliseconds | None, option("The latency of every link.", otherwise="the topology's")
    ] = None
    bandwidth_bytes_per_s: Annotated[
        ByteRate | None,
        option("The bandwidth of each direction of each link.", otherwise="no limit"),
    ] = None
    uplink_bytes_per_s: Annotated[
        ByteRate | None,
        option("The bandwidth of each broker, shared by all its links.", otherwise="no limit"),
    ] = None
    uplink_messages_per_s: Annotated[
        MessageRate | None,
        option("The messages that each broker can send, over all its links.", otherwise="no limit"),
    ] = None
    uplink_from_s: Annotated[
        Seconds, option("When the two limits of brokers begin; before that, there are none.")
    ] = 0.0
    reconnect_ms: Annotated[
        Milliseconds,
        option("The time until the ends of a broken link are connected again, once both are up."),
    ] = 100.0
    reattach_ms: Annotated[
        Milliseconds, option("The time from a broker's restart to the return of its clients.")
    ] = 100.0
    codec: Annotated[
        bool,
        option(
            "Encodes and decodes every frame on every hop, between brokers and to clients, as "
            "between processes; sizes are then those of the bytes."
        ),
    ] = False
    client_latency_ms: Annotated[
        ClientLatency,
        option(
            "The latency between clients and brokers, in each direction. Delays of deliveries "
            "include the way to the subscriber."
        ),
    ] = 0.0
    soft_latency_ms: Annotated[
        Milliseconds | None,
        option(
            "The latency of every soft link.",
            otherwise="`latency_ms`, or the sum of the latencies between both ends in the topology",
        ),
    ] = None


class Brokers(BrokerSpec, frozen=True, kw_only=True):
    """Options of all brokers, and in `at` those of single brokers that differ."""

    profile: Annotated[
        Name,
        option(
            "The profile of service times, which say how long a broker takes to handle a message: "
            "`instant`, `paper`, `paper-slow` or `measured`."
        ),
    ] = "instant"
    instant_until_s: Annotated[
        Seconds,
        option(
            "Before this time brokers handle everything in no time, so that tables are complete "
            "when the measured part begins."
        ),
    ] = 0.0
    at: Annotated[
        dict[str, BrokerSpec], option("Options of single brokers, in tables by name.")
    ] = field(default_factory=dict)


class Workload(ScenarioTable, frozen=True, kw_only=True):
    """Generated clients: who subscribes to what, and who publishes what, where and when."""

    kind: Annotated[
        Literal["siena", "zipf", "covering", "stocks", "workflow", "feeds"],
        option("The generator of subscriptions and publications."),
    ]
    parameters: Annotated[
        dict[str, Any],
        option(
            "The generator's own parameters. Unless given, its `seed` is derived from the seed of "
            "the run, and the `count` of `covering` is `subscriptions`."
        ),
    ] = field(default_factory=dict)
    subscriptions: Annotated[
        Count,
        option(
            "The number of subscriptions; number n belongs to subscriber n modulo `subscribers`. "
            "For kind `feeds` the generator says how many subscriptions, subscribers and "
            "publishers there are, and who has which."
        ),
    ] = 1_000
    subscribers: Annotated[
        Quantity | None,
        option("The number of clients that share the subscriptions.", otherwise="`subscriptions`"),
    ] = None
    subscribers_at: Annotated[
        Place,
        option(
            "The place of the subscribers. Those of kind `feeds` are at different brokers of it, "
            "drawn at random; so are its publishers."
        ),
    ] = "all"
    order: Annotated[
        Literal["given", "shuffled", "groups"],
        option(
            "The order in which subscriptions arrive: as generated, shuffled, or, for kind "
            "`covering`, one group after another, each shuffled."
        ),
    ] = "given"
    roots_after: Annotated[
        Share,
        option(
            "For kind `covering`: the share of `shuffled` subscriptions that come before the first "
            "root, or of each of the `groups` that come before its root. Roots of groups in "
            "clusters always come first."
        ),
    ] = 0.0
    clusters: Annotated[
        Literal["none", "siblings", "brokers"],
        option(
            "For kind `covering`: where a group (a root with all that it covers) is placed: "
            "anywhere (`none`), at one random broker (`brokers`), or at brokers with a common "
            "neighbour (`siblings`)."
        ),
    ] = "none"
    scattered_groups: Annotated[
        Count,
        option(
            "The number of groups, from the first, that are placed anywhere despite `clusters`."
        ),
    ] = 0
    roots_at: Annotated[
        Place | None,
        option("The place of the roots of groups outside clusters.", otherwise="anywhere"),
    ] = None
    subscribe_at_s: Annotated[Seconds, option("When the first subscription arrives.")] = 0.0
    subscribe_for_s: Annotated[
        Seconds,
        option("The time over which subscriptions arrive, evenly; with 0 all arrive at once."),
    ] = 0.0
    session_ttl_s: Annotated[
        Seconds,
        option("How long a broker keeps the session of a generated client that disconnected."),
    ] = 0.0
    publishers: Annotated[Count, option("The number of publishers.")] = 1
    publishers_at: Annotated[Place, option("The place of the publishers.")] = "all"
    advertise: Annotated[
        Literal["any", "symbols", "feeds"],
        option(
            "What each publisher advertises: anything; for kind `stocks`, quotes of its share of "
            "the symbols, which are also what it publishes; for kind `feeds`, its feed."
        ),
    ] = "any"
    rate_per_s: Annotated[
        Rate | None,
        option("The publications of all publishers together.", otherwise="nothing is published"),
    ] = None
    rate_per_publisher_per_s: Annotated[
        Rate | None,
        option(
            "The publications of each publisher; only one of the two rates may be given.",
            otherwise="`rate_per_s`",
        ),
    ] = None
    publish_for_s: Annotated[
        Seconds | None,
        option("How long publishers publish, from `warmup_s` on.", otherwise=RUN_END),
    ] = None
    arrivals: Annotated[
        Literal["regular", "poisson"],
        option(
            "When publications are published: at equal intervals, publishers in turn (`regular`), "
            "or at random times (`poisson`)."
        ),
    ] = "regular"
    burst: Annotated[
        Quantity,
        option("Publications published at the same time; the rate stays the same."),
    ] = 1
    payload_bytes: Annotated[
        int,
        within(0, 1_048_576, unit="bytes"),
        option("The data in each publication besides its attributes."),
    ] = 0


class Churn(ScenarioTable, frozen=True, kw_only=True):
    """Subscribers that subscribe, unsubscribe, or disconnect for a while, at random times."""

    from_s: Annotated[Seconds | None, option("When churn begins.", otherwise=WARMUP_END)] = None
    to_s: Annotated[Seconds | None, option("When churn ends.", otherwise=RUN_END)] = None
    subscribe_per_s: Annotated[
        Rate,
        option(
            "New subscriptions, with the filters that follow those of the workload, by any "
            "connected subscriber."
        ),
    ] = 0.0
    unsubscribe_per_s: Annotated[Rate, option("Subscriptions that end, any of those in force.")] = (
        0.0
    )
    vanish_per_s: Annotated[Rate, option("Subscribers whose connection breaks.")] = 0.0
    away_s_min: Annotated[
        Seconds,
        option("The shortest time until a subscriber whose connection broke connects again."),
    ] = 0.5
    away_s_max: Annotated[
        Seconds,
        option(
            "The longest time until a subscriber whose connection broke connects again; all are "
            "connected at the end."
        ),
    ] = 2.0


class UnsubscribeBurst(ScenarioTable, frozen=True, kw_only=True):
    """Many unsubscriptions in a row."""

    at_s: Annotated[Seconds, option("When the first unsubscription happens.")]
    count: Annotated[
        Quantity, option("The number of unsubscriptions; fewer if fewer are in force.")
    ]
    gap_s: Annotated[Seconds, option("The time between two unsubscriptions.")] = 0.0
    which: Annotated[
        Literal["broadest", "random", "roots"],
        option(
            "Which subscriptions end: those that cover the most others when the burst begins, any, "
            "or the first roots of kind `covering`."
        ),
    ] = "random"


class SubscriptionMoves(ScenarioTable, frozen=True, kw_only=True):
    """Subscriptions of the workload that end at one broker and begin at another."""

    per_s: Annotated[Rate, option("The subscriptions that move.")]
    from_s: Annotated[Seconds | None, option("When moves begin.", otherwise=WARMUP_END)] = None
    to_s: Annotated[Seconds | None, option("When moves end.", otherwise=RUN_END)] = None
    within: Annotated[
        Name | None,
        option(
            "A prefix of role names. A subscription moves only among the brokers of its own role "
            'with this prefix, such as `region-2` for `"region"`.',
            otherwise="everywhere",
        ),
    ] = None


class Monitor(ScenarioTable, frozen=True, kw_only=True):
    """A subscriber with a broad filter that moves from broker to broker."""

    filter: Annotated[str, option("The filter of its subscription.")]
    at: Annotated[
        Place,
        option(
            "The place of the monitor: it visits these brokers in turn, and begins again after the "
            "last; `random`: all brokers, in a random order."
        ),
    ]
    from_s: Annotated[Seconds, option("When the monitor subscribes first.")]
    stay_s: Annotated[Span, option("How long the monitor stays at a broker.")]
    away_s: Annotated[
        Seconds, option("The time between leaving a broker and subscribing at the next.")
    ] = 0.0


class Probe(ScenarioTable, frozen=True, kw_only=True):
    """Publications whose delays are measured separately, to one subscriber at each of some
    brokers."""

    at_s: Annotated[Seconds, option("When the first probe is published.")]
    count: Annotated[Quantity, option("The number of probes.")] = 300
    gap_s: Annotated[Seconds, option("The time between two probes.")] = 0.4
    publishers_at: Annotated[
        Place, option("The place of the publishers: one at each of these brokers, in turn.")
    ] = "all"
    subscribers_at: Annotated[
        Place, option("The place of the subscribers: one at each of these brokers.")
    ] = "all"


class MeasureSpec(ScenarioTable, frozen=True, kw_only=True):
    """What is measured in a part of the run, for groups of brokers."""

    from_s: Annotated[
        Seconds,
        option("When measuring begins; earlier publications do not count for delays."),
    ]
    to_s: Annotated[
        Seconds | None,
        option(
            "Publications after this do not count for delays, tables are no longer averaged, and "
            "`interval` ends; everything else is counted to the very end.",
            otherwise=RUN_END,
        ),
    ] = None
    tables_from_s: Annotated[
        Seconds | None, option("From when on tables are averaged.", otherwise="`from_s`")
    ] = None
    at: Annotated[
        tuple[Name, ...],
        option("Roles or brokers that are measured separately, besides `all`."),
    ] = ()


class ClientSpec(ScenarioTable, frozen=True, kw_only=True):
    """A client that the scenario names, for its steps."""

    name: Annotated[Name, option("The name of the client.")]
    broker: Annotated[Name, option("Its home broker.")]
    session_ttl_s: Annotated[
        Seconds, option("How long its broker keeps its session after it disconnected.")
    ] = 0.0


class Step(ScenarioTable, frozen=True, kw_only=True, rename={"come_back": "return"}):
    """One thing that a client of the scenario does."""

    at_s: Annotated[Seconds, option("When the step is taken.")]
    client: Annotated[Name, option("The client that takes it.")]
    advertise: Annotated[
        str | None,
        option("A filter of what the client may publish from now on; `ANY` for anything."),
    ] = None
    subscribe: Annotated[str | None, option("A filter of what the client wants.")] = None
    name: Annotated[
        Name | None,
        option(
            "The name of the advertisement or the subscription; a subscription under a name in use "
            "replaces the filter.",
            otherwise='`"a"` or `"s"`',
        ),
    ] = None
    unadvertise: Annotated[Name | None, option("The name of an advertisement that ends.")] = None
    unsubscribe: Annotated[
        Place | None, option("The name of a subscription that ends, or an array of them.")
    ] = None
    publish: Annotated[
        dict[str, bool | int | float | str] | None,
        option('The attributes of a publication: `{ price = 120, symbol = "ABC" }`.'),
    ] = None
    data: Annotated[str | None, option("The payload of what is published.")] = None
    vanish: Annotated[bool | None, option("With `true` the client's connection breaks.")] = None
    come_back: Annotated[bool | None, option("With `true` the client connects again.")] = None
    leave: Annotated[
        bool | None,
        option("With `true` the client leaves for good, and everything it had ends."),
    ] = None


def _sentence(meaning: str) -> str:
    """What a word means, as the page about scenarios has it."""
    return f"{meaning[0].upper()}{meaning[1:]}."


class Expect(ScenarioTable, frozen=True, kw_only=True, rename={"yield_": "yield"}):
    """What must hold at the end, besides what is always checked."""

    publications: Annotated[Expected | None, option(_sentence(PUBLICATIONS.meaning))] = None
    deliveries: Annotated[Expected | None, option(_sentence(DELIVERIES.meaning))] = None
    matched_brokers: Annotated[Expected | None, option(_sentence(MATCHED_BROKERS.meaning))] = None
    pure_forwarders: Annotated[Expected | None, option(_sentence(PURE_FORWARDERS.meaning))] = None
    false_positives: Annotated[Expected | None, option(_sentence(FALSE_POSITIVES.meaning))] = None
    yield_: Annotated[Expected | None, option(_sentence(YIELD_MEANING))] = None
    mean_hops: Annotated[Expected | None, option(_sentence(f"{HOPS_MEANING}, on average"))] = None
    mean_delay_ms: Annotated[
        Expected | None,
        option("The time from the publisher's broker to the subscriber, on average."),
    ] = None
    messages: Annotated[
        Expected | None,
        option(_sentence(MESSAGES_MEANING)),
    ] = None
    messages_by_kind: Annotated[
        dict[str, Expected], option("The same by kind of message, in a table.")
    ] = field(default_factory=dict)
    peak_queue: Annotated[
        Expected | None, option("The most messages that waited at one broker at one time.")
    ] = None
    table_entries: Annotated[
        Expected | None, option(_sentence(f"{TABLE_ENTRIES_MEANING}, at the end"))
    ] = None
    received: Annotated[dict[str, Expected], option("Deliveries by `[[client]]`, in a table.")] = (
        field(default_factory=dict)
    )


class Scenario(ScenarioTable, frozen=True, kw_only=True):
    """A whole scenario file."""

    name: Annotated[Name, option("The name of the scenario; a run is named after it and the seed.")]
    about: Annotated[str, option("A line for the summary.")] = ""
    seed: Annotated[
        int, within(0, SEED_MAX), option("Decides all that is random; `--seed` overrides it.")
    ] = 1
    duration_s: Annotated[
        Span, option("How long clients act and faults happen; all faults end within it.")
    ] = 10.0
    warmup_s: Annotated[
        Seconds,
        option(
            "When generated publishers begin, and churn and random faults unless they say "
            "otherwise."
        ),
    ] = 0.0
    quiet_s: Annotated[
        Seconds,
        option(
            "How long the network may take after the end until nothing is under way; the run fails "
            "if it takes longer."
        ),
    ] = 120.0
    drain: Annotated[
        bool,
        option(
            "Goes on after the end until nothing is under way. Otherwise the run ends at once, and "
            "only confirmed publications are judged."
        ),
    ] = True
    sample_s: Annotated[
        Span,
        option("The time between two samples of queues and tables."),
    ] = 1.0
    compare_tables: Annotated[
        bool,
        option("Compares tables at the end with those of a network that is started afresh."),
    ] = True
    topology: Annotated[
        TopologySpec,
        option(
            "The brokers and links. A random topology is drawn from the seed of the run, unless it "
            "has a `seed` of its own."
        ),
    ]
    network: Annotated[Network, option("What carries messages between brokers.")] = Network()
    brokers: Annotated[Brokers, option("How brokers work.")] = Brokers()
    workload: Annotated[Workload | None, option("Generated clients.")] = None
    churn: Annotated[
        Churn | None, option("Subscribers of the workload that come and go at random.")
    ] = None
    unsubscribe: Annotated[tuple[UnsubscribeBurst, ...], option("Bursts of unsubscriptions.")] = ()
    moves: Annotated[
        SubscriptionMoves | None,
        option("Subscriptions of the workload that move to other brokers."),
    ] = None
    monitor: Annotated[
        tuple[Monitor, ...], option("Subscribers that move from broker to broker.")
    ] = ()
    probe: Annotated[Probe | None, option("Publications whose delays are measured separately.")] = (
        None
    )
    measure: Annotated[MeasureSpec | None, option("What is measured in a part of the run.")] = None
    faults: Annotated[tuple[Fault, ...], option("What breaks, and when.")] = ()
    faults_random: Annotated[RandomFaults | None, option("Faults drawn from the seed.")] = None
    client: Annotated[tuple[ClientSpec, ...], option("Clients that the scenario names.")] = ()
    step: Annotated[tuple[Step, ...], option("What these clients do.")] = ()
    expect: Annotated[Expect, option("What must hold at the end.")] = Expect()
