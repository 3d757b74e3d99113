"""Draws figures as self-contained SVG. The same drawing gives the same bytes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

SIZE: Final = (4.6, 3.0)
_STYLE: Final = {
    "svg.fonttype": "none",
    "svg.hashsalt": "byway",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


class Svg:
    """Holds the text of a drawing, once it is complete."""

    def __init__(self) -> None:
        self.text = ""


@contextmanager
def figure() -> Iterator[tuple[Any, Svg]]:
    """Axes to draw on, and the object that holds the drawing when the block is done."""
    import matplotlib as mpl

    svg = Svg()
    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]
        from matplotlib.figure import Figure

        drawn = Figure(figsize=SIZE, layout="constrained")
        yield drawn.add_subplot(), svg
        text = io.StringIO()
        drawn.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    svg.text = text.getvalue()[text.getvalue().index("<svg") :]
