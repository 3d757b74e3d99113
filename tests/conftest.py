"""Settings of the whole suite: how long Hypothesis looks, and kernels compiled beforehand.

The default profile repeats the same examples on every run; `BYWAY_HYPOTHESIS=thorough` looks fifty
times longer, with fresh ones (add `--timeout=0`). A failure prints the blob that reproduces it.
"""

import os

import pytest
from hypothesis import HealthCheck, settings

from byway.core import window
from byway.matching import ensure_kernels

IS_SOURCE = window.__file__.endswith(".py")

settings.register_profile(
    "default",
    max_examples=100,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "thorough",
    settings.get_profile("default"),
    max_examples=5_000,
    derandomize=False,
)
settings.load_profile(os.environ.get("BYWAY_HYPOTHESIS", "default"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-golden", action="store_true", help="write the golden files of tests/golden anew"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Compile the kernels once, before workers and their time limits begin."""
    if not hasattr(config, "workerinput"):
        ensure_kernels()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out what compiled modules do not allow: their classes and constants are fixed."""
    fixed = pytest.mark.skip(reason="the module is compiled, and cannot be changed")
    for item in items:
        if item.get_closest_marker("interpreted") is not None and not IS_SOURCE:
            item.add_marker(fixed)
