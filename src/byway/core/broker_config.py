"""The options of the core: how one broker works, with every bound of it."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from byway.core.mesh.mesh_config import MeshConfig
from byway.model.bounds import BODY_BYTES_MAX, PUBLISHER_WINDOW
from byway.model.options import (
    Bytes,
    Count,
    Microseconds,
    Quantity,
    Share,
    elsewhere,
    option,
    within,
)

_Hops = Annotated[int, within(1, 2**30 - 1, unit="hops")]


class BrokerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The options of one broker; brokers of one network may differ in all of them."""

    covering: Annotated[
        Literal["none", "active", "lazy", "packing", "incremental", "selective"],
        option(
            "The covering policy: whether a subscription is forwarded that another one forwarded "
            "to the same neighbour covers, and what is done when a covering subscription ends."
        ),
    ] = "none"
    incremental_bursts: Annotated[
        tuple[Count, Count],
        option(
            "With `incremental`, an unsubscription that would release fewer subscriptions than "
            "the first number is always forwarded; to one that would release more than the second "
            "number, the second of `incremental_similarities` applies.",
            order="rising",
        ),
    ] = (100, 5_000)
    incremental_similarities: Annotated[
        tuple[Share, Share],
        option(
            "With `incremental`, an unsubscription is stopped where at least this share of its "
            "publications also matches other subscriptions: the first for bursts up to the second "
            "number of `incremental_bursts`, the second for larger ones.",
            order="falling",
        ),
    ] = (0.9, 0.6)
    selective_similarity: Annotated[
        Share,
        option(
            "With `selective`, an unsubscription is stopped where at least this share of its "
            "publications also matches other subscriptions, whatever the size of the burst."
        ),
    ] = 0.9
    selective_count_min: Annotated[
        Count,
        option(
            "With `selective`, a subscription is never preserved if its publications matched "
            "fewer other subscriptions than this on their way."
        ),
    ] = 100
    pruning_samples_min: Annotated[
        Quantity,
        option(
            "`incremental` and `selective` judge a publisher only if the subscription received at "
            "least this many of its publications within `statistics_window`."
        ),
    ] = 5
    statistics_max: Annotated[
        int,
        within(2),
        option(
            "`incremental` and `selective` keep at most this many rows about what local "
            "subscriptions received; with more, the older half is forgotten."
        ),
    ] = 65_536
    statistics_window_us: Annotated[
        Microseconds, option("Rows older than this are not used by `incremental` and `selective`.")
    ] = 600_000_000
    congestion_queue: Annotated[
        Count,
        option(
            "While more messages than this wait in the input queue, `incremental` and `selective` "
            "postpone unsubscriptions.",
        ),
    ] = 1_000
    merging: Annotated[
        bool,
        option(
            "Forwards one merged filter in place of several that differ in one attribute, a few at "
            "a time every `retire_interval`; without effect under `none`."
        ),
    ] = False
    merging_false_positives: Annotated[
        Share,
        option(
            "Lets a merged filter match slightly more than its parts: the largest allowed share of "
            "unwanted publications. With 0 a merged filter matches exactly what its parts do."
        ),
    ] = 0.0
    retire_interval_us: Annotated[
        Microseconds,
        option(
            "How often the broker retires preserved subscriptions, decides postponed "
            "unsubscriptions and merges filters; with 0 never, and no unsubscription is postponed."
        ),
    ] = 1_000_000
    retire_batch: Annotated[
        Count,
        option(
            "At most this many subscriptions are forwarded in an interval in place of preserved "
            "ones; with 0 preserved subscriptions stay for ever."
        ),
    ] = 20
    retire_after_us: Annotated[
        Microseconds, option("A subscription stays preserved for at least this long.")
    ] = 5_000_000
    preserved_max: Annotated[
        Count,
        option(
            "With this many placeholders, preserved or merged, every unsubscription is forwarded "
            "and nothing is merged."
        ),
    ] = 10_000
    mesh: Annotated[MeshConfig, elsewhere()] = MeshConfig()
    """A table of its own, wherever a user may set it."""
    conformance: Annotated[
        bool,
        option("Refuses publications that conform to no advertisement of their publisher."),
    ] = True
    hops_max: Annotated[
        _Hops, option("A publication that has travelled further than this is dropped.")
    ] = 255
    probe_cycles: Annotated[
        bool,
        option(
            "Looks for a cycle whenever a link starts anew, and cuts it. Not needed where the "
            "overlay is known to be a tree."
        ),
    ] = False
    body_bytes_max: Annotated[
        int,
        within(1, BODY_BYTES_MAX, unit="bytes"),
        option("A publication with a larger body is refused."),
    ] = 1_048_576
    publisher_window: Annotated[
        Quantity,
        option(
            "With this many unconfirmed publications of one publisher, its home broker takes no "
            "more of it. It must be equal in the whole network: brokers that greet each other with "
            "different values do not connect."
        ),
    ] = PUBLISHER_WINDOW
    link_bytes_max: Annotated[
        Bytes,
        option(
            "With so many bytes of unconfirmed publications for one link, or held in one branch, "
            "or held for clients after a restart, with 256 bytes of overhead for each, no more "
            "data is read but from that branch."
        ),
    ] = 268_435_456
    publishers_max: Annotated[
        Quantity,
        option(
            "The broker remembers the last sequence of at most this many publishers, to recognise "
            "duplicates; with one more, the one idle longest is forgotten."
        ),
    ] = 65_536
    session_ttl_us_max: Annotated[
        Microseconds,
        option("The longest time to live of a session; a client that asks for more gets this."),
    ] = 86_400_000_000
    session_messages_max: Annotated[
        Count,
        option(
            "Deliveries kept in the session of one client; with one more, the broker drops the "
            "oldest and tells the client."
        ),
    ] = 10_000
    session_bytes_max: Annotated[
        int,
        within(0, unit="bytes"),
        option(
            "Bytes of publications kept in the session of one client; with more, the broker drops "
            "the oldest deliveries and tells the client."
        ),
    ] = 16_777_216
    sessions_max: Annotated[
        Count,
        option(
            "Sessions of all clients together; one more client is accepted without a session, and "
            "told so. No session ends early because others begin."
        ),
    ] = 10_000
    sessions_bytes_max: Annotated[
        int,
        within(0, unit="bytes"),
        option(
            "Bytes that all sessions keep together, with 256 bytes of overhead for each delivery. "
            "Half of it is divided evenly among `sessions_max` sessions and reserved for them; "
            "the other half is for those that need more. When that half is used up, a session "
            "beyond its share drops its oldest deliveries for new ones, and its client is told."
        ),
    ] = 1_073_741_824
    client_entries_max: Annotated[
        Quantity, option("Subscriptions and advertisements of one client; one more is refused.")
    ] = 262_144
    client_filter_bytes_max: Annotated[
        Bytes,
        option(
            "Bytes of the filters of one client's subscriptions and advertisements; more are "
            "refused."
        ),
    ] = 67_108_864
    local_entries_max: Annotated[
        Quantity,
        option(
            "Subscriptions and advertisements of all clients of this broker together; one more is "
            "refused."
        ),
    ] = 1_048_576
    local_filter_bytes_max: Annotated[
        Bytes,
        option(
            "Bytes of the filters of all local subscriptions and advertisements; more are refused."
        ),
    ] = 268_435_456
    sync_wait_us: Annotated[
        Microseconds,
        option(
            "How long a broker that starts for the first time waits for the tables of neighbours "
            "that do not connect. A broker that restarts without its state waits until they "
            "connect, or an operator forgets them.",
            was="agreement_wait_us",
        ),
    ] = 30_000_000
    unlisted_wait_us: Annotated[
        Microseconds,
        option(
            "How long neighbours that are not listed have to connect to a broker that starts "
            "without its state, and without the names of its neighbours. Until then publications "
            "are delivered, but not confirmed. With 0, or if `limits.neighbours` is 0, the broker "
            "does not wait for them."
        ),
    ] = 2_000_000
    restore_grace_us: Annotated[
        Microseconds,
        option(
            "How long clients may take to reconnect after a restart with storage, even if the time "
            "to live of their session is shorter. Until then a delivery that does not fit into a "
            "client's session stays unconfirmed."
        ),
    ] = 30_000_000
    load_sample_us: Annotated[
        Microseconds,
        option(
            "How often the broker is told how many messages wait in its queues: `congestion_queue` "
            "and the loads that brokers exchange go by the last sample. With 0 never."
        ),
    ] = 1_000_000
    load_interval_us: Annotated[
        Microseconds, option("How often brokers exchange their loads; with 0 never.")
    ] = 0
    load_radius: Annotated[_Hops, option("How far a broker's load is sent.")] = 4
    behaviours: Annotated[
        tuple[str, ...],
        option(
            "Further behaviours that are on, by the names under which a program that embeds the "
            "broker has registered them; the broker process has none."
        ),
    ] = ()
