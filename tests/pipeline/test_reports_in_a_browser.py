"""The report pages in a real browser: nothing is wider than the window, on a desk or on a phone.

Chromium is used where it is installed (`chromium` on the path).
"""

import html
import re
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from byway.pipeline.claims.judging import Judgement, Verdict
from byway.pipeline.claims.report import write_report
from byway.pipeline.claims.reproduction import ClaimResult, ClaimRow, Reproduction
from byway.pipeline.storm.script import POLICIES
from byway.pipeline.storm.storm_plots import Line, draw
from byway.pipeline.storm.storm_report import REPORTED, demo_page
from byway.pipeline.sweeps import SweepOutcome
from tests.pipeline.test_storm import MESH, SHOWCASE

ROOT = Path(__file__).parents[2]
CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--dump-dom",
    "--virtual-time-budget=5000",
)  # fmt: skip
FRAME = """\
<!DOCTYPE html>
<iframe id="page" width="{width}" height="800" style="border: 0" srcdoc="{page}"></iframe>
<script>
document.getElementById("page").addEventListener("load", event => {{
  const page = event.target.contentDocument;
  document.title = `needs ${{page.documentElement.scrollWidth}}`;
}});
</script>
"""

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here"),
]


def width_needed(page: str, width: int, directory: Path) -> int:
    """How wide a page is in a window of this width."""
    file = directory / "frame.html"
    file.write_text(FRAME.format(width=width, page=html.escape(page)))
    done = subprocess.run(
        [str(CHROMIUM), *FLAGS, f"--user-data-dir={directory}/profile", file.as_uri()],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    found = re.search(r"<title>needs (\d+)</title>", done.stdout)
    assert found is not None, done.stdout[:1000]
    return int(found[1])


def page_of_the_demo() -> str:
    runs = [f"{how} {policy}" for how in ("live", "simulated") for policy in POLICIES]
    numbers = {name: 1_234_567.0 for name, _ in REPORTED}
    lines = [Line(run, [0.0, 1.0], [1.0, 1_000.0]) for run in runs]
    found = "When 40 broad subscriptions ended, something was found."
    rows = [{"run": run, **numbers} for run in runs]
    plots = [draw(lines, "control messages a second")]
    return demo_page(found, "A setup.", rows, plots, SHOWCASE, MESH)


def page_of_the_claims(directory: Path) -> str:
    """The page of the committed results."""
    told = msgspec.json.decode((ROOT / "docs/results/results.json").read_bytes())
    results = tuple(
        ClaimResult(
            id=claim["id"],
            title=claim["title"],
            verdict=Verdict(
                reproduced=claim["reproduced"],
                reason=claim["reason"],
                judgements=msgspec.convert(claim["statements"], tuple[Judgement, ...]),
            ),
            rows=msgspec.convert(claim["rows"], tuple[ClaimRow, ...]),
        )
        for claim in told["claims"]
    )
    outcome = SweepOutcome(0, 0, (), 0, directory / "metrics")
    seeds = {result.id: 3 for result in results}
    found = Reproduction(results, outcome, is_full=True, seeds=seeds, changed={})
    return write_report(found, directory, told["command"]).read_text()


@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_of_the_demo_is_wider_than_the_window(width: int, tmp_path: Path) -> None:
    assert width_needed(page_of_the_demo(), width, tmp_path) <= width


@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_of_the_claims_is_wider_than_the_window(width: int, tmp_path: Path) -> None:
    assert width_needed(page_of_the_claims(tmp_path), width, tmp_path) <= width


def test_what_is_too_wide_is_found(tmp_path: Path) -> None:
    assert width_needed("<div style='width: 600px'>wide</div>", 400, tmp_path) > 600
