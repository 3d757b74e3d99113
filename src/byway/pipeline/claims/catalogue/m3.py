"""M3: how many hops publications take."""

from byway.pipeline.claims.catalogue._mesh import (
    ALL,
    ASSUMED,
    DENSE,
    IN_ORDER,
    MEAN_HOPS,
    SCENARIO,
    SEEDS,
    SMALL,
    SMALL_DENSE,
    strategies,
)
from byway.pipeline.claims.claim import Claim, Order, PaperStatement, Point, Size
from byway.pipeline.papers import Paper

CLAIM = Claim(
    id="M3",
    paper=Paper.MULTIPATH,
    scenario=SCENARIO,
    title="Publications take fewer hops over soft links",
    section="section 7, figure 9",
    setup="As M1 (sparse) and M2 (dense).",
    contenders=strategies(*(name for name in ALL if name != "SH")),
    points=(Point(name="sparse"), Point(name="dense", full=DENSE, quick=SMALL_DENSE.settings)),
    axis="data set",
    measures=(MEAN_HOPS,),
    paper_values=(),
    statements=(
        PaperStatement(statement=Order(MEAN_HOPS.name, (("S2",), ("S1",), ("S0",)))),
        PaperStatement(
            statement=Order(MEAN_HOPS.name, ((f"S2{IN_ORDER}",), (f"S1{IN_ORDER}",), ("S0",)))
        ),
    ),
    assumed=(
        *ASSUMED,
        "the paper has curves without numbers: a curve that lies further left is read as a smaller "
        "mean",
    ),
    full=Size(seeds=SEEDS),
    quick=SMALL,
)
