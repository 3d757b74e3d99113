"""All of it in a session of the caller's own; `test_elsewhere` does so elsewhere, too."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from byway.pipeline.java import java_home

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(300)
@pytest.mark.slow
def test_a_session_that_is_not_ours_gives_the_same_answers_and_stays_as_it_was(
    tmp_path: Path,
) -> None:
    """Its settings differ wherever results could depend on them; its filesystem is not local."""
    with java_home():
        done = subprocess.run(
            [sys.executable, "-m", "tests.pipeline.own_session", tmp_path],
            env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_CONF_DIR": str(tmp_path)},
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "done\n"
    assert "Traceback" not in done.stderr
    assert "FileNotFoundException" not in done.stderr  # Spark logs where it looked for nothing
