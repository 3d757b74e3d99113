"""U2: what reaches the core brokers in an unsubscription storm."""

from byway.pipeline.claims.catalogue._pruning import (
    ARRIVED_AT_E,
    CORE_FALSE_POSITIVES,
    CORE_QUEUE,
    SMALL_CONTROLLED,
    policies,
)
from byway.pipeline.claims.claim import Claim, Gain, Order, PaperStatement, PaperValue
from byway.pipeline.papers import Paper

_ARRIVED, _QUEUE = ARRIVED_AT_E.name, CORE_QUEUE.name

CLAIM = Claim(
    id="U2",
    title="Core brokers are spared the burst under incremental pruning",
    paper=Paper.INCREMENTAL,
    section="section V-A2",
    setup="As U1; counted at the core brokers A to E, of which E is nearest to the publishers.",
    scenario="pruning/003-controlled",
    contenders=policies("active", "lazy", "packing", "incremental"),
    measures=(ARRIVED_AT_E, CORE_QUEUE, CORE_FALSE_POSITIVES),
    paper_values=(
        PaperValue(_ARRIVED, "active", 20_000),
        PaperValue(_ARRIVED, "incremental", 1_100),
        PaperValue(_QUEUE, "active", 24_000),
        PaperValue(_QUEUE, "lazy", 15_000),
        PaperValue(_QUEUE, "packing", 15_000),
        PaperValue(_QUEUE, "incremental", 150),
    ),
    statements=(
        PaperStatement(statement=Order(_ARRIVED, (("incremental",), ("active",)))),
        PaperStatement(statement=Gain(_ARRIVED, "incremental", "active", 1 - 1_100 / 20_000)),
        PaperStatement(
            statement=Order(_QUEUE, (("incremental",), ("lazy", "packing"), ("active",)))
        ),
        PaperStatement(statement=Gain(_QUEUE, "lazy", "active", 1 - 15 / 24)),
        PaperStatement(statement=Gain(_QUEUE, "packing", "active", 1 - 15 / 24)),
        PaperStatement(statement=Gain(_QUEUE, "incremental", "active", 1 - 150 / 24_000)),
    ),
    assumed=("as in U1",),
    quick=SMALL_CONTROLLED,
)
