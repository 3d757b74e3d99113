"""Drawings: the legend is beside the curves, and a drawing has the colours of its page."""

import re
from pathlib import Path
from typing import get_args, get_type_hints

from byway.core.broker_config import BrokerConfig
from byway.pipeline.drawing import figure
from byway.pipeline.papers import POLICIES_IN_A_LINE, Paper

PAPERS = (Path(__file__).parents[2] / "docs/reference/papers.md").read_text()


def test_the_legend_is_outside_the_axes() -> None:
    with figure() as (axes, svg):
        for number in range(8):
            axes.plot([0, 1], [number, 8 - number], label=f"contender {number}")
    (legend,) = axes.figure.legends
    assert axes.get_legend() is None
    assert not legend.get_window_extent().overlaps(axes.get_window_extent())
    assert "contender 7" in svg.text


def test_a_drawing_without_labels_has_no_legend() -> None:
    with figure() as (axes, _):
        axes.plot([0, 1], [1, 0])
    assert not axes.figure.legends


def test_a_drawing_takes_its_colours_from_the_page() -> None:
    with figure() as (axes, svg):
        axes.bar([0], [1], yerr=[0.5], label="one")
    assert "#000000" not in svg.text
    assert "currentColor" in svg.text
    assert not re.search(r"fill: ?(#ffffff|white)", svg.text)


def test_every_policy_has_its_line() -> None:
    types = get_type_hints(BrokerConfig)
    assert set(POLICIES_IN_A_LINE) == set(get_args(types["covering"]))
    for line in POLICIES_IN_A_LINE.values():
        assert re.fullmatch(r"A[^.]*\.", line), line


def test_papers_are_those_of_the_reference() -> None:
    text = " ".join(PAPERS.split())
    for paper in Paper:
        assert f"*{paper}.* {paper.authors}" in text
