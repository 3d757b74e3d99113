"""M4: how late publications are."""

from byway.pipeline.claims.catalogue._mesh import (
    ASSUMED,
    DENSE,
    MEAN_DELAY,
    SCENARIO,
    SEEDS,
    SMALL_DENSE,
    strategies,
)
from byway.pipeline.claims.claim import Claim, Gain, Order, PaperStatement, PaperValue, Size
from byway.pipeline.papers import Paper

_DELAY = MEAN_DELAY.name

CLAIM = Claim(
    id="M4",
    paper=Paper.MULTIPATH,
    scenario=SCENARIO,
    title="Publications arrive earlier over soft links",
    section="section 7, figure 10",
    setup="As M2; each hop takes 1 ms.",
    contenders=strategies("S0", "S1", "S2", "SH"),
    measures=(MEAN_DELAY,),
    paper_values=(
        PaperValue(_DELAY, "S0", 14.0),
        PaperValue(_DELAY, "S1", 12.5),
        PaperValue(_DELAY, "S2", 9.3),
        PaperValue(_DELAY, "SH", 9.3),
    ),
    statements=(
        PaperStatement(statement=Order(_DELAY, (("S2", "SH"), ("S1",), ("S0",)))),
        PaperStatement(statement=Gain(_DELAY, "S1", "S0", 1 - 12.5 / 14.0)),
        PaperStatement(statement=Gain(_DELAY, "S2", "S0", 1 - 9.3 / 14.0)),
    ),
    assumed=(
        *ASSUMED,
        "brokers need no time to handle a publication, so that delays are hops; the "
        "paper's brokers are real processes",
        "a soft link takes 1 ms, whatever it passes by",
    ),
    full=Size(settings=DENSE, seeds=SEEDS),
    quick=SMALL_DENSE,
)
