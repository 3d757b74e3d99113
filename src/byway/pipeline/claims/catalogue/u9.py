"""U9: interests in clusters (004)."""

from byway.pipeline.claims.catalogue._pruning import (
    CORE_TABLES,
    PROBED_DELAY,
    SMALL_SELECTIVE,
    policies,
)
from byway.pipeline.claims.claim import Claim, Gain, Order, Printed, Said, Size

_DELAY, _TABLES = PROBED_DELAY.name, CORE_TABLES.name

CLAIM = Claim(
    id="U9",
    title="Where interests are clustered, selective pruning keeps the core small",
    document="004, section V-E",
    setup="As U7, but what covers and what is covered sits in clusters of adjacent edge brokers.",
    scenario="pruning/004-clustered",
    contenders=policies("active", "selective"),
    measures=(CORE_TABLES, PROBED_DELAY),
    printed=(
        Printed(_TABLES, "active", 7_300),
        Printed(_TABLES, "selective", 1_200),
        Printed(_DELAY, "active", 2_000),
        Printed(_DELAY, "selective", 60, text="< 3 % of active's"),
    ),
    said=(
        Said(statement=Order(_TABLES, (("selective",), ("active",)))),
        Said(statement=Gain(_TABLES, "selective", "active", 1 - 1_200 / 7_300)),
        Said(statement=Order(_DELAY, (("selective",), ("active",)))),
        Said(statement=Gain(_DELAY, "selective", "active", 0.97)),
    ),
    assumed=("as in U7; a cluster is an inner broker with its edge brokers",),
    full=Size(settings={"brokers.profile": '"paper-slow"'}),
    quick=SMALL_SELECTIVE,
)
