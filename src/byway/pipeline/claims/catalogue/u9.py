"""U9: interests in clusters."""

from byway.pipeline.claims.catalogue._pruning import (
    CORE_TABLES,
    PROBED_DELAY,
    SMALL_SELECTIVE,
    policies,
)
from byway.pipeline.claims.claim import Claim, Gain, Order, PaperStatement, PaperValue, Size
from byway.pipeline.papers import Paper

_DELAY, _TABLES = PROBED_DELAY.name, CORE_TABLES.name

CLAIM = Claim(
    id="U9",
    title="Where interests are clustered, selective pruning keeps the core small",
    paper=Paper.SELECTIVE,
    section="section V-E",
    setup="As U7, but what covers and what is covered sits in clusters of adjacent edge brokers.",
    scenario="pruning/004-clustered",
    contenders=policies("active", "selective"),
    measures=(CORE_TABLES, PROBED_DELAY),
    paper_values=(
        PaperValue(_TABLES, "active", 7_300),
        PaperValue(_TABLES, "selective", 1_200),
        PaperValue(_DELAY, "active", 2_000),
        PaperValue(_DELAY, "selective", 60, text="< 3 % of active's"),
    ),
    statements=(
        PaperStatement(statement=Order(_TABLES, (("selective",), ("active",)))),
        PaperStatement(statement=Gain(_TABLES, "selective", "active", 1 - 1_200 / 7_300)),
        PaperStatement(statement=Order(_DELAY, (("selective",), ("active",)))),
        PaperStatement(statement=Gain(_DELAY, "selective", "active", 0.97)),
    ),
    assumed=("as in U7; a cluster is an inner broker with its edge brokers",),
    full=Size(settings={"brokers.profile": '"paper-slow"'}),
    quick=SMALL_SELECTIVE,
)
