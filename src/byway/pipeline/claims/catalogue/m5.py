"""M5: publications between brokers, and what exchanging loads costs."""

from byway.pipeline.claims.catalogue._mesh import (
    ALL,
    ASSUMED,
    DENSE,
    LOAD_SHARE,
    SCENARIO,
    SEEDS,
    SMALL_DENSE,
    TRAFFIC,
    gains,
    less_and_less,
    strategies,
)
from byway.pipeline.claims.claim import Bound, Claim, PaperStatement, PaperValue, Size
from byway.pipeline.papers import Paper

_TRAFFIC = TRAFFIC.name

CLAIM = Claim(
    id="M5",
    paper=Paper.MULTIPATH,
    scenario=SCENARIO,
    title="Brokers send one another fewer publications over soft links",
    section="section 7, figure 11",
    setup="As M2.",
    contenders=strategies(*ALL),
    measures=(TRAFFIC, LOAD_SHARE),
    paper_values=(
        PaperValue(_TRAFFIC, "S0", 3_400),
        PaperValue(_TRAFFIC, "S1", 2_850),
        PaperValue(_TRAFFIC, "S2", 2_200),
        PaperValue(_TRAFFIC, "SH", 2_200),
        PaperValue(LOAD_SHARE.name, "S1", 2, text="< 2"),
        PaperValue(LOAD_SHARE.name, "S2", 2, text="< 2"),
        PaperValue(LOAD_SHARE.name, "SH", 2, text="< 2"),
    ),
    statements=(
        *less_and_less(_TRAFFIC),
        *gains(_TRAFFIC, s0=3_400, s1=2_850, s2=2_200),
        *(
            PaperStatement(statement=Bound(LOAD_SHARE.name, strategy, at_most=2))
            for strategy in ALL[1:]
        ),
    ),
    assumed=(
        *ASSUMED,
        "brokers exchange loads every 20 s, which the paper does not say",
        "the payload of 200 bytes was chosen after a run of M1's setup without payload (S2, one "
        "seed), in which load exchange was 17 % of the bytes: the share follows from the size of "
        "publications, which the paper does not say",
    ),
    full=Size(settings=DENSE, seeds=SEEDS),
    quick=SMALL_DENSE,
)
