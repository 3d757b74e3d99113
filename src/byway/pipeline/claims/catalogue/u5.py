"""U5: how late publications are while subscribers move about a city."""

from byway.pipeline.claims.catalogue._pruning import (
    CORE_QUEUE,
    LONGEST_DELAY,
    MEAN_DELAY,
    SMALL_MOBILE,
    TABLES_KEPT,
    policies,
)
from byway.pipeline.claims.claim import Bound, Claim, Gain, Order, PaperStatement, PaperValue
from byway.pipeline.papers import Paper

_LONGEST, _QUEUE, _KEPT = LONGEST_DELAY.name, CORE_QUEUE.name, TABLES_KEPT.name

CLAIM = Claim(
    id="U5",
    title="Publications are hardly late at rush hour under incremental pruning",
    paper=Paper.INCREMENTAL,
    section="section V-B",
    setup="A star of 17 brokers, 2,000 publishers, 200,000 subscriptions of SIENA's workload, of "
    "which 60 % move within two hours.",
    scenario="pruning/003-mobile",
    contenders=policies("active", "incremental"),
    measures=(LONGEST_DELAY, MEAN_DELAY, CORE_QUEUE, TABLES_KEPT),
    paper_values=(
        PaperValue(_LONGEST, "active", 1_200, text="> 1,200"),
        PaperValue(_LONGEST, "incremental", 17),
    ),
    statements=(
        PaperStatement(statement=Order(_LONGEST, (("incremental",), ("active",)))),
        PaperStatement(statement=Gain(_LONGEST, "incremental", "active", 1 - 17 / 1_200)),
        PaperStatement(statement=Order(_QUEUE, (("incremental",), ("active",)))),
        PaperStatement(statement=Order(_KEPT, (("incremental",), ("active",)))),
        PaperStatement(statement=Bound(_KEPT, "incremental", at_most=100)),
    ),
    assumed=(
        "one minute of the two hours, in which 20 subscriptions move each second, a little more "
        "than 60 % of them in two hours, each to a random broker",
        "16 publishers publish as much as 2,000 that publish every 8 s",
        "*decreasing* tables under incremental pruning are read as no larger in the end than "
        "before, and smaller, of what they were, than under active covering",
        "service times: table II of the paper, growing with the table",
    ),
    quick=SMALL_MOBILE,
)
