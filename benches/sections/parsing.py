"""Parsing filter texts."""

from __future__ import annotations

import ast
from collections.abc import Callable

from benches.report import Figure, Section, at_least
from benches.run import Run
from benches.timing import best_seconds, call_each, clock_seconds
from byway.model import parse
from byway.workload import Generator, Siena, StockQuotes

TITLE = "parsing filter texts"
TEXTS = 20_000
WORKLOADS: dict[str, Generator] = {
    "SIENA-style": Siena(seed=1),
    "stock quotes, rated": StockQuotes(seed=1),
    "stock quotes, ranges": StockQuotes(seed=1, ranges=True),
}


def measure(run: Run) -> Section:
    """Texts per second by kind of text."""
    count = run.scaled(TEXTS)
    figures = []
    for name, workload in WORKLOADS.items():
        run.step(name)
        filters = workload.take_filters(count)
        texts = [str(filter) for filter in filters]
        assert [parse(text) for text in texts[:100]] == filters[:100]
        pythons = [_as_python(text) for text in texts]
        rate, python = _rate(parse, texts), _rate(ast.parse, pythons)
        by_clock = len(texts) / clock_seconds(lambda texts=texts: call_each(parse, texts))
        figures.append(
            Figure(
                name, rate, "texts/s", at_least(20_000), {"ast.parse": python}, more_is_better=True
            )
        )
        figures.append(Figure(f"{name}, by the clock", by_clock, "texts/s", more_is_better=True))
    sizes = {"texts": count}
    notes = ["ast.parse: Python's own parser, in C, on the same filter written as Python"]
    return Section("parsing", TITLE, sizes, figures, notes)


def _rate(read: Callable[[str], object], texts: list[str]) -> float:
    return len(texts) / best_seconds(lambda: call_each(read, texts))


def _as_python(text: str) -> str:
    """The same text with Python's operators, names and chained comparison."""
    words = text.replace("%", "_").replace('"', "").split()
    for place, word in enumerate(words):
        if word == "BETWEEN":
            words[place], words[place + 2] = ">=", f"and {words[place - 1]} <="
    python = {"=": "==", "AND": "and", "class": "class_"}
    return " ".join(python.get(word, word) for word in words)
