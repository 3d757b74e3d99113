"""U4: what covering saves brokers when nothing ends."""

from byway.pipeline.claims.catalogue._pruning import (
    CORE_PUBLICATION_TIME,
    CORE_TIME,
    SMALL_TABLE_II,
    policies,
)
from byway.pipeline.claims.claim import Claim, Gain, Order, PaperStatement, PaperValue
from byway.pipeline.papers import Paper

_TOTAL, _PUBLICATIONS = CORE_TIME.name, CORE_PUBLICATION_TIME.name

CLAIM = Claim(
    id="U4",
    title="Active covering pays as long as nothing ends",
    paper=Paper.INCREMENTAL,
    section="section V-A1, table II",
    setup="42,000 subscriptions, 200,000 publications, no unsubscription.",
    scenario="pruning/003-table-ii",
    contenders=policies("active", "lazy", "none"),
    measures=(CORE_TIME, CORE_PUBLICATION_TIME),
    paper_values=(
        PaperValue(_TOTAL, "active", 842),
        PaperValue(_TOTAL, "lazy", 1_754),
        PaperValue(_TOTAL, "none", 1_614),
        PaperValue(_PUBLICATIONS, "active", 600),
        PaperValue(_PUBLICATIONS, "lazy", 1_240),
        PaperValue(_PUBLICATIONS, "none", 1_580),
    ),
    statements=(
        PaperStatement(statement=Order(_TOTAL, (("active",), ("none",), ("lazy",)))),
        PaperStatement(statement=Gain(_TOTAL, "active", "none", 1 - 842 / 1_614)),
        PaperStatement(statement=Gain(_TOTAL, "active", "lazy", 1 - 842 / 1_754)),
        PaperStatement(statement=Order(_PUBLICATIONS, (("active",), ("lazy",), ("none",)))),
        PaperStatement(statement=Gain(_PUBLICATIONS, "active", "lazy", 1 - 600 / 1_240)),
        PaperStatement(statement=Gain(_PUBLICATIONS, "active", "none", 1 - 600 / 1_580)),
    ),
    assumed=(
        "where broad subscriptions are and when they come: chosen so that the published numbers of "
        "subscriptions and entries come out",
        "two of the 20 groups sit at one broker each: without them active would take 0.56 of "
        "none's time by calculation, where the paper has 0.52",
        "the time of a message is what the table gives, divided by its numbers of messages and "
        "entries; so what is reproduced are the numbers of messages and entries",
    ),
    quick=SMALL_TABLE_II,
)
