"""The import contracts of pyproject.toml hold, and they can fail."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINT_IMPORTS = Path(sys.executable).with_name("lint-imports")

PACKAGES = (
    "model matching trace workload core session wire inbox transport client storage runtime sim "
    "story local pipeline web cli"
).split()
LAYERS = "Each package imports only from the layers below it"
PURE = "Time, chance and I/O come in through the drivers"


def lint_imports(source: Path) -> subprocess.CompletedProcess[str]:
    """Judge the package `byway` in `source` by the contracts of this repository."""
    config = str(ROOT / "pyproject.toml")
    return subprocess.run(
        [LINT_IMPORTS, "--no-cache", "--config", config],
        cwd=source,  # first on the linter's path, so this copy is the one it reads
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """An empty `byway` with every package in it."""
    for package in ["", *PACKAGES]:
        room = tmp_path / "byway" / package
        room.mkdir()
        (room / "__init__.py").touch()
    for module in ("clock", "blocking"):
        (tmp_path / f"byway/{module}.py").touch()
    return tmp_path


def test_this_repository_keeps_its_contracts() -> None:
    result = lint_imports(ROOT / "src")
    assert result.returncode == 0, result.stdout


def test_drivers_may_read_clocks_and_look_down(house: Path) -> None:
    (house / "byway/runtime/driver.py").write_text("import asyncio, time, byway.core, byway.wire\n")
    (house / "byway/sim/clock.py").write_text("import random, byway.core, byway.workload\n")
    (house / "byway/cli/main.py").write_text("import datetime, byway.pipeline, byway.web\n")
    result = lint_imports(house)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    ("room", "statement", "contract"),
    [
        ("model", "import byway.matching", LAYERS),
        ("matching", "import byway.workload", LAYERS),
        ("trace", "from byway.core import broker", LAYERS),
        ("core", "def f():\n    import byway.wire", LAYERS),
        ("session", "import byway.client", LAYERS),
        ("core", "import byway.inbox", LAYERS),
        ("inbox", "import byway.runtime", LAYERS),
        ("sim", "from byway import runtime", LAYERS),
        ("web", "import byway.cli", LAYERS),
        ("attic", "", LAYERS),
        ("model", "from datetime import datetime", PURE),
        ("workload", "import random", PURE),
        ("wire", "import socket", PURE),
        ("core", "import asyncio.events", PURE),
        ("session", "import asyncio", PURE),
        ("inbox", "import time", PURE),
        ("core.mesh", "import time", PURE),
    ],
)
def test_an_intruder_is_reported(house: Path, room: str, statement: str, contract: str) -> None:
    intruder = house / "byway" / room.replace(".", "/") / "__init__.py"
    intruder.parent.mkdir(exist_ok=True)
    intruder.write_text(statement)
    result = lint_imports(house)
    assert result.returncode == 1
    assert f"{contract} BROKEN" in result.stdout
    assert f"byway.{room}" in result.stdout
