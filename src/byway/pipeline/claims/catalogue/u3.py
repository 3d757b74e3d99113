"""U3: tables after the storm: the more is covered, the more the policies differ."""

from byway.pipeline.claims.catalogue._pruning import (
    CORE_TABLES,
    CORE_TABLES_BEFORE,
    SMALL_CONTROLLED,
    policies,
)
from byway.pipeline.claims.claim import Claim, Growth, Order, PaperStatement, PaperValue, Point
from byway.pipeline.papers import Paper

_TABLES = CORE_TABLES.name

CLAIM = Claim(
    id="U3",
    title="The more subscriptions are covered, the larger tables get under active covering, and "
    "the smaller under incremental pruning",
    paper=Paper.INCREMENTAL,
    section="section V-A3",
    setup="As U1, with 700, 1,400 and 2,100 of the 80,000 behind each broad one that ends.",
    scenario="pruning/003-controlled",
    contenders=policies("active", "incremental"),
    points=(
        Point(
            name="700",
            full={"workload.parameters.degree": "700"},
            quick={"workload.parameters.degree": "50"},
        ),
        Point(
            name="1,400",
            full={"workload.parameters.degree": "1_400"},
            quick={"workload.parameters.degree": "100"},
        ),
        Point(name="2,100"),
    ),
    axis="the number triggered by each",
    measures=(CORE_TABLES, CORE_TABLES_BEFORE),
    paper_values=(
        PaperValue(_TABLES, "active", 8_000, "700", "just under 8,000"),
        PaperValue(_TABLES, "active", 21_000, "2,100", "> 21,000"),
    ),
    statements=(
        PaperStatement(statement=Order(_TABLES, (("incremental",), ("active",)))),
        PaperStatement(statement=Growth(_TABLES, "active", at_least=21 / 8)),
        PaperStatement(statement=Growth(_TABLES, "incremental", at_most=1)),
    ),
    assumed=(
        "as in U1; all groups have this size, so that there are more where fewer are covered",
    ),
    quick=SMALL_CONTROLLED,
)
