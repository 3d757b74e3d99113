"""M8: strategies when uplinks are short."""

from byway.pipeline.claims.catalogue._mesh import (
    ASSUMED,
    DELIVERIES,
    IN_ORDER,
    MEAN_HOPS,
    SCENARIO,
    SEEDS,
    SMALL,
    strategies,
)
from byway.pipeline.claims.claim import Claim, Gain, Order, PaperStatement, PaperValue, Size
from byway.pipeline.papers import Paper

_DELIVERIES, _HOPS = DELIVERIES.name, MEAN_HOPS.name
_CAPPED = {"network.uplink_messages_per_s": "150", "workload.rate_per_s": "120"}

CLAIM = Claim(
    id="M8",
    paper=Paper.MULTIPATH,
    scenario=SCENARIO,
    title="Where uplinks are short, SH delivers more than S2",
    section="section 7, figure 14",
    setup="As M1 at 7,200 publications a minute, with uplinks of 150 messages a second.",
    contenders=strategies("S1", "S2", "SH", f"S1{IN_ORDER}", f"S2{IN_ORDER}", f"SH{IN_ORDER}"),
    measures=(DELIVERIES, MEAN_HOPS),
    paper_values=(
        PaperValue(_DELIVERIES, "S1", 234_000),
        PaperValue(_DELIVERIES, "S2", 209_000),
        PaperValue(_DELIVERIES, "SH", 238_000),
        PaperValue(_HOPS, "S1", 5.93),
        PaperValue(_HOPS, "S2", 3.38),
        PaperValue(_HOPS, "SH", 5.80),
    ),
    statements=tuple(
        PaperStatement(statement=statement)
        for order in ("", IN_ORDER)
        for statement in (
            Order(_DELIVERIES, ((f"S2{order}",), (f"S1{order}", f"SH{order}"))),
            Gain(_DELIVERIES, f"S2{order}", f"SH{order}", 1 - 209 / 238),
            Order(_HOPS, ((f"S2{order}",), (f"S1{order}", f"SH{order}"))),
        )
    ),
    assumed=(*ASSUMED, "acknowledgements of links cost no uplink"),
    full=Size(settings=_CAPPED, seeds=SEEDS),
    quick=Size(
        settings={
            **SMALL.settings,
            "network.uplink_messages_per_s": "60",
            "workload.rate_per_s": "80",
        }
    ),
)
