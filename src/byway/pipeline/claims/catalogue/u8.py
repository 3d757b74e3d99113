"""U8: selective pruning stays flat where active covering explodes (004)."""

from byway.pipeline.claims.catalogue._pruning import (
    CORE_FALSE_POSITIVES,
    FALSE_POSITIVES,
    PROBED_DELAY,
    SMALL_SELECTIVE,
    policies,
)
from byway.pipeline.claims.claim import Bound, Claim, Growth, Order, Point, Printed, Said, Size

_DELAY = PROBED_DELAY.name

CLAIM = Claim(
    id="U8",
    title="Selective pruning stays flat where active covering explodes",
    document="004, sections V-C and V-D",
    setup="As U7, with 100, 200 and 300 unsubscriptions; false positives at 300.",
    scenario="004-default",
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
    ),
    axis="the number of unsubscriptions",
    measures=(PROBED_DELAY, FALSE_POSITIVES, CORE_FALSE_POSITIVES),
    printed=(
        Printed(_DELAY, "active", 4_400, "300", "> 4,400"),
        Printed(_DELAY, "selective", 0.4, "300"),
        Printed(FALSE_POSITIVES.name, "selective", 0.38, "300"),
        Printed(CORE_FALSE_POSITIVES.name, "selective", 0.01, "300"),
    ),
    said=(
        Said(statement=Order(_DELAY, (("selective",), ("active",)))),
        Said(statement=Growth(_DELAY, "selective", at_most=1.5)),
        Said(statement=Growth(_DELAY, "active", at_least=3)),
        Said(statement=Bound(FALSE_POSITIVES.name, "selective", at_most=0.38, at="300")),
        Said(statement=Bound(CORE_FALSE_POSITIVES.name, "selective", at_most=0.01, at="300")),
    ),
    assumed=(
        "as in U7; unsubscriptions spread over the same 150 s",
        "“flat” is read as at most half more, “explodes” as more than in proportion",
    ),
    full=Size(settings={"brokers.profile": '"paper-slow"'}),
    quick=SMALL_SELECTIVE,
)
