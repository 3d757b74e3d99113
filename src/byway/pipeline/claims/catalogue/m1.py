"""M1: brokers that only forward, on sparse data."""

from byway.pipeline.claims.catalogue._mesh import (
    ALL,
    ASSUMED,
    DELIVERIES,
    FORWARDERS,
    SCENARIO,
    SEEDS,
    SMALL,
    YIELD,
    gains,
    less_and_less,
    strategies,
)
from byway.pipeline.claims.claim import Claim, PaperValue, Size
from byway.pipeline.papers import Paper

_FORWARDERS = FORWARDERS.name

CLAIM = Claim(
    id="M1",
    paper=Paper.MULTIPATH,
    scenario=SCENARIO,
    title="Soft links spare brokers that only forward, on sparse data",
    section="section 7, table 2",
    setup="120 brokers, 120 feeds, about 6,500 subscriptions at 60 brokers, 3,600 publications a "
    "minute for 10 minutes; Δ = 4, fanout 35.",
    contenders=strategies(*ALL),
    measures=(FORWARDERS, YIELD, DELIVERIES),
    paper_values=(
        PaperValue(_FORWARDERS, "S0", 559_000),
        PaperValue(YIELD.name, "S0", 38),
        PaperValue(DELIVERIES.name, "S0", 348_000),
        PaperValue(_FORWARDERS, "S1", 348_000),
        PaperValue(YIELD.name, "S1", 50),
        PaperValue(DELIVERIES.name, "S1", 348_000),
        PaperValue(_FORWARDERS, "S2", 216_000),
        PaperValue(YIELD.name, "S2", 61),
        PaperValue(DELIVERIES.name, "S2", 348_000),
        PaperValue(_FORWARDERS, "SH", 195_000),
        PaperValue(YIELD.name, "SH", 64),
        PaperValue(DELIVERIES.name, "SH", 348_000),
    ),
    statements=(
        *less_and_less(_FORWARDERS),
        *gains(_FORWARDERS, s0=559_000, s1=348_000, s2=216_000),
    ),
    assumed=ASSUMED,
    full=Size(seeds=SEEDS),
    quick=SMALL,
)
