"""The committed results of `byway reproduce --full`: of today's claims, and told as they are."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from byway.pipeline.claims.catalogue import CLAIMS
from byway.pipeline.claims.judging import in_words

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs/results"
PRUNING = {id: claim for id, claim in CLAIMS.items() if id.startswith("U")}
PAGE = (RESULTS / "index.md").read_text()


@pytest.fixture(scope="module")
def results() -> dict[str, Any]:
    told: dict[str, Any] = json.loads((RESULTS / "results.json").read_text())
    return told


def test_all_claims_were_run_in_their_published_size(results: dict[str, Any]) -> None:
    assert results["size"] == "full"
    assert [claim["id"] for claim in results["claims"]] == list(PRUNING)
    assert min(row["runs"] for claim in results["claims"] for row in claim["rows"]) >= 3


@pytest.mark.parametrize("claim", PRUNING.values(), ids=list(PRUNING))
def test_they_judge_what_is_claimed_today(results: dict[str, Any], claim: Any) -> None:
    """A claim that is changed has to be run again."""
    told = next(found for found in results["claims"] if found["id"] == claim.id)
    statements = [judgement["statement"] for judgement in told["statements"]]
    assert statements == [in_words(claim, stated.statement) for stated in claim.statements]
    rows = {(row["measure"], row["at"], row["contender"]): row for row in told["rows"]}
    for value in claim.paper_values:
        assert rows[value.measure, value.at, value.contender]["printed"] == value.value


def test_the_page_tells_the_same_verdicts(results: dict[str, Any]) -> None:
    told = dict(re.findall(r"^\| (\w+) \|.*\| (yes|no) \|$", PAGE, re.MULTILINE))
    verdicts = {c["id"]: "yes" if c["reproduced"] else "no" for c in results["claims"]}
    assert told == verdicts
    assert results["command"] in PAGE
    for name in re.findall(r"^## (\w+)", PAGE, re.MULTILINE):
        assert verdicts[name] == "no", "only what is not reproduced needs a section"
    for name, verdict in verdicts.items():
        assert verdict == "yes" or re.search(rf"^## {name}\b", PAGE, re.MULTILINE)


def test_the_table_has_the_same_rows(results: dict[str, Any]) -> None:
    with (RESULTS / "results.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(len(claim["rows"]) for claim in results["claims"])


def test_the_readme_links_to_them() -> None:
    assert "docs/results/index.md" in (ROOT / "README.md").read_text()


@pytest.mark.parametrize(("name", "size"), [("mesh", "full"), ("mesh-small", "quick")])
def test_the_mesh_page_tells_what_was_run(name: str, size: str) -> None:
    told = json.loads((RESULTS / f"{name}.json").read_text())
    page = (RESULTS / "mesh.md").read_text()
    assert told["size"] == size
    section = page[page.index(told["command"]) :].partition("\n## ")[0]
    verdicts = {c["id"]: "yes" if c["reproduced"] else "no" for c in told["claims"]}
    assert dict(re.findall(r"^\| (M\d+) \|.*\| (yes|no) \|$", section, re.MULTILINE)) == verdicts
    for found in told["claims"]:
        claim = CLAIMS[found["id"]]
        statements = [judgement["statement"] for judgement in found["statements"]]
        assert statements == [in_words(claim, stated.statement) for stated in claim.statements]
        assert min(row["runs"] for row in found["rows"]) >= 3
    with (RESULTS / f"{name}.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(len(claim["rows"]) for claim in told["claims"])


def test_what_has_no_results_yet_is_named() -> None:
    names = ("mesh", "mesh-small")
    told = [json.loads((RESULTS / f"{name}.json").read_text()) for name in names]
    have = {claim["id"] for one in told for claim in one["claims"]}
    page = (RESULTS / "mesh.md").read_text()
    (line,) = re.findall(r"^Without committed results: (.*)\.$", page, re.MULTILINE)
    assert line.split(", ") == [id for id in CLAIMS if id.startswith("M") and id not in have]
