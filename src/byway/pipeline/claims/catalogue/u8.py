"""U8: selective pruning stays flat where active covering explodes."""

from byway.pipeline.claims.catalogue._pruning import (
    CORE_FALSE_POSITIVES,
    CORE_QUEUE,
    CORE_TABLES,
    FALSE_POSITIVES,
    PROBED_DELAY,
    SMALL_SELECTIVE,
    policies,
)
from byway.pipeline.claims.claim import (
    Bound,
    Claim,
    Growth,
    Order,
    PaperStatement,
    PaperValue,
    Point,
    Size,
)
from byway.pipeline.papers import Paper

_DELAY, _QUEUE, _TABLES = PROBED_DELAY.name, CORE_QUEUE.name, CORE_TABLES.name
_LOW, _HIGH = "degree 10", "degree 50"


def _degree(name: str, degree: int) -> Point:
    settings = {"workload.parameters.degree": str(degree)}
    return Point(name=name, full=settings, quick=settings)


CLAIM = Claim(
    id="U8",
    title="Selective pruning stays flat where active covering explodes",
    paper=Paper.SELECTIVE,
    section="sections V-C and V-D",
    setup="As U7, with 100, 200 and 300 unsubscriptions, then with 300 and covering degrees of 10 "
    "and 50 instead of 30; false positives at 300.",
    scenario="pruning/004-default",
    contenders=policies("active", "selective"),
    points=(
        Point(
            name="100",
            full={"unsubscribe.0.count": "100", "unsubscribe.0.gap_s": "1.5"},
            quick={"unsubscribe.0.count": "7", "unsubscribe.0.gap_s": "0.03"},
        ),
        Point(
            name="200",
            full={"unsubscribe.0.count": "200", "unsubscribe.0.gap_s": "0.75"},
            quick={"unsubscribe.0.count": "14", "unsubscribe.0.gap_s": "0.015"},
        ),
        Point(name="300"),
        _degree(_LOW, 10),
        _degree(_HIGH, 50),
    ),
    axis="the number of unsubscriptions, or the covering degree",
    measures=(PROBED_DELAY, CORE_QUEUE, CORE_TABLES, FALSE_POSITIVES, CORE_FALSE_POSITIVES),
    paper_values=(
        PaperValue(_DELAY, "active", 0.02, "100"),
        PaperValue(_DELAY, "active", 1_200, "200", "> 1,200"),
        PaperValue(_DELAY, "active", 2_000, "300", "> 2,000, in V-B 4,400"),
        PaperValue(_DELAY, "selective", 0.02, "100"),
        PaperValue(_QUEUE, "active", 2_300, "300"),
        PaperValue(_QUEUE, "selective", 250, _HIGH, "< 250"),
        PaperValue(FALSE_POSITIVES.name, "selective", 0.38, "300"),
        PaperValue(CORE_FALSE_POSITIVES.name, "selective", 0.01, "300"),
    ),
    statements=(
        *(
            PaperStatement(statement=Order(_DELAY, (("selective",), ("active",)), at=point))
            for point in ("200", "300", _HIGH)
        ),
        PaperStatement(statement=Growth(_DELAY, "selective", at_most=1.5, end="300")),
        PaperStatement(statement=Growth(_DELAY, "active", at_least=3, end="300")),
        PaperStatement(statement=Growth(_DELAY, "selective", at_most=1.5, start=_LOW)),
        PaperStatement(statement=Growth(_DELAY, "active", at_least=5, start=_LOW)),
        PaperStatement(statement=Growth(_TABLES, "selective", at_most=1, start=_LOW)),
        PaperStatement(statement=Growth(_TABLES, "active", at_least=1, start=_LOW)),
        PaperStatement(statement=Bound(_QUEUE, "selective", at_most=250)),
        PaperStatement(statement=Bound(FALSE_POSITIVES.name, "selective", at_most=0.38, at="300")),
        PaperStatement(
            statement=Bound(CORE_FALSE_POSITIVES.name, "selective", at_most=0.01, at="300")
        ),
    ),
    assumed=(
        "as in U7; unsubscriptions spread over the same 150 s",
        "“flat” is read as at most half more, “explodes” and “sensitive” as more than in "
        "proportion",
        "as many subscriptions whatever the covering degree, so that there are more broad ones "
        "where each covers fewer",
    ),
    full=Size(settings={"brokers.profile": '"paper-slow"'}, seeds=8),
    quick=SMALL_SELECTIVE,
)
