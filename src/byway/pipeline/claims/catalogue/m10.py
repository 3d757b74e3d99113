"""M10: deliveries of a trace of a social network."""

from byway.pipeline.claims.catalogue._mesh import (
    ASSUMED,
    DELIVERIES,
    IN_ORDER,
    SCENARIO,
    SEEDS,
    SMALL,
    strategies,
)
from byway.pipeline.claims.claim import Claim, Gain, Order, PaperStatement, Size
from byway.pipeline.papers import Paper

_DELIVERIES = DELIVERIES.name

CLAIM = Claim(
    id="M10",
    paper=Paper.MULTIPATH,
    scenario=SCENARIO,
    title="With the subscriptions of a social network, S1 and S2 deliver more than S0",
    section="section 7, Facebook dataset",
    setup="120 brokers, about 120,000 subscriptions (6.5 %), 3,600 publications a minute; Δ = 4, "
    "fanout 20.",
    contenders=strategies("S0", "S1", "S2", f"S2{IN_ORDER}"),
    measures=(DELIVERIES,),
    paper_values=(),
    statements=(
        PaperStatement(statement=Order(_DELIVERIES, (("S0",), ("S1",), ("S2",)))),
        PaperStatement(statement=Gain(_DELIVERIES, "S0", "S1", 1 - 1 / 1.37)),
        PaperStatement(statement=Gain(_DELIVERIES, "S0", "S2", 1 - 1 / 2.15)),
    ),
    assumed=(
        *ASSUMED,
        "the trace is not published: 120 feeds of 256 items, wanted by a Zipf law that gives the "
        "numbers of subscriptions and matches",
        "what is short in the paper is not said; here uplinks of 40 messages a second are, from "
        "the first publication on",
    ),
    full=Size(
        settings={
            "workload.parameters": "{ brokers = 120, feeds = 120, subscribers = 60, items = 256, "
            "density = 22.5 }",
            "brokers.mesh_fanout": "20",
            "network.uplink_messages_per_s": "40",
            "network.uplink_from_s": "20",
        },
        seeds=SEEDS,
    ),
    quick=Size(
        settings={
            **SMALL.settings,
            "workload.parameters": "{ brokers = 40, feeds = 40, subscribers = 20, items = 64, "
            "density = 5 }",
            "brokers.mesh_fanout": "20",
            "network.uplink_messages_per_s": "20",
            "network.uplink_from_s": "5",
        }
    ),
)
