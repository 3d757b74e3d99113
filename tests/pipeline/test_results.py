"""The committed results of `byway reproduce`: of today's claims, and told as they are."""

import csv
import json
import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from byway.pipeline.claims.catalogue import CLAIMS
from byway.pipeline.claims.judging import in_words

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs/results"
RUNS_MIN = 3


class Results(NamedTuple):
    """One committed file, and the page that tells it."""

    told: dict[str, Any]
    page: str

    @property
    def claims(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.told["claims"]
        return found

    @property
    def verdicts(self) -> dict[str, str]:
        return {c["id"]: "yes" if c["reproduced"] else "no" for c in self.claims}

    @property
    def section(self) -> str:
        """What the page says from the command on, to the next heading."""
        return self.page[self.page.index(f"\n{self.told['command']}\n") :].partition("\n## ")[0]


def read(name: str, page: str) -> Results:
    told = json.loads((RESULTS / f"{name}.json").read_text())
    return Results(told, (RESULTS / f"{page}.md").read_text())


FILES = {
    path.stem: read(path.stem, "mesh" if path.stem.startswith("mesh") else "index")
    for path in sorted(RESULTS.glob("*.json"))
}
EACH = pytest.mark.parametrize("results", FILES.values(), ids=list(FILES))


def test_every_claim_has_results_or_is_named_as_one_without() -> None:
    have = {claim["id"] for results in FILES.values() for claim in results.claims}
    for page, first in (("index", "U"), ("mesh", "M")):
        text = (RESULTS / f"{page}.md").read_text()
        lines = re.findall(r"^Without committed results: (.*)\.$", text, re.MULTILINE)
        missing = [id for id in CLAIMS if id.startswith(first) and id not in have]
        assert lines == ([", ".join(missing)] if missing else [])


@EACH
def test_they_judge_what_is_claimed_today(results: Results) -> None:
    """A claim that is changed has to be run again."""
    for told in results.claims:
        claim = CLAIMS[told["id"]]
        statements = [judgement["statement"] for judgement in told["statements"]]
        assert statements == [in_words(claim, stated.statement) for stated in claim.statements]
        rows = {(row["measure"], row["at"], row["contender"]): row for row in told["rows"]}
        for value in claim.paper_values:
            assert rows[value.measure, value.at, value.contender]["printed"] == value.value
        assert min(row["runs"] for row in told["rows"]) >= RUNS_MIN


@EACH
def test_the_command_is_the_one_that_makes_them(results: Results) -> None:
    words = shlex.split(results.told["command"])
    assert words[:2] == ["byway", "reproduce"]
    named = [word for word in words[2:] if word in CLAIMS]
    told = [claim["id"] for claim in results.claims]
    assert named == told or (not named and told == [id for id in CLAIMS if id in told])
    assert ("--full" in words) == (results.told["size"] == "full")
    changed = {
        key: value
        for word, setting in pairwise(words)
        if word == "--set"
        for key, _, value in [setting.partition("=")]
    }
    assert changed == results.told.get("changed", {})


@EACH
def test_the_page_tells_the_same_verdicts(results: Results) -> None:
    told = verdict_rows(results.section)
    assert {id: verdict for id, verdict in told if id in results.verdicts} == results.verdicts


def test_the_pages_tell_no_verdict_that_was_not_measured() -> None:
    for page in sorted({results.page for results in FILES.values()}):
        measured = [
            x
            for results in FILES.values()
            if results.page == page
            for x in results.verdicts.items()
        ]
        assert sorted(verdict_rows(page)) == sorted(measured)


def verdict_rows(text: str) -> list[tuple[str, str]]:
    """The claims of the tables in a text, with *yes* or *no*."""
    return re.findall(r"^\| ([UM]\d+) \|.*\| (yes|no) \|$", text, re.MULTILINE)


@EACH
def test_the_page_says_what_is_assumed(results: Results) -> None:
    """Those of U1 to U9 are on a page of the scenarios, in more words."""
    page = " ".join(results.page.split())
    for id in results.verdicts:
        if id.startswith("M") or id in ("U5", "U6", "U10"):
            for assumption in CLAIMS[id].assumed:
                assert f"- {assumption}" in page


@pytest.mark.parametrize("name", FILES)
def test_the_table_has_the_same_rows(name: str) -> None:
    with (RESULTS / f"{name}.csv").open() as file:
        rows = list(csv.DictReader(file))
    claims = FILES[name].claims
    assert len(rows) == sum(len(claim["rows"]) for claim in claims)
    assert [row["claim"] for row in rows] == [c["id"] for c in claims for _ in c["rows"]]


def test_what_is_not_reproduced_has_a_section() -> None:
    """Of the claims about pruning, those and no others; the page of the mesh tells of all."""
    failed = {
        id: results
        for results in FILES.values()
        for id, verdict in results.verdicts.items()
        if verdict == "no"
    }
    for id, results in failed.items():
        assert re.search(rf"^##+ {id}\b", results.page, re.MULTILINE), id
    for id in re.findall(r"^##+ (U\d+)\b", (RESULTS / "index.md").read_text(), re.MULTILINE):
        assert id in failed


def test_the_readme_links_to_them() -> None:
    assert "docs/results/index.md" in (ROOT / "README.md").read_text()
