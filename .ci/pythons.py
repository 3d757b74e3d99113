"""Try byway with every Python it is meant for that is on this machine, as on a new machine.

Each gets a fresh environment, made by `make setup` with an empty pip cache, and an empty kernel
cache, all in a temporary directory that is removed. In it byway is imported and used, over loopback
too, some tests are run, and a wheel is installed where nothing else is. Printed is a table; the
exit code is 1 if anything failed or if none of them was found.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSIONS = ("3.11", "3.12", "3.13")
STEP_S = 1_800
TESTS = (
    "tests/unit/model",
    "tests/unit/wire",
    "tests/unit/matching",
    "tests/unit/runtime",
    "tests/unit/test_cli.py",
    "tests/integration/test_client_blocking.py",
    "tests/integration/test_cli_network.py",
    "tests/pipeline/test_spark_session.py",
)
INSTALL = "tests/integration/test_small_install.py"
"""A wheel in an environment that has nothing else, with and without extras."""


def find(version: str) -> str | None:
    """An interpreter of this version: on the path, or among those of pyenv."""
    candidates = [shutil.which(f"python{version}"), sys.executable]
    if pyenv := shutil.which("pyenv"):
        root = subprocess.run([pyenv, "root"], capture_output=True, text=True, check=False)
        if root.returncode == 0:
            found = Path(root.stdout.strip(), "versions").glob(f"{version}.*/bin/python{version}")
            candidates += sorted(map(str, found))
    return next((each for each in candidates if each and is_a(version, each)), None)


def is_a(version: str, interpreter: str) -> bool:
    """Whether it runs and is of this version; a name on the path may be that of a mere shim."""
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        said = subprocess.run(
            [interpreter, "-c", program], capture_output=True, text=True, check=False
        )
    except OSError:
        return False
    return said.returncode == 0 and said.stdout.strip() == version


def steps(interpreter: str, venv: Path) -> list[tuple[str, list[str]]]:
    """What is tried, in this order."""
    python, byway = str(venv / "bin" / "python"), str(venv / "bin" / "byway")
    pytest = [python, "-m", "pytest", "-p", "no:cacheprovider"]
    example = (ROOT / "docs/guide/client.md").read_text().split("```python\n")[1].split("```")[0]
    return [
        ("make setup", ["make", f"PYTHON={interpreter}", f"VENV={venv}", "setup"]),
        ("pip check", [python, "-m", "pip", "--disable-pip-version-check", "check"]),
        ("import byway", [python, "-c", "import byway"]),
        ("byway filter check", [byway, "filter", "check", "symbol = 'YHOO' AND price > 18"]),
        ("first example", [python, "-c", example]),  # it also compiles the kernels
        ("tests", [*pytest, *TESTS]),
        ("install", [*pytest, "-m", "", INSTALL]),  # the slow ones, too: with pip
    ]


def attempt(interpreter: str) -> tuple[bool, str]:
    """Whether all went well, and what to say of it."""
    with tempfile.TemporaryDirectory(prefix="byway-") as scratch:
        places = {"PIP_CACHE_DIR": f"{scratch}/pip", "NUMBA_CACHE_DIR": f"{scratch}/kernels"}
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "MAKE"))}
        told = []
        for name, command in steps(interpreter, Path(scratch, "venv")):
            begun = time.monotonic()
            try:
                done = subprocess.run(
                    command, cwd=ROOT, env=kept | places, stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=STEP_S,
                    check=False,
                )  # fmt: skip
                code, output = done.returncode, done.stdout
            except subprocess.TimeoutExpired as error:
                code, output = 1, f"{error.stdout or ''}\nnot done in {STEP_S} s"
            if code:
                print(output, flush=True)
                return False, f"{name} failed"
            told.append(f"{name} {time.monotonic() - begun:.0f} s")
            print(f"  {told[-1]}", flush=True)
        return True, ", ".join(told)


def main() -> int:
    """Try all, then print the table."""
    rows = []
    for version in VERSIONS:
        interpreter = find(version)
        if interpreter is None:
            rows.append((version, "not here", ""))
            continue
        print(f"Python {version}", flush=True)
        is_fine, told = attempt(interpreter)
        rows.append((version, "passed" if is_fine else "FAILED", told))
    for version, outcome, told in [("Python", "outcome", "what was done"), *rows]:
        print(f"{version:<8}{outcome:<10}{told}".rstrip())
    outcomes = {outcome for _, outcome, _ in rows}
    return 1 if "FAILED" in outcomes or "passed" not in outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
