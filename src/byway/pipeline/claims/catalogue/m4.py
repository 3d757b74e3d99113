"""M4: how late publications are."""

from byway.pipeline.claims.catalogue._mesh import (
    ALL,
    ASSUMED,
    DENSE,
    MEAN_DELAY,
    SCENARIO,
    SEEDS,
    SMALL_DENSE,
    gains,
    less_and_less,
    strategies,
)
from byway.pipeline.claims.claim import Claim, PaperValue, Size
from byway.pipeline.papers import Paper

_DELAY = MEAN_DELAY.name

CLAIM = Claim(
    id="M4",
    paper=Paper.MULTIPATH,
    scenario=SCENARIO,
    title="Publications arrive earlier over soft links",
    section="section 7, figure 10",
    setup="As M2; each hop takes 1 ms.",
    contenders=strategies(*ALL),
    measures=(MEAN_DELAY,),
    paper_values=(
        PaperValue(_DELAY, "S0", 14.0),
        PaperValue(_DELAY, "S1", 12.5),
        PaperValue(_DELAY, "S2", 9.3),
        PaperValue(_DELAY, "SH", 9.3),
    ),
    statements=(
        *less_and_less(_DELAY),
        *gains(_DELAY, s0=14.0, s1=12.5, s2=9.3),
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
