"""M6: what a larger fanout costs where subscriptions cover one another."""

from byway.pipeline.claims.catalogue._mesh import MEAN_HOPS, TRAFFIC
from byway.pipeline.claims.catalogue._pruning import MEAN_TABLES
from byway.pipeline.claims.claim import Claim, Gain, PaperStatement, Settings, Size
from byway.pipeline.papers import Paper

_TABLES = MEAN_TABLES.name


def _fanout(number: int) -> Settings:
    return {"brokers.mesh_fanout": str(number)}


CLAIM = Claim(
    id="M6",
    paper=Paper.MULTIPATH,
    scenario="mesh/000-covering",
    title="More soft links leave less to gain from covering",
    section="section 7, figure 12",
    setup="500 brokers, 10,000 subscriptions that cover one another, of which 4 % match; fanout 5 "
    "to 25.",
    contenders={f"fanout {number}": _fanout(number) for number in (5, 10, 25)},
    measures=(MEAN_TABLES, TRAFFIC, MEAN_HOPS),
    paper_values=(),
    statements=(
        PaperStatement(statement=Gain(_TABLES, "fanout 5", "fanout 10", 1 - 1 / 1.12)),
        PaperStatement(statement=Gain(_TABLES, "fanout 5", "fanout 25", 1 - 1 / 1.12)),
    ),
    assumed=(
        "the paper's brokers match publications against *covering sets*, one for each of the "
        "brokers that they have links to; byway's have one table, and what is not passed on "
        "because something covers it does not depend on links. The number of entries in tables is "
        "what is compared, in per cent",
        "predicate evaluations, 34 % more with fanout 10, are not counted: byway's index does not "
        "evaluate predicates one by one",
        "of the 10,000 subscriptions 20 cover 499 others each, anywhere on 250 of the leaves of a "
        "tree with three children a broker; they come in random order, and 20 brokers publish 10 "
        "publications a second",
        "links open for 260 s, then 120 s are measured",
    ),
    full=Size(seeds=3),
    quick=Size(
        settings={
            "topology.brokers": "60", "workload.subscriptions": "600",
            "workload.parameters.degree": "29", "workload.subscribers": "30",
            "workload.publishers": "10", "workload.rate_per_s": "20", "duration_s": "100",
            "measure.from_s": "70", "brokers.mesh_interval_s": "5", "brokers.mesh_gain_min": "2",
            "brokers.mesh_stay_s": "15",
        }
    ),
)  # fmt: skip
