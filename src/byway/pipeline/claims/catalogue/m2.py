"""M2: brokers that only forward, on dense data."""

from byway.pipeline.claims.catalogue._mesh import (
    ALL,
    ASSUMED,
    DELIVERIES,
    DENSE,
    FORWARDERS,
    SCENARIO,
    SEEDS,
    SMALL_DENSE,
    YIELD,
    gains,
    less_and_less,
    strategies,
)
from byway.pipeline.claims.claim import Claim, PaperValue, Size
from byway.pipeline.papers import Paper

_FORWARDERS = FORWARDERS.name

CLAIM = Claim(
    id="M2",
    paper=Paper.MULTIPATH,
    scenario=SCENARIO,
    title="Soft links spare brokers that only forward, on dense data",
    section="section 7, table 2",
    setup="120 brokers, 60 feeds, about 19,500 subscriptions at 60 brokers, 3,600 publications a "
    "minute for 10 minutes; Δ = 4, fanout 35.",
    contenders=strategies(*ALL),
    measures=(FORWARDERS, YIELD, DELIVERIES),
    paper_values=(
        PaperValue(_FORWARDERS, "S0", 1_010_000),
        PaperValue(YIELD.name, "S0", 50),
        PaperValue(DELIVERIES.name, "S0", 1_034_000),
        PaperValue(_FORWARDERS, "S1", 687_000),
        PaperValue(YIELD.name, "S1", 60),
        PaperValue(DELIVERIES.name, "S1", 1_034_000),
        PaperValue(_FORWARDERS, "S2", 325_000),
        PaperValue(YIELD.name, "S2", 76),
        PaperValue(DELIVERIES.name, "S2", 1_034_000),
        PaperValue(_FORWARDERS, "SH", 300_000),
        PaperValue(YIELD.name, "SH", 77),
        PaperValue(DELIVERIES.name, "SH", 1_034_000),
    ),
    statements=(
        *less_and_less(_FORWARDERS),
        *gains(_FORWARDERS, s0=1_010_000, s1=687_000, s2=325_000),
    ),
    assumed=ASSUMED,
    full=Size(settings=DENSE, seeds=SEEDS),
    quick=SMALL_DENSE,
)
