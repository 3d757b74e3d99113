"""The tables of steps on the page about speed, made from the results of the bench.

`python -m tests.docs.step_tables` puts them into the page; `test_step_tables` fails while the page
has others.
"""

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/speed.md"
RESULTS = ROOT / "benches/results/steps.json"
SECTIONS = ("live", "simulated")


def with_tables(page: str) -> str:
    """The page with the tables of the last results."""
    found = json.loads(RESULTS.read_text())["sections"]
    for name in SECTIONS:
        pattern = re.compile(rf"<!-- {name} -->\n(\n\|.*\n(\|.*\n)*)?")
        assert len(pattern.findall(page)) == 1, name
        page = pattern.sub(lambda _, n=name: f"<!-- {n} -->\n\n{table(found[n])}", page)
    return page


def table(section: dict[str, Any]) -> str:
    """The figures of one section."""
    rows = ["| step | µs |", "|---|---|"]
    for name, figure in section["figures"].items():
        text = f"**{name}** | **{figure['value']:.2f}**" if is_total(name) else (
            f"{name} | {figure['value']:.2f}"
        )  # fmt: skip
        rows.append(f"| {text} |")
    return "\n".join(rows) + "\n"


def is_total(name: str) -> bool:
    return name == "all" or name.endswith(": all, as a process")


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
