"""The settings of a broker. Every bound of the core is here, with what happens at the bound."""

from __future__ import annotations

from typing import Literal

import msgspec


class BrokerConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of one broker; brokers of one network may differ in all of them."""

    covering: Literal["none", "active", "lazy", "packing", "incremental", "selective"] = "none"
    """Which subscriptions are sent on: all, or those that no other covers; and what happens when
    one that covers others ends."""
    incremental_bursts: tuple[int, int] = (100, 5_000)
    """`incremental`: an unsubscription that would release fewer is never stopped; with more than
    the second number, the second similarity stops it."""
    incremental_similarities: tuple[float, float] = (0.9, 0.6)
    """`incremental`: the share of publications that others want too from which on it is stopped."""
    selective_similarity: float = 0.9
    """`selective`: the share of publications that others want too from which on it is stopped."""
    selective_count_min: int = 100
    """`selective`: one whose publications never met so many other subscriptions just ends."""
    pruning_samples_min: int = 5
    """Publications of one publisher that a subscription must have received lately for the two
    policies to judge by."""
    statistics_max: int = 65_536
    """Rows about what local subscriptions received, under the two policies; beyond, old ones go."""
    statistics_window_us: int = 600_000_000
    """Rows that are older do not count."""
    congestion_queue: int = 1_000
    """With more messages in the input queue, the two policies postpone unsubscriptions."""
    merging: bool = False
    """Under every policy but `none`: forward one filter in place of two, in quiet times, where it
    lets nothing more through."""
    merging_false_positives: float = 0.0
    """Also where no more than this share of what it lets through would be in vain; 0: never."""
    retire_interval_us: int = 1_000_000
    """How often the two policies look after what they preserved and postponed; 0: never, and
    nothing is postponed."""
    retire_batch: int = 20
    """Subscriptions sent each time in place of preserved ones; 0: these stay for ever."""
    retire_after_us: int = 5_000_000
    """How long a subscription is preserved at least."""
    preserved_max: int = 10_000
    """Preserved subscriptions and mergers; with so many, unsubscriptions are not stopped and
    nothing is merged."""
    conformance: bool = True
    """Refuse publications that conform to no advertisement of their publisher."""
    hops_max: int = 255
    """A publication that travelled further is dropped."""
    probe_cycles: bool = False
    """Look for a cycle whenever a link starts anew, and cut it. The live network does; it is not
    needed where the overlay is known to be a tree."""
    body_bytes_max: int = 1_048_576
    """A publication with a larger body is refused."""
    data_window: int = 65_536
    """Unconfirmed publications kept for one neighbour; with more, no data is read."""
    publishers_max: int = 65_536
    """Publishers whose last sequence is remembered; beyond, the one idle longest is forgotten."""
    session_ttl_us_max: int = 86_400_000_000
    """A client that asks for a longer session gets this."""
    session_messages_max: int = 10_000
    """Deliveries kept for one client; beyond, the oldest is dropped and the client told."""
    session_bytes_max: int = 16_777_216
    """Bytes of publications kept for one client; beyond, the oldest delivery is dropped and the
    client told."""
    sessions_max: int = 10_000
    """Clients whose session is kept when they vanish; one more is taken in without a session, and
    told so. No session ends early because others come."""
    sessions_bytes_max: int = 1_073_741_824
    """What all sessions together keep, with 256 bytes a delivery for its keeping. Half of it is
    shared out evenly among `sessions_max` sessions, and nobody else can take that; half is for
    those that need more. When that half is used up, a session that has more than its share drops
    its oldest deliveries for new ones, and its client is told."""
    client_entries_max: int = 262_144
    """Subscriptions and advertisements of one client; one more is refused."""
    client_filter_bytes_max: int = 67_108_864
    """Bytes of their filters; an entry beyond is refused."""
    local_entries_max: int = 1_048_576
    """Subscriptions and advertisements of all clients of this broker; one more is refused."""
    local_filter_bytes_max: int = 268_435_456
    """Bytes of their filters; an entry beyond is refused."""
    sync_wait_us: int = 30_000_000
    """How long a broker that starts for the first time waits for neighbours that do not come. One
    that restarts without its state waits until they come, or an operator forgets them."""
    restore_grace_us: int = 30_000_000
    """How long clients have to come back after a restart with storage. Until then a delivery that
    finds no room in the session of a client is not confirmed to where it came from."""
    load_interval_us: int = 0
    """How often neighbours exchange their loads; 0: never."""
    load_radius: int = 4
    """How many hops a broker's load travels."""
