"""Tables of plain text whose columns line up, whatever the width of the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len


def columns(
    heads: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[str] = ()
) -> list[str]:
    """The lines of a table; the columns named in `right` are aligned there. No line is cut."""
    table = [list(heads), *(list(map(printable, row)) for row in rows)]
    widths = [max(map(cell_len, column)) for column in zip(*table, strict=True)]
    lines = []
    for row in table:
        cells = []
        for head, cell, width in zip(heads, row, widths, strict=True):
            gap = " " * (width - cell_len(cell))
            cells.append(gap + cell if head in right else cell + gap)
        lines.append("  ".join(cells).rstrip())
    return lines


def printable(text: str) -> str:
    """A text without signs that would move the cursor; others name clients and write filters."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)
