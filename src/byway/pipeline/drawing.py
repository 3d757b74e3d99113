"""Draws figures as self-contained SVG. The same drawing gives the same bytes.

Text and axes have the colour of the text around the drawing, and there is no background, so that a
drawing is as readable on a dark page as on a light one. The legend is below the axes: nothing is
drawn over a curve.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

SIZE: Final = (4.6, 3.3)
COLORS: Final = ("#1098ad", "#e8590c", "#7950f2", "#2f9e44", "#e64980")
"""Colours of series, in this order; all are visible on white and on black."""
_BLACK: Final = "#000000"
_STYLE: Final = {
    "svg.fonttype": "none",
    "svg.hashsalt": "byway",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "savefig.transparent": True,
}


class Svg:
    """Holds the text of a drawing, once it is complete."""

    def __init__(self) -> None:
        self.text = ""


@contextmanager
def figure() -> Iterator[tuple[Any, Svg]]:
    """Axes to draw on, and the object that holds the drawing when the block is done.

    What has a label is listed in a legend below the axes.
    """
    import matplotlib as mpl

    svg = Svg()
    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]
        from matplotlib.figure import Figure

        drawn = Figure(figsize=SIZE, layout="constrained")
        axes = drawn.add_subplot()
        yield axes, svg
        if axes.get_legend_handles_labels()[1]:
            drawn.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)
        text = io.StringIO()
        drawn.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    found = text.getvalue()
    svg.text = found[found.index("<svg") :].replace(_BLACK, "currentColor")
