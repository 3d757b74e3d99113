"""U4: what covering saves brokers when nothing ends (003)."""

from byway.pipeline.claims.catalogue._pruning import (
    CORE_PUBLICATION_TIME,
    CORE_TIME,
    SMALL_TABLE_II,
    policies,
)
from byway.pipeline.claims.claim import Claim, Gain, Order, Printed, Said

_TOTAL, _PUBLICATIONS = CORE_TIME.name, CORE_PUBLICATION_TIME.name

CLAIM = Claim(
    id="U4",
    title="Active covering pays as long as nothing ends",
    document="003, section V-A1, table II",
    setup="42,000 subscriptions, 200,000 publications, no unsubscription.",
    scenario="pruning/003-table-ii",
    contenders=policies("active", "lazy", "none"),
    measures=(CORE_TIME, CORE_PUBLICATION_TIME),
    printed=(
        Printed(_TOTAL, "active", 842),
        Printed(_TOTAL, "lazy", 1_754),
        Printed(_TOTAL, "none", 1_614),
        Printed(_PUBLICATIONS, "active", 600),
        Printed(_PUBLICATIONS, "lazy", 1_240),
        Printed(_PUBLICATIONS, "none", 1_580),
    ),
    said=(
        Said(statement=Order(_TOTAL, (("active",), ("none",), ("lazy",)))),
        Said(statement=Gain(_TOTAL, "active", "none", 1 - 842 / 1_614)),
        Said(statement=Gain(_TOTAL, "active", "lazy", 1 - 842 / 1_754)),
        Said(statement=Order(_PUBLICATIONS, (("active",), ("lazy",), ("none",)))),
        Said(statement=Gain(_PUBLICATIONS, "active", "lazy", 1 - 600 / 1_240)),
        Said(statement=Gain(_PUBLICATIONS, "active", "none", 1 - 600 / 1_580)),
    ),
    assumed=(
        "where broad subscriptions are and when they come: chosen so that the published numbers of "
        "subscriptions and entries come out",
        "two of the 20 groups sit at one broker each: without them active would take 0.56 of "
        "none's time by calculation, where the document has 0.52",
        "the time of a message is what the table gives, divided by its numbers of messages and "
        "entries; so what is reproduced are the numbers of messages and entries",
    ),
    quick=SMALL_TABLE_II,
)
