"""U6: business processes, and auditors who come and go."""

from byway.pipeline.claims.catalogue._pruning import (
    CORE_QUEUE,
    LONGEST_DELAY,
    MEAN_DELAY,
    MEAN_TABLES,
    SMALL_WORKFLOW,
    policies,
)
from byway.pipeline.claims.claim import Claim, Gain, Order, PaperStatement, PaperValue
from byway.pipeline.papers import Paper

_MEAN, _LONGEST, _QUEUE = MEAN_DELAY.name, LONGEST_DELAY.name, CORE_QUEUE.name

CLAIM = Claim(
    id="U6",
    title="Auditors who leave do not delay publications under incremental pruning",
    paper=Paper.INCREMENTAL,
    section="section V-C",
    setup="Four domains of ten brokers, 200 business processes; four auditors subscribe to all "
    "that triggers a process for one minute in every ten.",
    scenario="pruning/003-workflow",
    contenders=policies("active", "incremental"),
    measures=(MEAN_DELAY, LONGEST_DELAY, CORE_QUEUE, MEAN_TABLES),
    paper_values=(
        PaperValue(_LONGEST, "active", 400),
        PaperValue(_MEAN, "incremental", 0.24),
        PaperValue(_QUEUE, "active", 18_400, text="> 18,400"),
        PaperValue(_QUEUE, "incremental", 0, text="virtually none"),
    ),
    statements=(
        PaperStatement(statement=Order(_MEAN, (("incremental",), ("active",)))),
        PaperStatement(statement=Order(_LONGEST, (("incremental",), ("active",)))),
        PaperStatement(statement=Order(_QUEUE, (("incremental",), ("active",)))),
        PaperStatement(statement=Gain(_QUEUE, "incremental", "active", 0.99)),
    ),
    assumed=(
        "ten instances of each process run at a time, and each activity may be at any engine of "
        "any domain; 20,860 subscriptions in all",
        "all four auditors subscribe at once, each at another broker of its domain every time; "
        "three visits are measured",
        "“virtually no congestion” is read as a queue of at most a hundredth of active's",
        "service times: table II of the paper, growing with the table",
    ),
    quick=SMALL_WORKFLOW,
)
