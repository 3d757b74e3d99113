"""What the claims about the mesh have in common: strategies, measures of an interval, and sizes.

Traces are not measured: the interval's counts are those of the brokers' counters.
"""

from __future__ import annotations

from typing import Final

from byway.pipeline.claims.catalogue._pruning import fact
from byway.pipeline.claims.claim import Gain, Measure, Order, PaperStatement, Settings, Size

SCENARIO: Final = "mesh/000-feeds"
SEEDS: Final = 5


IN_ORDER: Final = " in order"
"""The end of the name of a contender that keeps the order of each publisher's publications."""


def strategies(*names: str) -> dict[str, Settings]:
    """Contenders that differ in their strategy, by its name: as in the paper, without keeping the
    order of publications, or as byway does by default, if the name ends with `IN_ORDER`. S0 has no
    mesh at all, which sends the same copies over the tree, always in order."""
    return {name: _strategy(name) for name in names}


def _strategy(name: str) -> Settings:
    if name == "S0":
        return {"brokers.mesh_delta": "1"}
    order = "publisher" if name.endswith(IN_ORDER) else "none"
    strategy = name.removesuffix(IN_ORDER)
    return {"brokers.mesh_strategy": f'"{strategy}"', "brokers.mesh_order": f'"{order}"'}


def less_and_less(measure: str) -> tuple[PaperStatement, ...]:
    """The paper's order of a measure, without keeping that of publications and in order."""
    orders = (
        Order(measure, (("S2", "SH"), ("S1",), ("S0",))),
        Order(measure, ((f"S2{IN_ORDER}",), (f"S1{IN_ORDER}",), ("S0",))),
    )
    return tuple(PaperStatement(statement=order) for order in orders)


def gains(measure: str, s0: float, s1: float, s2: float) -> tuple[PaperStatement, ...]:
    """The paper's gains over S0, by its numbers, without keeping the order and in order."""
    return tuple(
        PaperStatement(statement=Gain(measure, f"{strategy}{order}", "S0", 1 - better / s0))
        for order in ("", IN_ORDER)
        for strategy, better in (("S1", s1), ("S2", s2))
    )


ALL: Final = ("S0", "S1", "S2", "SH", f"S1{IN_ORDER}", f"S2{IN_ORDER}")


def _of_interval(name: str, unit: str, path: str, form: str = "{}") -> Measure:
    """A measure of the measured interval, by its path in `byway simulate --json`."""
    return Measure(name=name, unit=unit, value=form.format(fact(f"measured.interval.{path}")))


FORWARDERS: Final = _of_interval("pure forwarders", "", "pure_forwarders")
DELIVERIES: Final = _of_interval("deliveries", "", "deliveries")
DELIVERED: Final = _of_interval(
    "delivered", "% of what was due", "deliveries", f"100 * {{}} / {fact('measured.interval.due')}"
)
YIELD: Final = _of_interval("yield", "%", "yield", "100 * {}")
_PER_S: Final = f"{{}} / ({fact('measured.to_s')} - {fact('measured.from_s')})"
MEAN_HOPS: Final = _of_interval("mean hops", "", "mean_hops")
TRAFFIC: Final = _of_interval(
    "publications between brokers", "a second", "publication_hops", _PER_S
)
MEAN_DELAY: Final = Measure(name="mean delay", unit="ms", value=fact("measured.delays.mean_ms"))
LOAD_SHARE: Final = Measure(
    name="load exchange",
    unit="% of bytes",
    value=f"100 * coalesce({fact('measured.interval.bytes.load')}, 0) / "
    f"{fact('measured.interval.bytes_total')}",
)

DENSE: Final = {
    "workload.parameters": "{ brokers = 120, feeds = 60, subscribers = 60, density = 10 }"
}
"""Data set DT2."""

_SMALL: Final = {
    "duration_s": "90", "warmup_s": "5", "measure.from_s": "60", "topology.brokers": "40",
    "workload.parameters": "{ brokers = 40, feeds = 40, subscribers = 20 }",
    "workload.rate_per_s": "40", "brokers.mesh_interval_s": "5",
    "brokers.mesh_gain_min": "2", "brokers.mesh_stay_s": "15",
}  # fmt: skip
SMALL: Final = Size(settings=_SMALL)
SMALL_DENSE: Final = Size(
    settings={
        **_SMALL,
        "workload.parameters": "{ brokers = 40, feeds = 20, subscribers = 20, density = 10 }",
    }
)

ASSUMED: Final = (
    "degree 3 is read as three children a broker: a balanced tree of 120 brokers; each broker that "
    "subscribes is another leaf, drawn at random, the reading that comes nearest to the published "
    "yields",
    "the subscriptions: each feed has ten items, and subscribing brokers are drawn for them by a "
    "Zipf law that gives the published numbers of subscriptions; all items are published alike",
    "3,600 publications a minute: the printed rate, a second, contradicts the printed deliveries",
    "publishers advertise their feeds, so that subscriptions travel towards them alone; the paths "
    "of publications are the same as without advertisements",
    "4 minutes of publications before the interval of 10 minutes, in which soft links open",
    "publications of about 260 bytes, 200 of them payload",
    "contenders that end with *in order* keep the order of each publisher's publications, as byway "
    "does unless it is told otherwise; the paper does not, and nor do the others",
)
