"""The source of a workload: the generator that a scenario names, and what publishers advertise.

When and where clients subscribe and publish is decided elsewhere (`subscribers`, `publishers`).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from byway.model import ANY, Filter, parse
from byway.model.option_reading import OptionsError, check
from byway.model.writing import name_text, value_text
from byway.sim.scenario.schema import ScenarioError, Workload
from byway.workload import (
    CoveringDegree,
    Feeds,
    Generator,
    Siena,
    StockQuotes,
    Workflow,
    WorkloadError,
    Zipf,
)
from byway.workload.stocks import ATTRIBUTES

GENERATORS: Final[dict[str, type[Generator]]] = {
    "siena": Siena,
    "zipf": Zipf,
    "covering": CoveringDegree,
    "stocks": StockQuotes,
    "workflow": Workflow,
    "feeds": Feeds,
}


def generator_of(workload: Workload, seed: int) -> Generator:
    """The generator of a workload, with this seed unless its parameters have one. Raises
    `ScenarioError` for parameters that it refuses."""
    kind = GENERATORS[workload.kind]
    given: dict[str, Any] = {"seed": seed}
    if kind is CoveringDegree:
        given["count"] = max(1, workload.subscriptions)
    try:
        check(kind, workload.parameters, "workload.parameters")
        return kind(**{**given, **workload.parameters})
    except OptionsError as error:
        raise ScenarioError.of(error.problems) from None
    except WorkloadError as error:
        key = f"workload.parameters.{error.parameter}"
        reason = f"expected {error.expected}, found {error.value}"
        raise ScenarioError(key, reason) from None


def sized(workload: Workload, generator: Generator) -> Workload:
    """The workload with the numbers of subscriptions and clients that its generator decides."""
    if not isinstance(generator, Feeds):
        return workload
    return msgspec.structs.replace(
        workload,
        subscriptions=generator.subscription_count(),
        subscribers=generator.subscribers,
        publishers=generator.feeds,
    )


def advertisements(workload: Workload, generator: Generator) -> list[Filter]:
    """The advertisement of each publisher: anything, the quotes of its share of the symbols, or
    its feed."""
    if isinstance(generator, Feeds) and workload.advertise == "feeds":
        return [
            parse(f"feed = {value_text(name)} AND EXISTS item") for name in generator.feed_names()
        ]
    if not isinstance(generator, StockQuotes) or workload.advertise == "any":
        return [ANY] * workload.publishers
    symbols = generator.symbol_names()
    return [
        _quotes_of(symbols[number :: workload.publishers]) for number in range(workload.publishers)
    ]


def _quotes_of(symbols: tuple[str, ...]) -> Filter:
    """The advertisement of quotes of these symbols; it names every attribute that a quote has."""
    listed = ", ".join(value_text(symbol) for symbol in symbols)
    terms = ["class = 'STOCK'", f"symbol IN ({listed})"]
    others = (name for name in ATTRIBUTES if name not in ("class", "symbol"))
    return parse(" AND ".join([*terms, *(f"EXISTS {name_text(name)}" for name in others)]))
