"""Whoever looks at a broker from outside asks `broker_status`; its parts are its own business."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INSIDE = ("src/byway/core", "tests/unit/core")
"""The core itself, and tests of its parts."""
PARTS = frozenset(
    "context recovery sync clients deliveries reachability behaviours publications cycles".split()
)
"""What a broker is made of."""


def outside() -> list[Path]:
    files = [
        path for folder in ("src", "tests", "benches") for path in (ROOT / folder).rglob("*.py")
    ]
    return [path for path in files if not str(path.relative_to(ROOT)).startswith(INSIDE)]


def is_broker(node: ast.expr) -> bool:
    """Whether an expression is called a broker: `broker`, `server.broker`."""
    name = node.id if isinstance(node, ast.Name) else getattr(node, "attr", "")
    return name == "broker"


def reads(source: str) -> Iterator[tuple[int, str]]:
    """Lines where a part of a broker is read, and which. `context` counts whatever it is read of,
    unless it is called, as pytest's is."""
    tree = ast.parse(source)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or node.attr not in PARTS or id(node) in called:
            continue
        if node.attr == "context" or is_broker(node.value):
            yield node.lineno, node.attr


def test_nobody_outside_the_core_reads_the_parts_of_a_broker() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: .{part}"
        for path in outside()
        for line, part in reads(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "part"),
    [
        ("old.context.ends", "context"),
        ("server.broker.clients.sessions['c']", "clients"),
        ("nodes['B'].broker.recovery.missing", "recovery"),
        ("broker.sync.states = {}", "sync"),
    ],
)
def test_such_a_read_is_found(source: str, part: str) -> None:
    assert list(reads(source)) == [(1, part)]


def test_other_things_of_the_same_name_are_not() -> None:
    assert list(reads("monkeypatch.context(); server.clients; broker.sessions")) == []
