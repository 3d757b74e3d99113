"""What an entry knows changes in a few files, which tell whoever copies its table of it."""

import ast
from pathlib import Path

CORE = Path(__file__).parents[2] / "src/byway/core"
CHANGED = {"forwarded", "awaiting", "following", "followers", "announced", "placeholder"}
MUTATING = {"pop", "popitem", "clear", "setdefault", "update", "append"}
ALLOWED = {
    "advertisements.py",
    "subscriptions.py",
    "routing.py",
    "routing_copy.py",
    "tables.py",
    "snapshot/restoring.py",
}


def changes(source: str) -> list[int]:
    """The lines in which a field of an entry is changed."""
    found = []
    for node in ast.walk(ast.parse(source)):
        for target in _targets(node):
            while isinstance(target, ast.Subscript):
                target = target.value
            if isinstance(target, ast.Attribute) and target.attr in CHANGED:
                owner = target.value.id if isinstance(target.value, ast.Name) else ""
                if owner not in ("self", "release"):
                    found.append(node.lineno)
    return found


def _targets(node: ast.AST) -> list[ast.expr]:
    """What a statement assigns or deletes, or a call changes."""
    match node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            return [e for t in targets for e in (t.elts if isinstance(t, ast.Tuple) else [t])]
        case ast.AugAssign(target=target):
            return [target]
        case ast.Call(func=ast.Attribute(attr=name, value=value)) if name in MUTATING:
            return [value]
    return []


def test_a_change_is_found() -> None:
    lines = "e.forwarded = x", "e.awaiting[l] = 1", "del e.following[l]", "e.followers.pop(l)"
    for line in (*lines, "e.announced += 1", "e.settled, e.placeholder = 1, 2"):
        assert changes(line) == [1]
    assert changes("self.forwarded = 1; x = e.forwarded") == []


def test_entries_change_where_their_table_is_told() -> None:
    found = {
        path.relative_to(CORE).as_posix(): lines
        for path in sorted(CORE.rglob("*.py"))
        if (lines := changes(path.read_text()))
    }
    assert set(found) <= ALLOWED
    assert {"advertisements.py", "subscriptions.py", "routing.py"} <= set(found)
