"""Applies `testdata/renamed.csv` to the golden files: `python -m tests.golden.rename`.

A golden file changes either because a broker behaves differently, which a person reviews, or
because something has another name, which this table states and this script applies. Nothing else
rewrites names in golden files, so a change of names cannot hide a change of behaviour.
"""

import csv
import re
from pathlib import Path

DATA = Path(__file__).parents[2] / "testdata"
TABLE = DATA / "renamed.csv"
FILES = (*sorted(DATA.glob("golden/*.txt")), DATA / "wire/frames.txt")


def renamed(text: str, names: dict[str, str]) -> str:
    """The text with each old name, where it stands as whole words, replaced by the new one."""
    for old, new in names.items():
        text = re.sub(rf"\b{re.escape(old)}\b", new, text)
    return text


def main() -> None:
    """Rewrite every golden file."""
    with TABLE.open(newline="") as file:
        names = {row["old"]: row["new"] for row in csv.DictReader(file)}
    for path in FILES:
        before = path.read_text()
        after = renamed(before, names)
        if after != before:
            path.write_text(after)
            print(path.name)


if __name__ == "__main__":
    main()
