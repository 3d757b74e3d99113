"""No file of the repository says where packages are fetched from: that is the user's business."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Written with character classes so that this file does not contain what it looks for.
INDEX_ADDRESS = re.compile(
    rb"(?i)index[-_]url|find[-_]links|trusted[-_]host|https?://[^\s\"'<>]*/simpl[e]\b|(files\.|//|\.)py[p]i\."
)


def repository_files() -> list[Path]:
    """Files that are tracked, or would be by the next `git add`; all files outside a checkout."""
    listing = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listing.returncode != 0:  # an unpacked source distribution
        names = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
        made = ("__pycache__", "build", "site")
        return [
            ROOT / name for name in names
            if not any(part.startswith(".") or part in made for part in name.parts)
        ]  # fmt: skip
    tracked = listing.stdout.decode().split("\0")
    return [ROOT / name for name in tracked if name and (ROOT / name).is_file()]


def test_no_file_names_a_package_index() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match.group().decode()}"
        for path in repository_files()
        if (match := INDEX_ADDRESS.search(path.read_bytes()))
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        b"--index" + b"-url https://example.org/",
        b"PIP_INDEX" + b"_URL=x",
        b"https://example.org/a/simp" + b"le/",
        b"--find" + b"-links wheels/",
    ],
)
def test_an_index_address_is_recognised(line: bytes) -> None:
    assert INDEX_ADDRESS.search(line)
