"""M7: deliveries when brokers are saturated."""

from byway.pipeline.claims.catalogue._mesh import (
    ASSUMED,
    DELIVERIES,
    DENSE,
    SCENARIO,
    SEEDS,
    SMALL,
    SMALL_DENSE,
    strategies,
)
from byway.pipeline.claims.claim import Claim, Growth, Order, PaperStatement, Point, Size
from byway.pipeline.papers import Paper

_DELIVERIES = DELIVERIES.name
_LARGE = {
    "topology.brokers": "250",
    "workload.parameters": "{ brokers = 250, feeds = 250, subscribers = 125 }",
}
_SMALL_LARGE = {
    "topology.brokers": "60",
    "workload.parameters": "{ brokers = 60, feeds = 60, subscribers = 30 }",
}
_MANY, _FEW = {"brokers.mesh_fanout": "35"}, {"brokers.mesh_fanout": "5"}

CLAIM = Claim(
    id="M7",
    paper=Paper.MULTIPATH,
    scenario=SCENARIO,
    title="Saturated brokers deliver more over soft links, and more with more of them",
    section="section 7, figure 13(a) and (b)",
    setup="As M1 (DT1) and M2 (DT2) at 72,000 publications a minute, with fanout 5 and 35; DT3: "
    "250 brokers, about 28,700 subscriptions.",
    contenders=strategies("S0", "S1", "S2", "SH"),
    points=(
        Point(name="DT1, fanout 5", full=_FEW, quick=_FEW),
        Point(name="DT1, fanout 35", full=_MANY, quick=_MANY),
        Point(name="DT2, fanout 35", full={**DENSE, **_MANY}, quick=SMALL_DENSE.settings),
        Point(name="DT3, fanout 35", full={**_LARGE, **_MANY}, quick={**_SMALL_LARGE, **_MANY}),
    ),
    axis="data set and fanout",
    measures=(DELIVERIES,),
    paper_values=(),
    statements=(
        *(
            PaperStatement(statement=Order(_DELIVERIES, (("S0",), ("S1",), ("SH", "S2")), at))
            for at in ("DT1, fanout 35", "DT2, fanout 35", "DT3, fanout 35")
        ),
        *(
            PaperStatement(
                statement=Growth(
                    _DELIVERIES, name, at_least=1.05, start="DT1, fanout 5", end="DT1, fanout 35"
                )
            )
            for name in ("S1", "S2", "SH")
        ),
    ),
    assumed=(
        *ASSUMED,
        "the paper's brokers are saturated by their processors; here uplinks of 300 messages a "
        "second are what is short, and they are so from the first publication on",
        "*significantly*, said of a larger fanout, is read as 5 % more deliveries",
        "S2 delivers up to 115 % more than S0 in the paper, which does not say where; it is no "
        "statement here",
    ),
    full=Size(
        settings={
            "workload.rate_per_s": "1200",
            "network.uplink_messages_per_s": "300",
            "network.uplink_from_s": "20",
        },
        seeds=SEEDS,
    ),
    quick=Size(
        settings={
            **SMALL.settings,
            "workload.rate_per_s": "100",
            "network.uplink_messages_per_s": "40",
            "network.uplink_from_s": "5",
        }
    ),
)
