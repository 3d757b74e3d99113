"""U10: monitors that move from broker to broker."""

from byway.pipeline.claims.catalogue._pruning import (
    CORE_QUEUE,
    MEAN_DELAY,
    MEAN_TABLES,
    SMALL_MOVING,
    policies,
)
from byway.pipeline.claims.claim import (
    Claim,
    Gain,
    Growth,
    Order,
    PaperStatement,
    Point,
    Settings,
    Size,
)
from byway.pipeline.papers import Paper

_QUEUE, _TABLES = CORE_QUEUE.name, MEAN_TABLES.name
_MONITORS, _ALL, _LONG = "monitors move", "all move", "all move, longer"
_STILL: Settings = {"moves.per_s": "0"}

CLAIM = Claim(
    id="U10",
    title="Monitors that move do not congest brokers under selective pruning",
    paper=Paper.SELECTIVE,
    section="section V-F",
    setup="5,000 subscribers, 40 publishers; four monitors of everything move every two minutes, "
    "and all others 60 times a minute, within their region.",
    scenario="pruning/004-mobile",
    contenders=policies("active", "selective"),
    points=(
        Point(name=_MONITORS, full=_STILL, quick=_STILL),
        Point(name=_ALL),
        Point(name=_LONG, full={"duration_s": "1_800"}, quick={"duration_s": "260"}),
    ),
    axis="who moves, and for how long",
    measures=(CORE_QUEUE, MEAN_TABLES, MEAN_DELAY),
    paper_values=(),
    statements=(
        PaperStatement(statement=Order(_QUEUE, (("selective",), ("active",)))),
        *(
            PaperStatement(statement=Gain(_QUEUE, "selective", "active", 0.99, at))
            for at in (_MONITORS, _ALL, _LONG)
        ),
        PaperStatement(
            statement=Growth(_QUEUE, "active", at_least=1.5, start=_ALL, end=_LONG),
        ),
        PaperStatement(statement=Order(_TABLES, (("selective",), ("active",)))),
        PaperStatement(
            statement=Growth(_TABLES, "selective", at_most=1.1, start=_ALL, end=_LONG),
        ),
    ),
    assumed=(
        "800 s are measured, and 1,600 s at the last point, of the paper's six hours",
        "each monitor moves every two minutes, to another broker of its region",
        "*growing* is read as a queue that is half longer after twice the time, *stable* tables as "
        "at most a tenth larger, “virtually no congestion” as a hundredth of active's queue",
        "service times: table II of 003, growing with the table",
    ),
    full=Size(),
    quick=SMALL_MOVING,
)
