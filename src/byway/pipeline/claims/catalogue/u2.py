"""U2: what reaches the core brokers in an unsubscription storm (003)."""

from byway.pipeline.claims.catalogue._pruning import (
    ARRIVED_AT_E,
    CORE_FALSE_POSITIVES,
    CORE_QUEUE,
    SMALL_CONTROLLED,
    policies,
)
from byway.pipeline.claims.claim import Claim, Gain, Order, Printed, Said

_ARRIVED, _QUEUE = ARRIVED_AT_E.name, CORE_QUEUE.name

CLAIM = Claim(
    id="U2",
    title="Core brokers are spared the burst under incremental pruning",
    document="003, section V-A2",
    setup="As U1; counted at the core brokers A to E, of which E is nearest to the publishers.",
    scenario="pruning/003-controlled",
    contenders=policies("active", "lazy", "packing", "incremental"),
    measures=(ARRIVED_AT_E, CORE_QUEUE, CORE_FALSE_POSITIVES),
    printed=(
        Printed(_ARRIVED, "active", 20_000),
        Printed(_ARRIVED, "incremental", 1_100),
        Printed(_QUEUE, "active", 24_000),
        Printed(_QUEUE, "lazy", 15_000),
        Printed(_QUEUE, "packing", 15_000),
        Printed(_QUEUE, "incremental", 150),
    ),
    said=(
        Said(statement=Order(_ARRIVED, (("incremental",), ("active",)))),
        Said(statement=Gain(_ARRIVED, "incremental", "active", 1 - 1_100 / 20_000)),
        Said(statement=Order(_QUEUE, (("incremental",), ("lazy", "packing"), ("active",)))),
        Said(statement=Gain(_QUEUE, "lazy", "active", 1 - 15 / 24)),
        Said(statement=Gain(_QUEUE, "packing", "active", 1 - 15 / 24)),
        Said(statement=Gain(_QUEUE, "incremental", "active", 1 - 150 / 24_000)),
    ),
    assumed=("as in U1",),
    quick=SMALL_CONTROLLED,
)
